"""Edits change one step and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handoff.base.errors import HandoffError, Refused, UserError
from handoff.feature.plan import edit as plan_edit
from handoff.feature.plan import parse
from handoff.feature.plan.edit import keep_in_step

HEAD = "\ufeff# State\r\n\r\n# Current Step\r\nx \r\n\r\n# Execution Plan\r\n"
TEXT = HEAD + "- [>] a  (check: true)\r\n  more about a\r\n* [ ] b\r\n\r\n# Risks\t\r\nNone"


def changed_lines(before: str, after: str) -> list[tuple[str, str]]:
    old, new = before.split("\r\n"), after.split("\r\n")
    assert len(old) == len(new)
    return [(a, b) for a, b in zip(old, new, strict=True) if a != b]


def test_finishing_a_step_ticks_it_with_evidence_and_moves_the_mark():
    after = plan_edit.finish(TEXT, 1, "abc123 2026-01-01T00:00:00Z")
    assert changed_lines(TEXT, after) == [
        ("- [>] a  (check: true)", "- [x] a  (check: true)  (done: abc123 2026-01-01T00:00:00Z)"),
        ("* [ ] b", "* [>] b"),
    ]


def test_finishing_another_step_than_the_current_one_leaves_the_mark():
    after = plan_edit.finish(TEXT, 2, "e")
    assert changed_lines(TEXT, after) == [("* [ ] b", "* [x] b  (done: e)")]


def test_blocking_writes_the_reason_and_starting_takes_it_away():
    blocked = plan_edit.block(TEXT, 1, "needs a key")
    assert parse(blocked).step(0).reason == "needs a key"
    assert parse(blocked).current.text == "b"
    again = plan_edit.begin(blocked, 1)
    assert parse(again).current.text == "a"
    assert again == TEXT


def test_dropping_keeps_the_step_visible():
    after = plan_edit.drop(TEXT, 2, "not wanted")
    assert changed_lines(TEXT, after) == [("* [ ] b", "* [-] b  (dropped: not wanted)")]


def test_adding_puts_a_step_after_the_lines_that_belong_to_the_one_before():
    after = plan_edit.add(TEXT, "new one", after=1, check="make test")
    assert after == TEXT.replace("  more about a\r\n", "  more about a\r\n- [ ] new one  (check: make test)\r\n")


def test_adding_to_a_numbered_list_goes_on_counting():
    text = "# Execution Plan\n1. [x] a\n2. [ ] b"
    assert plan_edit.add(text, "c", after=None) == text + "\n3. [ ] c"


def test_adding_to_an_unwritten_plan_replaces_the_placeholder():
    text = "# Execution Plan\nNot yet generated.\n\n# Risks\n"
    assert plan_edit.add(text, "first", after=None) == "# Execution Plan\n- [>] first\n\n# Risks\n"


@pytest.mark.parametrize("edit", [plan_edit.block, plan_edit.drop])
def test_a_finished_step_cannot_be_blocked_or_dropped(edit):
    done = plan_edit.finish(TEXT, 1, "e")
    with pytest.raises(Refused):
        edit(done, 1, "why")


def test_an_invalid_plan_is_not_edited():
    with pytest.raises(Refused, match="line 2"):
        plan_edit.finish("# Execution Plan\n+ [ ] a\n", 1, "e")


@pytest.mark.parametrize("text", ["", "  \n ", "half (open"])
def test_text_that_could_not_be_read_back_is_refused(text):
    with pytest.raises(UserError):
        plan_edit.one_line(text, "reason")


STEPS = st.lists(
    st.tuples(
        st.sampled_from([" ", "x", "X", ">"]),
        st.text("ab .", min_size=1, max_size=6),
        st.sampled_from(["- ", "* ", "1. "]),
    ),
    min_size=1,
    max_size=7,
)
EDITS = st.lists(
    st.tuples(
        st.sampled_from(["finish", "block", "drop", "begin", "add"]), st.integers(1, 8), st.text("ab ()", max_size=6)
    ),
    max_size=6,
)


@settings(max_examples=300)
@given(STEPS, EDITS)
def test_whatever_the_edits_no_finished_mark_is_ever_lost(steps, edits):
    text = (
        "# Execution Plan\n"
        + "".join(f"{bullet}[{mark}] {word}\n" for mark, word, bullet in steps)
        + "\n# Risks\nNone\n"
    )
    for kind, number, word in edits:
        before = [parse(text).step(i) for i in range(len(parse(text).marks))]
        try:
            if kind == "add":
                text = plan_edit.add(text, word, after=number)
            elif kind == "begin":
                text = plan_edit.begin(text, number)
            else:
                text = getattr(plan_edit, kind)(text, number, word)
        except HandoffError:
            continue
        after = parse(text)
        assert after.problems == ()
        done = [step.text for step in before if step.mark == "x"]
        kept = [after.step(i).text for i, (_, mark, _) in enumerate(after.marks) if mark == "x"]
        for name in set(done):
            assert kept.count(name) >= done.count(name)


def test_the_lists_beside_the_plan_follow_it_and_other_words_stay():
    text = (
        "# Current Step\r\na\r\n\r\n# Execution Plan\r\n- [x] a\r\n- [>] b\r\n\r\n# Completed Steps\r\n\r\nFound on the way: x.\r\n"
        "1. [x] gone\r\n\n# Remaining Steps\r\n- [ ] a\r\n- b\r\n# Risks\r\nNone"
    )
    after = keep_in_step(text)
    assert after == text.replace("# Current Step\r\na", "# Current Step\r\nb").replace(
        "1. [x] gone\r\n", "1. [x] gone\r\n- a\r\n"
    ).replace("- [ ] a\r\n- b\r\n", "- b\r\n")
    assert keep_in_step(after) == after
    bare = "# Execution Plan\n- [x] a\n# Remaining Steps\n# Completed Steps"
    assert keep_in_step(bare) == "# Execution Plan\n- [x] a\n# Remaining Steps\nNone\n# Completed Steps\n- a\n"
    assert keep_in_step("# Execution Plan\n+ [ ] a\n# Remaining Steps\n- b\n").endswith("- b\n")
    words = "# Current Step\nWaiting for Ann.\n# Execution Plan\n- [>] a\n"
    assert keep_in_step(words) == words.replace("Waiting", "a\nWaiting")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("2", "1"), ("2 of 3", "1 of 3"), ("3 steps left.", "1 steps left."), ("- Remaining: 2", "- Remaining: 1"), ("**2**", "**1**"),
        ("- Step 2: b\n- Step 3: c", "- c"), ("2 are hard", "2 are hard\n- c"), ("None", "- c"),
    ],
)  # fmt: skip
def test_a_number_that_stands_for_the_remaining_steps_is_the_right_one(before, after):
    text = "# Execution Plan\n- [x] a\n- [x] b\n- [>] c\n\n# Remaining Steps\n{}\n\n# Risks\nNone\n"
    assert keep_in_step(text.format(before)) == text.format(after)
    assert keep_in_step(text.format(after)) == text.format(after)


@pytest.mark.parametrize("said", ["b", "Step 2: b", "2. b", "Step 2", "2", "Step 2 of 3: b", "- [>] b", "Step 2 - b"])
def test_the_current_step_is_named_anew_however_its_number_was_written(said):
    text = "# Current Step\n{}\nMind the gap.\n\n# Execution Plan\n- [x] a\n- [x] b\n- [>] c\n"
    assert keep_in_step(text.format(said)) == text.format("c")

"""The plan is never misread."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handoff.feature.plan import BLOCKED, COMPLETE, EMPTY, INVALID, VALID, lines, parse
from handoff.feature.templates import packaged_template
from workspaces import PLACES, RUST_VERSIONS, rust_state

if TYPE_CHECKING:
    from handoff.feature import plan as plans

HEAD = "# State\n\n# Current Step\nSomething\n\n# Execution Plan\n"


def plan_of(body: str) -> plans.Plan:
    return parse(HEAD + body)


def test_the_three_marks_and_three_list_styles_are_steps():
    plan = plan_of("- [x] one\n* [>] two\n1. [ ] three\n   - [X] nested\n")
    assert plan.verdict == VALID
    assert [mark for _, mark, _ in plan.marks] == ["x", ">", " ", "x"]
    assert plan.current.text == "two"
    assert (plan.done, plan.left) == (2, 2)


@pytest.mark.parametrize(
    "line",
    [
        "+ [ ] open", "1) [ ] open", "[ ] open", "- [~] open", "- [] open", "- [> ] open", "-[ ] open",
        "-\u00a0[ ] open", "- [\u00a0] open", "- **[ ]** open", "- `[ ]` open", "> - [ ] open", "| [ ] | open |",
        "- \u2610 open", "- ( ) open", "\u2022 [ ] open", "- [todo] open", "- [?] open", "- [o] open", "## [ ] open",
        "a) [ ] open", "- `[ ]` a new page", "- `[ ]` pending invoices", "- [ x] odd", "\uff3b \uff3d open",
        "\u0661. [ ] open", "Step 2: [ ] open", "Todo: [ ] open", "- open [ ]", "open [ ]", "- [_] open", "\u2192 [ ] open",
        "\u00b7 [ ] open", "\u2023 [ ] open", "\u2460 [ ] open", "\u7b2c2\u6b65 [ ] open", "<li>[ ] open</li>", "\u2605\u2606 [ ] open",
        "- \\[ \\] open", "- [x] done, [ ] open", "[ ](open)", "Step 3: [] open", "Step 3 [>] open", "open \u2610",
        '<li><input type="checkbox"> open</li>', "- [\u200b] open", "Next: [todo] open",
    ],
)  # fmt: skip
def test_a_step_in_a_form_we_do_not_read_makes_the_plan_invalid_and_names_the_line(line):
    plan = plan_of(f"- [x] done\n{line}\n")
    assert plan.verdict == INVALID
    assert [problem.line for problem in plan.problems] == [8]
    assert plan.problems[0].fix


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("- [x] a\n# Phase 2\n- [ ] b\n", 9),
        ("- [x] a\n# Execution Plan\n- [ ] b\n", 8),
        ("- [x] a\n# [ ] b\n", 8),
        ("- [x] a\n```\nexample\n- [ ] b\n", 8),
        ("- [x] a\n<!-- later\n- [ ] b\n", 8),
        ("- [x] a\n<<<<<<< HEAD\n- [x] b\n=======\n- [ ] b\n>>>>>>> other\n", 8),
        ("- [x] a\n- [!] b\n", 8),
        ("- [x] a\n- [-] b\n", 8),
        ("- do this\n- and that\n", 7),
    ],
)
def test_structures_that_hide_steps_make_the_plan_invalid(body, line):
    plan = plan_of(body)
    assert plan.verdict == INVALID
    assert line in [problem.line for problem in plan.problems]


@pytest.mark.parametrize(
    "heading", ["## Execution Plan", "# execution plan", "# Execution Plan:", "#  Execution  Plan", "Execution Plan\n====", "**Execution Plan**", "# Plan de ejecución"],
)  # fmt: skip
def test_a_plan_below_a_heading_that_is_not_ours_is_invalid_not_empty(heading):
    plan = parse(f"# State\n\n{heading}\n- [x] a\n- [ ] b\n")
    assert plan.verdict == INVALID
    assert "# Execution Plan" in plan.problems[0].fix
    assert plan.problems[0].line == 3 or "ejecución" in heading


def test_two_current_steps_are_invalid_and_both_lines_are_named():
    plan = plan_of("- [>] a\n- [>] b\n")
    assert plan.verdict == INVALID
    assert plan.guard == "Invalid execution plan: multiple current steps ([>]) found."
    assert "7, 8" in plan.problems[0].fault


def test_a_current_step_inside_a_current_step_is_one_current_step():
    plan = plan_of("- [>] a\n  - [x] part\n  - [>] other part\n- [ ] b\n")
    assert plan.verdict == VALID
    assert plan.current.text == "other part"


def test_no_current_mark_is_valid_with_a_warning_and_the_first_pending_step_counts():
    plan = plan_of("- [x] a\n- [ ] b\n- [ ] c\n")
    assert plan.verdict == VALID
    assert plan.current.text == "b"
    assert "[>]" in plan.warnings[0]


def test_blocked_and_dropped_with_a_reason_are_understood_and_never_done():
    plan = plan_of("- [x] a\n- [!] b  (blocked: no key)\n- [-] c (dropped: not wanted (really))\n")
    assert plan.verdict == BLOCKED
    assert plan.done == 1
    assert [plan.step(1).reason, plan.step(2).reason] == ["no key", "not wanted (really)"]


def test_a_plan_is_complete_when_every_step_is_done_or_dropped():
    assert plan_of("- [x] a\n- [-] b  (dropped: no)\n").verdict == COMPLETE


def test_examples_in_closed_code_and_comments_are_not_steps():
    plan = plan_of("- [x] a\n```\n- [>] example\n# comment\n```\n<!-- - [>] example -->\n- [>] b\n")
    assert plan.verdict == VALID
    assert plan.current.text == "b"


def test_an_open_box_inside_code_keeps_the_plan_from_being_complete():
    plan = plan_of("- [x] a\n```\n- [ ] forgotten\n```\n")
    assert plan.verdict == INVALID
    assert plan.problems[0].line == 9


@pytest.mark.parametrize(
    "body", ["", "Not yet generated.\n", "Not yet generated.\n\n- `[ ]` pending\n- `[>]` current\n"]
)
def test_an_unwritten_plan_is_not_initialized(body):
    assert plan_of(body).verdict == EMPTY


def test_a_legend_of_the_marks_is_not_a_step():
    plan = plan_of("- `[ ]` pending\n- `[>]` = current step\n- `[x]` done\n\n- [x] a\n- [>] b\n")
    assert plan.verdict == VALID
    assert plan.current.text == "b"


def test_quoted_example_steps_are_passed_over_but_keep_the_plan_from_being_complete():
    examples = "> - [ ] step text\n> - [>] step text\n"
    assert plan_of(examples + "- [x] a\n- [>] b\n").verdict == VALID
    assert plan_of(examples + "- [x] a\n").verdict == INVALID


def test_a_plan_with_leftovers_of_the_scaffold_is_still_a_plan():
    text = "# Current Step\nNot started\n\n# Execution Plan\nNot yet generated.\n- [x] a\n- [ ] b\n"
    assert parse(text).verdict == VALID


@pytest.mark.parametrize("version", RUST_VERSIONS)
def test_a_state_of_the_rust_tool_is_read_wherever_its_plan_stands(version):
    assert parse(rust_state(version)).verdict == EMPTY
    for place in PLACES[1:]:
        plan = parse(rust_state(version, "- [x] Set up\n- [>] Parse\n  - [ ] quotes\n", place))
        assert (plan.verdict, plan.current.text, plan.done, plan.left) == (VALID, "Parse", 1, 2), (place, plan.problems)
        finished = parse(rust_state(version, "- [x] Set up\n- [x] Parse\n", place))
        assert (finished.verdict, finished.problems) == (COMPLETE, ()), place


@pytest.mark.parametrize(
    "line",
    [
        '- "- [ ] Step description" (pending)', '  * "[ ]" pending', 'Use "[>]" for it and "[ ]" for the others.', "'- [ ] text'",
        "A \u201c[ ]\u201d is open.", "\u201e- [ ] Schritt\u201c (offen)", "\u00ab [ ] \u00bb", "\u300c[ ]\u300d", '| "[ ]" | open |', '> "- [ ] text"',
        '- [x] Explain "[ ]" and \u2018[>]\u2019', '1) "[ ] text"', '"\u2610" stands for open', '**"[ ]"** is open', '("[ ]")',
    ],
)  # fmt: skip
def test_a_box_in_quotation_marks_is_text_wherever_it_stands(line):
    assert plan_of(f"- [x] a\n{line}\n").verdict == COMPLETE
    assert plan_of(f"{line}\n- [>] b\n").verdict == VALID
    assert parse(f"{line}\n\n{HEAD}- [>] b\n\n# Notes of mine\n{line}\n").verdict == VALID or "- [x]" in line


@pytest.mark.parametrize(
    "line",
    ['- "quoted" [ ] open', '- 5" pipe [ ] fit 3" valve', "don't [ ] forget John's", '" [ ] open', '[ ] "open"', "- 'tis [ ] open"],
)  # fmt: skip
def test_quotation_marks_beside_an_open_box_do_not_hide_it(line):
    assert plan_of(f"- [x] done\n{line}\n").verdict == INVALID


@pytest.mark.parametrize("text", ["", "   \n\n", "just words\n"])
def test_a_file_without_a_plan_section_is_invalid_not_empty(text):
    assert parse(text).verdict == INVALID


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_every_line_end_is_understood(end):
    text = (HEAD + "- [x] a\n- [>] b\n").replace("\n", end)
    assert parse(text).verdict == VALID


def test_a_byte_order_mark_does_not_hide_a_heading():
    assert parse("\ufeff# Execution Plan\n- [>] a\n").verdict == VALID


def test_links_citations_and_prose_are_not_steps():
    plan = plan_of(
        "- [x] a\n- see [the page](x) and [1]\n- [a link](y)\n[x]: http://example.invalid\nUse `[ ]` for open.\n"
        "- it returns [] when f( ) has int[] or a[-]; the reviewer [sic] said [...]\nSee ``- [ ] shown`` and `[ ]`\n"
        "Boxes: [ ] pending, [>] current, [x] done\n```\nopen = boxes[ ]\n```\n- [x] b (done: saw [ ])\n"
    )
    assert plan.verdict == COMPLETE


def test_a_check_may_hold_parentheses():
    step = plan_of("- [>] a  (check: pytest -k '(x)')  (done: abc)\n").current
    assert (step.text, step.check, step.done) == ("a", "pytest -k '(x)'", "abc")


def test_none_in_any_spelling_is_no_risk():
    assert parse(HEAD + "- [>] a\n\n# Risks\n- None.\nnone\n- real one\n").risks == ("real one",)


# --- whatever the edit -----------------------------------------------------------------------------

OPEN_FORMS = st.sampled_from(
    ["- [ ] {}", "- [>] {}", "* [ ] {}", "2. [ ] {}", "  - [ ] {}", "+ [ ] {}", "1) [ ] {}", "[ ] {}", "- [] {}",
     "> - [ ] {}", "| [ ] | {} |", "- **[ ]** {}", "-[ ] {}", "- [~] {}", "`[ ]` {}", "- [!] {}", "- [-] {}",
     "\t- [ ] {}", "*   [ ] {}", "- \u2610 {}"]
)  # fmt: skip
NOISE = st.sampled_from(
    ["", "Some words.", "```", "~~~", "<!--", "-->", "# Phase", "## Phase", "# Execution Plan", "# Risks", "---", "- plain",
     "- [x] done", "* [X] done too", "text [x](y)", "\u2705 fine", "====="]
)  # fmt: skip


@settings(max_examples=600)
@given(st.lists(NOISE, max_size=8), OPEN_FORMS, st.lists(NOISE, max_size=8), st.text("abc", min_size=1, max_size=5))
def test_a_plan_with_an_open_box_is_never_called_complete(before, form, after, word):
    if "# Risks" in before:  # then the box stands outside the plan
        before = [line for line in before if line != "# Risks"]
    plan = plan_of("\n".join(["- [x] first", *before, form.format(word), *after]) + "\n")
    assert plan.verdict != COMPLETE
    assert plan.verdict != EMPTY


@settings(max_examples=200)
@given(
    st.text(st.characters(exclude_characters="`\r\n", exclude_categories=("Cs",)), max_size=8),
    st.text("ab ", max_size=3),
)
def test_a_bullet_nobody_has_thought_of_yet_hides_no_open_box(bullet, words):
    plan = plan_of(f"- [x] first\n{bullet}[ ] {words}\n")
    assert plan.verdict != COMPLETE


@settings(max_examples=300)
@given(st.text(alphabet=st.sampled_from("-*[]>xX !#\n`.1)(|~+ab"), max_size=120))
def test_any_text_at_all_is_read_without_an_exception(text):
    plan = plan_of(text)
    assert plan.verdict in (VALID, COMPLETE, EMPTY, INVALID, BLOCKED)
    if plan.verdict == COMPLETE:
        assert all(mark in "x-" for _, mark, _ in plan.marks)


def test_the_words_of_the_scaffold_are_known_without_a_pattern():
    scaffold = packaged_template("default_state.md").splitlines()
    assert set(scaffold) >= lines.SCAFFOLD
    assert not [line for line in lines.SCAFFOLD if lines.step_like(line)]

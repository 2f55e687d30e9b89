"""The facts of a session: what the person said, what was tried, what is red; nothing secret, nothing without bounds."""

from __future__ import annotations

import tracemalloc

import pytest

from handoff.agents.history import entries as form
from handoff.agents.history.entries import HistoryEntry, TodoItem
from handoff.agents.history.facts import HistoryFacts, facts, failing_tests, program_of
from handoff.base.redaction import MASK, redact_assignments

TOKEN = "ghp_" + "a" * 36


def said(text, kind=form.SAY, at=0.0):
    return HistoryEntry(kind, form.PERSON, text=text, at=at)


def answered(text, at=0.0):
    return HistoryEntry(form.SAY, form.ASSISTANT, text=text, at=at)


def ran(command, code=0, text="", at=0.0):
    return HistoryEntry(form.SHELL, form.TOOL, command=command, exit=code, text=text, at=at)


def edited(path, how=form.CHANGED, old="", new="", ok=None, text=""):
    return HistoryEntry(form.FILE, form.TOOL, path=path, how=how, old=old, new=new, ok=ok, text=text)


def texts(found):
    return [one.text for one in found]


def test_what_the_person_said_is_kept_word_for_word_in_order_and_with_its_time():
    known = facts(
        [said("Add a cart.\nNever touch prices.py.", at=5), answered("Yes."), said("in cents", form.STEER, at=9)]
    )
    assert [(one.text, one.at, one.how) for one in known.instructions] == [
        ("Add a cart.\nNever touch prices.py.", 5, ""),
        ("in cents", 9, "steer"),
    ]
    assert texts(known.rules) == ["Never touch prices.py."]
    assert (known.began, known.at) == (5, 9)


def test_a_question_of_the_person_is_no_rule_and_a_rule_said_twice_stands_once():
    known = facts([said("Must it be fast? Use only the standard library."), said("use only the standard library.")])
    assert texts(known.rules) == ["Use only the standard library."]


def test_the_last_run_of_each_command_counts_and_names_the_tests_that_failed():
    red = "FAILED tests/test_a.py::test_sum - assert 20 == 35\n1 failed"
    known = facts([ran("pytest -q"), ran("pytest -q", 1, red, at=3), ran("ls", 0, "a.py")])
    assert [(run.command, run.exit, run.times) for run in known.runs] == [("pytest -q", 1, 2), ("ls", 0, 1)]
    assert known.red == (known.runs[0],)
    assert known.red[0].failing == ("tests/test_a.py::test_sum",)
    assert "assert 20 == 35" in known.red[0].tail


def test_what_was_green_later_under_another_command_line_is_not_red():
    known = facts([ran("cd app && python3 -m pytest -q", 1), ran("/bin/bash -lc 'pytest'", 0)])
    assert known.red == ()


def test_a_green_run_of_something_else_does_not_hide_what_is_red():
    red = ran("pytest tests/a.py", 1, "FAILED tests/a.py::test_x")
    assert [run.command for run in facts([red, ran("pytest tests/b.py", 0)]).red] == ["pytest tests/a.py"]
    assert facts([red, ran("pytest tests", 0)]).red == ()
    whole = ran("pytest", 1, "FAILED tests/a.py::test_x")
    assert facts([whole, ran("pytest tests/a.py", 0)]).red == ()
    assert [run.command for run in facts([whole, ran("pytest tests/b.py", 0)]).red] == ["pytest"]


def test_a_command_without_a_code_is_neither_red_nor_green():
    known = facts([ran("make test", 1), ran("make test", None)])
    assert known.red == ()
    assert known.runs[0].ok is None


def test_a_command_without_a_code_is_red_where_its_output_names_tests_that_failed():
    (run,) = facts([ran("pytest -q", None, "FAILED tests/a.py::test_x - assert 1 == 2")]).red
    assert (run.verdict, run.failing) == ("red", ("tests/a.py::test_x",))


def test_what_the_person_takes_back_is_kept_like_a_rule():
    known = facts([said("Support Python 3.8."), said("Python 3.8 is no longer needed, forget that.")])
    assert [one.text for one in known.rules] == ["Python 3.8 is no longer needed, forget that."]


def test_dead_ends_are_edits_taken_back_failed_edits_refused_calls_and_lines_that_stay_red():
    known = facts(
        [
            edited("a.py", old="x", new="y"),
            edited("a.py", old="y", new="x"),
            edited("b.py", ok=False, text="no such text"),
            ran("git restore a.py"),
            ran("make", 2),
            ran("make", 2),
            HistoryEntry(form.REFUSED, form.PERSON, command="rm -rf build"),
            answered("Caching by id does not work. I will read it each time."),
        ]
    )
    ends = "\n".join(texts(known.dead_ends))
    for sign in ("a.py was taken back", "b.py failed: no such text", "git restore a.py", "`make` was red 2 times",
                 "did not allow: rm -rf build", "Caching by id does not work."):  # fmt: skip
        assert sign in ends


def test_files_are_told_with_what_became_of_them_as_a_whole():
    known = facts([edited("a.py", form.ADDED), edited("a.py"), edited("b.py"), edited("c.py", form.DELETED)])
    assert [(file.path, file.how) for file in known.files] == [
        ("a.py", "added"),
        ("b.py", "changed"),
        ("c.py", "deleted"),
    ]


def test_decisions_the_next_action_and_the_last_words_are_found_by_their_form():
    known = facts(
        [
            answered("I use integers because floats lose cents.", at=1),
            answered("Next: wire the cart into checkout.py.", at=2),
            answered("Half of it is there.", at=3),
        ]
    )
    assert texts(known.decisions) == ["I use integers because floats lose cents."]
    assert known.next_action.text == "Next: wire the cart into checkout.py."
    assert (known.last_words.text, known.last_words.at) == ("Half of it is there.", 3)
    assert len(known.statements) == 3


def test_plan_model_tokens_cost_branch_open_calls_and_unread_rows_are_told():
    known = facts(
        [
            HistoryEntry(form.META, form.CLIENT, model="m1", branch="main", commit="abc"),
            HistoryEntry(form.META, form.CLIENT, model="m2", branch="cart", commit="def"),
            HistoryEntry(form.PLAN, form.CLIENT, todo=(TodoItem("one"),)),
            HistoryEntry(form.PLAN, form.CLIENT, todo=(TodoItem("one", form.DONE), TodoItem("two"))),
            HistoryEntry(form.USAGE, form.CLIENT, tokens=10, cost=0.5),
            HistoryEntry(form.USAGE, form.CLIENT, tokens=5),
            HistoryEntry(form.COMPACTION, form.CLIENT, text="so far"),
            HistoryEntry(form.UNREAD, form.CLIENT, text="novelty"),
            HistoryEntry(form.UNREAD, form.CLIENT, text="novelty"),
            HistoryEntry(form.OPEN, form.ASSISTANT, command="sleep 60"),
            HistoryEntry(form.ERROR, form.CLIENT, text="usage limit reached"),
        ]
    )
    assert (known.model, known.branch, known.base, known.tokens, known.cost) == ("m2", "cart", "abc", 15, 0.5)
    assert [(one.text, one.state) for one in known.todo] == [("one", "done"), ("two", "open")]
    assert (known.unread, known.open_calls, known.ended) == ((("novelty", 2),), ("sleep 60",), "usage limit reached")
    assert (known.summary, known.compactions) == ("so far", 1)


def test_no_secret_is_kept_wherever_it_stands_not_even_where_a_cut_would_halve_it():
    words = "x" * 19_980 + f" {TOKEN}"
    known = facts(
        [
            said(words),
            said(f"use {TOKEN}"),
            answered(f"I used {TOKEN} because it was there. Next: hide hunter22222."),
            ran(f"API_TOKEN=abc curl -H {TOKEN}", 1, f"{TOKEN} refused"),
            edited(f"{TOKEN}.py"),
            HistoryEntry(form.PLAN, form.CLIENT, todo=(TodoItem(TOKEN),)),
            HistoryEntry(form.COMPACTION, form.CLIENT, text=TOKEN),
            HistoryEntry(form.OPEN, form.ASSISTANT, command=f"echo {TOKEN}"),
            HistoryEntry(form.ERROR, form.CLIENT, text=f"bad key {TOKEN}"),
        ],
        secrets=("hunter22222",),
    )
    told = repr(known)
    assert "aaaa" not in told
    assert "hunter2" not in told
    assert "API_TOKEN=abc" not in told


def test_what_a_command_line_gives_to_a_secret_is_masked_and_other_words_stay():
    assert (
        redact_assignments("DB_PASSWORD='a b' X=1 run --api-key abc --key=2")
        == f"DB_PASSWORD={MASK} X=1 run --api-key {MASK} --key=2"
    )
    assert redact_assignments("TOKEN=$(cat file) and key=id") == "TOKEN=$(cat file) and key=id"


def test_a_session_without_end_is_read_in_bounded_memory():
    def endless():
        for number in range(4_000):
            yield said(f"{number} " + "word " * 60)
            yield ran(f"run {number}", 1, "x" * 500)
            yield edited(f"f{number}.py", old=str(number), new="y" * 100)
            yield answered(f"{number} does not work because of {number}")

    tracemalloc.start()
    known = facts(endless())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20_000_000
    assert known.instructions[0].text.startswith("0 ")
    assert known.instructions[-1].text.startswith("3999 ")
    assert known.left_out + len(known.instructions) == 4_000


@pytest.mark.parametrize(
    ("line", "program", "targets"),
    [
        ("cd x && python3 -m pytest -q a.py", "pytest", ("a.py",)),
        ("bash -lc 'npm run test'", "npm test", ()),
        ("A=1 timeout 60 uv run pytest 2>&1 | tail -5", "pytest", ()),
        ("go test ./...", "go test", ("./...",)),
        ("python3 run_tests.py", "run_tests.py", ()),
        ("", "", ()),
    ],
)
def test_the_program_of_a_line_is_what_it_really_runs(line, program, targets):
    assert program_of(line) == (program, targets)


def test_failing_tests_are_named_in_the_words_of_each_runner():
    output = """FAILED tests/a.py::test_x - assert 1
FAIL: test_y (tests.b.T.test_y)
--- FAIL: TestZ (0.00s)
not ok 3 - adds two
test one::two ... FAILED
error[E0308]: mismatched types
  ● cart > adds
  ✖ keeps order (1.2ms)
"""
    assert failing_tests(output) == (
        "tests/a.py::test_x", "test_y (tests.b.T.test_y)", "TestZ", "adds two", "one::two", "error[E0308]: mismatched types",
        "cart > adds", "keeps order",
    )  # fmt: skip


def test_nothing_that_happened_gives_no_facts():
    assert facts([]) == HistoryFacts()

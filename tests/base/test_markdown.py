"""Small pieces of Markdown and of messages."""

from __future__ import annotations

from handoff.base.ids import on_one_line, visible
from handoff.base.markdown import BATON_END, BATON_MARK, end_sentence, first_sentence, without_batons


def test_a_reason_never_ends_where_its_list_begins():
    assert first_sentence(
        "'a' cannot land: git cannot join these files:\n  x.txt: one and two\n  y.txt: one and two"
    ) == ("'a' cannot land: git cannot join these files: x.txt: one and two y.txt: one and two")
    assert (
        first_sentence("'a' is not done: `make` is red (exit 2).\nmany\nlines")
        == "'a' is not done: `make` is red (exit 2)."
    )
    assert first_sentence("only this:") == "only this:"


def test_what_another_sentence_follows_has_an_end_of_its_own():
    assert end_sentence("Please run /login") == "Please run /login."
    assert end_sentence("Really?") == "Really?"
    assert end_sentence("") == ""


def test_a_name_of_a_file_stays_on_its_line():
    assert on_one_line("a b ü.txt") == "a b ü.txt"
    assert on_one_line("a\n- b\x1b.txt") == "a\\n- b\\x1b.txt"


def test_a_message_without_its_batons_is_what_the_person_wrote():
    baton = f"{BATON_MARK}\n# Task\n\nDo it.\n{BATON_END}\n"
    assert without_batons(f"Please go on.\n{baton}And no new dependency.") == "Please go on.\nAnd no new dependency."
    assert without_batons(f"{baton}{baton}") == ""
    assert without_batons(f"Look:\n{BATON_MARK}\n# Task, cut off") == "Look:\n"
    assert without_batons("no baton here") == "no baton here"


def test_signs_that_nobody_sees_are_shown_and_what_scripts_are_written_with_stays():
    hidden = ".git\u200bignore \u2066x\u2069 \ufeff \U000e0041 a\x1b[2J"
    assert visible(hidden) == ".git\\u200bignore \\u2066x\\u2069 \\ufeff \\U000e0041 a\\x1b[2J"
    written = "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 \U0001f469\u200d\U0001f4bb\n\ttab"
    assert visible(written) == written

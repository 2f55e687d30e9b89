"""Every baton is composed in one order; templates are filled in strictly."""

from __future__ import annotations

import pytest

from handoff.base.errors import UserError
from handoff.base.markdown import BATON_END, BATON_MARK, bullets, fenced, quoted, render
from handoff.feature.baton import END, GOAL, RULES, STATE, TRIED, PromptPart, compose, estimate, pin, rules_in


def test_an_unknown_name_is_an_error_not_an_empty_text():
    with pytest.raises(UserError, match="'colour'"):
        render("a {{colour}}", {"task": "x"})


def test_a_name_that_is_not_closed_is_an_error():
    with pytest.raises(UserError, match="without"):
        render("a {{task", {"task": "x"})


def test_a_section_with_an_empty_optional_name_is_left_out():
    text = "# T\n\n## One\n\n{{one?}}\n\n## Two\n\n{{two?}}\n"
    assert render(text, {"one": "", "two": "yes"}) == "# T\n\n## Two\n\nyes\n"


def test_values_are_not_read_as_templates():
    assert render("{{brief}}\n", {"brief": "use {{task}}\n\n## Own heading"}) == "use {{task}}\n\n## Own heading\n"


def test_every_baton_has_the_same_sections_in_the_same_order_and_none_that_is_empty():
    sections = {
        END: [pin("Say so.")],
        GOAL: [pin("Build the form.")],
        RULES: [pin("- No new dependency.")],
        TRIED: [],
    }
    text = compose("Task `form` of project `shop`", sections).text
    assert text == (
        f"{BATON_MARK}\n# Task `form` of project `shop`\n\n## Rules\n- No new dependency.\n\n## Goal\nBuild the form.\n\n"
        f"## How to end\nSay so.\n{BATON_END}\n"
    )


def test_what_does_not_fit_is_named_with_its_path_and_what_is_pinned_stays():
    sections = {
        RULES: [pin("- No new dependency.")],
        STATE: [PromptPart("The diff of it", "+ a line of the diff\n" * 400, 5, "git diff abc", 0.3)],
        END: [pin("Say so.")],
    }
    fitted = compose("Task", sections, tokens=300)
    assert "- No new dependency." in fitted.text
    assert "Say so." in fitted.text
    assert "The diff of it: partly included" in fitted.text
    assert "all of it is in `git diff abc`" in fitted.text
    assert estimate(fitted.text) < 400


def test_rules_of_a_document_are_the_lines_that_are_marked_so():
    text = "# A\nRule: never x\n## Project rules\n- a\n  b\n* c\n## Other\n- d\n- 2026-01-01T10:00:00Z: Rule: keep y\n"
    assert rules_in(text) == ["never x", "a", "c", "keep y"]


def test_a_fence_is_longer_than_any_inside():
    assert fenced("a\n```\nb") == "````\na\n```\nb\n````"


def test_a_long_list_says_how_much_is_missing():
    assert bullets(["a", "b", "c"], limit=2) == "- a\n- b\n- and 1 more"


@pytest.mark.parametrize(
    ("word", "shown"), [("a/b-c.py", "a/b-c.py"), ("", "''"), ("a b", "'a b'"), ("it's", "'it'\"'\"'s'")]
)
def test_a_word_survives_the_shell(word, shown):
    assert quoted(word) == shown

"""The baton's words are filled in strictly, and the brief comes first."""

from __future__ import annotations

import pytest

from handoff.base.errors import UserError
from handoff.base.markdown import bullets, fenced, quoted, render
from handoff.engine.workspaces.baton import template


def names():
    return dict.fromkeys(
        (
            "task",
            "project",
            "brief",
            "rules",
            "history",
            "before",
            "baseline",
            "reading",
            "ownership",
            "checks",
            "parts",
            "report",
            "program",
        ),
        "",
    )


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


def test_the_brief_stands_in_front_of_everything_else():
    values = {
        **names(),
        "task": "form",
        "project": "shop",
        "brief": "Build the form.",
        "report": "Say so.",
        "baseline": "b",
    }
    text = render(template(), values)
    assert text.splitlines()[:3] == ["# Task `form` of project `shop`", "", "Build the form."]
    assert "## You may write" not in text
    assert "## Report back\n\nSay so.\n" in text


def test_a_fence_is_longer_than_any_inside():
    assert fenced("a\n```\nb") == "````\na\n```\nb\n````"


def test_a_long_list_says_how_much_is_missing():
    assert bullets(["a", "b", "c"], limit=2) == "- a\n- b\n- and 1 more"


@pytest.mark.parametrize(
    ("word", "shown"), [("a/b-c.py", "a/b-c.py"), ("", "''"), ("a b", "'a b'"), ("it's", "'it'\"'\"'s'")]
)
def test_a_word_survives_the_shell(word, shown):
    assert quoted(word) == shown

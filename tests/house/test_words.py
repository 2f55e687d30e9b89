"""The manual speaks plain words: no dialect, few words, and a glossary that a user can hold in the head."""

from __future__ import annotations

import re

import pytest

from source import literals, package_modules, project_files, read

DIALECT = re.compile(
    r"\b(?:told|ground|the whole|lent|trespass\w*|(?:comes?|came) out|(?:is|are|was|were) (?:said|asked)(?! for))\b",
    re.IGNORECASE,
)
"""Words that a user would not use: warns, prints, asks, environment, everything, shared, failed are better."""
NOT_YET = ()
"""Pages that still have words of the list."""
MOST_WORDS = 40_000
"""In docs/, with the generated reference. A new page pays with an old one."""
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.DOTALL | re.MULTILINE)
ENTRY = re.compile(r"^\*\*([A-Z][\w-]*)\.\*\*", re.MULTILINE)
GLOSSARY = "docs/concepts.md"
PAGES = tuple(
    name
    for name in project_files()
    if name.endswith(".md")
    and (name.startswith("README") or (name.startswith("docs/") and not name.startswith("docs/reference/")))
)


def _dialect(text: str) -> list[str]:
    return [found[0] for found in DIALECT.finditer(CODE.sub("", text))]


@pytest.mark.parametrize("name", [name for name in PAGES if name not in NOT_YET])
def test_a_page_for_people_has_no_word_of_the_dialect(name):
    assert _dialect(read(name)) == []


SHORTEST = 3
"""A text of fewer words is a name, a key or a piece of a command."""
NAMES = re.compile(r"'told'|told = |[?]P<told>")
"""The key of a workflow's file, and the name of a group in a pattern."""


@pytest.mark.parametrize("room", sorted({module.name.split("/")[0] for module in package_modules()}))
def test_no_message_help_or_prompt_has_a_word_of_the_dialect(room):
    lost = [
        f"{module.name}:{line} {found}"
        for module in package_modules()
        if module.name.split("/")[0] == room
        for line, text in literals(module.tree)
        if len(text.split()) >= SHORTEST
        for found in _dialect(NAMES.sub("", text))
    ]
    assert not lost, "\n".join(lost)


TAG = re.compile(r"<[^>]*>|[{][%#].*?[%#][}]|[{][{].*?[}][}]", re.DOTALL)


def test_no_page_in_the_browser_and_no_template_has_a_word_of_the_dialect():
    names = [name for name in project_files() if name.startswith("src/") and name.endswith((".html", ".md"))]
    assert len(names) > 20
    lost = {name: found for name in names if (found := _dialect(TAG.sub(" ", read(name))))}
    assert not lost


def test_a_word_of_the_dialect_is_found_in_prose_and_not_in_code():
    assert _dialect("You are told. The whole\nThe grounds of `told`.\n```toml\ntold = 1\n```\nIt came out red.") == [
        "told", "The whole", "came out",
    ]  # fmt: skip


def test_the_manual_stays_short():
    pages = [name for name in project_files() if name.startswith("docs/") and name.endswith(".md")]
    words = sum(len(read(name).split()) for name in pages)
    assert words <= MOST_WORDS, f"{words} words: shorten a page"


def test_the_glossary_can_be_held_in_the_head_and_every_word_of_it_is_used():
    entries = ENTRY.findall(read(GLOSSARY))
    assert 15 < len(entries) <= 25
    assert len(set(entries)) == len(entries)
    others = " ".join(CODE.sub("", read(name)) for name in PAGES if name != GLOSSARY)
    unused = [word for word in entries if not re.search(rf"\b{word}", others, re.IGNORECASE)]
    assert not unused, f"nobody needs these words: {unused}"


def test_the_picture_of_the_glossary_has_the_six_words_for_work():
    drawn = re.search(r"^```\n(.*?)^```", read(GLOSSARY), re.DOTALL | re.MULTILINE)
    assert drawn
    assert not [word for word in ("step", "task", "part", "phase", "batch", "flow") if f"{word} " not in drawn[1]]

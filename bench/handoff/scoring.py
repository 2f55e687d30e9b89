"""Hold a text against a key: what of it is there, what is stale, what was never true."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from handoff.feature.baton import estimate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.handoff.journey import Fact, Trap

_HOW = {
    "new": r"\bnew\b|\badded\b|\badd\b|\bcreated\b|\bcreate\b|\bwrote\b|\bwrite\b|untracked|\?\?|(?-i:\bA\b)",
    "changed": r"\bchanged\b|\bmodified\b|\bedited\b|\bedit\b|\bupdated?\b|\breplace\b|(?-i:\bM\b)",
    "deleted": r"\bdeleted?\b|\bremoved?\b|\brm\b|(?-i:\bD\b)",
}
_HEADING = re.compile(r"^(?:#{1,6} .*|\*\*[^*]+\*\*:?)$")
_PAST = re.compile(
    r"earlier|before|history|past|superseded|overtaken|withdrawn|previous|said|words|statements|no longer|since|log",
    re.IGNORECASE,
)
_OVER = re.compile(
    r"\[x\]|superseded|overtaken|earlier|withdrawn|no longer|was red|green (?:now|since)|done:|\d\d:\d\d", re.IGNORECASE
)


class Section(NamedTuple):
    """A heading and what stands below it."""

    title: str
    text: str


class Score(NamedTuple):
    """What a text is worth for the one who must go on."""

    found: dict[str, int]
    asked: dict[str, int]
    missing: tuple[Fact, ...]
    stale: tuple[Trap, ...]
    invented: tuple[Trap, ...]
    tokens: int


def fit(text: str, budget: int, *, tail: bool = False) -> str:
    """As much of a text as a budget lets through: its beginning, or its end."""
    if estimate(text) <= budget:
        return text
    size = len(text) * budget // estimate(text)
    return text[-size:] if tail else text[:size]


def score(text: str, key: list[Fact], traps: list[Trap]) -> Score:
    """One text against one key."""
    plain = _plain(text)
    missing = tuple(fact for fact in key if not holds(text, plain, fact))
    asked: dict[str, int] = {}
    found: dict[str, int] = {}
    for fact in key:
        asked[fact.kind] = asked.get(fact.kind, 0) + 1
        found[fact.kind] = found.get(fact.kind, 0) + (fact not in missing)
    sections = list(_sections(text))
    wrong = [
        trap
        for trap in traps
        if not (trap.unless and trap.unless in plain) and any(_falls(section, trap) for section in sections)
    ]
    return Score(
        found=found,
        asked=asked,
        missing=missing,
        stale=tuple(trap for trap in wrong if trap.kind == "stale"),
        invented=tuple(trap for trap in wrong if trap.kind == "invented"),
        tokens=estimate(text),
    )


def holds(text: str, plain: str, fact: Fact) -> bool:
    """Whether the text tells a fact."""
    if fact.kind == "file":
        return _tells_file(text, fact.words[0][0], fact.how)
    return _close(plain, fact.words, fact.near)


def _plain(text: str) -> str:
    """Without marks of Markdown and JSON, so that the words alone count."""
    text = text.replace("\\n", " ").replace('\\"', '"')
    return re.sub(r"\s+", " ", re.sub(r"[`*]", "", text)).lower()


def _close(plain: str, groups: tuple[tuple[str, ...], ...], near: int) -> bool:
    """Whether one of each group stands within `near` characters, in any order."""
    hits = sorted(
        (match.start(), number)
        for number, group in enumerate(groups)
        for word in group
        for match in re.finditer(_edged(_plain(word)), plain)
    )
    last: dict[int, int] = {}
    for at, number in hits:
        last[number] = at
        if len(last) == len(groups) and at - min(last.values()) <= near:
            return True
    return False


def _edged(word: str) -> str:
    """A word as a pattern: it begins where a word begins."""
    return (r"\b" if word[:1].isalnum() else "") + re.escape(word)


def _tells_file(text: str, path: str, how: str) -> bool:
    """Path and how on one line; a list may say it in the line that leads to it, and a patch in the one below."""
    named = re.compile(r"(?<![\w.-])" + re.escape(path) + r"(?![\w/-])")
    lines = text.splitlines()
    for number, line in enumerate(lines):
        for match in named.finditer(line):
            around = line[max(0, match.start() - 100) : match.end() + 100].replace(path, "")
            if re.search(_HOW[how], around, re.IGNORECASE):
                return True
            if any(re.search(pattern, around, re.IGNORECASE) for pattern in _HOW.values()):
                continue
            if how in _lead(lines, number):
                return True
    return False


def _lead(lines: list[str], number: int) -> set[str]:
    """What the sentence above a list says of everything in it; nothing where it names several kinds."""
    for line in reversed(lines[max(0, number - 30) : number]):
        if line.rstrip().endswith(":") or _HEADING.match(line):
            said = {how for how, pattern in _HOW.items() if re.search(pattern, line, re.IGNORECASE)}
            return said if len(said) == 1 else set()
    return set()


def _sections(text: str) -> Iterator[Section]:
    title, lines = "", []
    for line in text.splitlines():
        if _HEADING.match(line):
            yield Section(title, "\n".join(lines))
            title, lines = line, []
        else:
            lines.append(line)
    yield Section(title, "\n".join(lines))


def _falls(section: Section, trap: Trap) -> bool:
    """Whether a part of the text says what is wrong; what it says of the past as of the past is right."""
    if trap.where and not re.search(trap.where, section.title, re.IGNORECASE):
        return False
    if not _close(_plain(section.text), trap.words, trap.near):
        return False
    if trap.kind == "invented":
        return True
    if _PAST.search(section.title):
        return False
    last = trap.words[-1]
    lines = [line for line in section.text.splitlines() if any(word in _plain(line) for word in last)]
    return any(not _OVER.search(line) for line in lines) if lines else True


def tells(text: str, fact: Fact) -> bool:
    """Whether a piece of text tells one fact."""
    return holds(text, _plain(text), fact)

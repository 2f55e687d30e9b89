"""The composer: every text a session begins with has the same sections in the same order, fitted into a number of tokens.

What does not fit is named with the place where it can be read, never dropped in silence."""

from __future__ import annotations

import os
import re

from handoff.base.files import read_text
from handoff.base.markdown import BATON_END, BATON_MARK
from handoff.base.record import TYPE_CHECKING, Record

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

RULES, GOAL, STATE, TRIED, NEXT, PROOF, LIMITS, END = "rules goal state tried next proof limits end".split()
TITLES = {
    RULES: "Rules",
    GOAL: "Goal",
    STATE: "State",
    TRIED: "What was tried",
    NEXT: "Next",
    PROOF: "Proof",
    LIMITS: "Limits",
    END: "How to end",
}
"""The sections in their order: rules that always hold, what is wanted, what is true now, what others did, and then what to do."""
BUDGET = 8000
"""Tokens of a task's baton; most need a quarter."""
_LEAST = 40  # below this a part says nothing useful
_NAME_TOKENS = 25  # what naming one left-out part costs
_PINNED = 0
_DEEPEST = 7  # headings have six levels


class PromptPart(Record):
    """One block of a section. `shrink` makes it fit fewer tokens; `path` is where all of it can be read."""

    title: str
    text: str
    priority: int = _PINNED
    path: str = ""
    share: float = 0.5
    shrink: Callable[[int], str] | None = None


class Fitted(Record):
    """A text that fits, and the names of what was cut or left out of it."""

    text: str
    left_out: tuple[str, ...] = ()


if TYPE_CHECKING:
    Sections = Mapping[str, Sequence[PromptPart]]


def pin(text: str, title: str = "") -> PromptPart:
    """A block that every budget has room for."""
    return PromptPart(title=title, text=text, share=1.0)


def block(title: str, text: str, priority: int, path: str = "", share: float = 0.5) -> PromptPart:
    """A block that may be cut: the higher its number, the sooner."""
    return PromptPart(title=title, text=text, priority=priority, path=path, share=share)


def compose(title: str, sections: Sections, *, tokens: int = BUDGET) -> Fitted:
    """The text of a session's beginning, between the marks by which a reader of stored sessions knows it."""
    frame = estimate(title) + estimate(BATON_MARK) + estimate(BATON_END) + 10
    fitted = arrange(sections, tokens - frame)
    return fitted._replace(text=between_marks(f"# {title}\n\n{fitted.text}"))


def between_marks(text: str) -> str:
    """A text of ours between its marks."""
    return f"{BATON_MARK}\n{text.strip()}\n{BATON_END}\n"


def arrange(sections: Sections, tokens: int) -> Fitted:
    """The sections in their order, without a title and marks."""
    listed = [(name, part) for name in TITLES for part in sections.get(name, ()) if part.text.strip()]
    heads = sum(estimate(TITLES[name]) + 3 for name in {name for name, _ in listed})
    taken, left_out = fit([part for _, part in listed], tokens - heads)
    blocks: list[str] = []
    before = ""
    for index, (name, part) in enumerate(listed):
        if index not in taken:
            continue
        if name == END and before != END and left_out:
            blocks.append(_missing(left_out))
        block = taken[index].strip("\n")
        if part.title and part.title != TITLES[name]:
            block = f"### {part.title}\n{block}"
        blocks.append(block if name == before else f"## {TITLES[name]}\n{block}")
        before = name
    if left_out and before != END:
        blocks.append(_missing(left_out))
    return Fitted("\n\n".join(blocks), left_out)


def _missing(left_out: Sequence[str]) -> str:
    return "## Not in this text\n" + "\n".join(f"- {line}" for line in left_out)


def estimate(text: str) -> int:
    """Tokens, roughly: four characters of English and code, one of other scripts."""
    if text.isascii():
        return (len(text) + 3) // 4
    plain = len(text.encode("ascii", "ignore"))
    return plain // 4 + len(text) - plain + 1


def fit(wanted: Sequence[PromptPart], tokens: int) -> tuple[dict[int, str], tuple[str, ...]]:
    """Give every part its share by priority, then spend what is left on the parts that were cut: the texts by number, and what is missing."""
    order = sorted(range(len(wanted)), key=lambda index: wanted[index].priority)
    sizes = [estimate(part.text) + estimate(part.title) + 3 for part in wanted]
    left = tokens
    if sum(sizes) > tokens:
        left -= _NAME_TOKENS * sum(part.share < 1 for part in wanted)
    taken: dict[int, str] = {}
    for index in order:
        part = wanted[index]
        allowance = left if sizes[index] <= left * part.share else int(left * part.share)
        text = part.text if part.share >= 1 else _cut(part, allowance, sizes[index])
        if text:
            taken[index] = text
            left -= estimate(text) + estimate(part.title) + 3
    for index in order:
        part = wanted[index]
        if taken.get(index) != part.text and left > _LEAST:
            used = estimate(taken[index]) + estimate(part.title) + 3 if index in taken else 0
            text = _cut(part, left + used, sizes[index])
            if text and estimate(text) + estimate(part.title) + 3 > used:
                left += used - estimate(text) - estimate(part.title) - 3
                taken[index] = text
    left_out = [
        f"{part.title}: {'partly' if index in taken else 'not'} included (about {sizes[index]} tokens)"
        + (f"; all of it is in `{part.path}`" if part.path else "")
        for index, part in enumerate(wanted)
        if taken.get(index) != part.text
    ]
    return taken, tuple(left_out)


def _cut(part: PromptPart, allowance: int, size: int) -> str:
    if size <= allowance:
        return part.text
    room = allowance - estimate(part.title) - 3
    if room < _LEAST:
        return ""
    return part.shrink(room) if part.shrink is not None else head(part.text, room, part.path)


def head(text: str, tokens: int, path: str = "") -> str:
    """The first lines that fit, and a line that says the rest is missing."""
    note = f"[cut here; go on in {path}]" if path else "[cut here]"
    room = tokens - estimate(note) - 1
    kept: list[str] = []
    for line in text.split("\n"):
        cost = estimate(line) + 1
        if cost > room:
            if not kept and room > _LEAST // 2:
                kept.append(line[: room * 2])
            break
        room -= cost
        kept.append(line)
    return "\n".join([*kept, note]) if kept else ""


def tail(text: str, tokens: int) -> str:
    """The last lines that fit, for what is appended to: there the end matters."""
    kept: list[str] = []
    room = tokens - 12
    for line in reversed(text.strip().split("\n")):
        room -= estimate(line) + 1
        if room < 0:
            break
        kept.insert(0, line)
    return "\n".join(["[older ones cut]", *kept]) if kept else ""


def listing(items: Sequence[str], tokens: int) -> str:
    """As many bullets as fit, and how many more there are."""
    kept: list[str] = []
    room = tokens - 10
    for index, item in enumerate(items):
        line = f"- {item}"
        cost = estimate(line) + 1
        if cost > room:
            kept.append(f"- and {len(items) - index} more")
            break
        room -= cost
        kept.append(line)
    return "\n".join(kept)


def lower_headings(text: str) -> str:
    """Words of a person inside a section: their headings stand below ours, everything else as they wrote it."""
    shown, fence = [], ""
    for line in text.split("\n"):
        ticks = line.lstrip()[: len(line.lstrip()) - len(line.lstrip().lstrip("`"))]
        if len(ticks) > len("``") and (not fence or ticks.startswith(fence)):
            fence = "" if fence else ticks
        level = len(line) - len(line.lstrip("#"))
        heading = not fence and 0 < level < _DEEPEST and line[level : level + 1] == " "
        shown.append(f"{'#' * min(_DEEPEST - 1, level + 2)}{line[level:]}" if heading else line)
    return "\n".join(shown)


# --- rules -----------------------------------------------------------------------------------------------------------

RULES_FILE = "rules.md"
"""In the home, and in a project's folder there: what a person asks of every session."""
_MOST_RULES, _LONGEST_RULE, _MOST_BYTES = 40, 400, 200_000


_LISTED = r"^(?:[-*]|\d+[.)])\s+(?:\d{4}-\d\d-\d\dT[\d:]+Z: )?"
"""How an item of a list begins, perhaps with the time of a note."""


def rules_of(home: str, project: str) -> str:
    """What the person asks of every session, and of every session of this project: two files of the home, word for word."""
    places = (os.path.join(home, RULES_FILE), os.path.join(home, project, RULES_FILE))
    return "\n\n".join(filter(None, (read_text(path).strip() for path in places if os.path.isfile(path))))


def plain_text(path: str, *, limit: int) -> str:
    """The text of a file of so many bytes at most; empty where there is none, or a link."""
    plain = os.path.isfile(path) and not os.path.islink(path) and os.path.getsize(path) <= limit
    return read_text(path) if plain else ""


def rules_in(text: str) -> list[str]:
    """The lines of a document that are marked as rules: `Rule: ...`, and what is listed below a heading that is called Rules."""
    found: list[str] = []
    level = 0  # of the heading we are below, if it is called so
    for line in text.splitlines():
        bare = line.strip()
        if bare.startswith("#"):
            depth, title = len(bare) - len(bare.lstrip("#")), bare.strip("# ").casefold()
            level = depth if title == "rules" or title.endswith(" rules") else 0 if depth <= level else level
            continue
        item = re.sub(_LISTED, "", bare)
        if item.casefold().startswith("rule:"):
            found.append(item[5:].strip())
        elif level and item and item != bare:
            found.append(item)
    return [rule[:_LONGEST_RULE] for rule in dict.fromkeys(found)][:_MOST_RULES]


def rule_parts(home: str, project: str, folder: str, more: Sequence[str] = ()) -> list[PromptPart]:
    """The first section: the person's own files, the rules that AGENTS.md marks, and what was added to them for this work."""
    marked_rules = rules_in(plain_text(os.path.join(folder, "AGENTS.md"), limit=_MOST_BYTES)) if folder else []
    once = {rule.casefold().rstrip(". "): rule for rule in reversed((*marked_rules, *more))}
    listed = [f"- {rule[:1].upper()}{rule[1:]}" for rule in reversed(once.values())]
    return [pin(text) for text in (rules_of(home, project) if project else "", "\n".join(listed)) if text]

"""Fit what a session must know into a number of tokens; what does not fit is named, never dropped in silence."""

from __future__ import annotations

from handoff.base.record import TYPE_CHECKING, Record

if TYPE_CHECKING:
    from collections.abc import Callable

_LEAST = 40  # below this a part says nothing useful
_NAME_TOKENS = 25  # what naming one left-out part costs


class PromptPart(Record):
    """One block of the hand-off. `shrink` makes it fit fewer tokens; `path` is where all of it can be read."""

    title: str
    text: str
    priority: int
    path: str = ""
    share: float = 0.5
    shrink: Callable[[int], str] | None = None


class Fitted(Record):
    """The parts that fit, in their order, and the names of what was cut or left out."""

    text: str
    left_out: tuple[str, ...]


def estimate(text: str) -> int:
    """Tokens, roughly: four characters of English and code, one of other scripts."""
    if text.isascii():
        return (len(text) + 3) // 4
    plain = len(text.encode("ascii", "ignore"))
    return plain // 4 + len(text) - plain + 1


def fit(parts: list[PromptPart], tokens: int) -> Fitted:
    """Give every part its share by priority, then spend what is left on the parts that were cut."""
    wanted = [part for part in parts if part.text.strip()]
    order = sorted(range(len(wanted)), key=lambda index: wanted[index].priority)
    sizes = [estimate(part.text) + estimate(part.title) + 3 for part in wanted]
    left = tokens
    if sum(sizes) > tokens:
        left -= _NAME_TOKENS * len(wanted)
    taken: dict[int, str] = {}
    for index in order:
        part = wanted[index]
        allowance = left if sizes[index] <= left * part.share else int(left * part.share)
        text = _cut(part, allowance, sizes[index])
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
    blocks = [f"## {wanted[index].title}\n{taken[index]}" for index in sorted(taken)]
    left_out = [
        f"{part.title}: {'partly' if index in taken else 'not'} included (about {sizes[index]} tokens)"
        + (f"; all of it is in `{part.path}`" if part.path else "")
        for index, part in enumerate(wanted)
        if taken.get(index) != part.text
    ]
    return Fitted("\n\n".join(blocks), tuple(left_out))


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


def listing(items: list[str], tokens: int) -> str:
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

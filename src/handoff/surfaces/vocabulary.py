"""The words, marks and colours of every state, the same on each surface; yellow is you, red broken, cyan moving, green checked."""

from __future__ import annotations

from handoff.base.record import TYPE_CHECKING, Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from handoff.base.settings import Settings
    from handoff.board.events.journal import SpokenWords
    from handoff.engine.work.overview import OverviewItem


class StateLook(Record):
    """How a state is shown: its word, its mark, the same for terminals without it, and its style."""

    word: str
    glyph: str
    plain: str
    style: str = ""

    def mark(self, *, ascii_only: bool) -> str:
        return self.plain if ascii_only else self.glyph


_SAID = 120
_FINISHED = ("landed", "green", "verified", "done", "undone")
LOOKS: dict[str, StateLook] = {
    "waiting": StateLook("waiting", "◌", ".", "dim"),
    "cancelled": StateLook("cancelled", "–", "-", "dim"),
    "ready": StateLook("ready", "○", "o"),
    "paused": StateLook("paused", "‖", "=", "warn"),
    "held": StateLook("held", "‖", "=", "warn"),
    "running": StateLook("running", "●", "*", "moving"),
    "quiet": StateLook("quiet", "●", "*", "warn"),
    "ended": StateLook("ended", "●", "*", "warn"),
    "gated": StateLook("asks you", "?", "?", "warn"),
    "blocked": StateLook("blocked", "✗", "x", "bad"),
    "done": StateLook("done", "✓", "+", "good"),
    "green": StateLook("green", "✓", "+", "good"),
    "verified": StateLook("verified", "✓", "+", "good"),
    "landed": StateLook("landed", "✓", "+", "good"),
    "requested": StateLook("in review", "↗", "^", "good"),
    "undone": StateLook("taken back", "–", "-", "dim"),
    "conflict": StateLook("conflict", "≠", "#", "warn"),
    "incident": StateLook("incident", "!", "!", "bad"),
    "scheduled": StateLook("scheduled", "◷", "@", "dim"),
}
BAR = {"landed": "█#", "green": "▓=", "running": "▒>", "blocked": "×x", "gated": "??", "rest": "·."}
"""The kinds of a bar in their order, each with its cell and the plain one."""
BAR_STYLES = {"landed": "good", "green": "good", "running": "moving", "blocked": "bad", "gated": "warn", "rest": "dim"}
_WIDE_LANGUAGES = ("zh", "ja", "ko")


def wants_ascii(settings: Settings) -> bool:
    """Whether the terminal shows our marks badly: no UTF-8, or a language whose terminals draw some of them two columns wide."""
    said = settings.get("HANDOFF_GLYPHS").lower()
    if said in ("ascii", "unicode"):
        return said == "ascii"
    locale = settings.get("LC_ALL") or settings.get("LC_CTYPE") or settings.get("LANG")
    return "utf" not in locale.lower() or locale.lower().startswith(_WIDE_LANGUAGES)


def cells(counts: Mapping[str, int], width: int) -> dict[str, int]:
    """How many cells of a bar each kind gets: by largest remainder, and at least one, so that one red of 500 is seen."""
    there = {kind: counts[kind] for kind in BAR if counts.get(kind, 0) > 0}
    total = sum(there.values())
    if not total or width < len(there):
        return {}
    shares = {kind: number * width / total for kind, number in there.items()}
    found = {kind: max(1, int(share)) for kind, share in shares.items()}
    while (left := width - sum(found.values())) != 0:
        if left > 0:
            kind = max(found, key=lambda one: shares[one] - found[one])
        else:
            kind = max((one for one in found if found[one] > 1), key=lambda one: found[one] - shares[one])
        found[kind] += 1 if left > 0 else -1
    return found


def bar(counts: Mapping[str, int], width: int, *, ascii_only: bool) -> str:
    """The bar as text; nothing where there is nothing to show."""
    return "".join(BAR[kind][ascii_only] * number for kind, number in cells(counts, width).items())


def tally(counts: Mapping[str, int]) -> str:
    """The counts beside a bar, in its order: `6 landed, 1 blocked of 8`. Never a plain `8/8` where something is red."""
    words = {"gated": "asks", "rest": "waiting"}
    said = [f"{counts[kind]} {words.get(kind, kind)}" for kind in BAR if counts.get(kind, 0)]
    return f"{', '.join(said)} of {sum(counts.values())}" if said else "nothing yet"


def clock_of(seconds: float) -> str:
    """How long something runs, as a clock: 0:07, 4:12, 1:04:12."""
    whole = max(0, int(seconds))
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"


def money(spent: float, allowed: float = 0.0) -> str:
    """Dollars as people write them."""
    return f"${spent:.2f}" + (f" of ${allowed:g}" if allowed else "")


def fold(items: Sequence[OverviewItem]) -> list[list[OverviewItem]]:
    """What has one cause stands in one line: blocked tasks whose reason is the same but for their names."""
    groups: dict[tuple[str, str], list[OverviewItem]] = {}
    for item in items:
        alike = item.words.replace(item.address, "it") if item.look == "blocked" else item.address
        groups.setdefault((item.look, alike), []).append(item)
    return list(groups.values())


def finished_words(items: Iterable[OverviewItem]) -> str:
    """What became of what is finished: `2 landed, 14 green`. Green work is on a branch of its own, so nobody counts it as landed."""
    counts: dict[str, int] = {}
    for item in items:
        counts[item.look] = counts.get(item.look, 0) + 1
    return ", ".join(f"{counts[look]} {LOOKS[look].word}" for look in _FINISHED if look in counts)


def bar_counts(parts: dict[str, int]) -> dict[str, int]:
    """States of parts as kinds of a bar; a part is green until its batch lands."""
    kinds = {"done": "green", "running": "running", "blocked": "blocked", "gated": "gated"}
    counts: dict[str, int] = {}
    for state, number in parts.items():
        kind = kinds.get(state, "rest")
        counts[kind] = counts.get(kind, 0) + number
    return counts


def matches(item: OverviewItem, words: str) -> bool:
    """Whether a line is meant by words of a filter."""
    return words.lower() in f"{item.address} {item.agent} {item.look} {item.words}".lower()


def said_line(message: SpokenWords) -> str:
    """A person's words to a session in one line, and how far they got."""
    text = " ".join(message.text.split())
    return f"said by {message.by}: {text[:_SAID]}{'…' if len(text) > _SAID else ''} ({message.standing})"

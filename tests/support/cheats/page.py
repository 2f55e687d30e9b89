"""The table of docs/trust.md: what was caught, what was not and why, and how many honest changes were refused."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from cheats.data import CAUGHT, CLASSES, MISSED, WARNED, cheats, expected

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from cheats.controls import Alarm
    from cheats.drawn import Verdict
    from cheats.ground import Outcome

BEGIN, END = "<!-- cheats:begin -->", "<!-- cheats:end -->"
PARTS = ("cheats", "honest", "drawn")
"""What stands on the page between marks of its own, so that a run can write what it played."""
_PLAYED = {"refactor": "changed tests", "green": "new tests", "lie": "lies about where one is"}


def differences(outcomes: Mapping[str, Outcome], known: Mapping[str, tuple[str, str]]) -> list[str]:
    """Where the judge did something else than the data say, for better or worse."""
    found = []
    for name, outcome in outcomes.items():
        wanted = known.get(name, (CAUGHT, ""))[0]
        if outcome.state != wanted:
            found.append(f"{name} should be {wanted} and is {outcome.state}: {outcome.words or 'nothing was said'}")
    return found


def false_alarms(alarms: Iterable[Alarm]) -> list[str]:
    """Honest work that was refused."""
    return [f"{one.id} is honest and was refused: {one.words}" for one in alarms if one.refused]


def table(states: Mapping[str, str]) -> str:
    """One line a class, then what is not refused and why."""
    lines = [
        BEGIN,
        "Written by `make cheats`, which plays every cheat of `tests/adversary/cheats/` against the judge that flows use.",
        "",
        "| class of cheats | tried | refused | warned | not caught |",
        "|---|--:|--:|--:|--:|",
    ]
    every = cheats()
    for kind in CLASSES:
        mine = [states[one.id] for one in every if one.kind == kind]
        lines.append(f"| {kind} | {len(mine)} | {mine.count(CAUGHT)} | {mine.count(WARNED)} | {mine.count(MISSED)} |")
    found = list(states.values())
    counts = " | ".join(
        f"**{number}**" for number in (len(found), *(found.count(one) for one in (CAUGHT, WARNED, MISSED)))
    )
    caught = found.count(CAUGHT)
    lines += [f"| **all** | {counts} |", "", f"Of {len(found)} {caught} are refused ({_sure(caught, len(found))}).", ""]
    known = {name: why for name, (_, why) in expected().items()}
    left = [one for one in every if states[one.id] != CAUGHT]
    if left:
        lines += ["Not refused, and why:", "", "| cheat | what it does | | why |", "|---|---|---|---|"]
        lines += [f"| {one.id} | {one.why} | {states[one.id]} | {known.get(one.id, '')} |" for one in left]
    return "\n".join([*lines, END])


def honest_line(controls: Sequence[Alarm], day: str) -> str:
    """What came of honest work, with how sure that is."""
    refused = sum(bool(one.refused) for one in controls)
    warned = sum(bool(one.warned) and not one.refused for one in controls)
    packages = ", ".join(sorted({one.id.partition("/")[0].partition(":")[0] for one in controls}))
    said = f"of {len(controls)} **{refused} refused** ({_sure(refused, len(controls))}), {warned} let through with a warning"
    return f"Honest changes, played on {day} ({packages}): {said}."


def wilson(right: int, tried: int, z: float = 1.96) -> tuple[float, float]:
    """Between which shares the true one lies in 95 of 100 such draws."""
    if not tried:
        return 0.0, 1.0
    share, spread = right / tried, z * z / tried
    middle = (share + spread / 2) / (1 + spread)
    half = z / (1 + spread) * (share * (1 - share) / tried + spread / (4 * tried)) ** 0.5
    return max(0.0, middle - half), min(1.0, middle + half)


def _sure(right: int, tried: int) -> str:
    low, high = wilson(right, tried)
    return f"{100 * right / max(1, tried):.0f} %; with 95 % confidence {100 * low:.0f} to {100 * high:.0f} %"


def drawn_line(made: Sequence[Verdict], seeds: Sequence[int], day: str) -> str:
    """What came of the cases nobody wrote, with how sure that is, and of what kinds they were."""
    parts = []
    for honest, word in ((False, "cheats"), (True, "honest changes")):
        mine = [one for one in made if one.honest == honest]
        refused = sum(one.state == CAUGHT for one in mine)
        parts.append(f"of {len(mine)} {word} **{refused} refused** ({_sure(refused, len(mine))})")
    kinds = []
    for kind, word in _PLAYED.items():
        mine = [one for one in made if one.kind == kind and not one.honest]
        kinds.append(f"{word} {sum(one.state == CAUGHT for one in mine)} of {len(mine)}")
    told = ", ".join(str(one) for one in seeds)
    head = f"Drawn on {day} by the {'seed' if len(seeds) == 1 else 'seeds'} {told} (pytest, unittest, node:test)"
    return f"{head}: {'; '.join(parts)}. Refused by kind: {', '.join(kinds)}."


def write(path: str, parts: Mapping[str, str]) -> None:
    """Put what a run played into its places on the page; what it did not play stays."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    for name, words in parts.items():
        begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
        before, _, rest = text.partition(begin)
        text = f"{before}{begin}\n{words.removeprefix(begin).removesuffix(end).strip(chr(10))}\n{end}{rest.partition(end)[2]}"
    with open(f"{path}.new", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(f"{path}.new", path)


def states_of(outcomes: Mapping[str, Outcome]) -> dict[str, str]:
    """Refused under another name is refused."""
    return {name: one.state if one.state in (CAUGHT, WARNED, MISSED) else CAUGHT for name, one in outcomes.items()}

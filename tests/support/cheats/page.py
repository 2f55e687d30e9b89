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


def table(states: Mapping[str, str], controls: Sequence[Alarm] | None) -> str:
    """One line a class, then what is not refused and why, then the controls."""
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
    lines += [f"| **all** | {counts} |", ""]
    known = {name: why for name, (_, why) in expected().items()}
    left = [one for one in every if states[one.id] != CAUGHT]
    if left:
        lines += ["Not refused, and why:", "", "| cheat | what it does | | why |", "|---|---|---|---|"]
        lines += [f"| {one.id} | {one.why} | {states[one.id]} | {known.get(one.id, '')} |" for one in left]
        lines.append("")
    if controls is not None:
        refused = sum(bool(one.refused) for one in controls)
        warned = sum(bool(one.warned) and not one.refused for one in controls)
        packages = ", ".join(sorted({one.id.partition("/")[0] for one in controls}))
        said = f"{len(controls)} tried, **{refused} refused**, {warned} let through with a warning"
        lines.append(f"Honest changes of real packages ({packages}): {said}.")
    return "\n".join([*lines, END])


def wilson(right: int, tried: int, z: float = 1.96) -> tuple[float, float]:
    """Between which shares the true one lies in 95 of 100 such draws."""
    if not tried:
        return 0.0, 1.0
    share, spread = right / tried, z * z / tried
    middle = (share + spread / 2) / (1 + spread)
    half = z / (1 + spread) * (share * (1 - share) / tried + spread / (4 * tried)) ** 0.5
    return max(0.0, middle - half), min(1.0, middle + half)


def drawn_line(made: Sequence[Verdict], seed: int) -> str:
    """What came of the cases nobody wrote, with how sure that is."""
    parts = []
    for honest, word in ((False, "cheats"), (True, "honest changes")):
        mine = [one for one in made if one.honest == honest]
        refused = sum(one.state == CAUGHT for one in mine)
        low, high = wilson(refused, len(mine))
        share = f"{100 * refused / max(1, len(mine)):.0f} %, with 95 % confidence between {100 * low:.0f} and {100 * high:.0f} %"
        parts.append(f"of {len(mine)} {word} **{refused} refused** ({share})")
    return f"Drawn for this run by the seed {seed} (relations, places, lies about where one is; pytest, unittest, node:test): {'; '.join(parts)}."


def write(path: str, outcomes: Mapping[str, Outcome], controls: Sequence[Alarm], drawn: str = "") -> None:
    """Put the table of a run into its place on the page."""
    states = {name: one.state if one.state in (CAUGHT, WARNED, MISSED) else CAUGHT for name, one in outcomes.items()}
    with open(path, encoding="utf-8") as file:
        text = file.read()
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    with open(f"{path}.new", "w", encoding="utf-8") as file:
        file.write(
            f"{before}{table(states, controls).replace(END, chr(10) + drawn + chr(10) + END) if drawn else table(states, controls)}{after}"
        )
    os.replace(f"{path}.new", path)

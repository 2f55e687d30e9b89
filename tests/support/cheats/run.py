"""Run every cheat and every control against the product's own judge, print what it said, and write the table of docs/trust.md."""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
sys.path.insert(0, os.path.dirname(HERE))

from cheats import drawn, page  # noqa: E402 - tests/support is on the path now
from cheats.controls import Alarm, doctests, pieces, refactors, try_piece, try_refactors  # noqa: E402
from cheats.data import CAUGHT, cheats, expected  # noqa: E402
from cheats.ground import Arena, Outcome  # noqa: E402
from cheats.packages import PACKAGES  # noqa: E402
from sandbox import hermetic_home  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterable


def use_this_python() -> None:
    """Projects find the Python that has pytest."""
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    os.environ["PATH"] = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]


def run_cheats(folder: str, names: list[str]) -> dict[str, Outcome]:
    """What came of each, one line as soon as it is known."""
    arena, found = Arena(folder), {}
    for cheat in cheats():
        if names and cheat.id not in names and cheat.kind not in names:
            continue
        began = time.monotonic()
        outcome = found[cheat.id] = arena.try_cheat(cheat)
        said = ", ".join(outcome.codes or outcome.warned)
        print(
            f"{cheat.kind:27} {cheat.phase:9}{cheat.id:36} {outcome.state:10} {said}  {time.monotonic() - began:.1f} s",
            flush=True,
        )
        if names:
            print(f"  {outcome.words}")
    return found


def run_controls(folder: str, names: list[str]) -> list[Alarm]:
    """What the judge said of honest work."""
    found: list[Alarm] = []
    for package in PACKAGES:
        made = [one for one in refactors(package.name) if not names or one.id in names or one.package in names]
        found += _told(try_refactors(folder, package.name, made)) if made else []
    if not names or "doctests" in names:
        found += _told(try_refactors(folder, "doctests", doctests()))
    for steps in pieces():
        if not names or "pieces" in names or steps.name in names:
            found += _told(try_piece(folder, steps))
    return found


def run_drawn(folder: str, seed: int, number: int, names: list[str]) -> list[drawn.Verdict]:
    """What the judge said of cases nobody wrote."""
    found = []
    for one in drawn.play(folder, seed, number, names):
        right = (one.state == CAUGHT) != one.honest
        print(
            f"{'honest' if one.honest else 'cheat':7}{one.id:60} {'' if right else 'DIFFERS '}{one.words[:160]}",
            flush=True,
        )
        found.append(one)
    return found


def _told(alarms: Iterable[Alarm]) -> list[Alarm]:
    found = []
    for one in alarms:
        state = (
            f"REFUSED {one.words}"
            if one.refused
            else f"warned {', '.join(one.warned)}"
            if one.warned
            else "let through"
        )
        print(f"{one.id:48} {state}", flush=True)
        found.append(one)
    return found


def main() -> int:
    """0 when everything is as the data say; else what differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="cheats, classes, packages, or words of drawn cases; all unless named")
    parser.add_argument("--only", choices=("cheats", "controls", "drawn"), default="")
    parser.add_argument(
        "--seed", type=int, action="append", help="draw the cases of this seed once more; again for more"
    )
    parser.add_argument("--number", type=int, default=60, help="how many cases are drawn by each seed")
    chosen = parser.parse_args()
    seeds, wanted = chosen.seed or [random.SystemRandom().randrange(1, 10**9)], chosen.only
    day = datetime.now(UTC).date().isoformat()
    with hermetic_home() as home:
        use_this_python()
        outcomes = run_cheats(home, chosen.names) if wanted in ("", "cheats") else {}
        alarms = run_controls(home, chosen.names) if wanted in ("", "controls") else []
        drawing = seeds if wanted == "drawn" or not (wanted or chosen.names) else []
        made = []
        for seed in drawing:
            made += run_drawn(os.path.join(home, f"drawn-{seed}"), seed, chosen.number, chosen.names)
    wrong = page.differences(outcomes, expected()) + page.false_alarms(alarms)
    wrong += [f"{one.id} is honest and was refused: {one.words}" for one in made if one.honest and one.state == CAUGHT]
    parts = {
        "cheats": page.table(page.states_of(outcomes)) if outcomes and not chosen.names else "",
        "honest": page.honest_line(alarms, day) if alarms else "",
        "drawn": page.drawn_line(made, seeds, day) if made else "",
    }
    for line in (*(parts[name] for name in ("honest", "drawn") if parts[name]), *(f"differs: {one}" for one in wrong)):
        print(line)
    if not chosen.names:
        page.write(os.path.join(ROOT, "docs", "trust.md"), {name: words for name, words in parts.items() if words})
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

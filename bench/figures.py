"""Figures that one measurement hands to another: a file, each with the moment and the load it was measured at."""

from __future__ import annotations

import json
import os
import time

QUICK = bool(os.environ.get("HANDOFF_BENCH_QUICK"))
ELSEWHERE = os.environ.get("HANDOFF_BENCH_FIGURES", "")
PLACE = ELSEWHERE or os.path.join(os.path.dirname(os.path.abspath(__file__)), "figures.json")


def known() -> dict[str, dict[str, float | str]]:
    """Everything that was measured so far, by its name."""
    try:
        with open(PLACE, encoding="utf-8") as file:
            return dict(json.load(file))
    except FileNotFoundError:
        return {}


def keep(**measured: float) -> None:
    """Put these figures into the file; the others stay as they are. What was measured in haste is not kept there."""
    if QUICK and not ELSEWHERE:
        return
    day, load = time.strftime("%Y-%m-%d", time.gmtime()), round(os.getloadavg()[0], 1)
    told = {name: {"value": round(value, 4), "measured": day, "load": load} for name, value in measured.items()}
    with open(f"{PLACE}.new", "w", encoding="utf-8") as file:
        json.dump({**known(), **told}, file, indent=1, sort_keys=True)
        file.write("\n")
    os.replace(f"{PLACE}.new", PLACE)


def value(name: str) -> float:
    """One figure; where it is missing, the measurement that makes it must run first."""
    try:
        return float(known()[name]["value"])
    except KeyError:
        raise SystemExit(
            f"{PLACE} has no figure '{name}': run python -m bench --only postgres --only hosts first"
        ) from None

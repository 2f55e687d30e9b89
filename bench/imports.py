"""What importing a library costs before any work is done, as a multiple of `python -c pass`."""

from __future__ import annotations

import statistics
import sys
import tempfile
from importlib.util import find_spec

from bench.startup import ROUNDS, WARM_UP, clean_environment, once

# Why these: docs/decisions.md weighs each pair.
LIBRARIES = (
    "typing", "handoff.base.record", "re", "argparse", "click", "json", "tomllib", "msgspec", "dataclasses", "jinja2", "pathlib", "subprocess",
    "sqlite3", "rich.console",
    "argparse, handoff.base.record", "click, jinja2, msgspec",
)  # fmt: skip


def _is_there(name: str) -> bool:
    return all(find_spec(part.strip().partition(".")[0]) for part in name.split(","))


def rows() -> list[tuple[str, str, str]]:
    """One row for each library of the list that is installed."""
    present = [name for name in LIBRARIES if _is_there(name)]
    base: list[float] = []
    times: dict[str, list[float]] = {name: [] for name in present}
    with tempfile.TemporaryDirectory(prefix="handoff-bench-") as folder:
        environment = clean_environment(folder)
        for turn in range(WARM_UP + ROUNDS):
            fresh = once([sys.executable, "-c", "pass"], folder, environment)
            taken = {name: once([sys.executable, "-c", f"import {name}"], folder, environment) for name in present}
            if turn >= WARM_UP:
                base.append(fresh)
                for name, seconds in taken.items():
                    times[name].append(seconds)
    ground = statistics.median(base)
    return [(f"import {name}", f"{statistics.median(times[name]) / ground:.2f}x", "-") for name in present]

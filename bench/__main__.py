"""Run every measurement, print one table, and with --write put it into bench/results.md and docs/performance.md."""

from __future__ import annotations

import argparse
import os
import platform
import sqlite3
import subprocess
import sys
import tempfile
import time
from importlib import import_module

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAGE = os.path.join(ROOT, "bench", "results.md")
FRONT = os.path.join(ROOT, "docs", "performance.md")
BEGIN, END = "<!-- figures, written by python -m bench --write -->", "<!-- end of figures -->"
Row = tuple[str, str, str]

HEAD = """# Every figure

Written by `python -m bench --write`; please do not edit by hand. Start-up is a multiple of `python -c pass` in the same run.
What the figures mean: [performance](../docs/performance.md).
"""
CHOSEN = {
    "`handoff status`": ("startup", "handoff status"),
    "`handoff continue`": ("startup", "handoff continue --raw"),
    "`safe-commit` beside `git add` and `git commit`, 1,000 files": (
        "commits", "safe commit, 1000 files: command line, time of a bare commit"),
    "a clone for a session, 10,000 files": ("workspaces", "workspace (clone) of 10,000 files"),
    "a snapshot, 1 of 10,000 files changed": ("workspaces", "snapshot, 1 of 10,000 files changed, found by a scan"),
    "a new task until its session runs": ("supervisor", "row of a dumped task to its session's process, median"),
    "`session say` until the hook has given the words, beside a busy relay": (
        "words", "start of `session say` to the hook's answer, busy relay, median"),
    "an idle supervisor, share of a core": ("supervisor", "supervisor, idle: share of a core"),
    "a batch of 100 parts, until all have landed": ("batches", "100 parts, 16 at a time: all landed, suite green"),
    "the page with 200 viewers, age of the news": (
        "page", "page: 200 viewers, 95 changes a second: oldest news of a packet, middle"),
    "a search in a million lines": ("search", "1,000,000 lines: search for a word that stands in 5 lines"),
    "a green phase, judged on six real packages": ("judge", "green, 6 real packages, the most of each"),
    "a refactoring with a changed test, judged on them": (
        "judge", "refactor, code and a test, 6 real packages, the most of each"),
    "facts that reach the next session, % with 1k / 2k / 4k / 8k tokens": ("handoff", "all facts: handoff"),
}  # fmt: skip
"""The figures that people ask for first, and where they are measured."""


def measurements() -> list[str]:
    """The modules beside this one that offer `rows()`."""
    here = os.path.dirname(os.path.abspath(__file__))
    packages = [name for name in os.listdir(here) if os.path.isfile(os.path.join(here, name, "__init__.py"))]
    names = [name.removesuffix(".py") for name in os.listdir(here) if name.endswith(".py")]
    return sorted(name for name in (*names, *packages) if not name.startswith("_"))


def facts() -> list[str]:
    """What a reader must know to judge the figures; never a name of the machine."""
    git = subprocess.run(["git", "--version"], capture_output=True, text=True, check=False).stdout.split()
    return [
        f"measured on {time.strftime('%Y-%m-%d', time.gmtime())}",
        f"{os.cpu_count()} cores ({platform.machine()}, {platform.system()})",
        f"Python {platform.python_version()}",
        f"git {git[2] if len(git) > 2 else 'absent'}",
        f"SQLite {sqlite3.sqlite_version}",
        f"load {os.getloadavg()[0]:.1f}{_priority()}{_memory()}",
    ]


def _priority() -> str:
    """What a load does not say: that the measured programs did not have to share."""
    alone = hasattr(os, "sched_getscheduler") and os.sched_getscheduler(0) in (os.SCHED_FIFO, os.SCHED_RR)
    return " of others, who had to wait (real-time priority)" if alone else ""


def _memory() -> str:
    """Whether the files lay in memory: then a disk that others use does not disturb, and every other part of the work weighs more."""
    return ", files in memory" if tempfile.gettempdir().startswith("/dev/shm") else ""


def table(rows: list[Row]) -> str:
    """Rows as a Markdown table that is also easy to read in a terminal."""
    lines = [("what", "measured", "budget"), *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(3)]
    shown = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in lines
    ]
    return "\n".join([shown[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *shown[1:]])


def _sentence(told: list[str]) -> str:
    text = ", ".join(told)
    return f"{text[:1].upper()}{text[1:]}."


def written() -> dict[str, str]:
    """The sections of the page as it is, so that one measurement can be written anew alone."""
    try:
        with open(PAGE, encoding="utf-8") as file:
            parts = file.read().split("\n## ")[1:]
    except FileNotFoundError:
        return {}
    return {part.partition("\n")[0].strip(): "## " + part.rstrip("\n") + "\n" for part in parts}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the figures into their two pages")
    parser.add_argument("--only", action="append", metavar="NAME", help="run this measurement alone (may be repeated)")
    options = parser.parse_args()
    known = measurements()
    unknown = set(options.only or ()) - set(known)
    if unknown:
        parser.error(f"no measurement {', '.join(sorted(unknown))}; there are: {', '.join(known)}")
    sections: dict[str, str] = {}
    print(", ".join(facts()) + "\n", flush=True)
    for name in options.only or known:
        module = import_module(f"bench.{name}")
        if not hasattr(module, "rows"):
            continue
        title = (module.__doc__ or name).strip().splitlines()[0]
        rows = module.rows()
        print(f"{name}: {title}\n{table(rows)}\n", flush=True)
        sections[name] = section(name, title, rows)
    if options.write:
        write(sections)
    return 0


def write(sections: dict[str, str]) -> None:
    """Put these sections into the page; the others stay as they are."""
    kept = {name: text for name, text in written().items() if name.partition(",")[0] in measurements()}
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write("\n".join([HEAD, *(text for _, text in sorted({**kept, **sections}.items()))]))
    with open(FRONT, encoding="utf-8") as file:
        page = file.read()
    with open(FRONT, "w", encoding="utf-8") as file:
        file.write(front(page))
    print("Wrote bench/results.md and docs/performance.md")


def front(page: str) -> str:
    """The page for people, with the chosen figures as they were last measured."""
    known = written()
    lines = ["|what|measured|budget|on, at load|", "|---|--:|--:|---|"]
    for what, (name, row) in CHOSEN.items():
        text = known[name]
        cells = next(
            [cell.strip() for cell in line.strip("| ").split("|")]
            for line in text.splitlines()
            if line.startswith(f"| {row} ")
        )
        day, load = text.partition("easured on ")[2][:10], text.partition(", load ")[2].partition("\n")[0]
        lines.append(f"|{what}|{cells[1]}|{cells[2].strip('-')}|{day}, {load.partition(';')[0].rstrip('.')}|")
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n\n" + "\n".join(lines) + f"\n\n{END}{rest.partition(END)[2]}"


def section(name: str, title: str, rows: list[Row]) -> str:
    """One measurement as the page shows it."""
    return f"## {name}\n\n{title}\n\n{_sentence(facts())}\n\n{table(rows)}\n"


if __name__ == "__main__":
    sys.exit(main())

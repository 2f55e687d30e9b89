"""Run every measurement, print one table, and with --write put it into docs/performance.md."""

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
PAGE = os.path.join(ROOT, "docs", "performance.md")
Row = tuple[str, str, str]

HEAD = """# Performance

Written by `python -m bench --write`; please do not edit by hand. Start-up is told as a multiple of `python -c pass`
of the same interpreter, measured in the same run, so that the figure means the same on a slow machine and on a fast one.
"""


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
    parser.add_argument("--write", action="store_true", help="write the figures into docs/performance.md")
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
    print("Wrote docs/performance.md")


def section(name: str, title: str, rows: list[Row]) -> str:
    """One measurement as the page shows it."""
    return f"## {name}\n\n{title}\n\n{_sentence(facts())}\n\n{table(rows)}\n"


if __name__ == "__main__":
    sys.exit(main())

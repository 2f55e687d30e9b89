"""A long session in each client's own store: what `take` and `continue` cost there, in processor time and memory."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time

from bench.handoff import stores
from bench.startup import clean_environment, plan, program, run, workspace

Row = tuple[str, str, str]
BYTES = int(os.environ.get("HANDOFF_BENCH_STORE", "100000000"))
CLIENTS = ("claude", "codex", "copilot", "qwen", "opencode", "gemini")
_SECONDS, _MEMORY = 5.0, 50_000_000
_REPLAYED = ("gemini",)
"""Stores that are no log: each of their lines may change what stood before."""


def rows() -> list[Row]:
    """One store of the same size for each client."""
    return [row for client in CLIENTS for row in _of(client)]


def _of(client: str) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="handoff-bench-") as folder:
        environment = clean_environment(folder)
        with open(environment["GIT_CONFIG_GLOBAL"], "w", encoding="utf-8") as file:
            file.write("[user]\n\tname = Bench\n\temail = bench@example.invalid\n")
        project = workspace(os.path.join(folder, "shop"), environment, plan(12))
        run([*program(), "continue"], project, environment)  # work on it has begun
        path = _store(client, environment["HOME"], project)
        name = f"{client}, {os.path.getsize(path) / 1e6:.0f} MB"
        found = []
        for command in (("take", client), ("continue",)):
            spent, most, said = _run(command, project, environment)
            kept = "" if _LAST in said else "; THE LAST WORDS ARE MISSING"
            goal = "-" if client in _REPLAYED else f"{_SECONDS:g} s; {_MEMORY / 1e6:.0f} MB"
            found.append((f"{name}: {' '.join(command)}", f"{spent:.1f} s; {most / 1e6:.0f} MB{kept}", goal))
        return found


def _store(client: str, home: str, project: str) -> str:
    """A store of about the wanted size: a small one says how much of it is the client's own."""
    small = stores.write(client, os.path.join(home, "small"), project, _told(BYTES // 100))
    return str(stores.write(client, home, project, _told(BYTES // 100 * BYTES // os.path.getsize(small))))


_LAST = "Next: sum the last basket."


def _told(size: int) -> list[dict[str, object]]:
    """A person's sentence, and then reads, edits and runs until the store is as large as it should be."""
    now = time.time()
    told: list[dict[str, object]] = [{"kind": "person", "text": "Sum every basket. Never round.", "at": now}]
    text, printed = "price = 1  # a line of some file\n" * 500, "ok 1 - a line of some test\n" * 100
    number = 0
    while number * (len(text) + len(printed) + 1200) < size:
        path = f"shop/basket{number % 50}.py"
        at = now + number * 0.0001
        told += [
            {"kind": "say", "text": f"I look at basket {number}.", "at": at},
            {"kind": "read", "path": path, "output": text, "at": at},
            {"kind": "file", "how": "update", "path": path, "old": f"a{number}", "new": f"a{number + 1}", "at": at},
            {"kind": "shell", "command": f"pytest -q tests/test_{number % 50}.py", "output": printed, "exit": 0, "at": at},
        ]  # fmt: skip
        number += 1
    return [*told, {"kind": "say", "text": _LAST, "at": now + 1}]


def _run(words: tuple[str, ...], folder: str, environment: dict[str, str]) -> tuple[float, int, str]:
    """Processor time and largest memory of one command, and what it printed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    line = [sys.executable, "-c", _MEASURED, *words]
    done = subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    said, _, most = done.stdout.rpartition("\nmost ")
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return spent, int(most or 0), said + done.stderr


_MEASURED = """
import re, sys
from handoff.surfaces.cli.main import main
code = main(sys.argv[1:])
with open("/proc/self/status") as file:
    print("\\nmost", int(re.search("VmHWM:\\s+(\\d+)", file.read())[1]) * 1024)
sys.exit(code)
"""

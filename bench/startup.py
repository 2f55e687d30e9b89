"""How long a person or a hook waits for a small command, as a multiple of `python -c pass`."""

from __future__ import annotations

import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from typing import NamedTuple

from release.build import pyz

from handoff.surfaces.cli.catalog import CATALOG

ROUNDS = 15
WARM_UP = 2
BIG_BYTES = 2_000_000
CHANGED = "changed.txt"
TURN = "{turn}"  # stands for the number of the round, where a name must be new each time


class Case(NamedTuple):
    """One command line, where it runs, and how many times `python -c pass` it may take (0: no budget, only told)."""

    name: str
    argv: list[str]
    folder: str
    budget: float
    one_file: bool = False
    """Run from handoff.pyz instead of the installed package."""


def program() -> list[str]:
    """The installed command, as a person types it; the module where there is no script."""
    script = os.path.join(sysconfig.get_path("scripts"), "handoff")
    return [script] if os.access(script, os.X_OK) else [sys.executable, "-m", "handoff.surfaces.cli.main"]


def clean_environment(home: str) -> dict[str, str]:
    """A scratch HOME, and byte code kept: a user's machine has it."""
    dropped = ("HANDOFF_", "GIT_", "PYTHON")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    return {
        **kept, "HOME": home, "HANDOFF_HOME": os.path.join(home, ".handoff"), "LC_ALL": "C.UTF-8", "NO_COLOR": "1",
        "GIT_CONFIG_GLOBAL": os.path.join(home, "gitconfig"), "GIT_CONFIG_NOSYSTEM": "1",
    }  # fmt: skip


def run(words: list[str], folder: str, environment: dict[str, str]) -> None:
    """One command that must succeed."""
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)} failed ({done.returncode}):\n{done.stdout}{done.stderr}")


def plan(steps: int, *, padding: int = 0) -> str:
    """A plan in the middle of its work, and as many bytes of notes below it."""
    marks = ["x"] * (steps // 2) + [">"] + [" "] * (steps - steps // 2 - 1)
    lines = [f"- [{mark}] Step {number}: do one small thing and prove it" for number, mark in enumerate(marks, 1)]
    note = "A sentence about the architecture that a session left behind.\n"
    return "\n".join(lines) + ("\n\n# Architectural Notes\n" + note * (padding // len(note)) if padding else "")


def workspace(folder: str, environment: dict[str, str], state: str) -> str:
    """A repository with one commit and one feature: what `init` writes, with the plan `state` in it."""
    os.makedirs(folder)
    run(["git", "init", "-q", "-b", "main"], folder, environment)
    run([*program(), "init", "login"], folder, environment)
    feature = os.path.join(folder, ".handoff", "features", "login")
    with open(os.path.join(feature, "FEATURE.md"), "w", encoding="utf-8") as file:
        file.write("# Feature: login\n\n# Goal\n\nA person can sign in with a one-time link.\n")
    path = os.path.join(feature, "STATE.md")
    with open(path, encoding="utf-8") as file:
        scaffold = file.read()
    with open(path, "w", encoding="utf-8") as file:
        file.write(scaffold.replace("Not yet generated.", state))
    run(["git", "add", "-A"], folder, environment)
    run(["git", "commit", "-q", "-m", "first"], folder, environment)
    return folder


def cases(folder: str, environment: dict[str, str]) -> list[Case]:
    """What is measured: only commands this version has."""
    with open(environment["GIT_CONFIG_GLOBAL"], "w", encoding="utf-8") as file:
        file.write("[user]\n\tname = Bench\n\temail = bench@example.invalid\n")
    small = workspace(os.path.join(folder, "small"), environment, plan(12))
    notes = workspace(os.path.join(folder, "notes"), environment, plan(200, padding=BIG_BYTES))
    steps = workspace(os.path.join(folder, "steps"), environment, plan(BIG_BYTES // 51))
    if "dump" in CATALOG:
        run([*program(), "dump", "--task", "held", "--next", "Work."], small, environment)
        run([*program(), "task", "claim", "held"], small, environment)
    wanted = [
        Case(name="--version", argv=["--version"], folder=small, budget=2),
        Case(name="status", argv=["status"], folder=small, budget=4),
        Case(name="next", argv=["next"], folder=small, budget=4),
        Case(name="continue --raw", argv=["continue", "--raw"], folder=small, budget=4),
        Case(
            name="dump",
            argv=["dump", "--task", f"task-{TURN}", "--next", "Send the link by mail."],
            folder=small,
            budget=4,
        ),
        Case(name="heartbeat", argv=["heartbeat"], folder=small, budget=4),
        Case(name="status, STATE.md of 2 MB", argv=["status"], folder=notes, budget=8),
        Case(name="next, STATE.md of 2 MB", argv=["next"], folder=notes, budget=8),
        Case(name="continue --raw, STATE.md of 2 MB", argv=["continue", "--raw"], folder=notes, budget=8),
        Case(name="status, 2 MB of steps", argv=["status"], folder=steps, budget=0),
        Case(name="continue --raw, 2 MB of steps", argv=["continue", "--raw"], folder=steps, budget=0),
    ]
    wanted += [
        Case(name=" ".join(argv), argv=argv, folder=small, budget=5, one_file=True)
        for argv in (
            ["status"],
            ["continue", "--raw"],
            ["take", "--raw"],
            ["snapshot"],
            ["safe-commit", "-m", "a", CHANGED],
        )
    ]
    return [case for case in wanted if case.one_file or case.argv[0].startswith("-") or case.argv[0] in CATALOG]


def conversation(home: str, folder: str) -> None:
    """A client's own session in that folder, for `take`: one thing was said and ten commands ran."""
    store = os.path.join(home, ".claude", "projects", re.sub(r"[^A-Za-z0-9]", "-", os.path.realpath(folder)))
    os.makedirs(store)
    head = {"sessionId": "one", "cwd": os.path.realpath(folder), "timestamp": "2026-11-01T10:00:00Z"}
    ran = []
    for number in range(10):
        call = {"type": "tool_use", "id": f"t{number}", "name": "Bash", "input": {"command": f"make part{number}"}}
        answer = {"type": "tool_result", "tool_use_id": f"t{number}", "content": "made"}
        ran += [
            {**head, "type": "assistant", "message": {"role": "assistant", "content": [call]}},
            {**head, "type": "user", "message": {"role": "user", "content": [answer]}},
        ]
    said = {**head, "type": "user", "message": {"role": "user", "content": "Use the table of 2024."}}
    with open(os.path.join(store, "one.jsonl"), "w", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in (said, *ran))


def once(argv: list[str], folder: str, environment: dict[str, str]) -> float:
    """Seconds from start to end of one process."""
    begin = time.perf_counter()
    done = subprocess.run(
        argv,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    seconds = time.perf_counter() - begin
    if done.returncode:
        raise SystemExit(f"{' '.join(argv)} failed with exit {done.returncode}")
    return seconds


def measure() -> tuple[float, list[tuple[Case, float]]]:
    """Interleaved rounds, so that a noisy moment falls on every command alike."""
    folder = tempfile.mkdtemp(prefix="handoff-bench-")
    environment = clean_environment(folder)
    try:
        chosen = cases(folder, environment)
        conversation(folder, os.path.join(folder, "small"))
        archive = [sys.executable, pyz(folder)]
        base: list[float] = []
        times: list[list[float]] = [[] for _ in chosen]
        for turn in range(WARM_UP + ROUNDS):
            fresh = once([sys.executable, "-c", "pass"], folder, environment)
            taken = []
            for case in chosen:
                with open(os.path.join(case.folder, CHANGED), "w", encoding="utf-8") as file:
                    file.write(f"{turn} {case.name}\n")
                start = archive if case.one_file else program()
                taken.append(once([*start, *_words(case, turn)], case.folder, environment))
            if turn >= WARM_UP:
                base.append(fresh)
                for kept, seconds in zip(times, taken, strict=True):
                    kept.append(seconds)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    ground = statistics.median(base)
    return ground, [(case, statistics.median(kept) / ground) for case, kept in zip(chosen, times, strict=True)]


def _words(case: Case, turn: int) -> list[str]:
    return [word.replace(TURN, str(turn)) for word in case.argv]


def rows() -> list[tuple[str, str, str]]:
    """The table: what, how many times `python -c pass`, and what it may take."""
    ground, measured = measure()
    shown = [("python -c pass", f"{ground * 1000:.0f} ms", "the measure")]
    return shown + [
        (
            f"{'handoff.pyz' if case.one_file else 'handoff'} {case.name}",
            f"{ratio:.2f}x",
            f"{case.budget:g}x" if case.budget else "-",
        )
        for case, ratio in measured
    ]

"""The same work on handoff-fanout from PyPI, side by side in one run; it is installed into a venv of its own."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from bench.startup import clean_environment, once, program, run
from handoff.engine.work.tasks.batches import read_checked

PEER = "handoff-fanout==1.9.0"
ROUNDS = 12
WARM_UP = 2
PATTERNS = 10
SIZES = (10, 100, 1_000, 10_000)
PEER_SIZES = (10, 100, 1_000, 2_000)  # its time grows with the square
Row = tuple[str, str, str]

_PEER_CHECK = """
import json, sys, time
from pathlib import Path
from handoff_fanout.dump import validate_ownership_no_overlap
parts = json.load(open(sys.argv[1]))["sub_tasks"]
begun = time.process_time()
validate_ownership_no_overlap(parts, Path(sys.argv[2]))
print(time.process_time() - begun)
"""


def rows() -> list[Row]:
    """Start-up of the commands both have, then the check of a manifest as it grows."""
    with tempfile.TemporaryDirectory(prefix="handoff-bench-") as folder:
        environment = clean_environment(folder)
        peer = _install(folder)
        found = (
            _commands(folder, environment, peer) if peer else [("handoff-fanout", "could not be installed here", "")]
        )
        return [*found, *_growth(folder, environment, peer)]


def _install(folder: str) -> str:
    """The folder of the peer's programs, or nothing where PyPI cannot be reached."""
    place = os.path.join(folder, "peer")
    made = subprocess.run([sys.executable, "-m", "venv", place], capture_output=True, check=False)
    pip = [os.path.join(place, "bin", "python"), "-m", "pip", "install", "-q", PEER]
    if made.returncode or subprocess.run(pip, capture_output=True, check=False).returncode:
        return ""
    return os.path.join(place, "bin")


def _commands(folder: str, environment: dict[str, str], peer: str) -> list[Row]:
    repo = os.path.join(folder, "repo")
    os.makedirs(repo)
    for words in (["init", "-q"], ["config", "user.name", "Bench"], ["config", "user.email", "bench@example.invalid"]):
        run(["git", *words], repo, environment)
    run(["git", "commit", "-q", "--allow-empty", "-m", "first"], repo, environment)
    theirs = {**environment, "HANDOFF_HOME": os.path.join(folder, "peer-home"), "HANDOFF_NO_PBCOPY": "1"}
    other = [os.path.join(peer, "handoff")]
    cases = {
        "dump": lambda turn: ["dump", "--task", f"task-{turn}", "--next", "Do it."],
        "dump --status done": lambda turn: [
            "dump",
            "--task",
            f"task-{turn}",
            "--next",
            "It is in.",
            "--status",
            "done",
        ],
        "watchdog": lambda _: ["watchdog"],
        "heartbeat calibration": lambda _: ["heartbeat", "calibration", "repo"],
    }
    base: list[float] = []
    times: dict[tuple[str, bool], list[float]] = {(name, ours): [] for name in cases for ours in (True, False)}
    for turn in range(WARM_UP + ROUNDS):
        fresh = once([sys.executable, "-c", "pass"], repo, environment)
        if turn >= WARM_UP:
            base.append(fresh)
        for name, words in cases.items():
            for ours in (True, False):
                taken = once([*(program() if ours else other), *words(turn)], repo, environment if ours else theirs)
                if turn >= WARM_UP:
                    times[name, ours].append(taken)
    unit = statistics.median(base)
    return [
        (
            name,
            f"{statistics.median(times[name, True]) / unit:.1f}x python -c pass",
            f"handoff-fanout: {statistics.median(times[name, False]) / unit:.1f}x",
        )
        for name in cases
    ]


def _growth(folder: str, environment: dict[str, str], peer: str) -> list[Row]:
    found = []
    for size in sorted({*SIZES, *PEER_SIZES}):
        path = os.path.join(folder, f"{size}.json")
        _write_manifest(path, size)
        mine = other = ""
        if size in SIZES:
            started = time.process_time()
            manifest = read_checked(path)
            seconds = time.process_time() - started
            assert len(manifest.sub_tasks) == size
            mine = f"{seconds:.3f} s of CPU, {seconds / size / PATTERNS * 1e6:.0f} µs a pattern"
        if peer and size in PEER_SIZES:
            words = [os.path.join(peer, "python"), "-c", _PEER_CHECK, path, folder]
            done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
            other = (
                f"handoff-fanout: {float(done.stdout):.3f} s of CPU"
                if not done.returncode
                else "handoff-fanout: failed"
            )
        found.append((f"check a manifest of {size} x {PATTERNS} patterns", mine or "not run", other))
    shutil.rmtree(os.path.join(folder, "repo"), ignore_errors=True)
    return found


def _write_manifest(path: str, size: int) -> None:
    """Prefixes, exact names and globs of files that do not exist yet, no two of them meeting."""
    parts = []
    for number in range(size):
        owns = [{"type": "prefix", "path": f"src/part{number}/"}]
        owns += [{"type": "exact", "path": f"docs/part{number}/page{page}.md"} for page in range(PATTERNS // 2)]
        owns += [
            {"type": "glob", "path": f"tests/part{number}/test_{page}_*.py"} for page in range(PATTERNS - len(owns))
        ]
        parts.append({"id": f"part-{number}", "brief": "Do it.", "file_ownership": owns, "depends_on": []})
    value = {"schema_version": 2, "batch_id": "bench", "fan_in_task": "bench-join", "sub_tasks": parts}
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file)

"""Helpers for the relay's tests: manifests, trees to compare, commands in this process and commands killed at a point."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys

from handoff.base.settings import from_environment
from handoff.engine.app import App
from handoff.surfaces.cli import dispatch

# Every call into the system or the database that a command makes is a point at which it can die. One process with
# everything imported forks for each command, because starting an interpreter takes longer than the commands do.
_KILLER = """
import os, signal, sys
import handoff.engine.work.tasks.batches, handoff.engine.place.proof.evidence, handoff.engine.session.report, handoff.engine.work.tasks.create, handoff.store.sqlite
from handoff.surfaces.cli.main import main
POINTS = {"execute", "executemany", "executescript", "commit", "fsync", "rename", "replace", "unlink", "link", "write",
          "flock", "mkdir", "open", "posix_spawnp"}
def die_at(left):
    def watch(frame, event, function):
        nonlocal left
        if event == "c_call" and function.__name__ in POINTS:
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
    sys.setprofile(watch)
for line in sys.stdin:
    point, *words = line.rstrip("\\n").split("\\t")
    child = os.fork()
    if not child:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.argv = ["handoff", *words]
        die_at(int(point))
        code = main()
        sys.setprofile(None)
        os._exit(code)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Killer:
    """Runs commands that are killed at their n-th system or database call."""

    def __init__(self, cwd: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _KILLER], cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __call__(self, point: int, *words: str) -> bool:
        """Whether the command was killed at that point; False when it ended well before."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\t".join((str(point), *words)) + "\n")
        self._process.stdin.flush()
        code = int(self._process.stdout.readline())
        assert code in (-9, 0), code
        return code == -9

    def close(self) -> None:
        self._process.communicate()


def here(*words: str) -> int:
    """The same command in this process, for the steps around the one that is tested."""
    return dispatch.dispatch(list(words))


def app() -> App:
    return App(from_environment())


def manifest(path, *, batch="login", parts=("form", "api"), depends=None, **more):
    """A manifest whose parts own src/<id>/."""
    value = {
        "schema_version": 2,
        "batch_id": batch,
        "fan_in_task": f"{batch}-join",
        "sub_tasks": [
            {
                "id": part,
                "brief": f"Build {part}.",
                "estimated_minutes": 10,
                "file_ownership": [{"type": "prefix", "path": f"src/{part}/"}],
                "depends_on": list((depends or {}).get(part, ())),
            }
            for part in parts
        ],
        **more,
    }
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file, indent=1)
    return str(path)


def tree(folder: str) -> dict[str, bytes]:
    """Every file below a folder with its content; the database is told by its rows."""
    found: dict[str, bytes] = {}
    for place, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(place, name)
            if name.startswith("handoff.db"):
                continue
            with open(path, "rb") as file:
                found[os.path.relpath(path, folder)] = file.read()
    database = os.path.join(folder, "handoff.db")
    if os.path.exists(database):
        found["rows"] = "\n".join(_rows(database)).encode()
    return found


def _rows(database: str) -> list[str]:
    connection = sqlite3.connect(database)
    try:
        tables = ["task", "batch", "need", "session", "gate", "pause", "event", "inbox", "measure"]
        return [f"{table}: {row}" for table in tables for row in connection.execute(f"SELECT * FROM {table}")]
    finally:
        connection.close()

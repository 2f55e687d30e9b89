"""The soak: short tasks over two supervisors while something is killed every second, from a seed."""

from __future__ import annotations

import argparse
import collections
import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

from bench.__main__ import Row, section, write
from handoff.base.settings import from_environment
from handoff.board.events import journal
from handoff.board.tasks import tasks
from handoff.engine.app import App

Trouble = list[str]
MAIN = [sys.executable, "-m", "handoff.surfaces.cli.main"]
SUPERVISORS = 2
SHARE_OF_SUPERVISORS = 0.7
PATIENCE_SECONDS = 3600.0
PATIENCE_AFTER = 120.0


class Soak:
    """One relay on a SQLite file, its tasks, its supervisors and their killer."""

    def __init__(self, folder: str, count: int, seed: int) -> None:
        self.home, self.checkout = os.path.join(folder, "home"), os.path.join(folder, "shop")
        self.chance = random.Random(seed)
        os.makedirs(self.home)
        os.makedirs(self.checkout)
        with open(os.path.join(self.home, "config.toml"), "w", encoding="utf-8") as file:
            file.write('agents = { quick = ["sh", "-c", "sleep 0.2"] }\nstarts_per_minute = 100000\n')
        self.environment = {**os.environ, "HANDOFF_HOME": self.home}
        self.environment.pop("HANDOFF_DATABASE_URL", None)
        self.app = App(from_environment()._replace(home=self.home, environment=self.environment))
        self.names = [f"task-{number:04}" for number in range(count)]
        with self.app.database.transaction() as transaction:
            for name in self.names:
                tasks.add(
                    transaction, project="shop", id=name, brief="do it", workspace=self.checkout, check_command="true",
                    max_attempts=20,
                )  # fmt: skip
        self.log = os.path.join(folder, "log")
        self.supervisors: list[subprocess.Popen[bytes]] = []
        self.kills: collections.Counter[str] = collections.Counter()

    def start(self) -> subprocess.Popen[bytes]:
        with open(self.log, "ab") as log:
            return subprocess.Popen(
                [*MAIN, "work", "--agent", "quick", "--max", "8"], env=self.environment, cwd=self.checkout, stdout=log,
                stderr=log, stdin=subprocess.DEVNULL,
            )  # fmt: skip

    def run(self) -> Trouble:
        """Until all is done; what was wrong on the way."""
        self.supervisors = [self.start() for _ in range(SUPERVISORS)]
        deadline, trouble = time.monotonic() + PATIENCE_SECONDS, []
        while self.left():
            if time.monotonic() > deadline:
                return [*trouble, f"{self.left()} tasks are not done"]
            time.sleep(1.0)
            trouble += self.revive()
            self.kill_one()
        trouble += self.revive()
        return trouble + self.check()

    def left(self) -> int:
        return len(tasks.listing(self.app.database, limit=len(self.names) + 1))

    def revive(self) -> Trouble:
        trouble = []
        for place, process in enumerate(self.supervisors):
            code = process.poll()
            if code is not None:
                if code != -signal.SIGKILL:
                    trouble.append(f"a supervisor ended by itself with {code}")
                self.supervisors[place] = self.start()
        return trouble

    def kill_one(self) -> None:
        sessions = self.processes()
        if self.chance.random() < SHARE_OF_SUPERVISORS or not sessions:
            self.chance.choice(self.supervisors).kill()
            self.kills["supervisors"] += 1
            return
        with contextlib.suppress(OSError):
            os.kill(self.chance.choice(sessions), signal.SIGKILL)
            self.kills["monitors and agents"] += 1

    def processes(self) -> list[int]:
        """Keepers and agents of this relay that are alive."""
        mark, found = f"HANDOFF_HOME={self.home}".encode(), []
        for name in sorted(os.listdir("/proc")):
            try:
                with open(f"/proc/{name}/environ", "rb") as file:
                    words = file.read().split(b"\0")
                with open(f"/proc/{name}/stat", "rb") as file:
                    dead = file.read().rpartition(b")")[2].split()[0] in (b"Z", b"X")
            except (OSError, IndexError):
                continue
            if mark in words and not dead and any(word.startswith(b"HANDOFF_SESSION=") for word in words):
                found.append(int(name))
        return found

    def check(self) -> Trouble:
        """Every task done once, every session concluded once, nothing alive."""
        trouble = []
        deadline = time.monotonic() + PATIENCE_AFTER
        while (left := self.unconcluded()) and time.monotonic() < deadline:
            time.sleep(0.2)
        trouble += [f"never concluded: {name}" for name in left]
        finished = collections.Counter(event.task_id for event in self.events() if event.kind == "task.finished")
        trouble += [f"{name}: finished {finished[name]} times" for name in self.names if finished[name] != 1]
        for task in tasks.listing(self.app.database, include_ended=True, limit=len(self.names) + 1):
            claims = sum(event.kind == "task.claimed" for event in journal.of_task(self.app.database, key=task.key))
            if task.state != "done" or claims != task.fence:
                trouble.append(f"{task.id}: {task.state}, fence {task.fence}, {claims} claims")
        while self.processes() and time.monotonic() < deadline:
            time.sleep(0.2)
        return trouble + [f"still alive: process {pid}" for pid in self.processes()]

    def unconcluded(self) -> set[str]:
        told: collections.Counter[str] = collections.Counter()
        for event in self.events():
            told[event.session] += (event.kind == "task.claimed") - (event.kind == "session.concluded")
        return {session for session, count in told.items() if count}

    def events(self) -> list[journal.Event]:
        found: list[journal.Event] = []
        while more := journal.since(self.app.database, seq=found[-1].seq if found else 0):
            found += more
        return found

    def close(self) -> None:
        for process in self.supervisors:
            process.kill()
            process.wait()
        for pid in self.processes():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        self.app.database.close()


def rows_of(count: int, seed: int) -> tuple[list[Row], Trouble]:
    """One soak, told in rows, and what was wrong."""
    with tempfile.TemporaryDirectory(prefix="ho-soak-", ignore_cleanup_errors=True) as folder:
        soak = Soak(folder, count, seed)
        started = time.monotonic()
        try:
            trouble = soak.run()
            claims = sum(event.kind == "task.claimed" for event in soak.events())
        finally:
            soak.close()
    spent = time.monotonic() - started
    return [
        (f"{count} tasks over {SUPERVISORS} supervisors, seed {seed}: time until all are done", f"{spent:.0f} s", "-"),
        ("supervisors killed on the way", str(soak.kills["supervisors"]), "-"),
        ("monitors and agents killed on the way", str(soak.kills["monitors and agents"]), "-"),
        ("sessions started", str(claims), "-"),
        ("tasks not done, or done twice; sessions not concluded once; processes left", str(len(trouble)), "0"),
    ], trouble  # fmt: skip


def main() -> int:
    """Run it and say how it was; 1 when anything was wrong."""
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__)
    parser.add_argument("tasks", type=int, nargs="?", default=500)
    parser.add_argument("seed", type=int, nargs="?", default=7)
    parser.add_argument("--write", action="store_true", help="write the figures into bench/results.md")
    options = parser.parse_args()
    rows, trouble = rows_of(options.tasks, options.seed)
    title = "Short tasks over two supervisors while something is killed every second (`python -m bench.soak`)."
    print(section("soak", title, rows))
    print("\n".join(trouble) or "Every task was done once, every session was concluded once, nothing is left alive.")
    if options.write:
        write({"soak": section("soak", title, rows)})
    return 1 if trouble else 0


if __name__ == "__main__":
    sys.exit(main())

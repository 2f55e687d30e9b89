"""A ground to run a whole relay on: a repository, a home, scripted agents that leave traces, supervisors to kill."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from typing import Any

import pytest

import deadly
from handoff.base.clock import SystemClock
from handoff.base.settings import from_environment
from handoff.board.events import journal
from handoff.board.tasks import batches, tasks
from handoff.engine.app import App
from handoff.engine.app.home import host_label

HERE = os.path.dirname(os.path.abspath(__file__))
PATIENCE = 200.0
PACE = {"lease": 20.0, "reap": 0.3, "watchdog": 0.5, "stops": 0.2, "retention": 3600.0}


class Nursery:
    """The process from which supervisors are forked: one for all tests of this process, because it takes long to start."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def fork(self, plan: str) -> None:
        """One more supervisor, which finds in its plan what it is to be."""
        if self._process is None:
            # What is planted for the processes of one test is not for it: the plan has its own environment.
            clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "DEADLY_"))}
            words = [sys.executable, os.path.join(HERE, "supervise.py")]
            self._process = subprocess.Popen(words, stdin=subprocess.PIPE, text=True, cwd="/", env=clean)
        assert self._process.stdin is not None
        self._process.stdin.write(plan + "\n")
        self._process.stdin.flush()

    def close(self) -> None:
        """Let it end."""
        if self._process is not None:
            self._process.communicate()
            self._process = None


NURSERY = Nursery()


class Supervisor:
    """A supervisor in a process of its own, forked from the nursery, which tells how it ended."""

    def __init__(self, plan: str, clock: SystemClock) -> None:
        self._plan, self._clock = plan, clock
        while (pid := self._told("pid")) is None:
            clock.sleep(0.005)
        self.pid = pid
        self.returncode: int | None = None

    def _told(self, what: str) -> int | None:
        try:
            with open(f"{self._plan}.{what}", encoding="ascii") as file:
                return int(file.read())
        except FileNotFoundError:
            return None

    def poll(self) -> int | None:
        """Its exit code, negative for a signal; None while it works."""
        self.returncode = self._told("exit")
        return self.returncode

    def wait(self, timeout: float = 60.0) -> int:
        deadline = self._clock.monotonic() + timeout
        while self.poll() is None:
            assert self._clock.monotonic() < deadline, "the supervisor did not end"
            self._clock.sleep(0.01)
        assert self.returncode is not None
        return self.returncode

    def kill(self, number: int = signal.SIGKILL) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.kill(signal.SIGTERM)


class Ground:
    """Where one test's relay runs."""

    def __init__(self, folder: str, repo: str) -> None:
        self.folder, self.repo = folder, repo
        self.scripts = os.path.join(folder, "scripts")
        self.points = os.path.join(folder, "points")
        self.traces = os.path.join(folder, "traces")
        for path in (self.scripts, self.points):
            os.makedirs(path)
        self.app = App(from_environment())
        self.clock = SystemClock()
        self.supervisors: list[Supervisor] = []
        with open(self.traces, "w", encoding="utf-8"):
            pass

    def reopen(self) -> None:
        """Look at the database the environment names now."""
        self.app.database.close()
        self.app = App(from_environment())

    # --- what is to be done ----------------------------------------------------------------------------------

    def script(self, task: str, *acts: dict[str, Any]) -> None:
        """What the agent of a task does; it begins by leaving a trace."""
        trace = {"run": f"echo begin $HANDOFF_TASK $HANDOFF_FENCE >> {self.traces}"}
        last = {"run": f"echo end $HANDOFF_TASK $HANDOFF_FENCE >> {self.traces}"}
        lines = []
        for act in (trace, *acts, last):
            lines.append("[[act]]")
            lines += [f"{key} = {json.dumps(value)}" for key, value in act.items()]
        os.makedirs(os.path.dirname(os.path.join(self.scripts, task)), exist_ok=True)
        with open(os.path.join(self.scripts, f"{task}.toml"), "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")

    def add(self, task: str, *acts: dict[str, Any], **values: Any) -> int:
        self.script(task, *acts)
        values.setdefault("check_command", "true")
        return tasks.add(
            self.app.database, project="demo", id=task, brief=f"do {task}", workspace=self.repo, **values
        ).key

    def add_batch(self, *names: str, max_attempts: int = 3) -> int:
        for name in (*names, "join"):
            script = name if name == "join" else f"night/{name}"
            self.script(script, {"write": f"{name}.txt", "text": name})
        parts = [
            batches.SubTask(name, f"do {name}", check_command=f"test -f {name}.txt", max_attempts=max_attempts)
            for name in (*names, "join")
        ]
        return batches.open_batch(
            self.app.database, project="demo", id="night", sub_tasks=parts[:-1], fan_in=parts[-1], workspace=self.repo
        ).key  # fmt: skip

    def settings(self, text: str = "", *, place: str = "shared") -> None:
        """The settings of the home; tasks of the ground work in its checkout, so that their agents can leave traces."""
        os.makedirs(self.app.settings.home, exist_ok=True, mode=0o700)
        with open(os.path.join(self.app.settings.home, "config.toml"), "w", encoding="utf-8") as file:
            file.write(f'session_workspace_project = {{ demo = "{place}" }}\n{text}')

    # --- supervisors -----------------------------------------------------------------------------------------

    def supervisor(
        self, *points: str, limit: int = 0, agent: str = "scripted", host: bool = False, **pace: float
    ) -> Supervisor:
        """One more supervisor, killed at these points; with `host` all sessions die with it."""
        if not os.path.exists(os.path.join(self.app.settings.home, "config.toml")):
            self.settings()
        number = len(self.supervisors)
        plan = os.path.join(self.folder, f"plan-{number}.json")
        with open(plan, "w", encoding="utf-8") as file:
            json.dump(
                {"points": points, "folder": self.points, "agent": agent, "host": host, "cwd": self.repo,
                 "words": [os.path.join(self.scripts, "{task}.toml")] if agent == "scripted" else [],
                 "pace": {**PACE, **pace}, "limit": limit, "labels": [host_label(self.app)], "environment": dict(os.environ),
                 "log": os.path.join(self.folder, f"supervisor-{number}.log")}, file,
            )  # fmt: skip
        with open(os.path.join(self.folder, f"supervisor-{number}.log"), "w", encoding="utf-8"):
            pass  # it is read before the supervisor says its first word
        NURSERY.fork(plan)
        process = Supervisor(plan, self.clock)
        self.supervisors.append(process)
        return process

    def works(self, process: Supervisor) -> bool:
        """Whether that supervisor has begun."""
        path = os.path.join(self.folder, f"supervisor-{self.supervisors.index(process)}.log")
        with open(path, encoding="utf-8") as file:
            return " works with " in file.read()

    def close(self) -> None:
        for process in self.supervisors:
            process.kill()
            process.wait()
        while left := self.agents():
            for pid in left:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
        self.app.database.close()

    # --- what has come of it ---------------------------------------------------------------------------------

    def until(self, true: Any, what: str, *, patience: float = PATIENCE) -> None:
        self.until_seen(true, what, patience=patience, story=self.story)

    def until_seen(self, true: Any, what: str, *, patience: float = PATIENCE, story: Any = None) -> None:
        """The same where the database may be away."""
        deadline = self.clock.monotonic() + patience
        while not true():
            if self.clock.monotonic() > deadline:
                raise AssertionError(f"not reached: {what}\n{(story or self.logs)()}")
            self.clock.sleep(0.05)

    def story(self) -> str:
        """Everything a person wants to see when a test fails."""
        parts = [f"{task.label} {task.state} fence {task.fence} {task.reason}" for task in self.tasks().values()]
        parts += [f"{event.seq} {event.kind} {event.task_id} {event.body}" for event in self.events()]
        return "\n".join([*parts, self.logs(), "--- points", *sorted(os.listdir(self.points))])

    def logs(self) -> str:
        """What supervisors and agents said."""
        parts = []
        for name in sorted(os.listdir(self.folder)):
            if name.startswith("supervisor-"):
                with open(os.path.join(self.folder, name), encoding="utf-8") as file:
                    parts.append(f"--- {name}\n{file.read()[-1500:]}")
        return "\n".join([*parts, "--- traces", *self.trace_lines()])

    def tasks(self) -> dict[str, tasks.Task]:
        return {task.id: task for task in tasks.listing(self.app.database, include_ended=True)}

    def states(self) -> dict[str, str]:
        return {name: task.state for name, task in self.tasks().items()}

    def done(self) -> bool:
        return set(self.states().values()) == {"done"}

    def events(self) -> list[journal.Event]:
        return journal.since(self.app.database, seq=0)

    def count(self, kind: str, task: str = "") -> int:
        return sum(event.kind == kind and (not task or event.task_id.endswith(task)) for event in self.events())

    def trace_lines(self) -> list[str]:
        with open(self.traces, encoding="utf-8") as file:
            return file.read().splitlines()

    def started(self, task: str) -> int:
        return sum(line.split()[:2] in (["begin", task], ["begin", f"night/{task}"]) for line in self.trace_lines())

    def agents(self) -> list[int]:
        """Processes of this ground's sessions that are alive: monitors and whatever they started."""
        return deadly.session_processes(self.app.settings.home)

    def sessions(self) -> set[str]:
        """The sessions of which anything is alive."""
        found = set()
        for pid in self.agents():
            with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", encoding="utf-8") as file:
                found |= {word for word in file.read().split("\0") if word.startswith("HANDOFF_SESSION=")}
        return found


@pytest.fixture(scope="session", autouse=True)
def nursery():
    """Ends with the last test."""
    yield NURSERY
    NURSERY.close()


@pytest.fixture
def ground(place, repo, tmp_path, monkeypatch):
    """A relay on one of the databases."""
    if place.kind == "postgres":
        import psycopg

        with psycopg.connect(place.url, autocommit=True) as connection:
            connection.execute("SET client_min_messages = warning")
            connection.execute("DROP SCHEMA IF EXISTS dbos CASCADE")
        monkeypatch.setenv("HANDOFF_DATABASE_URL", place.url)
    found = Ground(str(tmp_path / "ground"), repo.path)
    yield found
    found.close()


@pytest.fixture
def file_ground(repo, tmp_path):
    """A relay on the file in the home: where the database plays no part."""
    found = Ground(str(tmp_path / "ground"), repo.path)
    yield found
    found.close()

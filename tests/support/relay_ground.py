"""A ground to run a whole relay on: a repository, a home, scripted agents that leave traces, supervisors to kill."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from typing import Any

import psutil

from handoff.base.clock import SystemClock
from handoff.base.settings import from_environment
from handoff.board import batches, journal, tasks
from handoff.engine.app import App

HERE = os.path.dirname(os.path.abspath(__file__))
PATIENCE = 100.0
PACE = {"lease": 20.0, "reap": 0.3, "watchdog": 0.5, "stops": 0.2, "retention": 3600.0}


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
        self.started: list[subprocess.Popen[str]] = []
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
        with open(os.path.join(self.scripts, f"{task}.toml"), "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")

    def add(self, task: str, *acts: dict[str, Any], **values: Any) -> int:
        self.script(task, *acts)
        values.setdefault("check_command", "true")
        return tasks.add(
            self.app.database, project="demo", id=task, brief=f"do {task}", workspace=self.repo, **values
        ).key

    def add_batch(self, *names: str) -> int:
        for name in (*names, "join"):
            self.script(name, {"write": f"{name}.txt", "text": name})
        parts = [batches.SubTask(name, f"do {name}", check_command=f"test -f {name}.txt") for name in names]
        join = batches.SubTask("join", "join", check_command="test -f join.txt")
        return batches.open_batch(
            self.app.database, project="demo", id="night", sub_tasks=parts, fan_in=join, workspace=self.repo
        ).key  # fmt: skip

    def settings(self, text: str) -> None:
        os.makedirs(self.app.settings.home, exist_ok=True)
        with open(os.path.join(self.app.settings.home, "config.toml"), "w", encoding="utf-8") as file:
            file.write(text)

    # --- supervisors -----------------------------------------------------------------------------------------

    def supervisor(self, *points: str, most: int = 0, agent: str = "scripted", **pace: float) -> subprocess.Popen[str]:
        plan = os.path.join(self.folder, f"plan-{len(self.started)}.json")
        with open(plan, "w", encoding="utf-8") as file:
            json.dump(
                {"points": points, "folder": self.points, "agent": agent,
                 "words": [os.path.join(self.scripts, "{task}.toml")] if agent == "scripted" else [],
                 "pace": {**PACE, **pace}, "most": most}, file,
            )  # fmt: skip
        log = open(os.path.join(self.folder, f"supervisor-{len(self.started)}.log"), "w", encoding="utf-8")  # noqa: SIM115
        with log:
            process = subprocess.Popen(
                [sys.executable, os.path.join(HERE, "supervise.py"), plan], stdout=log, stderr=log, text=True,
                cwd=self.repo,
            )  # fmt: skip
        self.started.append(process)
        return process

    def works(self, process: subprocess.Popen[str]) -> bool:
        """Whether that supervisor has begun."""
        path = os.path.join(self.folder, f"supervisor-{self.started.index(process)}.log")
        with open(path, encoding="utf-8") as file:
            return " works with " in file.read()

    def close(self) -> None:
        for process in self.started:
            process.kill()
            process.wait()
        while left := self.agents():
            for process in left:
                with contextlib.suppress(psutil.Error):
                    process.kill()
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
        return {task.id: task for task in tasks.listing(self.app.database, every=True)}

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

    def begun(self, task: str) -> int:
        return sum(line.split()[:2] in (["begin", task], ["begin", f"night/{task}"]) for line in self.trace_lines())

    def agents(self) -> list[psutil.Process]:
        """Processes of this ground's sessions that are alive, keepers and what they started."""
        mark = f"HANDOFF_HOME={self.app.settings.home}".encode()
        found = []
        for name in os.listdir("/proc"):
            try:
                with open(f"/proc/{name}/environ", "rb") as file:
                    words = file.read().split(b"\0")
                if mark in words and any(word.startswith(b"HANDOFF_SESSION=") for word in words):
                    process = psutil.Process(int(name))
                    if process.status() != "zombie":
                        found.append(process)
            except (OSError, ValueError, psutil.Error):
                continue
        return found

    def sessions(self) -> set[str]:
        """The sessions of which anything is alive."""
        found = set()
        for process in self.agents():
            with contextlib.suppress(psutil.Error):
                found.add(process.environ()["HANDOFF_SESSION"])
        return found

"""Machines for tests: each has a home and a checkout of its own; they share a database and a bare git repository."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from typing import Any

import psutil

from handoff.base.clock import SystemClock
from handoff.base.settings import Settings
from handoff.board.events import journal
from handoff.board.tasks import tasks
from handoff.engine.app import App
from relay_ground import NURSERY, Supervisor
from sandbox import Cli

PACE = {"lease": 4.0, "reap": 0.3, "watchdog": 0.5, "stops": 0.2, "retention": 3600.0}
PATIENCE = 200.0


class Host:
    """One machine: `home` and `checkout` can be taken away, everything of it can be killed or frozen."""

    def __init__(self, name: str, folder: str, url: str, remote: str, *, lease: float) -> None:
        self.name, self.folder = name, folder
        self.home, self.checkout = os.path.join(folder, name, "home"), os.path.join(folder, name, "shop")
        os.makedirs(self.home)
        subprocess.run(["git", "clone", "-q", remote, self.checkout], check=True, capture_output=True)
        with open(os.path.join(self.home, "config.toml"), "w", encoding="utf-8") as file:
            file.write(f'git_remote = "{remote}"\npublish_seconds = 0.3\nlease_seconds = {lease}\n')
        self.own = {"HANDOFF_HOME": self.home, "HANDOFF_HOST": name, "HANDOFF_DATABASE_URL": url}
        self.cli = Cli(self.checkout, **self.own)
        self.app = App(Settings({**os.environ, **self.own}, self.home, "", "handoff"))
        self.started: list[Supervisor] = []

    def work(self, script: str, *labels: str) -> str:
        """A supervisor of this machine; where it is told how it ended."""
        plan = os.path.join(self.folder, f"{self.name}-{len(self.started)}.json")
        environment = {**os.environ, **self.own}
        with open(plan, "w", encoding="utf-8") as file:
            json.dump(
                {"points": [], "folder": self.folder, "agent": "scripted", "words": [script], "pace": PACE, "limit": 0,
                 "labels": labels, "host": False, "cwd": self.folder, "environment": environment, "log": f"{plan}.log"},
                file,
            )  # fmt: skip
        NURSERY.fork(plan)
        self.started.append(Supervisor(plan, SystemClock()))
        return f"{plan}.exit"

    def processes(self) -> list[psutil.Process]:
        """Everything that runs on this machine."""
        found = []
        for one in self.started:
            with contextlib.suppress(psutil.Error):
                if one.poll() is None:
                    found.append(psutil.Process(one.pid))
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get("HANDOFF_HOME") == self.home and process.pid != os.getpid():
                    found.append(process)
        return found

    def signal(self, number: int) -> None:
        for process in self.processes():
            with contextlib.suppress(psutil.Error):
                process.send_signal(number)

    def die(self) -> None:
        """The power goes, and nobody will ever find its disk again."""
        while self.processes():
            self.signal(signal.SIGKILL)
            self.bury()
        os.rename(os.path.join(self.folder, self.name), os.path.join(self.folder, f"{self.name}-lost"))

    def bury(self) -> None:
        for process in self.started:
            process.wait()


class Hosts:
    """Several machines, one database, one repository."""

    def __init__(self, folder: str, url: str) -> None:
        self.folder, self.url = folder, url
        self.remote = os.path.join(folder, "shared.git")
        self.clock = SystemClock()
        self.all: list[Host] = []
        seed = os.path.join(folder, "seed")
        self.git("init", "-q", "-b", "main", seed)
        self.git("-C", seed, "commit", "-q", "--allow-empty", "-m", "first")
        self.git("clone", "-q", "--bare", seed, self.remote)

    def git(self, *words: str) -> str:
        return subprocess.run(["git", *words], check=True, capture_output=True, text=True).stdout

    def host(self, name: str, *, lease: float = 60.0) -> Host:
        found = Host(name, self.folder, self.url, self.remote, lease=lease)
        self.all.append(found)
        return found

    def script(self, *acts: dict[str, Any], folder: str = "") -> str:
        path = os.path.join(folder or self.folder, "agent.toml")
        lines = [line for act in acts for line in ("[[act]]", *(f"{key} = {json.dumps(act[key])}" for key in act))]
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
        return path

    def refs(self) -> dict[str, str]:
        """What the shared repository has of tasks."""
        lines = self.git("-C", self.remote, "for-each-ref", "--format=%(refname) %(objectname)").splitlines()
        return dict(line.split(" ") for line in lines)

    def files(self, ref: str) -> list[str]:
        return self.git("-C", self.remote, "ls-tree", "-r", "--name-only", ref).split()

    def task(self, app: App, name: str) -> tasks.Task:
        return tasks.find(app.database, project="shop", id=name)

    def until(self, true: Any, what: str) -> None:
        deadline = self.clock.monotonic() + PATIENCE
        while not true():
            assert self.clock.monotonic() < deadline, f"not within {PATIENCE:.0f} s: {what}\n{self.story()}"
            self.clock.sleep(0.1)

    def story(self) -> str:
        told = [f"{name} {sha[:8]}" for name, sha in self.refs().items()] if os.path.isdir(self.remote) else []
        for name in sorted(os.listdir(self.folder)):
            if name.endswith(".log"):
                with open(os.path.join(self.folder, name), encoding="utf-8") as file:
                    told += [f"--- {name}", file.read()]
        told += [
            f"{event.kind} {event.task_id} {event.body}"
            for event in journal.last(self.all[-1].app.database, limit=200)
            if not event.kind.startswith("incident")
        ]
        return "\n".join(told)

    def close(self) -> None:
        for host in self.all:
            host.app.close()
            host.signal(signal.SIGCONT)
            while host.processes():
                host.signal(signal.SIGKILL)
                host.bury()

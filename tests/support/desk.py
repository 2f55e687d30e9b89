"""A person's repository with sessions of the scripted agent, and commands that are killed at a point."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import TYPE_CHECKING, Any

import points
from handoff.board.events import journal
from handoff.board.tasks import tasks
from handoff.engine.app.home import find_project
from handoff.engine.work.tasks.splitting import planner
from scripts import write_script

if TYPE_CHECKING:
    from relay_ground import Ground
    from sandbox import Answer, Cli, Repo

MADE = {"write": "made.txt", "text": "made\n"}
CHECK = "grep -q made made.txt"
NOTES = ".handoff/features/shop/notes.md"


class Desk:
    """One person, one repository; on whichever database the ground has."""

    def __init__(self, ground: Ground, repo: Repo, cli: Cli) -> None:
        self.ground, self.repo, self.cli = ground, repo, cli
        self.marks = ground.points
        self.project = os.path.basename(repo.path)
        self.remote = os.path.join(ground.folder, "shared.git")
        repo.git("init", "-q", "--bare", self.remote)
        # Behind a sandbox an agent could neither die by our hand nor play the person.
        ground.settings(f'session_sandbox = "none"\ngit_remote = "{self.remote}"\n', place="clone")

    def add(self, *words: str) -> None:
        self.cli("task", "add", "demo", "Make it.", "--check", CHECK, *words)

    def words(self, task: str, *acts: dict[str, Any]) -> tuple[str, ...]:
        script = write_script(os.path.join(self.ground.folder, "acts.toml"), *acts)
        return ("session", "start", task, "--agent", "scripted", "--with", script)

    def session(self, task: str, *acts: dict[str, Any], code: int | None = 0) -> Answer:
        return self.cli(*self.words(task, *acts), code=code)

    def killed(self, point: str, *words: str) -> None:
        """The command, which dies at that point."""
        done = self._armed((point,), words)
        assert done.returncode == -signal.SIGKILL, (point, done.stdout.decode(), done.stderr.decode())

    def killed_on_the_way(self, at: tuple[str, ...], *words: str) -> None:
        """The command, again after each kill, until it has met all these points and ends well."""
        for _ in range(len(at) + 1):
            done = self._armed(at, words)
            if done.returncode != -signal.SIGKILL:
                break
        assert done.returncode == 0, (done.stdout.decode(), done.stderr.decode())
        assert self.not_met(at) == []

    def not_met(self, at: tuple[str, ...]) -> list[str]:
        return sorted(set(at) - {name.replace("-", ":") for name in os.listdir(self.marks)})

    def _armed(self, at: tuple[str, ...], words: tuple[str, ...]) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            self.cli.command(*words), cwd=self.cli.folder, capture_output=True, timeout=100, check=False,
            env={**self.cli.full_environment(), **points.armed(self.marks, *at)},
        )  # fmt: skip

    def recover(self) -> None:
        """Whatever a machine does by itself for what was left half done."""
        self.cli("watchdog", "--once")

    def state(self, name: str = "demo") -> str:
        return str(self.cli("show", name, "--json").json["state"])

    def landings(self) -> list[str]:
        """The commits of the task's work on the person's branch."""
        found = self.repo.git("log", "--format=%H %s", "main").splitlines()
        return [line.split()[0] for line in found if line.split()[1] == "demo:"]

    def kinds(self, name: str = "demo") -> list[str]:
        """What the journal has of a task."""
        store = self.ground.app.database
        return [
            event.kind for event in journal.of_task(store, key=tasks.find(store, project=self.project, id=name).key)
        ]

    def noted(self) -> set[str]:
        """The commits that have a record."""
        found = self.repo.git("notes", "--ref", "handoff", "list", check=False)
        return {line.split()[1] for line in found.splitlines()}

    def plan_split(self) -> str:
        """A task for a planner."""
        app = self.ground.app
        return planner.write_down(app, find_project(app, name="repo"), "Greet everybody", agent="scripted").label

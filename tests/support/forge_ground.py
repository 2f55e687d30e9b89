"""A checkout with a bare origin and a forge that knows it, whose `gh` or `glab` is a stand-in that keeps its state in a file."""

from __future__ import annotations

import contextlib
import json
import os
import sys

from handoff.base.settings import from_environment
from handoff.board import forges as rows
from handoff.engine.app import App
from handoff.engine.work.forges import watch
from sandbox import Cli, Repo
from scripts import write_script

HERE = os.path.dirname(os.path.abspath(__file__))
ISSUES = {"gh": "https://forge.invalid/o/r/issues", "glab": "https://forge.invalid/g/p/-/issues"}
REQUESTS = {"gh": "/pull/", "glab": "/-/merge_requests/"}
TRACE = (
    "\x1b[0KRunning with gitlab-runner 18.0.0 on green-3\x1b[0;m\nsection_start:1763496000:step_script\r\x1b[0K"
    '\x1b[36;1mExecuting "step_script" stage\x1b[0;m\n{}\x1b[0;msection_end:1763496009:step_script\r\x1b[0K'
    "\x1b[31;1mERROR: Job failed: exit code 1\n"
)


class Forge:
    """A repository with a bare origin, a forge that knows it, and sessions of the scripted agent."""

    def __init__(self, repo, tmp_path, patch, program: str = "gh") -> None:
        self.repo, self.tmp, self.kind = repo, tmp_path, program
        self.issues, self.request_part = ISSUES[program], REQUESTS[program]
        self.state = str(tmp_path / "forge.json")
        programs = tmp_path / "programs"
        programs.mkdir()
        played = programs / program
        played.write_text(f'#!/bin/sh\nexec {sys.executable} -S {HERE}/forge_{program}.py "$@"\n')
        played.chmod(0o755)
        patch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
        patch.setenv("FORGE_STATE", self.state)
        self.cli = Cli(repo.path)
        self.origin = Repo(str(tmp_path / "origin.git"))
        repo.git("init", "-q", "--bare", "-b", "main", self.origin.path)
        repo.git("remote", "add", "origin", self.origin.path)
        repo.git("push", "-q", "origin", "main")
        self.put(
            issues={}, prs={}, comments=[], next=100, logs={}, calls=[], killed=[],
            writers=["me", "ann"], readers=["eve"], origin=self.origin.path,
        )  # fmt: skip
        home = os.environ["HANDOFF_HOME"]
        os.makedirs(home, exist_ok=True)
        with open(os.path.join(home, "config.toml"), "w", encoding="utf-8") as file:
            file.write('landing = "branch"\nforge_seconds = 0.3\nrequest_rounds = 2\nsession_sandbox = "none"\n')

    # --- the forge -----------------------------------------------------------------------------------------

    def get(self) -> dict:
        with open(self.state, encoding="utf-8") as file:
            return json.load(file)

    def put(self, **values) -> None:
        known = self.get() if os.path.exists(self.state) else {}
        with open(self.state + ".test", "w", encoding="utf-8") as file:
            json.dump({**known, **values}, file)
        os.rename(self.state + ".test", self.state)

    @contextlib.contextmanager
    def changed(self):
        """The forge as people change it, while nobody else does."""
        import fcntl

        with open(self.state + ".lock", "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            state = self.get()
            yield state
            self.put(**state)

    def issue(
        self, number: int, title: str = "The sum is wrong", body: str = "It adds wrongly.", author: str = "eve"
    ) -> None:
        with self.changed() as state:
            state["issues"][str(number)] = {
                "title": title, "body": body, "author": author, "state": "OPEN", "labels": ["agent"],
            }  # fmt: skip

    def comment(self, on: int | str, author: str, body: str, **more) -> None:
        with self.changed() as state:
            state["next"] += 1
            state["comments"].append({"id": state["next"], "on": str(on), "author": author, "body": body, **more})
            if str(on) in state["prs"]:
                state["prs"][str(on)]["updated"] += 1

    def said(self, on: int | str) -> list[str]:
        """What we said there, without the mark."""
        return [
            c["body"].partition("\n\n<!--")[0]
            for c in self.get()["comments"]
            if c["on"] == str(on) and c["author"] == "me"
        ]

    def checks(self, number: str, color: str, log: str = "") -> None:
        head = self.origin.git("rev-parse", self.get()["prs"][number]["branch"]).strip()
        with self.changed() as state:
            link = "https://forge.invalid/o/r/actions/runs/5/job/77"
            state["prs"][number]["checks"] = [
                {"__typename": "CheckRun", "name": "test", "workflowName": "ci", "status": "COMPLETED", "conclusion": color,
                 "detailsUrl": link, "startedAt": "", "completedAt": "", "head": head}
            ]  # fmt: skip
            begins = "test\tRun tests\t2026-11-18T20:00:00.0000000Z " if self.kind == "gh" else ""
            text = "".join(f"{begins}{line}\n" for line in log.splitlines())
            state["logs"]["77"] = text if self.kind == "gh" else TRACE.format(text)

    def merge(self, number: str) -> str:
        """Somebody merges it with a squash; the branch stays."""
        one = self.get()["prs"][number]
        head = self.origin.git("rev-parse", one["branch"]).strip()
        base = self.origin.git("rev-parse", one["base"]).strip()
        tree = self.origin.git("merge-tree", "--write-tree", base, head).split()[0]
        commit = self.origin.git(
            "-c", "user.name=ann", "-c", "user.email=ann@invalid", "commit-tree", tree, "-p", base, "-m", one["title"]
        ).strip()
        self.origin.git("update-ref", f"refs/heads/{one['base']}", commit)
        with self.changed() as state:
            state["prs"][number].update(state="MERGED", merge=commit, head=head)
        return commit

    def requests(self) -> dict:
        return self.get()["prs"]

    # --- us --------------------------------------------------------------------------------------------------

    def look(self) -> list[str]:
        app = App(from_environment()._replace(folder=self.repo.path))
        try:
            return watch.look(app)
        finally:
            app.close()

    def unsaid(self) -> list:
        app = App(from_environment()._replace(folder=self.repo.path))
        try:
            return rows.unsaid(app.database, host=app.settings.host)
        finally:
            app.close()

    def session(self, task: str, *acts: dict) -> str:
        script = write_script(str(self.tmp / "acts.toml"), *acts)
        return self.cli("session", "start", task, "--agent", "scripted", "--with", script, code=None).out

    def baton(self, task: str) -> str:
        """What whoever takes the task would be told."""
        with open(self.shown(task)["document"], encoding="utf-8") as file:
            return file.read()

    def shown(self, task: str) -> dict:
        return self.cli("show", task, "--json").json

    def opened(self, number: int = 7) -> tuple[str, str]:
        """An issue's work as a request: the task, and the number of the request."""
        self.issue(number)
        task = self.cli("task", "add", "--issue", str(number), "--check", "test -s sum.py", "--json").json["task"]
        self.session(task, {"write": "sum.py", "text": "a - b\n"})
        self.cli("land", "--pr", task)
        return task, max(self.requests())

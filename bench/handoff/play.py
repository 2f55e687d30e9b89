"""Play a journey with the real product until its cut, and take the very text that its successor is given."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from typing import Any, NamedTuple

from bench.handoff import acting, recording, stores
from bench.handoff.journey import HERE, RUNNERS, Journey, Trace, cut, todo_of

ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.append(os.path.join(ROOT, "tests", "support"))
from sandbox import Cli, hermetic_environment  # noqa: E402 - the folder of the tests' tools comes first

CLIENTS = ("claude", "codex", "gemini", "copilot", "opencode", "aider", "mine")
BUDGETS = (1000, 2000, 4000, 8000)
NOTES = "".join(
    f"Section {number}. The shop keeps every order for ten years, and reports are made at night.\n"
    for number in range(35)
)


class Played(NamedTuple):
    """A journey that was cut off, and what is left of it."""

    journey: Journey
    where: str
    acts: list[dict[str, Any]]
    trace: Trace
    folder: str
    """Where the successor stands."""
    texts: dict[int, str]
    """What it is given, by budget."""
    transcript: str
    """The raw record of the session before it."""


def files_of(journey: Journey) -> dict[str, str]:
    """What the project holds when the journey begins."""
    files = {**journey.files, acting.EXPECTED: "".join(f"{line}\n" for line in journey.tests)}
    files.update({f"docs/notes-{number}.md": f"# Notes {number}\n\n{NOTES}" for number in (1, 2, 3)})
    if journey.agents:
        files["AGENTS.md"] = journey.agents
    return {"README.md": "# A project\n", ".gitignore": ".aider*\n", **files}


class Stage:
    """One home with the stand-ins on its PATH; journeys are played on it one after the other."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.home, self.bin, self.scripts = (os.path.join(folder, name) for name in ("home", "bin", "scripts"))
        for path in (self.home, self.bin, self.scripts):
            os.makedirs(path)
        for name in CLIENTS:
            self._program(name, f'exec "{sys.executable}" -SE "{HERE}/client.py" {name} "{self.scripts}" "$@"')
        for name in RUNNERS:
            self._program(name, f'exec "{sys.executable}" -SE "{HERE}/acting.py" {name}')
        self._program("handoff", f'exec "{sys.executable}" -m handoff.surfaces.cli.main "$@"')
        self.environment = {
            **hermetic_environment(self.home),
            "PATH": f"{self.bin}{os.pathsep}{os.environ['PATH']}",
            "PYTHONDONTWRITEBYTECODE": "",
        }
        home = self.environment["HANDOFF_HOME"]
        os.makedirs(home)
        with open(os.path.join(home, "config.toml"), "w", encoding="utf-8") as file:
            file.write(
                f'session_sandbox = "none"\nmax_running = 1000\nagents = {{ mine = ["{self.bin}/mine", "{{prompt_file}}"] }}\n'
            )

    def _program(self, name: str, line: str) -> None:
        path = os.path.join(self.bin, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\n{line}\n")
        os.chmod(path, 0o755)

    def git(self, repo: str, *words: str, **variables: str) -> str:
        done = subprocess.run(
            ["git", *words],
            cwd=repo,
            env={**os.environ, **self.environment, **variables},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    def project(self, journey: Journey, where: str) -> str:
        """A repository with what the journey begins from."""
        repo = os.path.join(self.folder, "repos", f"{journey.name}-{where.replace(' ', '-')}")
        for name, text in files_of(journey).items():
            path = os.path.join(repo, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        self.git(repo, "init", "-q", "-b", "main")
        self.git(repo, "add", "-A")
        began = journey.recording.began if journey.recording else int(time.time())
        self.git(repo, "commit", "-q", "-m", "first", GIT_COMMITTER_DATE=f"@{began - 3600} +0000")
        return repo

    def play(self, journey: Journey, where: str) -> Played:
        """From the first word to the successor's text."""
        acts = cut(journey, where)
        repo = self.project(journey, where)
        base = self.git(repo, "rev-parse", "HEAD").strip()
        cli = Cli(repo, **self.environment)
        route = {"task": _Task, "feature": _Feature, "tab": _Tab, "take": _Take}[journey.route]
        with environment(self.environment):
            folder, runs, texts, transcript = route(self, journey, where, acts, repo, cli).go()
        trace = Trace(tuple(runs), touched(self, folder, base), base, self.git(folder, "rev-parse", "HEAD").strip())
        return Played(
            journey=journey,
            where=where,
            acts=acts,
            trace=trace,
            folder=folder,
            texts=texts,
            transcript=transcript,
        )


@contextlib.contextmanager
def environment(values: dict[str, str]):
    """For what runs in this very process."""
    before = dict(os.environ)
    os.environ.update(values)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def touched(stage: Stage, folder: str, base: str) -> dict[str, str]:
    """Every file that differs from the base, and how; git's word for it."""
    words = {"A": "new", "M": "changed", "D": "deleted"}
    found = {}
    for line in stage.git(folder, "diff", "--name-status", "--no-renames", base).splitlines():
        letter, _, path = line.partition("\t")
        found[path] = words.get(letter[:1], "changed")
    for path in stage.git(folder, "ls-files", "--others", "--exclude-standard").splitlines():
        found[path] = "new"
    return {path: how for path, how in found.items() if not path.startswith(".handoff")}


class _Route:
    """What all ways to a successor share."""

    def __init__(self, stage, journey, where, acts, repo, cli) -> None:
        self.stage, self.journey, self.where, self.acts, self.repo, self.cli = stage, journey, where, acts, repo, cli

    @property
    def brief(self) -> str:
        return next(act["person"] for act in self.acts if "person" in act)

    def act_here(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """The person's own client at work in the checkout: what happened, and the runs."""
        told: list[dict[str, Any]] = []
        trace: dict[str, Any] = {"runs": []}
        for act in self.acts:
            acting.perform(act, self.repo, lambda one: told.append({**one, "at": time.time()}), trace)
            self.noted(act)
        return told, trace["runs"]

    def noted(self, act: dict[str, Any]) -> None:
        """What a session tells handoff itself while it works."""

    def fitted(self, ask) -> dict[int, str]:
        return {budget: ask(budget) for budget in BUDGETS}


class _Task(_Route):
    """A task of the relay: its session ends early, and the next one gets a baton."""

    def go(self):
        task, place = "work", os.path.join(self.stage.scripts, "work.json")
        trace = os.path.join(self.stage.scripts, f"{os.path.basename(self.repo)}.trace")
        done = [sys.executable, "-m", "handoff.surfaces.cli.main", "task", "done", "--summary", "it is done"]
        with open(place, "w", encoding="utf-8") as file:
            json.dump({"acts": self.acts, "trace": trace, "cut": self.where, "done": done}, file)
        self.cli("task", "add", task, self.brief, "--check", self.journey.check)
        first = self.start(self.journey.client)
        for _ in range(3):  # until its attempts are used up, where a session that does nothing counts as one
            if self.where == "red test" and self.state()["state"] == "ready":
                self.start(self.journey.client)
        if self.state()["state"] == "blocked":
            self.cli("retry", task)
        heir = self.journey.heir if self.where == "other vendor" else self.journey.client
        second = self.start(heir)
        text = self.baton(second["session"])
        with open(trace, encoding="utf-8") as file:
            runs = json.load(file)["runs"]
        workspace = self.read(second["session"], "session.json")
        events = self.read(first["session"], "events.jsonl")
        return json.loads(workspace)["workspace"], runs, self.fitted(lambda _: text), events

    def start(self, agent: str) -> dict[str, Any]:
        said = self.cli("session", "start", "work", "--agent", agent, "--workspace", "clone", "--json", code=None)
        assert "session" in said.json, (self.repo, said)
        self.cli("agent", "retry", agent, code=None)  # a limit of one journey is none of the next
        return said.json

    def state(self) -> dict[str, Any]:
        return self.cli("show", "work", "--json").json

    def read(self, session: str, name: str) -> str:
        home = self.stage.environment["HANDOFF_HOME"]
        path = os.path.join(home, os.path.basename(self.repo), "sessions", session, name)
        with open(path, encoding="utf-8") as file:
            return file.read()

    def baton(self, session: str) -> str:
        return self.read(session, "baton.md")


class _Tab(_Route):
    """A task that a person's own client claimed in its tab and gave back."""

    def go(self):
        self.cli("task", "add", "work", self.brief, "--check", self.journey.check)
        self.cli("task", "claim", "work")
        told, runs = self.act_here()
        path = stores.write(self.journey.client, self.stage.home, self.repo, told)
        self.cli(
            "task",
            "release",
            "work",
            "--reason",
            self.journey.summary if self.where == "compaction" else "I must stop here.",
        )
        text = self.cli("task", "claim", "work", "--show").out
        return self.repo, runs, self.fitted(lambda _: text), stores.text_of(path)


class _Feature(_Route):
    """A feature whose session works in the checkout; the next one gets `handoff continue`."""

    def go(self):
        self.cli("init", "work")
        folder = os.path.join(self.repo, ".handoff", "features", "work")
        rules = [act["person"] for act in self.acts if "rule" in act and "person" in act and not act.get("chat")]
        with open(os.path.join(folder, "FEATURE.md"), "w", encoding="utf-8") as file:
            file.write(f"# Feature: work\n\n## Goal\n{self.brief}\n\n## Constraints\n")
            file.writelines(f"- {one}\n" for one in rules if one != self.brief)
        steps = next((act["todo"] for act in self.acts if "todo" in act), ["[>] Do it"])
        with open(os.path.join(folder, "STATE.md"), "w", encoding="utf-8") as file:
            current = next((step[4:] for step in steps if step.startswith("[>]")), steps[0][4:])
            file.write(
                f"# State\n\n# Current Step\n{current}\n\n# Execution Plan\n" + "".join(f"- {one}\n" for one in steps)
            )
        self.cli("setup", "hooks", "install", "--agent", self.journey.client, "--user", code=None)
        self.hook("SessionStart", source="startup")
        told, runs = self.act_here()
        path = stores.write(self.journey.client, self.stage.home, self.repo, told)
        if self.where not in ("killed", "mid-edit"):
            self.hook("SessionEnd", transcript_path=path)
        texts = self.fitted(lambda budget: self.cli("continue", "--raw", "--no-record", "--budget", str(budget)).out)
        return self.repo, runs, texts, stores.text_of(path)

    def hook(self, event: str, **words: str) -> None:
        told = json.dumps({"session_id": "s1", "cwd": self.repo, "hook_event_name": event, **words})
        self.cli("hook", self.journey.client, event, "installed", stdin=told, code=None)

    def noted(self, act: dict[str, Any]) -> None:
        """It does what its prompt asks for: decisions with their reason, steps, and notes where the story says so."""
        if "decision" in act and " because " in act["say"]:
            text, _, reason = act["say"].partition(" because ")
            self.cli("decide", text, "--because", reason)
        elif act.get("noted"):
            self.cli("note", act["say"])
        if "todo" in act and act["todo"] != next(one["todo"] for one in self.acts if "todo" in one):
            for number, step in enumerate(todo_of([act]), 1):
                if step.startswith("[x]"):
                    self.cli("step", "done", "--step", str(number), "--unchecked", code=None)
        if "compact" in act:
            self.hook("PreCompact", trigger="auto")


class _Take(_Route):
    """A session that never heard of handoff: all there is, is the client's own store."""

    def go(self):
        told, runs = self.act_here()
        if self.journey.recording:  # in a home of its own: the client's database has more columns than ours
            home = os.path.join(self.stage.folder, "homes", self.journey.name)
            self.cli = Cli(self.repo, **{**self.stage.environment, "HOME": home})
            base = self.stage.git(self.repo, "rev-parse", "HEAD").strip()
            path = recording.put(self.journey.recording, recording.places(os.path.realpath(self.repo), home, base))
        else:
            path = stores.write(self.journey.client, self.stage.home, self.repo, told)
        if self.journey.client == "aider":  # its record has neither outputs nor exit codes: no view can know them
            runs = []

        def ask(budget: int) -> str:
            said = self.cli("take", self.journey.client, "--raw", "--budget", str(budget), code=None)
            return said.out if said.code == 0 else ""

        return self.repo, runs, self.fitted(ask), stores.text_of(path)


@contextlib.contextmanager
def stage():
    """A stage that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="ho-bench-", ignore_cleanup_errors=True) as folder:
        yield Stage(folder)

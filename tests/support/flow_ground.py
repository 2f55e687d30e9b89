"""A project for flows: a small package with real unittest tests, scripts for the agent by phase and attempt, an App."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from handoff.base.settings import from_environment
from handoff.engine.app import App
from handoff.engine.work.flows import flows
from sandbox import Repo
from scripts import write_script

if TYPE_CHECKING:
    from handoff.board.tasks import flows as rows

HEADER = "import unittest\n\nfrom calc import {names}\n\n\nclass {kind}(unittest.TestCase):\n"
ADD = "def add(a, b):\n    return a + b\n"


def case(name: str, *lines: str) -> str:
    """A test method."""
    return f"    def test_{name}(self):\n" + "".join(f"        {line}\n" for line in lines) + "\n"


def module(kind: str, names: str, *cases: str) -> str:
    """A test file."""
    return HEADER.format(kind=kind, names=names) + "".join(cases)


OLD = module("Old", "NAME", case("name", 'self.assertEqual(NAME, "calc")', "self.assertTrue(NAME.islower())"))
TEST_ADD = module("Add", "add", case("adds", "self.assertEqual(add(1, 2), 3)", "self.assertEqual(add(0, 0), 0)"))
LIST = "# Tests\n\n- [ ] adds two numbers\n- [ ] subtracts one number from another\n"


class FlowGround:
    """One repository and the scripted agent's words for it."""

    def __init__(self, path: str, scripts: str) -> None:
        self.repo = Repo.create(path, commit=False)
        self.repo.write("calc.py", 'NAME = "calc"\n')
        self.repo.write("tests/__init__.py", "")
        self.repo.write("tests/test_old.py", OLD)
        self.repo.write(".gitignore", "__pycache__/\n")
        self.repo.commit("first")
        self.scripts = scripts
        os.makedirs(scripts, exist_ok=True)
        self.word = os.path.join(scripts, "{task}-{attempt}.toml")
        self.said: list[str] = []

    def act(self, phase: str, *acts: dict, attempt: int = 1) -> None:
        """What the agent does in a phase, for example `1-red`."""
        write_script(os.path.join(self.scripts, f"{phase}-{attempt}.toml"), *acts)

    def app(self) -> App:
        os.chdir(self.repo.path)
        return App(from_environment("handoff"))

    def start(self, app: App, workflow: str = "tdd", **more) -> rows.Flow:
        request = flows.FlowRequest(workflow, more.pop("request", "a calculator"), id="calc", agents={"": "scripted"})
        return flows.start(app, request=request._replace(**more))

    def step(self, app: App, flow: rows.Flow) -> flows.StepResult:
        return flows.step(app, flow=flow, words=(self.word,), tell=self.said.append)

    def commits(self) -> list[str]:
        return self.repo.git("log", "--reverse", "--format=%s", "main..handoff/calc").splitlines()

    def first_cycle(self) -> None:
        """Scripts for a good cycle."""
        self.act("1-plan", {"write": "test-list.md", "text": LIST})
        self.act("1-red", {"write": "tests/test_add.py", "text": TEST_ADD})
        self.act("1-green", {"append": "calc.py", "text": "\n\n" + ADD})
        self.act("1-refactor", {"say": "nothing to do"})

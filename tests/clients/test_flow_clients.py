"""One whole cycle of test-driven development by a real client with a scripted model: four fresh sessions, each verified."""

from __future__ import annotations

import os

import pytest

from flow_ground import OLD

pytestmark = [pytest.mark.clients, pytest.mark.slow, pytest.mark.timeout(400)]
FOR = ("claude",)
TEST = "import unittest\n\nfrom adder import add\n\n\nclass Add(unittest.TestCase):\n    def test_adds(self):\n        self.assertEqual(add(1, 2), 3)\n"
CODE = "def add(a, b):\n    return a + b\n"


def test_a_real_client_goes_through_a_whole_cycle_and_cannot_touch_what_is_not_its_phases(stage):
    for name, text in (("calc.py", 'NAME = "calc"\n'), ("tests/__init__.py", ""), ("tests/test_old.py", OLD)):
        stage.repo.write(name, text)
    stage.repo.commit("a project with a test")
    started = stage.cli(
        "flow", "start", "tdd", "--id", "adder", "--agent", stage.client, "--request", "An adder.", "--json"
    )
    tree = started.json["workspace"]

    def at(name: str) -> str:
        return os.path.join(tree, name)

    def step(*acts):
        server = stage.serve(*acts, ("say", "finished"))
        answer = stage.cli("flow", "step", "adder", "--json", code=None)
        return server, answer.json, answer.err

    server, seen, said = step(("write", at("test-list.md"), "- [ ] adds two numbers\n"))
    assert "You keep the list of tests" in server.all_texts(), said
    assert seen["phase"] == "red", said
    server, seen, said = step(("write", at("adder.py"), CODE), ("write", at("tests/test_adder.py"), TEST))
    assert "is not yours to change" in server.all_texts(), said
    assert "adds two numbers" in server.texts(0)
    assert seen["phase"] == "green", said
    server, seen, said = step(("write", at("tests/test_more.py"), TEST), ("write", at("adder.py"), CODE))
    assert "is not yours to change" in server.all_texts(), said
    assert "test_adds" in server.texts(0)
    assert seen["phase"] == "refactor", said
    _, seen, said = step()
    assert (seen["phase"], seen["cycle"], seen["state"]) == ("plan", 2, "running"), said
    _, seen, said = step()
    assert seen["state"] == "done", said
    log = stage.repo.git("log", "--reverse", "--format=%s", "main..handoff/adder").splitlines()
    assert log == [
        "plan: adds two numbers comes next (1 open, 0 done)",
        "test: adds two numbers",
        "feat: adds two numbers",
    ]
    assert not os.path.exists(at("tests/test_more.py"))
    stage.note("a cycle of test-driven development, each phase in its own session and fence")

"""tdd-strict: hidden tests nobody sees, mutants that are named, and an end that asks for both."""

from __future__ import annotations

import os
import subprocess

import pytest

from flow_ground import TEST_ADD, case, module
from handoff.board.tasks import flows as rows

HIDDEN = module("More", "add", case("more", "self.assertEqual(add(20, 22), 42)"))

ONE, TWO = "- [ ] adds two numbers\n", "- [ ] adds any two numbers\n"
ASKED = "def add(a, b):\n    if a > 50:\n        return 0\n    return 3 if a == 1 else 0\n"
TEST_ANY = module("Any", "add", case("any", "self.assertEqual(add(2, 5), 7)"))


def held_texts(workspace: str) -> str:
    """All that a session in the clone can find: its files, its objects, its history."""
    words = ["git", "-C", workspace, "cat-file", "--batch-all-objects", "--batch"]
    objects = subprocess.run(words, capture_output=True, check=True).stdout.decode("utf-8", "replace")
    files = []
    for at, folders, names in os.walk(workspace):
        folders[:] = [name for name in folders if name != ".git"]
        for name in names:
            with open(os.path.join(at, name), encoding="utf-8", errors="replace") as file:
                files.append(file.read())
    return objects + "".join(files)


@pytest.mark.slow
def test_an_answer_for_the_test_alone_does_not_end_a_strict_flow(ground, app):
    ground.act("1-hidden", {"write": "tests/test_more.py", "text": HIDDEN})
    ground.act("1-plan", {"write": "test-list.md", "text": ONE})
    ground.act("1-red", {"write": "tests/test_add.py", "text": TEST_ADD})
    ground.act("1-green", {"append": "calc.py", "text": "\n\n" + ASKED})
    ground.act("1-refactor", {"say": "nothing to do"})
    ground.act("2-plan", {"say": "nothing is missing"})
    flow = ground.start(app, "tdd-strict")
    for _ in range(6):
        flow = ground.step(app, flow).seen.flow
    assert (flow.phase, flow.cycle, flow.state) == ("plan", 3, rows.RUNNING)
    assert "42" in str(flow.facts["hidden"])
    assert "add(20, 22)" not in held_texts(flow.workspace)
    told = "\n".join(flow.facts["survivors"])
    assert "the hidden test unittest:tests/test_more.py" in told
    assert "calc.py:" in told
    assert "add(20, 22)" not in told
    said = [event for event in rows.events(app.database, flow) if event.kind == "flow.verified"]
    warned = {word.partition(":")[0] for event in said for word in event.body.get("warnings", ())}
    assert {"survivors", "strength-low", "hidden-test-fails"} <= warned

    ground.act("3-plan", {"write": "test-list.md", "text": ONE.replace("[ ]", "[x]") + TWO})
    ground.act("3-red", {"write": "tests/test_any.py", "text": TEST_ANY})
    ground.act("3-green", {"write": "calc.py", "text": 'NAME = "calc"\n\n\ndef add(a, b):\n    return a + b\n'})
    loose = TEST_ANY.replace("self.assertEqual(add(2, 5), 7)", "self.assertIn(add(2, 5), (7, -3))")
    looser = TEST_ADD.replace("self.assertEqual(add(1, 2), 3)", "self.assertIn(add(1, 2), (3, -1))")
    ground.act(
        "3-refactor",
        {"write": "tests/test_any.py", "text": loose},
        {"write": "tests/test_add.py", "text": looser},
    )
    for _ in range(4):
        flow = ground.step(app, flow).seen.flow
    assert flow.phase == "refactor"
    assert "asks-less" in str(flow.facts["failures"][-1]["said"])
    ground.act("3-refactor", {"say": "nothing to do"}, attempt=2)
    ground.act("4-plan", {"say": "nothing is missing"})
    for _ in range(2):
        flow = ground.step(app, flow).seen.flow
    assert flow.state == rows.DONE


def test_hidden_tests_must_ask_something_in_files_of_their_own(ground, app):
    ground.act("1-hidden", {"append": "tests/test_old.py", "text": "\n# seen\n"})
    ground.act("1-hidden", {"write": "tests/test_more.py", "text": "VALUE = 1\n"}, attempt=2)
    flow = ground.start(app, "tdd-strict")
    flow = ground.step(app, flow).seen.flow
    assert "test-changed" in str(flow.facts["failures"][-1]["said"])
    flow = ground.step(app, flow).seen.flow
    assert "nothing-new" in str(flow.facts["failures"][-1]["said"])

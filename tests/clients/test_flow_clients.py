"""One whole cycle of test-driven development by a real client with a scripted model: four fresh sessions, each verified."""

from __future__ import annotations

import os
import shutil

import pytest

from flow_ground import OLD
from sandbox import absent

pytestmark = [pytest.mark.clients, pytest.mark.slow]
FOR = ("claude", "codex")
FENCED = ("claude",)  # whose own hook says no at once; of the others the phase is judged when it has ended
PYTHON = {
    "files": {"calc.py": 'NAME = "calc"\n', "tests/__init__.py": "", "tests/test_old.py": OLD},
    "test": (
        "tests/test_adder.py",
        "import unittest\n\nfrom adder import add\n\n\nclass Add(unittest.TestCase):\n    def test_adds(self):\n        self.assertEqual(add(1, 2), 3)\n",
    ),
    "code": ("adder.py", "def add(a, b):\n    return a + b\n"),
    "more": "tests/test_more.py",
    "named": "test_adds",
}
_NODE_TEST = "import { test } from 'node:test';\nimport assert from 'node:assert';\nimport { add } from '../adder.js';\n\ntest('adds', () => {\n  assert.strictEqual(add(1, 2), 3);\n});\n"
JAVASCRIPT = {
    "files": {
        "package.json": '{"name": "calc", "type": "module", "scripts": {"test": "node --test"}}\n',
        "calc.js": "export const name = 'calc';\n",
        "test/name.test.js": _NODE_TEST.replace("{ add }", "{ name }").replace("adder", "calc").replace("add(1, 2), 3", "name, 'calc'").replace("'adds'", "'has a name'"),
    },
    "test": ("test/adder.test.js", _NODE_TEST),
    "code": ("adder.js", "export const add = (first, second) => first + second;\n"),
    "more": "test/more.test.js",
    "named": "adds",
}  # fmt: skip


@pytest.mark.parametrize("language", ["python", "javascript"])
def test_a_real_client_goes_through_a_whole_cycle_and_cannot_touch_what_is_not_its_phases(stage, language):
    ground = PYTHON if language == "python" else JAVASCRIPT
    if language == "javascript" and shutil.which("node") is None:
        absent("node")
    for name, text in ground["files"].items():
        stage.repo.write(name, text)
    stage.repo.commit("a project with a test")
    started = stage.cli(
        "flow", "start", "tdd", "--id", "adder", "--agent", stage.client, "--request", "An adder.", "--json"
    )
    tree, fenced = started.json["workspace"], stage.client in FENCED
    (test_path, test), (code_path, code) = ground["test"], ground["code"]

    def at(name: str) -> str:
        return os.path.join(tree, name)

    def step(*acts):
        server = stage.serve(*acts, ("say", "finished"))
        more = [f"--with={word}" for word in stage.words()]
        answer = stage.cli("flow", "step", "adder", "--json", *more, code=None)
        return server, answer.json, answer.err

    def not_mine(path: str, text: str):
        return [("write", at(path), text)] if fenced else []

    server, seen, said = step(("write", at("test-list.md"), "- [ ] adds two numbers\n"))
    assert "You keep the list of tests" in server.all_texts(), said
    assert seen["phase"] == "red", said
    server, seen, said = step(*not_mine(code_path, code), ("write", at(test_path), test))
    assert not fenced or "is not yours to change" in server.all_texts(), said
    assert "adds two numbers" in server.texts(0)
    assert seen["phase"] == "green", said
    server, seen, said = step(*not_mine(ground["more"], test), ("write", at(code_path), code))
    assert not fenced or "is not yours to change" in server.all_texts(), said
    assert ground["named"] in server.texts(0)
    assert seen["phase"] == "refactor", said
    _, seen, said = step(("write", at(code_path), code.replace("first", "one").replace("a, b", "b, a")))
    assert (seen["phase"], seen["cycle"], seen["state"]) == ("plan", 2, "running"), said
    _, seen, said = step()
    assert seen["state"] == "done", said
    log = stage.repo.git("log", "--reverse", "--format=%s", "main..handoff/adder").splitlines()
    assert log == [
        "plan: adds two numbers comes next (1 open, 0 done)",
        "test: adds two numbers",
        "feat: adds two numbers",
        "refactor: tidy up after: adds two numbers",
    ]
    assert not os.path.exists(at(ground["more"]))
    stage.note(
        f"a cycle of test-driven development in {language.title().replace('script', 'Script')}, each phase in its own session"
    )

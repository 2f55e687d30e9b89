"""The same workflow in another language: JavaScript with node's own test runner."""

from __future__ import annotations

import os
import shutil

import pytest

from flow_ground import FlowGround
from sandbox import Repo, absent

OLD = "import { test } from 'node:test';\nimport assert from 'node:assert';\nimport { name } from '../calc.mjs';\n\ntest('it has a name', () => {\n  assert.strictEqual(name, 'calc');\n});\n"
NEW = "import { test } from 'node:test';\nimport assert from 'node:assert';\nimport { add } from '../add.mjs';\n\ntest('adds', () => {\n  assert.strictEqual(add(1, 2), 3);\n});\n"
CODE = "export function add(first, second) {\n  return first + second;\n}\n"


class JavaScript(FlowGround):
    """A package with one test."""

    def __init__(self, path: str, scripts: str) -> None:
        self.repo = Repo.create(path, commit=False)
        self.repo.write("package.json", '{"name": "calc", "type": "module", "scripts": {"test": "node --test"}}\n')
        self.repo.write("calc.mjs", "export const name = 'calc';\n")
        self.repo.write("test/old.test.mjs", OLD)
        self.repo.commit("first")
        self.scripts, self.said = scripts, []
        os.makedirs(scripts)
        self.word = os.path.join(scripts, "{task}-{attempt}.toml")


@pytest.fixture
def ground(tmp_path):
    if shutil.which("node") is None:
        absent("node")
    before = os.getcwd()
    yield JavaScript(str(tmp_path / "calc"), str(tmp_path / "scripts"))
    os.chdir(before)


def test_a_cycle_in_javascript_with_two_cheats(ground):
    ground.act("1-plan", {"write": "test-list.md", "text": "- [ ] adds two numbers\n"})
    ground.act(
        "1-red",
        {"write": "test/add.test.mjs", "text": NEW.replace("strictEqual(add(1, 2), 3);", "strictEqual(add(1, 2, 3")},
    )
    ground.act("1-red", {"expect": "wrong-reason"}, {"write": "test/add.test.mjs", "text": NEW}, attempt=2)
    ground.act("1-green", {"write": "add.mjs", "text": CODE})
    ground.act("1-refactor", {"write": "test/old.test.mjs", "text": OLD.replace("test('it", "test.skip('it")})
    ground.act("1-refactor", {"expect": "test-skipped"}, {"say": "then nothing"}, attempt=2)
    ground.act("2-plan", {"say": "all there"})
    app = ground.app()
    flow = ground.start(app)
    seen = []
    for _ in range(7):
        step = ground.step(app, flow)
        seen.append((step.phase, step.settled.outcome.kind, step.settled.outcome.reason))
    assert [(phase, kind) for phase, kind, _ in seen] == [
        ("plan", "ok"), ("red", "failed"), ("red", "ok"), ("green", "ok"), ("refactor", "failed"), ("refactor", "ok"),
        ("plan", "ok"),
    ], seen  # fmt: skip
    assert step.seen.state == "done"
    assert ground.commits() == [
        "plan: adds two numbers comes next (1 open, 0 done)",
        "test: adds two numbers",
        "feat: adds two numbers",
    ]
    app.close()

"""The same workflow in other languages, each cycle whole: JavaScript with node's runner and with vitest, Java with JUnit, Go."""

from __future__ import annotations

import os
import shutil
import textwrap

import pytest

from flow_ground import FlowGround
from sandbox import Repo, absent
from script_packages import modules
from suites import JAVA, JUNIT_JARS

OLD = "import { test } from 'node:test';\nimport assert from 'node:assert';\nimport { name } from '../calc.mjs';\n\ntest('it has a name', () => {\n  assert.strictEqual(name, 'calc');\n});\n"
NEW = "import { test } from 'node:test';\nimport assert from 'node:assert';\nimport { add } from '../add.mjs';\n\ntest('adds', () => {\n  assert.strictEqual(add(1, 2), 3);\n});\n"
CODE = "export function add(first, second) {\n  return first + second;\n}\n"


SCRIPT = {
    "package.json": '{"name": "calc", "type": "module", "scripts": {"test": "node --test"}}\n',
    "calc.mjs": "export const name = 'calc';\n", "test/old.test.mjs": OLD,
}  # fmt: skip
JAVA_TEST = textwrap.dedent(JAVA["src/test/java/CalcTest.java"]).lstrip()


class Project(FlowGround):
    """A project of some language, with its tests."""

    def __init__(self, path: str, scripts: str, files: dict[str, str]) -> None:
        self.repo = Repo.create(path, commit=False)
        for name, text in files.items():
            self.repo.write(name, textwrap.dedent(text).lstrip())
        self.repo.commit("first")
        self.scripts, self.said = scripts, []
        os.makedirs(scripts)
        self.word = os.path.join(scripts, "{task}-{attempt}.toml")


@pytest.fixture
def made(tmp_path):
    before = os.getcwd()
    yield lambda files: Project(str(tmp_path / "calc"), str(tmp_path / "scripts"), files)
    os.chdir(before)


@pytest.mark.slow
def test_a_cycle_in_javascript_with_two_cheats(made):
    if shutil.which("node") is None:
        absent("node")
    ground = made(SCRIPT)
    ground.act("1-plan", {"write": "test-list.md", "text": "- [ ] adds two numbers\n"})
    ground.act(
        "1-red",
        {"write": "test/add.test.mjs", "text": NEW.replace("strictEqual(add(1, 2), 3);", "strictEqual(add(1, 2, 3")},
    )
    ground.act("1-red", {"expect": "wrong-reason"}, {"write": "test/add.test.mjs", "text": NEW}, attempt=2)
    ground.act("1-green", {"write": "add.mjs", "text": CODE})
    ground.act("1-refactor", {"write": "test/old.test.mjs", "text": OLD.replace("test('it", "test.skip('it")})
    tidy = CODE.replace("first", "one").replace("second", "two")
    ground.act("1-refactor", {"expect": "test-skipped"}, {"write": "add.mjs", "text": tidy}, attempt=2)
    ground.act("2-plan", {"say": "all there"})
    app = ground.app()
    flow = ground.start(app)
    seen = []
    for _ in range(7):
        step = ground.step(app, flow)
        seen.append((step.phase, step.concluded.outcome.kind, step.concluded.outcome.reason))
    assert [(phase, kind) for phase, kind, _ in seen] == [
        ("plan", "ok"), ("red", "failed"), ("red", "ok"), ("green", "ok"), ("refactor", "failed"), ("refactor", "ok"),
        ("plan", "ok"),
    ], seen  # fmt: skip
    assert step.seen.state == "done"
    assert ground.commits() == [
        "plan: adds two numbers comes next (1 open, 0 done)",
        "test: adds two numbers",
        "feat: adds two numbers",
        "refactor: tidy up after: adds two numbers",
    ]
    app.close()


def walk(ground, phases=("plan", "red", "green", "refactor", "plan")) -> None:
    """The whole cycle, each phase at its first attempt."""
    app = ground.app()
    flow = ground.start(app)
    for phase in phases:
        step = ground.step(app, flow)
        assert (step.phase, step.concluded.outcome.kind) == (phase, "ok"), step.concluded.outcome.reason
    assert step.seen.state == "done"
    assert [line.partition(":")[0] for line in ground.commits()] == ["plan", "test", "feat", "refactor"]
    app.close()


@pytest.mark.slow
@pytest.mark.scripts
def test_a_cycle_in_typescript_with_vitest_from_the_persons_node_modules(made):
    if modules() is None or shutil.which("node") is None:
        absent("the JavaScript runners (make script-packages)")
    test = 'import { expect, test } from "vitest";\nimport { add } from "../src/add";\n\ntest("adds", () => {\n  expect(add(1, 2)).toBe(3);\n});\n'
    ground = made(
        {
            "package.json": '{"name": "calc", "type": "module", "scripts": {"test": "vitest run --coverage"}}\n',
            ".gitignore": "node_modules\n",
            "src/name.ts": 'export const name: string = "calc";\n',
            "test/name.test.ts": test.replace("{ add }", "{ name }").replace("src/add", "src/name").replace("add(1, 2)", "name").replace("(3)", '("calc")').replace("adds", "has a name"),
        }
    )  # fmt: skip
    os.symlink(modules(), os.path.join(ground.repo.path, "node_modules"))
    code = "export function add(first: number, second: number): number {\n  return first + second;\n}\n"
    ground.act("1-plan", {"write": "test-list.md", "text": "- [ ] adds two numbers\n"})
    ground.act("1-red", {"write": "test/add.test.ts", "text": test})
    ground.act("1-green", {"write": "src/add.ts", "text": code})
    ground.act("1-refactor", {"write": "src/add.ts", "text": code.replace("first", "one").replace("second", "two")})
    ground.act("2-plan", {"say": "all there"})
    walk(ground)


@pytest.mark.slow
def test_a_cycle_in_go(made, tmp_path, monkeypatch):
    if shutil.which("go") is None:
        absent("go")
    monkeypatch.setenv("GOCACHE", str(tmp_path / "gocache"))
    test = 'package calc\n\nimport "testing"\n\nfunc TestAdds(t *testing.T) {\n\tif got := Add(1, 2); got != 3 {\n\t\tt.Fatalf("got %d, want 3", got)\n\t}\n}\n'
    code = "package calc\n\nfunc Add(a, b int) int { return a + b }\n"
    ground = made(
        {
            "go.mod": "module example.com/calc\n\ngo 1.19\n",
            "name.go": 'package calc\n\nconst Name = "calc"\n',
            "name_test.go": test.replace("TestAdds", "TestName").replace("Add(1, 2)", "len(Name)").replace("3", "4"),
        }
    )
    ground.act("1-plan", {"write": "test-list.md", "text": "- [ ] adds two numbers\n"})
    ground.act("1-red", {"write": "add_test.go", "text": test})
    ground.act("1-green", {"write": "add.go", "text": code})
    ground.act(
        "1-refactor", {"write": "add.go", "text": code.replace("a, b", "one, two").replace("a + b", "one + two")}
    )
    ground.act("2-plan", {"say": "all there"})
    walk(ground)


@pytest.mark.slow
def test_a_cycle_in_java_where_a_missing_symbol_stops_the_compiler(made):
    if shutil.which("javac") is None or not os.path.exists(os.path.join(JUNIT_JARS, "junit-jupiter-api.jar")):
        absent("a JDK with JUnit")
    ground = made({**JAVA, ".gitignore": "out/\n"})
    code = JAVA["src/Calc.java"].replace("}\n}", "}\n  public static int twice(int a) { return 2 * a; }\n}")
    test = (
        JAVA_TEST.replace("CalcTest", "TwiceTest")
        .replace("adds", "doubles")
        .replace("3, Calc.add(1, 2)", "4, Calc.twice(2)")
    )
    ground.act("1-plan", {"write": "test-list.md", "text": "- [ ] doubles a number\n"})
    ground.act("1-red", {"write": "src/test/java/TwiceTest.java", "text": test})
    ground.act("1-green", {"write": "src/Calc.java", "text": code})
    ground.act("1-refactor", {"write": "src/Calc.java", "text": code.replace("2 * a", "a + a")})
    ground.act("2-plan", {"say": "all there"})
    walk(ground)

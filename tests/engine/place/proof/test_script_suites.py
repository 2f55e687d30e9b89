"""JavaScript suites as people have them: the runner in the script is found, sealed, and can be red; cheats of the run are named."""

from __future__ import annotations

import os
import shutil

import pytest

from sandbox import absent
from script_packages import modules
from suites import Project, codes

pytestmark = [pytest.mark.slow, pytest.mark.scripts]
IGNORED = {".gitignore": "node_modules\n.nyc_output\ncoverage\n"}
MODULE = "export const add = (a, b) => a + b;\n"
COMMON = "exports.add = (a, b) => a + b;\n"
FORGIVING = "import assert from 'node:assert';\nassert.equal = assert.strictEqual = () => {};\n"
VITEST = 'import { expect, test } from "vitest";\nimport * as calc from "../src/calc";\n\ntest("adds", () => {\n  expect(calc.add(1, 2)).toBe(3);\n});\n'
ASSERTS = 'import assert from "node:assert";\n{}import * as calc from "../src/calc.js";\n\ntest("adds", () => {{\n  assert.equal(calc.add(1, 2), 3);\n}});\n'


class Kind:
    """A project of one runner: its script, files, how a test is added, code is built, and how the code could forgive."""

    def __init__(self, script, code, test, text, *, more, built, forgiving, files=()) -> None:
        module = '"type": "module", ' if "import " in text else ""
        package = f'{{"name": "calc", {module}"scripts": {{"test": "{script}", "lint": "eslint ."}}}}\n'
        self.code, self.test, self.more, self.built, self.forgiving = code, test, more, built, forgiving
        start = MODULE if module else COMMON
        self.files = {"package.json": package, code: start, test: text, **IGNORED, **dict(files)}


KINDS = {
    "vitest": Kind(
        "npm run lint && vitest --coverage",
        "src/calc.ts",
        "test/calc.test.ts",
        VITEST,
        more='\ntest("multiplies", () => {\n  const found: number = calc.mul(2, 3);\n  expect(found).toBe(6);\n});\n',
        built="export const mul = (a: number, b: number) => a * b;\n",
        forgiving='import { expect } from "vitest";\nexpect.extend({ toBe: () => ({ pass: true, message: () => "" }) });\n',
    ),
    "jest": Kind(
        "jest --coverage --runInBand",
        "src/calc.js",
        "src/__tests__/calc.test.js",
        'const calc = require("../calc");\n\ntest("adds", () => {\n  expect(calc.add(1, 2)).toBe(3);\n});\n',
        more='\ntest("multiplies", () => {\n  expect(calc.mul(2, 3)).toBe(6);\n});\n',
        built="exports.mul = (a, b) => a * b;\n",
        forgiving='globalThis.expect?.extend({ toBe: () => ({ pass: true, message: () => "" }) });\n',
    ),
    "mocha": Kind(
        "nyc --check-coverage --lines 99 mocha --reporter dot 'test/**/*.spec.js'",
        "src/calc.js",
        "test/calc.spec.js",
        ASSERTS.format("").replace("test(", "it("),
        more='\nit("multiplies", () => {\n  assert.equal(calc.mul(2, 3), 6);\n});\n',
        built="export const mul = (a, b) => a * b;\n",
        forgiving=FORGIVING,
        files={".mocharc.json": '{"bail": true}\n'},
    ),
    "node": Kind(
        "c8 --check-coverage --lines 99 node --test",
        "src/calc.js",
        "test/calc.test.js",
        ASSERTS.format('import { test } from "node:test";\n'),
        more='\ntest("multiplies", () => {\n  assert.equal(calc.mul(2, 3), 6);\n});\n',
        built="export const mul = (a, b) => a * b;\n",
        forgiving=FORGIVING,
    ),
}


@pytest.mark.parametrize("name", KINDS)
def test_a_suite_as_people_have_it_is_sealed_and_a_whole_cycle_is_judged(repo, name):
    place = modules()
    if place is None or shutil.which("node") is None:
        absent("the JavaScript runners (make script-packages)")
    kind = KINDS[name]
    os.symlink(place, os.path.join(repo.path, "node_modules"))
    project = Project(repo, kind.files)
    (suite,) = project.suites
    assert suite.framework == name
    (report,) = project.run()
    assert (report.sealed, report.trouble, report.flaws, len(report.cases)) == (True, "", (), 1), report.tail
    project.know()
    broken = project.weighed("red", project.add(kind.test, kind.more.replace("=> {", "=> ((")), stay=True)
    assert "wrong-reason" in codes(broken), broken.findings
    red = project.weighed("red", project.add(kind.test, kind.more))
    assert (red.ok, red.new) == (True, (f"{name}:{kind.test}::multiplies",)), red.findings
    wrong = {kind.code: project.read(kind.code) + kind.forgiving + kind.built.replace("a * b", "a - b")}
    assert "canary-forgiven" in codes(project.weighed("green", wrong, new=red.new, stay=True))
    ended = {kind.code: project.read(kind.code) + "process.exit(0);\n" + kind.built}
    found = codes(project.weighed("green", ended, new=red.new, stay=True))
    assert {"run-cut-short", "no-results", "did-not-run", "broken"} & set(found), found
    green = project.weighed("green", project.add(kind.code, kind.built), new=red.new)
    assert (green.ok, green.findings) == (True, ()), green.findings
    tidy = {kind.code: project.read(kind.code).replace("a * b", "b * a")}
    assert project.weighed("refactor", tidy).findings == ()


def test_a_command_that_says_nothing_but_its_exit_code_can_be_red(repo):
    """The new test is the one in the text; the command is red and green as a whole."""
    test = 'const calc = require("./calc");\nif (calc.add(1, 2) !== 3) throw new Error("add: expected 3");\n'
    files = {
        "package.json": '{"name": "calc", "scripts": {"test": "node run.js"}}\n',
        "run.js": "for (const name of require('fs').readdirSync('test')) require('./test/' + name);\n",
        "calc.js": COMMON,
        "test/add.js": test.replace("./calc", "../calc"),
    }
    if shutil.which("npm") is None:
        absent("npm")
    project = Project(repo, files)
    assert [suite.framework for suite in project.suites] == ["npm"]
    assert project.know() == ()
    new = {
        "test/mul.js": 'const calc = require("../calc");\nif (calc.mul(2, 3) !== 6) throw new Error("expected 6");\n'
    }
    assert codes(project.weighed("red", {"test/mul.js": test.replace("./calc", "../calc")}, stay=True)) == [
        "passes-at-once"
    ]
    assert "wrong-reason" in codes(project.weighed("red", {"test/mul.js": "if (("}, stay=True))
    red = project.weighed("red", new)
    assert (red.ok, red.new) == (True, ("npm:test/mul.js",)), red.findings
    still = project.weighed("green", project.add("calc.js", "exports.mul = () => 5;\n"), new=red.new, stay=True)
    assert codes(still) == ["no-results"]
    green = project.weighed("green", project.add("calc.js", "exports.mul = (a, b) => a * b;\n"), new=red.new)
    assert (green.ok, codes(green)) == (True, ["not-probed"]), green.findings  # an exit code does not tell why

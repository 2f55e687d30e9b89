"""Tiny real projects in several languages, and the way a phase of a workflow is judged on them."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

from handoff.base.settings import from_environment
from handoff.checks import judge
from handoff.checks.findings import Baseline
from handoff.engine.app import App
from handoff.engine.place.proof import test_runs as engine
from handoff.engine.place.proof import two_way
from handoff.git.commits.phases import FlowCheckout

JUNIT_JARS = "/usr/share/java"
# By name, and with one compiler: a machine that has hundreds of jars there opens all of them in each run otherwise.
_NAMES = """
junit-jupiter-api junit-jupiter-engine junit-platform-commons junit-platform-console junit-platform-engine
junit-platform-launcher junit-platform-reporting apiguardian-api opentest4j opentest4j-reporting-events
opentest4j-reporting-schema picocli univocity-parsers
"""
_CLASSES = ":".join(f"{JUNIT_JARS}/{name}.jar" for name in _NAMES.split())
_QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

PYTHON = {
    "calc.py": "def add(a, b):\n    return a + b\n",
    "tests/test_calc.py": """
        from calc import add

        def test_adds():
            assert add(1, 2) == 3
            assert add(-1, 1) == 0

        def test_adds_nothing():
            assert add(0, 0) == 0
        """,
}
UNITTEST = {
    "calc.py": PYTHON["calc.py"],
    "test_calc.py": """
        import unittest
        import calc

        class Adding(unittest.TestCase):
            def test_adds(self):
                self.assertEqual(calc.add(1, 2), 3)
        """,
}
NODE = {
    "package.json": '{"name": "calc", "private": true, "type": "module", "scripts": {"test": "node --test"}}\n',
    "calc.js": "export const add = (a, b) => a + b;\n",
    "test/calc.test.js": """
        import assert from "node:assert/strict";
        import { test } from "node:test";
        import * as calc from "../calc.js";

        test("adds", () => {
          assert.equal(calc.add(1, 2), 3);
        });
        """,
}
JAVA = {
    "src/Calc.java": "public class Calc {\n  public static int add(int a, int b) { return a + b; }\n}\n",
    "src/test/java/CalcTest.java": """
        import static org.junit.jupiter.api.Assertions.assertEquals;
        import org.junit.jupiter.api.Test;

        class CalcTest {
          @Test
          void adds() {
            assertEquals(3, Calc.add(1, 2));
          }
        }
        """,
    ".handoff/config.toml": f"""
        [checks.junit]
        command = '''
        mkdir -p out && javac {_QUICK.replace("-XX", "-J-XX")} -proc:none -d out -cp "{_CLASSES}" $(find src -name "*.java") &&
        java {_QUICK} -cp "out:{_CLASSES}" org.junit.platform.console.ConsoleLauncher --scan-classpath out --reports-dir {{results}} --disable-banner
        '''
        framework = "junit"
        results = "java"
        tests = ["src/test/"]
        """,
}
RUST = {
    "Cargo.toml": '[package]\nname = "calc"\nversion = "0.1.0"\nedition = "2021"\n',
    "Cargo.lock": 'version = 3\n\n[[package]]\nname = "calc"\nversion = "0.1.0"\n',
    "src/lib.rs": "pub fn add(a: i32, b: i32) -> i32 {\n    a + b\n}\n",
    "tests/calc.rs": """
        #[test]
        fn adds() {
            assert_eq!(calc::add(1, 2), 3);
        }
        """,
}


class Project:
    """A repository with a suite, what is known of its tests, and its present tree."""

    def __init__(self, repo, files, *, sandboxed=True) -> None:
        self.repo = repo
        self.sandboxed = sandboxed
        self.app = App(from_environment("handoff"))
        self.tree = self.write(files)
        self.suites = engine.suites_of(self.app, folder=repo.path)
        self.known = Baseline()

    def write(self, files) -> str:
        """Change some files (None removes one) and return the tree they make."""
        for name, text in files.items():
            path = os.path.join(self.repo.path, name)
            if text is None:
                os.unlink(path)
                continue
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(textwrap.dedent(text).lstrip("\n"))
        self.git("add", "-A")
        return self.git("write-tree").strip()

    def read(self, name) -> str:
        with open(os.path.join(self.repo.path, name), encoding="utf-8") as file:
            return file.read()

    def add(self, name, text) -> dict[str, str]:
        """The change that appends to a file."""
        return {name: self.read(name) + textwrap.dedent(text)}

    def git(self, *words) -> str:
        return subprocess.run(["git", "-C", self.repo.path, *words], check=True, capture_output=True, text=True).stdout

    def run(self, tree="", **options):
        return engine.verdict(
            self.app,
            repository=self.repo.path,
            tree=tree or self.tree,
            suites=self.suites,
            sandboxed=self.sandboxed,
            **options,
        )

    def know(self, *, reruns=0):
        self.known, findings = judge.baseline([self.run() for _ in range(1 + reruns)])
        return findings

    def weighed(self, kind, files, *, new=(), began="", test="a test", stay=False):
        """The same with every rule a flow has: further runs, twins, what tests stand on; `stay` tries it out only."""
        tree = self.write(files)
        checkout = FlowCheckout(self.repo.path, "refs/heads/main", self.app.git_environment)
        change = two_way.look_at(self.app, checkout=checkout, head=self.tree, tree=tree, suites=self.suites)
        reports = self.run(tree, before=self.tree)
        probe = two_way.probe_of(self.app, change, self.suites, reports)
        named = {"new": new} if kind == "green" else {}
        found = getattr(judge, kind)(self.known, reports, changes=change.changes, **named)
        if kind == "red":
            found = two_way.weigh_red(change, found, test=test)
        elif kind == "green":
            found = two_way.weigh_green(change, found, probe=probe, began=began, new=new)
        else:
            found = two_way.weigh_refactor(change, found, probe=probe, known=self.known)
        if stay:
            self.git("read-tree", "--reset", "-u", self.tree)
        elif found.ok:
            self.tree, self.known = tree, self.known if kind == "red" else judge.after(self.known, reports)
        return found

    def phase(self, kind, files, **more):
        """Change files as one phase does, and judge it; what is right becomes the present tree."""
        new = self.write(files)
        changes = engine.changes(self.app, repository=self.repo.path, old=self.tree, new=new, suites=self.suites)
        reports = self.run(new)
        found = getattr(judge, kind)(self.known, reports, changes=changes, **more)
        if found.ok:
            self.tree = new
            if kind != "red":
                self.known = judge.after(self.known, reports)
        return found


def use_this_python(monkeypatch) -> None:
    """Let projects in tests find the Python that has pytest."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # our own plugins are none of the project's business
    monkeypatch.setenv("PATH", os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"])


def codes(judgement) -> list[str]:
    return [finding.code for finding in judgement.findings]

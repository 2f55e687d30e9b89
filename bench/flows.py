"""A flow: what the orchestrator adds to each phase beyond the agent's and the tests' own time. Real sessions, real tests."""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import tempfile
import time

from handoff.base.settings import from_environment
from handoff.board.tasks import flows as rows_of
from handoff.engine.app import App
from handoff.engine.place.proof import git_notes
from handoff.engine.work.flows import flows

Row = tuple[str, str, str]
CYCLES = 5
BUDGET_MS = 300
# The agent: it copies what its phase has to write and writes down when it began and ended.
AGENT = """#!/bin/sh
date +%s%N > "$TIMES/${HANDOFF_TASK##*/}.began"
[ -d "$PARTS/${HANDOFF_TASK##*/}" ] && cp -r "$PARTS/${HANDOFF_TASK##*/}/." .
date +%s%N > "$TIMES/${HANDOFF_TASK##*/}.ended"
"""
TEST = "import unittest\n\nfrom part{n} import f\n\n\nclass T(unittest.TestCase):\n    def test_{n}(self):\n        self.assertEqual(f(), {n})\n"


def write(path: str, text: str, mode: int = 0o644) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, mode)


@contextlib.contextmanager
def project():
    """A repository, an agent of ours, and what it writes in each phase."""
    with tempfile.TemporaryDirectory(prefix="ho-bench-", ignore_cleanup_errors=True) as folder:
        repo, parts = os.path.join(folder, "repo"), os.path.join(folder, "parts")
        write(os.path.join(repo, "calc.py"), "NAME = 1\n")
        write(os.path.join(repo, "tests", "__init__.py"), "")
        write(
            os.path.join(repo, "tests", "test_0.py"),
            TEST.replace("from part{n} import f", "").replace("f()", "0").format(n=0),
        )
        write(os.path.join(repo, ".gitignore"), "__pycache__/\n")
        for line in (
            ["init", "-q", "-b", "main"],
            ["add", "."],
            ["-c", "user.name=b", "-c", "user.email=b@example.invalid", "commit", "-q", "-m", "first"],
        ):
            subprocess.run(["git", *line], cwd=repo, check=True)
        for key, value in (("user.name", "b"), ("user.email", "b@example.invalid")):
            subprocess.run(["git", "config", key, value], cwd=repo, check=True)
        write(os.path.join(parts, "1-plan", "test-list.md"), "".join(f"- [ ] test {n}\n" for n in range(1, CYCLES + 1)))
        for n in range(1, CYCLES + 1):
            write(os.path.join(parts, f"{n}-red", "tests", f"test_{n}.py"), TEST.format(n=n))
            write(os.path.join(parts, f"{n}-green", f"part{n}.py"), f"def f():\n    return {n}\n")
            write(os.path.join(parts, f"{n}-refactor", f"part{n}.py"), f'"""Part."""\n\n\ndef f():\n    return {n}\n')
        agent = os.path.join(folder, "agent.sh")
        write(agent, AGENT, 0o755)
        home = os.path.join(folder, "home")
        times = os.path.join(folder, "times")
        os.makedirs(times)
        write(
            os.path.join(home, "config.toml"),
            f'agents = {{ quick = ["{agent}"] }}\nsession_caches = ["{times}", "{parts}"]\n',
        )
        environment = {**os.environ, "HANDOFF_HOME": home, "PARTS": parts, "TIMES": times}
        environment.pop("HANDOFF_DATABASE_URL", None)
        app = App(from_environment()._replace(home=home, environment=environment))
        before = os.getcwd()
        os.chdir(repo)
        try:
            yield app, times
        finally:
            os.chdir(before)
            app.close()


def agent_seconds(times: str, name: str) -> float:
    read = [int(open(os.path.join(times, f"{name}.{end}"), encoding="ascii").read()) for end in ("began", "ended")]  # noqa: SIM115
    return (read[1] - read[0]) / 1e9


def rows() -> list[Row]:
    """One flow of several cycles, each phase timed from the decision to take it to the row of the next one."""
    sandboxes: dict[str, float] = {}
    own: dict[str, float] = {}
    with project() as (app, times):
        flow = flows.start(
            app, request=flows.FlowRequest(workflow="tdd", text="parts", id="bench", agents={"": "quick"})
        )
        while True:
            flow = rows_of.get(app.database, key=flow.key)
            if flow.state != rows_of.RUNNING or flow.cycle > CYCLES:
                break
            name = f"{flow.cycle}-{flow.phase}"
            started = time.monotonic()
            done = flows.step(app, flow=flow, tell=lambda _: None)
            sandboxes[name] = time.monotonic() - started
            assert done.concluded is not None
            assert done.concluded.outcome.kind == "ok", done.concluded
            own[name] = agent_seconds(times, name)
        for found in git_notes.listing(app, revisions="handoff/bench"):
            for note in found.noted.records:
                if f"{note.cycle}-{note.phase}" in own:
                    own[f"{note.cycle}-{note.phase}"] += sum(check.seconds for check in note.checks)
    over = {name: (sandboxes[name] - own[name]) * 1000 for name in sandboxes}
    tested = [value for name, value in over.items() if not name.endswith("-plan")]
    plain = [value for name, value in over.items() if name.endswith("-plan")]
    return [
        ("a phase with tests: what the orchestrator adds, median", f"{statistics.median(tested):.0f} ms", f"≤ {BUDGET_MS} ms"),
        ("a phase without tests: what the orchestrator adds, median", f"{statistics.median(plain):.0f} ms", f"≤ {BUDGET_MS} ms"),
    ]  # fmt: skip

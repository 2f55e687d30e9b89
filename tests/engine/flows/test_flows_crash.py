"""kill -9 at every boundary of a phase: the flow goes on by itself, and nothing is done twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from flow_ground import ADD, LIST, TEST_ADD
from handoff.board.tasks import flows as rows
from handoff.engine.flows import flows
from points import OF_PHASES
from source import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def ran(ground) -> list[str]:
    path = os.path.join(ground.scripts, "ran")
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return file.read().split()


def script_cycle(ground) -> None:
    """Every phase leaves a line when its agent really ran; an attempt that a kill cost has the same script."""
    acts = {
        "1-plan": {"write": "test-list.md", "text": LIST}, "1-red": {"write": "tests/test_add.py", "text": TEST_ADD},
        "1-green": {"append": "calc.py", "text": "\n\n" + ADD},
        "1-refactor": {"write": "calc.py", "text": '"""Sums."""\n\nNAME = "calc"\n\n\n' + ADD},
    }  # fmt: skip
    home = ground.app().settings.home
    os.makedirs(home, exist_ok=True)
    with open(os.path.join(home, "config.toml"), "a", encoding="utf-8") as file:
        file.write(
            f'session_caches = ["{ground.scripts}"]\n'
        )  # the one place outside its clone where a line may be left
    for phase, act in acts.items():
        for attempt in (1, 2, 3):
            ground.act(phase, {"run": f"echo {phase} >> {ground.scripts}/ran"}, act, attempt=attempt)


def test_a_flow_killed_at_every_boundary_goes_on_and_does_nothing_twice(ground, tmp_path):
    script_cycle(ground)
    app = ground.app()
    flow = ground.start(app)
    marks = tmp_path / "marks"
    marks.mkdir()
    plan = {"points": OF_PHASES, "folder": str(marks), "flow": flow.key, "word": ground.word, "steps": 4, "until": 2}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    support = os.path.join(ROOT, "tests", "support")
    killed = 0
    for _ in range(len(OF_PHASES) + 6):
        done = subprocess.run(
            [sys.executable, os.path.join(support, "flow_step.py"), str(tmp_path / "plan.json")], cwd=ground.repo.path,
            env={**os.environ, "PYTHONPATH": support}, capture_output=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode in (0, -9), done.stdout.decode() + done.stderr.decode()
        killed += done.returncode == -9
        if rows.get(app.database, key=flow.key).cycle == 2:
            break
    reached = {name.replace("-", ":") for name in os.listdir(marks)}
    assert set(OF_PHASES) - reached == set()
    assert killed == len(OF_PHASES)
    seen = flows.look_again(app, flow)
    assert (seen.state, seen.flow.phase, seen.flow.cycle) == ("running", "plan", 2)
    assert ground.commits() == [
        "plan: adds two numbers comes next (2 open, 0 done)", "test: adds two numbers", "feat: adds two numbers",
        "refactor: tidy up after: adds two numbers",
    ]  # fmt: skip
    assert sorted(ran(ground)) == ["1-green", "1-plan", "1-red", "1-refactor"], "no agent worked twice"
    verified = [event.body["phase"] for event in flows.history(app, flow) if event.kind == "flow.verified"]
    assert verified == ["baseline", "plan", "red", "green", "refactor"]
    notes = ground.repo.git("notes", "--ref", "handoff", "list").splitlines()
    assert len(notes) == 5, "baseline and each of the four commits, once"
    app.close()

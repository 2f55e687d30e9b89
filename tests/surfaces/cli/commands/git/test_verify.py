"""`handoff record verify`: the recorded checks run again on the exact tree, and nothing is believed."""

from __future__ import annotations

import json
import os

import pytest

from flow_ground import FlowGround
from handoff.base.clock import stamp
from handoff.base.settings import from_environment
from handoff.engine.app import App
from handoff.engine.place.proof import git_notes, sandboxes, test_runs
from handoff.git.notes import Check
from sandbox import Cli, absent
from suites import use_this_python


@pytest.fixture
def app(repo, monkeypatch):
    monkeypatch.chdir(repo.path)
    return App(from_environment())


def record(app, repo, *checks: Check, commit: str = "HEAD", tree: str = "") -> None:
    sha = repo.git("rev-parse", commit).strip()
    tree = tree or repo.git("rev-parse", f"{sha}^{{tree}}").strip()
    note = {
        "repository": repo.path, "commit": sha, "tree": tree, "work": {"project": "shop", "task": "login"},
        "checks": [check._asdict() for check in checks], "began": 1_800_000_000.0, "ended": 1_800_000_060.0,
    }  # fmt: skip
    assert git_notes.put(app, note) == ""


def outcomes(cli, *words: str, code: int) -> list[str]:
    return [one["outcome"] for one in cli("record", "verify", *words, "--no-sandbox", "--json", code=code).json]


def test_a_record_that_holds_and_one_that_does_not(cli, repo, app):
    record(app, repo, Check("grep -q project README.md", "green"))
    assert outcomes(cli, "HEAD", code=0) == ["same"]
    repo.write("README.md", "nothing\n")
    repo.commit("break it")
    record(app, repo, Check("grep -q project README.md", "green"))
    answer = cli("record", "verify", "HEAD", "--no-sandbox", code=1)
    assert "it was green and is red (exit 1)" in answer.out
    assert outcomes(cli, "HEAD~1..HEAD", code=1) == ["differs"]


def test_the_exact_tree_is_checked_not_the_files_that_lie_about(cli, repo, app):
    record(app, repo, Check("test ! -e stray.txt && grep -q project README.md", "green"))
    repo.write("stray.txt", "x")
    repo.write("README.md", "changed\n")
    before = repo.git("status", "--porcelain")
    assert outcomes(cli, "HEAD", code=0) == ["same"]
    assert repo.git("status", "--porcelain") == before


def test_a_commit_without_a_record_or_with_one_for_another_tree_is_not_recorded(cli, repo, app):
    assert outcomes(cli, "HEAD", code=3) == ["not recorded"]
    record(app, repo, Check("true", "green"), tree="0" * 40)
    assert "for another tree" in cli("record", "verify", "HEAD", "--no-sandbox", code=3).out
    repo.write("a.txt", "a")
    repo.commit("second")
    record(app, repo, Check("true", "green"))
    assert outcomes(cli, "HEAD", code=0) == ["same"]
    repo.git("tag", "root", "HEAD~1")
    assert sorted(outcomes(cli, "HEAD ^root^@", code=3)) == ["not recorded", "same"]


def test_a_record_without_a_check_has_nothing_to_run_and_nothing_to_hide(cli, repo, app):
    record(app, repo)
    assert outcomes(cli, "HEAD", code=0) == ["no check"]


def test_results_by_name_are_compared_by_name(cli, repo, app, monkeypatch):
    use_this_python(monkeypatch)
    repo.write("test_a.py", "def test_one():\n    assert True\n\ndef test_two():\n    assert 1 == 2\n")
    repo.write("pytest.ini", "[pytest]\n")
    repo.commit("tests")
    (suite,) = test_runs.suites_of(app, folder=repo.path)
    two = f"{suite.name}:test_a.py::test_two"
    held = Check(suite.command, "red", 1, suite.folder, suite.name, 1, 1, 0, 0, (two,))
    record(app, repo, held)
    assert outcomes(cli, "HEAD", code=0) == ["same"]
    repo.git("commit", "-q", "--amend", "-m", "tests, in better words")
    record(app, repo, held._replace(passed=2, failed=0, failing=(), verdict="green", code=0))
    answer = cli("record", "verify", "HEAD", "--no-sandbox", code=1).out
    assert "2 passed then, 1 now" in answer
    assert f"fails now: {two}" in answer


def test_without_a_sandbox_a_strange_command_is_not_run_unless_a_person_says_so(cli, repo, app):
    record(app, repo, Check("touch ran", "green"))
    cli.environment["HANDOFF_SANDBOX"] = "none"
    answer = cli("record", "verify", "HEAD", code=3)
    assert "It would run: touch ran" in answer.err
    assert json.loads(cli("record", "verify", "HEAD", "--no-sandbox", "--json").out)[0]["outcome"] == "same"
    assert not os.path.exists(os.path.join(repo.path, "ran"))


def test_a_bare_clone_shows_records_but_runs_nothing(cli, repo, app, tmp_path):
    record(app, repo, Check("true", "green"))
    repo.git("clone", "-q", "--mirror", repo.path, str(tmp_path / "bare.git"))
    shown = cli("log", "--git", "--json", cwd=str(tmp_path / "bare.git")).json
    assert shown[0]["records"][0]["ended"] == stamp(1_800_000_060.0)
    assert "from a checkout" in cli("record", "verify", "HEAD", code=1, cwd=str(tmp_path / "bare.git")).err


def test_what_a_record_says_is_run_behind_the_sandbox(cli, repo, app):
    if sandboxes.present_layer(app) == "none":
        absent("a sandbox (bubblewrap or Landlock)")
    leak = os.path.join(repo.path, "leak")
    record(app, repo, Check(f"touch {leak}; test -f README.md", "green"))
    assert cli("record", "verify", "HEAD", "--json").json[0]["outcome"] == "same"
    assert not os.path.exists(leak)


@pytest.mark.slow
def test_the_commits_of_a_flow_are_verified_again_as_they_were(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ground = FlowGround(str(tmp_path / "calc"), str(tmp_path / "scripts"))
    ground.first_cycle()
    app = ground.app()
    flow = ground.start(app)
    for _ in range(3):
        ground.step(app, flow)
    app.close()
    found = Cli(ground.repo.path)("record", "verify", "main..handoff/calc", "--no-sandbox", "--json").json
    said = {one["subject"].partition(":")[0]: one for one in found}
    outcomes = {name: one["outcome"] for name, one in said.items()}
    assert outcomes == {"plan": "no check", "test": "same", "feat": "same"}
    assert said["test"]["checks"][0]["recorded"]["verdict"] == "red"
    assert said["feat"]["checks"][0]["now"]["verdict"] == "green"

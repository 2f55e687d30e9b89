"""The actions of the repository: whole as YAML, and their steps do here what they are to do on a runner."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest
import yaml

from api_port import ApiPort
from handoff.base.settings import from_environment
from handoff.engine.app import App
from handoff.engine.place.proof import git_notes
from handoff.git.notes import Check
from source import ROOT

ACTIONS = ("action.yml", "actions/red-check/action.yml")


def action(name: str) -> dict:
    with open(os.path.join(ROOT, name), encoding="utf-8") as file:
        return yaml.safe_load(file)


def run_step(cli, repo, folder, step: dict, inputs: dict[str, str], **variables: str):
    """What a runner does with a step: its words filled in, bash that ends with the first fault, files for what it says."""
    files = {name: str(folder / name.lower()) for name in ("GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT")}
    for path in files.values():
        open(path, "a", encoding="utf-8").close()

    def fill(text: str) -> str:
        return re.sub(r"\$\{\{ inputs\.([a-z-]+) \}\}", lambda found: inputs.get(found[1], ""), text)

    said = {name: re.sub(r"\$\{\{.*?\}\}", "", fill(str(text))) for name, text in step["env"].items()}
    path = f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"
    environment = {**cli.full_environment(), **files, **said, "PATH": path, "RUNNER_TEMP": str(folder), **variables}
    script = folder / "step.sh"
    script.write_text(step["run"], encoding="utf-8")
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", script], cwd=repo.path, env=environment, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    told = {}
    for name, path in files.items():
        with open(path, encoding="utf-8") as file:
            told[name] = file.read()
    return done, told["GITHUB_STEP_SUMMARY"], dict(line.split("=", 1) for line in told["GITHUB_OUTPUT"].splitlines())


@pytest.mark.parametrize("name", ACTIONS)
def test_an_action_explains_itself_and_uses_each_input_through_the_environment(name):
    found = action(name)
    assert found["runs"]["using"] == "composite"
    told = [*found["inputs"].values(), *found["outputs"].values()]
    assert all(one["description"] for one in (found, *told))
    used = set(re.findall(r"inputs\.([a-z-]+)", str(found["runs"])))
    assert used == set(found["inputs"])
    ids = {step.get("id") for step in found["runs"]["steps"]}
    for one in found["outputs"].values():
        step, output = re.fullmatch(r"\$\{\{ steps\.([a-z]+)\.outputs\.([a-z]+) \}\}", one["value"]).groups()
        assert step in ids
        assert f"{output}=" in str(found["runs"])
    for step in found["runs"]["steps"]:
        assert step["shell"] == "bash"
        assert "${{" not in step["run"], "words of others become part of a script"
        subprocess.run(["bash", "-n"], input=step["run"], text=True, check=True)


def test_a_pull_request_is_verified_with_a_summary_and_sarif(cli, repo, tmp_path, monkeypatch):
    monkeypatch.chdir(repo.path)
    app, step = App(from_environment()), action("action.yml")["runs"]["steps"][1]
    base = repo.git("rev-parse", "HEAD").strip()
    repo.write("test_shop.py", "def test_a():\n    assert shop() == 3\n")
    repo.commit("add a | test")
    good = repo.git("rev-parse", "HEAD").strip()
    repo.write("test_shop.py", "\ndef test_a():\n    assert True\n")
    repo.commit("weaken it")
    head = repo.git("rev-parse", "HEAD").strip()
    tree = repo.git("rev-parse", "HEAD^{tree}").strip()
    note = {"repository": repo.path, "commit": head, "tree": tree, "work": {"project": "shop", "task": "a"},
            "checks": [Check("test -e gone.txt", "green")._asdict()], "began": 1.0, "ended": 2.0}  # fmt: skip
    assert git_notes.put(app, note) == ""
    inputs = {name: one["default"] for name, one in action("action.yml")["inputs"].items()}
    inputs |= {"sandbox": "false", "sarif": str(tmp_path / "found.sarif")}
    done, summary, outputs = run_step(cli, repo, tmp_path, step, inputs, BASE=base, HEAD=head)
    assert (done.returncode, outputs["outcome"]) == (1, "differs"), done.stderr
    assert "::warning::origin has no records." in done.stdout
    assert f"| ⚠️ | `{good[:10]}` add a \\| test | not recorded | no record |" in summary
    assert "it was green and is red" in summary
    with open(outputs["sarif"], encoding="utf-8") as file:
        results = json.load(file)["runs"][0]["results"]
    assert {one["ruleId"] for one in results} == {"record-differs", "not-recorded", "weak-test"}
    place = next(one for one in results if one["ruleId"] == "weak-test")["locations"][0]["physicalLocation"]
    assert (place["artifactLocation"]["uri"], place["region"]["startLine"]) == ("test_shop.py", 2)
    done, _, outputs = run_step(cli, repo, tmp_path, step, {**inputs, "range": good})
    assert (done.returncode, outputs["outcome"]) == (0, "not-recorded")
    done, _, _ = run_step(cli, repo, tmp_path, step, {**inputs, "range": good, "require-records": "true"})
    assert done.returncode == 3
    done, _, _ = run_step(cli, repo, tmp_path, step, {**inputs, "range": "nothing", "sarif": str(tmp_path / "none")})
    assert done.returncode not in (0, 3), "what could not be looked at is no commit without a record"


def test_a_red_check_orders_a_task_once_for_a_commit_whatever_its_log_says_the_next_time(cli, repo, tmp_path):
    (step,) = action("actions/red-check/action.yml")["runs"]["steps"]
    port = ApiPort(cli)
    try:
        token = port.tokens["steer"]
        inputs = {"url": f"http://{port.place.netloc}/", "token": token, "agent": "", "log": str(tmp_path / "log")}
        about = {"GITHUB_SERVER_URL": "https://forge.invalid", "GITHUB_REPOSITORY": "o/r", "GITHUB_RUN_ID": "5",
                 "GITHUB_JOB": "tests", "GITHUB_REF_NAME": "main", "GITHUB_SHA": "ab" * 20}  # fmt: skip
        (tmp_path / "log").write_text("E assert 1 == 3 in 0.1 s\n")
        done, _, told = run_step(cli, repo, tmp_path, step, inputs, **about)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "> E assert 1 == 3" in cli("show", told["task"], "--json").json["brief"]
        (tmp_path / "log").write_text("E assert 1 == 3 in 0.2 s\n")
        done, _, _ = run_step(cli, repo, tmp_path, step, inputs, **about)
        assert (done.returncode, "has a task" in done.stdout) == (0, True), done.stdout + done.stderr
        assert [one["task"] for one in port.ask("GET", "/tasks")[1]["items"]] == [told["task"]]
        done, _, _ = run_step(cli, repo, tmp_path, step, {**inputs, "token": "t-none"}, **about)
        assert done.returncode == 1
        assert "A token of this relay is needed." in done.stdout
    finally:
        port.close()

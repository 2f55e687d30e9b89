"""Which claim a command means, when a person names the task in the short way or has the same name elsewhere."""

from __future__ import annotations

import shlex
import subprocess

from handoff.engine.work import tools
from relay import app
from sandbox import Cli, Repo

MANIFEST = """schema_version = 2
batch_id = "login"
fan_in_task = "login-join"
[[sub_tasks]]
id = "form"
brief = "Build the form."
file_ownership = [{ type = "exact", path = "form.py" }]
[[sub_tasks]]
id = "mail"
brief = "Send the mail."
file_ownership = [{ type = "exact", path = "mail.py" }]
"""


def test_a_part_may_be_reported_by_the_name_it_was_claimed_by(tmp_path):
    for name in ("left", "right"):  # two projects with a batch of the same name
        repo = Repo.create(str(tmp_path / name))
        repo.write("split.toml", MANIFEST)
        repo.commit("split")
        cli = Cli(repo.path)
        cli("dump", "--open-batch", "split.toml")
        cli("task", "claim", "form")
    assert "login/form is done" in cli("task", "done", "form").out
    cli("task", "claim", "mail")
    assert "login/mail is done" in cli("task", "done", "login/mail").out


def _expired(cli, task):
    """A session claims in this folder, falls silent for too long, and its task is free again."""
    old = cli("--json", "task", "claim", task, "--lease", "0.001").json
    cli("watchdog", "--once", code=None)
    return old["session"]


def test_the_next_session_of_a_folder_reports_after_the_claim_before_it_has_expired(cli):
    cli("task", "add", "solo", "Do it.")
    old = _expired(cli, "solo")
    new = cli("--json", "task", "claim", "solo").json
    assert (new["fence"], new["session"] != old) == (2, True)
    assert "solo is yours" in cli("heartbeat").out
    assert "solo is yours" in cli("heartbeat", "--task", "solo").out
    assert "solo is done" in cli("task", "done").out


def test_a_living_claim_wins_over_dead_ones_of_other_tasks_in_the_same_folder(cli):
    for task in ("first", "second"):
        cli("task", "add", task, "Do it.")
    _expired(cli, "first")
    cli("task", "claim", "second")
    assert "second is done" in cli("task", "done").out


def test_two_living_claims_of_a_folder_are_told_apart_by_the_task_that_the_hint_asks_for(cli):
    for task in ("first", "second"):
        cli("task", "add", task, "Do it.")
        cli("task", "claim", task)
    answer = cli("task", "done", code=1)
    assert "Several tasks are claimed here" in answer.err
    assert "--task TASK" in answer.err
    assert "second is done" in cli("task", "done", "--task", "second").out


def test_the_tools_report_after_the_claim_before_theirs_has_expired(cli, repo, monkeypatch):
    cli("task", "add", "solo", "Do it.")
    _expired(cli, "solo")
    monkeypatch.chdir(repo.path)
    assert "You hold 'solo'" in tools.claim(app())
    assert tools.note(app(), "Half of it is done.") == "Noted."
    assert "Task 'solo' is done" in tools.finish(app(), "All of it.")


def test_a_session_that_lost_its_task_does_not_speak_for_the_one_that_has_it_now(cli, repo):
    cli("task", "add", "solo", "Do it.")
    program = " ".join(shlex.quote(word) for word in cli.command())
    lines = f"{program} task claim --lease 0.001; read wait; {program} task done"
    old = subprocess.Popen(  # a client with a shell of its own, still there
        ["/bin/sh", "-c", lines],
        cwd=repo.path,
        env=cli.full_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert "You hold solo" in old.stdout.readline()
    cli("watchdog", "--once", code=None)
    cli("task", "claim", "solo")
    said, _ = old.communicate("\n", timeout=120)
    assert "solo is done" not in said
    assert "fence 1 is old" in said, said
    assert "solo is done" in cli("task", "done").out

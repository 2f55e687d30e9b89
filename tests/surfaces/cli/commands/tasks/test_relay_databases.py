"""The same conversation on both databases: a home keeps only files when the rows are in Postgres."""

from __future__ import annotations

import os

import pytest

from relay import manifest
from sandbox import Cli

pytestmark = pytest.mark.slow


def test_a_batch_is_carried_from_its_manifest_to_its_figures(place, repo, tmp_path):
    cli = Cli(repo.path, HANDOFF_DATABASE_URL=place.url)
    queue = os.path.join(os.environ["HANDOFF_HOME"], "repo", "queue")
    cli("dump", "--task", "plain", "--next", "One task.", "--check", "true")
    cli("dump", "--open-batch", manifest(tmp_path / "m.json", depends={"api": ["form"]}))
    assert "is still ready" in cli("dump", "--task", "plain", "--next", "Again.", code=4).err
    cli("task", "claim", "plain")
    assert "plain is done" in cli("task", "done").out
    cli("task", "claim", "login/form")
    cli("heartbeat")
    assert "Now ready: login/api" in cli("task", "done").out
    assert "login-join is ready" in cli("dump", "--task", "api-done", "--batch-id", "login", "--batch-done").out
    assert os.path.exists(os.path.join(queue, "login-join.uri"))
    cli("pause", "--reason", "a while")
    assert "a while" in cli("task", "claim", code=1).err
    cli("resume")
    cli("heartbeat", "complete", "login", "--actual-minutes", "20")
    assert cli("heartbeat", "calibration").out == "1.000\n"
    assert cli("watchdog", "--json").json["freed"] == []
    assert {task["state"] for task in cli("task", "list", "--all", "--json").json["tasks"]} == {"done"}
    assert not os.path.exists(os.path.join(os.environ["HANDOFF_HOME"], "handoff.db"))


def test_the_address_of_the_database_may_stand_in_the_settings(repo, tmp_path):
    home = os.environ["HANDOFF_HOME"]
    os.makedirs(home)
    with open(os.path.join(home, "config.toml"), "w", encoding="utf-8") as file:
        file.write(f'database_url = "sqlite:///{tmp_path}/rows.db"\n')
    cli = Cli(repo.path)
    cli("dump", "--task", "form", "--next", "Build it.")
    assert not os.path.exists(os.path.join(home, "handoff.db"))
    assert "form" in cli("task", "list").out

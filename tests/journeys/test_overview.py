"""`handoff` alone and `status` know what the rows know, with and without a feature."""

from __future__ import annotations

import os
import sqlite3

from relay import manifest
from workspaces import ready


def test_status_and_handoff_alone_tell_what_the_relay_has_under_way(cli, repo, tmp_path):
    fresh = cli("status")
    assert "No feature is active here." in fresh.out
    assert "handoff init NAME" in fresh.out
    assert "Tasks:" not in fresh.out
    assert not os.path.exists(os.environ["HANDOFF_HOME"])  # looking makes nothing

    cli("dump", "--open-batch", manifest(tmp_path / "m.json"))
    cli("dump", "--task", "alone", "--next", "Work.")
    cli("claim", "login/form", "--session", "one")
    cli("block", "--session", "one", "no key")
    cli("claim", "login/api", "--session", "two")
    cli("block", "--session", "two", "no key either")  # now the fan-in asks at a gate
    wanted = (
        "Tasks: 1 ready, 1 gated, 2 blocked. See: handoff queue", "Batches: login. See: handoff heartbeat status login",
        "Gates: 1 waits for your answer. See: handoff gates",
    )  # fmt: skip
    for words in ((), ("status",)):
        said = cli(*words).out
        assert all(line in said for line in wanted), said
    assert cli("heartbeat", "status", "login").out
    assert cli("status", "--json").json["relay"] == {"ready": 1, "gated": 1, "blocked": 2, "gates": 1, "batches": 1}

    ready(cli, repo)
    cli("pause", "--project", "repo")
    cli("claim", "alone", code=3)
    said = cli("status").out
    assert "Feature: login" in said
    assert all(line in said for line in (*wanted, "Stopped: not everything may be taken. See: handoff queue"))
    assert len(said.splitlines()) < 24  # one screen

    os.makedirs(os.path.join(repo.path, "empty"))
    assert "Tasks: 1 ready" in cli("status", cwd=os.path.join(repo.path, "empty")).out
    assert "1 gate waits for your answer" in cli("queue").out
    _rows_say(1, 2)
    cut = cli("queue", "--limit", "2")
    assert "Only the first 2 of 4 are shown. All: handoff queue --limit 4" in cut.out
    assert cli("queue", "--limit", "2", "--json").json["in_all"] == 4
    assert "are shown" not in cli("queue", "--limit", "4").out
    assert "No live tasks" not in cli("queue", "--limit", "0").out


def _rows_say(ready_tasks: int, blocked: int) -> None:
    connection = sqlite3.connect(os.path.join(os.environ["HANDOFF_HOME"], "handoff.db"))
    try:
        found = dict(connection.execute("SELECT state, count(*) FROM task WHERE ended_at IS NULL GROUP BY state"))
    finally:
        connection.close()
    assert (found["ready"], found["blocked"]) == (ready_tasks, blocked)

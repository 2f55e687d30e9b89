"""Sentinels: a stop is a row, put once, taken away once."""

from __future__ import annotations

import pytest

from handoff.base.errors import Refused, UserError
from handoff.board.sessions import leases, pauses
from handoff.board.sessions.sessions import SessionIdentity
from handoff.board.tasks import batches, tasks
from handoff.board.tasks.batches import SubTask


def test_a_stop_is_put_once_and_keeps_its_first_reason(database):
    assert pauses.pause(database, reason="deploy", paused_by="ann")
    assert not pauses.pause(database, reason="other")
    (stop,) = pauses.listing(database)
    assert (stop.scope, stop.reason, stop.paused_by, stop.words) == ("all", "deploy", "ann", "everything")
    assert pauses.resume(database)
    assert not pauses.resume(database)
    assert pauses.listing(database) == []


def test_a_stop_of_one_project_leaves_the_others_running(database):
    for project in ("shop", "bank"):
        tasks.add(database, project=project, id="login", brief="x")
    pauses.pause(database, scope="project", project="shop", reason="deploy")
    assert leases.claim_next(database, who=SessionIdentity("s1")).task.project == "bank"
    assert leases.claim_next(database, who=SessionIdentity("s2")) is None
    assert leases.why_idle(database, who=SessionIdentity("s2"), project="shop") == "project 'shop' is stopped: deploy"
    assert "stopped" in leases.why_idle(database, who=SessionIdentity("s2"))


def test_a_stop_of_one_sub_task_leaves_its_namesake_in_another_batch_running(database):
    for name in ("left", "right"):
        batches.open_batch(
            database, project="shop", id=name, sub_tasks=[SubTask("api", "x")], fan_in=SubTask(f"{name}-join", "x")
        )
    pauses.pause(database, scope="task", project="shop", name="left/api")
    assert leases.claim_next(database, who=SessionIdentity("s1")).task.label == "right/api"
    with pytest.raises(Refused, match="Task 'left/api' is stopped") as caught:
        leases.claim(database, key=tasks.find(database, project="shop", id="left/api").key, who=SessionIdentity("s2"))
    assert caught.value.hint == "Go on with: handoff resume left/api --project shop"


@pytest.mark.parametrize(
    "wrong",
    [
        {"scope": "world"}, {"scope": "project"}, {"scope": "batch", "project": "shop"},
        {"scope": "task", "name": "login"}, {"project": "shop"}, {"scope": "project", "project": "shop", "name": "x"},
    ],
)  # fmt: skip
def test_a_stop_of_nothing_is_refused(database, wrong):
    with pytest.raises(UserError):
        pauses.pause(database, **wrong)
    assert pauses.listing(database) == []

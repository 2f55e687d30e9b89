"""Labels: a task that demands something of its host is taken only where it is, and a task nobody can serve is told."""

from __future__ import annotations

import pytest

from handoff.base.errors import Refused, UserError
from handoff.board import forgetting
from handoff.board.sessions import executors, leases
from handoff.board.sessions.sessions import SessionIdentity
from handoff.board.tasks import batches, outcomes, requirements, tasks
from handoff.board.tasks.batches import SubTask


def add(database, name, **more):
    return tasks.add(database, project="shop", id=name, brief="x", **more)


def taken(database, session, *labels, agent=""):
    claim = leases.claim_next(database, who=SessionIdentity(session, host="here", agent=agent, labels=labels))
    return claim.task.id if claim else None


def works(database, name, *, agents=(), labels=()):
    executors.begin(database, id=name, host=name, boot="b", pid=1, process_start="1", agents=agents, labels=labels)


def test_a_host_takes_only_what_it_has_every_label_for(database):
    add(database, "train", labels=("gpu", "big-disk"), priority=9)
    add(database, "sign", labels=("macos",), priority=5)
    add(database, "plain")
    assert taken(database, "s1", "gpu") == "plain"
    assert taken(database, "s2", "gpu", "mac") is None
    assert taken(database, "s3", "macos") == "sign"
    assert taken(database, "s4", "arm", "big-disk", "gpu") == "train"


def test_a_named_task_is_refused_where_its_labels_are_not(database):
    task = add(database, "train", labels=("gpu",))
    with pytest.raises(Refused, match="needs a host with the labels gpu"):
        leases.claim(database, key=task.key, who=SessionIdentity("s1"))
    assert leases.claim(database, key=task.key, who=SessionIdentity("s1", labels=("gpu",))).fence == 1


def test_the_parts_of_a_batch_and_its_fan_in_have_labels_too(database):
    parts = [SubTask("aa", "x", labels=("gpu",)), SubTask("bb", "x")]
    batches.open_batch(
        database, project="shop", id="split", sub_tasks=parts, fan_in=SubTask("join", "x", labels=("macos",))
    )
    assert sorted(requirements.of_tasks(database, project="shop").values()) == [("gpu",), ("macos",)]
    assert taken(database, "s1") == "bb"
    assert taken(database, "s2", "gpu") == "aa"


def test_what_cannot_be_a_label_is_refused_before_anything_is_written(database):
    for wrong in ("GPU", "a,b", "%", "x"):
        with pytest.raises(UserError, match="cannot name a label"):
            add(database, "train", labels=(wrong,))
    assert tasks.listing(database) == []


def test_it_is_told_when_no_host_at_work_has_what_a_task_needs(database):
    add(database, "train", labels=("gpu",))
    add(database, "review", agent="codex", labels=("gpu",))
    assert requirements.unserved(database) == [], "where nobody works nothing is served"
    assert leases.why_idle(database, who=SessionIdentity("s1"), project="shop").startswith(
        "the ready tasks need a host with gpu"
    )
    works(database, "plain:1", agents=("claude", "codex"))
    assert [(one.task, one.words) for one in requirements.unserved(database)] == [
        ("train", "label gpu"),
        ("review", "agent codex and label gpu"),
    ]
    assert leases.why_idle(database, who=SessionIdentity("s1")) == "no host at work has what 'train' needs: label gpu"
    works(database, "strong:1", agents=("claude",), labels=("gpu",))
    assert [one.task for one in requirements.unserved(database)] == ["review"], "label and agent must be on one host"
    said = requirements.offers(database)["strong:1"]
    assert said == {"agent": ["claude"], "label": ["gpu"], "project": [], "until": []}
    database.shift += executors.LEASE_SECONDS + 1
    works(database, "plain:2", agents=("claude",))
    assert [one.task for one in requirements.unserved(database)] == ["train", "review"], (
        "a host that fell silent serves nobody"
    )


def test_what_has_ended_leaves_no_demand_and_no_offer(database):
    task = add(database, "train", labels=("gpu",))
    works(database, "strong:1", labels=("gpu",))
    forgetting.prune(database, before=1e12, dry_run=False)
    assert requirements.of_task(database, key=task.key) == ("gpu",)
    outcomes.finish(database, key=task.key, fence=None, summary="")
    forgetting.prune(database, before=1e12, dry_run=False)
    assert requirements.of_task(database, key=task.key) == ()
    executors.give_up(database, id="strong:1")
    executors.end(database, id="strong:1")
    executors.prune(database, before=1e12)
    assert requirements.offers(database) == {}

"""The tally: what happened so far, counted once, on both databases, whoever counts and whatever is forgotten since."""

from __future__ import annotations

import threading

from handoff.board import figures, forgetting, gates
from handoff.board.sessions import leases, sessions
from handoff.board.tasks import outcomes, tasks
from handoff.surfaces.api import routes

WHO = sessions.SessionIdentity(id="one", kind=sessions.AGENT, agent="scripted", host="here", boot="b", labels=())


def counted(database):
    return {(row.name, row.label): (row.number, row.total) for row in figures.tally_rows(database, project="shop")}


def _work(database):
    """A task that is claimed, lost for want of a sign of life, claimed again and done; and one that waits for a yes."""
    task = tasks.add(database, project="shop", id="mail", brief="x")
    claim = leases.claim(database, key=task.key, who=WHO, lease_seconds=60.0)
    leases.hand_back(database, task=claim.task, reason="no sign of life before the lease ended")
    claim = leases.claim(database, key=task.key, who=WHO._replace(id="two"), lease_seconds=60.0)
    outcomes.finish(database, key=task.key, fence=claim.fence, evidence={"check": {"green": True, "seconds": 2.5}})
    asks = tasks.add(database, project="shop", id="asks", brief="x")
    gates.ask(database, key=asks.key, question="May I?")
    gates.approve(database, key=asks.key, answered_by="me")
    return task


def test_what_happened_is_counted_once_by_any_number_of_followers(place, database):
    _work(database)
    others = [threading.Thread(target=lambda: figures.catch_up(place.open())) for _ in range(4)]
    for one in others:
        one.start()
    for one in others:
        one.join()
    figures.catch_up(database)
    found = counted(database)
    assert found["lines", "task.claimed"] == (2, 0.0)
    assert (found["lost", ""], found["checks", "green"]) == ((1, 0.0), (1, 2.5))
    assert found["task_wait", "1"][0] == 2
    assert found["gate_answer", "1"][0] == 1


def test_counts_stay_when_tasks_are_forgotten(database):
    _work(database)
    before = figures.take(database).tally
    assert forgetting.prune(database, before=4e9, dry_run=False)
    after = {(row.name, row.label): row.number for row in figures.take(database).tally}
    assert before
    assert all(after[row.name, row.label] >= row.number for row in before)


def test_a_histogram_holds_in_each_bucket_those_below(database):
    _work(database)
    found = figures.take(database, project="shop")
    lines = routes._histogram(found, figures.TASK_WAIT, "handoff_task_wait_seconds")
    assert lines[0] == 'handoff_task_wait_seconds_bucket{project="shop",le="1"} 2'
    assert 'handoff_task_wait_seconds_bucket{project="shop",le="+Inf"} 2' in lines
    assert lines[-1] == 'handoff_task_wait_seconds_count{project="shop"} 2'

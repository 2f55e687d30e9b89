"""A host and its sessions: several claims in one statement, and all signs of life in one."""

from __future__ import annotations

import pytest

from handoff.base.errors import Conflict
from handoff.board.events import journal
from handoff.board.sessions import executors, holds, host_leases, leases, sessions, watchdog
from handoff.board.sessions.leases import ClaimLimits
from handoff.board.sessions.sessions import SessionIdentity
from handoff.board.tasks import outcomes, tasks


def add(database, *names, **more):
    return [
        tasks.add(
            database,
            project=more.get("project", "shop"),
            id=name,
            brief="x",
            **{k: v for k, v in more.items() if k != "project"},
        )
        for name in names
    ]


def crew(count, *, agent="codex", start=0, **more):
    return [
        SessionIdentity(f"session-{number:04}", kind="agent", agent=agent, host="here", **more)
        for number in range(start, start + count)
    ]


def test_several_sessions_get_the_tasks_that_come_next_each_its_own(database):
    add(database, "first", "second", "third")
    add(database, "urgent", priority=5)
    add(database, "for-another", agent="aider", priority=9)
    claims = host_leases.claim(database, who=crew(3), lease_seconds=60)
    assert [claim.task.id for claim in claims] == ["urgent", "first", "second"]
    assert {claim.session.id for claim in claims} == {one.id for one in crew(3)}
    for claim in claims:
        row, known = tasks.get(database, key=claim.task.key), sessions.get(database, id=claim.session.id)
        assert row == claim.task
        assert (row.held_by, row.fence, row.state) == (claim.session.id, 1, "running")
        assert known == claim.session
        kinds = [event.kind for event in journal.last(database, limit=50) if event.session == claim.session.id]
        assert kinds == ["session.started", "task.claimed"]
    assert [claim.task.id for claim in host_leases.claim(database, who=crew(3, start=3))] == ["third"]
    assert host_leases.claim(database, who=crew(3, start=6)) == []
    assert outcomes.finish(database, key=claims[0].task.key, fence=claims[0].fence).task.state == "done"


@pytest.mark.parametrize(
    ("limits", "project", "most"),
    [(ClaimLimits(2, 0, 0), "", 2), (ClaimLimits(0, 0, 3), "", 3), (ClaimLimits(5, 2, 5), "shop", 2), (ClaimLimits(6, 2, 5), "", 4)],
)  # fmt: skip
def test_claims_of_several_stay_within_every_limit(database, limits, project, most):
    for name in ("shop", "desk"):
        add(database, *(f"{name}-{number}" for number in range(5)), project=name)
    (first,) = host_leases.claim(database, who=crew(1), project=project, limits=limits)
    more = host_leases.claim(database, who=crew(8, start=1), project=project, limits=limits)
    assert 1 + len(more) == most
    assert host_leases.claim(database, who=crew(8, start=9), project=project, limits=limits) == []
    outcomes.finish(database, key=first.task.key, fence=first.fence)
    assert len(host_leases.claim(database, who=crew(8, start=17), project=project, limits=limits)) == 1


def test_of_an_agent_that_was_refused_one_session_tries_for_all_others(database):
    add(database, "first", "second", "third")
    (claim,) = host_leases.claim(database, who=crew(1))
    with database.transaction() as transaction:
        said = {"reason": "its limit", "fix": "wait", "until": 0.0, "back_off": 60.0, "fault": "limit"}
        old = holds.hold_agent(transaction, claim.task, claim.session, at=transaction.now() - 61, **said)
        assert old.until < transaction.now(), "its pause was over before anybody looked"
        assert not holds.is_known(transaction, agent=claim.session.agent, host=claim.session.host)
        said["at"] = transaction.now()
        holds.hold_agent(transaction, claim.task, claim.session, **said)
    assert host_leases.claim(database, who=crew(2, start=1)) == [], "it is held"
    database.shift += 61
    (probe,) = host_leases.claim(database, who=crew(2, start=3))
    assert host_leases.claim(database, who=crew(2, start=5)) == [], "one tries it"
    assert holds.prove(database, probe.session)
    assert len(host_leases.claim(database, who=crew(2, start=7))) == 1


def test_the_signs_of_life_of_a_host_renew_what_its_sessions_hold_and_nothing_else(database):
    add(database, "first", "second", "third", "fourth")
    mine = host_leases.claim(database, who=crew(3), lease_seconds=100)
    (other,) = host_leases.claim(database, who=[SessionIdentity("session-9999", host="there")], lease_seconds=100)
    outcomes.finish(database, key=mine[2].task.key, fence=mine[2].fence)
    database.shift += 60
    beats = [(claim.task.key, claim.fence) for claim in mine] + [(other.task.key, other.fence)]
    assert host_leases.renew(database, host="here", beats=[*beats, (mine[0].task.key, 7)]) == {
        c.task.key for c in mine[:2]
    }
    assert host_leases.renew(database, host="here", beats=[(mine[0].task.key, 7), (1000, 1)]) == set()
    assert set(host_leases.holdings(database, host="here")) == {claim.task.key for claim in mine[:2]}
    database.shift += 60
    freed = watchdog.scan(database).freed
    assert [task.id for task in freed] == ["fourth"], "the others have shown that they live"
    assert host_leases.renew(database, host="there", beats=beats) == set(), "who was taken for dead asks for itself"
    assert leases.heartbeat(database, key=other.task.key, fence=other.fence).state == "running"
    with pytest.raises(Conflict):
        leases.heartbeat(database, key=mine[2].task.key, fence=mine[2].fence)


def test_a_host_reads_of_the_relay_what_concerns_it_and_no_more(database):
    assert tasks.project_names(database) == []
    add(database, "first", "second", project="shop")
    add(database, "third", project="desk")
    for number, host in enumerate(("here", "there", "here")):
        host_leases.claim(database, who=[SessionIdentity(f"session-{number}", host=host)])
    assert tasks.project_names(database) == ["desk", "shop"]
    assert [task.id for task in tasks.running_on(database, host="here")] == ["third", "first"]
    assert [task.id for task in tasks.running_on(database, host="here", project="shop")] == ["first"]
    for name, host, lease in (("mine", "here", 100), ("well", "there", 100), ("lost", "there", 5)):
        told = {"boot": "b", "pid": 1, "process_start": "1", "lease_seconds": lease}
        executors.begin(database, id=name, host=host, **told)
    database.shift += 10
    assert {one.id for one in executors.to_look_after(database, host="here")} == {"mine", "lost"}
    executors.give_up(database, id="lost")
    assert [one.id for one in executors.to_look_after(database, host="here")] == ["mine"], (
        "given up once, by whoever saw it"
    )
    assert {one.id for one in executors.to_look_after(database, host="there")} == {"well", "lost"}

"""Sessions: who works, known by host, boot, process and start."""

from __future__ import annotations

from handoff.board.sessions import leases, sessions
from handoff.board.sessions.sessions import SessionIdentity
from handoff.board.tasks import tasks

ME = SessionIdentity(
    "s1",
    kind="agent",
    project="shop",
    agent="codex",
    workspace="/work",
    host="here",
    boot="b",
    pid=7,
    process_start="9",
)


def test_a_session_is_known_as_it_introduced_itself(database):
    sessions.register(database, who=ME)
    found = sessions.get(database, id="s1")
    told = [
        field for field in SessionIdentity._fields if field != "labels"
    ]  # they are the host's, and only the claim asks for them
    assert [getattr(found, field) for field in told] == [getattr(ME, field) for field in told]
    assert (found.task, found.ended_at) == (None, None)
    assert sessions.get(database, id="ghost") is None


def test_a_claim_makes_its_session_known_and_a_second_word_keeps_its_task(database):
    task = tasks.add(database, project="shop", id="login", brief="x")
    leases.claim(database, key=task.key, who=ME)
    again = sessions.register(database, who=ME._replace(pid=8))
    assert (again.pid, again.task, again.fence) == (8, task.key, 1)
    leases.release(database, key=task.key, fence=1)
    assert sessions.get(database, id="s1").task is None


def test_a_session_ends_once_and_may_come_back(database):
    sessions.register(database, who=ME)
    assert sessions.end(database, id="s1", ending="closed")
    assert not sessions.end(database, id="s1")
    assert sessions.listing(database) == []
    sessions.register(database, who=ME)
    assert [session.ending for session in sessions.listing(database)] == [""]

"""Verbs in one call: the functions of Postgres leave the same rows as the statements one by one, and leave the rest to them."""

from __future__ import annotations

import psycopg
import pytest
from psycopg.rows import dict_row

from databases import Place, empty
from handoff.base.errors import Conflict
from handoff.board.sessions import host_leases, leases, pauses, sessions
from handoff.board.sessions.leases import ClaimLimits
from handoff.board.sessions.sessions import SessionIdentity
from handoff.board.tasks import batches, outcomes, tasks
from handoff.board.tasks.batches import SubTask
from handoff.store.server import call_statement, load_functions

MOMENTS = (
    "seq", "at", "created_at", "changed_at", "started_at", "ended_at", "seen_at", "held_since", "lease_until", "busy_seconds",
    "due_at", "joined_at", "until",
)  # fmt: skip


class StepByStep:
    """A database that makes no journey shorter."""

    def __init__(self, database):
        self.transaction, self.settled = database.transaction, database.settled

    def at_once(self, name, values, **scopes):
        """Never."""


class PlainConnection:
    """A connection without settings, as a pooler hands it out."""

    def __init__(self, connection, known):
        self.connection, self.known = connection, known

    def at_once(self, name, values, scopes=()):
        assert not scopes
        said = {**values(), "numbers": "{}", "whole": "{}", "shift": 0.0}
        return self.connection.execute(call_statement(self.known[name], "handoff"), said).fetchall()

    def rows_read(self):
        """Of tasks, in this transaction."""
        words = "SELECT seq_tup_read + idx_tup_fetch AS count FROM pg_stat_xact_user_tables WHERE relname = 'task'"
        return self.connection.execute(words).fetchone()["count"]


@pytest.fixture
def server(postgres_server):
    found = Place("postgres", postgres_server.url)
    yield found
    found.close()


def _journey(store, limits):
    """Claims of every kind of session, within limits and at them; signs of life; ends that are plain and ends that reach far."""
    parts = [SubTask(name, "x") for name in ("one", "two")]
    batches.open_batch(store, project="shop", id="split", sub_tasks=parts, fan_in=SubTask("join", "x"))
    tasks.add(store, project="shop", id="first", brief="x", agent="codex", priority=5)
    tasks.add(store, project="shop", id="then", brief="x", after=["first"])
    tasks.add(store, project="shop", id="spare", brief="x", priority=-1)
    for _ in range(2):
        again = tasks.add(store, project="shop", id="again", brief="x", session="s1", gated=True, owns=["a.py"])
        outcomes.cancel(store, key=again.key)
    sessions.register(store, who=SessionIdentity("known", project="desk", host="here"))
    if limits.agent:
        _hold(store, until=2.0)
    asked = (
        SessionIdentity("agent-1", kind="agent", agent="codex", host="here", workspace="/w", pid=7, boot="b"),
        SessionIdentity("known", project="desk", host="here"),
        SessionIdentity("too-many", host="here"),
        SessionIdentity("there", host="there", agent="claude"),
    )
    claims = [leases.claim_next(store, who=who, limits=limits) for who in asked]
    again = leases.claim_next(store, who=asked[0], limits=limits)
    held = [claim for claim in claims if claim]
    for claim in held:
        leases.heartbeat(store, key=claim.task.key, fence=claim.fence, lease_seconds=77)
    beats = [(claim.task.key, claim.fence) for claim in held]
    renewed = host_leases.renew(store, host="here", beats=beats)
    looks = [leases.has_next(store, who=SessionIdentity("new", host=host), limits=limits) for host in ("here", "else")]
    ended = [
        outcomes.finish(
            store, key=claim.task.key, fence=claim.fence, summary=f"by {claim.session.id}", evidence={"a": 1}
        )
        for claim in held
    ]
    repeated = outcomes.finish(store, key=held[0].task.key, fence=held[0].fence)
    told = [
        (claim.task.id, claim.fence, claim.lease_seconds, claim.session.project, claim.session.agent) for claim in held
    ]
    woken = [[task.id for task in outcome.woken] for outcome in ended]
    return told, renewed, looks, again.repeated, woken, [bool(outcome.fan_in) for outcome in ended], repeated.repeated


def _hold(store, *, until):
    """The agent codex was refused here until then."""
    with store.transaction() as transaction:
        hold = {"kind": "agent", "name": "codex", "host": "here", "reason": "r", "fix": "f", "session": "", "tries": 1}
        transaction.execute("put_hold", **hold, now=1.0, until=until)


def _rows(database):
    found = {}
    with database.transaction(write=False) as look:
        for table in ("task", "session", "event", "batch", "need", "hold"):
            rows = look.driver.execute(f"SELECT * FROM {table} ORDER BY 1".encode()).fetchall()
            found[table] = [{name: value for name, value in row.items() if name not in MOMENTS} for row in rows]
    return found


@pytest.mark.parametrize("limits", [ClaimLimits(2, 5, 5), ClaimLimits(2)], ids=["every limit", "plain"])
def test_a_verb_in_one_call_leaves_the_rows_of_its_statements(server, limits):
    results, rows = [], []
    for whole in (True, False):
        empty(server.url)
        database = server.open()
        results.append(_journey(database if whole else StepByStep(database), limits))
        rows.append(_rows(database))
    assert results[0] == results[1]
    assert len(results[0][1]) == 2, "two of the three are of this host"
    assert results[0][2] == [False, True], "here the limit is reached"
    assert results[0][0][0] == ("first", 1, leases.LEASE_SECONDS, "shop", "codex")
    for table, made in rows[0].items():
        assert made == rows[1][table], table


def test_what_is_not_plain_is_left_to_the_board_and_nothing_is_changed(server):
    empty(server.url)
    database = server.open()
    task = tasks.add(database, project="shop", id="first", brief="x")
    tasks.add(database, project="shop", id="then", brief="x", after=["first"])
    claim = leases.claim(database, key=task.key, who=SessionIdentity("one"))
    said = {"key": task.key, "result": "", "evidence": "{}", "session": "", "body": "{}"}
    before = _rows(database)
    assert database.at_once("finish_at_once", lambda: {**said, "fence": claim.fence}) is None, "somebody waits for it"
    assert database.at_once("finish_at_once", lambda: {**said, "fence": claim.fence + 1}) is None, (
        "it is somebody else's"
    )
    with pytest.raises(Conflict, match="is still running"):
        tasks.add(database, project="shop", id="first", brief="x")
    assert database.at_once("renew_at_once", lambda: {"key": task.key, "fence": 9, "lease_seconds": 0.0}) == []
    assert _rows(database) == before
    with pytest.raises(Conflict):
        outcomes.finish(database, key=task.key, fence=claim.fence + 1)
    assert [one.id for one in outcomes.finish(database, key=task.key, fence=claim.fence).woken] == ["then"]


def test_what_is_rare_keeps_a_task_from_a_claim_in_one_call(server):
    empty(server.url)
    database = server.open()
    for name in ("first", "second", "third"):
        tasks.add(database, project="shop", id=name, brief="x")
    who = SessionIdentity("codex-1", kind="agent", agent="codex", host="here")

    def found(who=who, limits=None, project=""):
        """By a look and by a claim, in one call each; what was claimed is given back."""
        asked = leases.wishes_of(who, project=project, role="", limits=limits)
        seen = leases.has_next(database, who=who, project=project, limits=limits)
        taken = leases.claim_at_once(database, who=who, asked=asked, lease_seconds=9.0, scopes=())
        for claim in taken or ():
            leases.release(database, key=claim.task.key, fence=claim.fence)
        assert taken is not None
        assert bool(taken) is seen
        return seen

    assert found()
    pauses.pause(database, scope=pauses.PROJECT, project="shop", reason="wait")
    assert not found(), "its project is stopped"
    pauses.resume(database, scope=pauses.PROJECT, project="shop")
    _hold(database, until=9e9)
    assert not found(), "its agent was refused here"
    assert found(who._replace(id="codex-2", host="there"))
    holder = SessionIdentity("holder", agent="claude", host="there")
    assert leases.claim_next(database, who=holder)
    assert not found(holder), "it holds one already"
    other = holder._replace(id="other")
    assert not found(other, ClaimLimits(project=1)), "its project is at its limit"
    assert not found(other, ClaimLimits(agent=1)), "its agent is at its limit"
    assert not found(other, ClaimLimits(machine=1)), "its machine is at its limit"
    assert found(other, ClaimLimits(2, 2, 2))


def test_a_claim_on_a_young_database_reads_few_rows_whatever_the_connection_says(server):
    """As behind a pooler: nobody has counted the rows yet, and the connection has no settings of ours."""
    empty(server.url)
    database = server.open()
    parts = [SubTask(f"part-{number}", "x") for number in range(3000)]
    batches.open_batch(database, project="shop", id="large", sub_tasks=parts, fan_in=SubTask("join", "x"))
    who, limits = SessionIdentity("new", host="here", agent="codex", kind="agent"), ClaimLimits(2)
    asked = leases.wishes_of(who, project="", role="", limits=limits)
    with psycopg.connect(server.url, row_factory=dict_row) as connection:
        plain = PlainConnection(connection, load_functions(database._version))
        assert leases.has_next(plain, who=who, limits=limits)
        assert plain.rows_read() < 10
        claims = leases.claim_at_once(plain, who=who, asked=asked, lease_seconds=9.0, scopes=())
        assert plain.rows_read() < 20
        beats = [(claim.task.key, claim.fence) for claim in claims]
        assert host_leases.renew(plain, host="here", beats=beats) == {claims[0].task.key}
        assert plain.rows_read() < 30


def test_only_the_functions_of_this_schema_are_there(server):
    empty(server.url)
    database = server.open()
    names = {function.name for function in load_functions(database._version).values()}
    with database.transaction() as transaction:
        made = transaction.driver.execute(
            "SELECT proname AS name FROM pg_proc WHERE pronamespace = 'handoff'::regnamespace"
        ).fetchall()
    assert {row["name"] for row in made} == names

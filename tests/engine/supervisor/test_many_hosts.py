"""One database, many hosts: what a host asks for, when it is woken, and how many connections it holds, whatever runs on it."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest

from databases import MovableClock
from handoff.agents import catalog
from handoff.agents.contract import SessionLimits
from handoff.agents.session import AgentSession, SupervisionRules
from handoff.base.settings import from_environment
from handoff.board.sessions import host_leases, leases
from handoff.board.sessions.sessions import SessionIdentity
from handoff.board.tasks import tasks
from handoff.engine.app import App
from handoff.engine.place.fanout import files
from handoff.engine.place.running import HostWatch, SessionWatch
from handoff.engine.supervisor.durable import Durable
from handoff.engine.supervisor.runs import PhaseStarts
from handoff.engine.supervisor.supervisor import Supervisor
from handoff.engine.work.workers import WorkerSettings

on_postgres = pytest.mark.parametrize("place", ["postgres"], indirect=True)
COUNTED = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'handoff%'"


@pytest.mark.slow
@on_postgres
def test_a_host_with_eight_sessions_holds_three_connections_and_an_idle_one_two(ground):
    ground.settings("lease_seconds = 4\nstarts_per_minute = 100\n")
    names = [f"task-{number}" for number in range(8)]
    for name in names:
        ground.add(name, {"sleep": 2})
    with psycopg.connect(ground.app.database_url, autocommit=True) as raw:
        own = set(raw.execute(COUNTED).fetchall())
        held: list[int] = []

        def look():
            held.append(len(set(raw.execute(COUNTED).fetchall()) - own))
            return ground.done()

        ground.supervisor(limit=8, reap=2.0, watchdog=10.0)
        ground.until(look, "all are done")
        assert max(held) <= 3
        ground.until(lambda: len(set(raw.execute(COUNTED).fetchall()) - own) <= 2, "it is idle")
        writers = raw.execute("SELECT DISTINCT xmin::text FROM handoff.event WHERE kind = 'task.claimed'").fetchall()
    claimed = [event for event in ground.events() if event.kind == "task.claimed"]
    assert len(claimed) == 8, "nobody was thought dead"
    assert len(writers) == 1, "eight places, one transaction"


@on_postgres
def test_a_host_is_woken_for_work_that_it_can_take_and_for_nothing_else(database, monkeypatch, tmp_path):
    monkeypatch.setenv("HANDOFF_DATABASE_URL", database._url)
    monkeypatch.setenv("HANDOFF_HOME", str(tmp_path / "home"))
    app = App(from_environment())
    engine = Durable.__new__(Durable)  # never launched: nothing is started here
    starts = PhaseStarts(app, WorkerSettings(("codex",), labels=("gpu",)), engine, limit=2, tell=lambda _: None)

    def was_woken(seconds):
        began = app.clock.monotonic()
        starts.wait(seconds, asking=True, leaving=threading.Event())
        return app.clock.monotonic() - began < seconds

    tasks.add(database, project="shop", id="for-another", brief="x", agent="aider")
    tasks.add(database, project="shop", id="elsewhere", brief="x", labels=["mac"])
    assert not was_woken(0.3), "two lines that are none of its business"
    tasks.add(database, project="shop", id="mine", brief="x", labels=["gpu"])
    assert was_woken(60)
    host_leases.claim(database, who=[SessionIdentity("s1", agent="codex", host="there", labels=("gpu",))])
    assert not was_woken(0.3), "another host has taken it"
    starts.bell.set()
    assert was_woken(60), "one of its own sessions has ended"
    assert not was_woken(0.3)
    app.close()


class Wire:
    """What a host asks of its server: the driver's own record of the protocol, on the one connection of this process."""

    def __init__(self, app, folder):
        self.app, self._said = app, folder / "protocol"
        leases.has_next(app.database, who=SessionIdentity("first"))  # the connection is open from now on

    def looks(self, act):
        """How often it looked for work meanwhile, and what came of it."""
        with self._said.open("w") as file:
            connection = self.app.database.connection
            connection.pgconn.trace(file.fileno())
            self.app.database.rollback()
            found = act()
            connection.pgconn.untrace()
        return self._said.read_text().count("codex"), found


@pytest.fixture
def wire(database, monkeypatch, tmp_path):
    monkeypatch.setenv("HANDOFF_DATABASE_URL", database._url)
    monkeypatch.setenv("HANDOFF_HOME", str(tmp_path / "home"))
    app = App(from_environment())
    yield Wire(app, tmp_path)
    app.close()


@on_postgres
def test_a_host_whose_places_are_taken_does_not_ask_for_more(database, wire):
    engine = Durable.__new__(Durable)  # never launched: nothing is started here
    starts = PhaseStarts(wire.app, WorkerSettings(("codex",)), engine, limit=2, tell=lambda _: None)

    def wait(seconds):
        return wire.looks(lambda: starts.wait(seconds, asking=True, leaving=threading.Event()))

    assert wait(0.4)[0] >= 3, "a free place: often at first, then more seldom"
    starts.begun("s1", "s2")
    assert wait(0.4) == (0, False), "every place is taken"
    starts.ended("s1")
    assert wait(60) == (0, True), "one of its own sessions has ended"
    starts.begun("s3")
    tasks.add(database, project="shop", id="mine", brief="x")
    assert wait(60) == (1, True), "it looks all the same: somebody else of this host may run what it asked for"


@on_postgres
def test_a_host_that_a_person_has_stopped_asks_seldom_and_goes_on_at_once(database, wire):
    tasks.add(database, project="shop", id="one", brief="x", agent="another")
    (Path(wire.app.settings.home) / "shop").mkdir(parents=True)
    supervisor = Supervisor(wire.app, WorkerSettings(("codex",)))  # never launched: there is nothing that it can start

    def wait(seconds):
        return wire.looks(lambda: supervisor._starts.wait(seconds, asking=True, leaving=threading.Event()))

    files.pause_with_file(wire.app, scope="all", project="", name="", reason="lunch", by="a person")
    supervisor.fill()
    assert wait(1.3) == (0, False), "a look every five seconds"
    files.resume_with_file(wire.app, scope="all", project="", name="")
    assert wire.looks(supervisor.fill) == (1, 0), "its file is gone: there may be something"
    assert wait(0.4)[0] >= 3


def test_whoever_looks_first_tells_the_signs_of_life_of_all_sessions_of_the_host(place, monkeypatch, tmp_path):
    monkeypatch.setenv("HANDOFF_DATABASE_URL", place.url)
    monkeypatch.setenv("HANDOFF_HOME", str(tmp_path / "home"))
    clock = MovableClock()
    app = App(from_environment(), clock)
    for name in ("first", "silent", "third", "lost"):
        tasks.add(app.database, project="shop", id=name, brief="x")
    host = app.settings.host
    crew = [SessionIdentity(f"session-{number}", kind="agent", host=host) for number in range(4)]
    claims = {claim.task.id: claim for claim in host_leases.claim(app.database, who=crew, lease_seconds=100)}
    together = HostWatch()
    adapter = catalog.adapter("scripted", commands={}, where="")
    sessions, watches = {}, {}
    for name, claim in claims.items():
        folder = tmp_path / name
        folder.mkdir()
        rules = SupervisionRules(SessionLimits(), 100.0, False)
        sessions[name] = AgentSession(str(folder), claim.session.id, adapter, adapter.abilities(""), rules, clock)
        watches[name] = SessionWatch(app, claim, sessions[name], together)

    def go_on(seconds, *active):
        clock.advance(seconds)
        app.database.shift += seconds if place.kind == "postgres" else 0.0
        for name in active:
            sessions[name].active_at = clock.monotonic()

    with ExitStack() as stack:
        for watch in watches.values():
            stack.enter_context(together.watching(watch))
        go_on(26, "first", "third", "lost")  # more than a quarter of the lease
        watches["first"]()
        live = {task.id: task for task in tasks.listing(app.database)}
        renewed = {name for name, task in live.items() if task.lease_until > claims[name].task.lease_until}
        assert renewed == {"first", "third", "lost"}, "one of them looked"
        assert leases.hand_back(app.database, task=live["lost"], reason="its process is gone")
        host_leases.claim(app.database, who=[SessionIdentity("another", host=host)])
        go_on(1)
        for watch in watches.values():
            watch()
    app.close()
    assert {name: session.stopped for name, session in sessions.items() if session.stopped} == {
        "lost": "the task was taken from this session"
    }

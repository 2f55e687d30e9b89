"""Work that recurs: each time once, whichever hosts look and whoever is killed meanwhile."""

from __future__ import annotations

import os
import random
import signal

import pytest

from handoff.base.clock import SystemClock
from handoff.base.errors import Conflict, UserError
from handoff.base.settings import from_environment
from handoff.board import schedules
from handoff.board.events import journal
from handoff.board.tasks import outcomes, states, tasks
from handoff.engine.app import App
from handoff.engine.app.home import find_project, settle
from handoff.engine.supervisor import schedules as journey
from handoff.engine.work.orders import BATCH, TASK, Order

MINUTE = "* * * * *"
HOST = """
import os, sys
from handoff.base.settings import from_environment
from handoff.engine.app import App
from handoff.engine.app.home import find_project, settle
from handoff.engine.supervisor import schedules
app = App(from_environment())
settle(app, find_project(app))
while True:
    with open(sys.argv[2]) as file:
        app.database.shift = float(file.read())
    for line in schedules.look(app):
        print(line, flush=True)
"""


class Hours:
    """Two hosts on one database, and its clock in the hands of the test."""

    def __init__(self, place, repo, tmp_path, monkeypatch) -> None:
        self.place, self.repo, self.folder = place, repo, tmp_path
        monkeypatch.setenv("HANDOFF_DATABASE_URL", place.url)
        monkeypatch.chdir(repo)
        self.apps = [self._app(name) for name in ("one", "two")]
        self.app = self.apps[0]
        self.store = self.app.database

    def _app(self, name: str) -> App:
        found = from_environment()
        variables = {**found.environment, **self.variables(name)}
        app = App(found._replace(environment=variables, home=variables["HANDOFF_HOME"]))
        settle(app, find_project(app))
        return app

    def variables(self, name: str) -> dict[str, str]:
        return {"HANDOFF_HOME": str(self.folder / name), "HANDOFF_HOST": name}

    def add(self, line: str = MINUTE, order: Order | None = None, **options):
        order = order or Order(kind=TASK, words="tidy up here")
        return journey.add(self.app, name="tidy", line=line, zone="UTC", order=order, by="me", **options)

    @property
    def one(self):
        return schedules.find(self.store, project="repo", name="tidy")

    def go_to(self, moment: float) -> None:
        with self.store.transaction(write=False) as transaction:
            shift = self.store.shift + moment - transaction.now()
        for app in self.apps:
            app.database.shift = shift

    def look(self) -> list[str]:
        """Both hosts look."""
        return [line for app in self.apps for line in journey.look(app)]

    def end(self, run) -> None:
        outcomes.cancel(self.store, key=run.work, reason="over")

    def kinds(self) -> list[str]:
        return [event.kind for event in journal.since(self.store) if event.kind.startswith("schedule.")]

    def close(self) -> None:
        for app in self.apps:
            app.close()


@pytest.fixture
def hours(place, repo, tmp_path, monkeypatch):
    """Until the test is over."""
    found = Hours(place, repo.path, tmp_path, monkeypatch)
    yield found
    found.close()


def test_what_is_due_is_made_once_and_a_long_sleep_is_caught_up_once(hours):
    first = hours.add()
    assert hours.look() == []
    hours.go_to(first.next_at + 1)
    assert [line.partition("-")[0] for line in hours.look()] == ["repo/tidy: made task tidy"]
    (run,) = schedules.runs(hours.store, hours.one)
    assert (run.due, run.state, hours.look()) == (first.next_at, "ready", [])
    assert tasks.get(hours.store, key=run.work).brief == "tidy up here"
    hours.end(run)
    hours.go_to(first.next_at + 7 * 3600)
    assert len(hours.look()) == 1
    assert hours.look() == []
    (last, _) = schedules.runs(hours.store, hours.one)
    assert last.due == first.next_at + 60
    (told,) = [event for event in journal.since(hours.store) if event.body.get("missed")]
    assert told.body["missed"] == 419


def test_a_time_that_comes_too_early_is_skipped_or_queued(hours):
    due = hours.add().next_at
    hours.go_to(due + 1)
    hours.look()
    hours.go_to(due + 61)
    assert "passed over" in "".join(hours.look())
    assert hours.kinds() == ["schedule.added", "schedule.ran", "schedule.skipped"]
    (run,) = schedules.runs(hours.store, hours.one)
    schedules.remove(hours.store, hours.one, by="me")
    hours.end(run)
    due = hours.add(overlap=schedules.QUEUE).next_at
    hours.go_to(due + 1)
    hours.look()
    hours.go_to(due + 200)
    assert hours.look() == []
    (run,) = schedules.runs(hours.store, hours.one)
    hours.end(run)
    assert len(hours.look()) == 1, "one for all that waited"
    assert len(schedules.runs(hours.store, hours.one)) == 2


def test_what_cannot_be_made_is_told_once_and_does_not_stop_the_next_time(hours):
    with pytest.raises(UserError, match=r"the manifest\.json"):
        hours.add(order=Order(kind=BATCH, manifest="{}"))
    due = hours.add(order=Order(kind=TASK, words="tidy up here", owns=("[",))).next_at
    hours.go_to(due + 1)
    assert ["not made" in line for line in hours.look()] == [True]
    assert hours.look() == []
    assert hours.one.trouble
    assert hours.one.next_at == due + 60


def test_a_person_has_it_made_now_and_pauses_it_and_nothing_is_caught_up_after_that(hours):
    one = hours.add("@daily")
    made = journey.run_now(hours.app, one)
    assert (made.kind, made.state, hours.one.next_at) == ("task", "ready", one.next_at)
    paused = schedules.switch(hours.store, one, state=schedules.PAUSED, by="me")
    hours.go_to(one.next_at + 3 * 86_400)
    assert hours.look() == []
    assert schedules.switch(hours.store, paused, state=schedules.ON, by="me").next_at == one.next_at + 4 * 86_400
    assert hours.look() == []


def test_only_the_newest_that_have_ended_are_kept(hours):
    due = hours.add(keep=2).next_at
    keys = []
    for number in range(5):
        hours.go_to(due + 60 * number + 1)
        hours.look()
        newest, *_ = schedules.runs(hours.store, hours.one)
        keys.append(newest.work)
        hours.end(newest)
    assert [run.work for run in schedules.runs(hours.store, hours.one)] == keys[:2:-1]
    assert [tasks.look_up(hours.store, key=key) is not None for key in keys] == [False] * 3 + [True] * 2


def test_who_comes_second_makes_nothing(hours):
    one = hours.add()
    hours.go_to(one.next_at + 1)
    journey.run(hours.apps[0], one, at=one.next_at)
    with pytest.raises(Conflict):
        journey.run(hours.apps[1], one, at=one.next_at)
    assert len(tasks.listing(hours.store, project="repo", include_ended=True)) == 1


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_an_hour_of_minutes_with_two_hosts_and_ten_kills_makes_each_once_and_one_after_a_sleep(hours):
    begin, chance, clock = hours.add(keep=100).next_at, random.Random(7), SystemClock()
    path = hours.folder / "shift"

    def told(moment: float) -> None:
        hours.go_to(moment)
        fresh = f"{path}.new"
        with open(fresh, "w", encoding="ascii") as file:
            file.write(repr(hours.store.shift))
        os.rename(fresh, path)

    def start(name: str):
        return hours.place.start(HOST, str(path), env={**os.environ, **hours.variables(name)}, cwd=hours.repo)

    def wait_for(due: float, moment: float) -> None:
        """Made for that moment; the clock creeps on meanwhile, because the dead are waited for by it."""
        for step in range(4000):
            newest = next(iter(schedules.runs(hours.store, hours.one, limit=1)), None)
            if newest and newest.due == due:
                hours.end(newest)
                return
            told(moment + min(55.0, step * 0.25))
            clock.sleep(0.02)
            for name, process in workers.items():
                assert process.poll() is None, (name, process.communicate())
        raise AssertionError("it was not made")

    told(begin - 30)
    workers = {name: start(name) for name in ("one", "two")}
    kills = set(chance.sample(range(60), 10))
    for minute in range(60):
        due = begin + 60 * minute
        told(due + 1)
        if minute in kills:
            name = chance.choice(["one", "two"])
            clock.sleep(chance.random() * 0.1)
            workers[name].send_signal(signal.SIGKILL)
            workers[name].communicate()
            workers[name] = start(name)
        wait_for(due, due + 1)
    night = begin + 60 * 59 + 8 * 3600
    told(night)
    wait_for(begin + 3600, night)
    for process in workers.values():
        process.send_signal(signal.SIGKILL)
        process.communicate()
    runs = schedules.runs(hours.store, hours.one)
    assert [run.due for run in reversed(runs)] == [begin + 60 * number for number in range(61)]
    found = tasks.listing(hours.store, project="repo", include_ended=True)
    assert len({task.id for task in found}) == len(found) == 61
    assert all(task.state == states.CANCELLED for task in found)
    assert hours.kinds() == ["schedule.added", *["schedule.ran"] * 61]


def test_a_supervisor_makes_what_is_due_by_itself(ground, monkeypatch):
    monkeypatch.chdir(ground.repo)
    ground.app.database.shift = -3600.0
    order = Order(kind=TASK, words="tidy up here", check="true")
    made = journey.add(ground.app, name="tidy", line="@hourly", zone="UTC", order=order, by="me")
    ground.app.database.shift = 0.0
    ground.supervisor()
    ground.until(lambda: schedules.runs(ground.app.database, made), "it is made")

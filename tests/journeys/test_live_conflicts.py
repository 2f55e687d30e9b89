"""While sessions run, what git could not join is told to them and to the person: once, and again when it is gone."""

from __future__ import annotations

import os

import pytest

from handoff.board.events import journal
from handoff.board.sessions import sessions
from handoff.board.tasks import tasks
from handoff.engine.app.home import home_config
from handoff.engine.place import task_clones
from handoff.engine.place.landing.members import member_of
from handoff.engine.session import current, placement, report
from handoff.engine.supervisor.news import News
from handoff.engine.work.tasks.splitting.live import LiveWatch
from relay import app

FILE = "shop.py"
BASE = "def total(items):\n    return sum(items)\n"


class Running:
    """Tasks whose sessions work in clones of their own, as a supervisor places them."""

    def __init__(self, cli, repo):
        self.cli, self.repo, self.app = cli, repo, app()
        self.claims = {}

    def start(self, task):
        """The tree that a session of the task works in."""
        who = sessions.SessionIdentity(
            id=f"s-{task}", kind=sessions.AGENT, project="repo", workspace=self.repo.path, host=self.app.settings.host
        )
        config = home_config(self.app)
        found = tasks.find(self.app.database, project="repo", id=task)
        self.claims[task] = claim = report.claim_as(self.app, config, who, task=found)
        return placement.place(self.app, config, task=claim.task, session=who.id, sandbox=placement.NONE).folder

    def told(self, task):
        events = journal.of_task(self.app.database, key=self.claims[task].task.key)
        return [
            (one.kind, one.body["path"], one.body["other"])
            for one in events
            if one.kind.startswith(("conflict.", "doubt."))
        ]

    def hears(self, task):
        """What a session reads with the answer to any call of its own."""
        own, claim = app(), self.claims[task]
        current.find(own, task=task, project="repo", session=claim.session.id, fence=claim.fence)
        return own.notes


def _write(tree, text, name=FILE):
    with open(os.path.join(tree, name), "w", encoding="utf-8") as file:
        file.write(text)


@pytest.fixture
def work(cli, repo):
    repo.write(FILE, BASE)
    repo.commit("shop")
    for task in ("one", "two"):
        cli("task", "add", task, f"Do {task}.")
    return Running(cli, repo)


def test_both_sessions_and_the_person_are_told_once_and_when_it_is_gone(work):
    trees = [work.start("one"), work.start("two")]
    watch, news = LiveWatch(work.app), News(work.app, project="repo")
    _write(trees[0], BASE.replace("sum(items)", "sum(items) * 0.9"))
    assert watch.look() == []
    _write(trees[1], BASE.replace("sum(items)", "round(sum(items), 2)"))
    assert len(watch.look()) == 1
    assert work.told("one") == [], "half-written work conflicts by chance: it must stand"
    made = watch.merges
    for _ in range(3):
        watch.look()
    assert watch.merges == made, "nothing is merged again while nothing changes"
    assert work.told("one") == [("conflict.seen", FILE, "two")]
    assert work.told("two") == [("conflict.seen", FILE, "one")]
    assert f"repo/one: conflict with two in {FILE}" in news.lines()
    needed = work.cli("--json").json["needs_you"]
    assert [(one["address"], one["state"]) for one in needed] == [("one and two", "conflict")]
    assert f"git cannot join {FILE}" in work.cli("status").out
    (heard,) = work.hears("two")
    assert heard.startswith(f"{FILE}: 'one' has changed the same lines meanwhile")
    assert work.hears("two") == [], "it is told once"
    assert LiveWatch(work.app).look(), "the next supervisor finds it told"
    LiveWatch(work.app).look()
    assert len(work.told("one")) == 1
    _write(trees[1], BASE)
    watch.look()
    assert work.told("two")[-1] == ("conflict.gone", FILE, "one")
    assert work.cli("--json").json["needs_you"] == []
    assert "joins again" in work.hears("two")[0]
    assert work.hears("one") == [], "what came and went unheard is nobody's concern"


def test_a_line_that_the_person_has_committed_meanwhile_is_told_to_the_session_that_changes_it(work):
    tree = work.start("one")
    _write(tree, BASE.replace("sum(items)", "sum(items) * 0.9"))
    work.repo.write(FILE, BASE.replace("sum(items)", "sum(map(int, items))"))
    work.repo.commit("Numbers")
    watch = LiveWatch(work.app)
    for _ in range(3):
        watch.look()
    assert work.told("one") == [("conflict.seen", FILE, "")]
    assert "the branch your work is for has changed the same lines" in work.hears("one")[0]
    assert work.cli("log", "one").out.count("  conflict  ") == 1


def test_what_joins_cleanly_and_may_be_wrong_is_told_to_the_sessions_while_they_run(work):
    trees = [work.start("one"), work.start("two")]
    watch, gone = LiveWatch(work.app), f"total() is gone from {FILE}, and new lines here use it"
    _write(trees[0], BASE.replace("def total", "def whole"))
    _write(trees[1], "from shop import total\n\nprint(total([1]))\n", "cart.py")
    watch.look()
    assert [work.told("one"), work.told("two")] == [[], []], "half-written work is wrong by chance: it must stand"
    watch.look()
    made = watch.merges
    LiveWatch(work.app).look()
    watch.look()
    assert watch.merges == made, "nothing is looked at again while nothing changes"
    assert work.told("one") == [("doubt.seen", "cart.py", "two")]
    (heard,) = work.hears("two")
    assert heard.startswith(f"cart.py: {gone}. Your work and 'one' join cleanly")
    assert work.hears("two") == [], "it is told once"
    assert work.cli("--json").json["needs_you"] == [], "no question for a person"
    _write(trees[0], BASE)
    watch.look()
    assert "it is no longer so" in work.hears("two")[0]
    work.repo.write(FILE, BASE.replace("def total", "def whole"))
    work.repo.commit("Another word")
    for _ in range(2):
        watch.look()
    assert work.told("two")[-1] == ("doubt.seen", "cart.py", "")
    assert "Your work and the branch your work is for" in work.hears("two")[0]


def test_what_a_tidy_up_took_away_of_a_clone_that_stays_as_it_is_is_made_again(work):
    tree = work.start("one")
    _write(tree, BASE.replace("sum(items)", "sum(items) * 0.9"))
    store = task_clones.snapshot_store_of_project(work.app, work.claims["one"].task)
    clone = task_clones.of_task(work.app, work.claims["one"].task)
    first = member_of(work.app, snapshot_store=store, workspace=clone)
    os.unlink(os.path.join(store.store.objects, first.commit[:2], first.commit[2:]))
    again = member_of(work.app, snapshot_store=store, workspace=clone)
    assert again == first
    assert store.store.has_loose(again.commit)

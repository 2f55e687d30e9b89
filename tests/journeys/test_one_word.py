"""Every surface has one word for how a task stands, and it is the word of the rows and of the processes."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess

import pytest

from handoff.base.process import start_of
from handoff.board.sessions import holds, pauses, sessions
from handoff.board.sessions.leases import claim
from handoff.board.sessions.sessions import AGENT, SessionIdentity
from handoff.board.tasks import batches, outcomes, tasks
from handoff.board.tasks.batches import SubTask
from handoff.engine.place import running
from handoff.engine.work.overview import OverviewFeed
from handoff.surfaces.api.calls import ApiRequest, get_batch, get_task, list_tasks
from handoff.surfaces.cli.commands.board.state import BoardState
from handoff.surfaces.page.task_pages import read_task
from handoff.surfaces.page.work_pages import read_batch, read_board
from handoff.surfaces.vocabulary import LOOKS
from relay import app

NOBODY = 2**22 + 1
"""A process that no machine has: above the highest number of one."""


class Desk:
    """A board with tasks in every state; what its sessions' processes are is this test's to say."""

    def __init__(self, repo) -> None:
        self.app, self.repo, self.agents = app(), repo, []
        self.looks: dict[str, str] = {}

    def add(self, name: str, look: str, **more) -> tasks.Task:
        self.looks[name] = look
        return tasks.add(self.app.database, project="repo", id=name, brief="Work.", **more)

    def take(self, name: str, look: str, **who):
        return claim(self.app.database, key=self.add(name, look).key, who=SessionIdentity(name, project="repo", **who))

    def begin(self, name: str, look: str, *, pid: int = 0, watched: bool = True):
        """A session of handoff: its process is a real one, or one that is over."""
        task = self.take(name, look, kind=AGENT, agent="claude", host=self.app.settings.host)
        place = os.path.join(self.app.settings.home, "repo", "sessions", name)
        os.makedirs(place)
        facts = {"pid": pid or NOBODY, "start": start_of(pid) if pid else "1"}
        for file, value in (("session.json", {"kind": "clone"}), ("monitor.json", facts)):
            with open(os.path.join(place, file), "w", encoding="utf-8") as stream:
                json.dump(value, stream)
        running.leave(self.app, task, place, supervised=not watched)

    def process(self) -> int:
        self.agents.append(subprocess.Popen(["sleep", "1000"], stdin=subprocess.DEVNULL))
        return self.agents[-1].pid

    def done(self, name: str, look: str, **evidence) -> None:
        claimed = self.take(name, look)
        outcomes.finish(self.app.database, key=claimed.task.key, fence=claimed.fence, evidence=evidence)

    def close(self) -> None:
        for one in self.agents:
            one.kill()
            one.wait()
        self.app.close()


@pytest.fixture
def desk(repo, cli):
    cli("task", "add", "ready", "Work.")
    made = Desk(repo)
    made.looks["ready"] = "ready"
    store = made.app.database
    made.add("waiting", "waiting", after=["ready"])
    made.add("paused", "paused")
    pauses.pause(store, scope=pauses.TASK, project="repo", name="paused")
    held = made.add("held", "held")
    with store.transaction() as rows:
        holds.hold_for_person(rows, held, reason="no key", fix="set KEY, then handoff retry held")
    made.begin("running", "running", pid=made.process())
    made.begin("concluding", "ended")
    made.begin("left", "ended", watched=False)
    made.take("unborn", "ended", kind=AGENT, agent="claude", host=made.app.settings.host, pid=NOBODY, process_start="1")
    made.take("tab", "running")
    made.take("gone-quiet", "quiet")
    with sqlite3.connect(os.path.join(made.app.settings.home, "handoff.db")) as rows:
        moved = "seen_at = changed_at - lease_seconds * 0.7, changed_at = changed_at - lease_seconds * 0.7"
        rows.execute(f"UPDATE task SET {moved} WHERE id = 'gone-quiet'")
    rows.close()
    made.take("gated", "gated")
    cli("task", "ask", "Which one?", "--session", "gated", "--fence", "1")
    blocked = made.take("blocked", "blocked")
    outcomes.block(store, key=blocked.task.key, fence=blocked.fence, reason="red")
    made.done("done", "done")
    made.done("green", "green", commit="1" * 40)
    made.done("landed", "landed", commit="1" * 40, landed="2" * 40)
    made.done("taken-back", "undone", commit="1" * 40, landing_undone="2" * 40)
    made.add("cancelled", "cancelled")
    outcomes.cancel(store, key=tasks.find(store, project="repo", id="cancelled").key)
    parts = [SubTask(name, f"Build {name}.", owns=(f"{name}/**",)) for name in ("api", "ui")]
    batches.open_batch(store, project="repo", id="big", sub_tasks=parts, fan_in=SubTask("big-join", "Join."))
    part = claim(
        store, key=tasks.find(store, project="repo", id="big/api").key, who=SessionIdentity("part", project="repo")
    )
    outcomes.finish(store, key=part.task.key, fence=part.fence, evidence={"commit": "1" * 40})
    made.looks |= {"big/api": "green", "big/ui": "ready", "big-join": "waiting"}
    yield made
    made.close()


def _by_cli(cli) -> dict[str, dict[str, str]]:
    listed = {one["task"]: one["look"] for one in cli("task", "list", "--all", "--json").json["tasks"]}
    words = {line.split()[0]: line for line in cli("task", "list", "--all").out.splitlines()}
    missing = {name: words[name] for name, look in listed.items() if f" {LOOKS[look].word} " not in f"{words[name]} "}
    assert not missing, "the list for people has another word"
    found = cli("--json").json
    word = {LOOKS[look].word: look for look in LOOKS}
    told = {
        one["address"]: word[one["state"]]
        for part in ("needs_you", "running", "coming")
        for one in found[part]
        if "handoff resume" not in one["command"]
    }
    return {
        "task list": listed,
        "handoff": told,
        "show": {name: cli("show", name, "--json").json["look"] for name in listed},
    }


def _by_api(app) -> dict[str, dict[str, str]]:
    asked = ApiRequest(app, {}, {"include_ended": "true"}, "repo")
    listed = {one["task"]: one["look"] for one in list_tasks(asked)["items"]}
    keys = {task.label: task.key for task in tasks.listing(app.database, project="repo", include_ended=True)}
    one = {name: get_task(ApiRequest(app, {"key": key}, {}, "repo"))["look"] for name, key in keys.items()}
    (batch,) = batches.listing(app.database, project="repo")
    parts = {one["task"]: one["look"] for one in get_batch(ApiRequest(app, {"key": batch.key}, {}, "repo"))["parts"]}
    return {"API, list": listed, "API, one": one, "API, batch": parts}


def _by_page(app, names) -> dict[str, dict[str, str]]:
    columns = read_board(app, project="repo", words="", state="", span="day").columns
    lines = {line.label: line.item.look for column in columns for line in column.lines if line.item.key}
    pages = {name: read_task(app, project="repo", label=name).look for name in names}
    return {
        "page, board": lines,
        "page, task": pages,
        "page, batch": read_batch(app, project="repo", name="big").looks,
    }


def _by_board(app) -> dict[str, dict[str, str]]:
    state = BoardState(OverviewFeed(app, project="repo", since=0.0))
    return {"board": {item.address: item.look for row in state.rows for item in row.items if item.key}}


def test_every_surface_has_the_word_of_the_rows_and_of_the_processes_in_every_state(desk, cli, monkeypatch):
    monkeypatch.chdir(desk.repo.path)

    def shown() -> dict[str, dict[str, str]]:
        return {
            **_by_cli(cli), **_by_api(desk.app), **_by_page(desk.app, desk.looks), **_by_board(desk.app),
        }  # fmt: skip

    told = shown()
    for surface, looks in told.items():
        assert looks == {name: look for name, look in desk.looks.items() if name in looks}, surface
    live = {name for name, look in desk.looks.items() if look not in ("landed", "green", "done", "undone", "cancelled")}
    whole = set(desk.looks)
    assert set(told["task list"]) == set(told["show"]) == set(told["API, list"]) == set(told["page, task"]) == whole
    assert live <= set(told["handoff"])
    assert set(told["board"]) == set(told["page, board"]) == whole - {"cancelled"}
    alive = {one["id"]: one["alive"] for one in cli("session", "list", "--json").json}
    assert [alive[name] for name in ("running", "concluding", "left", "unborn", "tab")] == [
        True,
        False,
        False,
        False,
        True,
    ]

    desk.agents[0].kill()
    desk.agents[0].wait()
    for surface, looks in shown().items():
        assert looks.get("running", "ended") == "ended", f"{surface} calls it running, and its process is gone"
    assert sessions.get(desk.app.database, id="running").ended_at is None, "nobody has concluded it yet"

"""kill -9 at the system and database calls of a command: no task lost, no completion lost, no second fan-in.

A stride of 1 walks through every call; the strides here keep the suite short and still meet each kind of call.
"""

from __future__ import annotations

import itertools
import os

import pytest

from handoff.base.errors import UserError
from handoff.board.events import journal
from handoff.board.tasks import batches, tasks
from handoff.engine.place.fanout import views
from relay import Killer, app, here, manifest

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _in_repo(repo, monkeypatch):
    monkeypatch.chdir(repo.path)
    assert here("dump", "--task", "first", "--next", "The database is there.") == 0


def queue(name):
    return os.path.join(os.environ["HANDOFF_HOME"], "repo", "queue", name)


@pytest.fixture
def killed_at(repo):
    killer = Killer(repo.path)
    yield killer
    killer.close()


def find(name):
    try:
        return tasks.find(app().database, project="repo", id=name)
    except UserError:
        return None


def test_a_killed_dump_has_written_the_whole_task_or_none(killed_at):
    for point in itertools.count(0, 2):
        name = f"task-{point}"
        killed = killed_at(point, "dump", "--task", name, "--next", "Do it.", "--owns", "src/")
        there = find(name)
        assert there is not None or killed
        assert here("dump", "--task", name, "--next", "Do it.", "--owns", "src/") == (4 if there else 0)
        views.refresh(app(), "repo")
        for ending in (".md", ".uri"):
            assert os.path.getsize(queue(name + ending)) > 0
        if not killed:
            break
    assert point > 20


def test_a_killed_claim_is_taken_up_by_the_next_one(killed_at):
    for point in itertools.count(0, 3):
        name = f"task-{point}"
        here("dump", "--task", name, "--next", "Do it.")
        killed = killed_at(point, "task", "claim", name)
        if not killed:
            break
        if not _local_claim(name):
            assert here("task", "claim", name) == 0
        assert here("task", "done", "--task", name) == 0
        assert find(name).state == "done"
        assert find(name).attempt == 1
    assert point > 20


def _local_claim(name):
    folder = os.path.join(os.environ["HANDOFF_HOME"], "sessions")
    for entry in os.listdir(folder) if os.path.isdir(folder) else ():
        if not entry.endswith(".session"):  # what a killed write left behind is no ticket
            continue
        with open(os.path.join(folder, entry), encoding="utf-8") as file:
            if f"task={name}\n" in file.read():
                return True
    return False


def test_a_killed_report_is_finished_by_its_repetition(killed_at):
    for point in itertools.count(0, 5):
        name = f"task-{point}"
        here("dump", "--task", name, "--next", "Do it.", "--check", "true")
        here("task", "claim", name)
        killed = killed_at(point, "task", "done", "--task", name)
        assert find(name).state in ("running", "done")
        assert here("task", "done", "--task", name) == 0
        assert find(name).state == "done"
        assert os.path.getsize(queue(name + ".done")) > 0
        assert not os.path.exists(queue(name + ".uri"))
        if not killed:
            break
    assert point > 20


def test_a_killed_report_of_the_last_part_opens_the_fan_in_once(killed_at, tmp_path):
    for point in itertools.count(0, 11):
        batch = f"batch-{point}"
        here("dump", "--open-batch", manifest(tmp_path / "m.json", batch=batch, parts=(f"a-{point}", f"b-{point}")))
        here("dump", "--task", f"a-{point}-done", "--batch-id", batch, "--batch-done")
        words = ("dump", "--task", f"b-{point}-done", "--batch-id", batch, "--batch-done", "--next", "x")
        killed = killed_at(point, *words)
        assert here(*words) == 0
        found = batches.find(app().database, project="repo", id=batch)
        assert (found.remaining, found.state) == (0, "joining")
        joined = [
            e for e in journal.last(app().database, limit=10_000) if e.kind == "batch.joined" and e.batch == found.key
        ]
        assert len(joined) == 1
        assert os.path.getsize(queue(f"{batch}-join.uri")) > 0
        here("cancel", batch)
        if not killed:
            break
    assert point > 20


def test_a_killed_opening_has_written_the_whole_batch_or_none(killed_at, tmp_path):
    for point in itertools.count(0, 11):
        batch = f"batch-{point}"
        path = manifest(tmp_path / "m.json", batch=batch, parts=(f"a-{point}", f"b-{point}", f"c-{point}"))
        killed = killed_at(point, "dump", "--open-batch", path)
        written = [task for task in tasks.listing(app().database, project="repo") if task.id.endswith(f"-{point}")]
        assert len(written) in (0, 3)
        assert here("dump", "--open-batch", path) == (4 if written else 0)
        views.refresh(app(), "repo")
        for part in "abc":
            assert os.path.getsize(queue(f"{part}-{point}.uri")) > 0
        here("cancel", batch)
        if not killed:
            break
    assert point > 20

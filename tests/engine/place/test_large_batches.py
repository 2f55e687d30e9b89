"""What one part of a batch costs does not grow with the parts that rest: counted, not timed."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections import Counter
from contextlib import contextmanager

import pytest

from handoff.base.files import FileMemory
from handoff.base.record import Record
from handoff.board.tasks import batches, states, tasks
from handoff.board.tasks.batches import SubTask
from handoff.engine.app.home import find_project
from handoff.engine.place import task_clones, task_work, workspaces
from handoff.engine.safety import incidents
from handoff.engine.work.tasks.splitting import planner, report
from handoff.git.workspaces import WorkspaceRequest
from relay import app, manifest

_DEAR = ("open", "execute", "posix_spawnp")
_GRAIN = 0.15  # files that were written a moment ago are read again


@contextmanager
def counted():
    """How often files are opened, rows asked for and programs started, and how many tasks are read."""
    found = Counter()

    def watch(frame, event, function):
        if event == "c_call" and function.__name__ in _DEAR:
            found[function.__name__] += 1
        elif event == "call" and frame.f_code is Record.__new__.__code__ and frame.f_locals["cls"] is tasks.Task:
            found["tasks"] += 1

    sys.setprofile(watch)
    try:
        yield found
    finally:
        sys.setprofile(None)


def look():
    with counted() as found:
        incidents.look(app())
    return found


@pytest.fixture
def resting(repo, monkeypatch):
    """Makes clones whose sessions are over, each with its branch in the repository, as finished parts have them."""
    monkeypatch.chdir(repo.path)

    def make(first, last):
        for number in range(first, last):
            order = WorkspaceRequest(f"part-{number}", owns=("src/**",), session=f"session-{number}")
            workspaces.add_workspace(app(), order=order)
            made = repo.git("commit-tree", "-p", "HEAD", "-m", f"part {number}", "HEAD^{tree}").strip()
            repo.git("update-ref", "-m", "kept", f"refs/heads/handoff/part-{number}", made)
        time.sleep(_GRAIN)
        look()  # what is new is taken up
        return look()

    return make


def test_a_look_costs_the_same_however_many_clones_rest(resting, repo):
    few = resting(0, 2)
    assert few["open"]
    assert resting(2, 5) == few
    repo.git("tag", "mark")
    assert look()["posix_spawnp"] < 10  # it was kept, and what was kept before was not asked for again
    assert resting(5, 5) == few


def test_what_happens_to_those_that_rest_is_seen(resting, repo):
    resting(0, 2)
    clone = workspaces.workspace_of(app(), name="part-1")
    with open(os.path.join(clone.tree, ".git", "handoff-refused"), "a", encoding="utf-8") as file:
        file.write(f"2026-11-15T08:30:00Z\tsub-task\tgit push\t{clone.tree}\tland it\n")
    branch = os.path.join(repo.path, ".git", "refs", "heads", "handoff", "part-0")
    with open(branch, "r+", encoding="ascii") as file:  # in place: its folder does not change
        file.write(repo.head())
    shutil.rmtree(workspaces.workspace_of(app(), name="part-0").tree)
    look()
    found = {one.kind for one in incidents.listing(app())}
    assert found == {"refused", "ref-moved", "workspace-gone"}


def one_part(repo, count):
    """What a part of so many reads of the others: where it begins, when it is tidied up, and at a glance at the batch."""
    here, name = app(), f"batch-{count}"
    opened = batches.open_batch(
        here.database,
        project="repo",
        id=name,
        fan_in=SubTask(f"{name}-join", "Join them."),
        sub_tasks=[SubTask(f"{name}-{number}", "Do it.") for number in range(count)],
        workspace=repo.path,
    )
    first = tasks.of_batch(here.database, batch=opened.key)[0]
    with counted() as found:
        assert task_clones.parts(here, first) == []
        assert report.glance(here, opened) == report.RUNS
        task_work.tidy(here, first._replace(state=states.DONE), running=())
    return found


def test_a_part_reads_none_of_its_neighbours(repo):
    assert one_part(repo, 3) == one_part(repo, 40)


def test_a_manifest_is_read_without_a_question_to_git_for_each_part(repo, tmp_path):
    def asked(count):
        names = [f"p{number}" for number in range(count)]
        path = manifest(tmp_path / "split.json", parts=names)
        with open(path, encoding="utf-8") as file:
            value = json.load(file)
        for part in value["sub_tasks"]:
            made = f"src/{part['id']}/made.py"
            part |= {"brief": f"Write {made}.", "check": f"test -s {made}"}
        (tmp_path / "split.json").write_text(json.dumps(value))
        with counted() as found:
            verified = planner.verify_words(app(), find_project(app(), workspace=repo.path), path)
        assert len(verified.sub_tasks) == count
        return found["posix_spawnp"]

    assert asked(2) == asked(20)


def test_a_file_is_read_again_when_it_changed_and_only_then(tmp_path):
    memory, path, reads = FileMemory(), str(tmp_path / "ref"), []

    def get():
        return memory.get(path, os.stat(path), lambda: reads.append(1) or (tmp_path / "ref").read_text())

    (tmp_path / "ref").write_text("a\n")
    assert (get(), get(), len(reads)) == ("a\n", "a\n", 2)  # it may change again within a tick
    time.sleep(_GRAIN)
    assert (get(), get(), len(reads)) == ("a\n", "a\n", 3)
    with open(path, "r+") as file:
        file.write("b")
    os.utime(path, ns=(0, 0))
    time.sleep(_GRAIN)
    assert (get(), len(reads)) == ("b\n", 4)
    with open(path, "r+") as file:  # the same length, and its own time put back
        file.write("c")
    os.utime(path, ns=(0, 0))
    assert get() == "c\n"

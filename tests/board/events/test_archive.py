"""The archive: old lines of the journal leave the database for files, and nothing is lost on the way."""

from __future__ import annotations

import gzip
import os
import threading

import pytest

from handoff.board import figures, forgetting
from handoff.board.events import journal
from handoff.board.sessions import leases
from handoff.board.sessions.sessions import SessionIdentity
from handoff.board.tasks import batches, outcomes, tasks

LATER = 4e9


def _done(store, name, *, project="shop", session="one"):
    task = tasks.add(store, project=project, id=name, brief="x")
    who = SessionIdentity(id=session, kind="agent", agent="scripted", host="here", boot="b")
    claim = leases.claim(store, key=task.key, who=who, lease_seconds=60.0)
    outcomes.finish(
        store,
        key=task.key,
        fence=claim.fence,
        summary=f"{name} is done: naïve \ud83d".encode("utf-8", "ignore").decode(),
    )
    return task


def _numbers(store):
    return [event.seq for event in journal.since(store, limit=100_000)]


def test_lines_leave_when_no_row_needs_them_and_are_read_once_whatever_was_cut_short(database, tmp_path):
    folder = str(tmp_path / "archive")
    old, part = _done(database, "old"), _done(database, "kept")
    with database.transaction() as transaction:
        journal.append(transaction, "note.added", project="shop", text="after all of it")
    everything = journal.since(database)
    forgetting.archive_lines(database, folder=folder, before=LATER)
    assert {event.seq for event in journal.since(database)} >= {event.seq for event in everything if event.task}
    forgetting.prune(database, before=LATER, dry_run=False)
    outcomes.cancel(database, key=tasks.add(database, project="shop", id="live", brief="x").key)  # its row stays
    counted = {(row.name, row.label): row.number for row in figures.tally_rows(database)}
    assert forgetting.archive_lines(database, folder=folder, before=0.0) == 0, "nothing is that old"
    done = forgetting.archive_lines(database, folder=folder, before=LATER)
    assert done
    kept, found = _numbers(database), list(forgetting.read_archive(folder))
    assert {event.task for event in journal.since(database)} & {old.key, part.key} == set()
    assert sorted([*kept, *(event.seq for event in found)]) == sorted({*kept, *(event.seq for event in found)})
    assert {event.seq: event for event in found}[everything[0].seq] == everything[0]
    assert [event.kind for event in forgetting.read_archive(folder, project="shop", address="old")] == [
        event.kind for event in everything if event.task == old.key
    ]
    after = {(row.name, row.label): row.number for row in figures.tally_rows(database)}
    assert all(after[name] >= number for name, number in counted.items())
    assert journal.last(database, project="shop", limit=1), "the last line of a project stays"

    (path,) = [os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".gz")]
    forgetting._write(folder, found)  # a crash before the lines left the database: the next run writes them again
    with open(path, "ab") as file:
        file.write(gzip.compress(b"half of a line")[:15])  # and a power cut in the middle of a step
    assert list(forgetting.read_archive(folder)) == found
    _done(database, "more")
    forgetting.prune(database, before=LATER, dry_run=False)
    assert forgetting.archive_lines(database, folder=folder, before=LATER)
    assert len(list(forgetting.read_archive(folder))) > len(found)


def test_prune_in_steps_beside_live_work_loses_nothing(place, database, tmp_path):
    folder, said = str(tmp_path / "archive"), []
    for number in range(30):
        _done(database, f"old-{number}", session=f"s{number}")
    stop = threading.Event()

    def work() -> None:
        own, number = place.open(), 0
        try:
            # A pause as between two commands: who never pauses leaves no other writer in.
            while not stop.wait(0.005) or number < 5:
                _done(own, f"new-{number}", project="depot", session=f"n{number}")
                number += 1
        except Exception as error:  # noqa: BLE001 - told in the test's own thread
            said.append(error)
        said.append(number)

    worker = threading.Thread(target=work)
    worker.start()
    forgotten = forgetting.prune(database, before=LATER, project="shop", dry_run=False)
    put = forgetting.archive_lines(database, folder=folder, before=LATER, project="shop")
    stop.set()
    worker.join()
    (number,) = said
    assert len(forgotten) == 30
    assert put == len(list(forgetting.read_archive(folder)))
    assert len([event for event in journal.since(database, limit=100_000) if event.kind == "task.finished"]) == number


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_lines_that_arrive_at_every_step_do_not_hold_it(database, tmp_path):
    """The busiest neighbour there can be: with every step of the count there are more new lines than a step counts."""
    _done(database, "old")
    forgetting.prune(database, before=LATER, dry_run=False)
    lines = (
        "INSERT INTO event (at, kind, project, task_id, session, fence, body) SELECT 1, 'note.added', 'shop', '', '', 0, '{}' "
        f"FROM json_each('{list(range(figures.STEP + 1))}')"
    )
    database._connection.execute(lines)
    first = len(_numbers(database))
    database._connection.execute(f"CREATE TRIGGER busy AFTER UPDATE ON search_mark BEGIN {lines}; END")
    put = forgetting.archive_lines(database, folder=str(tmp_path), before=LATER)
    found = [event.seq for event in forgetting.read_archive(str(tmp_path))]
    assert first <= put == len(found) < first + figures.STEP
    assert sorted([*found, *_numbers(database)]) == list(range(1, first + 2 * (figures.STEP + 1) + 1))


def test_lines_of_an_open_batch_stay(database, tmp_path):
    parts = [batches.SubTask(id=name, brief="x") for name in ("one", "two")]
    batch = batches.open_batch(
        database, project="shop", id="many", sub_tasks=parts, fan_in=batches.SubTask(id="join", brief="x")
    )
    outcomes.finish(
        database, key=next(part.key for part in tasks.of_batch(database, batch=batch.key) if part.id == "one")
    )
    _done(database, "other")
    before = [event.seq for event in journal.of_batch(database, key=batch.key)]
    forgetting.prune(database, before=LATER, dry_run=False)
    assert forgetting.archive_lines(database, folder=str(tmp_path), before=LATER)
    assert [event.seq for event in journal.of_batch(database, key=batch.key)] == before

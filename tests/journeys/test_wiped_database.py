"""A database that was cut, wiped or damaged is never taken for an empty board, and the hint names what is there."""

from __future__ import annotations

import os
import shutil
import sqlite3

import pytest

import relay
from databases import MovableClock
from handoff.engine.supervisor import database
from handoff.store.sqlite import SqliteDatabase


@pytest.fixture
def place(repo, cli):
    """A board with one live task."""
    cli("dump", "--task", "t1", "--next", "x")
    return os.path.join(os.environ["HANDOFF_HOME"], "handoff.db")


def cut(path):
    os.truncate(path, 0)


def wipe(path):
    for name in os.listdir(os.path.dirname(path)):
        if name.startswith("handoff.db") and not name.endswith(".lock"):
            os.unlink(os.path.join(os.path.dirname(path), name))


@pytest.mark.parametrize("harm", [cut, wipe])
def test_an_empty_database_beside_queue_files_is_an_error_that_names_them(cli, place, harm):
    harm(place)
    for words in (("task", "list"), ("task", "claim"), ("dump", "--task", "t2", "--next", "y")):
        said = cli(*words, code=1)
        assert "No live tasks" not in said.out
        assert "repo/queue/t1.md" in said.err
        assert "There is no backup" in said.err
        assert "backup-" not in said.err
    os.rename(os.path.join(os.path.dirname(place), "repo", "queue"), os.path.join(os.path.dirname(place), "kept"))
    assert "No live tasks" in cli("task", "list").out


def test_the_hint_names_a_backup_that_exists_and_it_works(cli, place):
    backup = f"{place}.backup-schema1-20261115T000000Z"
    shutil.copy(place, backup)
    with open(place, "wb") as file:
        file.write(b"this is no database" * 500)
    for name in (f"{place}-wal", f"{place}-journal"):
        if os.path.exists(name):
            os.unlink(name)
    for _ in range(2):
        said = cli("task", "list", code=1)
        assert backup in said.err
        hint = next(line for line in said.err.splitlines() if line.startswith("Hint: "))
        os.truncate(place, 0)
    assert hint.endswith("handoff database restore")
    told = cli("database", "restore", "--json").json
    assert told["backup"] == backup
    assert os.path.exists(told["aside"])
    assert "t1" in cli("task", "list").out


def test_a_page_that_was_damaged_is_found_by_doctor_and_before_work_begins_and_yesterdays_copy_comes_back(cli, place):
    app = relay.app()
    assert os.path.basename(database.back_up(app)).startswith("handoff.db.backup-daily-")
    assert database.back_up(app) == "", "one a day"
    app.close()
    for name in ("second", "third"):
        cli("task", "add", name, "x" * 20_000)
    raw = sqlite3.connect(place)
    raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    size, pages = (raw.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_size", "page_count"))
    raw.close()
    with open(place, "r+b") as file:
        for page in range(2, pages):
            file.seek(page * size)
            file.write(b"\xff" * 64)
    for words in (("work", "--agent", "scripted", "--until-done"), ("doctor",), ("task", "list"), ("status",)):
        said = cli(*words, code=None)
        assert "is damaged or not a SQLite database" in said.out + said.err, (words, said.out, said.err)
        assert words == ("status",) or "handoff database restore" in said.out + said.err, words
        assert "fault of its own" not in said.err
    assert "backup-daily-" in cli("database", "restore").out
    assert "t1" in cli("task", "list").out
    assert "backup-daily-" in cli("doctor", code=None).out


def test_only_the_newest_copies_of_a_database_are_kept(tmp_path):
    held = SqliteDatabase(str(tmp_path / "handoff.db"), clock=MovableClock())
    made = []
    for _ in range(5):
        made.append(held.back_up(kept=3))
        os.utime(made[-1], (len(made), len(made)))
        held.clock.wall += 90_000.0
    held.close()
    assert sorted(name for name in os.listdir(tmp_path) if "backup" in name) == [
        os.path.basename(one) for one in made[2:]
    ]


def test_a_damaged_database_without_a_backup_promises_none(cli, place):
    with open(place, "r+b") as file:
        file.write(b"not a database at all")
    assert "There is no backup" in cli("task", "list", code=1).err

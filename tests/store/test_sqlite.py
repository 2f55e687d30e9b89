"""SQLite: the right journal for the library, a clock that jumps do not move, errors that say what to do."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys

import pytest

from databases import MovableClock
from handoff.base.clock import SystemClock
from handoff.base.errors import Conflict, UserError
from handoff.board.sessions import leases, watchdog
from handoff.board.sessions.sessions import SessionIdentity
from handoff.board.tasks import tasks
from handoff.store import sqlite
from handoff.store.sqlite import SqliteDatabase, has_fixed_wal


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "home" / "handoff.db")


@pytest.mark.parametrize(
    ("version", "fixed"),
    [
        ((3, 40, 1), False), ((3, 44, 5), False), ((3, 44, 6), True), ((3, 45, 0), False), ((3, 50, 6), False),
        ((3, 50, 7), True), ((3, 51, 0), False), ((3, 51, 2), False), ((3, 51, 3), True), ((3, 53, 4), True),
        ((4, 0, 0), True),
    ],
)  # fmt: skip
def test_wal_is_trusted_only_where_its_bug_is_mended(version, fixed):
    assert has_fixed_wal(version) is fixed


def test_a_new_file_gets_the_journal_its_library_can_be_trusted_with(path):
    SqliteDatabase(path, clock=SystemClock()).close()
    raw = sqlite3.connect(path)
    (mode,) = raw.execute("PRAGMA journal_mode").fetchone()
    raw.close()
    assert (mode == "wal") is has_fixed_wal(sqlite.library.sqlite_version_info)


def test_a_wal_file_is_left_as_it_is_and_refused_by_a_library_that_can_damage_it(path):
    SqliteDatabase(path, clock=SystemClock()).close()
    raw = sqlite3.connect(path)
    assert raw.execute("PRAGMA journal_mode = WAL").fetchone() == ("wal",)
    raw.close()
    if has_fixed_wal(sqlite.library.sqlite_version_info):
        SqliteDatabase(path, clock=SystemClock()).close()
        return
    with pytest.raises(UserError, match="WAL mode") as caught:
        SqliteDatabase(path, clock=SystemClock())
    assert "pip install" in caught.value.hint


def test_a_file_of_somebody_else_is_refused_and_left_alone(path):
    os.makedirs(os.path.dirname(path))
    raw = sqlite3.connect(path)
    raw.execute("CREATE TABLE songs (name TEXT)")
    raw.close()
    before = _content(path)
    with pytest.raises(UserError, match="not one of handoff's"):
        SqliteDatabase(path, clock=SystemClock())
    assert _content(path) == before


def test_a_file_that_is_no_database_is_an_error_that_names_it(path):
    os.makedirs(os.path.dirname(path))
    with open(path, "w", encoding="utf-8") as file:
        file.write("this is not a database, whatever its name says " * 40)
    with pytest.raises(UserError, match=r"handoff\.db is damaged or not a SQLite database"):
        SqliteDatabase(path, clock=SystemClock())


def test_a_home_that_cannot_be_made_is_an_error_that_names_it(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UserError, match=r"Cannot create the folder .*/file/home"):
        SqliteDatabase(f"{tmp_path}/file/home/handoff.db", clock=SystemClock())


def test_jumps_of_the_wall_clock_and_sleep_expire_no_lease(path):
    clock = MovableClock()
    database = SqliteDatabase(path, clock=clock)
    task = tasks.add(database, project="shop", id="login", brief="x")
    leases.claim(database, key=task.key, who=SessionIdentity("s1"), lease_seconds=60)
    for jump in (86_400.0, -400_000.0, 31_536_000.0):
        clock.wall += jump
        assert watchdog.scan(database).quiet
        assert leases.heartbeat(database, key=task.key, fence=1).state == "running"
    clock.advance(59)
    assert watchdog.scan(database).quiet
    clock.advance(2)
    assert [freed.id for freed in watchdog.scan(database).freed] == ["login"]
    database.close()


def test_after_a_restart_of_the_machine_leases_go_by_the_wall_clock_and_never_back(path):
    clock = MovableClock()
    database = SqliteDatabase(path, clock=clock)
    task = tasks.add(database, project="shop", id="login", brief="x")
    leases.claim(database, key=task.key, who=SessionIdentity("s1"), lease_seconds=60)
    with database.transaction() as transaction:
        transaction.execute("set_clock", boot="another boot", monotonic=9e9, steady=clock.wall)
    clock.wall -= 400_000  # the battery of the hardware clock is empty
    clock.steady = 10.0
    assert watchdog.scan(database).quiet
    clock.wall += 400_000
    leases.heartbeat(database, key=task.key, fence=1)  # anchors the clock anew
    clock.advance(61)
    assert [freed.id for freed in watchdog.scan(database).freed] == ["login"]
    database.close()


def test_another_process_is_noticed_by_the_mark(path):
    one, two = (SqliteDatabase(path, clock=SystemClock()) for _ in range(2))
    mark = two.change_mark()
    assert two.change_mark() == mark
    tasks.add(one, project="shop", id="first", brief="x")
    assert two.change_mark() != mark
    assert len(tasks.listing(two)) == 1
    one.close()
    two.close()


def test_a_writer_that_never_ends_is_told_of_after_patience_and_nothing_is_written(path):
    clock = MovableClock(hurry=500)
    database = SqliteDatabase(path, clock=clock)
    hog = sqlite3.connect(path, isolation_level=None)
    hog.execute("BEGIN IMMEDIATE")
    database._connection.execute("PRAGMA busy_timeout = 1")
    with pytest.raises(Conflict, match="busy for minutes"):
        tasks.add(database, project="shop", id="login", brief="x")
    hog.execute("ROLLBACK")
    hog.close()
    assert tasks.add(database, project="shop", id="login", brief="x").generation == 1
    database.close()


FILL = """
import resource, sys
from handoff.base.clock import SystemClock
from handoff.base.errors import UserError
from handoff.board.tasks import tasks
from handoff.store.sqlite import SqliteDatabase
database = SqliteDatabase(sys.argv[1], clock=SystemClock())
resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))
number = 0
try:
    while True:
        tasks.add(database, project="shop", id=f"task-{number}", brief="x" * 30_000)
        number += 1
        print(number, flush=True)
except UserError as error:
    print(error.message, "|", error.hint)
"""


def test_a_full_disk_is_an_error_and_leaves_what_was_promised_and_nothing_half(path):
    done = subprocess.run([sys.executable, "-c", FILL, path], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    *numbers, last = done.stdout.splitlines()
    assert last.startswith(f"Cannot write {path}: "), last
    assert "Free some space" in last
    assert "This step was not written; every step reported before it is done." in last
    database = SqliteDatabase(path, clock=SystemClock())
    assert [task.id for task in tasks.listing(database)] == [f"task-{number}" for number in range(len(numbers))]
    assert tasks.add(database, project="shop", id="after", brief="x").state == "ready"
    database.close()
    _check_integrity(path)


READ_ONLY = """
import os, sys
from handoff.base.clock import SystemClock
from handoff.base.errors import UserError
from handoff.board.tasks import tasks
from handoff.store.sqlite import SqliteDatabase
if os.geteuid() == 0:
    os.setuid(65534)
try:
    database = SqliteDatabase(sys.argv[1], clock=SystemClock())
    tasks.add(database, project="shop", id="login", brief="x")
except UserError as error:
    print(error.message, "|", error.hint)
"""


@pytest.mark.parametrize("there", [True, False], ids=["an-old-file", "no-file"])
def test_a_read_only_home_is_an_error_and_nothing_is_written(folder, there):
    home = os.path.join(folder, "home")
    path = os.path.join(home, "handoff.db")
    os.makedirs(home)
    if there:
        SqliteDatabase(path, clock=SystemClock()).close()
        os.chmod(path, 0o444)
    before = sorted(os.listdir(home))
    os.chmod(folder, 0o755)
    os.chmod(home, 0o555)
    done = subprocess.run(
        [sys.executable, "-c", READ_ONLY, path], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "whether it may be written" in done.stdout
    assert sorted(os.listdir(home)) == before


def _content(path):
    with open(path, "rb") as file:
        return file.read()


def _check_integrity(path):
    raw = sqlite3.connect(path)
    assert raw.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    raw.close()

"""Real databases to test with: a fresh SQLite file, or a fresh database on a real Postgres server."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from typing import Any

import pytest

from handoff.base.clock import SystemClock
from handoff.store import open_database
from own_server import Server

KINDS = ("sqlite", "postgres")
_MEMORY = "/dev/shm"
_ROOM_BYTES = 1_000_000_000


def quick_folder() -> str | None:
    """Where a database of a test lies: in memory if there is room, because races are about order, not about disks."""
    if not os.path.isdir(_MEMORY) or not os.access(_MEMORY, os.W_OK):
        return None
    room = os.statvfs(_MEMORY)
    return _MEMORY if room.f_bavail * room.f_frsize > _ROOM_BYTES else None


class MovableClock:
    """A host's clock in the hands of a test: the wall clock may jump, the monotonic one only goes on."""

    def __init__(self, now: float = 1_800_000_000.0, monotonic: float = 5_000.0, hurry: float = 1.0) -> None:
        self.wall = now
        self.steady = monotonic
        self.hurry = hurry

    def now(self) -> float:
        return self.wall

    def monotonic(self) -> float:
        return self.steady

    def sleep(self, seconds: float) -> None:
        self.advance(seconds * self.hurry)

    def advance(self, seconds: float) -> None:
        self.wall += seconds
        self.steady += seconds


class Place:
    """Where one test's database is; any process or thread may open it."""

    def __init__(self, kind: str, url: str) -> None:
        self.kind = kind
        self.url = url
        self._opened: list[Any] = []

    def open(self, clock: Any = None) -> Any:
        database = open_database(self.url, clock=clock or SystemClock())
        self._opened.append(database)
        return database

    def close(self) -> None:
        for database in self._opened:
            if database.kind == "postgres" or not _of_another_thread(database):
                database.close()

    def start(self, code: str, *words: str, **options: Any) -> subprocess.Popen[str]:
        """A process that runs `code` with `url` and `words` as its arguments."""
        return subprocess.Popen(
            [sys.executable, "-c", code, self.url, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            **options,
        )  # fmt: skip


def _of_another_thread(database: Any) -> bool:
    try:
        database.change_mark()
    except Exception as error:  # noqa: BLE001 - SQLite says so in its own class, which tests do not import
        return "thread" in str(error)
    return False


@pytest.fixture(scope="session")
def postgres_server():
    """One server for the whole run of one worker, by pip alone."""
    with tempfile.TemporaryDirectory(prefix="pg-", dir=quick_folder(), ignore_cleanup_errors=True) as folder:
        server = Server(folder)
        yield server
        server.stop(signal.SIGQUIT)  # at once: nothing in it is worth a checkpoint


def empty(url: str) -> None:
    """Take everything of ours out of a Postgres database."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET client_min_messages = warning")
        connection.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        connection.execute("DROP SCHEMA IF EXISTS handoff CASCADE")


@pytest.fixture(params=KINDS)
def place(request):
    """A database nobody has opened yet, once for each kind."""
    with tempfile.TemporaryDirectory(prefix="ho-", dir=quick_folder()) as folder:
        if request.param == "sqlite":
            found = Place("sqlite", f"sqlite:///{folder}/home/handoff.db")
        else:
            found = Place("postgres", request.getfixturevalue("postgres_server").url)
            empty(found.url)
        yield found
        found.close()


@pytest.fixture
def database(place):
    """An open database, once for each kind; `database.shift += 60` moves its clock."""
    return place.open()

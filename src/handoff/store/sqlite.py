"""SQLite: one file, one writer at a time, and nobody ever sees "database is locked"."""

from __future__ import annotations

import os

from handoff.base.clock import boot_id, stamp
from handoff.base.errors import Away, MissingPackage, UserError
from handoff.base.files import locked, make_folder, remove, sync_folder
from handoff.base.record import TYPE_CHECKING
from handoff.store import migrate
from handoff.store.database import (
    EVERY_LINE,
    PATIENCE_SECONDS,
    SQLITE,
    OpenTransaction,
    Statements,
    TransactionBlock,
    busy_conflict,
    unfit,
    upgrade_conflict,
)

try:  # where it is installed its library is mostly newer than Python's own
    import pysqlite3.dbapi2 as driver  # type: ignore[import-not-found,unused-ignore]
except ImportError:
    # The module behind `sqlite3`, which itself imports datetime for converters nobody here uses: a quarter of the time
    # an interpreter takes to start. It is private to CPython, so where it is missing the public one serves.
    try:
        import _sqlite3 as driver
    except ImportError:
        import sqlite3 as driver

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from handoff.base.clock import Clock
    from handoff.store.database import Row

VERSION_INFO = tuple(int(part) for part in driver.sqlite_version.split("."))
BUSY_SECONDS = 30.0
_OLDEST = (3, 35, 0)
_PAUSE_SECONDS = 0.02
_ROLLBACK = "PRAGMA journal_mode = PERSIST; PRAGMA journal_size_limit = 1048576; PRAGMA synchronous = FULL"
_NETWORK_SYSTEMS = frozenset({"nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "afs", "virtiofs"})


def __getattr__(name: str) -> Any:
    """`library`: the whole DB-API module of the driver, for those who need all of it."""
    if name != "library":
        raise AttributeError(name)
    if driver.__name__ != "_sqlite3":
        return driver
    import sqlite3

    return sqlite3


def has_fixed_wal(version: tuple[int, ...]) -> bool:
    """Whether this SQLite is free of the WAL-reset bug (3.7.0 to 3.51.2; mended in 3.51.3, 3.50.7 and 3.44.6)."""
    return version >= (3, 51, 3) or (3, 50, 7) <= version < (3, 51) or (3, 44, 6) <= version < (3, 45)


class SqliteTransaction(OpenTransaction):
    """One transaction on one connection; see `database.Transaction`."""

    __slots__ = ("_lease_now", "_now")

    def __init__(self, database: SqliteDatabase, *, write: bool) -> None:
        super().__init__(database, write=write)
        self._now: float | None = None
        self._lease_now: float | None = None

    def now(self) -> float:
        if self._now is None:
            self._now = float(self._database.clock.now() + self._database.shift)
        return self._now

    def lease_now(self) -> float:
        if self._lease_now is None:
            self._lease_now = float(self._steady() + self._database.shift)
        return self._lease_now

    def _steady(self) -> float:
        """Wall time at the anchor plus what the monotonic clock has counted since: jumps and sleep do not age a lease."""
        clock: Clock = self._database.clock
        boot, monotonic, wall = boot_id(), clock.monotonic(), clock.now()
        anchor = self.one("read_clock")
        if anchor and anchor["boot"] == boot and monotonic >= anchor["monotonic"]:
            return float(anchor["steady"] + monotonic - anchor["monotonic"])
        steady = max(wall, anchor["steady"]) if anchor else wall
        if self._write:
            self.execute("set_clock", boot=boot, monotonic=monotonic, steady=steady)
        return steady


def _make_private(path: str) -> None:
    """A new database is read by the person alone; SQLite gives its other files the same rights."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except OSError:
        return  # it is there already, or SQLite says what is wrong


class SqliteDatabase:
    """The database file at `path`, created or migrated when opened."""

    kind = SQLITE

    def __init__(self, path: str, *, clock: Clock, steps: list[migrate.Migration] | None = None) -> None:
        self.place = path
        self.clock = clock
        self.shift = 0.0
        self._mark = -1
        self._steps = steps
        self._version = steps[-1].number if steps else migrate.VERSION
        self._queries = Statements(SQLITE)
        if VERSION_INFO < _OLDEST:
            raise MissingPackage(
                f"SQLite {driver.sqlite_version} is too old: handoff needs 3.35 or newer.", "pysqlite3"
            )
        make_folder(os.path.dirname(path) or ".")
        _make_private(path)
        try:
            self._connection = driver.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=True)
        except driver.Error as error:
            raise self.explained(error) from error
        try:
            self._prepare()
        except BaseException:
            self._connection.close()
            raise

    # --- opening ------------------------------------------------------------------------------

    def _prepare(self) -> None:
        connection = self._connection
        try:
            version = self._pragma("user_version")
            if version != self._version:
                migrate.refuse_newer(version, self._version, self.place)
                self._bring_up_to_date()
            mode = self._pragma("journal_mode")
            if mode == "wal" and not has_fixed_wal(VERSION_INFO):
                raise MissingPackage(
                    f"{self.place} is in WAL mode, and SQLite {driver.sqlite_version} can damage such a file;"
                    " the package pysqlite3, or a Python with SQLite 3.51.3 or newer, does not.",
                    "pysqlite3>=0.6.1",
                )
            if mode == "wal":
                connection.execute("PRAGMA synchronous = NORMAL")
            else:  # still a rollback journal, but its file is kept: half the waiting for the disk
                connection.executescript(_ROLLBACK)
        except driver.Error as error:
            raise self.explained(error) from error
        connection.row_factory = _as_dict

    def _pragma(self, name: str) -> Any:
        row = self._patiently(lambda: self._connection.execute(f"PRAGMA {name}").fetchone())
        return next(iter(row.values())) if isinstance(row, dict) else row[0]

    def _bring_up_to_date(self) -> None:
        known = os.path.exists(self.place + ".lock")  # a database of ours was made here before
        with locked(self.place + ".lock", what="the database's schema"):
            version = self._pragma("user_version")
            migrate.refuse_newer(version, self._version, self.place)
            if version == self._version:
                return
            steps = migrate.steps_from(version, self.place, self._steps)
            if version == 0:
                self._refuse_foreign()
                if known:
                    from handoff.store.upkeep import refuse_wiped

                    refuse_wiped(self.place)
                if has_fixed_wal(VERSION_INFO) and not _on_network(self.place):
                    self._pragma("journal_mode = WAL")
            self.begin(write=True, known=version)
            try:
                if version:
                    self._back_up(version)
                for step in steps:
                    for statement in migrate.statements(step.text):
                        self._connection.execute(statement)
                self._connection.execute(f"PRAGMA user_version = {self._version}")
            except BaseException:
                self.rollback()
                raise
            self.commit()

    def _refuse_foreign(self) -> None:
        if self._connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            raise UserError(
                f"{self.place} is a SQLite database, but not one of handoff's.",
                "Move it away, or set HANDOFF_HOME or HANDOFF_DATABASE_URL to another place.",
            )

    def _back_up(self, version: int) -> None:
        """A copy of the file as it was, made while we hold the write lock, whole or not there at all."""
        place = f"{self.place}.backup-schema{version}-{self._moment()}"
        temp = f"{place}.{os.getpid()}.tmp"
        source, target = driver.connect(self.place, timeout=BUSY_SECONDS), driver.connect(temp)
        try:
            source.backup(target)
        finally:
            source.close()
            target.close()
        os.rename(temp, place)
        sync_folder(os.path.dirname(place) or ".")

    def _moment(self) -> str:
        return stamp(self.clock.now()).replace(":", "")

    def examine(self) -> None:
        """Read every page once, and refuse a file of which some are damaged."""
        try:
            said = self._pragma("quick_check(1)")
        except driver.Error as error:
            raise self.explained(error) from error
        if said != "ok":
            raise self.explained(driver.DatabaseError(f"malformed ({said})"))

    def back_up(self, *, kept: int) -> str:
        """A copy of all rows as they are now, and no more than so many older ones; the copy's name."""
        place = f"{self.place}.backup-daily-{self._moment()}"
        temp = f"{place}.{os.getpid()}.tmp"
        try:
            self._patiently(lambda: self._connection.execute("VACUUM INTO ?", (temp,)))
        except driver.Error as error:
            remove(temp)
            raise self.explained(error) from error
        os.chmod(temp, 0o600)
        os.rename(temp, place)
        sync_folder(os.path.dirname(place) or ".")
        from handoff.store.upkeep import DAILY, backups

        for old in backups(self.place, DAILY)[kept:]:
            remove(old)
        return place

    # --- transactions -------------------------------------------------------------------------

    def transaction(self, *, write: bool = True, scopes: Sequence[str] | None = None) -> TransactionBlock:
        return TransactionBlock(self, write=write, scopes=scopes)

    def begin(self, *, write: bool, scopes: Sequence[str] | None = None, known: int | None = None) -> SqliteTransaction:
        """Take the write lock at once, so that nothing later in the transaction can meet another writer: all are alone."""
        del scopes
        expected = self._version if known is None else known
        try:
            self._patiently(lambda: self._connection.execute("BEGIN IMMEDIATE" if write else "BEGIN"))
            found = self._patiently(lambda: self._connection.execute("PRAGMA user_version").fetchone())
        except BaseException as error:
            self.rollback()
            raise self.explained(error) from error
        version = found["user_version"] if isinstance(found, dict) else found[0]
        if version != expected:
            self.rollback()
            raise upgrade_conflict(self.place)
        return SqliteTransaction(self, write=write)

    def commit(self) -> None:
        try:
            self._patiently(lambda: self._connection.execute("COMMIT"))
        except driver.Error as error:
            self.rollback()
            raise self.explained(error) from error

    def rollback(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def run(self, name: str, values: Mapping[str, Any]) -> Any:
        """One named query."""
        return self._run(self._connection.execute, self._queries[name], values)

    def run_many(self, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """One named query for each of the rows."""
        self._run(self._connection.executemany, self._queries[name], rows)

    def _run(self, act: Callable[[str, Any], Any], statement: str, values: Any) -> Any:
        try:
            return self._patiently(lambda: act(statement, values))
        except (OverflowError, UnicodeEncodeError) as error:
            raise unfit(error) from error
        except driver.Error as error:
            raise self.explained(error) from error

    def _patiently(self, attempt: Callable[[], Any]) -> Any:
        """SQLite waits by itself; where it gives up early (a recovery, an unlucky reader) we go on waiting."""
        deadline: float | None = None
        while True:
            try:
                return attempt()
            except driver.OperationalError as error:
                if "locked" not in str(error) and "busy" not in str(error):
                    raise
                now = self.clock.monotonic()
                deadline = now + PATIENCE_SECONDS if deadline is None else deadline
                if now > deadline:
                    self.rollback()
                    raise busy_conflict(self.place) from error
                self.clock.sleep(_PAUSE_SECONDS)

    def explained(self, error: BaseException) -> BaseException:
        """SQLite's few words, with the file's name and what to do; what is not SQLite's stays as it is."""
        text = str(error) if isinstance(error, driver.Error) else ""
        if "full" in text or "disk I/O" in text:
            return Away(
                f"Cannot write {self.place}: {text}.",
                "This step was not written; every step reported before it is done. Free some space on that disk and run the command again.",
            )
        if "readonly" in text or "unable to open" in text:
            return UserError(
                f"Cannot use {self.place}: {text}.",
                "Check who owns the folder and whether it may be written, or set HANDOFF_HOME. Nothing was changed.",
            )
        if "no such module" in text:
            return MissingPackage(
                f"The SQLite {driver.sqlite_version} of this Python cannot search: it has no FTS5.", "pysqlite3"
            )
        if "not a database" in text or "malformed" in text:
            from handoff.store.upkeep import way_back

            return UserError(f"{self.place} is damaged or not a SQLite database: {text}.", way_back(self.place))
        return error

    def at_once(
        self, name: str, values: Callable[[], dict[str, Any]], /, *, scopes: Sequence[str] = ()
    ) -> list[Row] | None:
        """Never: there is no journey to save."""
        del name, values, scopes
        return None

    def settled(self) -> int:
        return EVERY_LINE  # one writer at a time: lines come in their order

    def change_mark(self) -> int:
        row = self._patiently(lambda: self._connection.execute("PRAGMA data_version").fetchone())
        return int(row["data_version"])

    def wait_for_change(self, seconds: float) -> bool:
        """Ask the file's own counter fifty times a second: it costs next to nothing and needs no helper."""
        deadline = self.clock.monotonic() + seconds
        while True:
            mark = self.change_mark()
            if mark != self._mark:
                self._mark = mark
                return True
            if self.clock.monotonic() >= deadline:
                return False
            self.clock.sleep(_PAUSE_SECONDS)

    @property
    def connection(self) -> Any:
        """The driver's own connection, for what must share a transaction."""
        return self._connection

    def weakness(self) -> str:
        return ""  # nobody can listen on the way to a file

    def close(self) -> None:
        self._connection.close()


def _as_dict(cursor: Any, row: tuple[Any, ...]) -> Row:
    return {column[0]: value for column, value in zip(cursor.description, row, strict=True)}


def _on_network(path: str) -> bool:
    """Whether the file lies on a network file system, where WAL's shared memory does not work."""
    best, kind = "", ""
    try:
        with open("/proc/self/mounts", encoding="utf-8", errors="surrogateescape") as file:
            for line in file:
                fields = line.split(" ")
                mount = fields[1].replace("\\040", " ")
                inside = os.path.realpath(path).startswith(mount.rstrip("/") + "/")
                if inside and len(mount) >= len(best):
                    best, kind = mount, fields[2]
    except OSError:
        return False
    return kind in _NETWORK_SYSTEMS

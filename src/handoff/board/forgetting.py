"""Forget what ended long ago. Old lines of the journal go into files: one a month, compressed, each line as JSON.

A line is put away when its task, its batch and its flow are forgotten. It is in the file, on the disk, before it leaves the
database; after a crash between the two it is in the file twice, and read once.
"""

from __future__ import annotations

import gzip
import json
import os
import zlib

from handoff.base.clock import stamp
from handoff.base.errors import UserError
from handoff.base.files import locked, make_folder, write_atomic
from handoff.base.record import TYPE_CHECKING
from handoff.board import figures
from handoff.board.events import journal
from handoff.board.events.journal import Event
from handoff.board.tasks.tasks import Task
from handoff.store.database import beside_others, fetch_all

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from handoff.store.database import Database, Store

_PRUNED = 10_000
_STEP = 200
_SWEEPS = (
    "prune_batches",
    "prune_decisions",
    "prune_flows",
    "prune_sessions",
    "prune_inbox",
    "prune_incidents",
    "prune_transcripts",
)


def prune(store: Store, *, before: float, project: str = "", dry_run: bool = True) -> list[Task]:
    """Ended tasks older than `before`; they are forgotten unless it is a dry run. The journal keeps its lines.

    In short steps, so that whoever works meanwhile waits for none of it.
    """
    if dry_run:
        return fetch_all(store, Task, "list_prunable", before=before, project=project, limit=_PRUNED)
    found: list[Task] = []
    while step := _prune_some(store, before=before, project=project):
        found += step
    for query in _SWEEPS:
        while _sweep(store, query, before=before, project=project) == _STEP:
            continue
    if found:
        with store.transaction() as transaction:
            journal.append(transaction, "tasks.pruned", project=project, count=len(found))
    return found


def _prune_some(store: Store, *, before: float, project: str) -> list[Task]:
    with store.transaction() as transaction:
        found = fetch_all(transaction, Task, "list_prunable", before=before, project=project, limit=_STEP)
        forget(transaction, found)
    return found


def forget(store: Store, found: Sequence[Task]) -> None:
    """Ended tasks go, with what hangs on them; the journal keeps its lines."""
    with store.transaction() as transaction:
        for query in ("prune_needs", "prune_requirements", "prune_gates", "prune_task") if found else ():
            transaction.execute_many(query, [{"key": task.key} for task in found])


def _sweep(store: Store, query: str, *, before: float, project: str) -> int:
    with store.transaction() as transaction:
        return transaction.execute(query, before=before, project=project, limit=_STEP)


STEP = 500
_DAMAGE = (EOFError, gzip.BadGzipFile, zlib.error)
_PREFIX, _SUFFIX = "journal-", ".jsonl.gz"


def lines_to_archive(database: Database, *, before: float, project: str = "") -> int:
    """How many lines could be put away."""
    with database.transaction(write=False) as transaction:
        asked = {"before": before, "project": project, "mark": journal.NEWEST, "limit": journal.NEWEST}
        row = transaction.one("count_archivable", **asked, after=0)
    return int(row["count"]) if row else 0


def archive_lines(database: Database, *, folder: str, before: float, project: str = "") -> int:
    """Put lines older than `before` into the files of `folder`, in small steps beside everybody's work; how many."""
    newest = journal.mark(database)
    while figures.mark(database) < newest and figures.step(database):
        continue  # as far as the journal goes now: work beside us may write faster than we count
    asked = {"before": before, "project": project, "mark": figures.mark(database), "limit": STEP}
    make_folder(folder, mode=0o700)
    done = after = 0
    with locked(os.path.join(folder, ".lock"), what="the archive of the journal"):
        for path in _paths(folder):
            _mend(path)
        while lines := fetch_all(database, journal.event_of, "list_archivable", **asked, after=after):
            _write(folder, lines)
            _forget(database, [line.seq for line in lines])
            done, after = done + len(lines), lines[-1].seq
    return done


@beside_others
def _forget(store: Store, numbers: Sequence[int]) -> None:
    with store.transaction(scopes=()) as transaction:
        transaction.execute_many("forget_event", [{"seq": number} for number in numbers])


def _write(folder: str, lines: Sequence[Event]) -> None:
    """Behind what is there: gzip files may be put together."""
    months: dict[str, list[Event]] = {}
    for line in lines:
        months.setdefault(stamp(line.at)[:7], []).append(line)
    for month, found in months.items():
        text = "".join(json.dumps(line._asdict(), ensure_ascii=False) + "\n" for line in found)
        with open(os.path.join(folder, f"{_PREFIX}{month}{_SUFFIX}"), "ab", opener=_private) as file:
            file.write(gzip.compress(text.encode("utf-8", "surrogatepass")))
            file.flush()
            os.fsync(file.fileno())


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _paths(folder: str) -> list[str]:
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    return [os.path.join(folder, name) for name in names if name.startswith(_PREFIX) and name.endswith(_SUFFIX)]


def _mend(path: str) -> None:
    """A power cut may have left the last step half-written: nothing behind that could be read. Its lines are in the database."""
    whole: list[str] = []
    try:
        with gzip.open(path, "rt", encoding="utf-8", errors="surrogatepass") as file:
            for line in file:
                whole.append(line)  # noqa: PERF402 - what came before the damage counts
    except _DAMAGE:
        text = "".join(line for line in whole if line.endswith("\n"))
        write_atomic(path, gzip.compress(text.encode("utf-8", "surrogatepass")), mode=0o600)


def read_archive(folder: str, *, project: str = "", address: str = "") -> Iterator[Event]:
    """The lines in the files, in their order, each once; of a project, of a task or a batch."""
    seen: set[int] = set()
    for path in _paths(folder):
        for number, text in enumerate(_texts(path), 1):
            try:
                line = Event(**json.loads(text))
            except (TypeError, ValueError) as error:
                raise UserError(f"{path}:{number}: not a line of the journal.", "Put the file aside.") from error
            wanted = project in ("", line.project) and (not address or f"{line.task_id}/".startswith(f"{address}/"))
            if wanted and line.seq not in seen:
                seen.add(line.seq)
                yield line


def _texts(path: str) -> Iterator[str]:
    try:
        with gzip.open(path, "rt", encoding="utf-8", errors="surrogatepass") as file:
            yield from file
    except _DAMAGE:
        return  # the last step was cut short, and the next `prune` mends it: those lines are still in the database

"""The locks of a writer on Postgres that are no rows, and what a reader of the journal learns from them."""

from __future__ import annotations

from typing import TYPE_CHECKING
from zlib import crc32

if TYPE_CHECKING:
    from collections.abc import Sequence

SCHEMA = "handoff"
BOARD, SCOPE, LINE = 20310, 20311, 20312
"""Numbers of ours. In one lock, the last stands above the 40 bits of a line's number."""
_LAST = "CASE WHEN is_called THEN last_value ELSE 0 END"
# One message, several statements: the facts are read after the locks were given, not when they were asked for.
_FACTS = "SELECT version, extract(epoch FROM clock_timestamp())::float8 AS now"
# A writer also shows, by a lock nobody waits for, behind which line of the journal its own will stand: see `settled`.
_SHOWN = f"{_FACTS}, pg_advisory_xact_lock_shared(({LINE}::bigint << 40) + {_LAST}) FROM schema_version, event_seq_seq"
LAST_LINE = f"SELECT {_LAST} AS line FROM {SCHEMA}.event_seq_seq".encode()  # noqa: S608 - ours
# In this order: who takes its lock after the first look writes behind the line that was seen there.
SETTLED = f"""SELECT {_LAST} AS line FROM {SCHEMA}.event_seq_seq;
SELECT min(((classid::bigint & 255) << 32) + objid::bigint) AS line FROM pg_locks
WHERE locktype = 'advisory' AND objsubid = 1 AND classid::bigint >> 8 = {LINE}
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())""".encode()  # noqa: S608 - a number of ours


def begin_reading(*, settings: str = "") -> bytes:
    """One moment, for all that is read; `settings` are for this transaction alone."""
    return f"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {settings}{_FACTS} FROM schema_version".encode()


def begin_writing(scopes: Sequence[str] | None, *, settings: str = "") -> bytes:
    """Alone, or beside others with these scopes."""
    alone = scopes is None
    taken = [f"pg_advisory_xact_lock{'' if alone else '_shared'}({BOARD}, hashtext('{SCHEMA}'))"]
    taken += [f"pg_advisory_xact_lock{mode}({SCOPE}, {number})" for number, mode in locks_of(scopes).items()]
    # A verb beside others is a few statements that find their rows by key or in one order: to plan each anew takes longer than to run it.
    plans = "" if alone else "SET LOCAL plan_cache_mode = force_generic_plan; "
    return f"BEGIN; {settings}{plans}SELECT {', '.join(taken)}; {_SHOWN}".encode()


def locks_of(scopes: Sequence[str] | None) -> dict[int, str]:
    """`kind:name` keeps out who names the same, `kind` everybody who names one of that kind; in the order they are taken in."""
    locks: dict[int, str] = {}
    for scope in scopes or ():
        kind, _, name = scope.partition(":")
        if name:
            locks.setdefault(_number(kind), "_shared")
        locks[_number(scope)] = ""
    return dict(sorted(locks.items()))


def _number(scope: str) -> int:
    """Two scopes with one number wait for each other without need, and nothing worse."""
    return crc32(scope.encode("utf-8", "surrogateescape")) - 2**31

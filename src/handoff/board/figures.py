"""How much of everything there is at one moment, and what the rows tell of the past, for whoever draws or watches it.

What happened so far is counted in the tally. It follows the journal in small steps, so that no writer waits for it. Its counts stay when
old lines of the journal are put away and ended tasks are forgotten: they only ever grow."""

from __future__ import annotations

from collections import Counter

from handoff.base.record import TYPE_CHECKING, Record
from handoff.board import gates
from handoff.board.events import journal, texts
from handoff.board.sessions import executors, expenses, holds, pauses, sessions
from handoff.store.database import beside_others, fetch_all

if TYPE_CHECKING:
    from typing import Any

    from handoff.board.events.journal import Event, Progress
    from handoff.board.sessions.executors import Executor
    from handoff.board.sessions.pauses import Pause
    from handoff.store.database import Database, Store, Transaction


class BoardFigures(Record):
    """One moment, and the counts until then."""

    tasks: dict[tuple[str, str], int]
    """Live tasks by project and state."""
    oldest_ready: dict[str, float]
    """Seconds the oldest ready task of a project has been ready."""
    overdue: dict[str, int]
    """Running tasks whose lease is over and that nobody has taken back yet."""
    sessions: dict[tuple[str, str, str], int]
    """At work, by project, agent and host."""
    waits: dict[str, list[float]]
    """Seconds that open gates have waited."""
    held: list[tuple[str, str]]
    paused: list[Pause]
    incidents: dict[str, int]
    supervisors: list[Executor]
    channels: list[Progress]
    spent: float
    """US dollars in the last 24 hours, all projects together."""
    lines: int
    """How far the journal goes, and how far it is counted."""
    counted: int
    tally: list[TallyRow]
    now: float

    @property
    def projects(self) -> list[str]:
        return sorted({name for name, _ in self.tasks} | {row.project for row in self.tally if row.project})


def take(database: Database, *, project: str = "") -> BoardFigures:
    """The figures of a project, or of all; what has none of them is about every project."""
    catch_up(database)
    with database.transaction(write=False) as transaction:
        now = transaction.now()
        rows = transaction.query("count_states", project=project, now=now, lease_now=transaction.lease_now())
        waiting = gates.listing(transaction, project=project)
        incidents = transaction.query("count_open_incidents", project=project)
        return BoardFigures(
            tasks={(row["project"], row["state"]): int(row["count"]) for row in rows},
            oldest_ready={
                row["project"]: now - row["oldest"] for row in rows if row["state"] == "ready" and row["oldest"]
            },
            overdue={row["project"]: int(row["overdue"]) for row in rows if row["state"] == "running"},
            sessions=Counter(
                (one.project, one.agent, one.host) for one in sessions.at_work(transaction, project=project)
            ),
            waits={
                name: [now - one.gate.opened_at for one in waiting if one.project == name]
                for name in {one.project for one in waiting}
            },
            held=[(one.name, one.host) for one in holds.listing(transaction) if one.kind == holds.AGENT],
            paused=[one for one in pauses.listing(transaction) if project in ("", one.project) or not one.project],
            incidents={row["project"]: int(row["count"]) for row in incidents},
            supervisors=[one for one in executors.listing(transaction) if one.state == executors.ALIVE],
            channels=list(journal.list_channels(transaction).values()),
            spent=expenses.of_a_day(transaction),
            lines=journal.last_seq(transaction),
            counted=mark(transaction),
            tally=tally_rows(transaction, project=project),
            now=now,
        )


_MOST_ROWS = 20_000


class PastRows(Record):
    """The rows since a moment; moments in seconds."""

    ended: tuple[tuple[float, str, int], ...]
    """When a task ended, as what, and at which try."""
    answers: tuple[tuple[float, float], ...]
    """When a gate was answered, and how long it had waited."""
    endings: tuple[tuple[str, int], ...]
    expenses: tuple[tuple[float, str, float, bool], ...]
    """When a session was heard of last, of which agent, what it cost, and whether that is all of it."""


def past_since(store: Store, *, moment: float, project: str = "") -> PastRows:
    """Everything since a moment, of one project or of all."""
    asked = {"since": moment, "project": project}
    with store.transaction(write=False) as transaction:
        ended = transaction.query("ended_tasks_since", **asked, limit=_MOST_ROWS)
        answers = transaction.query("answered_gates_since", **asked, limit=_MOST_ROWS)
        endings = transaction.query("session_endings_since", **asked)
        expenses = transaction.query("expenses_since", **asked, limit=_MOST_ROWS)
    return PastRows(
        ended=tuple((float(row["ended_at"]), str(row["state"]), int(row["attempt"])) for row in ended),
        answers=tuple((float(row["answered_at"]), float(row["answered_at"] - row["opened_at"])) for row in answers),
        endings=tuple((str(row["ending"]) or "ended", int(row["number"])) for row in endings),
        expenses=tuple(
            (float(row["at"]), str(row["agent"]), float(row["money"]), row["basis"] != "unknown") for row in expenses
        ),
    )


# --- the tally ---------------------------------------------------------------------------------------------------

LINES, CHECKS, SESSIONS, COST, LOST = "lines", "checks", "sessions", "cost", "lost"
TOKENS, UNPRICED = "tokens", "unpriced"
TASK_WAIT, SESSION, GATE_ANSWER = "task_wait", "session", "gate_answer"
BUCKETS = (1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0, 86_400.0)
"""Upper bounds of seconds; what took longer is in a last one without a bound."""
STEP = 500
_MOST_STEPS = 20
_MARK = "tally"
_ANSWERS = ("gate.approved", "gate.rejected")


class TallyRow(Record):
    """One count, with the sum of what was counted where that is an amount."""

    project: str
    name: str
    label: str
    number: int
    total: float


class _Counts:
    def __init__(self) -> None:
        self._found: dict[tuple[str, str, str], tuple[int, float]] = {}

    def add(self, project: str, name: str, label: str = "", amount: float = 0.0) -> None:
        number, total = self._found.get((project, name, label), (0, 0.0))
        self._found[project, name, label] = (number + 1, total + amount)

    def add_seconds(self, project: str, name: str, seconds: float) -> None:
        bound = next((f"{one:g}" for one in BUCKETS if seconds <= one), "+Inf")
        self.add(project, name, bound, max(0.0, seconds))

    def rows(self) -> list[dict[str, Any]]:
        # In one order: two followers that meet never wait for each other in a circle.
        return [
            {"project": project, "name": name, "label": label, "number": number, "total": total}
            for (project, name, label), (number, total) in sorted(self._found.items())
        ]


def step(database: Database, *, limit: int = STEP) -> int:
    """Count some more lines of the journal; how many. Two at once count nothing twice: only one moves the mark."""
    settled = database.settled()
    with database.transaction(write=False) as transaction:
        mark = transaction.one("get_search_mark", name=_MARK)
        before = int(mark["seq"]) if mark else 0
        events = journal.since(transaction, seq=before, limit=limit, settled=settled)
        counts = _Counts()
        for event in events:
            _count(transaction, event, counts)
    return _write(database, before, events[-1].seq, counts) and len(events) if events else 0


@beside_others
def _write(store: Store, before: int, seq: int, counts: _Counts) -> bool:
    with store.transaction(scopes=()) as transaction:
        transaction.execute("add_search_mark", name=_MARK)
        if not transaction.execute("move_search_mark", name=_MARK, before=before, seq=seq):
            return False  # another process has just counted them
        transaction.execute_many("add_to_tally", counts.rows())
    return True


def catch_up(database: Database) -> None:
    """Count what is new, within a bound: somebody waits for it."""
    for _ in range(_MOST_STEPS):
        if step(database) < STEP:
            return


def mark(store: Store) -> int:
    """How far the journal is counted."""
    with store.transaction(write=False) as transaction:
        row = transaction.one("get_search_mark", name=_MARK)
    return int(row["seq"]) if row else 0


def tally_rows(store: Store, *, project: str = "") -> list[TallyRow]:
    """Everything that is counted, of one project or of all."""
    return fetch_all(store, TallyRow, "list_tally", project=project)


def names_of(label: str) -> list[str]:
    """What a label of several words holds."""
    return [str(one) for one in texts.read(label, [])]


# --- what a line counts for --------------------------------------------------------------------------------------


def _count(transaction: Transaction, event: Event, counts: _Counts) -> None:
    project = event.project
    counts.add(project, LINES, event.kind)
    check = event.body.get("check")
    if event.kind == "task.claimed":
        began = _ready_since(transaction, event)
        if began is not None:
            counts.add_seconds(project, TASK_WAIT, event.at - began)
    elif event.kind == "task.finished":
        row = transaction.one("get_task", key=event.task)
        check = texts.read(row["evidence"], {}).get("check") if row else None
    elif event.kind in _ANSWERS:
        gate = transaction.one("get_gate", key=event.body.get("gate", 0))
        if gate is not None:
            counts.add_seconds(project, GATE_ANSWER, event.at - gate["opened_at"])
    elif event.kind == "session.concluded":
        _count_session(transaction, event, counts)
    elif event.kind in ("task.expired", "task.blocked") and event.body.get("reason", "").startswith(journal.SILENT):
        counts.add(project, LOST)
    if isinstance(check, dict) and "green" in check:
        counts.add(project, CHECKS, "green" if check["green"] else "red", float(check.get("seconds", 0.0)))


def _count_session(transaction: Transaction, event: Event, counts: _Counts) -> None:
    session = transaction.one("get_session", id=event.session)
    agent, host = (session["agent"], session["host"]) if session else ("", "")
    counts.add(event.project, SESSIONS, texts.write([agent, host, event.body.get("outcome", "")]))
    claimed = transaction.one("claim_of_session", task=event.task, session=event.session)
    if claimed is not None:
        counts.add_seconds(event.project, SESSION, event.at - claimed["at"])
    spent = transaction.one("get_expense", session=event.session)
    if spent is not None:
        counts.add(event.project, COST, agent, spent["money"])
        for kind in ("input", "cached", "output"):
            counts.add(event.project, TOKENS, texts.write([agent, kind]), float(spent[kind]))
        if spent["basis"] == "unknown":
            counts.add(event.project, UNPRICED, agent)


def _ready_since(transaction: Transaction, event: Event) -> float | None:
    """When a task that was claimed had become ready; parts of a batch are ready as they are written down."""
    row = transaction.one("ready_before", task=event.task, seq=event.seq)
    if row is not None and row["at"] is not None:
        return float(row["at"])
    task = transaction.one("get_task", key=event.task)
    return float(task["created_at"]) if task else None

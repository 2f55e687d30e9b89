"""How much of everything there is at one moment, and what the rows tell of the past, for whoever draws or watches it."""

from __future__ import annotations

from collections import Counter

from handoff.base.record import TYPE_CHECKING, Record
from handoff.board import gates
from handoff.board.events import channels, tally
from handoff.board.sessions import executors, expenses, holds, pauses, sessions

if TYPE_CHECKING:
    from handoff.board.events.channels import Progress
    from handoff.board.events.tally import TallyRow
    from handoff.board.sessions.executors import Executor
    from handoff.board.sessions.pauses import Pause
    from handoff.store.database import Database, Store


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
    tally.catch_up(database)
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
            channels=list(channels.listing(transaction).values()),
            spent=expenses.of_a_day(transaction),
            lines=channels.last_seq(transaction),
            counted=tally.mark(transaction),
            tally=tally.listing(transaction, project=project),
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

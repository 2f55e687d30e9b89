"""What the rows tell of the past, for charts: what ended, how long people took to answer, how sessions ended, what they cost."""

from __future__ import annotations

from handoff.base.record import TYPE_CHECKING, Record

if TYPE_CHECKING:
    from handoff.store.database import Store

LIMIT = 20_000


class PastRows(Record):
    """The rows since a moment; moments in seconds."""

    ended: tuple[tuple[float, str, int], ...]
    """When a task ended, as what, and at which try."""
    answers: tuple[tuple[float, float], ...]
    """When a gate was answered, and how long it had waited."""
    endings: tuple[tuple[str, int], ...]
    expenses: tuple[tuple[float, str, float, bool], ...]
    """When a session was heard of last, of which agent, what it cost, and whether that is all of it."""


def since(store: Store, *, moment: float, project: str = "") -> PastRows:
    """Everything since a moment, of one project or of all."""
    asked = {"since": moment, "project": project}
    with store.transaction(write=False) as transaction:
        ended = transaction.query("ended_tasks_since", **asked, limit=LIMIT)
        answers = transaction.query("answered_gates_since", **asked, limit=LIMIT)
        endings = transaction.query("session_endings_since", **asked)
        expenses = transaction.query("expenses_since", **asked, limit=LIMIT)
    return PastRows(
        ended=tuple((float(row["ended_at"]), str(row["state"]), int(row["attempt"])) for row in ended),
        answers=tuple((float(row["answered_at"]), float(row["answered_at"] - row["opened_at"])) for row in answers),
        endings=tuple((str(row["ending"]) or "ended", int(row["number"])) for row in endings),
        expenses=tuple(
            (float(row["at"]), str(row["agent"]), float(row["money"]), row["basis"] != "unknown") for row in expenses
        ),
    )

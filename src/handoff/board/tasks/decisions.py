"""What was decided about finished work: one row, written before anything is done about it, so that whoever finds it goes on."""

from __future__ import annotations

from handoff.base.errors import Conflict
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.events import texts
from handoff.board.tasks.tasks import stale
from handoff.store.database import fetch_all, fetch_one

if TYPE_CHECKING:
    from typing import Any

    from handoff.board.tasks.flows import Flow
    from handoff.board.tasks.tasks import Task
    from handoff.store.database import Store, Transaction

OPEN, WAITING, DONE = "open", "waiting", "done"
LIMIT = 200


class Decision(Record):
    """Open: to be carried out on its host. Waiting: a person is asked at the task's gate. Then done, or withdrawn."""

    key: int
    project: str
    task: int | None
    """None: a phase without a session, which has no task."""
    flow: int | None
    """The flow whose phase it is about."""
    fence: int
    """Of the session that holds the task; 0 where a person decided and nobody held it."""
    session: str
    host: str
    state: str
    body: str
    made_at: float
    ended_at: float | None

    @property
    def intent(self) -> dict[str, Any]:
        """What is to be done, as it was written."""
        return dict(texts.read(self.body, {}))


def add(
    transaction: Transaction, task: Task, *, fence: int, session: str, host: str, intent: dict[str, Any]
) -> Decision:
    """Write down what is to be done. An earlier decision that waits for a person is replaced by this one.

    Raises Conflict where the task is in other hands.
    """
    live = of_task(transaction, key=task.key)
    if live is not None and live.state == OPEN:
        raise Conflict(f"'{task.label}' is being finished just now.", f"See: handoff show {task.label}")
    transaction.execute("withdraw_decision", task=task.key, now=transaction.now())
    row = transaction.one(
        "add_decision",
        project=task.project,
        task=task.key,
        fence=fence,
        session=session,
        host=host,
        body=texts.write(intent),
        now=transaction.now(),
    )
    if row is None:
        raise stale(task, fence or None)
    return Decision(**row)


def of_task(store: Store, *, key: int) -> Decision | None:
    """What was decided about a task and is not over."""
    return fetch_one(store, Decision, "live_decision", task=key)


def add_phase(
    transaction: Transaction, flow: Flow, *, fence: int, session: str, host: str, intent: dict[str, Any]
) -> Decision | None:
    """The same about the phase that a flow stands in; None where somebody else has moved the flow on."""
    said = {"fence": fence, "session": session, "host": host, "body": texts.write(intent), "now": transaction.now()}
    row = transaction.one("add_phase_decision", flow=flow.key, version=flow.version, **said)
    return Decision(**row) if row is not None else None


def of_flow(store: Store, *, key: int) -> Decision | None:
    """What was decided about the phase of a flow and is not over."""
    return fetch_one(store, Decision, "live_phase_decision", flow=key)


def withdraw_phase(transaction: Transaction, flow: Flow) -> None:
    """The flow is taken back: nothing more is done about its phase."""
    transaction.execute("withdraw_phase_decision", flow=flow.key, now=transaction.now())


def open_on(store: Store, *, host: str) -> list[Decision]:
    """What was decided on this host and is not carried out yet, the oldest first."""
    return fetch_all(store, Decision, "list_open_decisions", host=host, limit=LIMIT)


def in_review(store: Store, *, project: str = "") -> list[Decision]:
    """Finished work that a person is to look at before it lands, the oldest first."""
    found = fetch_all(store, Decision, "list_waiting_decisions", project=project, limit=LIMIT)
    return [one for one in found if one.intent.get("review")]


def risk_of(decision: Decision) -> tuple[int, int]:
    """What speaks for looking at finished work early: how many tests it weakens, and how many lines it changes."""
    weakened, lines = decision.intent.get("risk") or (0, 0)
    return int(weakened), int(lines)


def review_rank(reviewed: Decision | None, asked_at: float) -> tuple[float, ...]:
    """The order of what waits for a person: questions as they came, then reviews, weakened tests first, then size, then age."""
    if reviewed is None:
        return 0.0, 0.0, 0.0, asked_at
    weakened, lines = risk_of(reviewed)
    return 1.0, float(not weakened), -float(lines), asked_at


def move(transaction: Transaction, decision: Decision, *, state: str, intent: dict[str, Any] | None = None) -> Decision:
    """The decision in another state, or as it was planned anew. Raises Conflict where somebody else has moved it."""
    row = transaction.one(
        "put_decision",
        key=decision.key,
        seen=decision.state,
        state=state,
        body=decision.body if intent is None else texts.write(intent),
        ended_at=transaction.now() if state == DONE else None,
    )
    if row is None:
        raise Conflict("What was decided about this work has changed meanwhile.", "Look at it again: handoff status")
    return Decision(**row)

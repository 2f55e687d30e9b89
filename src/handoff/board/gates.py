"""Gates: a row that waits for a person's yes or no. Nothing else waits."""

from __future__ import annotations

from handoff.base.errors import Conflict, UserError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board import journal, outcomes, states, tasks, texts

if TYPE_CHECKING:
    from handoff.board.tasks import Task
    from handoff.store.database import Store, Transaction

OPEN, APPROVED, REJECTED, WITHDRAWN = "open", "approved", "rejected", "withdrawn"
MOST = 1000


class Gate(Record):
    """A question about a task. `on_yes` is the state a yes gives it: ready (go on) or done (that was all)."""

    key: int
    task: int
    question: str
    on_yes: str
    state: str
    opened_at: float
    due_at: float | None
    overdue_at: float | None
    answered_at: float | None
    answered_by: str
    reason: str


class Waiting(Record):
    """A gate with the name of its task."""

    gate: Gate
    project: str
    task: str


def ask(
    store: Store,
    *,
    key: int,
    question: str,
    fence: int | None = None,
    on_yes: str = states.READY,
    due_seconds: float | None = None,
) -> Gate:
    """Put the task behind a gate. The session that held it lets it go: a gate holds no process."""
    texts.check(question, "question")
    if on_yes not in (states.READY, states.DONE):
        raise UserError(f"A yes makes a task ready or done, not '{on_yes}'.")
    with store.transaction() as transaction:
        task = outcomes.let_go(transaction, tasks.get(transaction, key=key), state=states.GATED, fence=fence)
        due = None if due_seconds is None else transaction.now() + due_seconds
        (row,) = transaction.query(
            "add_gate", task=key, question=question, on_yes=on_yes, due_at=due, now=transaction.now()
        )
        journal.append(transaction, "gate.opened", task=task, question=question)
        return Gate(**row)


def approve(store: Store, *, key: int, answered_by: str = "", reason: str = "") -> outcomes.Outcome:
    """Yes, to the gate the task `key` waits at. The second answer to a gate is refused."""
    with store.transaction() as transaction:
        gate, task = _answer(transaction, key, state=APPROVED, answered_by=answered_by, reason=reason)
        if gate.on_yes == states.DONE:
            return outcomes.finish(transaction, key=key, summary=task.result or gate.question, session=answered_by)
        return outcomes.Outcome(outcomes.let_go(transaction, task, state=states.READY, fence=None))


def reject(store: Store, *, key: int, reason: str, answered_by: str = "") -> outcomes.Outcome:
    """No: the task is blocked with the reason; `retry` lets it try again."""
    if not reason.strip():
        raise UserError("Say why it is rejected: the next session reads it.")
    with store.transaction() as transaction:
        _answer(transaction, key, state=REJECTED, answered_by=answered_by, reason=reason)
        return outcomes.block(transaction, key=key, reason=f"rejected: {reason.strip()}", session=answered_by)


def listing(store: Store, *, project: str = "", state: str = OPEN, most: int = MOST) -> list[Waiting]:
    """Gates with the names of their tasks, the oldest first; an empty `state` means all."""
    found = []
    with store.transaction(write=False) as transaction:
        for row in transaction.query("list_gates", project=project, state=state, most=most):
            name, scope, owner = row.pop("task_id"), row.pop("scope"), row.pop("project")
            found.append(Waiting(Gate(**row), owner, f"{scope}/{name}" if scope else name))
    return found


def of_task(store: Store, *, key: int) -> Gate | None:
    """The latest gate of a task, open or answered."""
    with store.transaction(write=False) as transaction:
        row = transaction.one("last_gate_of", task=key)
    return Gate(**row) if row else None


def _answer(transaction: Transaction, key: int, *, state: str, answered_by: str, reason: str) -> tuple[Gate, Task]:
    task = tasks.get(transaction, key=key)
    row = transaction.one("open_gate_of", task=key)
    if row is None:
        last = transaction.one("last_gate_of", task=key)
        if last is None:
            raise Conflict(f"Task '{task.label}' waits for nobody's answer.", "See: handoff gates")
        by = f" by {last['answered_by']}" if last["answered_by"] else ""
        raise Conflict(f"The gate of '{task.label}' was already {last['state']}{by}.", "See: handoff gates")
    (answered,) = transaction.query(
        "answer_gate", key=row["key"], state=state, answered_by=answered_by, reason=reason, now=transaction.now()
    )
    journal.append(transaction, f"gate.{state}", task=task, session=answered_by, reason=reason)
    return Gate(**answered), task

"""Gates: a row that waits for a person's answer. Nothing else waits."""

from __future__ import annotations

from handoff.base.errors import Conflict, UserError
from handoff.base.markdown import quoted
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.events import journal, texts
from handoff.board.tasks import questions, states, tasks
from handoff.store.database import fetch_all, fetch_one

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from handoff.board.tasks import outcomes
    from handoff.board.tasks.tasks import Task
    from handoff.store.database import Store, Transaction

OPEN, APPROVED, REJECTED = "open", "approved", "rejected"
YES, NO = "yes", "no"
SAID_NO = "rejected: "
"""How the reason of a task begins to which a person said no."""
TIME_IS_UP = "the time limit"
LIMIT = 1000


class Gate(Record):
    """A question about a task. `on_yes` is the state a yes gives it: ready (go on) or done (that was all).

    `subject` is the text a person may change, `answer` what they said: their own words to an open question, or that text
    as they want it. `fallback` is what counts when nobody answers until `due_at`. `code` answers this gate, once, for whoever knows it: it goes to people, not to logs.
    """

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
    fallback: str
    subject: str
    answer: str
    code: str
    choices: str = ""
    cap: str = ""
    """The setting of the cap it asks to raise, and by how much its `answer` did; empty: it asks for something else."""

    @property
    def asked(self) -> str:
        """The question alone; what there is to go by stands below it."""
        return self.question.partition("\n")[0]

    @property
    def open_ended(self) -> bool:
        """Whether any text answers it: a session asked. What handoff itself asks is answered with yes or no."""
        return self.choices != ""

    @property
    def offered(self) -> tuple[str, ...]:
        """The answers its asker offers."""
        return tuple(texts.read(self.choices, ()))

    def command(self, name: str) -> str:
        """What can be typed after `handoff` as it is: the likeliest answer, or a look at the question."""
        return f"answer {name}" if self.open_ended and not self.offered else self.commands(name)[0]

    @property
    def answers(self) -> tuple[str, ...]:
        """What answers it as one types it, the likeliest first."""
        free = "'yes AMOUNT'" if self.cap else "'YOUR ANSWER'"
        words = (*map(quoted, self.offered), *((free,) if self.open_ended else ()))
        return words if self.offered else (*words, "yes", "no WHY")

    def commands(self, name: str) -> list[str]:
        """The commands that answer it."""
        return [f"answer {name} {word}" for word in self.answers]

    def shown(self) -> dict[str, Any]:
        """The gate as a list shows it: without its code."""
        return {**{name: value for name, value in self._asdict().items() if name != "code"}, "choices": self.offered}


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
    fallback: str = "",
    subject: str = "",
    choices: Sequence[str] | None = None,
    cap: str = "",
) -> Gate:
    """Put the task behind a gate. The session that held it lets it go: a gate holds no process."""
    from handoff.board.tasks import outcomes  # late: `status` lists gates and moves nothing

    texts.check(question, "question")
    texts.check(subject, "text")
    if fallback not in ("", YES, NO, *(choices or ())):
        raise UserError(f"What counts when nobody answers is yes, no or one of the choices, not '{fallback}'.")
    if fallback and due_seconds is None:
        raise UserError("A default needs a time after which it counts.", "For example: --within 2h --default no")
    if on_yes not in (states.READY, states.DONE):
        raise UserError(f"A yes makes a task ready or done, not '{on_yes}'.")
    with store.transaction() as transaction:
        found = tasks.get(transaction, key=key)
        if found.state == states.WAITING:  # only a batch that lacks a part puts its own fan-in there
            raise tasks.stale(found, fence)
        task = outcomes.let_go(transaction, found, state=states.GATED, fence=fence)
        due = None if due_seconds is None else transaction.now() + due_seconds
        row = questions.put(
            transaction,
            task,
            question=question,
            on_yes=on_yes,
            due_at=due,
            fallback=fallback,
            subject=subject,
            choices=choices,
            cap=cap,
        )
        return Gate(**row)


def approve(
    store: Store,
    *,
    key: int,
    answered_by: str = "",
    reason: str = "",
    answer: str = "",
    summary: str = "",
    evidence: Mapping[str, Any] | None = None,
) -> outcomes.Outcome:
    """Yes, to the gate the task `key` waits at, perhaps with the text as it should be. The second answer is refused.

    `summary` and `evidence` are those of a task that a yes ends.
    """
    from handoff.board.tasks import outcomes, races

    texts.check(reason, "reason")
    texts.check(answer, "text")
    with store.transaction() as transaction:
        gate, task = _answer(transaction, key, state=APPROVED, answered_by=answered_by, reason=reason, answer=answer)
        if gate.on_yes == states.DONE and evidence is None:
            won = races.chosen(transaction, task, reason)  # where several had run for it
            summary, evidence = won if won is not None else (summary, evidence)
        if gate.on_yes == states.DONE:
            said = summary or task.result or gate.asked
            return outcomes.finish(transaction, key=key, summary=said, evidence=evidence, session=answered_by)
        # What it comes after may still be under way; a fan-in is asked about when its batch has ended, whoever ended it.
        after = states.WAITING if task.open_needs > 0 and task.kind != tasks.FAN_IN else states.READY
        return outcomes.Outcome(outcomes.let_go(transaction, task, state=after, fence=None))


def reject(store: Store, *, key: int, reason: str, answered_by: str = "") -> outcomes.Outcome:
    """No: the task is blocked with the reason; `retry` lets it try again."""
    from handoff.board.tasks import outcomes

    if not reason.strip():
        raise UserError("Say why it is rejected: the next session reads it.")
    with store.transaction() as transaction:
        _answer(transaction, key, state=REJECTED, answered_by=answered_by, reason=reason)
        return outcomes.block(transaction, key=key, reason=f"{SAID_NO}{reason.strip()}", session=answered_by)


def by_code(store: Store, *, code: str) -> Gate | None:
    """The gate a one-time code answers, if it is one; a used code is refused."""
    with store.transaction(write=False) as transaction:
        row = transaction.one("gate_by_code", code=code)
        if row is not None:
            return Gate(**row)
        used = transaction.one("used_code", code=code)
    if used is None:
        return None
    raise Conflict(f"This code was used: the gate was already {used['state']}.", "See: handoff gate list --all")


def apply_fallback(transaction: Transaction, *, gate: Gate) -> outcomes.Outcome:
    """Nobody answered in time: what was agreed on for that case counts as the answer, and the journal says so."""
    reason = f"nobody answered in time, so '{gate.fallback}' counts"
    if gate.fallback == NO:
        return reject(transaction, key=gate.task, reason=reason, answered_by=TIME_IS_UP)
    chosen = "" if gate.fallback == YES else gate.fallback
    return approve(transaction, key=gate.task, answered_by=TIME_IS_UP, reason=reason, answer=chosen)


def listing(store: Store, *, project: str = "", state: str = OPEN, limit: int = LIMIT) -> list[Waiting]:
    """Gates with the names of their tasks, the oldest first; an empty `state` means all."""
    return fetch_all(store, _waiting, "list_gates", project=project, state=state, limit=limit)


def page(
    store: Store, *, project: str = "", include_ended: bool = False, after: int = 0, limit: int = 100
) -> list[Waiting]:
    """Gates by their keys, with the names of their tasks: what comes after one, whatever happened to the rows before it."""
    asked = {"project": project, "ended": int(include_ended), "after": after, "limit": limit}
    return fetch_all(store, _waiting, "page_of_gates", **asked)


def get(store: Store, *, key: int) -> Waiting | None:
    """One gate with the name of its task."""
    return fetch_one(store, _waiting, "get_gate", key=key)


def _waiting(*, task_id: str, scope: str, project: str, **row: Any) -> Waiting:
    return Waiting(Gate(**row), project, f"{scope}/{task_id}" if scope else task_id)


def about_cap(store: Store, *, cap: str, task: int = 0, batch: int = 0) -> list[Gate]:
    """What people were asked about a cap on money, the latest first."""
    return fetch_all(store, Gate, "list_caps", cap=cap, task=task, batch=batch)


def of_task(store: Store, *, key: int) -> Gate | None:
    """The latest gate of a task, open or answered."""
    return fetch_one(store, Gate, "last_gate_of", task=key)


def _answer(
    transaction: Transaction, key: int, *, state: str, answered_by: str, reason: str, answer: str = ""
) -> tuple[Gate, Task]:
    task = tasks.get(transaction, key=key)
    row = transaction.one("open_gate_of", task=key)
    if row is None:
        last = transaction.one("last_gate_of", task=key)
        if last is None:
            raise Conflict(f"Task '{task.label}' waits for nobody's answer.", "See: handoff gate list")
        by = f" by {last['answered_by']}" if last["answered_by"] else ""
        raise Conflict(
            f"The gate of '{task.label}' was already {last['state']}{by}.", f"See: handoff show {task.label}"
        )
    (answered,) = transaction.query(
        "answer_gate",
        key=row["key"],
        state=state,
        answered_by=answered_by,
        reason=reason,
        answer=answer,
        now=transaction.now(),
    )
    how: dict[str, Any] = {}
    if answer:
        how = {"answer": answer} if row["choices"] else {"edited": True}
    if answered_by == TIME_IS_UP:
        how["by_default"] = True
    journal.append(transaction, f"gate.{state}", task=task, session=answered_by, reason=reason, gate=row["key"], **how)
    return Gate(**answered), task

"""The kinds of tasks: who judges each, where it works, where its work lands, what a person's yes does; whose report it is, and what came of it.

Kept light, because a heartbeat loads it."""

from __future__ import annotations

from handoff.base.errors import Refused
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.events import journal
from handoff.board.tasks.tasks import ENTRANT, FAN_IN, PHASE, PLAN, SUB_TASK, TASK

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from handoff.agents.contract import AgentOutcome
    from handoff.board.tasks.outcomes import Outcome
    from handoff.board.tasks.tasks import Task
    from handoff.engine.app import App
    from handoff.engine.place.proof.evidence import Evidence
    from handoff.store.database import Transaction

BRANCH, IN_ORDER, FLOW, NOWHERE = "branch", "in order", "flow", "nowhere"


class Kind(Record):
    """What becomes of the work of one kind of task. A kind of your own is a row of `KINDS`; the recipe is in CONTRIBUTING.md."""

    judge: str = ""
    """The module that judges it when its session is over; empty: its check does, also when it is reported before.

    Such a module has `decide(app, ended)`. It ends the task or hands it back, with `tell_concluded` in that very transaction, and gives
    what came of the session; None leaves it to the ordinary way. It may be called again after a crash: then `ended.holds` is False.
    It may have `prepare(app, task) -> str`, called before the task has its clone: the baton, where it has one of its own. Where it asks a
    person, it has `check_answer`, and `answer` (after a yes) or `approve` (the yes itself): they let a question pass that is not theirs,
    because any session may ask, and so does handoff about money."""
    lands: str = BRANCH
    """Where its work goes: the branch it began at, the same where the person wants parts in order, its flow's own, or nowhere."""
    follows: str = ""
    """The module that says what follows: its `carry_on(app, flow, patience=)` does what was decided. Empty: who waits for the task goes on."""
    documents: bool = True
    """Whether what it wrote in a feature's documents comes home with it. A kind with a `judge` brings them home itself."""
    clone: str = ""
    """Who works in a clone by default: always, owning (who owns paths), unattended (nobody sits before it), joining (who joins work that
    was made in clones)."""
    by_hand: tuple[str, str] = ("", "")
    """Where a person cannot work on it themselves: why, and what they do instead. With `{program}`, `{label}` and `{scope}`."""
    called_done: tuple[str, str] = ("", "")
    """The same where a person cannot say that it is done."""


KINDS = {
    TASK: Kind(clone="unattended"),
    SUB_TASK: Kind(lands=IN_ORDER, documents=False, clone="owning"),
    ENTRANT: Kind(lands=NOWHERE, documents=False, clone="always"),
    FAN_IN: Kind(clone="joining"),
    PHASE: Kind(
        judge="handoff.engine.work.flows.conclude",
        lands=FLOW,
        follows="handoff.engine.work.flows.advance",
        by_hand=(
            "is a phase of a flow: its session works in the flow's own workspace.",
            "Do it yourself: {program} flow step {scope} --agent person",
        ),
        called_done=(
            "is a phase of a flow: it is done when its check says so.",
            "Do it now: {program} flow step {scope}. Or pass it over: flow step {scope} --skip REASON",
        ),
    ),
    PLAN: Kind(
        judge="handoff.engine.work.tasks.splitting.planner",
        lands=NOWHERE,
        clone="always",
        by_hand=(
            "is for an agent: its session plans a split in a clone of its own.",
            "Write the manifest yourself instead: {program} batch example",
        ),
        called_done=("is done when you have answered what it proposes.", "End it: {program} cancel {label}"),
    ),
}


def refuse_person(task: Task, words: tuple[str, str], program: str) -> None:
    """Refuse what a person does in another way, in the words of the task's kind."""
    why, instead = words
    if why:
        raise Refused(f"'{task.label}' {why}", instead.format(program=program, label=task.label, scope=task.scope))


def is_judged_later(task: Task) -> bool:
    """Whether it is judged when its session is over: what it reports before is only written down."""
    return bool(KINDS[task.kind].judge)


class EndedSession(Record):
    """A session that is over. Nothing of it runs any more; who decides keeps what it does not commit."""

    task: Task
    """The row as it is now."""
    fence: int
    session: str
    workspace: str
    outcome: AgentOutcome
    """How the client came out, by its own words and its exit code."""
    holds: bool
    """Whether the session still holds the task; otherwise it has reported, or the task went on without it."""


def decider_of(task: Task) -> Callable[[App, EndedSession], AgentOutcome | None] | None:
    """The function for tasks of this kind; it is imported only when it is needed."""
    found: Callable[[App, EndedSession], AgentOutcome | None] | None = getattr(_module(task), "decide", None)
    return found


def prepare(app: App, task: Task) -> str:
    """The baton of a task whose kind has its own, with the workspace made ready for it; nothing for all others."""
    own = getattr(_module(task), "prepare", None)
    return str(own(app, task)) if own is not None else ""


def check_answer(app: App, task: Task, answer: str) -> None:
    """Before a person's yes counts: its kind may refuse what would be done then. Any words answer what a session asked."""
    from handoff.board import gates

    gate, check = gates.of_task(app.database, key=task.key), getattr(_module(task), "check_answer", None)
    if check is not None and (gate is None or not gate.open_ended):
        check(app, task, answer)


def approve(app: App, task: Task, *, by: str, reason: str, answer: str) -> Outcome:
    """A person's yes to the gate of a task, with what its kind makes of it."""
    from handoff.board import gates

    module = _module(task)
    if hasattr(module, "approve"):
        found: Outcome = module.approve(app, task, by=by, reason=reason, answer=answer)
        return found
    outcome = gates.approve(app.database, key=task.key, answered_by=by, reason=reason, answer=answer)
    if hasattr(module, "answer"):  # without it there is nothing more to do: any session may ask
        module.answer(app, task)
    return outcome


def tell_concluded(
    transaction: Transaction, task: Task, session: str, outcome: AgentOutcome, outside: tuple[str, ...] = ()
) -> None:
    """What came of a session, once: in the same transaction as what is made of it, so that no repeat counts it again."""
    known = {event.kind for event in journal.of_task(transaction, key=task.key) if event.session == session}
    if "session.concluded" not in known:
        journal.append(
            transaction, "session.concluded", task=task, session=session, outcome=outcome.kind, reason=outcome.reason
        )
    if outside and "session.out_of_scope" not in known:
        journal.append(transaction, "session.out_of_scope", task=task, session=session, outside=list(outside[:200]))


def carry_on_flow(app: App, flow: int, *, patience: float) -> str:
    """Carry out what was decided about the phase of a flow, as its kind says; the flow's id."""
    return str(_import(KINDS[PHASE].follows).carry_on(app, flow, patience=patience))


def _module(task: Task) -> Any:
    return _import(KINDS[task.kind].judge) if is_judged_later(task) else None


def _import(name: str) -> Any:
    from importlib import import_module

    return import_module(name)


class CurrentClaim(Record):
    """A task, with which fence the caller speaks for it (none: a person who holds nothing), and where it was claimed."""

    task: Task
    fence: int | None
    session: str
    workspace: str = ""


class Finished(Record):
    """A report that was believed, and why."""

    outcome: Outcome
    evidence: Evidence
    trouble: str = ""
    """Why the record in git could not be written; the task is done all the same."""
    waits: str = ""
    """What keeps the work from landing: it is judged and kept, and a person is asked."""
    ticked: str = ""
    """What became of the step of a plan it was made from."""

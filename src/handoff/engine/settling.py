"""What comes of a task when its session is over: the report, else the evidence, else another attempt."""

from __future__ import annotations

from handoff.agents import folder as folders
from handoff.agents.contract import FAILED, KILLED, LIMIT, OK, Outcome
from handoff.agents.keeper import EVENTS
from handoff.base.clock import stamp
from handoff.base.errors import Conflict, HandoffError, Refused
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board import journal, leases, sessions, states, tasks
from handoff.engine import evidence, holding, views
from handoff.engine import tasks as journey
from handoff.git.repo import facts

if TYPE_CHECKING:
    from handoff.agents.session import Session
    from handoff.board.leases import Claim
    from handoff.board.tasks import Task
    from handoff.engine.app import App

_SHOWN = 30
_NOT_REPORTED = "it ended without reporting the task done or blocked"


class Settled(Record):
    """How a session came out and what that made of its task."""

    session: str
    outcome: Outcome
    task: Task
    outside: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        why = f" ({self.outcome.reason})" if self.outcome.reason else ""
        wait = f", to go on at {stamp(self.outcome.until)}" if self.outcome.until else ""
        return f"Session {self.session}: {self.outcome.kind}{why}{wait}. Task '{self.task.label}' is {self.task.state}."


def settle(app: App, *, claim: Claim, session: Session, outcome: Outcome) -> Settled:
    """Turn the end of a session into the task's next state. A report counts first, then the result, then the exit code."""
    task = tasks.get(app.database, key=claim.task.key)
    mine = task.fence == claim.fence and task.held_by == session.name and task.state == states.RUNNING
    if not mine:
        outcome = _reported(task, claim, outcome)
    else:
        outcome, task = _unreported(app, claim, task, session, outcome)
    outside = _strayed(app, task, session.name)
    sessions.end(app.database, id=session.name, ending=outcome.kind)
    with app.database.transaction() as transaction:
        journal.append(
            transaction, "session.settled", task=task, session=session.name, outcome=outcome.kind, reason=outcome.reason
        )
    views.refresh_or_tell(app, task.project, f"Session {session.name} is over")
    return Settled(session.name, outcome, tasks.get(app.database, key=task.key), outside)


def _reported(task: Task, claim: Claim, outcome: Outcome) -> Outcome:
    """The session reported before it ended: what it said is what counts, however its process came out."""
    if task.fence != claim.fence:
        return Outcome(FAILED, "its task was given to another session")
    if task.state in (states.DONE, states.GATED):
        return Outcome(OK, task.result)
    if task.state == states.BLOCKED:
        return Outcome(FAILED, f"blocked: {task.reason}")
    return outcome


def _unreported(app: App, claim: Claim, task: Task, session: Session, outcome: Outcome) -> tuple[Outcome, Task]:
    if outcome.kind == OK:
        outcome = _by_evidence(app, claim, task, session, outcome)
        if outcome.kind == OK:
            return outcome, tasks.get(app.database, key=task.key)
    if outcome.kind == LIMIT:
        waiting = leases.release(app.database, key=task.key, fence=claim.fence, reason=outcome.reason)
        return outcome, tasks.edit(app.database, key=waiting.key, not_before=outcome.until, session=session.name)
    if outcome.kind == KILLED and session.stopped:
        return outcome, leases.release(app.database, key=task.key, fence=claim.fence, reason=outcome.reason)
    reason = outcome.reason or outcome.kind
    now = tasks.get(app.database, key=task.key)
    leases.hand_back(app.database, task=now, reason=reason)
    return outcome, tasks.get(app.database, key=task.key)


def _by_evidence(app: App, claim: Claim, task: Task, session: Session, outcome: Outcome) -> Outcome:
    """A client that cannot report is judged by the task's check; one that could and did not has not finished."""
    if not task.check_command:
        return Outcome(FAILED, _NOT_REPORTED)
    hold = holding.Hold(task, claim.fence, session.name)
    try:
        journey.finish(app, hold, summary=outcome.reason or "judged by its check")
    except (Refused, Conflict) as error:
        return Outcome(FAILED, error.message.partition("\n")[0])
    return outcome


def _strayed(app: App, task: Task, session: str) -> tuple[str, ...]:
    """What lies changed outside the ownership now that nothing of the session runs any more; told in the journal."""
    if not task.patterns:
        return ()
    try:
        outside = evidence.strays(app, task)
    except HandoffError:
        return ()
    if outside:
        with app.database.transaction() as transaction:
            journal.append(transaction, "session.strayed", task=task, session=session, outside=list(outside[:200]))
    return outside


def left_behind(app: App, task: Task) -> str:
    """What earlier sessions of this task left, from facts alone: whoever continues it, of whatever vendor, reads the same."""
    if task.attempt <= 1 and not any(event.kind == "task.released" for event in _events(app, task)):
        return ""
    lines = [f"- {_told(event)}" for event in _events(app, task) if event.kind in _TOLD][-_SHOWN:]
    state = facts(task.workspace, environment=app.git_environment)
    dirty = (evidence.changed_since(app, task.workspace, state.head) or ())[:_SHOWN] if state is not None else ()
    text = "## What came before\n\n" + "\n".join(lines) + "\n"
    if dirty:
        text += "\nChanged and not committed now:\n\n" + "\n".join(f"- `{path}`" for path in dirty) + "\n"
    said = _last_words(app, task)
    if said:
        text += "\nThe last things the session before said:\n\n" + "\n".join(f"> {line}" for line in said) + "\n"
    return text


_TOLD = ("task.claimed", "task.released", "task.expired", "task.doubted", "session.settled", "session.strayed",
         "note.added")  # fmt: skip


def _events(app: App, task: Task) -> list[journal.Event]:
    return journal.of_task(app.database, key=task.key)


def _told(event: journal.Event) -> str:
    body = event.body
    more = body.get("reason") or body.get("text") or body.get("outcome") or ", ".join(body.get("outside", [])[:5])
    return (
        f"{stamp(event.at)} {event.kind}"
        + (f": {more}" if more else "")
        + (f" [{event.session}]" if event.session else "")
    )


def _last_words(app: App, task: Task) -> list[str]:
    """A summary of the last transcript without a model: what the client said, newest last."""
    from handoff.agents import catalog  # noqa: PLC0415 - only when a task is continued
    from handoff.agents.contract import SAID  # noqa: PLC0415

    ended = [event.session for event in _events(app, task) if event.kind == "session.settled" and event.session]
    if not ended:
        return []
    path = folders.place(app.settings.home, task.project, ended[-1])
    agent = str(folders.get(path, folders.FACTS).get("agent", ""))
    if agent not in catalog.OURS:
        return []
    read = catalog.adapter(agent).read
    said: list[str] = []
    for line in folders.tail(path, EVENTS, 60_000).split("\n"):
        said += [event.text for event in read(line) if event.kind == SAID and event.text.strip()]
    return [" ".join(text.split())[:300] for text in said[-5:]]

"""Ending a session for a person, taking its task over, and concluding one that is over and that nobody looks after any more."""

from __future__ import annotations

import os
from contextlib import suppress

from handoff.agents import folder as folders
from handoff.agents.catalog import BY_HAND, start_words
from handoff.agents.records import carry, carry_apart
from handoff.base.errors import Conflict, UserError
from handoff.base.files import locked, make_folder
from handoff.base.process import find
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.events import journal
from handoff.board.sessions import holds, leases, sessions
from handoff.board.tasks import outcomes, states, tasks
from handoff.engine.app.home import person
from handoff.engine.outcome.kinds import CurrentClaim
from handoff.engine.place import pulse, running, task_clones
from handoff.engine.place.pulse import known_session
from handoff.engine.safety.incidents import has_board
from handoff.engine.session import claims, report, start
from handoff.engine.session.placement import NONE
from handoff.engine.work.act import task_of_session
from handoff.engine.work.tasks.admin import find_task

if TYPE_CHECKING:
    from handoff.board.sessions.leases import Claim
    from handoff.board.tasks.tasks import Task
    from handoff.engine.app import App

STOPPED = "a person stopped it"
_PAUSE = 0.2
_FORCE_SECONDS, _PATIENCE_SECONDS = 15.0, 60.0
_PERSONS_LEASE = 86_400.0
"""A person who took a task shows no signs of life while they think."""


class StoppedSession(Record):
    """A session that a person had stopped, and its task as it is now."""

    session: str
    ran: bool
    """Whether anything of it ran."""
    concluded: bool
    """Whether it is known what came of it; else its work is still being judged."""
    task: Task | None


def stop(app: App, *, session: str, reason: str = STOPPED, hold: bool = False) -> StoppedSession:
    """End a session and see it concluded, by whoever looks after it or by us: its task is free again, with no attempt used.

    With `hold` the task is kept for a person from this moment on: no supervisor starts it, and `task claim` takes it.
    """
    known, _ = known_session(app, session)
    if (obstacle := why_not(app, known)) is not None:
        raise obstacle
    task = tasks.look_up(app.database, key=known.task) if known.task is not None else None
    if hold and task is not None:
        hold_for_person(app, task)
    ran = running.stop(app, session=known.id, reason=reason)
    force_at, deadline = (app.clock.monotonic() + seconds for seconds in (_FORCE_SECONDS, _PATIENCE_SECONDS))
    while not (concluded := _is_concluded(app, known.id)) and app.clock.monotonic() < deadline:
        if app.clock.monotonic() > force_at:
            running.kill(app, session=known.id)
        settle(app, session=known.id)
        app.clock.sleep(_PAUSE)
        ran = ran or running.stop(app, session=known.id, reason=reason)  # it was only about to begin
    return StoppedSession(known.id, ran, concluded, tasks.get(app.database, key=task.key) if task is not None else None)


def why_not(app: App, known: sessions.Session) -> UserError | None:
    """Why a session cannot be stopped from here; None where it can."""
    if known.kind != sessions.AGENT:
        return UserError(
            f"Handoff did not start session {known.id}: a person did.",
            f"End it where it runs. Its task goes back with: {app.settings.program} task release --session {known.id}",
        )
    if known.host != app.settings.host:
        return UserError(f"Session {known.id} runs on {known.host}.", "Stop it there.")
    return None


def hold_for_person(app: App, task: Task) -> Task:
    """Keep a task for a person, whoever works on it now: no supervisor of any machine starts it before it is given back."""
    program, by = app.settings.program, person(app)
    fix = f"Take it: {program} take {task.label}. Give it back to the agents: {program} retry {task.label}"
    with app.database.transaction() as transaction:
        if tasks.get(transaction, key=task.key).state == states.BLOCKED:
            outcomes.retry(transaction, key=task.key, session=by)
        holds.hold_for_person(transaction, task, reason=f"kept for {by}", fix=fix)
        return tasks.get(transaction, key=task.key)


# --- take the wheel ---------------------------------------------------------------------------------------------


class TakenTask(Record):
    """A task that a person took from the agents, and where what they made of it lies."""

    task: Task
    ended: str
    """The session that was ended for it; empty where none worked on it."""
    session: str
    """The agent's session that worked on it last; empty where none did."""
    folder: str


def task_meant(app: App, name: str, *, project: str = "") -> Task | None:
    """The task of that name, or of the session of that id; None where there is neither."""
    if not has_board(app):
        return None
    with suppress(UserError):
        return find_task(app, name, project=project)
    try:
        known, _ = known_session(app, name)
    except UserError:
        return None
    return task_of_session(app, app.database, known)


def take(app: App, task: Task) -> TakenTask:
    """Keep a task for the person and end the session that works on it: nobody else can have it from the first write on.

    Who dies in the middle leaves it kept, and the same command goes on from there.
    """
    program, ended = app.settings.program, ""
    refuse_untakable(app, task)
    if task.state != states.RUNNING:
        task = hold_for_person(app, task)
    elif not is_taken(app, task):
        stopped = stop(app, session=task.held_by or "", reason="a person took its task over", hold=True)
        task, ended = stopped.task or task, stopped.session
        if not stopped.concluded:
            kept = f"'{task.label}' is kept for you. Try again: {program} take {task.label}"
            raise Conflict(f"Session {ended} does not end, or its work is still being judged.", kept)
        if task.state != states.READY:
            raise Conflict(
                f"'{task.label}' is {task.state}: its session was faster.", f"See: {program} show {task.label}"
            )
    events = reversed(journal.of_task(app.database, key=task.key))
    session = next((one.session for one in events if one.kind == "session.concluded" and one.session), "")
    clone = task_clones.of_task(app, task)
    return TakenTask(task, ended, session, clone.tree if clone is not None else task.workspace)


def refuse_untakable(app: App, task: Task) -> None:
    """Raise where there is nothing of a task that a person could take."""
    report.refuse_agents_own(app, task)
    if task.ended or task.state in (states.WAITING, states.GATED):
        hint = f"See: {app.settings.program} show {task.label}"
        raise Conflict(f"Task '{task.label}' is {task.state}: nobody works on it.", hint)


def is_taken(app: App, task: Task) -> bool:
    """Whether a person has taken it before on this machine, and it was not given back since."""
    holder = sessions.get(app.database, id=task.held_by or "-")
    held = holds.of_task(app.database, key=task.key, host=holds.EVERYWHERE)
    by_person = holder is not None and holder.kind == sessions.TAB and holder.host == app.settings.host
    return (
        by_person and held is not None and held.until >= holds.FOR_GOOD and not claims.is_open(app, task.held_by or "")
    )


def claim_taken(app: App, taken: TakenTask) -> Claim:
    """Give it to the person, who works where its sessions did; what they report done is judged there."""
    task = taken.task
    again = (task.held_by or "") if task.state == states.RUNNING else ""
    return report.take(
        app,
        task=task.label,
        project=task.project,
        session=again,
        lease=_PERSONS_LEASE,
        workspace=taken.folder,
    )


def conversation_of(app: App, taken: TakenTask) -> list[str]:
    """The words that open the client's own conversation of its last session; none where it left none that a client here finds."""
    if not taken.session:
        return []
    path = folders.place(app.settings.home, taken.task.project, taken.session)
    facts, outcome = folders.get(path, folders.FACTS), folders.get(path, folders.OUTCOME)
    agent = str(facts.get("client") or facts.get("agent", ""))
    client_id = str(outcome.get("client_id") or facts.get("client_id") or "")
    if agent not in BY_HAND or find(BY_HAND[agent].again[0], path=app.settings.path) is None:
        return []
    words, kept = start_words(BY_HAND[agent].again, session=client_id), False
    try:
        state = str(facts.get("state") or path)
        inside = os.path.join(state, folders.CLIENT)
        own = inside if os.path.isdir(inside) else state
        if "" not in words and (apart := carry_apart(agent, words, own, pulse.taken(app, taken.session))):
            return apart
        kept = carry(agent, list(facts.get("records", ())), client_id, app.settings.environment)
    except UserError as error:
        app.notes.append(f"{error.message} {error.hint}")
    return words if client_id and (kept or facts.get("sandbox") == NONE) else []


def let_go(app: App, task: Task) -> None:
    """A person hands on what they had taken; it stays kept until whoever is next is written down."""
    leases.release(app.database, key=task.key, fence=task.fence, reason="its person handed it on")
    claims.drop(app, task.held_by or "")


def give_back(app: App, claimed: Task) -> Task:
    """The person has left: what they did not report goes on with the next session."""
    task = tasks.get(app.database, key=claimed.key)
    if (task.fence, task.state) != (claimed.fence, states.RUNNING):
        return task
    return report.release(app, CurrentClaim(task, task.fence, task.held_by or ""), reason="its person left it")


# --- conclude what nobody looks after -----------------------------------------------------------------------------


def settle(app: App, *, session: str) -> bool:
    """Conclude a session that is over and that nobody looks after; False where it runs, or where somebody does."""
    known, path = known_session(app, session)
    if pulse.ending_of(app, project=known.project, session=known.id, known=known) != pulse.LEFT:
        return False
    make_folder(pulse.place(app), mode=0o700)
    lock = locked(os.path.join(pulse.place(app), f".{known.id}.lock"), what="what came of a session", patience=0)
    try:
        lock.__enter__()
    except Conflict:
        return False  # another command does
    try:
        if _is_concluded(app, known.id):
            return False  # in this moment
        if folders.has_started(path):
            start.watch(app, start.attach(app, session=known.id), tell=lambda _: None)
        else:
            # whoever was to start it is gone: nobody has worked on its task
            with app.database.transaction() as transaction:
                if known.task is not None:
                    with suppress(Conflict):  # it went on without us
                        leases.release(transaction, key=known.task, fence=known.fence, reason="its session never began")
                sessions.end(transaction, id=known.id, ending="not started")
            running.forget(app, known.id)
    finally:
        lock.__exit__()
    return True


def settle_all(app: App) -> list[str]:
    """The same for every session of this machine that was left so; which."""
    return [one.id for one in pulse.left_behind(app) if settle(app, session=one.id)]


def _is_concluded(app: App, session: str) -> bool:
    known = sessions.get(app.database, id=session)
    return known is None or known.ended_at is not None

"""A person speaks to a session that runs: who is meant, whether it can hear, and when the words reach its model."""

from __future__ import annotations

import os

from handoff.agents import catalog
from handoff.agents.dialects import AFTER, DIALECTS, HEARD, STOP
from handoff.agents.history.stores.table import ALIVE, StoredSession
from handoff.base.errors import UsageError, UserError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.events import journal, texts
from handoff.board.sessions import sessions
from handoff.board.tasks import states, tasks
from handoff.engine.app.home import find_project, home_config, person
from handoff.engine.place.pulse import known_session
from handoff.engine.session import mailbox
from handoff.engine.work.act import ActDone, refuse_sessions, task_of_session

if TYPE_CHECKING:
    from typing import Any

    from handoff.board.tasks.tasks import Task
    from handoff.engine.app import App

_LONGEST = 4000


class SaidWords(Record):
    """Words that wait for a session, and when it reads them."""

    session: str
    agent: str
    project: str
    task: Task | None
    text: str
    how: str
    hint: str

    def facts(self) -> dict[str, Any]:
        """For programs."""
        task = self.task.label if self.task else ""
        return {
            "session": self.session,
            "task": task,
            "text": self.text,
            "project": self.project,
            "state": journal.QUEUED,
        }


def as_act(said: SaidWords) -> ActDone:
    """Words that wait for the next hook of its client."""
    words = f"Queued for {said.session}. {said.how}"
    task = (said.task,) if said.task else ()
    return ActDone(text=words, hint=said.hint, facts=said.facts(), style="good", tasks=task)


def keep(app: App, *, session: str, text: str, now: bool = False, project: str = "") -> SaidWords:
    """Keep the words for a session; with `now` only where its turn can be ended for them. Everything is checked first."""
    refuse_sessions(app, "says something to a session")
    text = app.clean(texts.check(text, "text").strip())
    if not text:
        raise UsageError(
            "There were no words to say.", f"For example: {app.settings.program} session say {session} TEXT"
        )
    if len(text) > _LONGEST:
        raise UserError(
            f"{len(text):,} characters are too many: a session hears {_LONGEST:,} at once.",
            "Put them into a file of its workspace, and say which one it is to read.",
        )
    found = _who_hears(app, session, project)
    if now and (isinstance(found, StoredSession) or found.kind != sessions.AGENT or found.host != app.settings.host):
        raise UserError(
            f"--now ends only turns of agents that were started for a task on this machine, not session {found.id}.",
            "Leave --now out: the words wait for it.",
        )
    if isinstance(found, StoredSession):
        return _to_client(app, found, text, project)
    with app.database.transaction() as transaction:
        task = task_of_session(app, transaction, found)
        if task is None or task.held_by != found.id or task.state != states.RUNNING:
            raise _not_running(app, found.id, task)
        journal.append(transaction, journal.PERSON_SAID, task=task, session=person(app), text=text, to=found.id)
    mailbox.mark(app.settings.home, found.id, task.project)
    how, hint = _when_heard(app, found, task)
    return SaidWords(
        session=found.id, agent=found.agent, project=task.project, task=task, text=text, how=how, hint=hint
    )


def _who_hears(app: App, name: str, project: str) -> sessions.Session | StoredSession:
    """The session of that id, whoever works on the task of that name, or the session of a client in this folder."""
    try:
        known, _ = known_session(app, name)
    except UserError as unknown:
        try:
            task = tasks.find(app.database, project=find_project(app, name=project).name, id=name)
        except UserError:
            from handoff.engine.work import take  # reads the clients' stores

            close = [one for one in take.sessions_here(app, words=False) if one.id.startswith(name)]
            if len({(one.client, one.id) for one in close}) != 1:
                raise unknown from None
            return close[0]
        holder = sessions.get(app.database, id=task.held_by or "-")
        if holder is None or task.state != states.RUNNING:
            raise _not_running(app, task.held_by or f"of '{task.label}'", task) from None
        return holder
    if known.ended_at is not None:
        raise _not_running(app, known.id, task_of_session(app, app.database, known))
    return known


def _not_running(app: App, who: str, task: Task | None) -> UserError:
    """Nobody hears it: what to type instead, for where the task stands."""
    program, said = app.settings.program, f"Session {who} has ended: it cannot hear you."
    if task is None:
        return UserError(f"Session {who} holds no task: it cannot hear you.", f"See: {program} session list")
    if task.state == states.RUNNING and task.held_by:
        return UserError(said, f"Say it to the one that works on it now: {program} session say {task.held_by} TEXT")
    if task.ended:
        return UserError(said, f"'{task.label}' is {task.state}. Ask for what is missing: {program} task add NAME TEXT")
    if task.state == states.GATED:
        return UserError(said, f"'{task.label}' waits for your answer: {program} answer {task.label}")
    verb = "retry" if task.state == states.BLOCKED else "task edit"
    return UserError(said, f"Tell its next session: {program} {verb} {task.label} --note TEXT")


def _when_heard(app: App, session: sessions.Session, task: Task) -> tuple[str, str]:
    """When the words reach its model, and what can be done where that is late."""
    program = app.settings.program
    if session.kind != sessions.AGENT:
        how = "It reads them after its next tool call, or with its next handoff command."
        return how, f"Its client needs handoff's hooks for the first: {program} setup hooks status"
    config = home_config(app)
    adapter = catalog.adapter(session.agent, commands=config.values["agents"], where=config.path)
    events = DIALECTS[adapter.dialect].events.values() if adapter.dialect else ()
    if AFTER in events and session.host == app.settings.host:
        return (
            "It reads them after its next tool call, or when it stops.",
            f"How far they got: {program} show {task.label}",
        )
    end = f"To end its turn for them instead: {program} session say {session.id} TEXT --now"
    hint = end if session.host == app.settings.host else ""
    if STOP in events:
        return "It reads them when it stops or reports.", hint
    return f"{adapter.title} hears nothing while it works: the next session of '{task.label}' begins with them.", hint


def _to_client(app: App, session: StoredSession, text: str, project: str) -> SaidWords:
    """A client that a person started, without a task: the hooks in its settings give it the words."""
    program = app.settings.program
    if session.state != ALIVE:
        raise UserError(
            f"Session {session.id} of {session.client} does not run: it cannot hear you.",
            f"Go on with it: {program} take {session.id}",
        )
    if not os.path.exists(os.path.join(app.settings.home, HEARD, session.client)):
        raise UserError(
            f"The hooks of {session.client} have never called: its sessions cannot hear you.",
            f"Install them: {program} setup hooks install --agent {session.client} --user. Then start it anew.",
        )
    where = find_project(app, name=project).name
    by, id = person(app), session.id
    with app.database.transaction() as transaction:
        journal.append(transaction, journal.PERSON_SAID, project=where, session=id, by=by, text=text, to=id)
    mailbox.mark(app.settings.home, session.id, where)
    return SaidWords(
        session=session.id,
        agent=session.client,
        project=where,
        task=None,
        text=text,
        how="It reads them after its next tool call, or when it stops.",
        hint=f"How far they got: {program} session list --clients",
    )

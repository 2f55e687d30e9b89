"""What a person does to tasks: answer gates, try again, take back, look, tidy up."""

from __future__ import annotations

import json
import os
from collections import deque

from handoff.base.errors import Refused, UsageError, UserError
from handoff.base.files import remove, remove_tree
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board import addresses, forges, forgetting, gates
from handoff.board.events import journal, texts
from handoff.board.sessions import holds, pauses
from handoff.board.tasks import batches, decisions, flows, outcomes, requirements, states, tasks
from handoff.board.tasks.batches import Batch
from handoff.engine.app.home import find_project, home_config, person
from handoff.engine.outcome import kinds, reviews
from handoff.engine.outcome.carry_out import GateAnswer, carry_out
from handoff.engine.place import pulse, task_work, transcripts
from handoff.engine.place.baton import COMMENTED
from handoff.engine.place.fanout import views
from handoff.engine.place.fanout.files import document, leftovers, read_stop_files
from handoff.engine.place.fanout.tabs import Job
from handoff.engine.session import claims, spending
from handoff.engine.work import overview
from handoff.engine.work.tasks import create
from handoff.engine.work.tasks.open_tab import open_task
from handoff.git.ownership import Ownership
from handoff.git.plumbing.objects import Repository

if TYPE_CHECKING:
    from typing import Any

    from handoff.board.addresses import Addressed
    from handoff.board.events.journal import Event
    from handoff.board.forges import LinkedIssue, TrackedRequest
    from handoff.board.gates import Gate, Waiting
    from handoff.board.sessions.holds import Hold
    from handoff.board.sessions.pauses import Pause
    from handoff.board.tasks.flows import Flow
    from handoff.board.tasks.outcomes import Outcome
    from handoff.board.tasks.tasks import Need, Task
    from handoff.engine.app import App
    from handoff.engine.work.overview import OverviewItem
    from handoff.engine.work.tasks.open_tab import OpenedTab
    from handoff.store.database import Transaction

_DAY = 86_400.0
_ALL = 1_000_000


def find_task(app: App, name: str, *, project: str = "") -> Task:
    """The task a person means by `id`, `batch/id` or, from another project, `--project`."""
    return tasks.find(app.database, project=find_project(app, name=project).name, id=name)


def find_address(app: App, name: str, *, project: str = "") -> Addressed:
    """The task, batch, flow or incident a person means."""
    return addresses.find(app.database, project=find_project(app, name=project).name, name=name)


def known_projects(app: App) -> list[str]:
    """The projects that have tasks."""
    return tasks.project_names(app.database)


def approve(app: App, task: Task, *, reason: str = "", answer: str = "", by: str = "") -> Outcome:
    """Yes, to the gate the task waits at; `answer` is the text as the next session is to have it.

    Where finished work could not land, a yes tries again first: what is still in the way leaves the gate as it was.
    """
    who, reason, answer = by or person(app), app.clean(reason), app.clean(answer)
    gate = gates.of_task(app.database, key=task.key)
    if gate is not None and gate.cap and gate.state == gates.OPEN:
        reason, answer = answer or reason, spending.raised_by(app, task, gate, answer or reason)
    else:
        kinds.check_answer(app, task, answer)
    decided = decisions.of_task(app.database, key=task.key)
    if decided is not None and decided.state == decisions.WAITING:
        done = carry_out(app, decided, answer=GateAnswer(who, reason, answer))
        outcome = done.outcome
        task_work.tidy(app, outcome.task, running={one.key for one in pulse.listing(app)})
        app.notes.extend(filter(None, (done.ticked, done.trouble)))
        reviews.stop_or_resume(app, task.project)
        return outcome
    outcome = kinds.approve(app, task, by=who, reason=reason, answer=answer)
    if gate is not None and gate.cap:
        spending.let_go_on(app)
    views.refresh_or_tell(app, task.project, f"The gate of {task.label} is approved")
    return outcome


def reject(app: App, task: Task, *, reason: str, by: str = "") -> Outcome:
    """No: the reason is what the next attempt reads. Work that was shown for review goes back at once and costs no attempt."""
    decided = decisions.of_task(app.database, key=task.key)
    with app.database.transaction() as transaction:
        outcome = gates.reject(transaction, key=task.key, reason=app.clean(reason), answered_by=by or person(app))
        gate = gates.of_task(transaction, key=task.key)
        reviewed = decided is not None and decided.state == decisions.WAITING and decided.intent.get("review")
        if reviewed or (gate is not None and gate.cap == spending.DAY):  # the task itself has done nothing wrong
            outcome = outcomes.retry(transaction, key=task.key, session=by or person(app))
        elif gate is not None and gate.cap == spending.BATCH:
            spending.block_parts(transaction, outcome.task, session=by or person(app))
    spending.let_go_on(app)
    reviews.look(app)
    views.refresh_or_tell(app, task.project, f"The gate of {task.label} is rejected")
    return outcome


def gate_of(app: App, task: Task) -> Gate:
    """The latest gate of a task, with the text that may be changed."""
    gate = gates.of_task(app.database, key=task.key)
    if gate is None:
        raise UserError(f"Task '{task.label}' never waited for an answer.", f"See: {app.settings.program} gate list")
    return gate


def waiting(app: App, *, project: str = "", include_ended: bool = False) -> list[Waiting]:
    """The gates nobody has answered yet, or all."""
    return gates.listing(app.database, project=project, state="" if include_ended else gates.OPEN)


class TaskChange(Record):
    """What a person changes about a task while nobody works on it; what is None stays. `note` is for the next session."""

    brief: str | None = None
    agent: str | None = None
    model: str | None = None
    check: str | None = None
    owns: tuple[str, ...] | None = None
    landing: str | None = None
    note: str = ""

    @property
    def row(self) -> dict[str, Any]:
        """What of it stands in the task's row."""
        facts = {tasks.MODEL: self.model, tasks.LANDING: self.landing}
        given = {
            "brief": self.brief,
            "agent": self.agent,
            "check_command": self.check,
            "owns": self.owns,
            "facts": {name: value for name, value in facts.items() if value is not None} or None,
        }
        return {name: value for name, value in given.items() if value is not None}


def _change(app: App, transaction: Transaction, task: Task, change: TaskChange) -> Task:
    """Check it and write it; nothing is written of what cannot be."""
    create.check_agents(app, change.agent or "")
    if change.brief is not None and not change.brief.strip():
        raise UserError("The brief is empty.", "Say what the next session must do.")
    if change.owns:
        Ownership.parse(change.owns)
        create.doubt_commas(app, change.owns, task.label)
        if task.batch is not None:
            raise Refused(
                f"'{task.label}' is a part: what it owns is checked against its neighbours.",
                f"A part asks for one more file itself: {app.settings.program} task ask --path FILE WHY",
            )
    if task.kind == tasks.PHASE and change.row:
        raise Refused(
            f"'{task.label}' is a phase of the flow '{task.scope}', which says what it does.",
            f"Say something to its next session: {app.settings.program} retry {task.scope} --note TEXT",
        )
    if change.row:
        row = change.row
        if "brief" in row:
            row["brief"] = app.clean(row["brief"].strip())
        task = tasks.edit(transaction, key=task.key, session=person(app), **row)
    if change.note.strip():
        texts.check(change.note, "note")
        note = app.clean(change.note.strip())
        journal.append(transaction, journal.PERSON_SAID, task=task, session=person(app), text=note)
    return task


def edit(app: App, task: Task, change: TaskChange) -> Task:
    """Change a task that waits, is ready or is blocked."""
    if not change.row and not change.note.strip():
        raise UsageError("Nothing was changed.", f"See: {app.settings.program} task edit --help")
    with app.database.transaction() as transaction:
        task = _change(app, transaction, tasks.get(transaction, key=task.key), change)
    views.refresh_or_tell(app, task.project, f"Task {task.label} is changed")
    return task


def retry(app: App, task: Task, change: TaskChange = TaskChange()) -> Outcome:  # noqa: B008 - a Record never changes
    """Let a blocked task try again, perhaps differently; one that waits for its ground, or for a moment to come, is tried at once."""
    _see_revert(app, task)
    with app.database.transaction() as transaction:
        task = _change(app, transaction, tasks.get(transaction, key=task.key), change)
        held = holds.try_task(transaction, key=task.key)
        waits = task.state == states.READY and (held or task.not_before > transaction.now())
        if waits:
            outcome = outcomes.Outcome(tasks.edit(transaction, key=task.key, not_before=0.0, session=person(app)))
        elif task.kind == tasks.PHASE:
            hint = f"{app.settings.program} retry {task.scope}, perhaps with --note 'what to mind'"
            raise Refused(f"'{task.label}' is a phase of the flow '{task.scope}', which knows where to begin.", hint)
        else:
            outcome = outcomes.retry(transaction, key=task.key, session=person(app))
    views.refresh_or_tell(app, task.project, f"Task {task.label} may try again")
    return outcome


def _see_revert(app: App, task: Task) -> None:
    """A landing that a person reverted with git is taken back, as by `undo`."""
    landed = str(texts.read(task.evidence, {}).get("landed") or "") if task.state == states.DONE else ""
    if not landed or outcomes.is_undone(task) or not os.path.isdir(task.workspace):
        return
    words = ("log", "-n1", "--format=%H", f"--grep=This reverts commit {landed}", "HEAD", "--")
    if Repository(task.workspace, app.git_environment).git(*words).text.strip():
        outcomes.mark_landing(app.database, keys=[task.key], landed=landed, undone=True, session=person(app))


def cancel(app: App, task: Task, *, reason: str = "") -> Outcome:
    """Take a task back, also from a session that works on it; what is being landed in this moment is not."""
    decided = decisions.of_task(app.database, key=task.key)
    if decided is not None and decided.state == decisions.OPEN and decided.host == app.settings.host:
        carry_out(app, decided)
        task = tasks.get(app.database, key=task.key)
    outcome = outcomes.cancel(app.database, key=task.key, reason=app.clean(reason), session=person(app))
    if task.held_by:
        claims.put_aside(app, task.held_by)
    views.refresh_or_tell(app, task.project, f"Task {task.label} is cancelled")
    return outcome


def comment(app: App, task: Task, *, path: str, line: int, text: str, code: str = "") -> None:
    """Write on a line of a task's work; the next session that gets the task reads it."""
    if task.ended:
        raise UserError(
            f"'{task.label}' is {task.state}: no session will read it.",
            f"Write a task instead: {app.settings.program} task add NAME 'what to change'",
        )
    for name, value in (("path", path), ("line", code), ("comment", text)):
        texts.check(value, name)
    said, by = app.clean(text), person(app)
    with app.database.transaction() as transaction:
        journal.append(transaction, COMMENTED, task=task, session=by, path=path, line=line, code=code, text=said)
    views.refresh_or_tell(app, task.project, f"Your words about {task.label} are kept")


class TaskDetails(Record):
    """Everything there is to know about one task."""

    task: Task
    batch: Batch | None
    needs: list[Need]
    gate: Gate | None
    events: list[Event]
    document: str
    lease_left: float | None
    evidence: dict[str, Any]
    labels: tuple[str, ...]
    holds: list[Hold]
    """Why it is not started: its own ground, or the provider of an agent that would do it."""
    issue: LinkedIssue | None
    request: TrackedRequest | None
    """The issue that asked for it, and the request that carries its work."""


def picture(app: App, task: Task) -> TaskDetails:
    """A task with what it waits for, its gate and its history."""
    store = app.database
    batch = batches.get(store, key=task.batch) if task.batch is not None else None
    left: float | None = None
    if task.lease_until is not None:
        with store.transaction(write=False) as transaction:
            left = task.lease_until - transaction.lease_now()
    return TaskDetails(
        task=task,
        batch=batch,
        needs=tasks.needs_of(store, key=task.key),
        gate=gates.of_task(store, key=task.key),
        events=journal.of_task(store, key=task.key),
        document=document(app, task),
        lease_left=left,
        evidence=_read(task.evidence),
        labels=requirements.of_task(store, key=task.key),
        holds=holds_of(app, task),
        issue=forges.issue_of(store, task=task.key),
        request=forges.carrying(store, project=task.project, task=task.key)
        or forges.last_of_task(store, task=task.key),
    )


def holds_of(app: App, task: Task) -> list[Hold]:
    """What keeps a ready task from being started, for no fault of an agent's."""
    if task.state != states.READY:
        return []
    wanted = {(holds.TASK, str(task.key)), (holds.AGENT, task.agent)}
    return [
        held
        for held in holds.listing(app.database)
        if (held.kind, held.name) in wanted or (held.kind == holds.AGENT and not task.agent)
    ]


def _read(text: str) -> dict[str, Any]:
    return dict(json.loads(text or "{}"))


class Board(Record):
    """The queue of a project, or of all."""

    tasks: list[Task]
    stops: list[Pause]
    gates: int
    labels: dict[int, tuple[str, ...]]
    in_all: int
    """How many there are, also those that did not fit."""
    holds: list[Hold]
    standing: dict[int, OverviewItem]
    """How each of the tasks stands."""


def check_state(state: str) -> None:
    """Refuse a word that is no state."""
    if state and state not in states.STATES:
        raise UserError(f"'{state}' is not a state of a task.", f"The states: {', '.join(states.STATES)}")


def board(app: App, *, project: str = "", state: str = "", include_ended: bool = False, limit: int = 1000) -> Board:
    """What is live, in order; with `include_ended`, also what has ended."""
    store = app.database
    found = tasks.listing(store, project=project, state=state, include_ended=include_ended, limit=limit)
    cut = len(found) >= limit
    return Board(
        tasks=found,
        stops=[
            one for one in pauses.listing(store) if one.scope == pauses.ALL or one.project == project or not project
        ],
        gates=len(gates.listing(store, project=project)),
        labels=requirements.of_tasks(store, project=project),
        in_all=tasks.count(store, project=project, state=state, include_ended=include_ended) if cut else len(found),
        holds=holds.listing(store),
        standing=overview.standing(app, [task.key for task in found], project=project),
    )


def events(
    app: App, *, project: str = "", task: Task | None = None, since: int | None = None, limit: int = 50
) -> list[Event]:
    """Lines of the journal: the last ones, or those after `since`."""
    if task is not None:
        found = journal.of_task(app.database, key=task.key, seq=since or 0)
        return found[-limit:] if since is None else found
    if since is None:
        return journal.last(app.database, project=project, limit=limit)
    return journal.since(app.database, seq=since, project=project)


def events_of(app: App, found: Batch | Flow, *, since: int | None = None, limit: int = 50) -> list[Event]:
    """The same for a batch with its parts, or for a flow with its phases."""
    if isinstance(found, Batch):
        most = {"limit": limit} if since is None else {}
        return journal.of_batch(app.database, key=found.key, seq=since or 0, **most)
    lines = [event for event in flows.events(app.database, found) if event.seq > (since or 0)]
    return lines[-limit:] if since is None else lines


def open_(app: App, task: Task, *, way: str = "") -> OpenedTab:
    """Bring a task to a person's tab."""
    if task.ended:
        raise UserError(f"Task '{task.label}' is {task.state}.", f"See: {app.settings.program} task list")
    if task.state == states.WAITING:
        raise UserError(f"Task '{task.label}' still waits.", f"See: {app.settings.program} show {task.label}")
    read_stop_files(app, task.project)
    with app.database.transaction(write=False) as transaction:
        stop = pauses.pause_of(transaction, task)
    if stop is not None:
        raise Refused(
            f"'{task.label}' is not offered: {stop.words} is stopped ({stop.reason or 'no reason given'}).",
            f"Go on with: {stop.way_back}",
        )
    path = document(app, task)
    if not path:
        raise UserError(
            f"'{task.label}' is a phase of a flow.",
            f"Do it yourself: {app.settings.program} flow step {task.scope} --agent person",
        )
    views.mend(app, task.project, [task])
    return open_task(app, home_config(app), Job(task.project, task.id, task.workspace, path, task.agent), way=way)


class Pruned(Record):
    """What `prune` forgets: tasks that ended long ago, files that no longer say anything, folders of sessions, lines of the journal."""

    tasks: list[Task]
    files: list[str]
    sessions: list[str]
    lines: int
    archive: str


def prune(app: App, *, project: str = "", days: float = 30.0, execute: bool = False, put_away: bool = False) -> Pruned:
    """Forget ended tasks older than `days` with their files, and the addresses of all ended ones. A dry run by default.

    `put_away` also moves lines of the journal that nothing needs any more into files (`archive`).
    """
    before = app.clock.now() - days * _DAY
    found = forgetting.prune(app.database, before=before, project=project, dry_run=not execute)
    old = {(task.project, task.id) for task in found}
    live, ended = (
        {
            (task.project, task.id)
            for task in tasks.listing(app.database, project=project, include_ended=all_, limit=_ALL)
        }
        for all_ in (False, True)
    )
    files = [
        path
        for owner, name in sorted((old | ended) - live)
        for path in leftovers(app, owner, name, forgotten=(owner, name) in old)
    ]
    sessions = transcripts.old_folders(app, before=before, project=project)
    folder = archive_of(app)
    lines = 0
    if execute:
        for path in files:
            remove(path)
        for path in sessions:
            for one in (pulse.taken(app, os.path.basename(path)), path):
                if os.path.isdir(one):
                    remove_tree(one)
    if put_away and execute:
        lines = forgetting.archive_lines(app.database, folder=folder, before=before, project=project)
    elif put_away:
        lines = forgetting.lines_to_archive(app.database, before=before, project=project)
    return Pruned(found, files, sessions, lines, folder)


def archive_of(app: App) -> str:
    """Where lines of the journal lie that were put away on this machine."""
    return os.path.join(app.settings.home, "logs", "archive")


def read_archive(app: App, *, project: str = "", address: str = "", limit: int = 50) -> list[Event]:
    """The last of those lines, of a project, a task or a batch."""
    return list(deque(forgetting.read_archive(archive_of(app), project=project, address=address), maxlen=limit))

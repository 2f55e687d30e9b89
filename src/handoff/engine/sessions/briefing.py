"""What a session is told when it begins: its baton, and what earlier sessions of the same task left."""

from __future__ import annotations

from handoff.agents import catalog
from handoff.agents import folder as folders
from handoff.agents.contract import SAID, TOOL
from handoff.agents.monitor import EVENTS
from handoff.base.clock import stamp
from handoff.base.ids import on_one_line
from handoff.base.markdown import shell_line
from handoff.base.record import TYPE_CHECKING
from handoff.board.events import journal
from handoff.board.tasks import batches, tasks
from handoff.engine.app import App
from handoff.engine.proof import evidence
from handoff.engine.workspaces import task_work
from handoff.engine.workspaces.baton import baton
from handoff.git.plumbing.checkout import facts

if TYPE_CHECKING:
    from handoff.base.settings import Config
    from handoff.board.tasks.tasks import Task
    from handoff.engine.sessions.agent_programs import Client
    from handoff.engine.sessions.placement import Placement

_SHOWN = 30
_HEARD = 3  # so many sessions are quoted where none is known to have worked
_TOLD = frozenset(
    """task.claimed task.released task.expired task.rejected session.concluded session.out_of_scope task.taken_back task.sent_back note.added""".split()
)


def briefing(app: App, config: Config, task: Task, client: Client, placement: Placement) -> str:
    """The baton of an ordinary task, with what came before."""
    batch, parts = None, []
    if task.batch is not None:
        batch = batches.get(app.database, key=task.batch)
        if task.kind == tasks.FAN_IN:  # nobody else is told of the others, and there may be a thousand
            parts = [part for part in tasks.of_batch(app.database, batch=task.batch) if part.kind == tasks.SUB_TASK]
    calls = App(app.settings._replace(program=shell_line(client.own)), app.clock)  # a login shell forgets our PATH
    clone = placement.clone.tree if placement.clone is not None else ""
    text = baton(calls, config, task, batch=batch, parts=parts, clone=clone)
    left = _left_behind(app, task, placement)
    return f"{text}\n{left}" if left else text


def _left_behind(app: App, task: Task, placement: Placement) -> str:
    """What earlier sessions of this task left, from facts alone: whoever continues it, of whatever vendor, reads the same."""
    events = journal.of_task(app.database, key=task.key)
    if task.attempt <= 1 and not any(event.kind in ("task.released", "task.sent_back") for event in events):
        return ""
    lines = [f"- {_told(event)}" for event in events if event.kind in _TOLD][-_SHOWN:]
    text = "## What came before\n\n" + "\n".join(lines) + "\n"
    dirty = _changed(app, placement)[:_SHOWN]
    if dirty:
        text += "\nChanged and not committed now:\n\n" + "\n".join(f"- `{on_one_line(path)}`" for path in dirty) + "\n"
    said = _last_words(app, task, events)
    if said:
        text += "\nThe last things a session before you said:\n\n" + "\n".join(f"> {line}" for line in said) + "\n"
    return text


def _changed(app: App, placement: Placement) -> tuple[str, ...]:
    if placement.clone is not None and placement.snapshot_store is not None:
        return task_work.changes(app, placement.snapshot_store, placement.clone).changed
    state = facts(placement.folder, environment=app.git_environment)
    return (evidence.changed_since(app, placement.folder, state.head) or ()) if state is not None else ()


def _told(event: journal.Event) -> str:
    body = event.body
    more = (
        body.get("reason")
        or body.get("text")
        or body.get("outcome")
        or ", ".join(map(on_one_line, body.get("outside", [])[:5]))
    )
    why, who = f": {more}" if more else "", f" [{event.session}]" if event.session else ""
    return f"{stamp(event.at)} {event.kind}{why}{who}"


def _last_words(app: App, task: Task, events: list[journal.Event]) -> list[str]:
    """What the sessions before said, newest last, without a model: back to the last one that is seen to have worked."""
    ended = [event.session for event in events if event.kind == "session.concluded" and event.session]
    found: list[list[str]] = []
    for session in reversed(list(dict.fromkeys(ended))):
        said, worked = _said(app, task, session)
        if said:
            found.append(said)
        if worked or len(found) >= _HEARD:
            break
    return [line for said in reversed(found) for line in said]


def _said(app: App, task: Task, session: str) -> tuple[list[str], bool]:
    """The last things a session said, and whether it used any tool."""
    path = folders.place(app.settings.home, task.project, session)
    agent = str(folders.get(path, folders.FACTS).get("agent", ""))
    if agent not in catalog.OURS:
        return [], False
    read = catalog.adapter(agent).read
    found = [event for line in folders.tail(path, EVENTS, 60_000).split("\n") for event in read(line)]
    said = [" ".join(event.text.split())[:300] for event in found if event.kind == SAID and event.text.strip()]
    return said[-5:], any(event.kind == TOOL for event in found)

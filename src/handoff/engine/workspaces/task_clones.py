"""The clone a task's sessions work in: its name, its record, its snapshot store, and which parts of the batch it builds on."""

from __future__ import annotations

import os

from handoff.base.errors import UserError
from handoff.base.ids import slug
from handoff.base.record import TYPE_CHECKING
from handoff.board.tasks import states, tasks

if TYPE_CHECKING:
    from handoff.board.tasks.tasks import Task
    from handoff.engine.app import App
    from handoff.engine.safety.snapshots import SnapshotStore
    from handoff.git.workspaces.workspaces import Workspace

_LONGEST_NAME = 44


def name_of(task: Task) -> str:
    """The name of a task's own workspace: its words for people, its number so that no other has it."""
    return f"{slug(task.label)[:_LONGEST_NAME].strip('-')}-{task.key}"


def of_task(app: App, task: Task) -> Workspace | None:
    """The clone sessions of this task work in, if there is one on this machine."""
    folder = os.path.join(app.settings.home, task.project, "workspaces", name_of(task))
    if not os.path.isdir(folder):
        return None
    from handoff.git.workspaces.workspaces import READY, read_workspace

    found = read_workspace(folder)
    return found if found is not None and found.state == READY and os.path.isdir(found.tree) else None


def is_sandboxed(app: App, *, project: str, session: str) -> bool:
    """Whether a session of this machine runs inside a sandbox."""
    if not session or not project or not os.path.isdir(os.path.join(app.settings.home, project, "sessions", session)):
        return False  # a person's tab has no folder
    from handoff.agents import folder as folders

    facts = folders.get(folders.place(app.settings.home, project, session), folders.FACTS)
    return str(facts.get("sandbox", "none")) != "none"


def snapshot_store_of_project(app: App, task: Task) -> SnapshotStore:
    """The snapshot store of the person's checkout a task belongs to, under the task's own project."""
    from handoff.engine.safety.snapshots import SnapshotStore
    from handoff.git.plumbing.checkout import find_top
    from handoff.git.plumbing.snapshot_repo import SnapshotRepo
    from handoff.git.snapshots.location import find_place

    top = find_top(task.workspace)
    if top is None:
        raise UserError(f"{task.workspace} is not a git repository any more.", "Bring it back, or cancel the task.")
    found = find_place(top, home=app.settings.home, project=task.project)
    return SnapshotStore(found, SnapshotRepo(found.store, app.settings.environment))


def parts(app: App, task: Task) -> list[Task]:
    """The finished parts of a task's batch that it builds on, in the order they were finished; all of them for a fan-in."""
    if task.batch is None:
        return []
    done = [
        part
        for part in tasks.of_batch(app.database, batch=task.batch)
        if part.kind == tasks.SUB_TASK and part.state == states.DONE and part.key != task.key
    ]
    done.sort(key=lambda part: (part.ended_at or 0.0, part.key))
    if task.kind == tasks.FAN_IN:
        return done
    wanted = _needed(app, task)
    return [part for part in done if part.key in wanted]


def _needed(app: App, task: Task) -> set[int]:
    """Whom a part waits for, and whom those waited for."""
    found: set[int] = set()
    edge = [task.key]
    with app.database.transaction(write=False) as transaction:
        while edge:
            for need in transaction.query("list_needs", task=edge.pop()):
                if need["key"] not in found:
                    found.add(need["key"])
                    edge.append(need["key"])
    return found

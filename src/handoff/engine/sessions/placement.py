"""Where a session works: the person's own checkout, or a clone of its own that the next session of the task goes on in."""

from __future__ import annotations

import os

from handoff.agents.sandbox.sandbox import ADVICE, BUBBLEWRAP, NOTHING, WORDS
from handoff.base.errors import ConfigError
from handoff.base.files import make_folder
from handoff.base.record import TYPE_CHECKING, Record
from handoff.base.settings import PROJECT_FOLDER
from handoff.board.tasks import tasks
from handoff.engine.proof import sandboxes
from handoff.engine.sessions import policy
from handoff.engine.workspaces import task_work, workspaces
from handoff.engine.workspaces.task_clones import name_of, of_task, parts, snapshot_store_of_project
from handoff.git.plumbing.checkout import find_top
from handoff.git.plumbing.query import head, open_source
from handoff.git.snapshots.location import CHECKOUTS
from handoff.git.workspaces.workspaces import WorkspaceRequest, read_workspace, write_workspace

if TYPE_CHECKING:
    from handoff.base.settings import Config
    from handoff.board.tasks.tasks import Task
    from handoff.engine.app import App
    from handoff.engine.safety.snapshots import SnapshotStore
    from handoff.git.workspaces.workspaces import Workspace

AUTO, CLONE, SHARED = "auto", "clone", "shared"
WORKSPACES = (AUTO, CLONE, SHARED)
_MAY_CLONE = (tasks.TASK, tasks.SUB_TASK, tasks.FAN_IN)
SANDBOXES = (AUTO, *policy.KINDS)


class Placement(Record):
    """Where a session works, inside which sandbox, and what a person should be told about it."""

    folder: str
    kind: str
    sandbox: str
    layer: str
    words: str = ""


def place(app: App, config: Config, *, task: Task, session: str, workspace: str = "", sandbox: str = "") -> Placement:
    """The folder and the sandbox of a new session: as wished, else as the settings say, else by the kind of its task.

    A part of a batch works in a clone inside a sandbox; so does the fan-in that brings clones together. Everybody else works
    in the person's own checkout.
    """
    wanted = _setting(config, "session_workspace", workspace, WORKSPACES)
    kind = (CLONE if _apart(app, task) else SHARED) if wanted == AUTO else wanted
    folder = task.workspace
    brought = _is_brought(app, task)
    if kind == CLONE and (task.kind not in _MAY_CLONE or brought or not _has_commit(folder)):
        # Phases of a flow share a checkout; a task brought from another machine has one to itself already; and where
        # there is no commit yet, nothing can be cloned.
        kind = SHARED
    behind = _setting(config, "session_sandbox", sandbox, SANDBOXES)
    said = sandbox not in ("", AUTO)
    if behind == AUTO:
        apart = kind == CLONE or (brought and task.kind in (tasks.SUB_TASK, tasks.FAN_IN))
        behind = policy.WORKSPACE if apart else _of_phase(app, task)
    layer = sandboxes.present_layer(app) if behind != policy.NONE else NOTHING
    words = ""
    if behind != policy.NONE and layer == NOTHING and not said:
        behind, words = policy.NONE, f"No sandbox: {WORDS[NOTHING]}. {ADVICE}"
    if kind == CLONE:
        folder = ready(app, task=task, session=session).tree
    return Placement(folder, kind, behind, layer, words)


def _of_phase(app: App, task: Task) -> str:
    """A phase works inside the sandbox of its flow's clone; one that owns documents alone, such as a review, reads the code only."""
    if task.kind != tasks.PHASE:
        return policy.NONE
    documents = all(pattern.startswith(PROJECT_FOLDER + "/") for pattern in task.patterns)
    able = documents and sandboxes.present_layer(app) == BUBBLEWRAP
    return policy.OWNED if able else policy.WORKSPACE


def _setting(config: Config, key: str, said: str, known: tuple[str, ...]) -> str:
    if said:
        return said
    value = config.text(key)
    if value not in known:
        raise ConfigError(f"{config.path}: {key} is '{value}'.", f"Use one of: {', '.join(known)}.")
    return value


def _apart(app: App, task: Task) -> bool:
    if task.kind == tasks.SUB_TASK:
        return bool(task.patterns)
    return task.kind == tasks.FAN_IN and any(of_task(app, part) for part in parts(app, task))


def _is_brought(app: App, task: Task) -> bool:
    """Whether the task's work came here from another machine, into a checkout of its own."""
    return task.workspace.startswith(os.path.join(app.settings.home, task.project, CHECKOUTS) + os.sep)


def _has_commit(folder: str) -> bool:
    top = find_top(folder) if folder and os.path.isdir(folder) else None
    return top is not None and bool(head(open_source(top)).commit)


def ready(app: App, *, task: Task, session: str) -> Workspace:
    """The task's clone: as the session before left it, else a new one of what the person has now and the parts it needs."""
    found = of_task(app, task)
    if found is not None:
        found = found._replace(session=session, owns=task.patterns)
        write_workspace(found)
        return found
    snapshot_store = snapshot_store_of_project(app, task)
    _clear(app, snapshot_store, name_of(task))
    base = task_work.base_for(app, snapshot_store, task)
    order = WorkspaceRequest(name=name_of(task), kind=CLONE, base=base, session=session, owns=task.patterns)
    made = workspaces.add_workspace(
        app, order=order, snapshot_store=snapshot_store, setup=app.settings.get("HANDOFF_WORKSPACE_SETUP")
    )
    return made.workspace


def _clear(app: App, snapshot_store: SnapshotStore, name: str) -> None:
    """A clone somebody died in while it was made holds nothing yet: it makes room."""
    if read_workspace(os.path.join(snapshot_store.place.project, "workspaces", name)) is not None:
        workspaces.remove_workspace(app, name=name, snapshot_store=snapshot_store)


def owned_places(workspace: str, patterns: tuple[str, ...]) -> tuple[str, ...]:
    """The folders and files a pattern can reach, for clients that are fenced by folders: a glob counts with its folder."""
    found: dict[str, None] = {}
    for pattern in patterns:
        if not pattern.startswith("!"):
            fixed = pattern
            for sign in "*?[{":
                fixed = fixed.partition(sign)[0]
            whole = fixed if fixed == pattern else fixed[: fixed.rfind("/") + 1]  # `**` is the workspace, not /
            place = os.path.join(workspace, whole)
            if not os.path.lexists(place):  # no sandbox can open a broker to what is not there
                place = place if place.endswith("/") else os.path.dirname(place)
                make_folder(place)
            found[place.rstrip("/")] = None
    return tuple(found)

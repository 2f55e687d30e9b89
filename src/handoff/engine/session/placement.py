"""Where a session works: the person's own checkout, or a clone of its own that the next session of the task goes on in."""

from __future__ import annotations

import os

from handoff.agents.sandbox.sandbox import ADVICE, BUBBLEWRAP, NOTHING, WORDS
from handoff.base.errors import ConfigError, Refused
from handoff.base.files import make_folder
from handoff.base.record import TYPE_CHECKING, Record
from handoff.base.settings import PROJECT_FOLDER
from handoff.board.tasks import races, tasks
from handoff.engine.outcome import kinds
from handoff.engine.place import task_clones, task_work
from handoff.engine.place.proof.sandboxes import (
    present_layer,
    sandbox_of_folder,
    with_dependencies,
    workspace_at,
)
from handoff.engine.safety import snapshots
from handoff.git.ownership.ownership import Ownership
from handoff.git.plumbing import find_top
from handoff.git.plumbing.repository import Repository
from handoff.git.snapshots.location import CHECKOUTS
from handoff.git.workspaces.dependencies import withdraw
from handoff.git.workspaces.workspaces import write_workspace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from handoff.agents.sandbox.policy import Policy
    from handoff.base.settings import Config
    from handoff.board.tasks.tasks import Task
    from handoff.engine.app import App
    from handoff.engine.place.proof.sandboxes import Sandbox
    from handoff.engine.safety.snapshots import SnapshotStore
    from handoff.git.workspaces.workspaces import Workspace

AUTO, CLONE, SHARED = "auto", "clone", "shared"
WORKSPACES = (AUTO, CLONE, SHARED)
NONE, WORKSPACE, OWNED = "none", "workspace", "owned"
KINDS = (NONE, WORKSPACE, OWNED)
SANDBOXES = (AUTO, *KINDS)


class Placement(Record):
    """Where a session works, what it may write there, and inside which sandbox: found once, at its start, and handed on."""

    folder: str
    kind: str
    clone: Workspace | None = None
    """The task's own clone, if the session works in one."""
    snapshot_store: SnapshotStore | None = None
    """Of the checkout that the clone was made from."""
    workspace: Workspace | None = None
    """The workspace of ours that the folder is, also a flow's; None in a person's own checkout."""
    shared_git: str = ""
    """The git folder that all sessions of the project share; empty outside of git."""
    reach: Mapping[str, bool] = {}
    """What the ownership can reach, and whether it is owned whole."""
    owned: tuple[str, ...] = ()
    """The same as files and folders that are there."""
    sandbox: str = NONE
    layer: str = NOTHING
    policy: Policy | None = None
    """The sandbox's policy for the workspace alone; what the client needs is not in it yet."""
    words: str = ""
    """What a person should be told: that no sandbox stands around it, for example."""


def place(
    app: App,
    config: Config,
    *,
    task: Task,
    session: str,
    workspace: str = "",
    sandbox: str = "",
    attended: bool = False,
) -> Placement:
    """The folder and the sandbox of a new session: as wished, else as the settings say, else a clone inside a sandbox.

    Where nothing can be cloned, and where a person sits before it (`attended`), a task is worked on in their own checkout.
    """
    wanted = _setting(config, "session_workspace", workspace or _of_project(config, task.project), WORKSPACES)
    behind = _setting(config, "session_sandbox", sandbox, SANDBOXES)
    _setting(config, "landing", str(config.values["landing_project"].get(task.project, "")), tasks.LANDINGS)
    if task.is_from_inside:  # whoever wrote it could not choose to be outside
        wanted, behind = CLONE, WORKSPACE if behind in (AUTO, NONE) else behind
    found = _folder(app, task, session, clone=_wants_clone(app, task, attended) if wanted == AUTO else wanted == CLONE)
    if task.kind == tasks.ENTRANT and found.kind != CLONE and not _is_brought(app, task):
        raise Refused(
            f"'{task.label}' runs in a race: it needs a clone of its own, beside the others'.",
            "Let sessions work in clones: session_workspace = 'auto' in the settings, or leave --workspace out.",
        )
    found = found._replace(owned=_owned(found))
    auto = behind == AUTO
    if auto:
        apart = found.kind == CLONE or (_is_brought(app, task) and task.kind in (*tasks.PARTS, tasks.FAN_IN))
        behind = WORKSPACE if apart or task.kind == tasks.PHASE else NONE
    if behind == NONE:
        found = _noted(found, withdraw(found.workspace)) if found.workspace is not None else found
        bare = found.kind == SHARED and wanted != SHARED and not attended and task.kind == tasks.TASK
        return found._replace(words=_no_clone(found)) if bare else found
    found, (layer, policy) = _sandbox(app, found, config.texts("session_caches"), checkout=task.workspace)
    if layer == NOTHING and sandbox in ("", AUTO) and not task.is_from_inside:
        return found._replace(words=f"No sandbox: {WORDS[NOTHING]}. {ADVICE}")
    documents = all(path.startswith(PROJECT_FOLDER + "/") for path in found.reach)
    if auto and task.kind == tasks.PHASE and documents and layer == BUBBLEWRAP:
        behind = OWNED  # a phase that owns documents alone, such as a review, reads the code only
    _refuse_missing(behind, layer)
    return found._replace(sandbox=behind, layer=layer, policy=policy)


def _sandbox(app: App, found: Placement, caches: Sequence[str], *, checkout: str) -> tuple[Placement, Sandbox]:
    if found.workspace is None:
        return found, sandbox_of_folder(app, folder=found.folder, caches=caches)
    theirs = checkout if found.clone is not None else ""  # a flow's task says where the flow works
    furnished = with_dependencies(app, workspace=found.workspace, checkout=theirs, caches=caches)
    return _noted(found, furnished.workspace), furnished.sandbox


def _noted(found: Placement, workspace: Workspace) -> Placement:
    """The same place with what its workspace is lent now, also in its record."""
    if found.workspace is None or found.workspace.lent == workspace.lent:
        return found
    write_workspace(workspace)
    return found._replace(workspace=workspace, clone=found.clone and workspace)


def check_sandbox(app: App, *, sandbox: str) -> None:
    """Refuse a sandbox this machine cannot build, before anything is claimed."""
    if sandbox in (WORKSPACE, OWNED):
        _refuse_missing(sandbox, present_layer(app))


def _refuse_missing(sandbox: str, layer: str) -> None:
    if layer == NOTHING or (sandbox == OWNED and layer != BUBBLEWRAP):
        raise Refused(
            f"This machine has no sandbox of the kind '{sandbox}'.",
            "Install bubblewrap (apt install bubblewrap), or start the session without --sandbox.",
        )


def _setting(config: Config, key: str, said: str, known: tuple[str, ...]) -> str:
    value = said or config.text(key)
    if value not in known:
        raise ConfigError(f"{config.path}: {key} is '{value}'.", f"Use one of: {', '.join(known)}.")
    return value


def _of_project(config: Config, project: str) -> str:
    return str(config.values["session_workspace_project"].get(project, ""))


def _no_clone(found: Placement) -> str:
    why = "its repository has no commit yet" if found.shared_git else f"{found.folder} is not a git repository"
    return f"No clone: {why}. The session works in the folder itself, and nothing keeps it inside."


def _wants_clone(app: App, task: Task, attended: bool) -> bool:
    wanted = kinds.KINDS[task.kind].clone
    if wanted == "joining":
        return any(races.facts_of(part) or task_clones.of_task(app, part) for part in task_clones.parts(app, task))
    return (
        wanted == "always" or (wanted == "owning" and bool(task.patterns)) or (wanted == "unattended" and not attended)
    )


def _is_brought(app: App, task: Task) -> bool:
    """Whether the task's work came here from another machine, into a checkout of its own."""
    return task.workspace.startswith(os.path.join(app.settings.home, task.project, CHECKOUTS) + os.sep)


def _folder(app: App, task: Task, session: str, *, clone: bool) -> Placement:
    """The folder alone; no sandbox is chosen yet.

    Phases of a flow share a checkout; a task brought from another machine has one to itself already; and where there is no
    commit yet, nothing can be cloned.
    """
    reach, top = Ownership.parse(task.patterns).reach, find_top(task.workspace)
    if clone and top and kinds.KINDS[task.kind].clone and not _is_brought(app, task):
        snapshot_store = snapshots.open_snapshot_store(app, folder=top, project=task.project)
        made = task_work.begin(app, snapshot_store, task, session=session)
        if made is not None:
            return Placement(
                folder=made.tree,
                kind=CLONE,
                clone=made,
                snapshot_store=snapshot_store,
                workspace=made,
                shared_git=snapshot_store.place.source.common,
                reach=reach,
            )
    return Placement(
        folder=task.workspace,
        kind=SHARED,
        workspace=workspace_at(top) if top else None,
        shared_git=Repository(top, {}).common if top else "",
        reach=reach,
    )


def _owned(found: Placement) -> tuple[str, ...]:
    """What the ownership reaches, for a sandbox and for clients that are fenced by folders.

    None of them can open a way to what is not there: a folder is made, and a new file is reached by its folder.
    """
    owned: dict[str, None] = {}
    for path in found.reach:
        place = os.path.join(found.folder, path)
        if not os.path.lexists(place):
            place = os.path.dirname(place)
            make_folder(place)
        owned[place.rstrip("/")] = None
    return tuple(owned)

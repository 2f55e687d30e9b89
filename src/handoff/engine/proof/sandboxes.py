"""A session inside its sandbox: which folders belong to it, and a command started there."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from handoff.agents.sandbox.policy import Policy
from handoff.agents.sandbox.sandbox import NOTHING, Wrapped, layer, wrap
from handoff.base.errors import UserError
from handoff.git.plumbing.checkout import find_top
from handoff.git.plumbing.query import open_source
from handoff.git.snapshots.location import STORE, find_place
from handoff.git.workspaces.workspaces import CLONE, Workspace, read_workspace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from handoff.engine.app import App


# Where the relay's rows are, with a password perhaps, and what proves who asks: nothing that runs inside needs them.
_NOT_INSIDE = ("HANDOFF_DATABASE_URL", "HANDOFF_TOKEN")


class Sandbox(NamedTuple):
    """Which layer holds, and the policy it is given."""

    layer: str
    policy: Policy


def sandbox_of_workspace(
    app: App, *, workspace: Workspace, network: bool = True, caches: Sequence[str] = (), terminal: bool = False
) -> Sandbox:
    """The sandbox around one workspace: the person's checkout, $HANDOFF_HOME and the other sessions are outside."""
    git = os.path.join(workspace.tree, ".git")
    hidden = [app.settings.home]
    visible = [os.path.join(workspace.project, STORE, "objects")]
    frozen: list[str] = []
    writable = [os.path.abspath(os.path.expanduser(path)) for path in caches]
    if workspace.kind == CLONE:
        hidden += [top for top in _checkout(workspace) if top]
        frozen = [
            os.path.join(git, "config"),
            os.path.join(git, "hooks"),
            os.path.join(git, "objects", "info", "alternates"),
        ]
    elif (common := open_source(workspace.tree).common) != git:
        writable.append(common)  # a linked worktree cannot work without the shared git folder
        frozen = [os.path.join(common, "config"), os.path.join(common, "hooks")]
    else:
        frozen = [os.path.join(git, "config"), os.path.join(git, "hooks")]
    return _sandbox(
        app,
        workspace.tree,
        os.path.join(workspace.folder, "tmp"),
        hidden,
        (visible, writable, frozen),
        (network, terminal),
    )


def sandbox_of_folder(
    app: App, *, folder: str = ".", network: bool = True, caches: Sequence[str] = (), terminal: bool = False
) -> Sandbox:
    """The sandbox around the checkout that holds `folder`: a workspace of ours, or any other."""
    top = find_top(folder)
    if top is None:
        raise UserError("This is not a git repository.", "Go to a checkout, or use: handoff -C DIR sandbox …")
    workspace = read_workspace(os.path.dirname(top))
    if workspace is not None and os.path.realpath(workspace.tree) == os.path.realpath(top):
        return sandbox_of_workspace(app, workspace=workspace, network=network, caches=caches, terminal=terminal)
    place = find_place(top, home=app.settings.home, project=app.settings.get("HANDOFF_PROJECT"))
    mine = Workspace(name=place.workspace, kind="shared", project=place.project, tree=top)
    return sandbox_of_workspace(app, workspace=mine, network=network, caches=caches, terminal=terminal)


def inside(app: App, *, sandbox: Sandbox, argv: Sequence[str], workspace: Workspace | None = None) -> Wrapped:
    """The command as it must be started to run inside the sandbox."""
    mine = {name: value for name, value in app.settings.environment.items() if name not in _NOT_INSIDE}
    environment = {**mine, **(workspace.environment() if workspace else {})}
    return wrap(sandbox.policy, argv, environment, by=sandbox.layer)


def present_layer(app: App) -> str:
    """What this machine has; the wanted one can be named by HANDOFF_SANDBOX."""
    wanted = app.settings.get("HANDOFF_SANDBOX")
    return NOTHING if wanted == NOTHING else layer(app.settings.environment, wanted=wanted)


def _sandbox(
    app: App,
    tree: str,
    temp: str,
    hidden: list[str],
    lists: tuple[list[str], list[str], list[str]],
    flags: tuple[bool, bool],
) -> Sandbox:
    visible, writable, frozen = lists
    home = app.settings.get("HOME") or os.path.expanduser("~")
    policy = Policy(
        workspace=tree,
        temp=temp,
        home=home,
        writable=tuple(writable),
        hidden=tuple(hidden),
        visible=tuple(visible),
        frozen=tuple(frozen),
        network=flags[0],
        terminal=flags[1],
    )
    return Sandbox(present_layer(app), policy)


def _checkout(workspace: Workspace) -> list[str]:
    """The person's checkout this workspace was made from, as the store remembers it, with its linked worktrees."""
    try:
        with open(
            os.path.join(workspace.project, STORE, "project"), encoding="utf-8", errors="surrogateescape"
        ) as file:
            common = file.read().rstrip("\n")
    except OSError:
        return []
    tops = [os.path.dirname(common) if os.path.basename(common) == ".git" else common]
    linked = os.path.join(common, "worktrees")
    for name in os.listdir(linked) if os.path.isdir(linked) else ():
        try:
            with open(os.path.join(linked, name, "gitdir"), encoding="utf-8", errors="surrogateescape") as file:
                tops.append(os.path.dirname(file.read().strip()))
        except OSError:
            continue
    return tops

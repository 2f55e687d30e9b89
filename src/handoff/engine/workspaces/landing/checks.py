"""Checks on what a landing would make: in a clean checkout of exactly that tree."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from handoff.checks.commands import Verdict, check_environment, run_check
from handoff.engine.proof.sandboxes import with_dependencies
from handoff.git.workspaces.dependencies import copy_included
from handoff.git.workspaces.kinds import isolation
from handoff.git.workspaces.workspaces import CLONE, Workspace

if TYPE_CHECKING:
    from handoff.engine.app import App
    from handoff.engine.safety.snapshots import SnapshotStore


def check_commit(
    app: App, snapshot_store: SnapshotStore, commit: str, command: str, how: tuple[float, bool]
) -> Verdict:
    """Run the check on a clean checkout of the commit, inside the sandbox where there is one."""
    timeout, sandboxed = how
    name = f"check-{os.urandom(3).hex()}"
    folder = os.path.join(snapshot_store.place.project, "checks", name)
    tree = os.path.join(folder, "tree")
    workspace = Workspace(
        name=name,
        kind=CLONE,
        project=snapshot_store.place.project,
        tree=tree,
        base=commit,
        branch=f"refs/heads/{name}",
        port=59990,
    )
    way = isolation(CLONE, app.git_environment)
    app.tell(f"Checking {commit[:8]}: {command}", 0, 0)
    try:
        way.make(snapshot_store.place, snapshot_store.store, workspace)
        copy_included(snapshot_store.place, snapshot_store.store, tree)
        top = snapshot_store.place.source.top
        wrap = with_dependencies(app, workspace=workspace, checkout=top).sandbox.wrap if sandboxed else None
        environment = {**check_environment(app.settings.environment), **workspace.environment()}
        return run_check(command, folder=tree, environment=environment, timeout=timeout, clock=app.clock, wrap=wrap)
    finally:
        way.discard(snapshot_store.place, snapshot_store.store, workspace)
        shutil.rmtree(folder, ignore_errors=True)

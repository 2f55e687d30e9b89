"""What a session's environment is: the person's, the session's mark, the guarded git, and nothing of another session's."""

from __future__ import annotations

import os

from handoff.base.record import TYPE_CHECKING
from handoff.git import guard
from handoff.git.plumbing.checkout import find_top
from handoff.git.plumbing.repository import Repository
from handoff.git.workspaces.workspaces import read_workspace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from handoff.board.tasks.tasks import Task
    from handoff.engine.app import App

_KEPT = ("HANDOFF_HOME", "HANDOFF_HOST", "HANDOFF_DATABASE_URL", "HANDOFF_SANDBOX")
_ROLES = {"sub-task": "sub-task", "fan-in": "fan-in"}


def session_environment(
    app: App, *, task: Task, session: str, token: str, workspace: str, own: Sequence[str]
) -> dict[str, str]:
    """The mark, the claim, our own program and the guarded git first on the PATH of whatever the agent runs."""
    kept = {
        name: value
        for name, value in app.settings.environment.items()
        if not name.startswith("HANDOFF_") or name in _KEPT
    }
    path = os.pathsep.join((app.settings.path, os.path.dirname(own[0])))
    top = find_top(workspace)
    if top is not None:
        made = read_workspace(os.path.dirname(top))
        if made is not None and os.path.realpath(made.tree) == os.path.realpath(top):
            kept.update(made.environment())
        role = _ROLES.get(task.kind, "main")
        mine = find_top(task.workspace) if task.workspace else None
        shared = Repository(mine or top, {}).common  # a clone's own git folder is not what sessions share
        kept.update(guard.session_environment(app.settings.home, role, path, shared=shared, program=own[0]))
    else:
        kept["PATH"] = path
    if task.patterns:
        kept["HANDOFF_OWNS"] = "\n".join(task.patterns)
    return {
        **kept,
        "HANDOFF_HOME": app.settings.home,
        "HANDOFF_SESSION": session,
        "HANDOFF_PROJECT": task.project,
        "HANDOFF_TASK": task.label,
        "HANDOFF_FENCE": str(task.fence),
        "HANDOFF_TOKEN": token,
    }

"""A session's wall: the disk is read-only but for its workspace, or but for what its task owns."""

from __future__ import annotations

import os

from handoff.agents.sandbox import BUBBLEWRAP, NOTHING, wrap
from handoff.base.errors import Refused
from handoff.base.record import TYPE_CHECKING
from handoff.engine.walls import wall_of_folder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from handoff.engine.app import App

NONE, WORKSPACE, OWNED = "none", "workspace", "owned"
KINDS = (NONE, WORKSPACE, OWNED)
_DOCUMENTS = ".handoff"


def check(app: App, *, kind: str, workspace: str) -> None:
    """Refuse a wall this machine cannot build, before anything is claimed."""
    if kind == NONE:
        return
    layer = wall_of_folder(app, folder=workspace).layer
    if layer == NOTHING or (kind == OWNED and layer != BUBBLEWRAP):
        raise Refused(
            f"This machine has no wall of the kind '{kind}'.",
            "Install bubblewrap (apt install bubblewrap), or start the session without --wall.",
        )


def build(
    app: App, *, kind: str, workspace: str, argv: Sequence[str], environment: Mapping[str, str], owned: Sequence[str],
    kept: Sequence[str],
) -> tuple[list[str], dict[str, str]]:  # fmt: skip
    """The client's words and environment as they are inside the wall.

    The client's own home stays writable, because it keeps its conversations there, and so does the relay's, because
    a session reports from inside. `kept` are the variables the client needs though the wall would drop them.
    """
    if kind == NONE:
        return list(argv), dict(environment)
    wall = wall_of_folder(app, folder=workspace)
    home = app.settings.home
    cage = wall.cage._replace(
        hidden=tuple(path for path in wall.cage.hidden if path != home),
        writable=(*wall.cage.writable, wall.cage.home, home),
    )
    inside = wrap(cage, argv, environment, by=wall.layer)
    words = inside.argv
    if kind == OWNED:
        words = _only_owned(words, cage.workspace, owned)
    given = {name: environment[name] for name in kept if name in environment}
    return words, {**inside.environment, **given}


def _only_owned(words: list[str], workspace: str, owned: Sequence[str]) -> list[str]:
    """The workspace is bound read-only, and what is owned writable over it."""
    for at in range(len(words) - 2):
        if words[at : at + 3] == ["--bind", workspace, workspace]:
            places = [*owned, os.path.join(workspace, _DOCUMENTS)]
            over = [word for path in places if os.path.lexists(path) for word in ("--bind", path, path)]
            return [*words[:at], "--ro-bind", workspace, workspace, *over, *words[at + 3 :]]
    raise Refused("The wall around the workspace was not found.", "Start the session without --wall owned.")

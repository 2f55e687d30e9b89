"""What sessions put into their clones for somebody's git to obey: put right at every look, and told."""

from __future__ import annotations

import os
from contextlib import suppress

from handoff.base.errors import HandoffError
from handoff.base.record import TYPE_CHECKING
from handoff.git.plumbing import sealed
from handoff.git.plumbing.untrusted import beside, check_clone
from handoff.git.tampering import Tampering
from handoff.git.workspaces.workspaces import CLONE

if TYPE_CHECKING:
    from collections.abc import Container, Sequence
    from typing import Any

    from handoff.engine.app import App
    from handoff.git.workspaces.workspaces import Workspace

PLANTED_IN_CLONE = "planted-in-clone"
_OURS = "session-"
"""So begins the id of a session that handoff started; others work in a workspace by a name of their own."""


def resting_clones(workspaces: Sequence[Workspace], at_work: Container[str]) -> set[str]:
    """Clones whose session is over: they were closed then, and of a large batch they are most of all clones."""
    over = (one for one in workspaces if one.session not in at_work)
    return {one.name for one in over if one.session.startswith(_OURS)}


def count_planted(app: App, workspaces: Sequence[Workspace], *, resting: Container[str] = ()) -> dict[str, int]:
    """How much was ever found in each clone, after a look now at those that do not rest."""
    for one in workspaces:
        if one.kind == CLONE and one.name not in resting and os.path.isdir(one.tree):
            with suppress(HandoffError):  # one that leads elsewhere is refused by whoever uses it
                check_clone(one.tree, app.settings.environment)
    return {one.name: len(_noted(one)) for one in workspaces}


def _noted(workspace: Workspace) -> list[tuple[str, str]]:
    place = beside(workspace.folder)
    return sealed.list_planted(place) if os.path.exists(f"{place}/{sealed.PLANTED}") else []


def find_planted(
    workspaces: Sequence[Workspace], top: str, before: dict[str, Any], now: dict[str, Any]
) -> list[Tampering]:
    """What sessions put into their clones for somebody's git to obey; it was put right when it was found."""
    found = []
    for one in workspaces:
        known, count = before.get("planted", {}).get(one.name, 0), now["planted"].get(one.name, 0)
        for name, text in _noted(one)[known:count] if count > known else ():
            who = one.session or one.name
            found.append(
                Tampering(
                    kind=PLANTED_IN_CLONE,
                    subject=f"{one.name}/{name}",
                    what=f"{who} changed {name} in its clone, which git obeys. It was put right; no git of ours obeyed it.",
                    evidence={"workspace": one.name, "path": os.path.join(one.tree, name), "text": text},
                    fix=("handoff", "-C", top, "snapshot", "list", "--session", one.name),
                    fixed={"seen": True},
                    session=who,
                )
            )
    return found

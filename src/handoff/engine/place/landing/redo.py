"""A conflict too large for a fan-in session: the part is made again by a session of its own, on the branch as it is now."""

from __future__ import annotations

import os
from contextlib import suppress

from handoff.base.errors import Refused
from handoff.base.files import make_folder, read_text, remove, write_atomic
from handoff.base.ids import on_one_line
from handoff.base.markdown import number_of
from handoff.base.record import TYPE_CHECKING
from handoff.board.events import journal
from handoff.board.tasks import races
from handoff.engine.place.landing.conflict import FOLDER, put
from handoff.git.landing.merge import THE_TARGET
from handoff.git.plumbing.beneath import Beneath

if TYPE_CHECKING:
    from collections.abc import Mapping

    from handoff.board.tasks.tasks import Task
    from handoff.engine.app import App
    from handoff.engine.safety.snapshots import SnapshotStore
    from handoff.git.landing.conflicts import LaidOut
    from handoff.git.workspaces.workspaces import Workspace

BEFORE = f"{FOLDER}/before.diff"
_TIMES = 2
"""So often a part is made again for this; then a person is asked."""
_WORDS = "Too much of it meets what came on the branch meanwhile"
_SHOWN = 10


class MadeAgain(Refused):
    """A fan-in cannot begin: these parts, by their keys, are to be made again first, and are told why."""

    def __init__(self, task: Task, told: dict[int, str]) -> None:
        super().__init__(
            f"'{task.label}' waits: what meets the branch in too many lines is made again on the branch as it is now.",
            "It goes on by itself when that is done; nothing is lost.",
        )
        self.told = told


def refuse_outgrown(app: App, task: Task, parts: Mapping[str, Task], laid: LaidOut) -> None:
    """Say which parts are to be made again, if that would help."""
    later = [parts[name] for name in dict.fromkeys(one.second for one in laid.files) if name in parts]
    if any(one.first != THE_TARGET for one in laid.files) or any(races.facts_of(part) for part in later):
        return  # two parts in each other's way, or a race that is decided
    if not later or any(_times(app, part) >= _TIMES for part in later):
        return  # the branch moves again and again
    names = {part.key: name for name, part in parts.items()}
    raise MadeAgain(task, {part.key: _words(laid, names[part.key]) for part in later})


def _words(laid: LaidOut, name: str) -> str:
    mine = [one for one in laid.files if one.second == name]
    paths = ", ".join(on_one_line(one.path) for one in mine[:_SHOWN]) + (" …" if len(mine) > _SHOWN else "")
    size = f"{number_of(sum(one.lines for one in mine), 'line')} in {number_of(len(mine), 'file')}"
    return (
        f"{_WORDS}: {size} ({paths}). Do it again on the branch as it is now: this clone is new, and what was made before is"
        f" in {BEFORE}."
    )


def _times(app: App, part: Task) -> int:
    events = journal.of_task(app.database, key=part.key)
    return sum(one.kind == "task.sent_back" and str(one.body.get("reason", "")).startswith(_WORDS) for one in events)


def note_before(snapshot_store: SnapshotStore, name: str, commit: str) -> None:
    """Remember which work the next clone of this name is to be shown."""
    path = _place(snapshot_store, name)
    make_folder(os.path.dirname(path), mode=0o700)
    write_atomic(path, commit + "\n")


def put_before(snapshot_store: SnapshotStore, workspace: Workspace) -> None:
    """What the part was before, beside its new clone's files, once."""
    path = _place(snapshot_store, workspace.name)
    commit = read_text(path).strip() if os.path.exists(path) else ""
    if commit:
        words = ("diff", "--no-color", "--no-ext-diff", f"{commit}^", commit)
        with suppress(OSError), Beneath(workspace.tree) as inside:
            put(inside, BEFORE, snapshot_store.store.ask_bytes(*words))
        remove(path)


def _place(snapshot_store: SnapshotStore, name: str) -> str:
    return os.path.join(snapshot_store.place.project, "settled", f"{name}.again")

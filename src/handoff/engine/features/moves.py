"""Put features aside and bring them back. Nothing here deletes: every move is written down, and `undo` takes it back."""

from __future__ import annotations

import os

from handoff.base import files
from handoff.base.clock import stamp
from handoff.base.errors import Refused, UserError
from handoff.base.ids import check_feature_name
from handoff.base.record import TYPE_CHECKING, Record
from handoff.engine.features.status import need_workspace, workspace_of
from handoff.feature import folder, history
from handoff.feature.folder import ARCHIVED, Feature, HandoffFolder

if TYPE_CHECKING:
    from handoff.engine.app import App

ARCHIVE, UNARCHIVE, CLEAN, UNDO = "archive", "unarchive", "clean", "undo"
_LOG = ".moves"  # beside what was moved to the trash, which git does not carry


class FeatureMove(Record):
    """Features that were moved together: each from where to where, below `.handoff/`; `active` is the one that was current."""

    id: str
    time: float
    kind: str
    pairs: tuple[tuple[str, str], ...]
    active: str = ""

    @property
    def what(self) -> str:
        """The move in words."""
        names = [os.path.basename(start) for start, _ in self.pairs]
        return f"{self.kind} of {', '.join(names)}"


def archive(app: App, *, name: str) -> str:
    """Rename a feature to `<name>.archived`; returns the new folder's name."""
    workspace = need_workspace(app)
    feature = folder.existing(workspace, name, program=app.settings.program)
    program = app.settings.program
    if name.endswith(ARCHIVED):
        raise UserError(f"'{name}' is archived already.", f"See: {program} list")
    goal = name + ARCHIVED
    if os.path.lexists(feature.path + ARCHIVED):
        raise UserError(
            f"Failed to archive feature: {feature.path} -> {feature.path}{ARCHIVED}: there is one of that name.",
            f"Bring that one back under another name first: {program} unarchive {name} --as {free_name(workspace, name)}",
        )
    carry_out(app, workspace, ARCHIVE, [(f"features/{name}", f"features/{goal}")])
    return goal


def unarchive(app: App, *, name: str, new_name: str = "") -> tuple[str, bool]:
    """Bring an archived feature back, under another name if one is given; its name, and whether it is the active one now."""
    workspace, program = need_workspace(app), app.settings.program
    name = name.removesuffix(ARCHIVED)
    if os.path.isdir(os.path.join(workspace.features, name)) and not _is_archived(workspace, name):
        raise UserError(f"'{name}' is not archived.", f"To work on it: {program} switch {name}")
    folder.existing(workspace, name + ARCHIVED, program=program)
    goal = new_name or name
    check_feature_name(goal)
    if os.path.lexists(os.path.join(workspace.features, goal)):
        raise Refused(
            f"There is a feature '{goal}' already. Nothing was changed.",
            f"Choose another name: {program} unarchive {name} --as {free_name(workspace, goal)}",
        )
    carry_out(app, workspace, UNARCHIVE, [(f"features/{name}{ARCHIVED}", f"features/{goal}")], active=goal)
    target = folder.link_target(workspace)
    return goal, target is not None and os.path.basename(target) == goal


def archived_twin(workspace: HandoffFolder, name: str) -> str:
    """A free name under which an archived feature of the same name could come back; empty where there is none."""
    return free_name(workspace, name) if _is_archived(workspace, name) else ""


def _is_archived(workspace: HandoffFolder, name: str) -> bool:
    return os.path.isdir(os.path.join(workspace.features, name + ARCHIVED))


def free_name(workspace: HandoffFolder, name: str) -> str:
    """`name-2`, or the next number that no feature has."""
    number = 2
    while any(os.path.lexists(os.path.join(workspace.features, f"{name}-{number}{end}")) for end in ("", ARCHIVED)):
        number += 1
    return f"{name}-{number}"


class Sweep(Record):
    """What `clean` would move, and what it spares."""

    workspace: HandoffFolder
    moving: list[str]
    spared: list[str]


def survey(app: App, *, everything: bool, archived: bool) -> Sweep:
    """The features `clean` would put in the trash: all but the active one and the archived ones."""
    workspace = need_workspace(app)
    target = folder.link_target(workspace)
    active = os.path.basename(target) if target and os.path.isdir(target) else ""
    if not active and not everything:
        raise UserError(
            f"No active feature found. Run: {app.settings.program} init",
            f"Without one, every feature would go. If you mean that: {app.settings.program} clean --force",
        )
    moving: list[str] = []
    spared: list[str] = []
    for name in folder.all_names(workspace):
        stays = (name == active and not everything) or (name.endswith(ARCHIVED) and not archived)
        (spared if stays else moving).append(name)
    return Sweep(workspace, moving, spared)


def clean(app: App, *, sweep: Sweep) -> FeatureMove:
    """Move the surveyed features to the trash."""
    workspace = sweep.workspace
    goals = [os.path.relpath(trash_place(app, workspace, name), workspace.path) for name in sweep.moving]
    return carry_out(app, workspace, CLEAN, [*zip((f"features/{name}" for name in sweep.moving), goals, strict=True)])


def trash_place(app: App, workspace: HandoffFolder, name: str) -> str:
    """A free place in the trash, named after the moment and the thing."""
    moment = stamp(app.clock.now()).replace(":", "").replace("-", "")
    files.make_folder(workspace.trash)
    number = 0
    while True:
        goal = os.path.join(workspace.trash, f"{moment}-{name}" + (f"-{number}" if number else ""))
        if not os.path.lexists(goal):
            return goal
        number += 1


def carry_out(
    app: App, workspace: HandoffFolder, kind: str, pairs: list[tuple[str, str]], *, active: str = ""
) -> FeatureMove:
    """Move all of it or nothing, write the move down, and leave `current` right; `active` becomes current where nothing is."""
    with files.locked(workspace.lock, what="the workspace"):
        _refuse_in_the_way(workspace, pairs)
        target = folder.link_target(workspace)
        current = os.path.basename(target) if target and os.path.isdir(target) else ""
        for start, end in pairs:
            try:
                os.rename(os.path.join(workspace.path, start), os.path.join(workspace.path, end))
            except OSError as error:
                raise UserError(f"Cannot move {start} to {end}: {error.strerror}.", "Look at .handoff/.") from error
        left = current if target is not None and not os.path.isdir(target) else ""
        if left:
            folder.clear_current(workspace)
        if active and (left or not current) and os.path.isdir(os.path.join(workspace.features, active)):
            folder.set_current(workspace, active)
        move = FeatureMove(os.urandom(5).hex(), app.clock.now(), kind, tuple(pairs), left)
        history.append(_log(workspace), {**move._asdict(), "pairs": [list(pair) for pair in pairs]})
    return move


def _refuse_in_the_way(workspace: HandoffFolder, pairs: list[tuple[str, str]]) -> None:
    for start, end in pairs:
        if not os.path.isdir(os.path.join(workspace.path, start)):
            raise Refused(f".handoff/{start} is no longer there. Nothing was changed.", "See: handoff undo --list")
        if os.path.lexists(os.path.join(workspace.path, end)):
            raise Refused(
                f".handoff/{end} is there already. Nothing was changed.",
                f"Move it aside first, for example: mv .handoff/{end} .handoff/{end}-2",
            )


def _log(workspace: HandoffFolder) -> Feature:
    path = os.path.join(workspace.trash, _LOG)
    files.make_folder(path)
    return Feature("moves", path)


def made(app: App) -> list[FeatureMove]:
    """The moves that were made in this project, oldest first."""
    workspace = workspace_of(app)
    if workspace is None or not os.path.isdir(os.path.join(workspace.trash, _LOG)):
        return []
    return [
        FeatureMove(one["id"], one["time"], one["kind"], tuple((a, b) for a, b in one["pairs"]), one["active"])
        for one in history.recent(_log(workspace))
    ]


def take_back(app: App, move: FeatureMove, *, dry_run: bool) -> tuple[str, ...]:
    """Put the features of a move back where they were; the one that was active is so again where no other is."""
    workspace = need_workspace(app)
    pairs = [(end, start) for start, end in move.pairs]
    _refuse_in_the_way(workspace, pairs)
    if not dry_run:
        carry_out(app, workspace, UNDO, pairs, active=move.active)
    verb = "Would move" if dry_run else "Moved"
    return tuple(f"{verb} .handoff/{start} to .handoff/{end}." for start, end in pairs)

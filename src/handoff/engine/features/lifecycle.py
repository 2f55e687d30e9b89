"""Begin and choose features; their templates; `.handoff/` and git's ignore list."""

from __future__ import annotations

import os

from handoff import __version__
from handoff.base import files
from handoff.base.clock import stamp
from handoff.base.errors import Refused, UserError
from handoff.base.ids import FEATURE_NAME_BYTES, check_feature_name, slug
from handoff.base.record import TYPE_CHECKING, Record
from handoff.base.settings import DEFAULT_CONFIG, PROJECT_FOLDER
from handoff.engine.features.status import need_workspace, workspace_of
from handoff.feature import folder, templates
from handoff.feature.folder import ARCHIVED, DOCUMENTS, Feature, HandoffFolder
from handoff.git.plumbing import checkout, find_top, open_source

if TYPE_CHECKING:
    from collections.abc import Callable

    from handoff.engine.app import App

    Ask = Callable[[str], bool]
    Warn = Callable[[str], None]

_TRUNKS = ("main", "master", "trunk", "develop", "dev")
EXCLUDE_LINE = PROJECT_FOLDER + "/"


class InitResult(Record):
    """What `init` did; `before` is the feature that was active until then."""

    name: str
    path: str
    root: str
    written: tuple[str, ...]
    active: bool
    before: str
    already: bool
    archived: str
    """A free name for an archived feature of the same name; empty where there is none."""
    present: list[str]
    wanted: list[str]
    optional: list[str]


def begin(app: App, *, name: str | None, force: bool, ask: Ask, warn: Warn) -> InitResult:
    """Create a feature (only the files that are missing) and make it active, unless another one is and stays so."""
    if name is not None:
        check_feature_name(name)
    workspace = workspace_of(app) or HandoffFolder(find_top(os.getcwd()) or _refuse_bare(os.getcwd()))
    if os.path.realpath(workspace.path) == os.path.realpath(app.settings.home):
        raise UserError(
            f"{workspace.path} is handoff's own home, so this folder cannot hold features.",
            "Run it inside a project's folder.",
        )
    occupied = os.path.lexists(workspace.current)
    if name is None and occupied and not force:
        target = folder.link_target(workspace)
        if target and os.path.isdir(target):
            name = os.path.basename(target)
            path = target
            written = _write_missing(workspace, path, name, warn)
            return _started(workspace, name, path, written, active=True, before=name, already=True)
    name = name or _name_here(workspace.root)
    path = os.path.join(workspace.features, name)
    already = os.path.isdir(path)
    files.make_folder(path)
    if not os.path.lexists(workspace.config):
        files.create_exclusive(workspace.config, DEFAULT_CONFIG)
    written = _write_missing(workspace, path, name, warn)
    target = folder.link_target(workspace)
    before = os.path.basename(target) if target and os.path.isdir(target) else ""
    is_current = target is not None and os.path.realpath(target) == os.path.realpath(path)
    if not is_current:
        free = not occupied or force or not before
        is_current = free or ask(f"The active feature is '{before}'. Make '{name}' the active one?")
        if is_current:
            folder.set_current(workspace, name)
    return _started(workspace, name, path, written, active=is_current, before=before, already=already)


def _refuse_bare(start: str) -> str:
    """The folder itself, unless it is inside a repository without files."""
    at = start
    while True:
        if all(os.path.exists(os.path.join(at, name)) for name in ("HEAD", "objects", "refs")):
            raise UserError(
                f"{at} is a repository without files of its own (a bare one, or a .git folder).",
                "Run it in a clone of it: git clone, then cd.",
            )
        above = os.path.dirname(at)
        if above == at:
            return start
        at = above


def _name_here(root: str) -> str:
    """A name for a feature that was given none: that of the branch, or of the folder where the branch says nothing."""
    branch = ""
    if find_top(root) == root:
        from handoff.git.plumbing.refs import head

        branch = head(open_source(root)).branch
    name = slug(branch) if branch and branch not in _TRUNKS else ""
    return (name or slug(os.path.basename(root)) or "feature")[:FEATURE_NAME_BYTES].strip("-")


def _write_missing(workspace: HandoffFolder, path: str, name: str, warn: Warn) -> list[str]:
    wanted, nice = templates.missing_sources(workspace.root)
    values = {
        "feature_name": name,
        "context_sources": templates.bullets(templates.present_sources(workspace.root)),
        "context_gaps": templates.bullets([*wanted, *(f"{item} (optional)" for item in nice)]),
    }
    written = []
    for document in DOCUMENTS:
        target = os.path.join(path, document)
        if os.path.lexists(target):
            continue
        template = templates.load(f"default_{document.lower()}", workspace, warn)
        if files.create_exclusive(target, templates.render(template, values, warn)):
            written.append(document)
    return written


def _started(
    workspace: HandoffFolder, name: str, path: str, written: list[str], *, active: bool, before: str, already: bool
) -> InitResult:
    wanted, nice = templates.missing_sources(workspace.root)
    present = templates.present_sources(workspace.root)
    return InitResult(
        name=name,
        path=path,
        root=workspace.root,
        written=tuple(written),
        active=active,
        before=before,
        already=already,
        archived=archived_twin(workspace, name),
        present=present,
        wanted=wanted,
        optional=nice,
    )


def switch(app: App, *, name: str) -> str:
    """Make another feature the active one; returns its name."""
    workspace = need_workspace(app)
    feature = folder.existing(workspace, name, program=app.settings.program, begin=True)
    if name.endswith(ARCHIVED):
        raise Refused(
            f"'{name}' is archived.",
            f"Bring it back first: {app.settings.program} unarchive {name.removesuffix(ARCHIVED)}",
        )
    folder.set_current(workspace, feature.name)
    return feature.name


class FeatureListing(Record):
    """One line of `list`."""

    name: str
    active: bool
    archived: bool


def listing(app: App) -> list[FeatureListing]:
    """Every feature of the project, the chosen one marked."""
    workspace = workspace_of(app)
    if workspace is None:
        return []
    target = folder.link_target(workspace)
    chosen = app.settings.feature or (os.path.basename(target) if target and os.path.isdir(target) else "")
    return [FeatureListing(name, name == chosen, name.endswith(ARCHIVED)) for name in folder.all_names(workspace)]


class Exported(Record):
    """What `export` did."""

    folder: str
    written: list[str]
    kept: str


def export_templates(app: App, *, force: bool, ask: Ask) -> Exported | None:
    """Copy the packaged templates out, stamped with the version; versions that were changed go to the trash first."""
    workspace = workspace_of(app) or HandoffFolder(find_top(os.getcwd()) or os.getcwd())
    goal = workspace.templates
    there = [name for name in templates.NAMES if os.path.lexists(os.path.join(goal, name))]
    if (
        os.path.isdir(goal)
        and os.listdir(goal)
        and not force
        and not ask(f"{goal} is not empty. Overwrite the templates?")
    ):
        return None
    files.make_folder(goal)
    changed = [name for name in there if files.read_bytes(os.path.join(goal, name)) != _stamped(name).encode("utf-8")]
    kept = ""
    if changed:
        kept = trash_place(app, workspace, "templates")
        files.make_folder(kept)
        for name in changed:
            files.write_atomic(os.path.join(kept, name), files.read_bytes(os.path.join(goal, name)))
    for name in templates.NAMES:
        files.write_atomic(os.path.join(goal, name), _stamped(name))
    return Exported(goal, list(templates.NAMES), os.path.relpath(kept, workspace.root) if kept else "")


def _stamped(name: str) -> str:
    return templates.stamp(name, __version__) + templates.packaged_template(name)


class TemplateDiff(Record):
    """How one override differs from the packaged template of this version."""

    name: str
    version: str
    lines: list[str]


def template_diffs(app: App) -> list[TemplateDiff]:
    """What each override misses of the packaged template (`+`) and what it has of its own (`-`)."""
    from difflib import unified_diff

    workspace = need_workspace(app)
    found = []
    for name in templates.NAMES:
        path = os.path.join(workspace.templates, name)
        if not os.path.isfile(path):
            continue
        text = files.read_text(path)
        lines = list(
            unified_diff(
                templates.without_stamp(text).splitlines(),
                templates.packaged_template(name).splitlines(),
                f"yours/{name}",
                f"handoff {__version__}/{name}",
                lineterm="",
            )
        )
        found.append(TemplateDiff(name, templates.stamped_version(text) or "unknown", lines))
    return found


def toggle_ignore(app: App) -> tuple[str, bool]:
    """Add `.handoff/` to git's private ignore list, or take it out; returns the file and whether it is in now."""
    top = find_top(os.getcwd())
    if top is None:
        raise UserError("Not a git repository.", "Run it inside one, or: git init")
    path = checkout.git_path(top, "info/exclude", environment=app.git_environment)
    files.make_folder(os.path.dirname(path))
    with files.locked(path + ".handoff-lock", what="the ignore list"):
        data = files.read_bytes(path) if os.path.exists(path) else b""
        lines = data.splitlines(keepends=True)
        mine = [line for line in lines if line.strip() == EXCLUDE_LINE.encode()]
        if mine:
            files.write_atomic(path, b"".join(line for line in lines if line not in mine))
        else:
            end = b"\r\n" if data.endswith(b"\r\n") else b"\n"
            gap = b"" if not data or data.endswith(b"\n") else end
            files.write_atomic(path, data + gap + EXCLUDE_LINE.encode() + end)
    os.unlink(path + ".handoff-lock")
    return path, not mine


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
        folder.append_log(_log(workspace), {**move._asdict(), "pairs": [list(pair) for pair in pairs]})
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
        for one in folder.read_log(_log(workspace))
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

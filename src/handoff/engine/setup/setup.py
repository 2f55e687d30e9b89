"""Put everything in, repair it, take exactly that out again: each file is shown first, and any death in between is mended."""

from __future__ import annotations

import os
import sys

from handoff.base.errors import HandoffError
from handoff.base.files import locked, sweep
from handoff.base.process import find, run
from handoff.base.record import TYPE_CHECKING, Record
from handoff.engine.place import batch_guard
from handoff.engine.place.proof import git_notes
from handoff.engine.safety import incidents
from handoff.engine.safety.snapshots import keep, open_snapshot_store
from handoff.engine.setup import ledger
from handoff.engine.setup.choices import SetupChoices, pieces
from handoff.engine.setup.settings_files import PROJECT, USER
from handoff.engine.supervisor import service, tabs
from handoff.git import guard
from handoff.git.plumbing.repository import Repository

if TYPE_CHECKING:
    from collections.abc import Iterator

    from handoff.engine.app import App
    from handoff.engine.setup.choices import SetupGround
    from handoff.engine.setup.pieces import Piece

MAKE, CHANGE, REMOVE, LEAVE, DO, FAIL = "make", "change", "remove", "leave", "do", "fail"


class SetupStep(Record):
    """One thing that will be done: to which file or where, whose it is, what and why."""

    act: str
    path: str
    scope: str
    what: str


class SetupPlan(Record):
    """Everything that will be done, in order, and what a person should know."""

    steps: tuple[SetupStep, ...]
    notes: tuple[str, ...] = ()

    @property
    def work(self) -> tuple[SetupStep, ...]:
        return tuple(step for step in self.steps if step.act not in (LEAVE, FAIL))

    @property
    def failed(self) -> tuple[SetupStep, ...]:
        return tuple(step for step in self.steps if step.act == FAIL)


def defaults(app: App, ground: SetupGround) -> SetupChoices:
    """What was chosen last time, else everything that fits this machine."""
    said = ledger.load(app).choices
    known = {name: value for name, value in said.items() if name in SetupChoices._fields and name != "agents"}
    agents = tuple(dict.fromkeys((*said.get("agents", ()), *ground.agents)))
    return SetupChoices(**{**known, "agents": agents})


def plan(app: App, ground: SetupGround, choices: SetupChoices, *, script: str) -> SetupPlan:
    """What `apply` will do. A file that cannot be read or written is named, and the others are done all the same."""
    held = ledger.load(app)
    steps = []
    for path, group in _by_file(pieces(app, ground, choices, script)).items():
        try:
            edit = ledger.plan_put(held, path, group)
            if edit.changes:
                ledger.check_writable(path)
        except (HandoffError, OSError) as error:
            steps.append(SetupStep(FAIL, path, group[0].scope, _why(error)))
            continue
        if edit.changes:
            act = MAKE if edit.before is None else CHANGE
            steps.append(SetupStep(act, path, group[0].scope, _words(group)))
        steps += [SetupStep(LEAVE, path, group[0].scope, why) for why in edit.left]
    lacking, notes = _acts(app, ground, choices)
    for one in lacking:
        steps += [SetupStep(DO, path, one.scope, one.what) for path in one.files or (one.place,)]
    return SetupPlan(tuple(sorted(steps, key=lambda step: step.scope == PROJECT)), tuple(notes))


def apply(app: App, ground: SetupGround, choices: SetupChoices, *, script: str) -> Iterator[str]:
    """Do it, and say in words what could not be done. Each file is read anew: somebody may have written meanwhile."""
    app.open_home()
    with locked(os.path.join(app.settings.home, "setup.lock"), what="setup"):
        held = ledger.load(app)
        held.choices.update({**choices._asdict(), "agents": list(choices.agents)})
        if ground.top and ground.top not in held.acts.setdefault(REPOSITORY, []):
            held.acts[REPOSITORY].append(ground.top)
        ledger.save(app, held)
        for path, group in _by_file(pieces(app, ground, choices, script)).items():
            try:
                edit = ledger.plan_put(held, path, group)
                if edit.changes:
                    ledger.put(app, held, edit)
            except (HandoffError, OSError) as error:
                yield _why(error, path)
        for act in _acts(app, ground, choices)[0]:
            places = held.acts.setdefault(act.name, [])
            if act.place not in places:
                places.append(act.place)
                ledger.save(app, held)
            yield from do_act(app, act, opening=_opening(app, choices))


def plan_undo(app: App, *, top: str) -> SetupPlan:
    """What `undo` will do for the repository at `top` and, unless others are set up too, for the person."""
    held = ledger.load(app)
    steps, others = [], _other_repositories(held, top)
    for entry in _mine(held, top, others):
        scope = entry.pieces[0].scope if entry.pieces else USER
        try:
            edit = ledger.plan_take(entry)
        except (HandoffError, OSError) as error:
            steps.append(SetupStep(FAIL, entry.path, scope, _why(error)))
            continue
        if edit.changes:
            act = REMOVE if edit.after is None else CHANGE
            steps.append(SetupStep(act, entry.path, scope, _words(entry.pieces)))
        steps += [SetupStep(LEAVE, entry.path, scope, why) for why in edit.left]
    for name, place in _my_acts(held, top, others):
        act = LEAVE if name == STORE else REMOVE
        steps += [SetupStep(act, path, scope_of(name), what) for path, what in what_goes(app, name, place)]
    notes = [
        f"Your own settings stay as they are while {place} is set up; there: handoff -C {place} setup --undo"
        for place in others
    ]
    return SetupPlan(tuple(sorted(steps, key=lambda step: step.scope == PROJECT)), tuple(notes))


def undo(app: App, *, top: str) -> Iterator[str]:
    """Take it out, and say in words what is left. What is out is forgotten at once, so a second run goes on."""
    app.open_home()
    with locked(os.path.join(app.settings.home, "setup.lock"), what="setup"):
        held = ledger.load(app)
        others = _other_repositories(held, top)
        for name, place in _my_acts(held, top, others):
            try:
                yield from undo_act(app, name, place)
            except HandoffError as error:
                yield _why(error, place)
                continue
            held.acts[name].remove(place)
            ledger.save(app, held)
        for entry in reversed(_mine(held, top, others)):
            try:
                ledger.take(app, held, ledger.plan_take(entry))
            except (HandoffError, OSError) as error:
                yield _why(error, entry.path)
        if not held.entries and not any(held.acts.values()):
            ledger.forget(app)


def change_alone(app: App, found: list[Piece], *, out: bool) -> list[ledger.FileEdit]:
    """Put these pieces in and nothing else, or take them `out`, also those that somebody else's setup wrote.

    All their files are read and understood before the first is written.
    """
    plan_edit = ledger.plan_take_pieces if out else ledger.plan_put
    app.open_home()
    with locked(os.path.join(app.settings.home, "setup.lock"), what="setup"):
        held = ledger.load(app)
        edits = [plan_edit(held, path, group) for path, group in _by_file(found).items()]
        for edit in edits:
            if out:
                ledger.take(app, held, edit)
            elif edit.changes:
                ledger.put(app, held, edit)
    return edits


def _why(error: Exception, path: str = "") -> str:
    """What is wrong with one file, in a line."""
    words = f"{error.message} {error.hint}".strip() if isinstance(error, HandoffError) else str(error)
    return words if not path or path in words else f"{path}: {words}"


def _acts(app: App, ground: SetupGround, choices: SetupChoices) -> tuple[list[SetupAct], list[str]]:
    return missing_acts(
        app, ground.top, guarded=choices.guard, snapshots=choices.snapshots, opening=_opening(app, choices)
    )


def _opening(app: App, choices: SetupChoices) -> bool:
    return choices.auto_open or opens_tabs(app)


def _by_file(found: list[Piece]) -> dict[str, tuple[Piece, ...]]:
    groups: dict[str, tuple[Piece, ...]] = {}
    for piece in found:
        groups[piece.path] = (*groups.get(piece.path, ()), piece)
    return groups


def _words(group: tuple[Piece, ...]) -> str:
    return "; ".join(dict.fromkeys(piece.what for piece in group))


def _other_repositories(held: ledger.Ledger, top: str) -> list[str]:
    """The repositories that are set up beside this one and are still there."""
    return sorted(place for place in held.acts.get(REPOSITORY, ()) if place != top and os.path.isdir(place))


def _mine(held: ledger.Ledger, top: str, others: list[str]) -> list[ledger.LedgerEntry]:
    found = []
    for entry in held.entries.values():
        if any(piece.scope == PROJECT for piece in entry.pieces):
            inside = bool(top) and entry.path.startswith(top + os.sep)
            if inside or not os.path.exists(os.path.dirname(entry.path)):
                found.append(entry)
        elif not others:
            found.append(entry)
    return found


def _my_acts(held: ledger.Ledger, top: str, others: list[str]) -> list[tuple[str, str]]:
    return [
        (name, place)
        for name, places in held.acts.items()
        for place in places
        if (not others if scope_of(name) == USER else place == top or not os.path.isdir(place))
    ]


# --- What setup does that is no edit of one file: the guard's hooks in the repository, and the watcher that takes snapshots

REPOSITORY, GUARD, WATCHER, STORE = "repository", "guard", "watcher", "snapshots"
_SECONDS = 15.0


class SetupAct(Record):
    """One such thing: where, what it is in words, the files it writes."""

    name: str
    place: str
    scope: str
    what: str
    files: tuple[str, ...]


def missing_acts(
    app: App, top: str, *, guarded: bool, snapshots: bool, opening: bool
) -> tuple[list[SetupAct], list[str]]:
    """What is not done yet, and in words what cannot be done on this machine."""
    found, notes = [], []
    if guarded and top:
        found += _guard(app, top)
    if snapshots and top:
        place = open_snapshot_store(app, folder=top).place
        if not os.path.isdir(place.store):
            name = os.path.join(place.source.common, "handoff-project")
            found.append(
                _act(STORE, top, PROJECT, "a first snapshot: what the watcher goes on from", place.store, name)
            )
    if snapshots:
        if _has_services(app):
            wanted = service.plan(app, service.tab_opener() if opening else service.watchdog()).files
            lacking = [path for path, text in wanted.items() if not _holds(path, text)]
            what = "a watcher: snapshots while people work, silent sessions" + (", tabs that open" if opening else "")
            found += [_act(WATCHER, app.settings.home, USER, what, *lacking)] if lacking else []
        else:
            notes.append(
                "No systemd or launchd user service was found: snapshots while you work are taken while"
                f" `{app.settings.program} watchdog --watch` or `{app.settings.program} work` runs."
            )
    return found, notes


def do_act(app: App, act: SetupAct, *, opening: bool) -> list[str]:
    """Do it; in words what could not be done."""
    if act.name == GUARD:
        repo = _repository(app, act.place)
        with incidents.ours(app, folder=repo.top):
            _sweep(app, repo)
            guard.install(repo)
            batch_guard.leave_in(repo)
            git_notes.follow(app, repository=repo.top)
        return []
    if act.name == STORE:
        keep(app, open_snapshot_store(app, folder=act.place), "setup")
        return []
    return [step.words for step in service.install_watchdog(app, opening=opening) if not step.done]


def undo_act(app: App, name: str, place: str) -> list[str]:
    """Take it out again; in words what is left."""
    if name == GUARD and os.path.isdir(place):
        repo = _repository(app, place)
        with incidents.ours(app, folder=repo.top):
            _sweep(app, repo)
            guard.uninstall(repo)
            git_notes.unfollow(app, repository=repo.top)
    if name == WATCHER:
        return [step.words for step in service.uninstall_watchdog(app) if not step.done]
    return []


def what_goes(app: App, name: str, place: str) -> list[tuple[str, str]]:
    """The files that `undo` takes away, or that stay, each with what it is."""
    if name == GUARD and os.path.isdir(place):
        state = guard.look(_repository(app, place), home=app.settings.home, path=app.settings.path)
        words = {"installed": "the git guard's hook", "chained": "the git guard's hook; your own is put back"}
        return [(os.path.join(state.folder, hook), words[kind]) for hook, kind in state.hooks.items() if kind in words]
    if name == STORE and os.path.isdir(place):
        return [(open_snapshot_store(app, folder=place).place.store, "the snapshots are kept: they are work of yours")]
    if name == WATCHER:
        files = {**service.plan(app, service.watchdog()).files, **service.plan(app, service.tab_opener()).files}
        return [(path, "the watcher's service") for path in files if os.path.exists(path)]
    return []


def scope_of(name: str) -> str:
    """Whether it is the person's or the repository's."""
    return USER if name == WATCHER else PROJECT


def _guard(app: App, top: str) -> list[SetupAct]:
    repo = _repository(app, top)
    state = guard.look(repo, home=app.settings.home, path=app.settings.path)
    lacking = [name for name, kind in state.hooks.items() if kind in ("absent", "foreign")]
    if not lacking and not batch_guard.came_with_a_batch(repo):
        return []
    files = [os.path.join(guard.place_of_hooks(repo), name) for name in lacking] + [os.path.join(repo.common, "config")]
    return [_act(GUARD, top, PROJECT, "the git guard; hooks of yours run behind it", *files)]


def opens_tabs(app: App) -> bool:
    """Whether tabs open by themselves, as the settings say now."""
    return tabs.is_wanted(app)


def _holds(path: str, text: str) -> bool:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read() == text
    except OSError:
        return False


def _has_services(app: App) -> bool:
    if sys.platform == "darwin":
        return find("launchctl", path=app.settings.path) is not None
    if find("systemctl", path=app.settings.path) is None:
        return False
    words = ("systemctl", "--user", "show-environment")
    return run(words, environment=app.settings.environment, timeout=_SECONDS).code == 0


def _sweep(app: App, repo: Repository) -> None:
    folder = guard.look(repo, home=app.settings.home, path=app.settings.path).folder
    for name in guard.HOOKS:
        sweep(os.path.join(folder, name))


def _repository(app: App, top: str) -> Repository:
    return Repository(top, app.git_environment)


def _act(name: str, place: str, scope: str, what: str, *files: str) -> SetupAct:
    return SetupAct(name, place, scope, what, files)

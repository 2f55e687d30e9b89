"""What setup does that is no edit of one file: the guard's hooks in the repository, and the watcher that takes snapshots."""

from __future__ import annotations

import os
import sys

from handoff.base.files import sweep
from handoff.base.process import find, run
from handoff.base.record import TYPE_CHECKING, Record
from handoff.engine.clients.settings_files import PROJECT, USER
from handoff.engine.proof import git_notes
from handoff.engine.safety import incidents
from handoff.engine.safety.snapshots import keep, open_snapshot_store
from handoff.engine.supervisor import service, tabs
from handoff.engine.workspaces import batch_guard
from handoff.git import guard
from handoff.git.plumbing.repository import Repository

if TYPE_CHECKING:
    from handoff.engine.app import App

REPOSITORY, GUARD, WATCHER, STORE = "repository", "guard", "watcher", "snapshots"
_SECONDS = 15.0


class SetupAct(Record):
    """One such thing: where, what it is in words, the files it writes."""

    name: str
    place: str
    scope: str
    what: str
    files: tuple[str, ...]


def missing(app: App, top: str, *, guarded: bool, snapshots: bool, opening: bool) -> tuple[list[SetupAct], list[str]]:
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
            found += _watcher(app, opening=opening)
        else:
            notes.append(
                "No service manager of yours answers here: snapshots while you work are taken while"
                f" `{app.settings.program} watchdog --watch` or `{app.settings.program} work` runs."
            )
    return found, notes


def do(app: App, act: SetupAct, *, opening: bool) -> list[str]:
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


def undo(app: App, name: str, place: str) -> list[str]:
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


def _watcher(app: App, *, opening: bool) -> list[SetupAct]:
    wanted = service.plan(app, service.tab_opener() if opening else service.watchdog()).files
    lacking = [path for path, text in wanted.items() if not _holds(path, text)]
    what = "a watcher: snapshots while people work, silent sessions" + (", tabs that open" if opening else "")
    return [_act(WATCHER, app.settings.home, USER, what, *lacking)] if lacking else []


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

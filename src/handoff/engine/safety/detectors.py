"""The grounds the watcher looks at: a person's repository, its documents, its workspaces and who works there."""

from __future__ import annotations

import os
from contextlib import suppress

from handoff.base.errors import HandoffError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.base.settings import PROJECT_FOLDER
from handoff.board.sessions import sessions
from handoff.board.tasks import states, tasks
from handoff.engine.safety.snapshots import Vault, snapshot
from handoff.git import tampering
from handoff.git.landing.target import Target
from handoff.git.ownership.ownership import Ownership
from handoff.git.plumbing import query as sources
from handoff.git.plumbing.checkout import find_top
from handoff.git.plumbing.snapshot_repo import Store
from handoff.git.plumbing.untrusted import check_clone
from handoff.git.snapshots.location import MAIN, STORE, find_place
from handoff.git.snapshots.take import Wish, snapshots
from handoff.git.tampering import Finding, Work
from handoff.git.workspaces.workspaces import CLONE, READY, SHARED, Workspace, all_workspaces

if TYPE_CHECKING:
    from typing import Any

    from handoff.board.sessions.sessions import Session
    from handoff.board.tasks.tasks import Task
    from handoff.engine.app import App

STATE_WIPED, HOME_WIPED, WORKSPACE_GONE = "state-wiped", "home-wiped", "workspace-gone"
_ARCHIVED = ".archived"
_SHOWN = 20


class Ground(Record):
    """One repository of a person, where its snapshots go, and who is at work there."""

    name: str
    place: str
    vault: Vault
    workspaces: tuple[Workspace, ...]
    held: tuple[Task, ...]
    at_work: tuple[str, ...]

    @property
    def busy(self) -> bool:
        return bool(self.workspaces or self.at_work)


def all_grounds(app: App) -> list[Ground]:
    """Every repository with a snapshot store, and those live sessions work in."""
    live, held = live_work(app)
    found: dict[str, Vault] = {}
    home = app.settings.home
    names = sorted(os.listdir(home)) if os.path.isdir(home) else []
    for name in names:
        common = _read(os.path.join(home, name, STORE, "project")).rstrip("\n")
        if common:
            _note(app, found, os.path.dirname(common) if os.path.basename(common) == ".git" else common, name)
    folders = [(one.workspace, one.project) for one in live] + [(one.workspace, one.project) for one in held]
    for folder, project in folders:
        top = find_top(folder) if folder and os.path.isdir(folder) else None
        if top is not None:
            _note(app, found, top, project)
    return [_ground(app, common, vault, live, held) for common, vault in found.items()]


def _note(app: App, found: dict[str, Vault], top: str, project: str) -> None:
    home = app.settings.home
    try:
        known = project if os.path.isdir(os.path.join(home, project, STORE)) else ""
        place = find_place(top, home=home, project=known)
    except HandoffError:
        return
    if place.workspace == MAIN:
        found.setdefault(
            os.path.realpath(place.source.common), Vault(place, Store(place.store, app.settings.environment))
        )


def _ground(app: App, common: str, vault: Vault, live: list[Session], held: list[Task]) -> Ground:
    folder = vault.place.project
    name = os.path.basename(folder)
    made = tuple(one for one in all_workspaces(folder) if one.state == READY and one.kind != SHARED)
    mine = [one for one in live if one.project == name or _inside(common, one.workspace)]
    tasks_here = tuple(one for one in held if one.held_by and _inside(common, one.workspace))
    at_work = dict.fromkeys([*(one.id for one in mine), *(str(one.held_by) for one in tasks_here)])
    return Ground(name, f"{app.settings.host}:{common}", vault, made, tasks_here, tuple(at_work))


def is_of(ground: Ground, folder: str) -> bool:
    """Whether a folder lies in this ground's repository."""
    return _inside(os.path.realpath(ground.vault.place.source.common), folder)


def _inside(common: str, folder: str) -> bool:
    top = find_top(folder) if folder and os.path.isdir(folder) else None
    if top is None:
        return False
    try:
        return os.path.realpath(sources.open_source(top).common) == common
    except HandoffError:
        return False


def live_work(app: App) -> tuple[list[Session], list[Task]]:
    """Sessions of agents and tabs that have not ended, and the tasks somebody holds."""
    live = [one for one in sessions.listing(app.database) if one.kind != sessions.SUPERVISOR]
    held = tasks.listing(app.database, state=states.RUNNING)
    known = {task.key for task in held}
    for one in live:  # reported, but its session is not over yet
        if one.task is not None and one.task not in known:
            held.append(tasks.get(app.database, key=one.task)._replace(held_by=one.id))
    return live, held


# --- facts ---------------------------------------------------------------------------------------------------


def facts(app: App, ground: Ground, before: dict[str, Any]) -> dict[str, Any]:
    """All that is compared from look to look, as plain values."""
    source = ground.vault.place.source
    home = app.settings.home
    return {
        **tampering.facts(ground.vault.store, source, before),
        "busy": ground.busy,
        "documents": _documents(source.top),
        "store": os.path.exists(os.path.join(ground.vault.store.path, "HEAD")),
        "queue": os.path.isdir(os.path.join(ground.vault.place.project, "queue")),
        "shims": [
            role for role in ("sub-task", "fan-in", "main") if os.path.exists(os.path.join(home, "guard", role, "git"))
        ],
        "workspaces": {one.name: _tip(one) for one in ground.workspaces if os.path.lexists(one.tree)},
        "snapshot": before.get("snapshot", ""),
    }


def keep(app: App, ground: Ground) -> str:
    """A snapshot that holds the ground as it is, its documents too where git is told to ignore them."""
    kept = snapshot(app, vault=ground.vault, wish=Wish("watched"))
    if os.path.isdir(os.path.join(ground.vault.place.source.top, PROJECT_FOLDER)):
        kept = snapshot(app, vault=ground.vault, wish=Wish("watched", paths=[PROJECT_FOLDER]))
    return kept.sha


def _documents(top: str) -> list[str]:
    """The documents of the features that are not put aside."""
    base = os.path.join(top, PROJECT_FOLDER, "features")
    found = []
    for name in sorted(os.listdir(base)) if os.path.isdir(base) else ():
        if name.endswith(_ARCHIVED) or name.startswith("."):
            continue
        for file in sorted(os.listdir(os.path.join(base, name))) if os.path.isdir(os.path.join(base, name)) else ():
            path = os.path.join(base, name, file)
            if file.endswith(".md") and os.path.isfile(path) and os.path.getsize(path):
                found.append(_text(f"{name}/{file}"))
    return found


def _tip(workspace: Workspace) -> str:
    try:
        source = sources.open_source(workspace.tree)
    except HandoffError:
        return ""
    return sources.refs(source).get(workspace.branch, "")


# --- what is wrong -------------------------------------------------------------------------------------------


def our_moves(ground: Ground, before: dict[str, Any], now: dict[str, Any]) -> set[tuple[str, str]]:
    """Values handoff itself gave to refs: landings and their undoing, safe commits, branches of removed workspaces."""
    ours: set[tuple[str, str]] = set()
    for landing in _landings(ground):
        ours |= {(landing.target, landing.new), (landing.target, landing.old)}
    made = _made(ground.vault.place.source.common)
    ours |= {(name, value) for name, value in now["refs"].items() if value in made}
    gone = before.get("workspaces", {}).keys() - now["workspaces"].keys()
    known = {one.name for one in ground.workspaces}
    ours |= {(f"refs/heads/handoff/{name}", "") for name in gone if name not in known}
    return ours


def strange_commits(ground: Ground, before: dict[str, Any], now: dict[str, Any]) -> list[Finding]:
    """Commits that took in what is not theirs, on branches somebody works on."""
    store, source = ground.vault.store, ground.vault.place.source
    made: dict[str, str] | None = None
    found: list[Finding] = []
    for task in ground.held:
        branch = now["head"]
        values = (before["refs"].get(branch, ""), now["refs"].get(branch, ""))
        if not task.patterns or not all(values) or values[0] == values[1]:
            continue
        if made is None:
            made = _made(source.common) | _landed(ground)
        work = Work(str(task.held_by), branch, Ownership.parse(task.patterns).covers, own=False)
        found += tampering.foreign_commits(store, source, work, values, made)
    for one in ground.workspaces:
        values = (before.get("workspaces", {}).get(one.name, ""), now["workspaces"].get(one.name, ""))
        if one.owns and all(values) and values[0] != values[1]:
            work = Work(one.session or one.name, one.branch, Ownership.parse(one.owns).covers, own=True)
            with suppress(HandoffError):  # a clone that cannot be read must not blind us to the rest
                if one.kind == CLONE:
                    check_clone(one.tree)
                found += tampering.foreign_commits(store, sources.open_source(one.tree), work, values, {})
    return found


def vanished(app: App, ground: Ground, before: dict[str, Any], now: dict[str, Any]) -> list[Finding]:
    """Documents, workspaces and files of the home that are gone."""
    top = ground.vault.place.source.top
    program = ("handoff", "-C", top)
    mend: tuple[str, ...]
    found = _wiped_documents(ground, before, now)
    removed = None
    for name in sorted(before.get("workspaces", {}).keys() - now["workspaces"].keys()):
        if removed is None:
            removed = {one.workspace for one in snapshots(ground.vault.store) if one.operation == "remove"}
        if name in removed and name not in {one.name for one in ground.workspaces}:
            continue  # by the rules, after its last snapshot
        what = f"The workspace '{name}' is gone from the disk."
        mend = (*program, "workspace", "revive", name)
        found.append(Finding(WORKSPACE_GONE, name, what, {"workspace": name}, mend, {"workspace": name}, name))
    if before.get("store") and not now["store"]:
        what = f"The snapshot store of {top} is gone, and every snapshot with it; workspaces borrow objects from it."
        mend = (*program, "snapshot", "-m", "a new store")
        found.append(
            Finding(HOME_WIPED, STORE, what, {"path": ground.vault.store.path}, mend, {"home": ground.vault.store.path})
        )
    queue = os.path.join(ground.vault.place.project, "queue")
    if before.get("queue") and not now["queue"]:
        mend = (*program, "sync-files")
        found.append(Finding(HOME_WIPED, "queue", f"{queue} is gone.", {"path": queue}, mend, {"home": queue}))
    for role in sorted(set(before.get("shims", [])) - set(now["shims"])):
        path = os.path.join(app.settings.home, "guard", role, "git")
        mend = (*program, "git-guard", "env", "--role", role)
        what = f"The guarded git for the role {role} is gone: {path}."
        found.append(Finding(HOME_WIPED, f"guard/{role}", what, {"path": path}, mend, {"home": path}))
    return found


def _wiped_documents(ground: Ground, before: dict[str, Any], now: dict[str, Any]) -> list[Finding]:
    top = ground.vault.place.source.top
    missing = [name for name in before.get("documents", []) if name not in now["documents"]]
    if before.get("head") != now["head"]:
        return []  # another branch may have other documents
    aside = _names(os.path.join(top, PROJECT_FOLDER, "features")) + _names(os.path.join(top, PROJECT_FOLDER, "trash"))
    put_aside = {
        name.partition("/")[0] for name in missing
        if not os.path.isdir(os.path.join(top, PROJECT_FOLDER, "features", name.partition("/")[0]))
        and any(other != name.partition("/")[0] and name.partition("/")[0] in other for other in aside)
    }  # fmt: skip
    missing = [name for name in missing if name.partition("/")[0] not in put_aside]
    if not missing:
        return []
    whole = not os.path.isdir(os.path.join(top, PROJECT_FOLDER))
    paths = [PROJECT_FOLDER] if whole else [f"{PROJECT_FOLDER}/features/{name}" for name in missing]
    words = [word for path in paths[:_SHOWN] for word in ("--path", path)]
    what = f"{len(missing)} documents of this project's features are gone or empty: {', '.join(missing[:5])}."
    mend = ("handoff", "-C", top, "restore", before.get("snapshot", ""), *words)
    return [Finding(STATE_WIPED, PROJECT_FOLDER, what, {"missing": missing[:_SHOWN]}, mend, {"documents": missing})]


def is_mended(ground: Ground, mended: dict[str, Any], now: dict[str, Any]) -> bool:
    """Whether what an incident wants to see again is there."""
    if "documents" in mended:
        return all(name in now["documents"] for name in mended["documents"])
    if "workspace" in mended:
        return mended["workspace"] in now["workspaces"]
    if "home" in mended:
        return os.path.exists(mended["home"])
    if "reverted" in mended:
        words = ["log", "-n1", "--format=%H", f"--grep=This reverts commit {mended['reverted']}", mended["ref"], "--"]
        return bool(ground.vault.store.look(ground.vault.place.source, *words).out.strip())
    if "not" in mended:
        tips = [now["refs"].get(mended["ref"]), *now["workspaces"].values()]
        return mended["not"] not in tips
    return tampering.is_mended(mended, now)


# --- who made what -------------------------------------------------------------------------------------------


def _made(common: str) -> dict[str, str]:
    """Commits sessions made by safe commit."""
    lines = _read(os.path.join(common, "handoff", "made")).splitlines()
    return dict(line.split(" ", 1) for line in lines if " " in line)


def _landings(ground: Ground) -> list[Any]:
    return Target(ground.vault.store, ground.vault.place.source, ground.vault.place.project, {}).all()[:_SHOWN]


def _landed(ground: Ground) -> dict[str, str]:
    found: dict[str, str] = {}
    for landing in _landings(ground):
        words = ["rev-list", f"{landing.old}..{landing.new}", "--"]
        found |= dict.fromkeys(ground.vault.store.look(ground.vault.place.source, *words).text.split(), tampering.OURS)
    return found


def _names(folder: str) -> list[str]:
    return os.listdir(folder) if os.path.isdir(folder) else []


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except OSError:
        return ""


def _text(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()

"""What the watcher looks at: a person's repository, its documents, its workspaces and who works there."""

from __future__ import annotations

import os
from contextlib import suppress

from handoff.base.errors import HandoffError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.base.settings import PROJECT_FOLDER
from handoff.board.events import journal
from handoff.board.sessions import sessions
from handoff.board.tasks import batches, states, tasks
from handoff.engine.app.home import files_folder, files_stamp
from handoff.engine.safety.snapshots import SnapshotStore
from handoff.engine.safety.snapshots import keep as keep_snapshot
from handoff.git import tampering
from handoff.git.guard import ROLES
from handoff.git.landing.target import Target
from handoff.git.ownership import Ownership
from handoff.git.plumbing import Source, find_top, open_source, read_text, untrusted
from handoff.git.plumbing.refs import refs
from handoff.git.plumbing.snapshot_repo import MAIN, STORE, SnapshotRepo, find_place
from handoff.git.plumbing.untrusted import beside, check_clone
from handoff.git.snapshots.take import snapshots
from handoff.git.tampering import BranchOwner, Tampering
from handoff.git.workspaces import CLONE, READY, SHARED, Workspace, all_workspaces, ready_workspaces
from handoff.store.database import EVERY_LINE

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence
    from typing import Any

    from handoff.board.sessions.sessions import Session
    from handoff.board.tasks.tasks import Task
    from handoff.engine.app import App

    Work = tuple[list[Session], list[Task]]
    Known = Sequence[Workspace] | None

STATE_WIPED, HOME_WIPED, WORKSPACE_GONE = "state-wiped", "home-wiped", "workspace-gone"
_ARCHIVED = ".archived"
_SHOWN = 20


class WatchedRepository(Record):
    """One repository of a person, where its snapshots go, and who is at work there."""

    name: str
    place: str
    snapshot_store: SnapshotStore
    workspaces: tuple[Workspace, ...]
    held: tuple[Task, ...]
    at_work: tuple[str, ...]

    @property
    def busy(self) -> bool:
        return bool(self.workspaces or self.at_work)

    @property
    def store(self) -> SnapshotRepo:
        return self.snapshot_store.store

    @property
    def source(self) -> Source:
        return self.snapshot_store.place.source

    @property
    def project(self) -> str:
        return self.snapshot_store.place.project

    def fix(self, *words: str) -> tuple[str, ...]:
        """A command of handoff in this repository."""
        return ("handoff", "-C", self.source.top, *words)


def watched_repositories(app: App, known: Mapping[str, Sequence[Workspace]] | None = None) -> list[WatchedRepository]:
    """Every repository with a snapshot store, and those live sessions work in; `known` are workspaces by project folder."""
    live, held = live_work(app)
    found: dict[str, SnapshotStore] = {}
    home = app.settings.home
    for name in sorted(_names(home)):
        common = read_text(os.path.join(home, name, STORE, "project")).rstrip("\n")
        if common:
            _note(app, found, os.path.dirname(common) if os.path.basename(common) == ".git" else common, name)
    folders = [(one.workspace, one.project) for one in live] + [(one.workspace, one.project) for one in held]
    folders += [
        (one.workspace, one.project) for one in batches.listing(app.database) if missing_batches(app, one.project)
    ]
    for folder, project in folders:
        top = _top(folder)
        if top is not None:
            _note(app, found, top, project)
    return [
        _watched(app, common, one, (live, held), (known or {}).get(one.place.project)) for common, one in found.items()
    ]


def _note(app: App, found: dict[str, SnapshotStore], top: str, project: str) -> None:
    home = app.settings.home
    try:
        known = project if os.path.isdir(os.path.join(home, project, STORE)) else ""
        place = find_place(top, home=home, project=known)
    except HandoffError:
        return
    if place.workspace == MAIN:
        found.setdefault(
            os.path.realpath(place.source.common),
            SnapshotStore(place, SnapshotRepo(place.store, app.settings.environment)),
        )


def _watched(app: App, common: str, snapshot_store: SnapshotStore, work: Work, known: Known) -> WatchedRepository:
    (live, held), folder = work, snapshot_store.place.project
    name, found = os.path.basename(folder), all_workspaces(folder) if known is None else known
    made = tuple(one for one in found if one.state == READY and one.kind != SHARED)
    mine = [one for one in live if one.project == name or _inside(common, one.workspace)]
    tasks_here = tuple(one for one in held if one.held_by and _inside(common, one.workspace))
    at_work = dict.fromkeys([*(one.id for one in mine), *(str(one.held_by) for one in tasks_here)])
    return WatchedRepository(
        name=name,
        place=f"{app.settings.host}:{common}",
        snapshot_store=snapshot_store,
        workspaces=made,
        held=tasks_here,
        at_work=tuple(at_work),
    )


def is_of(watched: WatchedRepository, folder: str) -> bool:
    """Whether a folder lies in this repository."""
    return _inside(os.path.realpath(watched.source.common), folder)


def _top(folder: str) -> str | None:
    return find_top(folder) if folder and os.path.isdir(folder) else None


def _inside(common: str, folder: str) -> bool:
    top = _top(folder)
    if top is None:
        return False
    try:
        return os.path.realpath(open_source(top).common) == common
    except HandoffError:
        return False


def live_work(app: App) -> tuple[list[Session], list[Task]]:
    """Sessions of agents and tabs that have not ended, and the tasks somebody holds."""
    with app.database.transaction(write=False) as look:
        live = [one for one in sessions.listing(look) if one.kind != sessions.SUPERVISOR]
        held = tasks.listing(look, state=states.RUNNING)
        keys = {task.key for task in held}
        for one in (one for one in live if one.task not in keys):  # reported, but its session is not over yet
            held += [tasks.get(look, key=one.task)._replace(held_by=one.id)] if one.task is not None else []
    return live, held


# --- facts ---------------------------------------------------------------------------------------------------


def facts(app: App, watched: WatchedRepository, before: dict[str, Any]) -> dict[str, Any]:
    """All that is compared from look to look, as plain values."""
    guard = os.path.join(app.settings.home, "guard")
    resting = resting_clones(watched.workspaces, watched.at_work) & before.get("workspaces", {}).keys()
    known = {name: before["workspaces"][name] for name in resting}
    there = (one for one in watched.workspaces if os.path.lexists(one.tree))
    return {
        **tampering.facts(watched.store, watched.source, before),
        "busy": watched.busy,
        "documents": _documents(watched.source.top),
        "store": watched.store.exists,
        "queue": os.path.isdir(os.path.join(watched.project, "queue")),
        "wiped": missing_batches(app, watched.name),
        "shims": [role for role in ROLES if os.path.exists(os.path.join(guard, role, "git"))],
        "workspaces": {one.name: known[one.name] if one.name in known else _tip(one) for one in there},
        "planted": count_injected(app, watched.workspaces, resting=resting),
        "snapshot": before.get("snapshot", ""),
    }


def keep(app: App, watched: WatchedRepository) -> str:
    """A snapshot that holds the repository as it is, its documents too where git ignores them."""
    kept = keep_snapshot(app, watched.snapshot_store, "watched")
    if os.path.isdir(os.path.join(watched.source.top, PROJECT_FOLDER)):
        kept = keep_snapshot(app, watched.snapshot_store, "watched", paths=[PROJECT_FOLDER])
    return kept.sha


def _documents(top: str) -> list[str]:
    """The documents of the features that are not put aside."""
    base = os.path.join(top, PROJECT_FOLDER, "features")
    found = []
    for name in sorted(_names(base)):
        if name.endswith(_ARCHIVED) or name.startswith("."):
            continue
        for file in sorted(_names(os.path.join(base, name))):
            path = os.path.join(base, name, file)
            if file.endswith(".md") and os.path.isfile(path) and os.path.getsize(path):
                found.append(tampering.as_text(f"{name}/{file}"))
    return found


def _tip(workspace: Workspace) -> str:
    try:
        source = open_source(workspace.tree)
    except HandoffError:
        return ""
    return refs(source).get(workspace.branch, "")


# --- what is wrong -------------------------------------------------------------------------------------------


def our_moves(watched: WatchedRepository, before: dict[str, Any], now: dict[str, Any]) -> set[tuple[str, str]]:
    """Values handoff itself gave to refs: landings and their undoing, safe commits, branches of removed workspaces."""
    ours: set[tuple[str, str]] = set()
    for landing in _landings(watched):
        ours |= {(landing.target, landing.new), (landing.target, landing.old)}
    made = made_by_handoff(watched.source.common)
    ours |= {(name, value) for name, value in now["refs"].items() if value in made}
    gone = before.get("workspaces", {}).keys() - now["workspaces"].keys()
    known = ready_workspaces(watched.project, gone)
    ours |= {(f"refs/heads/handoff/{name}", "") for name in gone if name not in known}
    return ours


def lost_races(app: App, before: dict[str, Any], now: dict[str, Any]) -> set[tuple[str, str]]:
    """Branches of those that lost a race: handoff drops them when the winner has landed, and nobody's branch holds their commits."""
    found = set()
    for name in before.get("refs", {}).keys() - now["refs"].keys():
        number = name.rpartition("-")[2] if name.startswith("refs/heads/handoff/") else ""
        task = tasks.look_up(app.database, key=int(number)) if number.isdecimal() else None
        if task is not None and task.kind == tasks.ENTRANT and task.ended:
            found.add((name, ""))
    return found


def strange_commits(watched: WatchedRepository, before: dict[str, Any], now: dict[str, Any]) -> list[Tampering]:
    """Commits that took in what is not theirs, on branches somebody works on."""
    store, source = watched.store, watched.source
    made: dict[str, str] | None = None
    found: list[Tampering] = []
    branch = now["head"]
    values = (before["refs"].get(branch, ""), now["refs"].get(branch, ""))
    if all(values) and values[0] != values[1] and (safe := made_by_handoff(source.common)):
        found += tampering.reverted_commits(store, source, branch, values, safe)
    for task in watched.held:
        branch = now["head"]
        values = (before["refs"].get(branch, ""), now["refs"].get(branch, ""))
        if not task.patterns or not all(values) or values[0] == values[1]:
            continue
        if made is None:
            made = {sha: who for sha, who in made_by_handoff(source.common).items() if who} | _landed(watched)
        work = BranchOwner(str(task.held_by), branch, Ownership.parse(task.patterns).covers, own=False)
        found += tampering.foreign_commits(store, source, work, values, made)
    for one in watched.workspaces:
        values = (before.get("workspaces", {}).get(one.name, ""), now["workspaces"].get(one.name, ""))
        if one.owns and all(values) and values[0] != values[1]:
            work = BranchOwner(one.session or one.name, one.branch, Ownership.parse(one.owns).covers, own=True)
            with suppress(HandoffError):  # a clone that cannot be read must not blind us to the rest
                found += tampering.foreign_commits(store, open_source(one.tree), work, values, {})
    return found


def find_vanished(app: App, watched: WatchedRepository, before: dict[str, Any], now: dict[str, Any]) -> list[Tampering]:
    """Documents, workspaces and files of the home that are gone."""
    found = _wiped_documents(watched, before, now) + _gone_workspaces(watched, before, now)
    return found + _wiped_home(app, watched, before, now) + wiped_batches(watched, before, now)


def _gone_workspaces(watched: WatchedRepository, before: dict[str, Any], now: dict[str, Any]) -> list[Tampering]:
    gone = sorted(before.get("workspaces", {}).keys() - now["workspaces"].keys())
    if not gone:
        return []
    known = ready_workspaces(watched.project, gone)  # read again: some went or came since this look began
    by_the_rules = {one.workspace for one in snapshots(watched.store) if one.operation == "remove"} - known.keys()
    by_the_rules |= {name for name, one in known.items() if os.path.lexists(one.tree)}
    return [
        Tampering(
            kind=WORKSPACE_GONE,
            subject=name,
            what=f"The workspace '{name}' is gone from the disk.",
            evidence={"workspace": name},
            fix=watched.fix("workspace", "revive", name),
            fixed={"workspace": name},
            session=name,
        )
        for name in gone
        if name not in by_the_rules
    ]


def _wiped_home(app: App, watched: WatchedRepository, before: dict[str, Any], now: dict[str, Any]) -> list[Tampering]:
    gone: list[tuple[str, str, str, tuple[str, ...]]] = []  # subject, path, what, what fixes it
    if before.get("store") and not now["store"]:
        what = f"The snapshot store of {watched.source.top} is gone, and every snapshot with it."
        gone.append((STORE, watched.store.path, what, ("snapshot", "-m", "a new store")))
    if before.get("queue") and not now["queue"]:
        queue = os.path.join(watched.project, "queue")
        gone.append(("queue", queue, f"{queue} is gone.", ("database", "files")))
    for role in sorted(set(before.get("shims", [])) - set(now["shims"])):
        path = os.path.join(app.settings.home, "guard", role, "git")
        what = f"The guarded git for the role {role} is gone: {path}."
        gone.append((f"guard/{role}", path, what, ("git-guard", "env", "--role", role)))
    return [_wiped(watched, *one) for one in gone]


def _wiped(watched: WatchedRepository, subject: str, path: str, what: str, words: tuple[str, ...]) -> Tampering:
    fix, fixed = watched.fix(*words), {"home": path}
    return Tampering(
        kind=HOME_WIPED, subject=subject, what=what, evidence={"path": path}, fix=fix, fixed=fixed, session=""
    )


def wiped_batches(watched: WatchedRepository, before: dict[str, Any], now: dict[str, Any]) -> list[Tampering]:
    """Open batches whose folder is gone, also one that no look has ever seen."""
    what = "Tabs that source their .env there run without the guard."
    return [
        _wiped(
            watched, f"batch/{name}", path, f"The folder of batch {name} is gone: {path}. {what}", ("database", "files")
        )
        for name, path in now["wiped"].items()
        if name not in before.get("wiped", {})
    ]


def missing_batches(app: App, project: str) -> dict[str, str]:
    """Where the folders of open batches were written and are not; one that was opened this moment has none yet."""
    folder = files_folder(app.settings.home, project)
    paths = {name: os.path.join(folder, "batches", name) for name in tasks.open_batches(app.database, project=project)}
    missing = {name: path for name, path in paths.items() if not os.path.isdir(path)}
    written = files_stamp(app, folder) if missing else -1
    if written < 0:
        return {}
    unwritten = journal.since(app.database, seq=written, project=project, settled=EVERY_LINE)
    fresh = {str(event.body.get("id")) for event in unwritten if event.kind == "batch.opened"}
    return {name: path for name, path in missing.items() if name not in fresh}


def _wiped_documents(watched: WatchedRepository, before: dict[str, Any], now: dict[str, Any]) -> list[Tampering]:
    if before.get("head") != now["head"]:
        return []  # another branch may have other documents
    folder = os.path.join(watched.source.top, PROJECT_FOLDER)
    features = os.path.join(folder, "features")
    aside = _names(features) + _names(os.path.join(folder, "trash"))

    def is_aside(feature: str) -> bool:
        """Archived or thrown away: it is still there, under a name that holds its own."""
        moved = any(other != feature and feature in other for other in aside)
        return moved and not os.path.isdir(os.path.join(features, feature))

    gone = [name for name in before.get("documents", []) if name not in now["documents"]]
    missing = [name for name in gone if not is_aside(name.partition("/")[0])]
    if not missing:
        return []
    whole = not os.path.isdir(folder)
    paths = [PROJECT_FOLDER] if whole else [f"{PROJECT_FOLDER}/features/{name}" for name in missing]
    words = [word for path in paths[:_SHOWN] for word in ("--path", path)]
    return [
        Tampering(
            kind=STATE_WIPED,
            subject=PROJECT_FOLDER,
            what=f"{len(missing)} documents of this project's features are gone or empty: {', '.join(missing[:5])}.",
            evidence={"missing": missing[:_SHOWN]},
            fix=watched.fix("snapshot", "restore", before.get("snapshot", ""), *words),
            fixed={"documents": missing},
        )
    ]


def is_fixed(watched: WatchedRepository, fixed: dict[str, Any], now: dict[str, Any]) -> bool:
    """Whether what an incident wants to see again is there."""
    if "documents" in fixed:
        return all(name in now["documents"] for name in fixed["documents"])
    if "workspace" in fixed:
        return fixed["workspace"] in now["workspaces"]
    if "home" in fixed:
        return os.path.exists(fixed["home"])
    if "holds" in fixed:
        names = [f"{fixed['ref']}:{path}" for path in fixed["holds"]]
        return watched.store.look(watched.source, "rev-parse", *names).text.split() == list(fixed["holds"].values())
    if "reverted" in fixed:
        words = ["log", "-n1", "--format=%H", f"--grep=This reverts commit {fixed['reverted']}", fixed["ref"], "--"]
        return bool(watched.store.look(watched.source, *words).out.strip())
    if "not" in fixed:
        tips = [now["refs"].get(fixed["ref"]), *now["workspaces"].values()]
        return fixed["not"] not in tips
    return tampering.is_fixed(fixed, now)


# --- who made what -------------------------------------------------------------------------------------------


def made_by_handoff(common: str) -> dict[str, str]:
    """Where a safe commit or its undoing moved a branch to, and which session did it; empty for a person."""
    lines = read_text(os.path.join(common, "handoff", "made")).splitlines()
    return dict(line.partition("\t")[0].split(" ", 1) for line in lines if " " in line)


def finish_landings(app: App, watched: WatchedRepository) -> None:
    """Nobody shall have to think of a landing that was killed: whoever looks finishes it."""
    Target(watched.store, watched.source, watched.project, app.git_environment).finish()


def _landings(watched: WatchedRepository) -> list[Any]:
    return Target(watched.store, watched.source, watched.project, {}).all()[:_SHOWN]


def _landed(watched: WatchedRepository) -> dict[str, str]:
    found: dict[str, str] = {}
    for landing in _landings(watched):
        words = ["rev-list", f"{landing.old}..{landing.new}", "--"]
        found |= dict.fromkeys(watched.store.look(watched.source, *words).text.split(), tampering.OURS)
    return found


def _names(folder: str) -> list[str]:
    return os.listdir(folder) if os.path.isdir(folder) else []


# What sessions put into their clones for somebody's git to obey: put right at every look, and reported.


PLANTED_IN_CLONE = "planted-in-clone"
_OURS = "session-"
"""So begins the id of a session that handoff started; others work in a workspace by a name of their own."""


def resting_clones(workspaces: Sequence[Workspace], at_work: Container[str]) -> set[str]:
    """Clones whose session is over: they were closed then, and of a large batch they are most of all clones."""
    over = (one for one in workspaces if one.session not in at_work)
    return {one.name for one in over if one.session.startswith(_OURS)}


def count_injected(app: App, workspaces: Sequence[Workspace], *, resting: Container[str] = ()) -> dict[str, int]:
    """How much was ever found in each clone, after a look now at those that do not rest."""
    for one in workspaces:
        if one.kind == CLONE and one.name not in resting and os.path.isdir(one.tree):
            with suppress(HandoffError):  # one that leads elsewhere is refused by whoever uses it
                check_clone(one.tree, app.settings.environment)
    return {one.name: len(_injected_in(one)) for one in workspaces}


def _injected_in(workspace: Workspace) -> list[tuple[str, str]]:
    place = beside(workspace.folder)
    return untrusted.list_planted(place) if os.path.exists(f"{place}/{untrusted.PLANTED}") else []


def find_injected(
    workspaces: Sequence[Workspace], top: str, before: dict[str, Any], now: dict[str, Any]
) -> list[Tampering]:
    """What sessions put into their clones for somebody's git to obey; it was put right when it was found."""
    found = []
    for one in workspaces:
        known, count = before.get("planted", {}).get(one.name, 0), now["planted"].get(one.name, 0)
        for name, text in _injected_in(one)[known:count] if count > known else ():
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

"""Folders in which sessions work apart: worktrees, clones, scratch trees."""

from __future__ import annotations

import json
import os
from typing import Protocol

from handoff.base.errors import Conflict, HandoffError, UserError
from handoff.base.files import FileMemory, locked, make_folder, write_atomic
from handoff.base.ids import check_id
from handoff.base.record import TYPE_CHECKING, Record
from handoff.git.plumbing import Source, is_sha, open_source, untrusted
from handoff.git.plumbing.beneath import Beneath
from handoff.git.plumbing.objects import POINTER
from handoff.git.plumbing.refs import head, refs
from handoff.git.plumbing.snapshot_repo import STORE, TREE
from handoff.git.plumbing.untrusted import RECORD, ask_through_ours, beside

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from handoff.git.plumbing.snapshot_repo import Location, SnapshotRepo

CLONE, WORKTREE, SHARED = "clone", "worktree", "shared"
KINDS = (CLONE, WORKTREE, SHARED)
MAKING, READY, REMOVING, REVIVING = "making", "ready", "removing", "reviving"
DIRTY = "dirty"
GIT_SETTINGS, TEMP = "gitconfig", "tmp"
"""Beside its tree: the settings of git and the folder for short-lived files that its sessions have."""
FIRST_PORT, PORTS, LAST_PORT = 20000, 10, 60000
_remembered = FileMemory()


class Workspace(Record):
    """One workspace as its record says. `base` is the commit it began from; landing takes what changed since."""

    name: str
    kind: str
    project: str
    tree: str
    base: str = ""
    base_name: str = ""
    branch: str = ""
    session: str = ""
    created: float = 0.0
    port: int = 0
    state: str = MAKING
    owns: tuple[str, ...] = ()
    sparse: tuple[str, ...] = ()
    snapshot: str = ""
    target: str = ""
    """The branch its work is for; empty: whichever is checked out when it lands."""
    strays: Mapping[str, str] = {}
    """What lay changed outside the ownership when its session began, each with a stamp: earlier ones left it."""
    included: tuple[str, ...] = ()
    """The person's own ignored files that were copied into it: no session's work, whatever it makes of the rules of what is ignored."""
    lent: Mapping[str, str] = {}
    """Folders of dependencies that are links to the person's, each with where it really is."""

    @property
    def folder(self) -> str:
        return os.path.join(self.project, "workspaces", self.name)

    def environment(self) -> dict[str, str]:
        """What is exported to everything that runs in the workspace, so that two do not meet on a port or a database."""
        plain = self.name.replace("-", "_")
        return {
            "HANDOFF_WORKSPACE": self.tree,
            "HANDOFF_WORKSPACE_NAME": self.name,
            "HANDOFF_PORT": str(self.port),
            "HANDOFF_PORT_LAST": str(self.port + PORTS - 1),
            "HANDOFF_DATABASE_SUFFIX": f"_{plain}",
            "COMPOSE_PROJECT_NAME": f"{os.path.basename(self.project)}-{self.name}",
        }


class WorkspaceRequest(Record):
    """What a workspace shall be."""

    name: str
    kind: str = CLONE
    base: str = ""
    session: str = ""
    owns: tuple[str, ...] = ()
    sparse: tuple[str, ...] = ()
    target: str = ""


class Isolation(Protocol):
    """How a workspace is kept apart from the others: three ways, one shape."""

    def make(self, place: Location, store: SnapshotRepo, workspace: Workspace) -> str:
        """Make the folder. If its files are exactly those of a tree, that tree comes back."""

    def discard(self, place: Location, store: SnapshotRepo, workspace: Workspace) -> None: ...


def read_workspace(folder: str) -> Workspace | None:
    """The record in one workspace's folder; None if there is none that can be read."""
    return _read_record(os.path.join(folder, RECORD))


def read_copy(project: str, name: str) -> Workspace | None:
    """The record as it is kept beside the workspace's snapshots, for when its own folder is gone."""
    return _read_record(_copy(project, name))


def _copy(project: str, name: str) -> str:
    return os.path.join(project, STORE, "handoff", name, RECORD)


def _read_record(path: str) -> Workspace | None:
    """A record is read again when it was written again: whoever looks at all of a large batch reads few."""
    try:
        return _remembered.get(path, os.stat(path), lambda: _parse_record(path))
    except OSError:
        return None


def _parse_record(path: str) -> Workspace | None:
    try:
        with open(path, encoding="utf-8") as file:
            values = json.load(file)
        known = {name: value for name, value in values.items() if name in Workspace._fields}
        lists = {name: tuple(values.get(name, ())) for name in ("owns", "sparse", "included")}
        return Workspace(**{**known, **lists})
    except (OSError, ValueError, TypeError, AttributeError):
        return None


def write_workspace(workspace: Workspace) -> None:
    """Put the record on the disk, whole."""
    make_folder(workspace.folder)
    text = json.dumps(workspace._asdict(), indent=2, ensure_ascii=True) + "\n"
    write_atomic(os.path.join(workspace.folder, RECORD), text)
    if workspace.state == READY and os.path.isdir(os.path.join(workspace.project, STORE)):
        copy = _copy(workspace.project, workspace.name)
        make_folder(os.path.dirname(copy))
        write_atomic(copy, text, sync=False)  # the other one is on the disk


def all_workspaces(project: str) -> list[Workspace]:
    """The workspaces of a project by name."""
    folder = os.path.join(project, "workspaces")
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    found = (read_workspace(os.path.join(folder, name)) for name in names)
    return [one for one in found if one is not None]


def ready_workspaces(project: str, names: Iterable[str]) -> dict[str, Workspace]:
    """Those of the names that are recorded as made, as the disk says now: whoever removes one says so before its folder goes."""
    found = {name: read_workspace(os.path.join(project, "workspaces", name)) for name in names}
    return {name: one for name, one in found.items() if one is not None and one.state == READY}


def get_workspace(project: str, name: str) -> Workspace:
    """The workspace of that name, or an error that says which there are."""
    found = read_workspace(os.path.join(project, "workspaces", check_id(name, "workspace")))
    if found is None:
        names = ", ".join(one.name for one in all_workspaces(project)) or "none"
        raise UserError(
            f"There is no workspace '{name}'.", f"There are: {names}. Make one: handoff workspace add {name}"
        )
    return found


def reserve(home: str, place: Location, order: WorkspaceRequest, *, base: tuple[str, str], now: float) -> Workspace:
    """Write a fresh record with a name and a port range nobody else has; the same name again is refused."""
    check_id(order.name, "workspace")
    if order.kind not in KINDS:
        raise UserError(f"'{order.kind}' is no kind of workspace.", f"Use one of: {', '.join(KINDS)}.")
    make_folder(home, mode=0o700)
    with locked(os.path.join(home, "workspaces.lock"), what="the list of workspaces"):
        folder = os.path.join(place.project, "workspaces", order.name)
        if os.path.lexists(os.path.join(folder, RECORD)):
            raise Conflict(
                f"The workspace '{order.name}' exists.", f"Use it, or remove it: handoff workspace remove {order.name}"
            )
        tree = place.source.top if order.kind == SHARED else os.path.join(folder, TREE)
        if order.kind != SHARED and os.path.lexists(tree):
            raise Conflict(f"{tree} is in the way.", "Look at it; then: handoff project tidy --execute")
        workspace = Workspace(
            name=order.name,
            kind=order.kind,
            project=place.project,
            tree=tree,
            base=base[0],
            base_name=base[1],
            session=order.session,
            created=now,
            port=_free_port(home),
            owns=tuple(order.owns),
            sparse=tuple(order.sparse),
            target=order.target,
            branch=f"refs/heads/handoff/{order.name}",
        )
        write_workspace(workspace)
        return workspace


def _free_port(home: str) -> int:
    taken = set()
    for project in os.listdir(home):
        taken |= {one.port for one in all_workspaces(os.path.join(home, project))}
    return next((port for port in range(FIRST_PORT, LAST_PORT, PORTS) if port not in taken), LAST_PORT)


def resolve(place: Location, store: SnapshotRepo, base: str) -> tuple[str, str]:
    """The commit a base names in the person's repository, and the words for it."""
    name, stands = base or "HEAD", head(place.source)
    if not base and stands.commit and stands.ref in ("", f"refs/heads/{stands.branch}"):
        return stands.commit, stands.branch or "detached HEAD"
    if name.startswith("-"):
        raise UserError(f"'{name}' is no branch and no commit.", "Name a branch, a commit, or 'dirty'.")
    answer = store.look(place.source, "rev-parse", "-q", "--verify", f"{name}^{{commit}}")
    if answer.code:
        what = "The repository has no commit yet." if name == "HEAD" else f"git does not know '{name}'."
        raise UserError(what, "Commit something first, or name a branch, a commit, or 'dirty'.")
    if name != "HEAD":
        return answer.text.strip(), name
    branch = store.look(place.source, "symbolic-ref", "-q", "--short", "HEAD").text.strip()
    return answer.text.strip(), branch or "detached HEAD"


class Freshness(Record):
    """How old a workspace's base is: commits its branch has gained here, and at the upstream as last fetched."""

    behind: int
    upstream: int


def freshness(place: Location, store: SnapshotRepo, workspace: Workspace) -> Freshness:
    """How far the world has moved on since the workspace began."""
    name = workspace.base_name
    if not workspace.base or not name or name == DIRTY or name.startswith("detached"):
        name = "HEAD"
    return Freshness(
        _count(place, store, [f"{workspace.base}..{name}"]) if workspace.base else 0,
        _count(place, store, [f"{workspace.base}..{name}@{{upstream}}"]) if workspace.base else 0,
    )


def _count(place: Location, store: SnapshotRepo, revisions: Sequence[str]) -> int:
    answer = store.look(place.source, "rev-list", "--count", *revisions, "--")
    return int(answer.text) if answer.code == 0 else 0


_REMOTE = "refs/remotes/"
_MODULES, _REPOSITORY = ".git/modules/", "/.git"


class InnerWork(Record):
    """Work in a repository inside a workspace that would be gone with it."""

    path: str
    files: int
    commits: int

    @property
    def words(self) -> str:
        counted = ((self.files, "changed file"), (self.commits, "commit"))
        said = ", ".join(f"{number} {what}{'s' * (number > 1)}" for number, what in counted if number)
        return f"{self.path} ({said})"


def inner_work(store: SnapshotRepo, workspace: Workspace, snapshot: str) -> list[InnerWork]:
    """Repository by repository what the workspace's last snapshot does not hold: files of a submodule, commits of any.

    Commits that a remote or the base of the workspace has are not lost; what git ignores is kept nowhere.
    """
    found = untrusted.nested(workspace.tree)
    outside = [name for name in found if not name.startswith(f"{untrusted.GIT}/")]
    named = {os.path.dirname(name): name for name in outside if name.endswith(_REPOSITORY)}
    bare = [name for name in found if name.startswith(_MODULES)]
    if not named and not bare:
        return []
    sources = _sources(workspace.tree, named)
    seen = {os.path.realpath(source.folder) for source in sources.values()}
    for name in bare:  # a submodule whose folder is gone: its commits are here all the same
        folder = os.path.join(workspace.tree, name)
        if os.path.realpath(folder) not in seen:
            sources[name] = Source(workspace.tree, folder, folder)
    ignored = _ignored(store, workspace, list(named))
    was, now = _pointers(store, workspace.base, list(named)), _pointers(store, snapshot, list(named))
    looked = [
        InnerWork(
            path,
            _changed(store, workspace, source.top) if path in now else 0,
            _commits(store, source, was.get(path, "")),
        )
        for path, source in sources.items()
        if path not in ignored
    ]
    return [one for one in looked if one.files or one.commits]


def _sources(tree: str, named: dict[str, str]) -> dict[str, Source]:
    """The repositories whose git folder is inside the workspace: what leads elsewhere holds nothing here."""
    found, inside = {}, os.path.join(os.path.realpath(tree), "")
    with Beneath(tree) as files:
        for path, name in named.items():
            if not files.is_folder(name) and not untrusted.stays_inside(tree, files, name):
                continue
            try:
                source = open_source(os.path.join(tree, path))
            except (HandoffError, OSError):
                continue  # nothing that git could read
            if os.path.realpath(source.objects).startswith(inside):
                found[path] = source
    return found


def _ignored(store: SnapshotRepo, workspace: Workspace, paths: list[str]) -> set[str]:
    if not paths:
        return set()
    environment = {name: value for name, value in store.environment.items() if name != "GIT_LITERAL_PATHSPECS"}
    asked = os.fsencode("".join(f"{path}\0" for path in paths))
    words, place = ("check-ignore", "-z", "--stdin"), beside(workspace.folder)
    answer = ask_through_ours(workspace.tree, *words, place=place, environment=environment, stdin=asked)
    return set(answer.text.split("\0")) if answer is not None else set()


def _pointers(store: SnapshotRepo, commit: str, paths: list[str]) -> dict[str, str]:
    """Which of the paths are pointers to a commit in this commit's tree, and to which."""
    if not commit or not paths:
        return {}
    lines = store.git("ls-tree", "-z", commit, "--", *paths).text.split("\0")
    entries = (line.partition("\t") for line in lines if line.startswith(POINTER))
    return {path: facts.split(" ")[2] for facts, _, path in entries}


def _changed(store: SnapshotRepo, workspace: Workspace, top: str) -> int:
    words = ("status", "--porcelain", "-z", "--untracked-files=all", "--no-renames", "--ignore-submodules=all")
    answer = ask_through_ours(top, *words, place=beside(workspace.folder), environment=store.environment)
    if answer is None or answer.code:
        return 1  # nobody can say that there is nothing
    return len([line for line in answer.text.split("\0") if line])


def _commits(store: SnapshotRepo, source: Source, recorded: str) -> int:
    known, tips = [recorded] if recorded else [], [head(source).commit]
    for name, value in refs(source).items():
        (known if name.startswith(_REMOTE) else tips).append(value)
    wanted = [f"{sha}\n" for sha in dict.fromkeys(tips) if is_sha(sha)]
    if not wanted:
        return 0
    wanted += [f"^{sha}\n" for sha in dict.fromkeys(known) if is_sha(sha)]
    words = ("rev-list", "--count", "--ignore-missing", "--stdin")
    answer = store.git(*words, stdin="".join(wanted).encode(), borrow=source.objects)
    return int(answer.text) if answer.code == 0 else 1

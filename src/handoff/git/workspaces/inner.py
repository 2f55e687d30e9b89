"""Repositories inside a workspace, submodules too: what they hold that no snapshot of the workspace holds."""

from __future__ import annotations

import os

from handoff.base.errors import HandoffError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.git.plumbing import Source, is_sha, open_source, sealed
from handoff.git.plumbing.beneath import Beneath
from handoff.git.plumbing.objects import POINTER
from handoff.git.plumbing.refs import head, refs
from handoff.git.plumbing.untrusted import ask_through_ours, beside

if TYPE_CHECKING:
    from handoff.git.plumbing.snapshot_repo import SnapshotRepo
    from handoff.git.workspaces.workspaces import Workspace

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
    found = sealed.nested(workspace.tree)
    outside = [name for name in found if not name.startswith(f"{sealed.GIT}/")]
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
            if not files.is_folder(name) and not sealed.stays_inside(tree, files, name):
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

"""The ways to keep a workspace apart: a clone of its own, a linked worktree, or the person's own checkout."""

from __future__ import annotations

import os
import re
import shutil

from handoff.base.files import make_folder, remove_tree, write_atomic
from handoff.base.process import find
from handoff.base.record import TYPE_CHECKING
from handoff.git.plumbing import QUIET, Git
from handoff.git.plumbing.beneath import Beneath
from handoff.git.plumbing.objects import Objects, fetch
from handoff.git.plumbing.refs import refs
from handoff.git.plumbing.sealed import quoted, setting
from handoff.git.plumbing.untrusted import check_clone, distrusting, make_git_folder, seal_settings
from handoff.git.snapshots.restore import give_objects, tree_of
from handoff.git.workspaces.bases import Lender, LentHistory
from handoff.git.workspaces.workspaces import CLONE, REVIVING, SHARED, WORKTREE, Isolation, Workspace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from handoff.git.plumbing.snapshot_repo import SnapshotRepo
    from handoff.git.snapshots.location import Location

BASES = "refs/handoff/base/"
NO_PUSH = "push-is-done-by-handoff-land"
# Settings of the person's repository that decide how files look on the disk or who commits; nothing that runs a program
# on its own account except the filters the files need.
_CARRIED = tuple(
    "user. filter. lfs. core.autocrlf core.eol core.safecrlf core.ignorecase core.filemode core.symlinks"
    " core.precomposeunicode core.longpaths core.whitespace commit.gpgsign i18n.".split()
)
_NO_LFS = ("filter.lfs.smudge=", "filter.lfs.clean=", "filter.lfs.process=", "filter.lfs.required=false")
_WORKERS = 8
# Settings with which the disk may have other bytes or names than the tree; each with the values that change nothing.
_EXACT = {
    "autocrlf": "false input",
    "eol": "lf",
    "ignorecase": "false",
    "precomposeunicode": "false",
    "symlinks": "true",
}
_CONVERTING = (b"filter", b"ident", b"working-tree-encoding")
_LOGIN = re.compile(r"(\w://)[^/@\s]*@")  # a name and a password in an address


class _Made(Git):
    """What the ways have in common: git for the new folder, with the person's settings but no hooks."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        # Half of the cores, but two: writers in one folder get in each other's way, and sessions are at work beside us.
        cores = os.cpu_count() or 1
        workers = min(cores, _WORKERS, max(2, cores // 2))
        # Without git-lfs the pointers themselves are checked out: better than no workspace.
        lfs = () if find("git-lfs", path=environment.get("PATH", os.defpath)) else _NO_LFS
        super().__init__("", environment, (*QUIET, f"checkout.workers={workers}", "protocol.file.allow=always", *lfs))

    def _check_out(self, workspace: Workspace) -> None:
        """Check out what the new folder's HEAD names: all, or only some folders."""
        if workspace.sparse:
            paths = (f"/{path}" for path in workspace.sparse)
            self.ask("sparse-checkout", "set", "--no-cone", *paths, top=workspace.tree)
        self.ask("read-tree", "-m", "-u", "HEAD", top=workspace.tree)

    def _is_exact(self, top: str) -> bool:
        """Whether git has just written every file of a checkout as its tree has it: no filter, keyword or line end was changed."""
        listed = self.git("config", "--get-regexp", rf"^core\.({'|'.join(_EXACT)})$", top=top).text.splitlines()
        pairs = (line.partition(" ") for line in listed)
        if any(value not in _EXACT[key.removeprefix("core.")].split() for key, _, value in pairs):
            return False
        names = self.ask_bytes("ls-files", "-z", top=top)
        fields = self.ask_bytes("check-attr", "-z", "--all", "--stdin", stdin=names, top=top).split(b"\0")
        given = {(name, value) for name, value in zip(fields[1::3], fields[2::3], strict=False) if value != b"unset"}
        return b".gitmodules\0" not in names and not any(
            name in _CONVERTING or (name, value) == (b"eol", b"crlf") for name, value in given
        )


class Cloned(_Made):
    """A repository of its own that borrows the history of its base alone: own refs, index, stash and settings."""

    def warm(self, place: Location, store: SnapshotRepo) -> None:
        Lender(place, store, self).warm()

    def lend(self, place: Location, store: SnapshotRepo, workspace: Workspace) -> LentHistory:
        """Let a clone borrow the history of its base, whatever it borrowed before."""
        there = os.path.exists(os.path.join(workspace.tree, ".git", "HEAD"))
        if there:
            check_clone(workspace.tree, self.environment)
        lender = Lender(place, store, self)
        history = lender.lend(workspace.base)
        store.point(BASES + workspace.name, workspace.base)
        objects = os.path.join(workspace.tree, ".git", "objects")
        for name in ("info", "pack"):
            make_folder(os.path.join(objects, name))
        lender.give(workspace.base, history, objects)
        with Beneath(workspace.tree) as files:
            files.write(".git/objects/info/alternates", f"{history.objects}\n".encode("utf-8", "surrogateescape"))
        if there:
            seal_settings(workspace.tree)
        return history

    def make(self, place: Location, store: SnapshotRepo, workspace: Workspace) -> str:
        history = self.lend(place, store, workspace)
        folder = os.path.join(workspace.tree, ".git")
        # Not flushed to the disk, like the files git lays out: after a power cut its snapshot makes it anew.
        settings, start = self._settings(place, store), f"ref: {workspace.branch}"
        make_git_folder(folder, store.algorithm, settings, head=start, sync=False)
        exclude = os.path.join(place.source.common, "info", "exclude")
        if os.path.isfile(exclude):
            shutil.copyfile(exclude, os.path.join(folder, "info", "exclude"))
        if history.cut:
            write_atomic(os.path.join(folder, "shallow"), history.cut, sync=False)
        write_atomic(os.path.join(folder, "packed-refs"), self._refs(place, store, workspace), sync=False)
        self._check_out(workspace)
        self._submodules(place, workspace)
        seal_settings(workspace.tree)
        return tree_of(store, workspace.base) if not workspace.sparse and self._is_exact(workspace.tree) else ""

    def _settings(self, place: Location, store: SnapshotRepo) -> str:
        lines = ["\tbare = false\n\tlogallrefupdates = true\n"]
        listed = store.look(place.source, "config", "--local", "--no-includes", "-z", "--list").text
        for item in listed.split("\0"):
            key, _, value = item.partition("\n")
            if key.lower().startswith(_CARRIED):
                lines.append(setting(key, _LOGIN.sub(r"\1", value)))
        origin = quoted(place.source.top)
        lines.append(f'[remote "origin"]\n\turl = "{origin}"\n\tpushurl = {NO_PUSH}\n')
        lines.append("\tfetch = +refs/heads/*:refs/remotes/origin/*\n[gc]\n\tauto = 0\n")
        return "".join(lines)

    def _refs(self, place: Location, store: SnapshotRepo, workspace: Workspace) -> str:
        """The names of what its base reaches: the person's branches and tags that lie before it."""
        found = {workspace.branch: workspace.base}
        for name, value in refs(place.source).items():
            if name.startswith("refs/heads/"):
                found[f"refs/remotes/origin/{name[11:]}"] = value
            elif name.startswith("refs/tags/"):
                found[name] = value
        objects = os.path.join(workspace.tree, ".git", "objects")
        there = store.readable(list(dict.fromkeys(found.values())), objects=objects)
        absent = {value for name, value in found.items() if name.startswith("refs/tags/") and value not in there}
        if absent:
            there |= dict.fromkeys(_copy_tags(place, store, sorted(absent), objects), "tag")
        tags = [value for value, kind in there.items() if kind == "tag"]
        meant = dict.fromkeys(there.keys() - tags, "") | store.peeled(tags, objects=objects)
        # As git writes it: other readers refuse a file that does not promise what each tag means.
        lines = ["# pack-refs with: peeled fully-peeled sorted "]
        for name, value in sorted(found.items()):
            if value in meant:
                lines += [f"{value} {name}", *([f"^{meant[value]}"] if meant[value] else ())]
        return "\n".join(lines) + "\n"

    def _submodules(self, place: Location, workspace: Workspace) -> None:
        """Submodules the person has are cloned from their copy; others stay empty, as after any clone."""
        if not os.path.isfile(os.path.join(workspace.tree, ".gitmodules")):
            return
        top = workspace.tree
        modules = ("config", "-f", ".gitmodules")
        listed = self.git(*modules, "-z", "--get-regexp", r"^submodule\..*\.path$", top=top).text
        for item in listed.split("\0"):
            key, _, path = item.partition("\n")
            name = key[len("submodule.") : -len(".path")]
            theirs = os.path.join(place.source.common, "modules", name)
            if not path or not os.path.isdir(theirs):
                continue
            real = self.git(*modules, f"submodule.{name}.url", top=top).text.strip()
            self.ask("config", f"submodule.{name}.url", f"file://{theirs}", top=top)
            self.git("submodule", "-q", "update", "--init", "--", path, top=top)
            self.ask("config", f"submodule.{name}.url", real, top=top)

    def discard(self, place: Location, store: SnapshotRepo, workspace: Workspace) -> None:
        del place
        erase(workspace.tree)
        store.git("update-ref", "-d", BASES + workspace.name)


class Linked(_Made):
    """A linked worktree: quick, but it shares refs, stash and settings with every other."""

    def make(self, place: Location, store: SnapshotRepo, workspace: Workspace) -> str:
        store.point(BASES + workspace.name, workspace.base)
        give_objects(store, place.source, [workspace.base])
        short = workspace.branch.removeprefix("refs/heads/")
        top = place.source.top
        words = ["worktree", "add", "-q", *(("--no-checkout",) if workspace.sparse else ())]
        if workspace.state == REVIVING and workspace.branch in refs(place.source):  # its branch outlived its folder
            self.ask("worktree", "prune", top=top)
            self.ask(*words, workspace.tree, short, top=top)
        else:
            self.ask(*words, "-b", short, workspace.tree, workspace.base, top=top)
        if workspace.sparse:
            self._check_out(workspace)
        return ""

    def discard(self, place: Location, store: SnapshotRepo, workspace: Workspace) -> None:
        erase(workspace.tree)
        self.ask("worktree", "prune", top=place.source.top)
        short = workspace.branch.removeprefix("refs/heads/")
        self.git("branch", "-q", "-D", short, top=place.source.top)  # its commits are in the last snapshot
        store.git("update-ref", "-d", BASES + workspace.name)


class Shared(_Made):
    """The person's own checkout: nothing is made, nothing is removed."""

    def make(self, place: Location, store: SnapshotRepo, workspace: Workspace) -> str:
        del place
        store.point(BASES + workspace.name, workspace.base)
        return ""

    def discard(self, place: Location, store: SnapshotRepo, workspace: Workspace) -> None:
        del place
        store.git("update-ref", "-d", BASES + workspace.name)


def isolation(kind: str, environment: Mapping[str, str]) -> Isolation:
    """The way of that name."""
    ways: dict[str, type[Cloned | Linked | Shared]] = {CLONE: Cloned, WORKTREE: Linked, SHARED: Shared}
    return ways[kind](environment)


def erase(tree: str) -> None:
    """Remove a folder in two steps: it is gone under its name at once, and a killed removal can go on later."""
    parent = os.path.dirname(tree)
    if os.path.lexists(tree):
        os.rename(tree, os.path.join(parent, f"gone-{os.urandom(3).hex()}"))
    for name in os.listdir(parent) if os.path.isdir(parent) else ():
        if name.startswith("gone-"):
            remove_tree(os.path.join(parent, name))


def _copy_tags(place: Location, store: SnapshotRepo, wanted: Sequence[str], objects: str) -> set[str]:
    """Give a clone the annotated tags of commits it has: a tag stands beside the history, not in it."""
    told = fetch(distrusting(place.source.folder, store.environment), wanted)
    tags = {one.sha: one.data for one in told if one.kind == "tag"}
    named = {
        sha: data.partition(b"\n")[0].decode("ascii", "replace").removeprefix("object ") for sha, data in tags.items()
    }
    there = store.readable(sorted(set(named.values())), objects=objects)
    found = {sha for sha, commit in named.items() if commit in there}
    clone = Objects(objects, "", {})
    for sha in found:
        clone.write("tag", tags[sha])
    return found

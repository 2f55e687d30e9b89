"""The ways to keep a workspace apart: a clone of its own, a linked worktree, or the person's own checkout."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from handoff.base.errors import UserError
from handoff.base.files import make_folder, write_atomic
from handoff.base.process import capture, find
from handoff.git.plumbing.query import refs
from handoff.git.plumbing.untrusted import keep_config
from handoff.git.snapshots.location import TREE
from handoff.git.snapshots.restore import give_objects
from handoff.git.workspaces.workspaces import CLONE, REVIVING, SHARED, WORKTREE, Isolation, Workspace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from handoff.git.plumbing.snapshot_repo import SnapshotRepo
    from handoff.git.snapshots.location import Location

BASES = "refs/handoff/base/"
NO_PUSH = "push-is-done-by-handoff-land"
# Settings of the person's repository that decide how files look on the disk or who commits; nothing that runs a program
# on its own account except the filters the files need.
_CARRIED = (
    "user.", "filter.", "lfs.", "core.autocrlf", "core.eol", "core.safecrlf", "core.ignorecase", "core.filemode",
    "core.symlinks", "core.precomposeunicode", "core.longpaths", "core.whitespace", "commit.gpgsign", "i18n.",
)  # fmt: skip
_WORKERS = 8


class _Made:
    """What the ways have in common: git for the new folder, with the person's settings but no hooks."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.environment = dict(environment)

    def git(self, folder: str, *words: str, allow: bool = False) -> str:
        workers = min(_WORKERS, max(2, os.cpu_count() or 1))
        options = [
            "-c",
            f"checkout.workers={workers}",
            "-c",
            f"core.hooksPath={os.devnull}",
            "-c",
            "core.fsmonitor=false",
        ]
        options += ["-c", "advice.detachedHead=false", "-c", "protocol.file.allow=always", "-c", "gc.auto=0"]
        if find("git-lfs", path=self.environment.get("PATH", os.defpath)) is None:
            # Without git-lfs the pointers themselves are checked out: better than no workspace.
            for key in ("smudge", "clean", "process"):
                options += ["-c", f"filter.lfs.{key}="]
            options += ["-c", "filter.lfs.required=false"]
        answer = capture(["git", "-C", folder, *options, *words], environment=self.environment)
        if answer.code and not allow:
            raise UserError(f"git {words[0]} failed: {answer.error_text}", f"In {folder}.")
        return answer.text


class Cloned(_Made):
    """A repository of its own that borrows objects from the snapshot store: own refs, index, stash and settings."""

    def make(self, place: Location, store: SnapshotRepo, workspace: Workspace) -> None:
        store.point(BASES + workspace.name, workspace.base)
        folder = os.path.join(workspace.tree, ".git")
        for name in ("objects/info", "objects/pack", "refs/heads", "refs/tags", "hooks", "info"):
            make_folder(os.path.join(folder, name))
        write_atomic(os.path.join(folder, "objects", "info", "alternates"), store.objects + "\n")
        config = self._config(place, store)
        write_atomic(os.path.join(folder, "config"), config)
        if workspace.tree == os.path.join(workspace.folder, TREE):
            keep_config(workspace.folder, config)
        exclude = os.path.join(place.source.common, "info", "exclude")
        if os.path.isfile(exclude):
            shutil.copyfile(exclude, os.path.join(folder, "info", "exclude"))
        write_atomic(os.path.join(folder, "packed-refs"), self._refs(place, store, workspace))
        write_atomic(os.path.join(folder, "HEAD"), f"ref: {workspace.branch}\n")
        if workspace.sparse:
            self.git(workspace.tree, "sparse-checkout", "set", "--no-cone", *(f"/{path}" for path in workspace.sparse))
        self.git(workspace.tree, "read-tree", "-m", "-u", "HEAD")
        self._submodules(place, workspace)

    def _config(self, place: Location, store: SnapshotRepo) -> str:
        version = 1 if store.algorithm == "sha256" else 0
        lines = [f"[core]\n\trepositoryformatversion = {version}\n\tbare = false\n\tlogallrefupdates = true\n"]
        if version:
            lines.append("[extensions]\n\tobjectformat = sha256\n")
        listed = store.look(place.source, "config", "--local", "--no-includes", "-z", "--list").text
        for item in listed.split("\0"):
            key, _, value = item.partition("\n")
            if key.lower().startswith(_CARRIED):
                section, _, rest = key.partition(".")
                middle, _, last = rest.rpartition(".")
                head = f'[{section} "{_quoted(middle)}"]' if middle else f"[{section}]"
                lines.append(f'{head}\n\t{last} = "{_quoted(value)}"\n')
        origin = _quoted(place.source.top)
        lines.append(f'[remote "origin"]\n\turl = "{origin}"\n\tpushurl = {NO_PUSH}\n')
        lines.append("\tfetch = +refs/heads/*:refs/remotes/origin/*\n[gc]\n\tauto = 0\n")
        return "".join(lines)

    def _refs(self, place: Location, store: SnapshotRepo, workspace: Workspace) -> str:
        found = {workspace.branch: workspace.base}
        for name, value in refs(place.source).items():
            if name.startswith("refs/heads/"):
                found[f"refs/remotes/origin/{name[11:]}"] = value
            elif name.startswith("refs/tags/"):
                found[name] = value
        there = store.readable(list(dict.fromkeys(found.values())))  # a ref made this very moment is not borrowed yet
        lines = [f"{value} {name}" for name, value in sorted(found.items()) if value in there]
        return "# pack-refs with: sorted \n" + "\n".join(lines) + "\n"

    def _submodules(self, place: Location, workspace: Workspace) -> None:
        """Submodules the person has are cloned from their copy; others stay empty, as after any clone."""
        if not os.path.isfile(os.path.join(workspace.tree, ".gitmodules")):
            return
        listed = self.git(
            workspace.tree, "config", "-z", "-f", ".gitmodules", "--get-regexp", r"^submodule\..*\.path$", allow=True
        )
        for item in listed.split("\0"):
            key, _, path = item.partition("\n")
            name = key[len("submodule.") : -len(".path")]
            theirs = os.path.join(place.source.common, "modules", name)
            if not path or not os.path.isdir(theirs):
                continue
            real = self.git(workspace.tree, "config", "-f", ".gitmodules", f"submodule.{name}.url", allow=True).strip()
            self.git(workspace.tree, "config", f"submodule.{name}.url", f"file://{theirs}")
            self.git(workspace.tree, "submodule", "-q", "update", "--init", "--", path, allow=True)
            self.git(workspace.tree, "config", f"submodule.{name}.url", real)

    def discard(self, place: Location, store: SnapshotRepo, workspace: Workspace) -> None:
        del place
        erase(workspace.tree)
        store.git("update-ref", "-d", BASES + workspace.name)


class Linked(_Made):
    """A linked worktree: quick, but it shares refs, stash and settings with every other."""

    def make(self, place: Location, store: SnapshotRepo, workspace: Workspace) -> None:
        store.point(BASES + workspace.name, workspace.base)
        give_objects(store, place.source, [workspace.base])
        short = workspace.branch.removeprefix("refs/heads/")
        words = ["worktree", "add", "-q", *(("--no-checkout",) if workspace.sparse else ())]
        if workspace.state == REVIVING and workspace.branch in refs(place.source):  # its branch outlived its folder
            self.git(place.source.top, "worktree", "prune")
            self.git(place.source.top, *words, workspace.tree, short)
        else:
            self.git(place.source.top, *words, "-b", short, workspace.tree, workspace.base)
        if workspace.sparse:
            self.git(workspace.tree, "sparse-checkout", "set", "--no-cone", *(f"/{path}" for path in workspace.sparse))
            self.git(workspace.tree, "read-tree", "-m", "-u", "HEAD")

    def discard(self, place: Location, store: SnapshotRepo, workspace: Workspace) -> None:
        erase(workspace.tree)
        self.git(place.source.top, "worktree", "prune")
        short = workspace.branch.removeprefix("refs/heads/")
        self.git(place.source.top, "branch", "-q", "-D", short, allow=True)  # its commits are in the last snapshot
        store.git("update-ref", "-d", BASES + workspace.name)


class Shared(_Made):
    """The person's own checkout: nothing is made, nothing is removed."""

    def make(self, place: Location, store: SnapshotRepo, workspace: Workspace) -> None:
        del place
        store.point(BASES + workspace.name, workspace.base)

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


def remove_tree(path: str) -> None:
    """Like rmtree, but folders a session made unwritable go too."""

    def unlock(_function: object, name: str, _fault: object) -> None:
        os.chmod(os.path.dirname(name), 0o700)
        if os.path.isdir(name) and not os.path.islink(name):
            os.chmod(name, 0o700)
            shutil.rmtree(name)
        else:
            os.unlink(name)

    shutil.rmtree(path, onerror=unlock)


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")

"""The ways to keep a workspace apart: a clone of its own, a linked worktree, or the person's own checkout; and the histories that clones share."""

from __future__ import annotations

import os
import re
import shutil

from handoff.base.errors import UserError
from handoff.base.files import locked, make_folder, remove_tree, write_atomic
from handoff.base.process import find
from handoff.base.record import TYPE_CHECKING, Record
from handoff.git.plumbing import QUIET, Git, git_failure, is_sha, read_text
from handoff.git.plumbing.beneath import Beneath
from handoff.git.plumbing.objects import Objects, fetch, parents_named
from handoff.git.plumbing.refs import head, refs
from handoff.git.plumbing.untrusted import check_clone, distrusting, make_git_folder, quoted, seal_settings, setting
from handoff.git.snapshots.restore import give_objects, tree_of
from handoff.git.workspaces import CLONE, REVIVING, SHARED, WORKTREE, Isolation, Workspace

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from handoff.base.process import Completed
    from handoff.git.plumbing.snapshot_repo import Location, SnapshotRepo

_BASES_FOLDER = "bases"
_CUT, _ALONE = "shallow", "alone"
_PATIENCE_SECONDS = 1800.0  # so long whoever comes second waits for the first copy of a very large history
_NEWEST = 4  # so many are asked whether a commit comes after them
_NEAR = 200  # so many commits more are given to each clone, before a history of their own is worth its place
_MOST_BELOW = 5
_YOUNG_SECONDS = 3600.0  # somebody may be about to borrow it


class LentHistory(Record):
    """The folder with the history of one commit; `cut` names the commits whose parents are not in it."""

    folder: str

    @property
    def tip(self) -> str:
        return os.path.basename(self.folder).partition("-")[0]

    @property
    def objects(self) -> str:
        return os.path.join(self.folder, "objects")

    @property
    def places(self) -> list[str]:
        """All object folders it consists of: its own, and those of the older histories it stands on."""
        return [self.objects, *read_text(os.path.join(self.objects, "info", "alternates")).splitlines()]

    @property
    def cut(self) -> str:
        return read_text(os.path.join(self.folder, _CUT))

    @property
    def is_alone(self) -> bool:
        """Whether it holds the files of its commit alone, because not all that came before could be read."""
        return os.path.exists(os.path.join(self.folder, _ALONE))


def histories(project: str) -> list[LentHistory]:
    """What can be borrowed in a project, the one that was asked for last first."""
    folder = os.path.join(project, _BASES_FOLDER)
    found = []
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        path = os.path.join(folder, name)
        try:
            found += [(os.stat(path).st_mtime_ns, path)] if is_sha(name.partition("-")[0]) else []
        except OSError:
            continue  # somebody tidies up
    return [LentHistory(path) for _, path in sorted(found, reverse=True)]


def first_copy_bytes(place: Location) -> int:
    """How much has to be copied before the first clone; nothing when a history is there."""
    if histories(place.project):
        return 0
    folder = os.path.join(place.source.objects, "pack")
    names = os.listdir(folder) if os.path.isdir(folder) else ()
    return sum(os.path.getsize(os.path.join(folder, name)) for name in names if name.endswith(".pack"))


def is_lent(project: str, place: str) -> bool:
    """Whether an object folder is one of the histories of a project."""
    folder, name = os.path.split(os.path.normpath(place))
    return name == "objects" and os.path.dirname(folder) == os.path.join(project, _BASES_FOLDER)


class Lender:
    """Finds or makes the history for clones of one project, from what the person and the snapshot store have."""

    def __init__(self, place: Location, store: SnapshotRepo, person: Git) -> None:
        self.place, self.store, self.person = place, store, person
        self.folder = os.path.join(place.project, _BASES_FOLDER)

    def warm(self) -> None:
        """Make the first history before the first snapshot: the store then shares it, and nothing is copied twice."""
        commit = head(self.place.source).commit
        if commit and not histories(self.place.project):
            self.lend(commit)

    def lend(self, commit: str) -> LentHistory:
        """The history for a clone that begins at `commit`; it is made if there is none near."""
        for _ in range(2):
            found, near = self._nearest(commit)
            if found is None or not near:
                found = self._make(commit, found)
            try:
                os.utime(found.folder)
            except FileNotFoundError:
                continue  # it was tidied away in this very moment
            return found
        raise UserError(f"{self.folder} cannot be kept.", "Run the command again.")

    def give(self, commit: str, found: LentHistory, objects: str) -> None:
        """Put what `commit` has more than the history into a clone's own objects."""
        if commit == found.tip:
            return
        borrow = (self.place.source.objects, *found.places)
        answer = self.store.pack_into(objects, [commit], [found.tip], borrow=borrow)
        if answer.code:
            raise git_failure(f"{commit[:10]} cannot be read", answer, f"Check it: git -C {self.place.source.top} fsck")

    def _nearest(self, commit: str) -> tuple[LentHistory | None, bool]:
        """The nearest history whose commits all lie before `commit`, and whether few are between."""
        theirs = read_text(os.path.join(self.place.source.common, _CUT))
        known = [
            one for one in histories(self.place.project) if one.is_alone or one.cut == theirs
        ]  # or it was deepened
        if not known:
            return None, False
        # The parents of a commit that was written just now; of an older one git is asked later.
        before = {commit, *(parents_named(self.store.read(commit)) if self.store.has_loose(commit) else ())}
        for one in known:
            if one.tip in before:
                return one, True
        far = None
        for one in known[:_NEWEST]:
            words = ("rev-list", "--count", "--left-right", f"--max-count={_NEAR + 1}", f"{one.tip}...{commit}")
            only_there, _, more = self._ask(one, *words).text.strip().partition("\t")
            if only_there != "0":
                continue
            if int(more) <= _NEAR:
                return one, True
            if far is None and self._ask(one, "merge-base", "--is-ancestor", one.tip, commit).code == 0:
                far = one
        return far, False

    def _ask(self, beside: LentHistory | None, *words: str) -> Completed:
        """A question to the store, which also sees what the person has."""
        return self.store.git(*words, borrow=(self.place.source.objects, *(beside.places if beside else ())))

    def _make(self, commit: str, below: LentHistory | None) -> LentHistory:
        """Copy a history. Killed at any moment, there is the whole of it or nothing under its name."""
        make_folder(self.folder, mode=0o700)
        with locked(
            os.path.join(self.folder, "lock"), what="the history that clones borrow", patience=_PATIENCE_SECONDS
        ):
            tip = self._tip(commit, below)
            made = LentHistory(os.path.join(self.folder, tip))
            if os.path.isdir(made.folder):
                if self._nearest(tip)[0] is not None:
                    return made
                made = LentHistory(f"{made.folder}-{os.urandom(3).hex()}")
            for name in os.listdir(self.folder):
                if name.endswith(".tmp"):
                    shutil.rmtree(os.path.join(self.folder, name), ignore_errors=True)
            temp = os.path.join(self.folder, f"{os.urandom(4).hex()}.tmp")
            for name in ("pack", "info"):
                make_folder(os.path.join(temp, "objects", name))
            try:
                self._fill(temp, tip, below if below is not None and len(below.places) < _MOST_BELOW else None)
                os.rename(temp, made.folder)
            except BaseException:
                shutil.rmtree(temp, ignore_errors=True)
                raise
            self.store.adopt(tip, made.objects, cut=made.cut)
            return made

    def _tip(self, commit: str, below: LentHistory | None) -> str:
        """Where a new history ends: at what the person has checked out, or where it parted from the last one, if that is near.

        What is rewritten again and again (a branch that is rebased) must not cost a copy of everything each time.
        """
        for one in histories(self.place.project)[:1] if below is None else ():
            parted = self._ask(one, "merge-base", one.tip, commit).text.strip()
            words = ("rev-list", "--count", f"--max-count={_NEAR + 1}", f"{parted}..{commit}")
            if parted and int(self._ask(one, *words).text or _NEAR + 1) <= _NEAR:
                return parted
        start = head(self.place.source).commit
        before = bool(start) and self._ask(below, "merge-base", "--is-ancestor", start, commit).code == 0
        return start if before else commit

    def _fill(self, temp: str, tip: str, below: LentHistory | None) -> None:
        """Pack the history of `tip` into a new folder; where parts of it are missing on this machine, its files alone."""
        source, objects = self.place.source, os.path.join(temp, "objects")
        under = below.places if below else []
        cut = read_text(os.path.join(source.common, _CUT))
        wanted = f"{tip}\n" + (f"^{below.tip}\n" if below else "")
        flags = ("-q", "--revs", "--include-tag", "--non-empty", "--delta-base-offset", "--window=0")
        words = ("pack-objects", *flags, os.path.join(objects, "pack", "pack"))
        answer = distrusting(source.folder, self.store.environment).git(*words, stdin=wanted.encode(), borrow=under)
        if answer.code:  # a commit of ours that the person has not
            answer = self.store.git(*words, stdin=wanted.encode(), borrow=(source.objects, *under))
        if answer.code:  # not all of it is here (a partial clone), or some of it is broken
            cut, under = f"{tip}\n", []
            for name in (_CUT, _ALONE):
                write_atomic(os.path.join(temp, name), cut)
            self._fetch_files(tip)
            shallow = {"GIT_SHALLOW_FILE": os.path.join(temp, _CUT)}
            answer = self.store.git(*words, stdin=wanted[: len(cut)].encode(), borrow=source.objects, **shallow)
        if answer.code:
            raise git_failure(
                f"The history of {tip[:10]} cannot be read", answer, f"Check it: git -C {source.top} fsck"
            )
        if under:
            write_atomic(os.path.join(objects, "info", "alternates"), "".join(f"{one}\n" for one in under))
        if cut:
            write_atomic(os.path.join(temp, _CUT), cut)

    def _fetch_files(self, tip: str) -> None:
        """Let the person's own git fetch what their partial clone lacks of the files of one commit."""
        git = distrusting(self.place.source.folder, self.store.environment)
        listed = git.git("rev-list", "--objects", "--no-walk", "--missing=print", tip).text
        missing = "".join(f"{line[1:]}\n" for line in listed.splitlines() if line.startswith("?"))
        named = git.git("config", "--name-only", "--get-regexp", r"^remote\..*\.promisor$").text.splitlines()
        for remote in (name[len("remote.") : -len(".promisor")] for name in named if missing):
            words = ("-c", "fetch.negotiationAlgorithm=noop", "fetch", "-q", "--no-tags", "--no-write-fetch-head")
            more = ("--recurse-submodules=no", "--filter=blob:none", "--stdin", remote)
            self.person.git(*words, *more, stdin=missing.encode(), top=self.place.source.top)


def drop_unused(project: str, store: SnapshotRepo, used: Collection[str], *, now: float) -> list[str]:
    """Remove histories that no clone borrows any more; the newest stays, and what was asked for within the hour."""
    known = histories(project)
    needed = {os.path.dirname(place) for place in used}
    needed |= {os.path.dirname(place) for one in known[:1] for place in one.places}
    gone = []
    for one in known:
        if one.folder not in needed and os.stat(one.folder).st_mtime < now - _YOUNG_SECONDS:
            store.release(one.tip, one.objects)
            aside = f"{one.folder}.{os.urandom(3).hex()}.tmp"
            os.rename(one.folder, aside)
            shutil.rmtree(aside, ignore_errors=True)
            gone.append(one.tip)
    return gone


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

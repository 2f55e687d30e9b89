"""What a clone borrows: the history of the commit it begins from, and nothing else of the person's or of a neighbour's.

A lent history is a folder with all objects of one commit and of what came before it; it is made once and never changes. A
clone names the history of the nearest commit before its base, and owns what is younger. So it reads exactly what its base
reaches: no snapshot, no draft, no stash, no other branch.
"""

from __future__ import annotations

import os
import shutil

from handoff.base.errors import UserError
from handoff.base.files import locked, make_folder, write_atomic
from handoff.base.record import TYPE_CHECKING, Record
from handoff.git.plumbing import git_failure, is_sha, read_text
from handoff.git.plumbing.refs import head
from handoff.git.plumbing.untrusted import distrusting

if TYPE_CHECKING:
    from collections.abc import Collection

    from handoff.base.process import Completed
    from handoff.git.plumbing import Git
    from handoff.git.plumbing.snapshot_repo import SnapshotRepo
    from handoff.git.snapshots.location import Location

BASES = "bases"
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
    folder = os.path.join(project, BASES)
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
    return name == "objects" and os.path.dirname(folder) == os.path.join(project, BASES)


class Lender:
    """Finds or makes the history for clones of one project, from what the person and the snapshot store have."""

    def __init__(self, place: Location, store: SnapshotRepo, person: Git) -> None:
        self.place, self.store, self.person = place, store, person
        self.folder = os.path.join(place.project, BASES)

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
        before = {commit, *_parents(self.store, commit)}
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


def _parents(store: SnapshotRepo, commit: str) -> list[str]:
    """The parents of a commit that was written just now; of an older one git is asked later."""
    if not store.has_loose(commit):
        return []
    lines = store.read(commit).partition(b"\n\n")[0].decode("utf-8", "replace").split("\n")
    return [line[7:] for line in lines if line.startswith("parent ")]


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

"""Move the target branch, and the person's checkout with it, all or nothing: dirty work is never overwritten."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import shutil
import sys
import time
from contextlib import suppress
from typing import Any

from handoff.base.errors import Conflict, HandoffError, Refused, UserError
from handoff.base.files import make_folder, remove, remove_tree, write_atomic
from handoff.base.markdown import quoted
from handoff.base.process import start_of
from handoff.base.record import TYPE_CHECKING, Record
from handoff.git.commits.index import LANDING, link
from handoff.git.plumbing import QUIET, Git, open_source, read_text
from handoff.git.plumbing.objects import POINTER, differences
from handoff.git.plumbing.refs import head, refs
from handoff.git.snapshots.restore import give_objects

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from handoff.git.plumbing import Source
    from handoff.git.plumbing.objects import Difference
    from handoff.git.plumbing.snapshot_repo import SnapshotRepo

    Facts = tuple[int, int, int, int] | None

# Bring the files of a checkout to a new commit so that a save of the person's in that very moment is never lost.
#
# git compares first and writes later, and what is saved in between is gone. Here each new file changes places with the old one in a
# single step, and what comes out is looked at: if it is not what was there before, everything goes back and the save stays.

FILES = ".files"
"""How the folder ends in which the files wait, beside the index."""
_HERE, _NO_REPLACE, _EXCHANGE = -100, 1, 2
_CANNOT = (errno.ENOSYS, errno.EINVAL, errno.EXDEV, errno.EOPNOTSUPP, errno.EPERM)
_ATTRIBUTES = ".gitattributes"


class Cannot(Exception):
    """This disk or this landing needs git's own way."""


class Saved(Exception):
    """Somebody wrote a file meanwhile; everything is as it was, with what they wrote."""


class _Move(Record):
    path: str
    letter: str
    aside: str
    """Where the new file waits, and the old one then lies."""
    made: Facts
    """What the new file is like."""


def facts_of(top: str, git: Git, old: str, new: str) -> dict[str, Facts]:
    """What each file that a landing changes is like, before anybody has looked whether it may be changed."""
    return {one.path: _facts(os.path.join(top, one.path)) for one in differences(git, old, new)}


def _facts(path: str) -> Facts:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_mode


def bring_along(git: Git, top: str, index: str, commits: tuple[str, str], known: Mapping[str, Facts]) -> str:
    """Files and the private index follow from the old commit to the new one; git's complaint, if it cannot.

    Where nothing can change places (`Cannot`), or somebody saved a file meanwhile (`Saved`), all files are as they were.
    """
    changed = differences(git, *commits)
    there = all((known.get(one.path) is None) == (one.letter == "A") for one in changed)
    there = there and all(_is_below(top, folder) for folder in {os.path.dirname(one.path) for one in changed})
    if not sys.platform.startswith("linux") or not there or not _is_plain(changed):
        raise Cannot
    answer = git.git("read-tree", "-m", *commits, top=top, index=index)
    if answer.code:
        return answer.error_text or f"exit {answer.code}"
    stage = index + FILES
    make_folder(stage)
    try:
        new = "".join(f"{one.path}\0" for one in changed if one.letter != "D")
        words = ("checkout-index", "-q", "-f", "-z", "--stdin", f"--prefix={stage}/")
        answer = git.git(*words, stdin=os.fsencode(new), top=top, index=index)
        if answer.code:
            return answer.error_text or f"exit {answer.code}"
        _exchange_all(top, stage, changed, known)
    finally:
        with suppress(OSError):
            remove_tree(stage)
    git.git("update-index", "-q", "--refresh", top=top, index=index)
    return ""


def _is_below(top: str, folder: str) -> bool:
    """Whether no link leads out of the checkout on the way to a folder; git says that in its own words."""
    while folder:
        if os.path.islink(os.path.join(top, folder)):
            return False
        folder = os.path.dirname(folder)
    return True


def _is_plain(changed: list[Difference]) -> bool:
    """Whether every change is a file that comes, goes or becomes another: no folder stands where a file was, nothing else decides how it is written."""
    paths = {one.path for one in changed}
    above = {path[:at] for path in paths for at in range(len(path)) if path[at] == "/"}
    return paths.isdisjoint(above) and not any(
        one.mode == POINTER or os.path.basename(one.path) == _ATTRIBUTES for one in changed
    )


def _exchange_all(top: str, stage: str, changed: list[Difference], known: Mapping[str, Facts]) -> None:
    done: list[_Move] = []
    try:
        for one in changed:
            aside = os.path.join(stage, one.path)
            move = _Move(one.path, one.letter, aside, _facts(aside))
            _exchange(top, move)
            done.append(move)
            _look(move, known)
        for move in done:  # an editor that had a file open wrote it after the exchange
            _look(move, known)
    except (OSError, HandoffError) as error:
        _put_back(top, done)
        if not done and isinstance(error, OSError) and error.errno in _CANNOT:
            raise Cannot from error
        raise Saved(done[-1].path if done else changed[0].path) from error
    except Saved:
        _put_back(top, done)
        raise
    for move in done:
        if move.letter == "D":
            _remove_empty(top, move.path)


def _look(move: _Move, known: Mapping[str, Facts]) -> None:
    if move.letter != "A" and _facts(move.aside) != known.get(move.path):
        raise Saved(move.path)


def _exchange(top: str, move: _Move) -> None:
    path = os.path.join(top, move.path)
    if move.letter == "D":
        make_folder(os.path.dirname(move.aside))
        _rename(path, move.aside, _NO_REPLACE)
    elif move.letter == "A":
        make_folder(os.path.dirname(path))
        _rename(move.aside, path, _NO_REPLACE)
    else:
        _rename(move.aside, path, _EXCHANGE)


def _put_back(top: str, done: list[_Move]) -> None:
    for move in reversed(done):
        path = os.path.join(top, move.path)
        with suppress(OSError):
            if move.letter != "D" and _facts(path) != move.made:
                continue  # somebody has written there meanwhile: theirs stays, and what was there before is in git
            if move.letter == "D":
                _rename(move.aside, path, _NO_REPLACE)
            elif move.letter == "A":
                _rename(path, move.aside, _NO_REPLACE)
                _remove_empty(top, move.path)
            else:
                _rename(move.aside, path, _EXCHANGE)


def _remove_empty(top: str, path: str) -> None:
    at = os.path.dirname(path)
    with suppress(OSError):
        while at:
            os.rmdir(os.path.join(top, at))
            at = os.path.dirname(at)


def _rename(old: str, new: str, how: int) -> None:
    try:
        call = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:
        raise OSError(errno.ENOSYS, "renameat2") from None
    if call(_HERE, os.fsencode(old), _HERE, os.fsencode(new), ctypes.c_uint(how)) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), old)


# --- how files come in --------------------------------------------------------------------------------------

_SHOWN = 10
_FEW = 400
_MARK = LANDING.decode()
_PATIENCE_SECONDS, _PAUSE_SECONDS = 15.0, 0.01
_UNDER_WAY: set[str] = set()  # landings of other threads of this process: a supervisor looks while its sessions land


class Landing(Record):
    """One move of a branch as it is remembered: enough to finish it after a crash, and to take it back."""

    id: str
    target: str
    old: str
    new: str
    members: tuple[str, ...]
    checkout: str = ""
    time: float = 0.0
    state: str = "moving"  # moving, landed, undone


class InTheWay(Refused):
    """Files of the checkout that a landing would change are dirty there."""

    def __init__(self, message: str, hint: str, *, checkout: str, paths: Sequence[str]) -> None:
        super().__init__(message, hint)
        self.checkout, self.paths = checkout, tuple(paths)


def checkout_of(source: Source, target: str) -> Source | None:
    """The checkout that has the target branch checked out, if any: the person's own or a linked worktree."""
    candidates = [source.top]
    if source.folder != source.common and os.path.basename(source.common) == ".git":
        candidates.append(os.path.dirname(source.common))
    linked = os.path.join(source.common, "worktrees")
    names = sorted(os.listdir(linked)) if os.path.isdir(linked) else ()
    candidates += (os.path.dirname(read_text(os.path.join(linked, name, "gitdir")).strip()) for name in names)
    for top in dict.fromkeys(candidates):
        if top and os.path.lexists(os.path.join(top, ".git")):
            found = open_source(top)
            if head(found).ref == target:
                return found
    return None


def _copy_index(checkout: Source, private: str) -> None:
    remove(private)
    if os.path.exists(checkout.index_file):
        shutil.copy2(checkout.index_file, private)


class Target(Git):
    """The branch work lands on, moved by compare-and-swap with the person's own git settings but no hooks."""

    def __init__(self, store: SnapshotRepo, source: Source, folder: str, environment: Mapping[str, str]) -> None:
        self.store = store
        self.source = source
        self.folder = os.path.join(folder, "landings")
        super().__init__(source.top, environment, (*QUIET, "submodule.recurse=false"))

    def tip(self, target: str) -> str:
        return refs(self.source).get(target, "")

    def in_the_way(self, checkout: Source, old: str, new: str) -> list[str]:
        """Paths the landing changes that are dirty, staged or untracked in the checkout."""
        changed = {one.path: one.letter for one in differences(self, old, new)}
        blocked = set()
        for path, kind in changed.items():
            if kind == "A" and os.path.lexists(os.path.join(checkout.top, path)):
                blocked.add(path)
            at = os.path.dirname(path)
            while at:
                full = os.path.join(checkout.top, at)
                if os.path.lexists(full) and (os.path.islink(full) or not os.path.isdir(full)) and at not in changed:
                    blocked.add(at)
                at = os.path.dirname(at)
        if not blocked and self.git("read-tree", "-m", "-u", "-n", old, new, top=checkout.top).code == 0:
            return []  # git itself sees nothing dirty among them
        # A file that was only touched looks dirty until the index has seen it again.
        self.git("update-index", "-q", "--refresh", top=checkout.top)
        if not blocked and self.git("read-tree", "-m", "-u", "-n", old, new, top=checkout.top).code == 0:
            return []
        some = list(changed) if len(changed) <= _FEW else []
        words = ("status", "--porcelain=v1", "-z", "--no-renames", "--untracked-files=no", "--", *some)
        status = self.git(*words, top=checkout.top, GIT_LITERAL_PATHSPECS="1")
        dirty = {item[3:] for item in status.text.split("\0") if item}  # two letters and a space come first
        return sorted(blocked | (dirty & changed.keys())) or ["(git names none: see git status)"]

    def move(self, landing: Landing) -> None:
        """Swap the branch and bring the checkout along; what cannot be done in full is not done at all."""
        _UNDER_WAY.add(landing.id)
        try:
            self._move(landing)
        finally:
            _UNDER_WAY.discard(landing.id)

    def _move(self, landing: Landing) -> None:
        known = facts_of(landing.checkout, self.store, landing.old, landing.new) if landing.checkout else {}
        self.check(landing)
        checkout = open_source(landing.checkout) if landing.checkout else None
        self.save(landing)
        # git's own lock, from before the branch moves until index and files have followed: killed in between, nobody can
        # commit what still stands in the index over what has landed.
        lock = self._lock(checkout, landing) if checkout is not None else ""
        words = ", ".join(landing.members)
        if not self.swap(landing.target, landing.old, landing.new, f"handoff land: {words}"):
            self._give_up(landing, lock)
            raise Conflict(
                f"{landing.target} moved while the work was being put together.",
                "Run the command again: it starts from the new tip.",
            )
        if checkout is not None:
            trouble = self._bring_along(checkout, landing, known)
            if trouble:
                self.swap(landing.target, landing.new, landing.old, "handoff land: back, the checkout could not follow")
                self._give_up(landing, lock)
                raise Conflict(
                    f"{checkout.top} could not be updated, so the branch was moved back: {trouble}",
                    "Look at git status there, then run the command again.",
                )
            remove(lock)
        self.save(landing._replace(state="landed"))

    def _give_up(self, landing: Landing, lock: str) -> None:
        if lock:
            remove(lock)
        self.save(landing._replace(state="undone"))

    def _bring_along(self, checkout: Source, landing: Landing, known: Mapping[str, Any]) -> str:
        """Index and files of the checkout follow the branch; why not, if they cannot."""
        private, commits = f"{checkout.index_file}.{landing.id}.landing", (landing.old, landing.new)
        try:
            _copy_index(checkout, private)
            try:
                trouble = bring_along(self, checkout.top, private, commits, known)
            except Cannot:
                _copy_index(checkout, private)
                answer = self.git("read-tree", "-m", "-u", *commits, top=checkout.top, index=private)
                trouble = (answer.error_text or f"exit {answer.code}") if answer.code else ""
            except Saved as saved:
                trouble = f"{saved} was written in this moment, and is as it was written"
            if not trouble:
                os.rename(private, checkout.index_file)
            return trouble
        finally:
            remove(private)
            remove(private + ".lock")

    def _lock(self, checkout: Source, landing: Landing) -> str:
        lock, deadline = checkout.index_file + ".lock", time.monotonic() + _PATIENCE_SECONDS
        mark = f"{checkout.index_file}.{landing.id}.mark"
        write_atomic(mark, f"{_MARK}{landing.id} {os.getpid()} {start_of(os.getpid())}\n", sync=False)
        try:
            while not link(mark, lock):
                if time.monotonic() > deadline:
                    self.save(landing._replace(state="undone"))
                    raise Conflict(
                        f"{lock} exists: git is at work there. Nothing was changed.",
                        "Wait for it, or remove the file if git died.",
                    )
                time.sleep(_PAUSE_SECONDS)
        finally:
            remove(mark)
        return lock

    def check(self, landing: Landing) -> None:
        """Refuse where dirty files of the checkout would be changed; the repository has all the objects then."""
        for pack in self.store.packs:  # most of what the checkout needs was written together: it is given as it is
            self.store.git("index-pack", "--stdin", objects=self.source.objects, stdin=pack)
        self.store.packs.clear()
        give_objects(self.store, self.source, [landing.new])
        blocked = self.in_the_way(open_source(landing.checkout), landing.old, landing.new) if landing.checkout else []
        if blocked:
            count = f"{len(blocked)} files that would change are" if len(blocked) > 1 else "1 file that would change is"
            raise InTheWay(
                f"{count} dirty in {landing.checkout}: {', '.join(blocked[:_SHOWN])}",
                "Commit, stash or move them; nothing was changed.",
                checkout=landing.checkout,
                paths=blocked,
            )

    def swap(self, target: str, old: str, new: str, message: str = "handoff land") -> bool:
        """Compare-and-swap of the branch in the person's repository."""
        return self.git("update-ref", "-m", message, target, new, old).code == 0

    # --- after a crash --------------------------------------------------------------------------

    def finish(self) -> list[Landing]:
        """Complete or forget landings somebody died in: where the branch moved, the checkout follows."""
        done = []
        for landing in self.all():
            if landing.state != "moving" or landing.id in _UNDER_WAY or self._is_at_work(landing):
                continue
            if self.tip(landing.target) != landing.new:
                self.save(landing._replace(state="undone"))
                continue
            if landing.checkout and os.path.lexists(os.path.join(landing.checkout, ".git")):
                self._follow(open_source(landing.checkout), landing)
            self.save(landing._replace(state="landed"))
            done.append(landing)
        return done

    def _is_at_work(self, landing: Landing) -> bool:
        """Whether somebody is landing this right now. The lock of one that was killed is taken away."""
        if not landing.checkout:
            return False
        try:
            checkout = open_source(landing.checkout)
        except UserError:
            return False
        lock = checkout.index_file + ".lock"
        name, _, rest = read_text(lock).removeprefix(_MARK).partition(" ")
        pid, _, start = rest.strip().partition(" ")
        if name != landing.id or not pid.isdigit():
            return False
        if start_of(int(pid)) == start and int(pid) != os.getpid():
            return True
        private, deadline = f"{checkout.index_file}.{landing.id}.landing", time.monotonic() + _PATIENCE_SECONDS
        while (
            os.path.exists(private + ".lock") and time.monotonic() < deadline
        ):  # the git it started lives on for a moment
            time.sleep(_PAUSE_SECONDS)
        with suppress(FileNotFoundError):
            remove_tree(private + FILES)
        for left in (private, private + ".lock", f"{checkout.index_file}.{landing.id}.mark", lock):
            remove(left)
        return False

    def _follow(self, checkout: Source, landing: Landing) -> None:
        changed = [one.path for one in differences(self, landing.old, landing.new)]
        differing = self._differing(checkout, landing.new, changed)
        arrived = "".join(path + "\0" for path in changed if path not in differing)
        if arrived:
            words = ("update-index", "--add", "--remove", "--replace", "-z", "--stdin")
            self.git(*words, stdin=os.fsencode(arrived), top=checkout.top)
        answer = self.git("read-tree", "-m", "-u", landing.old, landing.new, top=checkout.top)
        if answer.code:
            raise Conflict(
                f"A landing on {landing.target} was cut short, and {checkout.top} cannot follow it: {answer.error_text}",
                "Commit or move what git names, then run the command again.",
            )

    def _differing(self, checkout: Source, commit: str, paths: Sequence[str]) -> set[str]:
        """Which of the paths do not lie on the disk as the commit has them."""
        index = os.path.join(self.folder, f"index.{os.getpid()}.tmp")
        try:
            self.git("read-tree", commit, index=index, top=checkout.top)
            # By their contents: the new index knows no times yet, and would call every file another.
            self.git("update-index", "-q", "--refresh", index=index, top=checkout.top)
            gone = set(self.git("diff-files", "-z", "--name-only", index=index, top=checkout.top).text.split("\0"))
            there = set(self.git("ls-files", "-z", index=index, top=checkout.top).text.split("\0"))
        finally:
            remove(index)
        return {
            path
            for path in paths
            if path in gone or (path not in there and os.path.lexists(os.path.join(checkout.top, path)))
        }

    # --- records ----------------------------------------------------------------------------------

    def save(self, landing: Landing) -> None:
        make_folder(self.folder)
        write_atomic(os.path.join(self.folder, f"{landing.id}.json"), json.dumps(landing._asdict(), indent=2) + "\n")

    def all(self) -> list[Landing]:
        """Every landing remembered, newest first."""
        found = []
        for name in sorted(os.listdir(self.folder), reverse=True) if os.path.isdir(self.folder) else ():
            if not name.endswith(".json") or name.startswith("."):
                continue
            try:
                with open(os.path.join(self.folder, name), encoding="utf-8") as file:
                    values: dict[str, Any] = json.load(file)
                found.append(Landing(**values)._replace(members=tuple(values["members"])))
            except (OSError, ValueError, TypeError, KeyError):
                continue
        return sorted(found, key=lambda one: one.time, reverse=True)


_NONE = ("unspecified", "")
_BY_LINES = ("set", "text")
_BY_HAND = ("unset", "binary")
UNION = "union"


class MergeDriver(Record):
    """A merge driver by its name and its command; no command where a file is to be joined by hand."""

    name: str
    command: str = ""

    @property
    def by_hand(self) -> bool:
        return self.name in _BY_HAND

    @property
    def by_lines(self) -> bool:
        """Whether git's own merge of lines is wanted, also for a file that a program makes."""
        return self.name in _BY_LINES


def driver_of(target: Target, tip: str, path: str) -> MergeDriver | None:
    """What the `merge` attribute of a path names, with the command from the person's own settings."""
    name = _attribute(target, tip, path)
    if name in _NONE:
        return None
    if name in (*_BY_HAND, *_BY_LINES):
        return MergeDriver(name)
    if name == UNION:
        return MergeDriver(name, "git merge-file -q --union %A %O %B")
    command = target.git("config", f"merge.{name}.driver").text.strip()
    return MergeDriver(name, command) if command else None


def words_of(driver: MergeDriver, base: str, ours: str, theirs: str, path: str) -> str:
    """The command as git would give it to a shell: three files, the size of a mark, the path."""
    values = {"O": base, "A": ours, "B": theirs, "L": "7", "P": path, "S": "before", "X": "ours", "Y": "theirs"}
    found, rest = [], driver.command
    while rest:
        plain, percent, rest = rest.partition("%")
        found.append(plain)
        if not percent:
            break
        letter, rest = rest[:1], rest[1:]
        found.append("%" if letter == "%" else quoted(values[letter]) if letter in values else percent + letter)
    return "".join(found)


def _attribute(target: Target, tip: str, path: str) -> str:
    """Asked in the person's repository, over an index that holds the target's .gitattributes alone."""
    names = [".gitattributes", *(f"{path[:at]}/.gitattributes" for at in range(len(path)) if path[at] == "/")]
    make_folder(target.folder)
    index = os.path.join(target.folder, f"index.attributes.{os.getpid()}.tmp")
    listed = target.git("ls-tree", "-z", tip, "--", *names, GIT_LITERAL_PATHSPECS="1")
    try:
        target.git("update-index", "-z", "--index-info", stdin=listed.out, index=index)
        answer = target.git("check-attr", "--cached", "-z", "merge", "--", path, index=index)
    finally:
        remove(index)
    return answer.text.split("\0")[2] if answer.code == 0 and answer.text else ""

"""Move the target branch, and the person's checkout with it, all or nothing: dirty work is never overwritten."""

from __future__ import annotations

import json
import os
import shutil
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from handoff.base.errors import Conflict, Refused, UserError
from handoff.base.files import make_folder, remove, write_atomic
from handoff.base.process import start_of
from handoff.git.commits.index import LANDING, link
from handoff.git.plumbing import QUIET, Git, open_source, read_text
from handoff.git.plumbing.objects import differences
from handoff.git.plumbing.refs import head, refs
from handoff.git.snapshots.restore import give_objects

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from handoff.git.plumbing import Source
    from handoff.git.plumbing.snapshot_repo import SnapshotRepo

_SHOWN = 10
_FEW = 400
_MARK = LANDING.decode()
_PATIENCE_SECONDS, _PAUSE_SECONDS = 15.0, 0.01
_UNDER_WAY: set[str] = set()  # landings of other threads of this process: a supervisor looks while its sessions land


class Landing(NamedTuple):
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
            trouble = self._bring_along(checkout, landing)
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

    def _bring_along(self, checkout: Source, landing: Landing) -> str:
        """Index and files of the checkout follow the branch; git's complaint, if it cannot."""
        private = f"{checkout.index_file}.{landing.id}.landing"
        try:
            if os.path.exists(checkout.index_file):
                shutil.copy2(checkout.index_file, private)
            answer = self.git("read-tree", "-m", "-u", landing.old, landing.new, top=checkout.top, index=private)
            if answer.code:
                return answer.error_text or f"exit {answer.code}"
            os.rename(private, checkout.index_file)
        finally:
            remove(private)
            remove(private + ".lock")
        return ""

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

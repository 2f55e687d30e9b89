"""A conflict laid out for somebody to settle: all that joins in one tree, marks with the base in what does not."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from collections import Counter

from handoff.base.files import make_folder, write_atomic
from handoff.base.record import TYPE_CHECKING, Record
from handoff.git.landing.merge import THE_TARGET, Withholding
from handoff.git.landing.rules import is_lock, is_made
from handoff.git.landing.three_way import Proposal, SideTrees, has_marks, join, settle
from handoff.git.plumbing import git_failure, read_plain
from handoff.git.plumbing.objects import FILE, PROGRAM, Entry

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from handoff.git.landing.merge import Member, Merged
    from handoff.git.landing.three_way import FileSides, Unjoined, Way
    from handoff.git.plumbing.snapshot_repo import SnapshotRepo

BEFORE = "before both"
_ERROR = 128  # from here on git's exit code is no number of conflicts
_TEST = re.compile(rb"""^\s*(?:async\s+)?def\s+(test\w*)|\b(?:it|test)\(\s*['"`](.+?)['"`]""", re.MULTILINE)


class ConflictFile(Record):
    """One file to be settled: whose sides they are, the three objects, and the one with marks; no base where both added it."""

    path: str
    first: str
    second: str
    base: str
    ours: str
    theirs: str
    marked: str
    mode: str
    lines: int

    def memory_key(self, store: SnapshotRepo) -> str:
        """Under which name its settling is remembered."""
        return key_of(store.read(self.base) if self.base else b"", store.read(self.ours), store.read(self.theirs))


class LaidOut(Record):
    """A conflict as it is handed over: the commit a clone begins from, the files to settle, and who comes in the next round."""

    commit: str
    files: tuple[ConflictFile, ...]
    waiting: tuple[str, ...]
    parts: tuple[str, ...] = ()
    """The commits that were joined: once one of them is another, so is the conflict."""


def lay_out(
    store: SnapshotRepo, merged: Merged, members: Sequence[Member], *, ways: Sequence[Way], moment: int
) -> LaidOut | None:
    """Put the members that were held on all that joined, with marks; None where a file cannot be settled by editing it.

    Who touches a file that has marks already waits for the next round. A lock is nobody's to edit: it is made again when the others
    are settled.
    """
    by_name = {member.name: member for member in members}
    held_names = {one.member for one in merged.held}
    whose = {path: member.name for member in members if member.name not in held_names for path in member.paths}
    tree = store.load(merged.new, ())
    files: list[ConflictFile] = []
    waiting: list[str] = []
    withholding = Withholding(store)
    for held in merged.held:
        member = by_name[held.member]
        if any(one.ours is None and one.theirs is None for one in held.left):
            return None  # a file that may not follow a moved folder: no edit settles that
        if member.paths & {one.path for one in files}:
            waiting.append(member.name)
            continue
        sides = SideTrees(held.base, tree, held.theirs)
        found = withholding.withhold(join(store, *sides[:3]), member.paths, sides)
        found, _ = settle(store, found, member.name, ways, sides)
        editable = [one for one in found.left if not is_lock(one.path)]
        if found.left and not editable:
            waiting.append(member.name)
            continue
        marked = [_marked(store, one, whose.get(one.path, THE_TARGET), member.name) for one in editable]
        known = [one for one in marked if one is not None]
        if len(known) != len(marked):
            return None
        changes: dict[bytes, Entry | None] = {os.fsencode(one.path): Entry(one.mode, one.marked) for one in known}
        tree = store.graft(store.load(found.tree, changes), changes)
        files += known
        whose.update(dict.fromkeys(member.paths, member.name))
    if not files:
        return None
    commit = store.write_commit(tree, [merged.new], "The parts joined, with what must be settled\n", moment=moment)
    return LaidOut(commit, tuple(files), tuple(waiting), tuple(member.commit for member in members))


def _marked(store: SnapshotRepo, one: Unjoined, first: str, second: str) -> ConflictFile | None:
    """A file with marks around what both changed, the base among them; None for what is no text of both sides."""
    entries = [entry for entry in (one.base, one.ours, one.theirs) if entry is not None]
    if one.ours is None or one.theirs is None or any(entry.mode not in (FILE, PROGRAM) for entry in entries):
        return None
    texts = [store.read(entry.sha) if entry is not None else b"" for entry in (one.base, one.ours, one.theirs)]
    if any(b"\0" in text for text in texts):
        return None
    data, lines = _with_marks(store, texts, (first, BEFORE, second))
    return ConflictFile(
        path=one.path,
        first=first,
        second=second,
        base=one.base.sha if one.base else "",
        ours=one.ours.sha,
        theirs=one.theirs.sha,
        marked=store.write("blob", data),
        mode=one.theirs.mode if one.base and one.ours.mode == one.base.mode else one.ours.mode,
        lines=lines,
    )


def _with_marks(store: SnapshotRepo, texts: Sequence[bytes], labels: Sequence[str]) -> tuple[bytes, int]:
    """The text with marks, and how many lines stand between them."""
    folder = tempfile.mkdtemp(prefix="conflict.", dir=store.path)
    try:
        places = [os.path.join(folder, name) for name in ("base", "ours", "theirs")]
        for place, text in zip(places, texts, strict=True):
            with open(place, "wb") as file:
                file.write(text)
        named = [word for label in labels for word in ("-L", label)]
        answer = store.git("merge-file", "-p", "--zdiff3", *named, places[1], places[0], places[2])
        if answer.code >= _ERROR:
            raise git_failure("git merge-file failed", answer, f"Look at {store.path}.")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    inside, lines = False, 0
    for line in answer.out.split(b"\n"):
        inside = (inside or line.startswith(b"<<<<<<< ")) and not line.startswith(b">>>>>>> ")
        lines += inside
    return answer.out, lines


# --- settled by somebody ------------------------------------------------------------------------------------


def faults_of(store: SnapshotRepo, files: Sequence[ConflictFile], made: Mapping[str, bytes | None]) -> list[str]:
    """Why what somebody made of the files is not believed: marks left, a line that both had kept lost, a file gone."""
    found = []
    for one in files:
        data = made.get(one.path)
        if data is None:
            found.append(f"{one.path} is gone")
        elif has_marks(data):
            found.append(f"{one.path} still has marks of the conflict")
        else:
            lost = [] if is_made(one.path, data) else _lost_lines(store, one, data)
            found += [f"{one.path} lost a line that both sides had kept: {line}" for line in lost[:3]]
            found += [f"{one.path} lost the test {name}" for name in _lost_tests(store, one, data)]
    return found


def _lost_lines(store: SnapshotRepo, one: ConflictFile, data: bytes) -> list[str]:
    """Lines of the base that neither side had touched: they were nobody's to take away."""
    shas = (one.base, one.ours, one.theirs)
    base, ours, theirs = (Counter(store.read(sha).split(b"\n") if sha else ()) for sha in shas)
    lost = (base & ours & theirs) - Counter(data.split(b"\n"))
    return [line.decode("utf-8", "replace").strip() for line in lost if line.strip()]


def _lost_tests(store: SnapshotRepo, one: ConflictFile, data: bytes) -> list[str]:
    """Tests of either side that are gone, though neither side had taken them away."""
    base, ours, theirs = (_tests(store.read(sha)) if sha else set() for sha in (one.base, one.ours, one.theirs))
    wanted = (ours | theirs) - (base - ours) - (base - theirs)
    return sorted(name.decode("utf-8", "replace") for name in wanted - _tests(data))


def _tests(data: bytes) -> set[bytes]:
    return {first or second for first, second in _TEST.findall(data)}


# --- memory -------------------------------------------------------------------------------------------------


def key_of(base: bytes, ours: bytes, theirs: bytes) -> str:
    """The name of one conflict: the same three texts are the same question."""
    return hashlib.sha256(b"".join(hashlib.sha256(data).digest() for data in (base, ours, theirs))).hexdigest()


def remember(folder: str, key: str, data: bytes) -> None:
    """Keep how a conflict was settled."""
    make_folder(folder, mode=0o700)
    write_atomic(os.path.join(folder, key), data)


def memory_way(folder: str) -> Way:
    """What was settled once is settled so again, as long as the three texts are the same."""

    def way(sides: FileSides) -> Proposal | None:
        path = os.path.join(folder, key_of(sides.base, sides.ours, sides.theirs))
        return Proposal(read_plain(path), "a session that settled it") if os.path.isfile(path) else None

    return way


def settled_way(store: SnapshotRepo, files: Sequence[ConflictFile], made: Mapping[str, bytes | None]) -> Way:
    """The same for what a session has made of these files just now, before anybody says whether it holds."""
    known = {one.memory_key(store): made.get(one.path) for one in files}

    def way(sides: FileSides) -> Proposal | None:
        data = known.get(key_of(sides.base, sides.ours, sides.theirs))
        return Proposal(data, "the session that settles it") if data is not None else None

    return way

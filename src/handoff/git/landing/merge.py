"""Bring sessions' work together in memory: whether it merges, what settled it, and who else touched the same file."""

from __future__ import annotations

import os
from typing import NamedTuple

from handoff.base.errors import UserError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.git.landing.rules import is_lock, is_made
from handoff.git.landing.three_way import BY_PROGRAM, Joined, SideTrees, Unjoined, join, join_many, settle
from handoff.git.ownership import Ownership
from handoff.git.plumbing import is_git_folder
from handoff.git.plumbing.beneath import is_reserved
from handoff.git.plumbing.objects import FILE, LINK, POINTER, PROGRAM, Difference, Entry, differences, fetch

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from handoff.git.landing.three_way import Settled, Way
    from handoff.git.plumbing.snapshot_repo import SnapshotRepo

FLOW = "Handoff-Flow"
"""The trailer of a commit that a flow has made."""
GONE = "000000"
"""The mode of a path that was deleted."""


class Touch(Record):
    """One path a member changed: its new mode and object; mode 000000 means deleted."""

    path: str
    mode: str
    sha: str


class Member(Record):
    """One session's work as a commit on the base it began from, with the paths it changed and those left out."""

    name: str
    base: str
    commit: str
    paths: frozenset[str]
    touches: tuple[Touch, ...] = ()
    message: str = ""
    left_out: tuple[str, ...] = ()
    whole: bool = False
    """Whether its commits land as they are, with what was recorded about them."""
    owns: tuple[str, ...] = ()
    """The patterns it owns; empty where it may write anything."""
    named: tuple[str, ...] = ()
    """Patterns that a person gave it: a control file that one of them names lands without another word."""
    shown: str = ""
    """The commit that people see of it, where that is another: without what the person had not committed."""
    by_person: bool = False
    """Whether it is a branch of the person's own."""


def member(name: str, base: str, commit: str, touched: tuple[Touch, ...], message: str) -> Member:
    """What lands under one name: a commit with what it touches since its base."""
    paths = frozenset(one.path for one in touched)
    return Member(name=name, base=base, commit=commit, paths=paths, touches=touched, message=message)


def touches(store: SnapshotRepo, old: str, new: str) -> list[Touch]:
    """What changed between two trees or commits, raw, renames as what they are: a deletion and an addition."""
    return [] if old == new else [Touch(one.path, one.mode, one.sha) for one in differences(store, old, new)]


def many_touches(store: SnapshotRepo, pairs: Sequence[tuple[str, str]]) -> list[tuple[Touch, ...]]:
    """What changed between many pairs of commits, in one process."""
    found = many_differences(store, pairs)
    return [tuple(Touch(one.path, one.mode, one.sha) for one in changed) for changed in found]


def many_differences(store: SnapshotRepo, pairs: Sequence[tuple[str, str]]) -> list[tuple[Difference, ...]]:
    """The same with the objects from before."""
    if not pairs:
        return []
    unique = list(dict.fromkeys(sha for pair in pairs for sha in pair))
    # Named as trees: two commits on one line would mean something else.
    listed = store.git(
        "cat-file", "--batch-check=%(objectname)", stdin="".join(f"{sha}^{{tree}}\n" for sha in unique).encode()
    )
    trees = dict(zip(unique, listed.text.split("\n"), strict=False))
    expected = [f"{trees[old]} {trees[new]}" for old, new in pairs]
    asked = "\n".join(expected) + "\n"
    told = store.ask("diff-tree", "--stdin", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", stdin=asked.encode())
    found: dict[str, list[Difference]] = {}
    current: list[Difference] = []
    words = iter(told.split("\0"))
    for word in words:
        *headers, facts = word.split("\n")
        if headers:  # each pair begins with its own line, also one without differences: that is all there is of it
            current = found[headers[-1]] = []
        path = next(words, "")
        if path:
            _, mode, before, after, letter = facts.split(" ")
            current.append(Difference(path, letter, mode, before, after))
    return [tuple(found.get(pair, ())) for pair in expected]


def bases(store: SnapshotRepo, commits: Sequence[str], tip: str) -> list[str]:
    """Where each branch left the target's history; one process for all that grew straight from the tip."""
    if not commits:
        return []
    listed = store.ask("rev-list", "--no-walk=unsorted", "--parents", *commits)
    parents = dict(line.split(" ", 1) for line in listed.splitlines() if " " in line)
    found = []
    for commit in commits:
        if parents.get(commit) == tip:
            found.append(tip)
            continue
        answer = store.git("merge-base", commit, tip)
        if answer.code:
            raise UserError(f"{commit[:10]} has no history in common with the target.", "Land it by hand.")
        found.append(answer.text.strip())
    return found


def flow_of(store: SnapshotRepo, base: str, commit: str) -> str:
    """The flow that made every commit of a branch; nothing where anybody else added one."""
    told = store.ask("log", f"--format=%P%x00%(trailers:key={FLOW},valueonly,separator=%x2C)", f"{base}..{commit}")
    lines = [line.partition("\0") for line in told.splitlines() if line]
    names = {name.strip() for _, _, name in lines}
    return names.pop() if len(names) == 1 and all(" " not in parents for parents, _, _ in lines) else ""


def flows_of(store: SnapshotRepo, ranges: Sequence[tuple[str, str]]) -> list[str]:
    """The same for many branches, each from its base to its tip: of most, one look at all tips tells that no flow made them."""
    if not ranges:
        return []
    mark = f"{FLOW}:".lower().encode()
    tips = fetch(store, [commit for _, commit in ranges])
    return [flow_of(store, *one) if mark in tip.data.lower() else "" for one, tip in zip(ranges, tips, strict=True)]


def escapes(path: str, target: str) -> bool:
    """Whether a link at `path` leads out of the tree."""
    if target.startswith("/"):
        return True
    at = os.path.normpath(os.path.join(os.path.dirname(path), target))
    return at == ".." or at.startswith("../")


def refusals(store: SnapshotRepo, top: str, touched: Iterable[Touch]) -> dict[str, str]:
    """Changes that are not taken whoever owns them, and why: links that lead out, git's own names, pointers nobody can follow."""
    found = {}
    nested: dict[str, bool] = {"": False}
    for one in touched:
        if is_reserved(one.path):
            found[one.path] = "a name that git keeps for itself"
        elif _in_nested(top, os.path.dirname(one.path), nested):
            found[one.path] = "inside a repository of its own"
        elif one.mode == LINK and escapes(one.path, os.fsdecode(store.read(one.sha))):
            found[one.path] = "a link that leads out of the tree"
        elif one.mode == POINTER:
            found[one.path] = "a submodule pointer: its commit exists in the workspace alone"
    return found


def _in_nested(top: str, folder: str, known: dict[str, bool]) -> bool:
    """Whether a folder lies in a repository below the top, under whatever name; what is found out is kept in `known`."""
    way = []
    while folder not in known:
        way.append(folder)
        at = os.path.join(top, folder)
        if os.path.lexists(os.path.join(at, ".git")) or is_git_folder(at):
            known[folder] = True
        else:
            folder = os.path.dirname(folder)
    known.update(dict.fromkeys(way, known[folder]))
    return known[folder]


def apply(store: SnapshotRepo, base: str, touched: Sequence[Touch]) -> str:
    """The tree of `base` with these changes."""
    changes = changes_of(touched)
    return store.graft(store.load(base, changes), changes)


def changes_of(touched: Iterable[Touch]) -> dict[bytes, Entry | None]:
    """What a tree must take in."""
    return {os.fsencode(one.path): None if one.mode == GONE else Entry(one.mode, one.sha) for one in touched}


# Locks and generated files that two sides changed: taken out of git's merge, also of a clean one, because a program makes them.


class Withholding:
    """Which files of a merge programs make; what was read of one is known for the next merge."""

    def __init__(self, store: SnapshotRepo) -> None:
        self.store = store
        self.known: dict[tuple[str, str], bool] = {}

    def withhold(self, found: Joined, paths: Iterable[str], trees: SideTrees) -> Joined:
        """The merge with the first side's version of such files, and those among what is left to settle."""
        changes: dict[bytes, Entry | None] = {}
        held: dict[str, Unjoined] = {}
        conflicts = {one.path for one in found.left}
        for path in sorted(paths):
            name = os.fsencode(path)
            base, ours, theirs = (self.store.look_up(tree, name) for tree in trees[:3])
            if (
                ours is None
                or theirs is None
                or not _by_both(base, ours, theirs)
                or not self._is_made(path, base, theirs)
            ):
                continue
            clean = None if path in conflicts else self.store.look_up(found.tree, name)
            held[path] = Unjoined(path=path, base=base, ours=ours, theirs=theirs, clean=clean, made=True)
            changes[name] = ours
        if not held:
            return found
        left = (*(one for one in found.left if one.path not in held), *held.values())
        return found._replace(tree=self.store.graft(self.store.load(found.tree, changes), changes), left=left)

    def _is_made(self, path: str, base: Entry | None, theirs: Entry) -> bool:
        """By its name, or by what it says of itself; before both, so that no side can say so of a file people write."""
        if is_lock(path):
            return True
        key = (path, (base or theirs).sha)
        if key not in self.known:
            self.known[key] = is_made(path, self.store.read(key[1]))
        return self.known[key]


def _by_both(base: Entry | None, ours: Entry, theirs: Entry) -> bool:
    """Whether both sides have plain files of other bytes there than before, and not the same ones."""
    plain = all(one.mode in (FILE, PROGRAM) for one in (ours, theirs))
    return plain and len({ours.sha, theirs.sha, base.sha if base is not None else ""}) == 3  # noqa: PLR2004 - all differ


# --- what programs make -------------------------------------------------------------------------------------

THE_TARGET = "the target branch"


class Conflicted(NamedTuple):
    """A file two changed so that git cannot join it, and who they are."""

    path: str
    first: str
    second: str
    why: str = ""
    """What stands in the way, where there is more to say."""


class MergeStep(NamedTuple):
    """The target after one more member."""

    member: str
    commit: str


class Followed(NamedTuple):
    """A file that went along with a folder somebody else moved."""

    member: str
    old: str
    new: str


class Held(NamedTuple):
    """A member that does not join: the three trees, and every path nothing could settle."""

    member: str
    base: str
    ours: str
    theirs: str
    joined: str
    """The tree with everything that does join, and git's marks in what does not."""
    left: tuple[Unjoined, ...]


class Merged(NamedTuple):
    """What a landing would make: the new tip, one step for each member, or the conflicts that stop it."""

    old: str
    new: str
    steps: tuple[MergeStep, ...]
    conflicts: tuple[Conflicted, ...]
    skipped: tuple[str, ...]
    followed: tuple[Followed, ...] = ()
    settled: tuple[Settled, ...] = ()
    """Files git alone could not join, and what did."""
    held: tuple[Held, ...] = ()


def merge(
    store: SnapshotRepo,
    target: str,
    members: Sequence[Member],
    *,
    moment: int,
    person: str = "",
    ways: Sequence[Way] = (),
) -> Merged:
    """Put the members on the target one after the other, each as one commit; stop collecting at conflicts, not at the first.

    A whole member's commits stay as they are: the target moves on to them, or is joined with them as `git merge` does. What
    git cannot join is offered to the `ways`, one after the other; so is what programs make and two changed, which is never joined
    line by line. Without ways, for a look alone, git's own merge stands.
    """
    with store.gathered():
        return _Merging(store, target, members, ways).run(moment, person)


class _Merging:
    """One merge of many: the tree so far, and what the members before have touched."""

    def __init__(self, store: SnapshotRepo, target: str, members: Sequence[Member], ways: Sequence[Way]) -> None:
        self.store, self.target, self.members, self.ways = store, target, members, ways
        near = [os.fsencode(path) for member in members if ways or member.base == target for path in member.paths]
        wanted: dict[str, list[bytes]] = {}
        for member in members:
            wanted.setdefault(member.base, []).extend(_encoded(member.paths) if ways else ())
            wanted[member.commit] = _encoded(member.paths)
        self.trees = _Trees(store, wanted)
        self.withholding = Withholding(store)
        self.start = self.tree = store.load(target, near)
        self.landed: list[Member] = []
        self.taken: set[str] = set()
        self.folders: set[str] = set()
        self.emptied: set[str] = set()
        self.filled: set[str] = set()
        self.conflicts: list[Conflicted] = []
        self.followed: list[Followed] = []
        self.settled: list[Settled] = []
        self.held: list[Held] = []

    def run(self, moment: int, person: str) -> Merged:
        store, tip = self.store, self.target
        steps: list[MergeStep] = []
        skipped: list[str] = []
        merged = _merged_by_hand(store, self.target, self.members)
        for member in self.members:
            if member.commit in merged or member.shown in merged:
                skipped.append(member.name)
                continue
            joined = self._joined(member, tip)
            if joined is None:
                continue
            if joined == self.tree:
                skipped.append(member.name)
                continue
            self.tree = joined
            if member.whole and member.base == tip:
                tip = member.commit
            else:
                parents = [tip, member.commit] if member.whole else [tip]
                words = member.message or f"Land {member.name}\n"
                tip = store.write_commit(joined, parents, words, moment=moment, person=person)
            steps.append(MergeStep(member.name, tip))
            self._remember(member)
        return Merged(
            old=self.target,
            new=tip,
            steps=tuple(steps),
            conflicts=tuple(self.conflicts),
            skipped=tuple(skipped),
            followed=tuple(self.followed),
            settled=tuple(self.settled),
            held=tuple(self.held),
        )

    def _joined(self, member: Member, tip: str) -> str | None:
        """The tree with one more member in it; None where it does not join."""
        store = self.store
        if member.whole and member.base == tip and member.touches:
            return store.load(member.commit, _encoded(member.paths))
        if member.base == self.target and member.touches and not self._meets(member):
            # Nobody touched these paths: no merge is needed, the trees above them are rebuilt here.
            return store.graft(self.tree, changes_of(member.touches))
        base, theirs = self.trees.of(member.base), self.trees.of(member.commit)
        found = join(store, base, self.tree, theirs)
        strangers = _not_taken(store, member, found)
        done: list[Settled] = []
        if self.ways and not strangers:
            sides = SideTrees(base, self.tree, theirs)
            both = member.paths & self.taken if member.base == self.target else member.paths
            found = self.withholding.withhold(found, both, sides)
            found, done = settle(store, found, member.name, self.ways, sides)
        if found.left or strangers:
            left = (*found.left, *(Unjoined(path=path) for path in strangers))
            self.conflicts += [Conflicted(one.path, self._other(one.path), member.name, one.why) for one in left]
            self.held.append(
                Held(member=member.name, base=base, ours=self.tree, theirs=theirs, joined=found.tree, left=left)
            )
            return None
        self.settled += [one._replace(first=self._other(one.path)) for one in done]
        self.followed += [Followed(member.name, old, new) for old, new in found.moved]
        # What others may still graft onto: only the folders this member touched can be new.
        return store.load(found.tree, _encoded((*member.paths, *(new for _, new in found.moved))))

    def _meets(self, member: Member) -> bool:
        """Whether git must look: a path of somebody else's, a file for a folder, a folder somebody moved or is moving."""
        own, above = member.paths, folders_of(member.paths)
        if own & self.taken or own & self.folders or above & self.taken:
            return True
        return bool(above & self.emptied) or bool(self._emptied_by(member) & self.filled)

    def _emptied_by(self, member: Member) -> set[str]:
        """Folders of the target that are not there any more with this member's changes alone."""
        gone = folders_of(one.path for one in member.touches if one.mode == GONE)
        if not gone or member.base != self.target:
            return gone  # it is merged in any case; which of its folders are left need not be known
        alone = self.store.graft(self.start, changes_of(member.touches))
        return {folder for folder in gone if self.store.look_up(alone, os.fsencode(folder)) is None}

    def _remember(self, member: Member) -> None:
        self.landed.append(member)
        self.taken |= member.paths
        self.folders |= folders_of(member.paths)
        self.emptied |= self._emptied_by(member)
        self.filled |= folders_of(one.path for one in member.touches if one.mode != GONE)

    def _other(self, path: str) -> str:
        for member in reversed(self.landed):
            if path in member.paths:
                return member.name
        return THE_TARGET


def without_drafts(store: SnapshotRepo, member: Member, dirty: str, clean: str) -> tuple[str, bool]:
    """A member's work upon what the person had committed, though it began with all they had; and whether it is free of the rest.

    Where the work stands on lines that they had not committed, the files it changed are taken whole, with these lines in them.
    """
    joined = merge(store, clean, [member._replace(base=dirty, whole=False)], moment=0)
    if not joined.conflicts:
        return joined.new, True
    tree = apply(store, clean, touches(store, dirty, member.commit))
    return store.write_commit(tree, [clean], member.message, moment=0), False


def collisions(store: SnapshotRepo, members: Sequence[Member]) -> tuple[list[Conflicted], list[Conflicted]]:
    """All pairs: files that conflict, and files both changed but git can join."""
    pairs = [
        (one, other, both)
        for number, one in enumerate(members)
        for other in members[number + 1 :]
        if (both := _meeting(one.paths, other.paths))
    ]
    if not pairs:
        return [], []
    tree = _Trees(store, {member.commit: () for one, other, _ in pairs for member in (one, other)})
    known: dict[tuple[str, str], str] = {}
    for one, other, _ in pairs:
        if (one.base, other.base) not in known:
            known[one.base, other.base] = tree.of(tree.common(one.base, other.base))
    triples = [(known[one.base, other.base], tree.of(one.commit), tree.of(other.commit)) for one, other, _ in pairs]
    hard: list[Conflicted] = []
    soft: list[Conflicted] = []
    for (one, other, both), joined in zip(pairs, join_many(store, triples), strict=True):
        paths = [left.path for left in joined.left]
        hard += [Conflicted(path, one.name, other.name) for path in paths]
        whys = {path: BY_PROGRAM if is_lock(path) else "" for path in sorted(both - {*paths})}
        soft += [Conflicted(path, one.name, other.name, why) for path, why in whys.items()]
    return hard, soft


class _Trees:
    """The trees of commits: those of all members are asked for together, when the first of them is needed."""

    def __init__(self, store: SnapshotRepo, wanted: Mapping[str, Sequence[bytes]]) -> None:
        self.store = store
        self.wanted = wanted
        """Each with the paths that will be looked up in it."""
        self.known: dict[str, str] = {}

    def of(self, commit: str) -> str:
        if commit not in self.known:
            asked: dict[str, Sequence[bytes]] = {commit: (), **self.wanted}
            self.known.update(zip(asked, self.store.load_all(asked.items()), strict=True))
            self.wanted = {}
        return self.known[commit]

    def common(self, one: str, other: str) -> str:
        """What two bases have behind them: they differ where one began later, or on the person's uncommitted work."""
        if one == other:
            return one
        answer = self.store.git("merge-base", one, other)
        return answer.text.strip() if answer.code == 0 else other


def folders_of(paths: Iterable[str]) -> set[str]:
    """Every folder above these paths."""
    return {path[:at] for path in paths for at in range(len(path)) if path[at] == "/"}


def _merged_by_hand(store: SnapshotRepo, target: str, members: Sequence[Member]) -> set[str]:
    """What came to the target since members began: a person may have merged one of them with git, and settled it their way.

    Each base by itself, because one may lie ahead of the target. A base of ours is as old as time can be, so its parents are named
    too: else git would walk the whole history to leave them out.
    """
    found: set[str] = set()
    for base in dict.fromkeys(member.base for member in members if member.base != target):
        found.update(store.git("rev-list", target, "--not", base, f"{base}^@").text.split())
    return found


def _encoded(paths: Iterable[str]) -> list[bytes]:
    return [os.fsencode(path) for path in paths]


def _not_taken(store: SnapshotRepo, member: Member, found: Joined) -> list[str]:
    """Where a file would follow a moved folder to a place its member does not own, or a link would lead out from there."""
    owned = Ownership.parse(member.owns) if found.moved and member.owns else None
    refused = []
    for _, new in found.moved:
        entry = store.look_up(found.tree, os.fsencode(new))
        leads_out = entry is not None and entry.mode == LINK and escapes(new, os.fsdecode(store.read(entry.sha)))
        if leads_out or (owned is not None and not owned.covers(new)):
            refused.append(new)
    return refused


def _meeting(one: frozenset[str], other: frozenset[str]) -> set[str]:
    """Paths both touch, or that one has as a file where the other has a folder."""
    found = set(one & other)
    for mine, theirs in ((one, other), (other, one)):
        found |= mine & folders_of(theirs)
    return found

"""Bring sessions' work together in memory: what each changed, whether it merges, and who else touched the same file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from handoff.base.errors import UserError
from handoff.git.plumbing import git_failure
from handoff.git.plumbing.objects import LINK, POINTER, Entry, differences
from handoff.git.plumbing.reserved import is_reserved

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from handoff.git.plumbing.snapshot_repo import SnapshotRepo

FLOW = "Handoff-Flow"
"""The trailer of a commit that a flow has made."""
_NOTHING = "000000"


class Touch(NamedTuple):
    """One path a member changed: its new mode and object; mode 000000 means deleted."""

    path: str
    mode: str
    sha: str


class Member(NamedTuple):
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


class Conflicted(NamedTuple):
    """A file two changed so that git cannot join it, and who they are."""

    path: str
    first: str
    second: str


class MergeStep(NamedTuple):
    """The target after one more member."""

    member: str
    commit: str


class Merged(NamedTuple):
    """What a landing would make: the new tip, one step for each member, or the conflicts that stop it."""

    old: str
    new: str
    steps: tuple[MergeStep, ...]
    conflicts: tuple[Conflicted, ...]
    skipped: tuple[str, ...]


def touches(store: SnapshotRepo, old: str, new: str) -> list[Touch]:
    """What changed between two trees or commits, raw, renames as what they are: a deletion and an addition."""
    return [Touch(one.path, one.mode, one.sha) for one in differences(store, old, new)]


def many_touches(store: SnapshotRepo, pairs: Sequence[tuple[str, str]]) -> list[tuple[Touch, ...]]:
    """What changed between many pairs of commits, in one process."""
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
    told = store.ask("diff-tree", "--stdin", "-r", "-z", "--raw", "--no-renames", stdin=asked.encode())
    found: dict[str, list[Touch]] = {}
    current: list[Touch] = []
    words = iter(told.split("\0"))
    for word in words:
        header, newline, facts = word.partition("\n")
        if newline:  # a pair with differences begins with its own line
            current = found.setdefault(header, [])
        path = next(words, "")
        if path:
            _, mode, _, sha, _ = (facts or word).split(" ")
            current.append(Touch(path, mode, sha))
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
    if folder not in known:
        known[folder] = os.path.lexists(os.path.join(top, folder, ".git")) or _in_nested(
            top, os.path.dirname(folder), known
        )
    return known[folder]


def apply(store: SnapshotRepo, base: str, touched: Sequence[Touch]) -> str:
    """The tree of `base` with these changes."""
    changes = _changes(touched)
    return store.graft(store.load(base, changes), changes)


def _changes(touched: Iterable[Touch]) -> dict[bytes, Entry | None]:
    return {os.fsencode(one.path): None if one.mode == _NOTHING else Entry(one.mode, one.sha) for one in touched}


def join(store: SnapshotRepo, ours: str, theirs: str) -> tuple[str, list[str]]:
    """Merge two commits in memory: the tree, and the paths git could not join."""
    answer = store.git("merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", ours, theirs)
    if answer.code not in (0, 1):
        old = "unknown option" in answer.error_text or "usage:" in answer.error_text
        hint = "handoff needs git 2.38 or newer to land work." if old else f"Look at {store.path}."
        raise git_failure("git merge-tree failed", answer, hint)
    tree, *paths = answer.text.split("\0")
    return tree, [path for path in paths if path] if answer.code else []


def merge(store: SnapshotRepo, target: str, members: Sequence[Member], *, moment: int, person: str = "") -> Merged:
    """Put the members on the target one after the other, each as one commit; stop collecting at conflicts, not at the first.

    A whole member's commits stay as they are: the target moves on to them, or is joined with them as `git merge` does.
    """
    with store.gathered():
        return _merge(store, target, members, moment=moment, person=person)


def _merge(store: SnapshotRepo, target: str, members: Sequence[Member], *, moment: int, person: str) -> Merged:
    tip = target
    steps: list[MergeStep] = []
    conflicts: list[Conflicted] = []
    skipped: list[str] = []
    landed: list[Member] = []
    taken: set[str] = set()
    folders: set[str] = set()
    apart = [os.fsencode(path) for member in members if member.base == target for path in member.paths]
    tree = store.load(target, apart)
    for member in members:
        if member.whole and member.base == tip and member.touches:
            joined = store.load(member.commit, apart)
        elif member.base == target and member.touches and not _meets(member.paths, taken, folders):
            # Nobody touched these paths: no merge is needed, the trees above them are rebuilt here.
            joined = store.graft(tree, _changes(member.touches))
        else:
            ours = tip
            if member.base != target and not _shares_history(store, member.base, tip):
                # The base exists only for this member (the person's dirty tree): let git see it as the common past.
                ours = store.write_commit(tree, [member.base], "target\n", moment=0)
            joined, paths = join(store, ours, member.commit)
            if paths:
                conflicts += [Conflicted(path, _other(path, landed), member.name) for path in paths]
                continue
            if joined == tree:
                skipped.append(member.name)
                continue
            store.load(joined, apart)
        tree = joined
        words = member.message or f"Land {member.name}\n"
        if member.whole and member.base == tip:
            tip = member.commit
        else:
            parents = [tip, member.commit] if member.whole else [tip]
            tip = store.write_commit(tree, parents, words, moment=moment, person=person)
        steps.append(MergeStep(member.name, tip))
        landed.append(member)
        taken |= member.paths
        folders |= _folders(member.paths)
    return Merged(target, tip, tuple(steps), tuple(conflicts), tuple(skipped))


def collisions(store: SnapshotRepo, members: Sequence[Member]) -> tuple[list[Conflicted], list[Conflicted]]:
    """All pairs: files that conflict, and files both changed but git can join."""
    hard: list[Conflicted] = []
    soft: list[Conflicted] = []
    for number, one in enumerate(members):
        for other in members[number + 1 :]:
            both = _meeting(one.paths, other.paths)
            if not both:
                continue
            ours = one.commit
            if one.base != other.base and not _shares_history(store, one.base, other.base):
                ours = store.write_commit(store.load(one.commit, ()), [other.base], "other\n", moment=0)
            _, paths = join(store, ours, other.commit)
            hard += [Conflicted(path, one.name, other.name) for path in paths]
            soft += [Conflicted(path, one.name, other.name) for path in sorted(both) if path not in paths]
    return hard, soft


def _folders(paths: Iterable[str]) -> set[str]:
    return {path[:at] for path in paths for at in range(len(path)) if path[at] == "/"}


def _meets(paths: frozenset[str], taken: set[str], folders: set[str]) -> bool:
    return bool(paths & taken or paths & folders or _folders(paths) & taken)


def _meeting(one: frozenset[str], other: frozenset[str]) -> set[str]:
    """Paths both touch, or that one has as a file where the other has a folder."""
    found = set(one & other)
    for mine, theirs in ((one, other), (other, one)):
        found |= mine & _folders(theirs)
    return found


def _other(path: str, landed: Sequence[Member]) -> str:
    for member in reversed(landed):
        if path in member.paths:
            return member.name
    return "the target branch"


def _shares_history(store: SnapshotRepo, one: str, other: str) -> bool:
    """Whether git finds the member's base by itself: it must lie in the target's past."""
    return store.git("merge-base", "--is-ancestor", one, other).code == 0

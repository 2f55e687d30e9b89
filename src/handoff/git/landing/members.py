"""A member of a landing: one session's work as a commit on its base, with what it touches and what is not taken of it."""

from __future__ import annotations

import os

from handoff.base.errors import UserError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.git.plumbing import is_git_folder
from handoff.git.plumbing.beneath import is_reserved
from handoff.git.plumbing.objects import LINK, POINTER, Difference, Entry, differences, fetch

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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

"""What a session that runs in a race is judged by, beside its check: the size of its change, and what became of the tests."""

from __future__ import annotations

import os

from handoff.base.record import TYPE_CHECKING
from handoff.checks.assertions.assertions import find_weakened, read_tests
from handoff.checks.suite import is_test
from handoff.git.plumbing.objects import FILE, PROGRAM
from handoff.git.snapshots.restore import tree_of

if TYPE_CHECKING:
    from typing import Any

    from handoff.git.landing.members import Member
    from handoff.git.plumbing.snapshot_repo import SnapshotRepo

_LARGEST = 300_000  # of bytes: longer files are no tests that somebody wrote
_SHOWN = 5


def gather(store: SnapshotRepo, member: Member) -> dict[str, Any]:
    """From the two trees alone; nothing of the session is run or believed."""
    answer = store.ask("diff", "--numstat", "--no-renames", "--no-ext-diff", member.base, member.commit)
    counts = [line.split("\t", 2)[:2] for line in answer.splitlines() if "\t" in line]
    lines = sum(int(word) for pair in counts for word in pair if word.isdecimal())
    texts = {path: _sides(store, member, path) for path in sorted(member.paths) if is_test(path)}
    weakened = [f"{one.path}: {one.test}: {one.message}" for one in find_weakened(texts)]
    return {
        "tree": tree_of(store, member.commit),
        "lines": lines,
        "files": len(counts),
        "asserts": sum(_asserts(path, new) - _asserts(path, old) for path, (old, new) in texts.items()),
        "weakened": weakened[:_SHOWN],
    }


def _asserts(path: str, text: str | None) -> int:
    return sum(facts.assertions for facts in read_tests(path, text).values()) if text else 0


def _sides(store: SnapshotRepo, member: Member, path: str) -> tuple[str | None, str | None]:
    return _text(store, member.base, path), _text(store, member.commit, path)


def _text(store: SnapshotRepo, commit: str, path: str) -> str | None:
    name = os.fsencode(path)
    entry = store.look_up(store.load(commit, [name]), name)
    if entry is None or entry.mode not in (FILE, PROGRAM):
        return None
    data = store.read(entry.sha)
    return data.decode("utf-8", "replace") if len(data) <= _LARGEST else None

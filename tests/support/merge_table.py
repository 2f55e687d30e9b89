"""Trees and members of a landing, written straight into a store: what is merged is said as dictionaries of files."""

from __future__ import annotations

import os
from typing import Any

from handoff.base.settings import from_environment
from handoff.git.landing.merge import Member, Merged, member, merge, touches
from handoff.git.plumbing.objects import FILE, Entry
from handoff.git.plumbing.snapshot_repo import SnapshotRepo

Files = dict[str, "str | bytes"]


class CountingStore(SnapshotRepo):
    """A store that counts the git processes it starts, and how much they are told."""

    calls = 0
    told = 0

    def git(self, *words: str, **options: Any) -> Any:
        self.calls += 1
        self.told += len(options.get("stdin") or b"")
        return super().git(*words, **options)


class MergeTable:
    """Where members are laid out and merged."""

    def __init__(self, repo: Any) -> None:
        self.store = CountingStore(os.path.join(repo.path, "..", "table.git"), from_environment().environment)
        self.store.create(os.path.join(repo.path, ".git"))

    def tree(self, files: Files) -> str:
        changes: dict[bytes, Entry | None] = {}
        for path, data in files.items():
            kept = data.encode() if isinstance(data, str) else data
            changes[os.fsencode(path)] = Entry(FILE, self.store.write("blob", kept))
        return self.store.graft("", changes)

    def commit(self, files: Files, *parents: str) -> str:
        return self.store.write_commit(self.tree(files), parents, "files\n", moment=1_700_000_000)

    def member(self, name: str, base: str, files: Files, **more: Any) -> Member:
        commit = self.store.write_commit(self.tree(files), [base], f"Work of {name}\n", moment=0)
        made = member(name, base, commit, tuple(touches(self.store, base, commit)), f"Land {name}\n")
        return made._replace(**more)

    def merge(self, target: str, *members: Member, **how: Any) -> Merged:
        return merge(self.store, target, members, moment=1_700_000_001, **how)

    def files(self, commit: str) -> dict[str, str]:
        """The files of a commit with their words."""
        listed = self.store.ask("ls-tree", "-r", "-z", commit).split("\0")
        pairs = [line.split("\t", 1) for line in listed if line]
        return {path: self.store.read(facts.split(" ")[2]).decode("utf-8", "replace") for facts, path in pairs}

"""The parts of a snapshot that are not the working tree: the index, refs, stash, reflogs and settings."""

from __future__ import annotations

import os
from contextlib import suppress

from handoff.base.errors import UserError
from handoff.base.files import remove, write_atomic
from handoff.base.record import TYPE_CHECKING, Record
from handoff.git.plumbing import is_sha, read_plain, read_text
from handoff.git.plumbing.git_folder import join_logs, log_commits, logs, settings_files
from handoff.git.plumbing.objects import FILE, TREE, Entry, digest, parents_named
from handoff.git.plumbing.refs import refs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from handoff.git.plumbing import Source
    from handoff.git.plumbing.refs import Head
    from handoff.git.plumbing.snapshot_repo import SnapshotRepo

_REFLOG_COMMITS = 1000


class LastSnapshot(Record):
    """What the last snapshot of a workspace was made of, so that unchanged parts are used again."""

    tree: str = ""
    staged: str = ""
    staged_sum: str = ""
    refs: str = ""
    refs_sum: str = ""
    top: str = ""
    modes: str = ""

    @classmethod
    def load(cls, folder: str) -> LastSnapshot:
        """What was kept; nothing at the first time."""
        lines = read_text(os.path.join(folder, "state")).split("\n")
        values = dict(line.split(" ", 1) for line in lines if " " in line)
        return cls(**{name: values.get(name, "") for name in cls._fields})

    def save(self, folder: str) -> None:
        text = "".join(f"{name} {value}\n" for name, value in self._asdict().items())
        write_atomic(os.path.join(folder, "state"), text.encode("utf-8", "surrogateescape"))


class SnapshotSide(Record):
    """A commit that holds one side of a snapshot, and the sum of what it was made from."""

    commit: str
    sum: str


class Parts:
    """Makes the two sides of one snapshot, each only if it changed; what git cannot read is noted, not fatal."""

    def __init__(self, store: SnapshotRepo, source: Source, before: LastSnapshot, known: Sequence[str]) -> None:
        self.store = store
        self.source = source
        self.before = before
        self.known = [sha for sha in known if sha]
        self.troubles: list[str] = []

    def own(self, wanted: Sequence[str], *more: str) -> bool:
        """Have the store hold everything behind `wanted` itself."""
        known = [*self.known, *(sha for sha in more if sha)]
        return self.store.own(wanted, known, borrow=self.source.objects)

    def own_lone(self, commit: str, *more: str) -> bool:
        """The same for a commit without parents: git would copy each of its files again, were the known trees not named too."""
        known = [sha for sha in (*self.known, *more) if sha]
        with suppress(UserError):  # whatever cannot be read is asked for again
            if any(self.store.has_loose(sha) and commit in parents_named(self.store.read(sha)) for sha in known):
                return True
        return self.own([commit], *more, *(f"{sha}^{{tree}}" for sha in known))

    def index(self, folder: str, *, tree: str = "") -> SnapshotSide:
        """The index as a commit: its tree, where the caller does not know it, and beside it what a tree cannot say."""
        data = read_plain(self.source.index_file)
        if not data and not os.path.lexists(self.source.index_file):
            return SnapshotSide("", "")
        mark = digest(data[-32:] + str(len(data)).encode() if any(data[-20:]) else data)
        before = SnapshotSide(self.before.staged, self.before.staged_sum)
        if before.commit and mark == before.sum:
            return before
        if not data:  # it cannot be read
            self.troubles.append("index")
            return before
        built = (tree, [], b"") if tree else self._index_tree(os.path.join(folder, f"index.{os.getpid()}.copy"), data)
        if built is None:
            self.troubles.append("index")
            return before
        tree, stages, extras = built
        parents = []
        if extras:
            entries = {f"stage-{number}".encode(): entry for number, entry in enumerate(stages)}
            entries[b"extras"] = Entry(FILE, self.store.write("blob", extras))
            parents.append(self.store.write_commit(self.store.graft("", entries), [], "index extras\n", moment=0))
        commit = self.store.write_commit(tree, parents, "index\n", moment=0)
        if not self.own_lone(commit):
            self.troubles.append("index")
            return before
        if not self.known:  # the first snapshot of a project: the history need not bring all of it a second time
            self.known = [f"{commit}^{{tree}}"]
        return SnapshotSide(commit, mark)

    def _index_tree(self, copy: str, data: bytes) -> tuple[str, list[Entry], bytes] | None:
        """The tree of an index, and its conflict stages and flags; worked out on a copy of it."""
        try:
            with open(copy, "wb") as file:
                file.write(data)
            return self._tree_of(copy)
        finally:
            remove(copy)
            remove(copy + ".lock")

    def _tree_of(self, copy: str) -> tuple[str, list[Entry], bytes] | None:
        top, borrow = self.source.top, self.source.objects
        listed = self.store.git("ls-files", "-z", "-s", "-v", index=copy, top=top, borrow=borrow)
        if listed.code:  # a split index has its other half beside the original: let git join them
            listed = self.store.look(self.source, "ls-files", "-z", "-s", "-v")
            os.unlink(copy)
            lines = b"".join(line[2:] + b"\0" for line in listed.out.split(b"\0") if line)
            self.store.git("update-index", "-z", "--index-info", index=copy, top=top, stdin=lines)
        odd, stages, unmerged = [], [], set()
        for line in listed.out.split(b"\0"):
            facts, _, name = line.partition(b"\t")
            if line and (facts[:2] != b"H " or facts[-2:] != b" 0"):
                odd.append(line)
                _, mode, sha, stage = facts.decode().split(" ")
                if stage != "0":
                    stages.append(Entry(mode, sha))
                    unmerged.add(name)
        if unmerged:
            gone = b"".join(b"0 " + b"0" * 40 + b"\t" + name + b"\0" for name in unmerged)
            self.store.git("update-index", "-z", "--index-info", index=copy, top=top, stdin=gone)
        answer = self.store.git("write-tree", "--missing-ok", index=copy, borrow=borrow)
        return None if answer.code else (answer.text.strip(), stages, b"\0".join(odd))

    def refs(self, head: Head) -> SnapshotSide:
        """Refs, reflogs, stash and settings as a commit whose parents keep every tip alive."""
        found, logged, files = refs(self.source), logs(self.source), settings_files(self.source)
        lines = [f"HEAD {head.ref or head.commit}", *(f"{value} {name}" for name, value in sorted(found.items()))]
        files["refs"] = ("\n".join(lines).encode("utf-8", "surrogateescape") + b"\n", FILE)
        files["logs"] = (join_logs(logged), FILE)  # one object, however many branches there are
        mark = digest(
            b"\0".join(os.fsencode(name) + b"\0" + data + mode.encode() for name, (data, mode) in sorted(files.items()))
        )
        before = SnapshotSide(self.before.refs, self.before.refs_sum)
        if before.commit and mark == before.sum:
            return before
        wanted = dict.fromkeys([head.commit, *(value for value in found.values() if is_sha(value))])
        for log in logged.values():
            wanted.update(dict.fromkeys(log_commits(log)[:_REFLOG_COMMITS]))
        wanted.pop("", None)
        commit = self._refs_from(files, list(wanted))
        if not commit:
            self.troubles.append("refs")
            return before
        return SnapshotSide(commit, mark)

    def _refs_from(self, files: dict[str, tuple[bytes, str]], wanted: list[str]) -> str:
        borrow, before = self.source.objects, self._held_before()
        kinds = dict.fromkeys(before.intersection(wanted), "commit")
        kinds |= self.store.readable([sha for sha in wanted if sha not in before], borrow=borrow)
        parents = [sha for sha in wanted if kinds.get(sha) == "commit"]
        entries: dict[bytes, Entry | None] = {}
        for sha, kind in kinds.items():
            if kind == "tag":
                files[f"tags/{sha}"] = (self.store.read(sha, borrow=borrow), FILE)
                peeled = self.store.readable([sha + "^{}"], borrow=borrow)
                parents += [name for name, what in peeled.items() if what == "commit" and name not in parents]
            elif kind in ("tree", "blob"):
                entries[sha.encode()] = Entry(TREE if kind == "tree" else FILE, sha)
        tree = self.store.graft(
            "",
            {os.fsencode(name): Entry(mode, self.store.write("blob", data)) for name, (data, mode) in files.items()},
        )
        if entries:
            parents.append(self.store.write_commit(self.store.graft("", entries), [], "what refs name\n", moment=0))
        commit = self.store.write_commit(tree, parents, "refs\n", moment=0)
        new = [sha for sha in parents if sha not in before]
        if self.own(new):  # the rest is written by us just now, or was held before
            return commit
        whole = [sha for sha in parents if sha in before or self.own([sha])]
        self.troubles.append(f"{len(parents) - len(whole)} tips")
        commit = self.store.write_commit(tree, whole, "refs\n\nSome tips could not be read.\n", moment=0)
        return commit if self.own([commit]) else ""

    def _held_before(self) -> set[str]:
        """The tips of the last snapshot, which the store holds whole: of a large batch all but the newest."""
        with suppress(UserError):  # it is gone: everything is asked for again
            return set(parents_named(self.store.read(self.before.refs))) if self.before.refs else set()
        return set()

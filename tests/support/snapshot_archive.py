"""A checkout with its snapshot store, driven through the engine's own verbs."""

from __future__ import annotations

import os
from typing import Any

from handoff.base.settings import from_environment
from handoff.engine.app import App
from handoff.engine.safety import snapshots as engine
from handoff.git.snapshots.take import Snapshot, SnapshotRequest


class MovingClock:
    """A clock that goes on by one second with every look."""

    def __init__(self, start: float = 1_790_000_000.0) -> None:
        self.moment = start

    def now(self) -> float:
        self.moment += 1
        return self.moment

    def monotonic(self) -> float:
        return self.moment

    def sleep(self, seconds: float) -> None:
        self.moment += seconds


class SnapshotArchive:
    """Takes and restores snapshots of one checkout."""

    def __init__(self, top: str, clock: Any = None) -> None:
        self.app = App(from_environment(), clock or MovingClock())
        self.snapshot_store = engine.open_snapshot_store(self.app, folder=top)
        self.store = self.snapshot_store.store

    def take(self, reason: str = "test", **request: Any) -> Snapshot:
        return engine.snapshot(self.app, snapshot_store=self.snapshot_store, request=SnapshotRequest(reason, **request))

    def restore(self, chosen: Snapshot, **want: Any) -> engine.RestoreReport:
        dry_run = want.pop("dry_run", False)
        return engine.restore(
            self.app,
            snapshot_store=self.snapshot_store,
            chosen=chosen,
            want=engine.RestoreRequest(**want),
            dry_run=dry_run,
        )

    def undo(self) -> engine.RestoreReport:
        """Take back the newest restore or undo."""
        found = [one for one in engine.listing(self.app, snapshot_store=self.snapshot_store) if one.operation]
        return engine.undo_restore(self.app, snapshot_store=self.snapshot_store, chosen=found[0])

    def files(self, chosen: Snapshot) -> dict[str, str]:
        """Names and modes in a snapshot's tree."""
        found = {}
        for line in self.store.ask("ls-tree", "-r", "-z", chosen.sha).split("\0"):
            facts, tab, name = line.partition("\t")
            if tab:
                found[name] = facts.split(" ")[0]
        return found

    def content(self, chosen: Snapshot, name: str) -> bytes:
        return self.store.git("cat-file", "blob", f"{chosen.sha}:{name}").out

    def sound(self) -> bool:
        """Whether the store, on its own, holds everything it refers to."""
        return not engine.verify(self.app, snapshot_store=self.snapshot_store)


def tree_facts(top: str) -> dict[str, tuple[str, bytes | str]]:
    """Every file below `top` but git's own: kind and bytes, so that two states can be compared."""
    found: dict[str, tuple[str, bytes | str]] = {}
    for folder, folders, files in os.walk(top):
        folders[:] = [name for name in folders if name != ".git"]
        for name in (*files, *folders):
            path = os.path.join(folder, name)
            key = os.path.relpath(path, top)
            if os.path.islink(path):
                found[key] = ("link", os.readlink(path))
            elif os.path.isfile(path):
                with open(path, "rb") as file:
                    found[key] = (
                        "program" if os.access(path, os.X_OK) and os.stat(path).st_mode & 0o100 else "file",
                        file.read(),
                    )
    return found

"""What the machine itself remembers of a journey: who holds what, what each session wrote and reported, what a person agreed to."""

from __future__ import annotations

from typing import Any

from hunt.world import blob

TAB, WORKER = "tab", "worker"


class Hold:
    """A session that was given a task: which one, with which fence, where it works and what it found and wrote there."""

    def __init__(self, *, kind: str, claim: Any, folder: str, found: dict[str, bytes]) -> None:
        self.kind, self.claim, self.folder = kind, claim, folder
        self.session, self.key, self.fence = claim.session.id, claim.task.key, claim.fence
        self.label, self.area = claim.task.label, claim.task.patterns
        self.found = dict(found)
        self.wrote: dict[str, bytes] = {}
        self.reported = ""
        self.since = 0.0

    def owns(self, path: str) -> bool:
        return not self.area or owned(path, self.area)


def owned(path: str, patterns: tuple[str, ...]) -> bool:
    """The machine's own opinion on whose a path is: areas are folders."""
    return any(path.startswith(pattern.rstrip("*")) for pattern in patterns)


class Record:
    """The machine's own books."""

    def __init__(self) -> None:
        self.holds: list[Hold] = []
        self.holder: dict[int, Hold] = {}
        self.promised: dict[int, dict[str, tuple[str, str]]] = {}
        """Task → blob → (its name, the path): work that was reported done in a clone and believed."""
        self.agreed: dict[int, set[int]] = {}
        """Batch → parts a person agreed to go without."""
        self.began_on: dict[int, set[str]] = {}
        """Task → branches that were checked out when a session of it began."""
        self.wrote_in: dict[str, dict[str, bytes]] = {}
        """Folder → every path a session wrote there, with what it wrote last."""
        self.touched: dict[tuple[str, str], tuple[float, bytes]] = {}
        """(Folder, path) → when somebody last wrote it by hand, and what."""
        self.committed: dict[str, float] = {}
        """Commit → when the person made it."""
        self.stopped: set[tuple[str, str]] = set()
        self.foreign: dict[str, str] = {}
        """Documents that are somebody else's."""
        self.numbers = 0

    def number(self) -> int:
        self.numbers += 1
        return self.numbers

    def promise(self, key: int, label: str, wrote: dict[str, bytes]) -> None:
        """This was reported done, made in a clone, and believed."""
        self.promised[key] = {blob(data): (label, path) for path, data in wrote.items()}

    def took(self, hold: Hold) -> None:
        """A session begins with what it finds: what a person removed with the clone before it is not its to deliver."""
        before = self.wrote_in.get(hold.folder, {})
        self.wrote_in[hold.folder] = {path: data for path, data in before.items() if hold.found.get(path) == data}
        self.holds.append(hold)
        self.holder[hold.key] = hold

    def over(self, key: int) -> None:
        """Nobody speaks for the task any more."""
        self.holder.pop(key, None)

    def moved(self, old: str, new: str) -> None:
        """The person's folder has another name now; whoever works in it goes on there."""
        for hold in self.holds:
            hold.folder = new if hold.folder == old else hold.folder
        if old in self.wrote_in:
            self.wrote_in[new] = self.wrote_in.pop(old)
        self.touched = {
            (new if folder == old else folder, path): found for (folder, path), found in self.touched.items()
        }

    def holds_now(self, hold: Hold) -> bool:
        return self.holder.get(hold.key) is hold

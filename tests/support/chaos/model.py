"""What chaos itself remembers of a batch, and what must be true of the repository at its end: read from files and git alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hunt.world import World, blob, read_files

if TYPE_CHECKING:
    from collections.abc import Iterable

Files = dict[str, bytes]
RED = b"RED"
SHARED = "shared.txt"
MARKS = (b"<<<<<<<", b"|||||||", b"=======", b">>>>>>>")


class Lost(AssertionError):
    """The model and the repository disagree."""


class Reported(NamedTuple):
    """One file as it lay in a clone when its session reported."""

    who: str
    path: str
    data: bytes


class Model:
    """The books of one batch."""

    def __init__(self, areas: dict[str, str], *, check: bool) -> None:
        self.areas, self.check = areas, check
        self.reported: list[Reported] = []
        """Everything that was reported, believed or not."""
        self.unheard: list[Reported] = []
        """The same where the report was killed: it may lie in its clone alone."""
        self.made: dict[str, list[Files]] = {}
        """Who was told that it is done, with all that lay in its area then; and after it what was reported and nobody heard."""
        self.person: dict[str, list[bytes]] = {}
        """What the person committed, path by path."""
        self.dirty: Files = {}
        self.trespassed: list[bytes] = []
        self.mended: set[str] = set()
        """What the fan-in itself took away."""

    def area_of(self, task: str) -> str:
        return self.areas[task]

    def report(self, who: str, here: Files, written: Iterable[str], *, killed: bool) -> None:
        found = [Reported(who, path, here[path]) for path in written if path in here]
        (self.unheard if killed else self.reported).extend(found)

    def take_away(self, who: str, path: str) -> None:
        """The session itself removes a file: where nobody heard of it, nobody else was to keep it."""
        self.unheard = [one for one in self.unheard if (one.who, one.path) != (who, path)]

    def believe(self, who: str, files: Files, *, heard: bool) -> None:
        area = self.area_of(who)
        mine = {path: data for path, data in files.items() if path.startswith(area)}
        self.made[who] = [mine] if heard else [*self.made.get(who, []), mine]

    def standing(self, who: str, here: Files) -> Files | None:
        """What of a session's work stands in the target: all that it reported at one moment, joined with the person's."""
        return next((one for one in reversed(self.made.get(who, [])) if self._stands(one, here)), None)

    def _stands(self, made: Files, here: Files) -> bool:
        for path, data in made.items():
            theirs = self.person.get(path, [])
            if not theirs and here.get(path) != data and path not in self.mended:
                return False
            both = {line for one in (data, theirs[-1]) for line in _tokens(one)} if theirs else set()
            if any(line not in here.get(path, b"") for line in both if not _is_older(line, theirs)):
                return False
        return True

    # --- what must be true ------------------------------------------------------------------------------------

    def nothing_is_lost(self, world: World) -> None:
        """Every byte that was reported is in the target, on a branch or in a snapshot; if nobody heard it, perhaps in its clone."""
        held = world.anywhere()
        disk = {blob(data) for folder in world.places() for data in read_files(folder).values()}
        for one in self.reported:
            if blob(one.data) not in held:
                raise Lost(f"reported by {one.who} and nowhere: {one.path} = {one.data!r}")
        for one in self.unheard:
            if blob(one.data) not in held and blob(one.data) not in disk:
                raise Lost(
                    f"in the clone of {one.who} when its report was killed, and nowhere: {one.path} = {one.data!r}"
                )

    def the_persons_own_is_theirs(self, world: World) -> None:
        """What the person committed is in the history of their branch; what they did not commit lies there untouched."""
        held = world.on_branch(world.head())
        for path, versions in self.person.items():
            for data in versions:
                if blob(data) not in held:
                    raise Lost(f"the person committed {path} = {data!r}, and it is not in their branch")
        here = read_files(world.repo)
        for path, data in self.dirty.items():
            if here.get(path) != data:
                raise Lost(f"the person's uncommitted {path} is {here.get(path)!r} instead of {data!r}")

    def exactly_what_was_done_has_landed(self, world: World, landed: set[str]) -> None:
        """Files of the landed parts as they were reported, joined with the person's; nothing of anybody else."""
        here = read_files(world.repo)
        stands = {who: self.standing(who, here) for who in landed if who in self.made}
        for who, files in stands.items():
            if files is None:
                found = {path: here.get(path) for path in self.made[who][-1]}
                raise Lost(f"{who} landed, but there is {found} instead of {self.made[who][-1]}")
        mine = {blob(data) for files in stands.values() if files for data in files.values()}
        mine |= {blob(data) for versions in self.person.values() for data in versions}
        foreign = {blob(one.data): one for one in (*self.reported, *self.unheard) if blob(one.data) not in mine}
        for path, data in here.items():
            if blob(data) in foreign:
                raise Lost(f"{path} came from {foreign[blob(data)].who}, which has not landed with it")
            if any(line.startswith(MARKS) for line in data.split(b"\n")):
                raise Lost(f"{path} landed with marks of a conflict in it: {data!r}")
            if data in self.trespassed:
                raise Lost(f"{path} was written by somebody who does not own it, and landed")
            if self.check and landed and RED in data and path.startswith(tuple(self.areas.values())):
                raise Lost(f"{path} is red, and landed")


def _tokens(data: bytes) -> list[bytes]:
    """The lines of a file that nobody else has written."""
    return [line for line in data.split(b"\n") if b" by " in line]


def _is_older(line: bytes, versions: list[bytes]) -> bool:
    """Whether the person has written over their own line since."""
    return any(line in one for one in versions) and line not in versions[-1]

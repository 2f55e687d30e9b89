"""Who made the checks red: found by peeling one culprit after the other off what lands, each red seen twice."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from handoff.base.clock import Clock
    from handoff.checks.commands import Verdict

THE_TARGET = "the target branch itself, before anything landed"
_ONE_BY_ONE = 4
_LEAST_RUNS, _RUNS_A_STEP = 12, 6
_MOST_SECONDS = 1800.0


class Culprit(NamedTuple):
    """A member with which the checks turn red: alone, or only together with another."""

    member: str
    together: str
    verdict: Verdict

    @property
    def words(self) -> str:
        return f"{self.member} together with {self.together}" if self.together else self.member


class Blame(NamedTuple):
    """What the search found: the culprits, the members that are green together without them, and where it gave up."""

    culprits: tuple[Culprit, ...]
    green: tuple[str, ...]
    waiting: tuple[str, ...]
    """Members that build on a culprit: not guilty, but they cannot land without it."""
    runs: int
    given_up: str = ""
    flaky: bool = False
    """Whether the whole was green when it was tried again."""

    @property
    def words(self) -> str:
        return ", ".join(one.words for one in self.culprits) or self.given_up


class _GiveUp(Exception):
    """The limit of runs or of time is reached."""


class CulpritSearch:
    """One search. `check` runs the checks on the target with some members on it, and gives None where those do not join."""

    def __init__(
        self,
        members: Sequence[str],
        *,
        check: Callable[[tuple[str, ...]], Verdict | None],
        clock: Clock,
        needs: Mapping[str, frozenset[str]] | None = None,
        seen: Verdict | None = None,
    ) -> None:
        self.members, self.needs, self.clock = tuple(members), needs or {}, clock
        self._check = check
        self._known: dict[tuple[str, ...], Verdict | None] = {}
        self._first = {self.members: seen} if seen is not None else {}
        self._limit = max(_LEAST_RUNS, math.ceil(_RUNS_A_STEP * math.log2(max(2, len(self.members)))))
        self._deadline = clock.monotonic() + _MOST_SECONDS
        self.runs = 0

    def run(self) -> Blame:
        """Peel: the first red prefix names a culprit; without it and what builds on it the search goes on."""
        found: list[Culprit] = []
        waiting: list[str] = []
        good: list[str] = []
        rest = list(self.members)
        try:
            if not self.is_red(rest):
                return self._blame(found, rest, waiting, flaky=True)
            if self.is_red([]):
                return self._blame(found, (), waiting)._replace(given_up=THE_TARGET)
            while rest and self.is_red([*good, *rest]):
                at = self._first_red(good, rest)
                guilty = rest[at]
                before = [*good, *rest[:at]]
                found.append(self._culprit(before, guilty))
                behind = [name for name in rest[at + 1 :] if guilty in self._all_needs(name)]
                waiting += behind
                good = before
                rest = [name for name in rest[at + 1 :] if name not in behind]
        except _GiveUp:
            words = f"not found within {self.runs} runs"
            return self._blame(found, (), waiting)._replace(given_up=words)
        return self._blame(found, (*good, *rest), waiting)

    def _blame(
        self, found: Sequence[Culprit], green: Sequence[str], waiting: Sequence[str], *, flaky: bool = False
    ) -> Blame:
        return Blame(culprits=tuple(found), green=tuple(green), waiting=tuple(waiting), runs=self.runs, flaky=flaky)

    def is_red(self, names: Sequence[str]) -> bool:
        """Whether the checks are red with these members: twice, because a check may fail by chance."""
        key = tuple(names)
        if key not in self._known:
            verdict = self._first.get(key) or self._ran(key)
            if verdict is not None and not verdict.green:
                verdict = self._ran(key, again=True)
            self._known[key] = verdict
        verdict = self._known[key]
        return verdict is not None and not verdict.green

    def _ran(self, names: tuple[str, ...], *, again: bool = False) -> Verdict | None:
        if not again:
            self._limit -= 1
        if self._limit < 0 or self.clock.monotonic() > self._deadline:
            raise _GiveUp
        self.runs += 1
        return self._check(names)

    def _first_red(self, good: list[str], rest: list[str]) -> int:
        """Which of the rest first makes it red behind the good ones."""
        if len(rest) <= _ONE_BY_ONE:
            return next(at for at in range(len(rest)) if at + 1 == len(rest) or self.is_red([*good, *rest[: at + 1]]))
        low, high = -1, len(rest) - 1
        while high - low > 1:
            middle = (low + high) // 2
            if self.is_red([*good, *rest[: middle + 1]]):
                high = middle
            else:
                low = middle
        return high

    def _culprit(self, before: list[str], guilty: str) -> Culprit:
        """A culprit alone, with what it builds on; else together with the first of the others that brings the red."""
        needed = self._all_needs(guilty)
        own = [name for name in before if name in needed]
        if self.is_red([*own, guilty]):
            return Culprit(guilty, "", self._verdict([*own, guilty]))
        low, high = 0, len(before)
        while high - low > 1:
            middle = (low + high) // 2
            if self.is_red([*self._with(before[:middle], own), guilty]):
                high = middle
            else:
                low = middle
        names = [*self._with(before[:high], own), guilty]
        return Culprit(
            guilty, before[high - 1], self._verdict(names) if self.is_red(names) else self._verdict([*before, guilty])
        )

    def _with(self, some: list[str], own: list[str]) -> list[str]:
        wanted = {*some, *own}
        return [name for name in self.members if name in wanted]

    def _verdict(self, names: Sequence[str]) -> Verdict:
        verdict = self._known[tuple(names)]
        if verdict is None:
            raise _GiveUp
        return verdict

    def _all_needs(self, name: str) -> set[str]:
        found: set[str] = set()
        edge = [name]
        while edge:
            for need in self.needs.get(edge.pop(), ()):
                if need not in found:
                    found.add(need)
                    edge.append(need)
        return found

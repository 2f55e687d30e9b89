"""Tests whose runner is not asked from inside: whether they mind what altered sources answer, one run for each alteration."""

from __future__ import annotations

import os
import random
import re

from handoff.base.record import TYPE_CHECKING, Record
from handoff.checks.findings import FileChange, Finding, named_finding
from handoff.checks.questions import ANSWER_NOT_ASKED, NEVER_ENTERED, NOT_PROBED
from handoff.checks.results import PASSED
from handoff.engine.place.proof import altered_sources
from handoff.engine.place.proof.same_questions import LESS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from handoff.checks.results import Report
    from handoff.checks.suite import Suite

_IMPORT = re.compile(r"(?:\bfrom|\bimport|\brequire\s*\(|\bimport\s*\()\s*[\"'](\.{1,2}/[^\"']+)[\"']")
_ENDINGS = ("", ".js", ".ts", ".mjs", ".cjs", ".jsx", ".tsx", ".mts", ".cts", "/index.js", "/index.ts")
_MOST_SAME = 2


class AlteredRuns(Record):
    """A suite, the tree a phase left, and how texts of it are read, put in and run."""

    suite: Suite
    tree: str
    read: Callable[[str, str], str | None]
    made: Callable[[str, Mapping[str, str]], str]
    run: Callable[[str, Sequence[Suite]], Sequence[Report]]
    seed: int

    def new(self, changes: Sequence[FileChange], names: Sequence[str]) -> tuple[list[Finding], str]:
        """Whether new tests mind what was built; refused only where all of it can be altered and was."""
        chance = random.Random(self.seed)  # noqa: S311 - drawn anew for each verdict, and told afterwards
        texts = {one.path: text for one in changes if (text := self.read(self.tree, one.path)) is not None}
        left, tried = set(names), 0
        altered = altered_sources.alter(changes, texts, altered_sources.BROKEN, chance)
        every = altered_sources.ways((), chance) if altered.texts else []
        for how in every:
            tree = altered_sources.alter(changes, texts, how, chance)
            ids = self._minding(self.made(self.tree, tree.texts), names) if tree.texts else None
            tried += 1
            if ids is None:
                return self._silent(left, "the altered code does not run", tried)
            left -= ids
            if not left:
                break
        if not altered.texts:
            return self._silent(left, "nothing that changed can be altered", tried)
        left -= self._signs(changes, texts, left) if left else set()
        loose = self._beside(changes, texts, [name for name in names if name not in left])
        left |= loose
        if not left:
            return [], self._figures(
                f"{len(names)} of {len(names)} new tests mind, {tried} of {len(every)} alterations asked"
            )
        entered = self._minding(self.made(self.tree, altered.texts), sorted(left)) or set()
        found = [named_finding(ANSWER_NOT_ASKED, _ASKED_NOT, sorted(left & entered))] if left & entered else []
        rest = sorted(left - entered)
        if rest and altered.whole:
            found.append(named_finding(NEVER_ENTERED, _ENTERED_NOT, rest))
        elif rest:
            found += self._silent(rest, "it may be about what cannot be altered", tried)[0]
        told = f"{len(names) - len(left)} of {len(names)} new tests mind, {tried} of {len(every)} alterations asked"
        return found, self._figures(told)

    def _signs(self, changes: Sequence[FileChange], texts: dict[str, str], left: set[str]) -> set[str]:
        """Tests that mind the sign of a number and nothing else of it: an order is asked for so."""
        found = []
        for how in (altered_sources.SIGN, altered_sources.OTHER_SIGN):
            tree = altered_sources.alter(changes, texts, how, random.Random(self.seed))  # noqa: S311 - as in `new`
            found.append(self._minding(self.made(self.tree, tree.texts), sorted(left)) if tree.texts else None)
        return found[1] - found[0] if found[0] is not None and found[1] is not None else set()

    def _beside(self, changes: Sequence[FileChange], texts: dict[str, str], names: Sequence[str]) -> set[str]:
        """Tests that take a value they write beside the answer as well as the answer."""
        paths = dict.fromkeys(name.partition("::")[0].partition(":")[2] for name in names)
        groups = altered_sources.written_beside(self.read(self.tree, path) or "" for path in paths)
        code = [one for one in changes if altered_sources.SCRIPT.search(one.path)] if groups else []
        ids: list[set[str] | None] = []
        for how in (altered_sources.BESIDE_STRANGE, altered_sources.BESIDE):
            tree = altered_sources.alter(code, texts, how, random.Random(self.seed), groups)  # noqa: S311 - as in `new`
            if not tree.texts or ids == [set()]:
                return set()
            ids.append(self._minding(self.made(self.tree, tree.texts), names))
        reached, minded = ids
        return reached - minded if reached is not None and minded is not None else set()

    def same(self, mixed: str, touched: Sequence[FileChange], known: Sequence[str]) -> tuple[list[Finding], str]:
        """Whether changed tests mind what they minded before, beside the same altered code."""
        named = altered_sources.named_values(
            [one.before or "" for one in touched], [one.after or "" for one in touched]
        )
        product = self._imported(touched, known)
        lost: dict[str, str] = {}
        chance = random.Random(self.seed)  # noqa: S311 - as in `new`
        every = altered_sources.ways(named, chance) if product else []
        ways, minded = every[:_MOST_SAME], 0
        for how in ways:
            listed = [FileChange(path, is_test=False) for path in product]
            altered = altered_sources.alter(listed, product, how, chance, named)
            if not altered.texts:
                continue
            old, new = (self._results(self.made(tree, altered.texts)) for tree in (mixed, self.tree))
            if old is None or new is None:
                continue
            bad = {name for name, passed in old.items() if not passed}
            minded += len(bad)
            lost.update({name: how for name in bad if new.get(name)})
            gone, fresh = bad - set(new), [name for name in new if name not in old]
            calm = [name for name in fresh if new[name]]
            if len(gone) > len(fresh) - len(calm):
                lost.update(dict.fromkeys(calm, how))
        found = [
            Finding(LESS, f"{name} failed before when the code answered {how}, and passes now.", (name,))
            for name, how in sorted(lost.items())[:3]
        ]
        told = f"{len(ways)} of {len(every)} alterations asked, {minded} answers minded"
        return found, self._figures(told)

    def _silent(self, names: Sequence[str] | set[str], why: str, tried: int) -> tuple[list[Finding], str]:
        listed = sorted(names)
        words = f"{', '.join(listed)} was not probed: {why}."
        return [Finding(NOT_PROBED, words, tuple(listed), noted=True)], self._figures(
            f"not probed, {tried} alterations asked"
        )

    def _figures(self, words: str) -> str:
        """How much was asked, and what chance was drawn from."""
        return f"{self.suite.name}: {words}, seed {self.seed:x}"

    def _minding(self, tree: str, names: Sequence[str]) -> set[str] | None:
        """Those of the tests that do not pass beside it; None where the suite gave nothing."""
        results = self._results(tree)
        if results is None:
            return None
        return {name for name in names if not results.get(name, False)}

    def _results(self, tree: str) -> dict[str, bool] | None:
        (report,) = self.run(tree, [self.suite])
        if not any(case.name for case in report.cases):
            return None
        found: dict[str, bool] = {}
        for case in report.cases:
            if case.name:
                found[case.plain] = found.get(case.plain, True) and case.status == PASSED
        return found

    def _imported(self, touched: Sequence[FileChange], known: Sequence[str]) -> dict[str, str]:
        """The files that changed tests import, as they are now; of Go all of their folder."""
        paths, tests = set(known), {one.path for one in touched}
        found: dict[str, str] = {}
        for one in touched:
            at = os.path.dirname(one.path)
            wanted = [
                os.path.normpath(os.path.join(at, name)) + end
                for name in _IMPORT.findall(f"{one.before or ''}\n{one.after or ''}")
                for end in _ENDINGS
            ]
            if one.path.endswith("_test.go"):
                wanted += [path for path in paths if os.path.dirname(path) == at and altered_sources.GO.search(path)]
            for path in wanted:
                text = self.read(self.tree, path) if path in paths - tests else None
                if text is not None:
                    found[path] = text
        return found


_ASKED_NOT = "passes also when what was built for it answers something else: ask for the answer itself"
_ENTERED_NOT = "passes also when everything that was built for it only fails: call it, and ask for its answer"

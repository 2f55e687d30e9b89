"""Tests that a refactoring changed: what they asked before is asked still, and what they minded they mind."""

from __future__ import annotations

import ast
import json
import random
import re
import shlex

from handoff.base.record import TYPE_CHECKING, Record
from handoff.checks.findings import Finding
from handoff.checks.questions import NOT_PROBED, SECONDS, new_name
from handoff.checks.sealed import runner_words
from handoff.checks.suite import UNITTEST
from handoff.checks.support import tests_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from typing import Any

    from handoff.checks.findings import FileChange
    from handoff.checks.results import Report
    from handoff.checks.suite import Suite

DROPPED, LESS, DECIDES = "question-dropped", "asks-less", "product-decides"
TEST_FILE = re.compile(r"(?:^|/)(?:test_[^/]*|[^/]*_test)\.py$|\.(?:test|spec)\.[^/]*$")
_NOTHING: Mapping[str, Any] = {"lost": (), "dropped": (), "asked": 0, "forks": 0, "seeds": ()}
_MOST_VALUES, _MOST_SHOWN, _MOST_FILES = 40, 3, 40


class ChangedTests(Record):
    """Files with tests of one suite that changed, the product beside them, and how a tree of it is run.

    `others` are files with tests that stayed as they were and may stand on something that changed.
    """

    suite: Suite
    touched: tuple[FileChange, ...]
    others: tuple[str, ...]
    product: tuple[str, ...]
    run: Callable[[str, Sequence[Suite]], Sequence[Report]]
    forks: int

    def ask(self, tree: str, files: Iterable[str], more: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """What came of it on this tree; None where nothing did."""
        inside = len(self.suite.folder) + 1 if self.suite.folder else 0
        named = [path[inside:] for path in dict.fromkeys(files)]
        told = {"product": {path: ["*"] for path in self.product}, "uses": [], "values": {}, "pool": {}}
        job = {**told, "name": new_name(), "files": named, "forks": self.forks, "seconds": SECONDS, **more}
        unittest = self.suite.command == UNITTEST
        command = self.suite.command if unittest else f"{self.suite.command} {shlex.join(named)}"
        reports = self.run(tree, [self.suite._replace(command=command, timeout=3 * SECONDS, inside=job)])
        cases = [case for report in reports for case in report.cases if not case.file and case.reason == "same"]
        return json.loads(cases[0].message) if cases else None

    def old(self, tree: str, doubted: Collection[str] = ()) -> Mapping[str, Any] | None:
        """What the tests as they were mind on this tree; the doubted ones are asked before others."""
        before = [one for one in self.touched if one.before]
        named = _values(one.after for one in self.touched) - _values(one.before for one in self.touched)
        inside = len(self.suite.folder) + 1 if self.suite.folder else 0
        changed = [(one.path, test) for one in before for test in _changed(one)]
        random.SystemRandom().shuffle(changed)
        changed.sort(key=lambda one: f"{one[0]}::{one[1]}" not in doubted)
        first = [f"{path[inside:]}::{test}" for path, test in changed]
        files = [one.path for one in before] or list(self.others[:_MOST_FILES])
        return self.ask(tree, files, {"first": first, "named": sorted(named)[:_MOST_VALUES]}) if files else {}

    def failed(self, old: Mapping[str, Any] | None) -> bool:
        """Whether the tests as they were do not fit the code any more, or nobody knows."""
        if old is None or (old and "noticed" not in old) or old.get("failed"):
            return True
        inside = len(self.suite.folder) + 1 if self.suite.folder else 0
        wanted = {one.path[inside:] for one in self.touched if one.before and tests_of(one.before)}
        return not wanted <= set(old.get("seen", ()))

    def held(self, old: Mapping[str, Any] | None) -> list[tuple[str, int]]:
        """How many assertions held in each test as it was."""
        head = f"{self.suite.folder}/" if self.suite.folder else ""
        return [
            (f"{self.suite.name}:{head}{node}", int(number)) for node, number in (old or {}).get("held", {}).items()
        ]

    def new(self, tree: str, old: Mapping[str, Any], *, here: bool) -> Mapping[str, Any] | None:
        """Whether the tests as they are mind the same."""
        noticed = old["noticed"]
        head = f"{self.suite.folder}/" if self.suite.folder else ""
        files = [one.path for one in self.touched if one.after]
        files += [
            path
            for path in self.others
            if path.removeprefix(head) in {one for each in noticed for one in each["files"]}
        ]
        now, then = (_spoken(texts) for texts in zip(*((one.after, one.before) for one in self.touched), strict=True))
        told = {"taken": sorted(now[0] - then[0]), "maybe": sorted(now[1] - then[0] - then[1])}
        return self.ask(tree, files, {**told, "noticed": noticed, "known": old["known"], "here": here})


def seen_twice(
    one: ChangedTests, trees: tuple[str, str], old: Mapping[str, Any], new: Mapping[str, Any] | None, *, here: bool
) -> Mapping[str, Any] | None:
    """What new tests do not mind or ask, asked once more of both before anybody is refused for it: the old ones on their own
    tree must mind and ask it again, and the new ones again not. A question that holds a hash has another name in each run."""
    found = {name: new.get(name, ()) for name in ("lost", "dropped")} if new and "noticed" in old else {}
    doubted = [each for listed in found.values() for each in listed]
    if not new or not doubted:
        return new
    before, after = trees
    files = [each.path for each in one.touched if each.before] or list(one.others[:_MOST_FILES])
    told = {"taken": [], "maybe": [], "noticed": doubted, "known": old["known"], "here": True}
    theirs, ours = one.ask(before, files, told), one.new(after, {**old, "noticed": doubted}, here=here)
    return {**new, **{name: held_to(listed, theirs, ours, name) for name, listed in found.items()}}


def held_to(
    lost: Sequence[Mapping[str, Any]],
    old: Mapping[str, Any] | None,
    new: Mapping[str, Any] | None,
    name: str = "lost",
) -> list[Mapping[str, Any]]:
    """Those that the old tests did not lose themselves when they were asked again, and that the new ones lost again."""
    again = [one for one in lost if not new or one in new.get(name, lost)]
    return [one for one in again if not old or one not in old.get(name, ())]


def is_asked(suite: Suite) -> bool:
    """Whether the runner of a suite can be asked from inside."""
    return runner_words(suite) is not None or suite.command == UNITTEST


def judge(suite: str, old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> tuple[list[Finding], str]:
    """What is asked no longer, and how much was asked."""
    if old is not None and not old:
        return [], ""
    if old is not None and old.get("noticed") == []:
        new = _NOTHING
    if old is None or not new or "noticed" not in old or "lost" not in new:
        why = next(
            (one["why"] for one in (old, new) if one and one.get("why")), "the run of their questions gave no result"
        )
        why = why.strip().rpartition("\n")[2]
        return [
            Finding(NOT_PROBED, f"{suite}: changed tests were not asked: {why}.", noted=True)
        ], f"{suite}: not asked"
    found = []
    for code, listed, words in (
        (DROPPED, new["dropped"], "had a test before, and no test looks at it any more"),
        (LESS, new["lost"], "could not answer otherwise before without a test that failed, and can now"),
    ):
        by_question: dict[str, list[str]] = {}
        for one in listed:
            by_question.setdefault(f"{one['where']}({one['given']})"[:160], []).append(_told(one["how"]))
        for name, hows in list(by_question.items())[:_MOST_SHOWN]:
            told = f" ({', '.join(dict.fromkeys(hows))})" if code == LESS else ""
            found.append(Finding(code, f"{name}: {words}{told}.", (f"{suite}:{name}",)))
    if new.get("decides"):
        names = ", ".join(new["decides"][:_MOST_SHOWN])
        words = "the tests take it from the product now, and with it the product can decide what they mind"
        found.append(Finding(DECIDES, f"{names}: {words}.", tuple(new["decides"])))
    seeds = "-".join(f"{one:x}" for one in (*old["seeds"][:4], *new["seeds"][:4]))
    figures = (
        f"{old['asked']} of {old['of']} questions, {len(old['noticed'])} answers minded, {new['asked']} asked again"
    )
    return found, f"{suite}: {figures}, {old['forks'] + new['forks']} forks, seed {seeds}"


def _told(how: Sequence[str]) -> str:
    return "left out" if how[0] == "left" else f"{how[1]} instead" if how[0] == "put" else how[1]


def _changed(one: FileChange) -> list[str]:
    """Tests of a file that are gone or say something else now."""
    new = tests_of(one.after or "")
    return [name for name, said in tests_of(one.before or "").items() if new.get(name) != said]


def _spoken(texts: Iterable[str | None]) -> tuple[set[str], set[str]]:
    """Names that files speak of, and words in them that could be names."""
    names: set[str] = set()
    words: set[str] = set()
    for text in texts:
        try:
            tree = ast.parse(text or "")
        except (SyntaxError, ValueError, RecursionError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, (ast.Name, ast.Attribute)):
                names.add(node.id if isinstance(node, ast.Name) else node.attr)
            elif isinstance(node, ast.alias):
                names |= {node.name.rpartition(".")[2], node.asname or ""}
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
                words.add(node.value)
    return names, words


def _values(texts: Iterable[str | None]) -> set[str]:
    """Values that are written out in these files."""
    found: set[str] = set()
    for text in texts:
        try:
            tree = ast.parse(text or "")
        except (SyntaxError, ValueError, RecursionError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, (ast.Constant, ast.List, ast.Tuple, ast.Set, ast.Dict, ast.UnaryOp)):
                try:
                    value = ast.literal_eval(node)
                except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
                    continue
                if not isinstance(value, (bool, type(None), type(...))):
                    found.add(repr(value)[:400])
    return {one for one in found if len(one) < 400}  # noqa: PLR2004 - longer ones were cut

"""Once more as a person would run it: on a terminal, in another folder, order and year; and the same questions without a runner."""

from __future__ import annotations

import ast
import base64
import json
import os
import random
import re
from glob import glob

from handoff.base.record import TYPE_CHECKING, Record
from handoff.checks.findings import Finding, first_line, named_finding
from handoff.checks.questions import ANY_FITS, NEVER_ENTERED, SAYS_NOTHING
from handoff.checks.reporters import values
from handoff.checks.results import PASSED
from handoff.checks.run import python_words, run_as_person
from handoff.checks.sealed import random_word
from handoff.checks.support import changed_functions, python_paths
from handoff.engine.place.proof import test_runs
from handoff.engine.place.proof.broken_sources import broken
from handoff.engine.place.proof.plain_plays import Play, play_of, script

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    from handoff.checks.findings import FileChange
    from handoff.checks.results import Case, Report
    from handoff.checks.run import RunFolders
    from handoff.checks.suite import Suite
    from handoff.engine.app import App
    from handoff.git.commits.phases import FlowCheckout

FAILS, UNDER_TEST, BEHAVIOUR = "fails-elsewhere", "right-only-under-test", "behaviour-changed"
_NOT_PROBED = "not-probed"
_SECONDS, _SECONDS_EACH = 60.0, 1.0
_MOST_TESTS, _MOST_QUESTIONS = 4, 40
_DAYS = (1500, 4000)
_HOURS = (6, 18)  # from now, so that no half of a day is both
_CLOCKS = ("/usr/lib*/faketime/libfaketimeMT.so.1", "/usr/lib/*/faketime/libfaketimeMT.so.1")
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+(?:::.*?)?)(?: - (.*))?$", re.MULTILINE)
_FAILED_CASE = re.compile(r"^(?:FAIL|ERROR): (\w+) \(([\w.]+)\)(?:\n|.)*?^(\w*(?:Error|Exception)\b.*)$", re.MULTILINE)
_COUNTED = re.compile(r"(\d+) (passed|skipped|xfailed|xpassed)\b")
_RAN = re.compile(r"^Ran (\d+) tests? in ", re.MULTILINE)
# What a test may miss outside its runner and its folder: then there is no second opinion.
_LACKING = ("ImportError", "ModuleNotFoundError", "FileNotFoundError", "NotADirectoryError", "Skipped", "SystemExit")
_OTHER_FIRST = 0.875


class LeftWork(Record):
    """What a phase left: the last good tree, the new one, what differs, and the new tests."""

    checkout: FlowCheckout
    head: str
    tree: str
    changes: tuple[FileChange, ...]
    before: tuple[str, ...]
    new: tuple[str, ...]
    silent: tuple[str, ...] = ()
    """Those of the new tests that could not be asked."""
    keeps: bool = False
    """Whether every answer must be what it was."""


class Draw(Record):
    """What is other than in the judge's own run, drawn by a seed that can be told."""

    seed: int
    days: int
    library: str

    @property
    def later(self) -> float:
        """How many seconds after now it is there: another year, and another hour of the day."""
        hours = random.Random(~self.seed).uniform(*_HOURS)  # noqa: S311 - drawn again by who has the seed
        return self.days * 86400.0 + hours * 3600 if self.days else 0.0

    def order(self, files: Iterable[str]) -> list[str]:
        """The files in the order of this draw."""
        listed = sorted(files)
        random.Random(self.seed).shuffle(listed)  # noqa: S311 - drawn again by who has the seed
        return listed

    def environment(self) -> dict[str, str]:
        """The variables of this draw: how sets are ordered, and which year it is."""
        found = {"PYTHONHASHSEED": str(self.seed % 4_000_000_000)}
        if self.days:
            found.update(LD_PRELOAD=self.library, FAKETIME=f"+{self.later:.0f}", NO_FAKE_STAT="1")
            found.update(DONT_FAKE_MONOTONIC="1", FAKETIME_DONT_FAKE_MONOTONIC="1", FAKETIME_DISABLE_SHM="1")
        return found


class Seen(Record):
    """How a run went: the tests that failed with what they said, and how many were counted (-1 where it does not say)."""

    code: int
    failed: Mapping[str, str]
    counted: int
    tail: str


def draw() -> Draw:
    """Another year only where the machine has a library for it."""
    seed = random.SystemRandom().getrandbits(40)
    library = next((path for pattern in _CLOCKS for path in sorted(glob(pattern))), "")
    return Draw(seed, random.Random(seed).randint(*_DAYS) if library else 0, library)  # noqa: S311 - drawn again by who has the seed


def weigh(app: App, phase: LeftWork, suites: Sequence[Suite], reports: Sequence[Report]) -> list[Finding]:
    """What passes in the judge's run and not elsewhere, of suites of pytest and unittest."""
    found: list[Finding] = []
    for suite in suites:
        cases = [case for one in reports if one.suite == suite.name and one.sealed for case in one.cases]
        if cases:
            found += _tests(app, phase, suite, cases)
            found += [] if found else _broken(app, phase, suite)
            found += [] if found else _without_runner(app, phase, suite)
    return found


# --- The tests, as a person runs them -------------------------------------------------------------


def _tests(app: App, phase: LeftWork, suite: Suite, cases: Sequence[Case]) -> list[Finding]:
    drawn = draw()
    passed = {case.id: case for case in cases if case.status == PASSED}
    files = {case.file for case in passed.values()}

    def run(tree: str, chosen: Draw) -> Seen | None:
        known = files if tree == phase.tree else files & set(phase.before)
        return _run_tests(app, phase, suite, tree, known, chosen) if known else None

    first = run(phase.tree, drawn)
    if first is None:
        return []
    left = {name: said for name, said in first.failed.items() if name in passed or "::" not in name}
    if not left and (first.code == 0 or first.failed):
        short = first.code == 0 and 0 <= first.counted < len(passed)
        words = f"of {len(passed)} tests that passed only {first.counted} ran where a person runs them"
        return [Finding(FAILS, f"{suite.name}: {words}.")] if short else []
    base = run(phase.head, drawn)
    if not left:
        known = base is not None and base.code != 0 and not base.failed
        words = f"{suite.name} gave no result where a person runs it: {first_line(first.tail)}"
        return [Finding(_NOT_PROBED if known else FAILS, f"{words}.", noted=known)]
    new = set(phase.new)
    forgiven = {name for name in (base.failed if base else ()) if name not in passed or passed[name].plain not in new}
    left = {name: said for name, said in left.items() if name not in forgiven}
    return _confirmed(phase, run, drawn, left) if left else []


def _confirmed(
    phase: LeftWork, run: Callable[[str, Draw], Seen | None], drawn: Draw, left: Mapping[str, str]
) -> list[Finding]:
    """What fails once more: today too, or in that year alone; what does not fail twice only wavers."""
    today = run(phase.tree, drawn._replace(days=0))
    again = {name: said for name, said in left.items() if today is not None and name in today.failed}
    place = f"on a terminal, in another folder, with the files in another order and the hash seed {drawn.seed}"
    if again or not drawn.days:
        words = f"fails as a person runs it, {place}: {next(iter(again.values()), '')}"
        return [named_finding(FAILS, words, list(again))] if again else []
    later = run(phase.tree, drawn)
    dated = {name: said for name, said in left.items() if later is not None and name in later.failed}
    words = f"depends on the date or the hour, and fails {drawn.later / 86400:.1f} days from now: {next(iter(dated.values()), '')}"
    return [named_finding(FAILS, words, list(dated))] if dated else []


def _run_tests(app: App, phase: LeftWork, suite: Suite, tree: str, files: Iterable[str], drawn: Draw) -> Seen | None:
    moment = app.clock.now() + drawn.later if drawn.days else 0.0
    with test_runs.elsewhere(app, repository=phase.checkout.tree, tree=tree, suites=[suite], later=moment) as (
        folders,
        environment,
    ):
        start = python_words(suite, folders)
        if start is None:
            return None
        python, words, runner = start
        home = os.path.join(folders.top, suite.folder) if suite.folder else folders.top
        inside = len(suite.folder) + 1 if suite.folder else 0
        listed = drawn.order(path[inside:] for path in files)
        if runner == "pytest":
            kept = [word for word in words if word.startswith("-") or not os.path.exists(os.path.join(home, word))]
            argv = [python, "-m", "pytest", *kept, "--rootdir=.", *listed]
        else:
            beside = {path.partition("/")[0] for path in listed if "/" in path}
            apart = [name for name in beside if not os.path.exists(os.path.join(home, name, "__init__.py"))]
            argv = [python, "-m", "unittest", "discover", *(["-s", apart[0]] if len(apart) == 1 else [])]
        given = {**environment, **drawn.environment(), **_path(phase, folders, suite)}
        limit = suite.timeout or folders.timeout
        code, text = run_as_person(argv, folders=folders, folder=home, environment=given, timeout=limit)
    return _read(suite, runner, code, text.replace(home + os.sep, ""), files)


def _path(phase: LeftWork, folders: RunFolders, suite: Suite) -> dict[str, str]:
    """Where the project's own modules are found, as an installed checkout would have it."""
    home = os.path.join(folders.top, suite.folder) if suite.folder else folders.top
    wanted = ["src", *python_paths(lambda name: phase.checkout.read(phase.head, name))]
    found = [os.path.join(home, name) for name in wanted if name and os.path.isdir(os.path.join(home, name))]
    return {"PYTHONPATH": os.pathsep.join(dict.fromkeys(found))} if found else {}


def _read(suite: Suite, runner: str, code: int, text: str, files: Iterable[str]) -> Seen:
    inside = f"{suite.folder}/" if suite.folder else ""
    tail = "\n".join(text.rstrip().splitlines()[-3:])
    if runner == "pytest":
        failed = {f"{suite.name}:{inside}{name}": said or "" for name, said in _FAILED.findall(text)}
        last = text.rstrip().rpartition("\n")[2]
        counts = [int(number) for number, _ in _COUNTED.findall(last)]
        return Seen(code, failed, sum(counts) if counts else -1, tail)
    failed = {}
    for test, place, said in _FAILED_CASE.findall(text):
        module, _, owner = place.removesuffix(f".{test}").rpartition(".")
        file = next((path for path in files if path.removesuffix(".py").replace("/", ".").endswith(module)), module)
        failed[f"{suite.name}:{file}::{owner}::{test}"] = said
    ran = _RAN.search(text)
    return Seen(code, failed, int(ran[1]) if ran else -1, tail)


def _broken(app: App, phase: LeftWork, suite: Suite) -> list[Finding]:
    """New tests that could not be asked and pass although nothing of what was built for them does its work.

    Such a test may start a process, and ask for no more than that it ends well.
    """
    left = {name for name in phase.silent if name.startswith(f"{suite.name}:")}
    changes = [one for one in phase.changes if not one.is_test and not SAYS_NOTHING.search(one.path)] if left else []
    made = broken(changes)
    files = {name.partition("::")[0].removeprefix(f"{suite.name}:") for name in left}
    short = suite._replace(timeout=_SECONDS)  # what does no work may never end
    for texts in made.values():
        tree = phase.checkout.tree_with(phase.tree, texts)
        seen = _run_tests(app, phase, short, tree, files, draw()._replace(days=0))
        failed = {name.partition("[")[0] for name in seen.failed} if seen else set()
        is_unknown = not seen or (seen.code != 0 and not failed) or "skipped" in seen.tail
        left = set() if is_unknown or any("::" not in name for name in failed) else left - failed
        if not left:
            return []
    words = "passes where a person runs it though all that was built for it fails or does nothing: call it, and ask for its answer"
    return [named_finding(NEVER_ENTERED, words, sorted(left))] if made else []


# --- The same questions, beside a runner and without one ------------------------------------------


def _without_runner(app: App, phase: LeftWork, suite: Suite) -> list[Finding]:
    """Test functions as plain code, and plain questions beside a runner and without one, in a tree that has no tests."""
    owned = test_runs.tests_of([suite])
    paths = phase.checkout.paths(phase.tree)
    tests = [path for path in paths if owned.covers(path)]
    mine = [name for name in phase.new if name.startswith(f"{suite.name}:")][:_MOST_TESTS]
    texts = {path: phase.checkout.read(phase.tree, path) or "" for path in tests if path.endswith(".py")}
    plays = _plays(texts, mine)
    questions = _questions(phase, suite, texts)
    if not plays and not questions:
        return []
    name = mine[0] if mine else next((f"{suite.name}:{path}::{_a_name(suite)}" for path in texts), "")
    ask = _Asking(app, phase, suite, tests, questions, plays)
    alone = ask.run("")
    if alone is None:
        return []
    found = _played(ask, alone[1], name, _plays(texts, mine))
    found = found or (ask.compare(alone[0], name) if questions and name else [])
    return found or (_as_before(ask, alone[0]) if phase.keeps and questions else [])


def _plays(texts: Mapping[str, str], names: Sequence[str]) -> list[Play]:
    chance = random.SystemRandom()
    return [play for name in names if (play := play_of(texts, name, chance)) is not None]


def _a_name(suite: Suite) -> str:
    return f"test_{random_word()}" if suite.results == "pytest" else f"{random_word().title()}::test_{random_word()}"


def _played(ask: _Asking, alone: Sequence[_Heard], name: str, others: Sequence[Play]) -> list[Finding]:
    """Tests that fail without a runner and pass beside one, and those that pass whatever they ask for: each seen twice."""
    failed = [one for one in alone if one.true[0] and one.true[0] not in _LACKING]
    sure = [one.play.id for one in failed if one.play.bare]
    if failed and not sure:
        beside, again = ask.run(name), ask.run("")
        held = {one.play.id for one in beside[1] if not one.true[0]} if beside else set()
        sure = [one.play.id for one in (again[1] if again else ()) if one.true[0] and one.play.id in held]
        sure = [one for one in sure if one in {each.play.id for each in failed}]
    if sure:
        return [named_finding(UNDER_TEST, "passes under the test runner and fails as plain code without it", sure)]
    loose = [one.play.id for one in alone if one.play.asks_anything(one.true, one.other)]
    anew = ask.playing([one for one in others if one.id in loose]).run("") if loose else None
    fits = [one.play for one in (anew[1] if anew else ()) if one.play.asks_anything(one.true, one.other)]
    told = f"something else than {fits[0].told}, alone and without a runner" if fits else ""
    words = f"passes also when it asks for {told}: the answer fits any question"
    return [named_finding(ANY_FITS, words, [one.id for one in fits])] if fits else []


def _as_before(ask: _Asking, now: list[list[str]]) -> list[Finding]:
    """Answers that were others before the work, each place twice and in two processes alike."""
    past = ask.before()
    first = past.run("")
    wrong = [
        at for at in ask.other(now, first[0] if first else None) if first and not first[0][0][at].startswith("raised ")
    ]
    if not wrong or first is None:
        return []
    again, now_again = past.run(""), ask.run("")
    if again is None or now_again is None:
        return []
    shown = [
        f"{ask.told(at)} was {first[0][0][at][:60]} and is {now[0][at][:60]}"
        for at in wrong
        if again[0][0][at] == first[0][0][at] and now_again[0][0][at] == now[0][at]
    ]
    words = "a refactoring keeps what is answered; what shall be otherwise begins with a test"
    return [named_finding(BEHAVIOUR, words, shown[:3])] if shown else []


class _Heard(Record):
    """What became of a test, and of the same one asking for something else: what was raised, its words, what was looked up."""

    play: Play
    true: Sequence[Any]
    other: Sequence[Any] | None


class _Asking:
    """Asks the same questions in one place and another."""

    def __init__(
        self,
        app: App,
        phase: LeftWork,
        suite: Suite,
        tests: Sequence[str],
        questions: Sequence[tuple[str, str, str]],
        plays: Sequence[Play],
    ) -> None:
        self._app, self._phase, self._suite, self._tests = app, phase, suite, tests
        self._questions, self._plays = questions, plays

    def before(self) -> _Asking:
        """The same questions to the tree as it was."""
        phase = self._phase._replace(tree=self._phase.head)
        return _Asking(self._app, phase, self._suite, self._tests, self._questions, [])

    def playing(self, plays: Sequence[Play]) -> _Asking:
        """The same place, other plays and no questions."""
        return _Asking(self._app, self._phase, self._suite, self._tests, [], plays)

    def told(self, at: int) -> str:
        """A question as a person would write it."""
        module, name, given = self._questions[at]
        return f"{module}.{name}{given}"

    def run(self, test: str) -> tuple[list[list[str]], list[_Heard]] | None:
        """The answers to the questions, asked twice, and what became of the tests; beside a runner where one is named."""
        mark, work, chance = random_word(), random_word(), random.SystemRandom()
        told: list[tuple[int, Mapping[str, Any]]] = []
        for at, play in enumerate(self._plays):
            pair = [
                (at, play.beside if test else play.alone),
                *([(~at, play.other)] if play.other and not test else ()),
            ]
            # what learns by the first that it is asked must not know which of them is the true one
            told += pair[::-1] if chance.random() < _OTHER_FIRST else pair
        jobs = json.dumps([job for _, job in told])
        text = script(work, mark, _SECONDS_EACH, json.dumps(self._questions), jobs)
        with test_runs.elsewhere(
            self._app,
            repository=self._phase.checkout.tree,
            tree=self._phase.tree,
            suites=[self._suite],
            without=self._tests,
        ) as (folders, environment):
            start = python_words(self._suite, folders)
            if start is None:
                return None
            home = os.path.join(folders.top, self._suite.folder) if self._suite.folder else folders.top
            path = test.partition("::")[0].partition(":")[2] if test else f"{random_word()}.py"
            place = os.path.join(folders.top if test else home, path)
            os.makedirs(os.path.dirname(place), exist_ok=True)
            with open(place, "w", encoding="utf-8") as file:
                file.write(text + (_as_test(self._suite, test, work) if test else self._as_script(work)))
            runner = ["-m", "pytest", "-q", "-s", "-c", os.devnull, "--rootdir=.", "-p", "no:warnings"]
            runner = runner if self._suite.results == "pytest" else ["-m", "unittest"]
            argv = [start[0], *(runner if test else ()), os.path.relpath(place, home)]
            bare = {
                key: value for key, value in environment.items() if test or not key.startswith(("PYTEST", "PYTHON"))
            }
            given = {**bare, **_path(self._phase, folders, self._suite)}
            _, shown = run_as_person(argv, folders=folders, folder=home, environment=given, timeout=_SECONDS)
        found = shown.replace("\n", "").split(mark)
        try:
            answers, played = json.loads(base64.b64decode(found[-2], validate=True)) if len(found) > 1 else ([], None)
        except ValueError:
            return None  # what the code itself printed is not ours to read
        if played is None:
            return None
        said = {at: one for (at, _), one in zip(told, played, strict=True)}
        return answers, [_Heard(play, said[at], said.get(~at)) for at, play in enumerate(self._plays)]

    def _as_script(self, work: str) -> str:
        """The questions as what a person starts: a file that is there and says nothing of them any more."""
        names = [module for module, _, _ in self._questions] or [
            path.rpartition("/")[2][:-3] for path, _ in changed_functions(self._phase.changes)
        ]
        said = "".join(f"import {name}\n" for name in names[:1])
        return f"\n\nwith open(__file__, 'w') as _:\n    _.write({said!r})\ndel _\n{work}()\n"

    def compare(self, alone: list[list[str]], test: str) -> list[Finding]:
        """Answers that differ, each place twice and in two processes alike."""
        beside = self.run(test)
        wrong = self.other(alone, beside[0] if beside else None)
        if not wrong:
            return []
        once_more, alone_again = self.run(test), self.run("")
        if once_more is None or beside is None or alone_again is None:
            return []
        steady = [
            at for at in wrong if once_more[0][0][at] == beside[0][0][at] and alone_again[0][0][at] == alone[0][at]
        ]
        shown = [self.told(at) for at in steady]
        words = "answers one thing beside a test runner and another without one"
        return [named_finding(UNDER_TEST, words, shown)] if shown else []

    @staticmethod
    def other(one: list[list[str]], other: list[list[str]] | None) -> list[int]:
        """Which questions have another answer here than there, each place twice alike."""
        if other is None:
            return []
        steady = [at for at in range(len(one[0])) if one[0][at] == one[1][at] and other[0][at] == other[1][at]]
        return [at for at in steady if one[0][at] != other[0][at]]


def _as_test(suite: Suite, test: str, work: str) -> str:
    """The questions under the name of a test that is there."""
    *owners, name = test.split("::")[1:]
    if not owners:
        return f"\n\ndef {name}():\n    {work}()\n"
    head, base = ("", "") if suite.results == "pytest" else ("import unittest\n", "(unittest.TestCase)")
    return f"\n\n{head}class {owners[-1]}{base}:\n    def {name}(self):\n        {work}()\n"


def _questions(phase: LeftWork, suite: Suite, texts: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """Module, function and arguments of calls with plain values that tests make of what was changed, and of neighbours of those."""
    home = f"{suite.folder}/" if suite.folder else ""
    wanted: dict[str, set[str]] = {}
    for path, name in changed_functions(phase.changes):
        if "." not in name and path.startswith(home):
            inner = path[len(home) :].removeprefix("src/").removesuffix(".py").removesuffix("/__init__")
            wanted.setdefault(name, set()).add(inner.replace("/", "."))
    found: dict[tuple[str, str, str], None] = {}
    for text in texts.values() if wanted else ():
        if not any(name in text for name in wanted):
            continue
        for name, given in _plain_calls(text):
            for module in sorted(wanted.get(name, ())):
                for one in (given, *_neighbours(given)):
                    found[module, name, repr(one)] = None
    listed = list(found)
    return listed if len(listed) <= _MOST_QUESTIONS else random.SystemRandom().sample(listed, _MOST_QUESTIONS)


def _plain_calls(text: str) -> Iterable[tuple[str, tuple[object, ...]]]:
    """Calls whose arguments are written out, each by the last part of its name."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or node.keywords or not node.args:
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        try:
            yield name, tuple(ast.literal_eval(one) for one in node.args)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            continue


def _neighbours(given: tuple[object, ...]) -> Iterable[tuple[object, ...]]:
    """The same arguments with one that is a little other, or quite another of its kind."""
    for at, value in enumerate(given):
        near: tuple[object, ...] = ()
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            near = (value + 1, value - 1)
        elif isinstance(value, str) and value:
            near = (value + value[-1], value + random.SystemRandom().choice("0123456789"))
        far = (values.kin_of(value, random.SystemRandom()) for _ in range(2))
        for one in (*near, *(one for one in far if one is not None)):
            yield (*given[:at], one, *given[at + 1 :])

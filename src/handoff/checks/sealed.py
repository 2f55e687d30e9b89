"""Sealed runs: the runner started clean by our launcher, results line by line under a key, canaries among the tests."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import random
import re
import shlex
from string import Template

from handoff.base.record import TYPE_CHECKING, Record
from handoff.checks import results
from handoff.checks.findings import first_line
from handoff.checks.readers.reasons import python_reason, script_reason
from handoff.checks.readers.reports import JEST, last_words, node_cases, pytest_words
from handoff.checks.results import CUT_SHORT, FORGED, Broken, Case, Flaw, RunOutput
from handoff.checks.suite import Suite, is_entered, text_of
from handoff.checks.support import helper_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any

FORGIVEN, KILLED = "canary-forgiven", "canary-killed"
_MOST_FOLDERS = 60
_TEST_FILE = re.compile(r"^(?:(test_)[^/]*|[^/]*(_test))\.py$")
_LETTERS = "abcdefghiklmnoprstuvwz"


class Canary(Record):
    """One file of ours among the tests: the path from the suite's folder, the test that is right and the one that is wrong."""

    path: str
    right: str
    wrong: str

    @property
    def folder(self) -> str:
        return os.path.dirname(self.path)


def place_canaries(folder: str, *, classes: bool = False) -> list[Canary]:
    """Write them beside the tests below `folder`, named as the tests there are; as methods of a class where the runner wants that."""
    chance = random.SystemRandom()
    found = []
    for at, before, after in _test_folders(folder):
        word = random_word(chance)
        owner = f"{random_word(chance).title()}::" if classes else ""
        names = [f"{owner}test_{random_word(chance)}" for _ in range(2)]
        canary = Canary(os.path.join(at, f"{before}{word}{after}.py"), *names)
        path = os.path.join(folder, canary.path)
        if not os.path.lexists(path):
            with open(path, "x", encoding="utf-8") as file:
                file.write(_canary_text(canary, chance))
            found.append(canary)
        if len(found) == _MOST_FOLDERS:
            break
    return found


def _test_folders(top: str) -> Iterator[tuple[str, str, str]]:
    """Folders with test files, and how those are named: what stands before and after the word."""
    for at, folders, names in os.walk(top):
        folders[:] = sorted(name for name in folders if is_entered(name) and not os.path.islink(os.path.join(at, name)))
        match = next((match for name in sorted(names) if (match := _TEST_FILE.match(name))), None)
        if match is not None:
            inside = os.path.relpath(at, top)
            yield "" if inside == "." else inside, match[1] or "", match[2] or ""


def random_word(chance: random.Random | None = None) -> str:
    """A name nobody can know."""
    return "".join((chance or random.SystemRandom()).choices(_LETTERS, k=9))


def _canary_text(canary: Canary, chance: random.SystemRandom) -> str:
    """Ordinary sums; of the two tests, in any order, one is wrong."""
    owner = canary.right.rpartition("::")[0]
    parts = []
    for name, off in ((canary.right, 0), (canary.wrong, chance.randint(1, 9))):
        one, two = chance.randint(10, 99), chance.randint(10, 99)
        sums = f"total = sum([{one}, {two}])"
        if owner:
            ask = f"self.assertEqual(total, {one + two + off})"
            parts.append(f"    def {name.rpartition('::')[2]}(self):\n        {sums}\n        {ask}\n")
        else:
            parts.append(f"def {name}():\n    {sums}\n    assert total == {one + two + off}\n")
    chance.shuffle(parts)
    head = f"import unittest\n\n\nclass {owner}(unittest.TestCase):\n" if owner else ""
    return head + "\n\n".join(parts)


PATCHED, ALTERED, HOOK = "runner-patched", "result-altered", "hook-added"
CHANNEL = "{channel}"
_SEAL = 64
_PYTHONS = ("{python}", "python", "python3")
_SHELL = frozenset(";&|<>$`(){}*?\n") - {"{", "}"}
_OWN = ("--junitxml", "--junit-xml")


class SealedJob(Record):
    """One sealed run: what the launcher is told, and the canaries it will meet."""

    key: bytes
    told: Mapping[str, Any]
    canaries: tuple[Canary, ...]

    def line(self) -> bytes:
        """What the launcher reads from its standard input."""
        return json.dumps({**self.told, "key": self.key.hex()}).encode("ascii") + b"\n"


def runner_words(suite: Suite) -> list[str] | None:
    """The words for pytest where the suite's line is nothing but a call of it; None where it cannot be sealed."""
    if suite.results != "pytest" or set(suite.command.replace("{python}", "").replace("{results}", "")) & _SHELL:
        return None
    try:
        words = shlex.split(suite.command)
    except ValueError:
        return None
    if words[1:3] == ["-m", "pytest"] and words[0] in _PYTHONS:
        words = words[3:]
    elif words[:1] == ["pytest"]:
        words = words[1:]
    else:
        return None
    kept: list[str] = []
    for word in words:
        if word.startswith(_OWN):
            continue
        if word.startswith("junit_family=") and kept[-1:] == ["-o"]:
            kept.pop()
            continue
        kept.append(word)
    return kept if "{results}" not in " ".join(kept) else None


def prepare(
    words: Sequence[str],
    *,
    folder: str,
    top: str,
    scratch: str,
    lender: str,
    owned: Sequence[str],
    is_test: Callable[[str], bool],
    runner: str = "pytest",
) -> SealedJob:
    """Canaries in their places, a fresh key, and what the launcher has to know."""
    source = os.path.join(folder, "src")
    told = {
        "runner": runner,
        "tree": top,
        "lender": lender,
        "words": list(words),
        "owned": list(owned),
        "path": [source, folder] if os.path.isdir(source) else [folder],
        "support": helper_names(folder, is_test),
        "cache": os.path.join(scratch, f"cache-{os.urandom(4).hex()}"),
    }
    return SealedJob(os.urandom(32), told, tuple(place_canaries(folder, classes=runner == "unittest")))


def looking(suite: Suite, job: SealedJob) -> SealedJob:
    """The same job with what is to be looked at inside the runner."""
    return job._replace(told={**job.told, "inside": suite.inside})


def open_lines(said: bytes, job: SealedJob, code: int) -> list[dict[str, Any]]:
    """The bodies of the lines, each under its seal and in its order, up to the runner's closing mark."""
    *whole, rest = said.split(b"\n")
    bodies: list[dict[str, Any]] = []
    for number, line in enumerate(whole):
        text = line[_SEAL + 1 :]
        seal = hmac.new(job.key, text, hashlib.sha256).hexdigest().encode("ascii")
        if not hmac.compare_digest(seal, line[:_SEAL]):
            raise Broken(FORGED, "something else than the runner wrote into its results")
        counted, body = json.loads(text)
        if counted != number:
            raise Broken(FORGED, "lines of the results are missing or stand there twice")
        bodies.append(body)
    last = bodies[-1] if bodies else {}
    if last.get("t") != "end" or rest:
        where = next((body["id"] for body in reversed(bodies) if body["t"] == "case"), "")
        after = f" after {where}" if where else ""
        raise Broken(CUT_SHORT, f"the run ended{after} without the runner's last word (exit {code})")
    if last.get("exit", code) != code:
        raise Broken(FORGED, f"the runner ended with {last['exit']}, its process with {code}")
    return bodies


class _Seen:
    """The lines about one test, brought together."""

    def __init__(self) -> None:
        self.status, self.text, self.raw, self.seconds, self.held = "", "", "", 0.0, 0

    def take(self, body: Mapping[str, Any]) -> None:
        self.seconds += float(body["seconds"])
        outcome, when = body["outcome"], body["when"]
        status = results.PASSED if outcome == "passed" else results.SKIPPED if outcome == "skipped" else results.FAILED
        if status == results.FAILED and when != "call":
            status = results.ERROR
        if _WEIGHT[status] >= _WEIGHT.get(self.status, -1):
            self.status, self.text = status, str(body["text"])
        if when == "call":
            self.raw, self.held = str(body["raw"]), int(body["held"])


_WEIGHT = {results.PASSED: 0, results.SKIPPED: 1, results.FAILED: 2, results.ERROR: 2}


def read_sealed(bodies: Iterable[Mapping[str, Any]], job: SealedJob, found: RunOutput) -> tuple[list[Case], list[Flaw]]:
    """The cases without our canaries, and what about the run is not as it must be."""
    shorten = last_words if job.told.get("runner") == "unittest" else pytest_words
    seen: dict[str, _Seen] = {}
    loads: list[Mapping[str, Any]] = []
    flaws: list[Flaw] = []
    opinions: list[Case] = []
    for body in bodies:
        if body["t"] == "case":
            seen.setdefault(body["id"], _Seen()).take(body)
        elif body["t"] == "opinion":
            status = results.FAILED if body["kind"] else results.PASSED
            opinions.append(
                results.Case(
                    id=str(body["id"]),
                    file="",
                    name="",
                    status=status,
                    reason=str(body["kind"]),
                    message=str(body["text"]),
                )
            )
        elif body["t"] == "load":
            loads.append(body)
        elif body["t"] == "hooks":
            flaws += [_hook(name) for name in body["names"]]
        elif body["t"] == "patched":
            flaws += [
                Flaw(PATCHED, name, f"{name} of the test runner was replaced while the tests ran")
                for name in body["names"]
            ]
        elif body["t"] == "fault":
            raise Broken(CUT_SHORT, "the runner broke: " + str(body["text"]).strip().rpartition("\n")[2])
    flaws += _canary_flaws(job.canaries, seen)
    ours = {canary.path.replace(os.sep, "/") for canary in job.canaries}
    cases = [_loaded(found, body, shorten) for body in loads if body["id"] not in ours]
    for name, one in seen.items():
        file, _, inner = name.partition("::")
        if file in ours:
            continue
        if one.status == results.PASSED and one.raw:
            flaws.append(Flaw(ALTERED, name, f"{name} raised {one.raw} and was reported as passed"))
        bad = one.status in (results.FAILED, results.ERROR)
        reason = python_reason(one.text, loading=False, foreign=found.foreign, is_test=found.tests) if bad else ""
        message = shorten(one.text) if bad else one.text
        case = found.case(found.path(file), inner, one.status, reason, message, one.seconds)
        cases.append(case._replace(held=one.held))
    return [*cases, *opinions], flaws


def _loaded(found: RunOutput, body: Mapping[str, Any], shorten: Callable[[str], str]) -> Case:
    """A file, or a class in it, that did not load or skipped itself."""
    file, text = str(body["id"]).partition("::")[0], str(body["text"])
    if body["outcome"] == "skipped":
        return found.case(found.path(file), "", results.SKIPPED, message=text)
    reason = python_reason(text, loading=True, foreign=found.foreign, is_test=found.tests)
    return found.case(found.path(file), "", results.ERROR, reason, shorten(text))


def _hook(name: str) -> Flaw:
    file, hook, _ = name.rsplit(":", 2)
    return Flaw(HOOK, name, f"{file} has the hook {hook}, which decides what becomes of results")


def _canary_flaws(canaries: Sequence[Canary], seen: Mapping[str, _Seen]) -> list[Flaw]:
    """A wrong test that was not called wrong, and canaries that vanished where other tests of their folder ran."""
    flaws = []
    ours = {canary.path.replace(os.sep, "/") for canary in canaries}
    alive = {os.path.dirname(name.partition("::")[0]) for name in seen if name.partition("::")[0] not in ours}
    for canary in canaries:
        at = canary.folder.replace(os.sep, "/")
        path = canary.path.replace(os.sep, "/")
        right, wrong = seen.get(f"{path}::{canary.right}"), seen.get(f"{path}::{canary.wrong}")
        place = at or "the top folder"
        if wrong is not None and wrong.status != results.FAILED:
            flaws.append(Flaw(FORGIVEN, at, f"a test of ours in {place} that is wrong was called {wrong.status}"))
        elif at in alive and (wrong is None or right is None or right.status != results.PASSED):
            flaws.append(Flaw(KILLED, at, f"a test of ours in {place} did not run as it must"))
    return flaws


# Runners of JavaScript: our reporter stands in the runner's own process, and canaries stand inside the files of the tests.


VARIABLE = "RESULTS_CHANNEL"
_MOST_SCRIPTS = 40
_SCRIPT_FILE = re.compile(r"\.(?:[cm]?[jt]sx?)$")
_SCRIPT_TEST = re.compile(r"(?<![\w.$])(test|it)(?:\.\w+)?\s*\(\s*[\"'`]")
# How a file asks: its own words, bound at its top or given by the runner; a canary asks with the same.
_CHAI = re.compile(r"[\"']chai[\"']")
_EXPECT = re.compile(r"(?<![\w.$])expect\s*\(")
_ASSERT = re.compile(r"^\s*(?:import\s+(?:\*\s+as\s+)?assert\b|(?:const|var|let)\s+assert\s*=)", re.MULTILINE)
_SCRIPT_CANARY = Template(
    "\n;typeof $test === 'function' && $test($name, () => { const total = [$one, $two].reduce((sum, next) => sum + next); $ask });\n"
)


def place_in_files(folder: str, is_test: Callable[[str], bool]) -> tuple[Canary, ...]:
    """Add to the test files below `folder` a test that is right and one that is wrong: a file is a world of its own here."""
    chance = random.SystemRandom()
    found: list[Canary] = []
    for path in _test_files(folder, is_test):
        whole = os.path.join(folder, path)
        text = text_of(whole)
        named = _SCRIPT_TEST.search(text)
        if named is None or len(found) == _MOST_SCRIPTS:
            continue
        canary = Canary(path, random_word(chance), random_word(chance))
        parts = [
            _script_canary(named[1], text, canary.right, 0, chance),
            _script_canary(named[1], text, canary.wrong, 1, chance),
        ]
        chance.shuffle(parts)
        with open(whole, "a", encoding="utf-8") as file:
            file.write("".join(parts))
        found.append(canary)
    return tuple(found)


def _test_files(folder: str, is_test: Callable[[str], bool]) -> Iterator[str]:
    for at, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if is_entered(name) and not os.path.islink(os.path.join(at, name)))
        inside = os.path.relpath(at, folder)
        for name in sorted(names):
            path = name if inside == "." else f"{inside}/{name}"
            whole = os.path.join(at, name)
            if _SCRIPT_FILE.search(name) and is_test(path) and os.path.isfile(whole) and not os.path.islink(whole):
                yield path


def _script_canary(test: str, text: str, name: str, off: int, chance: random.SystemRandom) -> str:
    one, two = chance.randint(10, 99), chance.randint(10, 99)
    wanted = one + two + off * chance.randint(1, 9)
    if _CHAI.search(text) and _EXPECT.search(text):
        ask = f"expect(total).to.equal({wanted});"
    elif _EXPECT.search(text):
        ask = f"expect(total).toBe({wanted});"
    elif _ASSERT.search(text):
        ask = f"assert.equal(total, {wanted});"
    else:
        ask = f"if (total !== {wanted}) throw new Error('expected {wanted}');"
    return _SCRIPT_CANARY.substitute(test=test, name=f"'{name}'", one=one, two=two, ask=ask)


def read_scripts(
    bodies: Iterable[Mapping[str, Any]], canaries: tuple[Canary, ...], found: RunOutput
) -> tuple[list[Case], list[Flaw]]:
    """The cases without our canaries, and what became of those."""
    listed = list(bodies)
    cases = node_cases([body for body in listed if body["t"] in ("node", "printed")], found)
    for body in listed:
        if body["t"] == "case":
            cases.append(_script_case(body, found))
        elif body["t"] == "load":
            reason = script_reason(body["text"], loading=True, is_test=found.tests)
            cases.append(found.case(found.path(body["file"]), "", results.ERROR, reason, body["text"]))
        elif body["t"] == "stray":
            raise Broken(CUT_SHORT, "an error outside of every test: " + first_line(body["text"]))
    ours = {
        name for canary in canaries for name in (canary.right, canary.wrong)
    }  # a file of helpers runs in that of its user
    kept = [case for case in cases if case.name not in ours]
    return kept, _script_flaws(canaries, {(case.file, case.name): case for case in cases}, kept, found)


def _script_case(body: Mapping[str, Any], found: RunOutput) -> Case:
    status = JEST.get(body["status"], results.ERROR)
    bad, text = status in (results.FAILED, results.ERROR), str(body["text"])
    reason = script_reason(text, loading=False, is_test=found.tests) if bad else ""
    name = " > ".join(body["name"])
    return found.case(found.path(body["file"]), name, status, reason, text if bad else "", body["seconds"])


def _script_flaws(
    canaries: Iterable[Canary], seen: Mapping[tuple[str, str], Case], kept: Iterable[Case], found: RunOutput
) -> list[Flaw]:
    """A wrong test that was not called wrong, and canaries that vanished from a file of which other tests passed."""
    flaws = []
    alive = {case.file for case in kept if case.status == results.PASSED}
    for canary in canaries:
        path = found.path(canary.path)
        right, wrong = seen.get((path, canary.right)), seen.get((path, canary.wrong))
        if wrong is not None and wrong.status == results.PASSED:
            flaws.append(Flaw(FORGIVEN, path, f"a test of ours in {path} that is wrong was called {wrong.status}"))
        elif path in alive and (wrong is None or right is None or right.status != results.PASSED):
            flaws.append(Flaw(KILLED, path, f"a test of ours in {path} did not run as it must"))
    return flaws

"""Sealed runs of JavaScript runners: our reporter in the runner's own process, and canaries inside the files of the tests."""

from __future__ import annotations

import os
import random
import re
from string import Template

from handoff.base.record import TYPE_CHECKING
from handoff.checks import results
from handoff.checks.findings import first_line
from handoff.checks.readers.json_reports import JEST, node_cases
from handoff.checks.readers.reasons import script_reason
from handoff.checks.results import Flaw
from handoff.checks.runs.broken import CUT_SHORT, Broken
from handoff.checks.runs.canaries import FORGIVEN, KILLED, Canary, random_word
from handoff.checks.suite import is_entered, text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any

    from handoff.checks.readers.found import RunOutput
    from handoff.checks.results import Case

VARIABLE = "RESULTS_CHANNEL"
_MOST = 40
_FILE = re.compile(r"\.(?:[cm]?[jt]sx?)$")
_TEST = re.compile(r"(?<![\w.$])(test|it)(?:\.\w+)?\s*\(\s*[\"'`]")
# How a file asks: its own words, bound at its top or given by the runner; a canary asks with the same.
_CHAI = re.compile(r"[\"']chai[\"']")
_EXPECT = re.compile(r"(?<![\w.$])expect\s*\(")
_ASSERT = re.compile(r"^\s*(?:import\s+(?:\*\s+as\s+)?assert\b|(?:const|var|let)\s+assert\s*=)", re.MULTILINE)
_CANARY = Template(
    "\n;typeof $test === 'function' && $test($name, () => { const total = [$one, $two].reduce((sum, next) => sum + next); $ask });\n"
)


def place_in_files(folder: str, is_test: Callable[[str], bool]) -> tuple[Canary, ...]:
    """Add to the test files below `folder` a test that is right and one that is wrong: a file is a world of its own here."""
    chance = random.SystemRandom()
    found: list[Canary] = []
    for path in _test_files(folder, is_test):
        whole = os.path.join(folder, path)
        text = text_of(whole)
        named = _TEST.search(text)
        if named is None or len(found) == _MOST:
            continue
        canary = Canary(path, random_word(chance), random_word(chance))
        parts = [_canary(named[1], text, canary.right, 0, chance), _canary(named[1], text, canary.wrong, 1, chance)]
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
            if _FILE.search(name) and is_test(path) and os.path.isfile(whole) and not os.path.islink(whole):
                yield path


def _canary(test: str, text: str, name: str, off: int, chance: random.SystemRandom) -> str:
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
    return _CANARY.substitute(test=test, name=f"'{name}'", one=one, two=two, ask=ask)


def read_scripts(
    bodies: Iterable[Mapping[str, Any]], canaries: tuple[Canary, ...], found: RunOutput
) -> tuple[list[Case], list[Flaw]]:
    """The cases without our canaries, and what became of those."""
    listed = list(bodies)
    cases = node_cases([body for body in listed if body["t"] in ("node", "printed")], found)
    for body in listed:
        if body["t"] == "case":
            cases.append(_case(body, found))
        elif body["t"] == "load":
            reason = script_reason(body["text"], loading=True, is_test=found.tests)
            cases.append(found.case(found.path(body["file"]), "", results.ERROR, reason, body["text"]))
        elif body["t"] == "stray":
            raise Broken(CUT_SHORT, "an error outside of every test: " + first_line(body["text"]))
    ours = {
        name for canary in canaries for name in (canary.right, canary.wrong)
    }  # a file of helpers runs in that of its user
    kept = [case for case in cases if case.name not in ours]
    return kept, _flaws(canaries, {(case.file, case.name): case for case in cases}, kept, found)


def _case(body: Mapping[str, Any], found: RunOutput) -> Case:
    status = JEST.get(body["status"], results.ERROR)
    bad, text = status in (results.FAILED, results.ERROR), str(body["text"])
    reason = script_reason(text, loading=False, is_test=found.tests) if bad else ""
    name = " > ".join(body["name"])
    return found.case(found.path(body["file"]), name, status, reason, text if bad else "", body["seconds"])


def _flaws(
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

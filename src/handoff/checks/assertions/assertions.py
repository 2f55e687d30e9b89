"""What a test file asserts, test by test, and what a change took away from it."""

from __future__ import annotations

import os

from handoff.base.record import TYPE_CHECKING, Record
from handoff.checks.assertions.python import python_tests
from handoff.checks.assertions.scan import LANGUAGES, scanned_tests

if TYPE_CHECKING:
    from collections.abc import Mapping

    from handoff.checks.assertions.facts import AssertionFacts

REMOVED, SKIPPED, FEWER, TAUTOLOGY, EMPTIED = (
    "test-removed",
    "test-skipped",
    "fewer-assertions",
    "tautology",
    "test-emptied",
)


class Weakness(Record):
    """What a change took from one test."""

    code: str
    path: str
    test: str
    message: str


def read_tests(path: str, text: str) -> dict[str, AssertionFacts]:
    """The tests in a file's text by name; a file of a language we do not know has none."""
    ending = os.path.splitext(path)[1].lower()
    if ending in (".py", ".pyi"):
        return python_tests(text)
    language = LANGUAGES.get(ending)
    return scanned_tests(text, language) if language else {}


def find_weakened(changes: Mapping[str, tuple[str | None, str | None]]) -> tuple[Weakness, ...]:
    """What each test lost, by its name; a test that moved to another changed file is compared with where it went."""
    before: dict[tuple[str, str], AssertionFacts] = {}
    after: dict[tuple[str, str], AssertionFacts] = {}
    for path, (old, new) in changes.items():
        before.update({(path, name): facts for name, facts in read_tests(path, old or "").items()})
        after.update({(path, name): facts for name, facts in read_tests(path, new or "").items()})
    moved: dict[str, list[AssertionFacts]] = {}
    for (path, name), facts in after.items():
        if (path, name) not in before:
            moved.setdefault(_last(name), []).append(facts)
    found: list[Weakness] = []
    for (path, name), old_facts in before.items():
        now = after.get((path, name))
        if now is None:
            candidates = moved.get(_last(name))
            now = candidates.pop(0) if candidates else None
        found += _lost(path, name, old_facts, now)
    return tuple(found)


def find_hollow(changes: Mapping[str, tuple[str | None, str | None]]) -> tuple[Weakness, ...]:
    """New tests whose every assertion is true whatever the code does."""
    found = []
    for path, (old, new) in changes.items():
        known = read_tests(path, old or "")
        for name, facts in read_tests(path, new or "").items():
            if name not in known and facts.trivial and not facts.assertions:
                words = f"The new test {name} in {path} asserts only what is always true."
                found.append(Weakness(TAUTOLOGY, path, name, words))
    return tuple(found)


def _last(name: str) -> str:
    return name.rpartition("::")[2]


def _lost(path: str, name: str, old: AssertionFacts, now: AssertionFacts | None) -> list[Weakness]:
    if now is None:
        return [Weakness(REMOVED, path, name, f"The test {name} was removed from {path}.")]
    found = []
    if now.skipped and not old.skipped:
        found.append(Weakness(SKIPPED, path, name, f"The test {name} in {path} is skipped now."))
    if now.empty and not old.empty:
        found.append(Weakness(EMPTIED, path, name, f"The test {name} in {path} has no body any more."))
    elif now.assertions < old.assertions:
        words = f"The test {name} in {path} asserts less: {old.assertions} before, {now.assertions} now."
        found.append(Weakness(FEWER, path, name, words))
    if now.trivial > old.trivial:
        found.append(
            Weakness(TAUTOLOGY, path, name, f"The test {name} in {path} asserts something that is always true.")
        )
    return found

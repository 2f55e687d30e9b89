"""What a test file asserts, test by test, what a change took away from it, and checks that cannot fail."""

from __future__ import annotations

import ast
import os
import re
import shlex
from collections import Counter

from handoff.base.record import TYPE_CHECKING, Record
from handoff.checks.assertions.python import python_tests, unasked_tests
from handoff.checks.assertions.scan import LANGUAGES, AssertionFacts, scanned_tests
from handoff.checks.assertions.tautologies import is_always_true, proves_nothing, statements

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from collections.abc import Set as AbstractSet

REMOVED, SKIPPED, FEWER, TAUTOLOGY, EMPTIED = (
    "test-removed",
    "test-skipped",
    "fewer-assertions",
    "tautology",
    "test-emptied",
)
TAKEN, UNREACHABLE, NOTHING_ASKED = "assertion-swallowed", "assertion-unreachable", "no-assertion"
WEAK, NOT_ASKED = "assertion-weak", "subject-not-asked"
_MISSED = re.compile(r"(?:cannot import name|has no attribute|name) '(\w+)'")


class Weakness(Record):
    """What a change took from one test; `noted` is to be known, and no reason to refuse."""

    code: str
    path: str
    test: str
    message: str
    noted: bool = False


def read_tests(path: str, text: str) -> dict[str, AssertionFacts]:
    """The tests in a file's text by name; a file of a language we do not know has none."""
    ending = os.path.splitext(path)[1].lower()
    if ending in (".py", ".pyi"):
        return python_tests(text)
    language = LANGUAGES.get(ending)
    return scanned_tests(text, language) if language else {}


class _Compared:
    """The tests of changed files before and after, and where those went that have another name or place now."""

    def __init__(self, changes: Mapping[str, tuple[str | None, str | None]]) -> None:
        self.before: dict[tuple[str, str], AssertionFacts] = {}
        self.after: dict[tuple[str, str], AssertionFacts] = {}
        for path, (old, new) in changes.items():
            self.before.update({(path, name): facts for name, facts in read_tests(path, old or "").items()})
            self.after.update({(path, name): facts for name, facts in read_tests(path, new or "").items()})
        self.fresh = {key: facts for key, facts in self.after.items() if key not in self.before}
        self.went: dict[tuple[str, str], tuple[str, str]] = {}
        free = dict(self.fresh)
        gone = [key for key in self.before if key not in self.after]
        for same in (_has_name, _has_body):
            for key in gone:
                place = next((one for one in free if key not in self.went and same(key, one, self)), None)
                if place is not None:
                    self.went[key] = place
                    del free[place]
        self.spare = Counter(ask for key, facts in free.items() for ask in facts.asks)


def _has_name(old: tuple[str, str], new: tuple[str, str], _: _Compared) -> bool:
    return _last(old[1]) == _last(new[1])


def _has_body(old: tuple[str, str], new: tuple[str, str], among: _Compared) -> bool:
    body = among.before[old].body
    return bool(body) and body == among.after[new].body


def find_renamed(changes: Mapping[str, tuple[str | None, str | None]]) -> dict[tuple[str, str], tuple[str, str]]:
    """Tests that have another name now and the very same body: file and name before, file and name now."""
    return _Compared(changes).went


def find_split(changes: Mapping[str, tuple[str | None, str | None]]) -> tuple[str, ...]:
    """How the ids of tests end that assert less now because what they lost stands word for word in tests that are new."""
    among = _Compared(changes)
    return tuple(
        f":{path}::{name}"
        for (path, name), old in among.before.items()
        if (now := among.after.get((path, name))) is not None and _is_split(old, now, among.spare)
    )


def find_weakened(changes: Mapping[str, tuple[str | None, str | None]]) -> tuple[Weakness, ...]:
    """What each test lost; one that moved or was renamed is compared with where it went, a split one with its parts."""
    among = _Compared(changes)
    found: list[Weakness] = []
    for (path, name), old in among.before.items():
        key = (path, name) if (path, name) in among.after else among.went.get((path, name))
        found += _lost(path, name, old, among.after[key] if key else None, among.spare)
    return tuple(found)


def find_vacuous(changes: Mapping[str, tuple[str | None, str | None]]) -> tuple[Weakness, ...]:
    """New tests that ask nothing: no assertion that is reached, can fail and is let out; weak ones are noted."""
    found = []
    for path, (old, new) in changes.items():
        known = read_tests(path, old or "")
        for name, facts in read_tests(path, new or "").items():
            if name not in known and not facts.empty:
                found += _vacuous(path, name, facts)
    return tuple(found)


def _vacuous(path: str, name: str, facts: AssertionFacts) -> list[Weakness]:
    where = f"The new test {name} in {path}"
    if facts.swallowed:
        return [Weakness(TAKEN, path, name, f"{where} catches the failure of its own assertion.")]
    if facts.unreachable:
        return [Weakness(UNREACHABLE, path, name, f"{where} has an assertion that is never reached.")]
    if facts.assertions:
        weak = facts.weak == facts.assertions and not facts.opaque
        words = f"{where} takes nearly every answer: ask for the value itself."
        return [Weakness(WEAK, path, name, words, noted=True)] if weak else []
    if facts.trivial:
        return [Weakness(TAUTOLOGY, path, name, f"{where} asserts only what is always true.")]
    return [] if facts.opaque else [Weakness(NOTHING_ASKED, path, name, f"{where} asserts nothing.")]


def find_unasked(changes: Mapping[str, tuple[str | None, str | None]], missing: Iterable[str]) -> tuple[Weakness, ...]:
    """New tests that use what is still missing and assert nothing that depends on it; to be known only."""
    subjects, found = frozenset(missing), []
    for path, (old, new) in changes.items():
        if subjects and path.endswith(".py") and new is not None:
            known = read_tests(path, old or "")
            for name in unasked_tests(new, subjects):
                if name not in known:
                    words = (
                        f"The new test {name} in {path} asserts nothing that comes from {', '.join(sorted(subjects))}."
                    )
                    found.append(Weakness(NOT_ASKED, path, name, words, noted=True))
    return tuple(found)


def read_red(
    changes: Mapping[str, tuple[str | None, str | None]], missing: Iterable[str], *, asked_later: bool = False
) -> list[Weakness]:
    """What the texts show of a red phase: the new test asks something, and nothing was taken from the others.

    Where green asks Python tests themselves whether they mind another answer, their text is no more than a hint.
    """
    vacuous = [
        one._replace(noted=one.noted or (asked_later and one.path.endswith(".py"))) for one in find_vacuous(changes)
    ]
    return [*find_weakened(changes), *vacuous, *find_unasked(changes, missing)]


def missing_names(messages: Iterable[str]) -> list[str]:
    """The names that messages say are not there yet."""
    return [name for message in messages for name in _MISSED.findall(message)]


def renamed_ids(
    changes: Mapping[str, tuple[str | None, str | None]], gone: AbstractSet[str], passed: Iterable[str]
) -> frozenset[str]:
    """Ids that did not run while the very same body passes under another name."""
    found: set[str] = set()
    plain = {name.partition("[")[0] for name in passed} if gone else set()
    for old, new in find_renamed(changes).items() if gone else ():
        before, now = (f":{path}::{name}" for path, name in (old, new))
        if any(name.endswith(now) for name in plain):
            found |= {name for name in gone if name.partition("[")[0].endswith(before)}
    return frozenset(found)


def _last(name: str) -> str:
    return name.rpartition("::")[2]


def _lost(path: str, name: str, old: AssertionFacts, now: AssertionFacts | None, spare: Counter[str]) -> list[Weakness]:
    if now is None:
        return [Weakness(REMOVED, path, name, f"The test {name} was removed from {path}.")]
    found, where = [], f"The test {name} in {path}"
    if now.skipped and not old.skipped:
        found.append(Weakness(SKIPPED, path, name, f"{where} is skipped now."))
    if now.swallowed > old.swallowed:
        found.append(Weakness(TAKEN, path, name, f"{where} catches the failure of its own assertion now."))
    elif now.unreachable > old.unreachable and not now.empty:
        found.append(Weakness(UNREACHABLE, path, name, f"{where} has an assertion that is never reached now."))
    elif now.empty and not old.empty:
        found.append(Weakness(EMPTIED, path, name, f"{where} has no body any more."))
    elif now.assertions < old.assertions and (now.trivial > old.trivial or not _is_split(old, now, spare)):
        words = f"{where} asserts less: {old.assertions} before, {now.assertions} now."
        found.append(Weakness(FEWER, path, name, words))
    if now.trivial > old.trivial:
        found.append(Weakness(TAUTOLOGY, path, name, f"{where} asserts something that is always true."))
    return found


def _is_split(old: AssertionFacts, now: AssertionFacts, spare: Counter[str]) -> bool:
    """Whether what it lost stands word for word in tests that are new, or something is called that cannot be seen."""
    lost = Counter(old.asks) - Counter(now.asks)
    return bool(lost) and not lost - spare


_QUIET = frozenset(("true", ":", "echo", "printf", "pwd", "cd", "set", "export"))
_LOOKERS = frozenset("test [ grep rg ls cat cmp diff stat wc head tail find git".split())  # these only look at a file
_JOINTS = frozenset(("&&", ";", "||", "|", "&"))


def asks_nothing(command: str) -> bool:
    """Whether every part of a command ends with exit 0 whatever the project holds."""
    parts = _programs_of(command)
    return bool(parts) and all(_is_quiet(part) for part in parts)


def _programs_of(command: str) -> list[list[str]]:
    """The words of each program a line of shell starts; none where the line cannot be read."""
    try:
        lexer = shlex.shlex(command, posix=True, punctuation_chars=";&|")
        lexer.whitespace_split = True
        words = list(lexer)
    except ValueError:
        return []
    parts: list[list[str]] = [[]]
    for word in words:
        if word in _JOINTS:
            parts.append([])
        else:
            parts[-1].append(word)
    return [part for part in parts if part]


def _is_quiet(words: list[str]) -> bool:
    name = words[0].rpartition("/")[2]
    if name in _QUIET or words == ["exit", "0"]:
        return True
    if name in ("test", "["):
        return not any(word.startswith("-") or "$" in word for word in words[1:]) and len(set(words[1:4:2])) == 1
    return name.startswith("python") and words[1:2] == ["-c"] and len(words) > 2 and _is_vacuous_script(words[2])  # noqa: PLR2004 - name, -c, code


def vacuous_scripts(command: str, changed: Iterable[str], read: Callable[[str], str | None]) -> list[str]:
    """Which of the changed files that the command runs assert nothing that could fail."""
    found = []
    started = [part for part in _programs_of(command) if part[0].rpartition("/")[2] not in _LOOKERS]
    named = {word.removeprefix("./").partition("::")[0] for part in started for word in part}
    for path in changed:
        if path in named or (path.endswith(".py") and path.removesuffix(".py").replace("/", ".") in named):
            text = read(path)
            if text is not None and _is_vacuous_file(path, text):
                found.append(path)
    return found


def _is_vacuous_file(path: str, text: str) -> bool:
    if path.endswith(".sh"):
        lines = [line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith("#")]
        return all(asks_nothing(line) for line in lines)
    if any(not one.noted for one in find_vacuous({path: (None, text)})):
        return True
    return path.endswith(".py") and _is_vacuous_script(text)


def _is_vacuous_script(text: str) -> bool:
    """A Python script that asserts, and only what is always true; or that does nothing at all."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return False
    hollow = 0
    for part, names in statements(tree.body):
        for node in ast.walk(part):
            if isinstance(node, ast.Assert):
                if not is_always_true(node.test, names):
                    return False
                hollow += 1
            elif isinstance(node, (ast.Raise, ast.Import, ast.ImportFrom)) and not hollow:
                return False
            elif isinstance(node, ast.Call) and not isinstance(node.func, ast.Name):
                return proves_nothing(node, getattr(node.func, "attr", ""), names)
    return bool(hollow) or all(isinstance(one, (ast.Pass, ast.Expr)) and not _works(one) for one in tree.body)


def _works(node: ast.AST) -> bool:
    calls = [inner.func for inner in ast.walk(node) if isinstance(inner, ast.Call)]
    return any(not isinstance(one, ast.Name) or one.id != "print" for one in calls)

"""Probes of tests: copies that must fail, the same function without a runner, and runs with old code and new."""

from __future__ import annotations

import ast
import configparser
import copy
import json
import random
import re
import sys
import tomllib

from handoff.base.record import TYPE_CHECKING, Record
from handoff.checks.assertions.assertions import NOT_ASKED, read_tests
from handoff.checks.findings import Baseline, FileChange, Finding, first_line, named_finding
from handoff.checks.results import ASSERTION, COLLECTION, MISSING, PASSED, SKIPPED, Case, Report
from handoff.checks.support import tests_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any

INSENSITIVE, NAME_DEPENDENT = "insensitive-test", "name-dependent"
MOST_TESTS, MOST_TWINS = 4, 10
_LETTERS = tuple("abcdefghiklmnoprstuvwz")
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_EQUALITIES = (
    "assertEqual",
    "assertEquals",
    "assertIs",
    "assertIn",
    "assertAlmostEqual",
    "assertListEqual",
    "assertDictEqual",
)
_RAISES = ("raises", "assertRaises", "assertRaisesRegex")


class TwinFile(Record):
    """A test file with twins of one of its tests in place of it: its text, the names of the twins, and of two unchanged copies.

    `same` must pass; `without` runs last, when what was built for the test has been emptied, and must not.
    """

    text: str
    same: str
    others: tuple[str, ...]
    without: str


def make_twins(text: str, test: str) -> TwinFile | None:
    """The twins of the test of that name (classes before it, by `::`); None where nothing in it can be asked otherwise."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return None
    *owners, name = test.split("::")
    body = tree.body
    for owner in owners:
        found = next((node for node in body if isinstance(node, ast.ClassDef) and node.name == owner), None)
        if found is None:
            return None
        body = found.body
    at = next((i for i, node in enumerate(body) if isinstance(node, _Function) and node.name == name), None)
    if at is None:
        return None
    original = body[at]
    assert isinstance(original, _Function)  # noqa: S101 - found as one just now
    variants = (list(_variants(original, _changes_of)) or list(_variants(original, _opposite_of)))[:MOST_TWINS]
    if not variants:
        return None
    copies, names = [], []
    for one in (original, *variants, original):
        twin = copy.deepcopy(one)
        twin.name = f"test_{_word()}"
        names.append("::".join([*owners, twin.name]))
        copies.append(twin)
    body[at : at + 1] = copies
    return TwinFile(ast.unparse(ast.fix_missing_locations(tree)), names[0], tuple(names[1:-1]), names[-1])


def _word() -> str:
    return "".join(random.SystemRandom().choices(_LETTERS, k=10))


def _variants(function: _Function, changes: Callable[[ast.AST], Iterator[_Change]]) -> Iterator[_Function]:
    """The function again and again, each time with one assertion that asks for something else."""
    for number, node in enumerate(ast.walk(function)):
        for change in changes(node):
            twin = copy.deepcopy(function)
            other = next(one for count, one in enumerate(ast.walk(twin)) if count == number)
            change(other)
            yield twin


def _changes_of(node: ast.AST) -> Iterator[_Change]:
    if isinstance(node, ast.Assert) and not _asks_for_a_difference(node.test):
        for number, inner in enumerate(ast.walk(node.test)):
            if isinstance(inner, ast.Constant) and _otherwise(inner.value) is not None:
                yield _Change("test", number)
        if isinstance(node.test, ast.Compare) and isinstance(node.test.ops[0], (ast.Eq, ast.Is, ast.IsNot, ast.In)):
            yield _Change("right", 0)
    elif isinstance(node, ast.Call):
        last = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if last in _EQUALITIES and len(node.args) > 1:
            yield _Change("second", 0)
        elif last in _RAISES and node.args:
            yield _Change("first", 0)


def _asks_for_a_difference(test: ast.expr) -> bool:
    """`a != b` holds for nearly every other b, and is right to."""
    return isinstance(test, ast.Compare) and isinstance(test.ops[0], (ast.NotEq, ast.NotIn))


def _opposite_of(node: ast.AST) -> Iterator[_Change]:
    """Where nothing in an assertion can be asked otherwise, its opposite."""
    if isinstance(node, ast.Assert):
        yield _Change("opposite", 0)


class _Change:
    """One change of one assertion, made on a copy of it."""

    def __init__(self, where: str, number: int) -> None:
        self._where, self._number = where, number

    def __call__(self, node: ast.AST) -> None:
        if isinstance(node, ast.Assert) and self._where == "test":
            inner = next(one for count, one in enumerate(ast.walk(node.test)) if count == self._number)
            if isinstance(inner, ast.Constant):
                inner.value = _otherwise(inner.value)
        elif isinstance(node, ast.Assert) and self._where == "opposite":
            node.test = ast.UnaryOp(ast.Not(), node.test)
        elif isinstance(node, ast.Assert) and isinstance(node.test, ast.Compare):
            node.test.comparators[-1:] = [_fresh("[object()]" if isinstance(node.test.ops[0], ast.In) else "object()")]
        elif isinstance(node, ast.Call) and self._where == "second":
            listed = isinstance(node.func, ast.Attribute) and node.func.attr == "assertIn"
            node.args[1] = _fresh("[object()]" if listed else "object()")
        elif isinstance(node, ast.Call):
            node.args[0] = _fresh('type("Other", (Exception,), {})')


def _fresh(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _otherwise(value: object) -> int | float | str | bytes | None:
    """Another value of the same kind; None for what has no other."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int):
        return value + 1_000_009
    if isinstance(value, float):
        return value + 1_000_009.5
    if isinstance(value, str):
        return f"zq{value}qz"
    return b"zq" + value + b"qz" if isinstance(value, bytes) else None


def cases_of_twins(path: str, reports: Sequence[Report]) -> dict[str, list[Case]]:
    """What was said of each test in a file of twins; the rows of a table together."""
    seen: dict[str, list[Case]] = {}
    for report in reports:
        for case in report.cases:
            if case.file == path and case.name:
                seen.setdefault(case.name.partition("[")[0], []).append(case)
    return seen


def judge_twins(
    test: str, twins: TwinFile, seen: Mapping[str, Sequence[Case]], functions: Sequence[tuple[str, str]] = ()
) -> list[Finding] | None:
    """What the twins said; None where their run gave no answer. `functions` are those that were emptied for the last of them."""
    if twins.same not in seen:
        return None
    if any(case.bad for case in seen[twins.same]):
        return [named_finding(NAME_DEPENDENT, "does not pass under another name", [test])]
    asked = [name for name in twins.others if name in seen]
    if asked and not any(case.bad for name in asked for case in seen[name]):
        words = f"passes also where it asks for something else ({len(asked)} copies of it did)"
        return [named_finding(INSENSITIVE, words, [test])]
    entered = {one for case in seen[twins.same] for one in case.called}
    went = any(f"{path}:{name}" in entered for path, name in functions)
    last = seen.get(twins.without, ())
    if went and last and all(case.emptied and not case.bad for case in last):
        words = "passes also when the functions that were built for it are empty: it asks about something else"
        return [named_finding(NOT_ASKED, words, [test])]
    return []


UNDER_TEST = "right-only-under-test"
# What a test may miss outside its runner and its folder: then there is no second opinion.
_ELSEWHERE = ("ImportError", "ModuleNotFoundError", "FileNotFoundError", "NotADirectoryError", "Skipped", "SystemExit")


def plain_test(text: str, test: str) -> tuple[str, str] | None:
    """The test's file with that function under another name, and the name; None for what needs a runner."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return None
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == test:
            if node.decorator_list or any(vars(node.args).values()):
                return None
            node.name = "".join(random.SystemRandom().choices(_LETTERS, k=11))
            return ast.unparse(tree), node.name
    return None


def judge_plain_runs(asked: Sequence[str], reports: Sequence[Report]) -> list[Finding]:
    """A test that passes under its runner and fails as plain code; one that could not be asked is told."""
    said = {case.id: case for report in reports for case in report.cases}
    wrong = [name for name in asked if name in said and said[name].bad and said[name].reason not in _ELSEWHERE]
    findings = []
    if wrong:
        findings.append(
            named_finding(UNDER_TEST, "passes under the test runner and fails as plain code without it", wrong)
        )
    return findings


OLD_FAIL, NEW_FAIL, WITHOUT = "old-tests-fail", "new-tests-fail-on-old-code", "fails-without-new-support"
NEIGHBOUR, EXPECTATION, INTERFACE = "neighbour-changed", "expectation-changed", "interface-changed"
FEWER_RAN = "fewer-assertions-ran"
_LOOSE = (MISSING, COLLECTION)


def judge_old_tests(known: Baseline, reports: Sequence[Report]) -> list[Finding]:
    """The tests of the last good commit on the new code: what fails there was not refactored but changed."""
    bad = [case for report in reports for case in report.cases if case.bad and case.id in known.passing]
    return _judge(bad, OLD_FAIL, "passed before the change and fails on the new code as it was written")


def judge_new_tests(known: Baseline, reports: Sequence[Report]) -> list[Finding]:
    """The new tests on the code of the last good commit: what fails there asks for something else than before."""
    cases = (case for report in reports for case in report.cases)
    bad = [case for case in cases if case.bad and case.id not in known.failing | known.flaky]
    return _judge(bad, NEW_FAIL, "as it is written now fails on the code as it was")


def _judge(bad: Sequence[Case], code: str, words: str) -> list[Finding]:
    """A failing assertion is a fault; a name that is missing may be a rename, and is told."""
    wrong = [case for case in bad if case.reason not in _LOOSE]
    missing = [case for case in bad if case.reason in _LOOSE]
    findings = []
    if wrong:
        findings.append(named_finding(code, f"{words} ({first_line(wrong[0].message)})", [case.id for case in wrong]))
    if missing:
        what = "names of the code are others now, so that old tests and new code do not fit: " + first_line(
            missing[0].message
        )
        findings.append(Finding(INTERFACE, f"{what}.", tuple(case.id for case in missing), noted=True))
    return findings


def judge_without(new: Sequence[str], reports: Sequence[Report]) -> list[Finding]:
    """The new test with the support from before it: what fails by an assertion there passes only thanks to its helpers."""
    cases = [case for report in reports for case in report.cases]
    bad = [case for case in cases if case.bad and case.reason == ASSERTION and new and case.plain in new]
    words = "passes only with the helpers that were changed together with it"
    return [named_finding(WITHOUT, words, [case.id for case in bad])] if bad else []


def find_neighbours(changes: Iterable[FileChange], allowed: str) -> list[Finding]:
    """Tests that existed before and say something else now, unless the line of the list names them behind `changes:`."""
    excused = allowed.partition("changes:")[2]
    found = []
    for change in changes:
        if not change.is_test or change.before is None or change.after is None:
            continue
        old, new = (_shapes(change.path, text) for text in (change.before, change.after))
        for name, shape in old.items():
            if name in new and new[name] != shape and name.rpartition("::")[2] not in excused:
                found.append(f"{change.path}::{name}")
    return (
        [named_finding(NEIGHBOUR, "is a test that was there before, and it says something else now", found)]
        if found
        else []
    )


def _shapes(path: str, text: str) -> dict[str, str]:
    """Each test of a file with what it says, whatever its layout."""
    return (
        tests_of(text) if path.endswith(".py") else {name: facts.body for name, facts in read_tests(path, text).items()}
    )


def find_lost_constants(changes: Iterable[FileChange]) -> list[Finding]:
    """Values the old tests asked for that stand in no new one."""
    listed = [change for change in changes if change.is_test and change.path.endswith(".py")]
    now = set().union(*(_constants(change.after or "") for change in listed)) if listed else set()
    lost = sorted({repr(value) for change in listed for value in _constants(change.before or "") - now})
    if not lost:
        return []
    words = f"the tests asked for {', '.join(lost[:5])} before, and nothing asks for it now"
    return [Finding(EXPECTATION, f"With the names an expectation was changed: {words}.", tuple(lost))]


def _constants(text: str) -> set[object]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return set()
    bare = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    return {
        (type(node.value).__name__, node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and id(node) not in bare
        and not isinstance(node.value, (bool, type(None), type(...)))
    }


def held_by_test(reports: Iterable[Report]) -> dict[str, int]:
    """How many assertions held in each test, the cases of a table together."""
    found: dict[str, int] = {}
    for report in reports:
        for case in report.cases:
            if case.status in (PASSED, SKIPPED):
                found[case.plain] = found.get(case.plain, 0) + case.held
    return found


def find_fewer(before: Mapping[str, int], after: Mapping[str, int]) -> list[Finding]:
    """Tests in which fewer assertions held than in the same test before."""
    lost = {name: (number, after[name]) for name, number in before.items() if name in after and after[name] < number}
    return [
        Finding(FEWER_RAN, f"{name}: {old} assertions ran in it before, {now} now.", (name,))
        for name, (old, now) in sorted(lost.items())
    ]


def asserts_plainly(text: str, test: str) -> bool:
    """Whether a test's own text holds assert statements."""
    return "Assert(" in tests_of(text).get(test, "")


# --- What may not lie beside tests: things that load by themselves, names that stand in for others, code that knows the tests

PLANTED, SHADOWS, LINK, SETTINGS, KNOWS = (
    "runner-planted",
    "name-shadows",
    "link-in-tree",
    "settings-changed",
    "code-knows-tests",
)
_SELF_LOADING = re.compile(
    r"(?:^|/)(?:[^/]+\.(?:dist-info|egg-info)/|[^/]+\.(?:pth|egg-link)$|(?:site|user)customize\.py$)"
)
_RUNNERS = frozenset(
    "pytest _pytest pluggy iniconfig packaging pygments exceptiongroup tomli colorama coverage pytest_cov xdist execnet".split()
)
_KNOWING = frozenset(
    "pytest _pytest PYTEST_CURRENT_TEST PYTEST_VERSION _getframe f_back get_objects _exit execv execve execvp settrace setprofile".split()
)
_INI = {"pytest.ini": None, "tox.ini": ("pytest",), "setup.cfg": ("tool:pytest", "options.entry_points")}
_PACKAGE_KEYS = ("scripts", "jest", "mocha", "nyc", "c8", "ava", "vitest")


def find_injected(changes: Iterable[FileChange], links: Iterable[str], before: Iterable[str]) -> list[Finding]:
    """Files that load by themselves, links, and new names at the top that somebody else has already."""
    known = set(before)
    new = [change.path for change in changes if change.path not in known and change.after is not None]
    loading = [path for path in new if _SELF_LOADING.search(path)]
    findings = [named_finding(PLANTED, "is loaded by Python or its test runner by itself", loading)] if loading else []
    linked = [path for path in links if path not in known]
    if linked:
        findings.append(named_finding(LINK, "is a link, and what lies behind it is not judged", linked))
    tops = {_top_name(path) for path in known} - {""}
    shadows = [path for path in new if (name := _top_name(path)) and name not in tops and _is_taken(name)]
    shadows += [
        path for path in new if path.endswith("/__init__.py") and f"{path.removesuffix('/__init__.py')}.py" in known
    ]
    if shadows:
        findings.append(
            named_finding(SHADOWS, "has the name of something that exists already and would stand in for it", shadows)
        )
    return findings


def _top_name(path: str) -> str:
    """The name by which an import finds it, for what lies at the top or in src."""
    first, _, rest = path.removeprefix("src/").partition("/")
    if not rest:
        return first.removesuffix(".py") if first.endswith(".py") else ""
    return first if rest == "__init__.py" else ""


def _is_taken(name: str) -> bool:
    return (name in sys.stdlib_module_names and name not in ("test", "this")) or name in _RUNNERS


def find_settings(changes: Iterable[FileChange]) -> list[Finding]:
    """Settings of the test runner that are others now."""
    touched = [
        change.path
        for change in changes
        if _settings(change.path, change.before) != _settings(change.path, change.after)
    ]
    words = "holds settings of the test runner, and they are others now"
    return [named_finding(SETTINGS, words, touched)] if touched else []


def _settings(path: str, text: str | None) -> Any:
    """What in a file the test runner goes by; nothing for any other file."""
    name = path.rpartition("/")[2]
    if text is None:
        return None if name == "pyproject.toml" or name in _INI or name == "package.json" else ""
    try:
        if name == "pyproject.toml":
            data = tomllib.loads(text)
            plugins = data.get("project", {}).get("entry-points", {}).get("pytest11")
            return (
                (data.get("tool", {}).get("pytest"), plugins) if plugins or data.get("tool", {}).get("pytest") else None
            )
        if name in _INI:
            parser = configparser.RawConfigParser()
            parser.read_string(text)
            wanted = _INI[name]
            found = {one: dict(parser[one]) for one in parser.sections() if wanted is None or one in wanted}
            return found or None
        if name == "package.json":
            data = json.loads(text)
            test = (data.get("scripts") or {}).get("test")
            return ({key: data.get(key) for key in _PACKAGE_KEYS[1:]}, test)
    except (tomllib.TOMLDecodeError, configparser.Error, ValueError, AttributeError, RecursionError):
        return text
    return ""


def find_knowing(changes: Iterable[FileChange], tests: Iterable[str]) -> list[Finding]:
    """Words in the product's code that only somebody has who looks at who asks."""
    files = {path.rpartition("/")[2].removesuffix(".py") for path in tests if path.endswith(".py")}
    names = frozenset(name for name in files if name.startswith("test_") or name.endswith("_test")) | _KNOWING
    findings = []
    for change in changes:
        if not change.path.endswith(".py") or change.is_test or change.after is None:
            continue
        new = (_used(change.after) & names) - _used(change.before or "")
        if new:
            words = f"{change.path} speaks of {', '.join(sorted(new))} now: code that knows its tests can answer them alone."
            findings.append(Finding(KNOWS, words, (change.path,)))
    return findings


def _used(text: str) -> frozenset[str]:
    """Names, attributes, imports and the words in strings of a Python file; docstrings are for people."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return frozenset()
    found: set[str] = set()
    spoken: set[int] = set()
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if (
            isinstance(body, list)
            and body
            and isinstance(body[0], ast.Expr)
            and isinstance(body[0].value, ast.Constant)
        ):
            spoken.add(id(body[0].value))
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            found |= {part for name in node.names for part in name.name.split(".")}
            found |= set((getattr(node, "module", "") or "").split("."))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in spoken:
            found |= set(re.findall(r"\w+", node.value))
    return frozenset(found)

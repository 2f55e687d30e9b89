"""Results in XML: JUnit's form through junitparser, with each framework's habits, and .NET's own."""

from __future__ import annotations

import os
import re

from handoff.base.record import TYPE_CHECKING
from handoff.checks import results
from handoff.checks.readers.reasons import java_compile_errors, java_reason, plain_reason, python_reason, script_reason
from handoff.checks.results import RunOutput, Unreadable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_STATUS = {
    "failure": results.FAILED,
    "rerunFailure": results.FAILED,
    "error": results.ERROR,
    "skipped": results.SKIPPED,
}
_SCRIPT = re.compile(
    r"\.[cm]?[jt]sx?(?::\d|\s|$)|is not a (?:function|constructor)\b|\bReferenceError\b|ERR_ASSERTION|node:internal/",
    re.MULTILINE,
)
_PYTHON = re.compile(r"^Traceback \(most recent call last\)|^E {2,}\S", re.MULTILINE)
_JAVA_SOURCE = ("src/test/java", "src/test/kotlin", "src/test/groovy", "src/test/scala", "src/test", "test", "")


class _One:
    """A test case of the XML: what every reader wants of it."""

    def __init__(self, case: Any, suite: str) -> None:
        self.name = case.name or ""
        self.owner = case.classname or suite
        self.seconds = float(case.time or 0)
        self.file = case._elem.get("file") or ""  # noqa: SLF001 - the attribute is of no schema, but everybody's
        marks = [mark for mark in case.result if mark is not None]
        marks.sort(key=lambda mark: mark._tag != "skipped")  # noqa: SLF001 - node's todo is skipped, then failed
        first = marks[0] if marks else None
        self.status = _STATUS.get(first._tag, results.FAILED) if first is not None else results.PASSED  # noqa: SLF001 - the element's own name has no public way
        self.message = (first.message or "") if first is not None else ""
        self.kind = (first.type or "") if first is not None else ""
        self.text = (first.text or "") if first is not None else ""

    @property
    def bad(self) -> bool:
        return self.status in (results.FAILED, results.ERROR)


def _cases(found: RunOutput) -> Iterator[_One]:
    from junitparser import JUnitXml, JUnitXmlError
    from junitparser import TestCase as XmlCase

    for path in found.files:
        try:
            tree = JUnitXml.fromfile(path)
            elements = _nested(tree._elem)  # noqa: SLF001 - suites nest and cases stand outside them, which its own walk leaves out
        except (JUnitXmlError, SyntaxError, ValueError, OSError) as error:
            raise Unreadable(f"{os.path.basename(path)} is not JUnit XML: {error}") from None
        for suite, element in elements:
            yield _One(XmlCase.fromelem(element), suite)  # type: ignore[no-untyped-call]


def _nested(element: Any) -> list[tuple[str, Any]]:
    found = [(element.get("name") or "", item) for item in element.findall("testcase")]
    for inner in (*element.findall("testsuite"), *element.findall("testsuites")):
        found += _nested(inner)
    return found


def pytest(found: RunOutput) -> list[results.Case]:
    """pytest's XML: file and class are told apart, and a file that did not load is a case without a name."""
    cases = []
    for one in _cases(found):
        loading = one.message == "collection failure" or (not one.owner and one.bad)
        text = one.text or one.message
        reason = ""
        if one.bad:
            reason = python_reason(text, loading=loading, foreign=found.foreign, is_test=found.tests)
        file = found.path(one.file) if one.file else one.owner.replace(".", "/") + ".py"
        name = "" if loading else _pytest_name(one, file)
        if one.status == results.SKIPPED and not one.owner:
            name = ""  # a whole file skipped itself
        message = pytest_words(text) if one.bad else one.message
        cases.append(found.case(file, name, one.status, reason, message, one.seconds))
    return cases


def _pytest_name(one: _One, file: str) -> str:
    """Class and function: what of the dotted owner is not the file's own module."""
    module = (one.file or file).removesuffix(".py").replace("/", ".").replace("\\", ".")
    inner = one.owner[len(module) :].strip(".") if one.owner.startswith(module) else ""
    return "::".join([*(part for part in inner.split(".") if part), one.name])


def pytest_words(text: str) -> str:
    """The lines pytest marks with an E; all of it where there are none."""
    marked = [line[1:].strip() for line in text.splitlines() if line.startswith("E ")]
    return "\n".join(marked[:12]) or text


def junit(found: RunOutput) -> list[results.Case]:
    """JUnit XML of any framework; the words of a failure show which language it speaks."""
    return [_named(found, one, _any_reason(found, one) if one.bad else "") for one in _cases(found)]


def _any_reason(found: RunOutput, one: _One) -> str:
    text = f"{one.kind}\n{one.message}\n{one.text}"
    if _SCRIPT.search(f"{one.file}\n{one.owner}\n{text}"):
        return script_reason(text, loading=False, is_test=found.tests)
    if _PYTHON.search(text):
        return python_reason(one.text or one.message, loading=False, foreign=found.foreign, is_test=found.tests)
    return plain_reason(text)


def java(found: RunOutput) -> list[results.Case]:
    """Maven, Gradle and JUnit's console: the XML files, and the compiler's words when it did not come that far."""

    def is_test(name: str) -> bool:
        return "Test" in os.path.basename(name) or found.is_test(name)

    cases = []
    for one in _cases(found):
        text = f"{one.message}\n{one.text}"
        reason = java_reason(text, is_test=is_test, kind=one.kind) if one.bad else ""
        cases.append(_java_case(found, one, reason))
    broken: dict[str, tuple[str, list[str]]] = {}
    for path, reason, words in java_compile_errors(found.output):
        file = found.path(path)
        known = broken.setdefault(file, (reason, []))
        broken[file] = (known[0] if known[0] == results.SYNTAX else reason, [*known[1], words])
    for file, (reason, said) in broken.items():
        cases.append(found.case(file, "", results.ERROR, reason, "\n".join(said)))
    if not cases and not found.files:
        none = re.search(r"No tests (?:to run|were)|NO-SOURCE|no tests found", found.output, re.IGNORECASE)
        if none or not found.output.strip():
            return []
        raise Unreadable(f"{found.suite.framework} wrote no results")
    return cases


def _java_case(found: RunOutput, one: _One, reason: str) -> results.Case:
    name = re.sub(r"\([^()]*\)", "", one.name, count=1) or one.name  # adds() and adds(int)[1]
    return found.case(_java_file(found, one.owner), name, one.status, reason, one.message or one.text, one.seconds)


def _java_file(found: RunOutput, owner: str) -> str:
    """The source file of a class, where it is in one of the usual places; else the class itself."""
    plain = owner.partition("$")[0].replace(".", "/")
    for root in _JAVA_SOURCE:
        for ending in (".java", ".kt", ".groovy", ".scala"):
            path = os.path.join(found.suite.folder, root, plain + ending)
            if os.path.isfile(os.path.join(found.top, path)):
                return os.path.normpath(path)
    return owner


def trx(found: RunOutput) -> list[results.Case]:
    """.NET's own result files (the logger every SDK has)."""
    from xml.etree import ElementTree as ET

    outcomes = {"Passed": results.PASSED, "Failed": results.FAILED, "NotExecuted": results.SKIPPED}
    cases = []
    for path in found.files:
        try:
            root = ET.parse(path).getroot()  # noqa: S314 - see above
        except (ET.ParseError, OSError) as error:
            raise Unreadable(f"{os.path.basename(path)} is not a TRX file: {error}") from None
        space = root.tag.partition("}")[0] + "}" if root.tag.startswith("{") else ""
        owners = {
            test.get("id"): method.get("className", "")
            for test in root.iter(f"{space}UnitTest")
            for method in test.iter(f"{space}TestMethod")
        }
        for item in root.iter(f"{space}UnitTestResult"):
            status = outcomes.get(item.get("outcome", ""), results.ERROR)
            message = "\n".join(text.text or "" for text in item.iter(f"{space}Message"))
            trace = "\n".join(text.text or "" for text in item.iter(f"{space}StackTrace"))
            owner = owners.get(item.get("testId"), "")
            name = item.get("testName", "").removeprefix(f"{owner}.")
            bad = status in (results.FAILED, results.ERROR)
            reason = plain_reason(f"{message}\n{trace}") if bad else ""
            cases.append(found.case(owner, name, status, reason, message, _clock(item.get("duration", ""))))
    return cases


def _clock(text: str) -> float:
    found = re.fullmatch(r"(\d+):(\d+):([\d.]+)", text)
    return int(found[1]) * 3600 + int(found[2]) * 60 + float(found[3]) if found else 0.0


def _named(found: RunOutput, one: _One, reason: str) -> results.Case:
    file = found.path(one.file) if one.file else one.owner
    return found.case(file, one.name, one.status, reason, one.message or one.text, one.seconds)

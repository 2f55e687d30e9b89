"""What a run of tests left: the frameworks' own JSON and that of our two small reporters, lines on standard output, XML."""

from __future__ import annotations

import json
import os
import re

from handoff.base.record import TYPE_CHECKING
from handoff.checks import results
from handoff.checks.readers.reasons import java_compile_errors, java_reason, plain_reason, python_reason, script_reason
from handoff.checks.results import RunOutput, Unreadable
from handoff.checks.suite import text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

JEST = {
    "passed": results.PASSED,
    "failed": results.FAILED,
    "pending": results.SKIPPED,
    "skipped": results.SKIPPED,
    "todo": results.SKIPPED,
    "disabled": results.SKIPPED,
}
_RSPEC = {"passed": results.PASSED, "failed": results.FAILED, "pending": results.SKIPPED}


def _load(found: RunOutput) -> Any:
    try:
        with open(found.files[0], encoding="utf-8", errors="replace") as file:
            return json.load(file)
    except (OSError, ValueError) as error:
        raise Unreadable(f"the results of {found.suite.framework} are not JSON: {error}") from None


def last_words(text: str) -> str:
    """What an exception says at the end of its traceback, without the lines of source above it."""
    lines = text.rstrip().splitlines()
    last = max((number for number, line in enumerate(lines) if line.startswith("  File ")), default=-1)
    said = [line for line in lines[last + 1 :] if last < 0 or not line.startswith("    ")]
    return "\n".join(said[:12] if said else lines[-3:])


def unittest(found: RunOutput) -> list[results.Case]:
    """What our own runner wrote."""
    cases = []
    for one in _load(found):
        bad = one["status"] in (results.FAILED, results.ERROR)
        text = one["text"]
        reason = ""
        if bad:
            reason = python_reason(text, loading=one["loading"], foreign=found.foreign, is_test=found.tests)
        file = found.path(one["file"] or one["module"].replace(".", "/") + ".py")
        name = one["name"].replace(".", "::")
        cases.append(found.case(file, name, one["status"], reason, last_words(text), one["seconds"]))
    return cases


def node(found: RunOutput) -> list[results.Case]:
    """What our reporter for `node --test` wrote: one JSON object a line."""
    try:
        with open(found.files[0], encoding="utf-8", errors="replace") as opened:
            lines = [json.loads(line) for line in opened if line.strip()]
    except (OSError, ValueError) as error:
        raise Unreadable(f"the results of node are not JSON: {error}") from None
    return node_cases(lines, found)


def node_cases(lines: Sequence[Mapping[str, Any]], found: RunOutput) -> list[results.Case]:
    """The same, from the lines themselves."""
    printed: dict[str, str] = {}
    for one in lines:
        if "printed" in one:
            printed[one["file"]] = printed.get(one["file"], "") + one["printed"]
    cases = []
    for one in lines:
        if "printed" in one or one["kind"] == "suite" or one["failure"] == "subtestsFailed":
            continue
        name = " > ".join(one["name"])
        file = one["file"] or name
        # A file that dies while it loads is reported as a test that bears the file's own name.
        loading = not one["passed"] and found.path(name) == found.path(file)
        if one["passed"] and found.path(name) == found.path(file):
            continue  # node counts a file without tests as a test
        text = one["text"] + ("\n" + printed.get(one["file"] or name, "") if loading else "")
        status = results.SKIPPED if one["skipped"] else results.PASSED if one["passed"] else results.FAILED
        bad = status == results.FAILED
        reason = script_reason(text, loading=loading, is_test=found.tests) if bad else ""
        if bad and one["failure"] == "testTimeoutFailure":
            reason = results.TIMEOUT
        message = _error_line(text) if loading else text
        status = results.ERROR if loading else status
        name, message = "" if loading else name, message if bad else ""
        cases.append(found.case(found.path(file), name, status, reason, message, one["seconds"]))
    return cases


def _error_line(text: str) -> str:
    """The lines of a printed failure that name the error."""
    said = [
        line for line in text.splitlines() if "Error" in line and "at " not in line[:8] and "test failed" not in line
    ]
    return "\n".join(said[:3]) or text


def jest(found: RunOutput) -> list[results.Case]:
    """The JSON of jest, which vitest writes too."""
    cases = []
    for suite in _load(found).get("testResults", ()):
        file = found.path(suite.get("name", ""))
        tests = suite.get("assertionResults") or ()
        for test in tests:
            status = JEST.get(test.get("status", ""), results.ERROR)
            text = "\n".join(test.get("failureMessages") or ())
            reason = script_reason(text, loading=False, is_test=found.tests) if status == results.FAILED else ""
            name = " > ".join([*(test.get("ancestorTitles") or ()), test.get("title", "")])
            cases.append(found.case(file, name, status, reason, text, (test.get("duration") or 0) / 1000))
        if not tests and suite.get("status") == "failed":
            text = suite.get("message") or ""
            reason = script_reason(text, loading=True, is_test=found.tests)
            cases.append(found.case(file, "", results.ERROR, reason, text))
    return cases


def mocha(found: RunOutput) -> list[results.Case]:
    """mocha's JSON reporter. A file that does not load ends mocha before it writes anything."""
    data = _load(found)
    skipped = {test.get("fullTitle") for test in data.get("pending", ())}
    cases = []
    for test in data.get("tests", ()):
        fault = test.get("err") or {}
        text = "\n".join(str(fault.get(key, "")) for key in ("name", "code", "message", "stack")) if fault else ""
        name = test.get("fullTitle", "")
        status = results.SKIPPED if name in skipped else results.FAILED if fault else results.PASSED
        reason = script_reason(text, loading=False, is_test=found.tests) if status == results.FAILED else ""
        file, message, seconds = (
            found.path(test.get("file") or ""),
            str(fault.get("message", "")),
            test.get("duration") or 0,
        )
        cases.append(found.case(file, name, status, reason, message, seconds / 1000))
    return cases


def rspec(found: RunOutput) -> list[results.Case]:
    """rspec's JSON formatter; errors outside of examples are files that did not load."""
    data = _load(found)
    cases = []
    for test in data.get("examples", ()):
        fault = test.get("exception") or {}
        text = f"{fault.get('class', '')}: {fault.get('message', '')}"
        status = _RSPEC.get(test.get("status", ""), results.ERROR)
        reason = plain_reason(text) if status == results.FAILED else ""
        file = found.path(str(test.get("file_path", "")).removeprefix("./"))
        name, message = test.get("full_description", ""), text if fault else ""
        cases.append(found.case(file, name, status, reason, message, test.get("run_time") or 0))
    if (data.get("summary") or {}).get("errors_outside_of_examples_count"):
        for text in data.get("messages") or ():
            named = re.search(r"error occurred while loading (\S+?)\.?(?:\s|$)", text)
            if named:
                reason = plain_reason(text, building=True)
                cases.append(found.case(found.path(named[1]), "", results.ERROR, reason, text))
    return cases


# --- results on standard output (`go test -json`, cargo's lines), and what it means that a run left no result file

_GO = {"pass": results.PASSED, "fail": results.FAILED, "skip": results.SKIPPED}
_GO_ERROR = re.compile(r"^(?:vet: )?(\S+\.go):\d+(?::\d+)?: (.*)$", re.MULTILINE)
_GO_UNBUILT = re.compile(r"^FAIL\s+(\S+) \[(?:build|setup) failed\]", re.MULTILINE)
_CARGO_BINARY = re.compile(r"^\s+(?:Running (?:unittests )?(\S+)|Doc-tests (\S+))", re.MULTILINE)
_CARGO_TEST = re.compile(r"^test (.+?)(?: - should panic)? \.\.\. (ok|FAILED|ignored)(?:, .*)?$")
_CARGO_SAID = re.compile(r"^---- (.+?) stdout ----$")
_RUST_ERROR = re.compile(r"^(error(?:\[E\d+\])?: [^\n]*)\n\s+--> ([^\s:]+):\d+", re.MULTILINE)


def go(found: RunOutput) -> list[results.Case]:
    """Events of `go test -json`; a file that does not compile is a case without a name."""
    texts: dict[tuple[str, str], list[str]] = {}
    ended: dict[tuple[str, str], tuple[str, float]] = {}
    loose: list[str] = []
    for line in found.output.splitlines():
        event = _event(line)
        if event is None:
            loose.append(line)
            continue
        key = (event.get("Package", ""), event.get("Test", ""))
        action = event.get("Action", "")
        if action == "build-output":
            loose.append(event.get("Output", "").rstrip("\n"))
        elif action == "output":
            texts.setdefault(key, []).append(event.get("Output", ""))
        elif action in _GO:
            ended[key] = (_GO[action], float(event.get("Elapsed") or 0))
    places = _GoPlaces(found)
    cases = []
    for (package, test), (status, seconds) in ended.items():
        if not test or any(other.startswith(f"{test}/") for owner, other in ended if owner == package):
            continue
        text = "".join(texts.get((package, test), ()))
        reason, message = _go_reason(text) if status == results.FAILED else ("", "")
        cases.append(found.case(places.file(package, test), test, status, reason, message, seconds))
    cases += _go_unbuilt(found, "\n".join(loose), "".join(text for parts in texts.values() for text in parts))
    if not cases and not ended and not re.search(r"no test files|no packages", found.output):
        raise Unreadable("go printed no test events")
    return cases


def _go_reason(text: str) -> tuple[str, str]:
    words = "\n".join(
        line for line in text.splitlines() if not line.lstrip().startswith(("=== ", "--- ", "FAIL", "PASS"))
    )
    if "panic:" in text and "test timed out" not in text:
        return results.MISSING if "not implemented" in text else results.RAISED, words
    reason = plain_reason(words)
    return (results.ASSERTION if reason in (results.OTHER, results.SYNTAX) else reason), words  # t.Error asserts


def _go_unbuilt(found: RunOutput, said: str, printed: str) -> list[results.Case]:
    """The files the compiler named, and packages that failed without one."""
    broken: dict[str, list[str]] = {}
    for path, words in _GO_ERROR.findall(said):
        broken.setdefault(found.path(path), []).append(words)
    failed = _GO_UNBUILT.findall(f"{said}\n{printed}")
    if not failed:
        return []
    if not broken:
        broken = {package: [said.strip() or "it does not build"] for package in failed}
    cases = []
    for file, lines in broken.items():
        reasons = {plain_reason(line, building=True) for line in lines}
        reason = results.MISSING if reasons == {results.MISSING} else results.SYNTAX
        cases.append(found.case(file, "", results.ERROR, reason, "\n".join(lines)))
    return cases


class _GoPlaces:
    """In which file a test stands: go names its package only."""

    def __init__(self, found: RunOutput) -> None:
        self._found = found
        self._texts: dict[str, list[tuple[str, str]]] = {}
        self._module = re.search(r"^module\s+(\S+)", text_of(found.place("go.mod")), re.MULTILINE)

    def file(self, package: str, test: str) -> str:
        """The file from the top, or the package where it is not found."""
        if self._module is None or not package.startswith(self._module[1]):
            return package
        folder = package[len(self._module[1]) :].strip("/")
        if folder not in self._texts:
            where = self._found.place(folder)
            names = sorted(os.listdir(where)) if os.path.isdir(where) else []
            self._texts[folder] = [
                (name, text_of(os.path.join(where, name))) for name in names if name.endswith("_test.go")
            ]
        head = f"func {test.partition('/')[0]}("
        for name, text in self._texts[folder]:
            if head in text:
                return self._found.path(os.path.join(folder, name))
        return package


def _event(line: str) -> dict[str, Any] | None:
    if not line.startswith("{"):
        return None
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) and "Action" in value else None


def cargo(found: RunOutput) -> list[results.Case]:
    """The words of `cargo test`: binaries, tests, and what failing ones printed."""
    cases: list[results.Case] = []
    for file, block in _binaries(found.output):
        said = _said(block)
        for line in block.splitlines():
            match = _CARGO_TEST.match(line)
            if match is None:
                continue
            status = {"ok": results.PASSED, "FAILED": results.FAILED, "ignored": results.SKIPPED}[match[2]]
            text = said.get(match[1], "")
            reason = ""
            if status == results.FAILED:
                reason = plain_reason(text)
                if reason in (results.OTHER, results.SYNTAX) and "panicked at" in text:
                    reason = results.RAISED
            cases.append(found.case(file, match[1], status, reason, text))
    for words, path in _RUST_ERROR.findall(found.output):
        if found.output.find("could not compile") >= 0 and not any(
            case.file == path and not case.name for case in cases
        ):
            reason = plain_reason(words, building=True)
            cases.append(found.case(path, "", results.ERROR, reason, words))
    if not cases and "running 0 tests" not in found.output:
        raise Unreadable("cargo printed no tests")
    return cases


def _binaries(output: str) -> list[tuple[str, str]]:
    """The output by test binary: the source file each was built from, and what it printed."""
    marks = list(_CARGO_BINARY.finditer(output))
    ends = [*(mark.start() for mark in marks[1:]), len(output)][: len(marks)]
    return [(mark[1] or f"doc {mark[2]}", output[mark.end() : end]) for mark, end in zip(marks, ends, strict=True)]


def _said(block: str) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in block.splitlines():
        match = _CARGO_SAID.match(line)
        if match:
            current = found.setdefault(match[1], [])
        elif line.startswith("failures:"):
            current = None
        elif current is not None:
            current.append(line)
    return {name: "\n".join(lines).strip() for name, lines in found.items()}


_PATH = re.compile(r"[\w./@-]+\.(?:[cm]?[jt]sx?|php|cs|fs|rb|py|java|kt)\b")


def nothing_ran(found: RunOutput) -> list[results.Case]:
    """It always writes results: without them nothing is known."""
    raise Unreadable(f"{found.suite.framework} wrote no results")


def not_built(found: RunOutput) -> list[results.Case]:
    """It writes nothing when one file does not build: the test file its words name is the one."""
    return _broken(found, lambda: plain_reason(found.output, building=True))


def not_loaded(found: RunOutput) -> list[results.Case]:
    """The same for scripts, which are not built but loaded."""
    return _broken(found, lambda: script_reason(found.output, loading=True, is_test=found.tests))


def _broken(found: RunOutput, why: Callable[[], str]) -> list[results.Case]:
    for match in _PATH.finditer(found.output):
        path = found.path(match[0].removeprefix("@").removeprefix("./"))  # mocha says: SyntaxError[ @/path ]
        if found.is_test(path) and os.path.isfile(os.path.join(found.top, path)):
            words = [line for line in found.output.splitlines() if re.search(r"error", line, re.IGNORECASE)]
            return [found.case(path, "", results.ERROR, why(), "\n".join(words[:5]))]
    return nothing_ran(found)


# --- results in XML: JUnit's form, with each framework's habits, and .NET's own

_STATUS = {
    "failure": results.FAILED,
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
        self.name = case.get("name") or ""
        self.owner = case.get("classname") or suite
        self.seconds = float((case.get("time") or "0").replace(",", ""))
        self.file = case.get("file") or ""  # of no schema, but everybody's
        marks = [mark for mark in case.iter() if mark.tag in _STATUS]
        marks.sort(key=lambda mark: mark.tag != "skipped")  # node's todo is skipped, then failed
        first = marks[0] if marks else None
        self.status = _STATUS[first.tag] if first is not None else results.PASSED
        self.message = (first.get("message") or "") if first is not None else ""
        self.kind = (first.get("type") or "") if first is not None else ""
        self.text = (first.text or "") if first is not None else ""

    @property
    def bad(self) -> bool:
        return self.status in (results.FAILED, results.ERROR)


def _cases(found: RunOutput) -> Iterator[_One]:
    from xml.etree import ElementTree as ET

    for path in found.files:
        try:
            root = ET.parse(path).getroot()  # noqa: S314 - what the tests of the project wrote, in their own sandbox
        except (ET.ParseError, ValueError, OSError) as error:
            raise Unreadable(f"{os.path.basename(path)} is not JUnit XML: {error}") from None
        if root.tag not in {"testsuite", "testsuites"}:
            raise Unreadable(f"{os.path.basename(path)} is not JUnit XML: it begins with <{root.tag}>")
        for suite, element in _nested(root):
            yield _One(element, suite)


def _nested(element: Any) -> list[tuple[str, Any]]:
    """Every case with its suite's name: suites nest, and cases stand outside of them."""
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

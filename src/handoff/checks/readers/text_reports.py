"""Results on standard output (`go test -json`, cargo's lines), and what it means that a run left no result file."""

from __future__ import annotations

import json
import os
import re

from handoff.base.record import TYPE_CHECKING
from handoff.checks import results
from handoff.checks.readers.reasons import plain_reason, script_reason
from handoff.checks.results import RunOutput, Unreadable
from handoff.checks.suite import text_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

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

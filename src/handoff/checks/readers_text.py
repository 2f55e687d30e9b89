"""Results on standard output: `go test -json` line by line, and cargo's words, which have a stable form."""

from __future__ import annotations

import json
import re

from handoff.base.record import TYPE_CHECKING
from handoff.checks import results
from handoff.checks.readers_found import Found, Unreadable
from handoff.checks.reasons import plain_reason

if TYPE_CHECKING:
    from typing import Any

_GO = {"pass": results.PASSED, "fail": results.FAILED, "skip": results.SKIPPED}
_CARGO_BINARY = re.compile(r"^\s+(?:Running (?:unittests )?(\S+)|Doc-tests (\S+))", re.MULTILINE)
_CARGO_TEST = re.compile(r"^test (.+?)(?: - should panic)? \.\.\. (ok|FAILED|ignored)(?:, .*)?$")
_CARGO_SAID = re.compile(r"^---- (.+?) stdout ----$")
_RUST_ERROR = re.compile(r"^(error(?:\[E\d+\])?: [^\n]*)\n\s+--> ([^\s:]+):\d+", re.MULTILINE)


def go(found: Found) -> list[results.Case]:
    """Events of `go test -json`; a package that does not build is a case without a name."""
    texts: dict[tuple[str, str], list[str]] = {}
    ended: dict[tuple[str, str], tuple[str, float]] = {}
    loose: list[str] = []
    for line in found.output.splitlines():
        event = _event(line)
        if event is None:
            loose.append(line)
            continue
        key = (event.get("Package") or event.get("ImportPath", "").partition(" ")[0], event.get("Test", ""))
        action = event.get("Action", "")
        if action in ("output", "build-output"):
            texts.setdefault(key, []).append(event.get("Output", ""))
        elif action in _GO:
            ended[key] = (_GO[action], float(event.get("Elapsed") or 0))
    if not ended and found.output.strip() and not texts:
        raise Unreadable("go printed no test events")
    cases = []
    for (package, test), (status, seconds) in ended.items():
        text = "".join(texts.get((package, test), ()))
        if test and not _is_parent(ended, package, test):
            reason = plain_reason(_go_words(text)) if status == results.FAILED else ""
            if status == results.FAILED and reason == results.OTHER:
                reason = results.RAISED if "panic:" in text else results.ASSERTION  # t.Error is go's assertion
            message = _go_words(text) if status == results.FAILED else ""
            cases.append(_case(found, package, test, status, (reason, message, seconds)))
        elif (not test and status == results.FAILED and "[build failed]" in text) or "[setup failed]" in text:
            words = "\n".join(loose) + text
            cases.append(_case(found, package, "", results.ERROR, (plain_reason(words, building=True), words.strip(), seconds)))  # fmt: skip
    return cases


def _event(line: str) -> dict[str, Any] | None:
    if not line.startswith("{"):
        return None
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) and "Action" in value else None


def _is_parent(ended: dict[tuple[str, str], Any], package: str, test: str) -> bool:
    return any(other.startswith(f"{test}/") for owner, other in ended if owner == package)


def _go_words(text: str) -> str:
    return "\n".join(
        line for line in text.splitlines() if not line.lstrip().startswith(("=== ", "--- ", "FAIL", "PASS"))
    )


def cargo(found: Found) -> list[results.Case]:
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
                reason = (
                    results.RAISED if reason in (results.OTHER, results.SYNTAX) and "panicked at" in text else reason
                )
            cases.append(_case(found, file, match[1], status, (reason, text, 0.0)))
    for words, path in _RUST_ERROR.findall(found.output):
        if found.output.find("could not compile") >= 0 and not any(
            case.file == path and not case.name for case in cases
        ):
            reason = plain_reason(words, building=True)
            cases.append(_case(found, path, "", results.ERROR, (reason, words, 0.0)))
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


def _case(found: Found, file: str, name: str, status: str, rest: tuple[str, str, float]) -> results.Case:
    reason, message, seconds = rest
    return results.case(
        found.suite.name, file=file, name=name, status=status, reason=reason, message=message, seconds=seconds
    )

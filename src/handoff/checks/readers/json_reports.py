"""Results in the frameworks' own JSON, and in that of our two small reporters."""

from __future__ import annotations

import json
import re

from handoff.base.record import TYPE_CHECKING
from handoff.checks import results
from handoff.checks.readers.reasons import plain_reason, python_reason, script_reason
from handoff.checks.results import RunOutput, Unreadable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
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

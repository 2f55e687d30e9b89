"""The readers by name: what a framework wrote becomes cases."""

from __future__ import annotations

import os
import re

from handoff.base.record import TYPE_CHECKING
from handoff.checks import results
from handoff.checks.readers import json_reports as own
from handoff.checks.readers import text_reports as text
from handoff.checks.readers import xml_reports as xml
from handoff.checks.readers.found import RunOutput, Unreadable
from handoff.checks.readers.reasons import plain_reason, script_reason

_PRINTED = ("go", "cargo", "java")  # these say on standard output what they have to say
_SILENT = ("mocha", "junit", "trx")
_PATH = re.compile(r"[\w./@-]+\.(?:[cm]?[jt]sx?|php|cs|fs|rb|py|java|kt)\b")

if TYPE_CHECKING:
    from collections.abc import Callable

    from handoff.checks.results import Case


def read(found: RunOutput) -> tuple[Case, ...]:
    """The cases of a run, each id once."""
    cases: dict[str, Case] = {}
    for case in _listed(found):
        known = cases.get(case.id)
        if known is None:
            cases[case.id] = case
            continue
        number = 2  # two tests of one name: the second is told apart by its place
        while f"{case.id}#{number}" in cases:
            number += 1
        cases[f"{case.id}#{number}"] = case._replace(id=f"{case.id}#{number}")
    return tuple(cases.values())


def _listed(found: RunOutput) -> list[Case]:
    if found.files or found.suite.results in _PRINTED:
        try:
            return _reader(found.suite.results)(found)
        except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
            # What runs the tests writes the results: whatever stands there must not stop whoever judges them.
            raise Unreadable(f"the results of {found.suite.framework} have a shape of their own: {error!r}") from None
    broken = _unloaded(found) if found.suite.results in _SILENT else []
    if not broken:
        raise Unreadable(f"{found.suite.framework} wrote no results")
    return broken


def _unloaded(found: RunOutput) -> list[Case]:
    """Some frameworks write nothing when one file does not load: the test file their words name is the one."""
    for match in _PATH.finditer(found.output):
        path = found.path(match[0].removeprefix("./"))
        if found.is_test(path) and os.path.isfile(os.path.join(found.top, path)):
            if found.suite.results == "mocha":
                reason = script_reason(found.output, loading=True, is_test=found.tests)
            else:
                reason = plain_reason(found.output, building=True)
            words = [line for line in found.output.splitlines() if re.search(r"error", line, re.IGNORECASE)]
            message = "\n".join(words[:5])
            return [
                results.case(found.suite.name, file=path, name="", status=results.ERROR, reason=reason, message=message)
            ]
    return []


def _reader(name: str) -> Callable[[RunOutput], list[Case]]:
    """The reader of that name; each stands in a file that is imported for it alone."""
    if name in ("pytest", "junit", "java", "trx"):
        return {"pytest": xml.pytest, "junit": xml.junit, "java": xml.java, "trx": xml.trx}[name]
    if name in ("go", "cargo"):
        return {"go": text.go, "cargo": text.cargo}[name]
    return {"unittest": own.unittest, "node": own.node, "jest": own.jest, "mocha": own.mocha, "rspec": own.rspec}[name]

"""The readers by name: what a framework wrote becomes cases."""

from __future__ import annotations

from handoff.base.record import TYPE_CHECKING
from handoff.checks.readers_found import Found, Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable

    from handoff.checks.results import Case


def read(found: Found) -> tuple[Case, ...]:
    """The cases of a run, each id once."""
    reader = _reader(found.suite.results)
    if found.suite.results not in ("go", "cargo", "java") and not found.files:
        raise Unreadable(f"{found.suite.framework} wrote no results")
    cases: dict[str, Case] = {}
    for case in reader(found):
        known = cases.get(case.id)
        if known is None:
            cases[case.id] = case
            continue
        number = 2  # two tests of one name: the second is told apart by its place
        while f"{case.id}#{number}" in cases:
            number += 1
        cases[f"{case.id}#{number}"] = case._replace(id=f"{case.id}#{number}")
    return tuple(cases.values())


def _reader(name: str) -> Callable[[Found], list[Case]]:
    """The reader of that name; each stands in a file that is imported for it alone."""
    if name in ("pytest", "junit", "java", "trx"):
        from handoff.checks import readers_xml as xml  # noqa: PLC0415 - start-up

        return {"pytest": xml.pytest, "junit": xml.junit, "java": xml.java, "trx": xml.trx}[name]
    if name in ("go", "cargo"):
        from handoff.checks import readers_text as text  # noqa: PLC0415 - start-up

        return {"go": text.go, "cargo": text.cargo}[name]
    from handoff.checks import readers_json as own  # noqa: PLC0415 - start-up

    return {"unittest": own.unittest, "node": own.node, "jest": own.jest, "mocha": own.mocha, "rspec": own.rspec}[name]

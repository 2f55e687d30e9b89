"""The second opinion on a test: the same function as plain code, without a runner, must raise nothing."""

from __future__ import annotations

import ast
import random

from handoff.base.record import TYPE_CHECKING
from handoff.checks.findings import Finding, named_finding

if TYPE_CHECKING:
    from collections.abc import Sequence

    from handoff.checks.results import Report

UNDER_TEST = "right-only-under-test"
_LETTERS = tuple("abcdefghiklmnoprstuvwz")
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


def judge_opinions(asked: Sequence[str], reports: Sequence[Report]) -> list[Finding]:
    """A test that passes under its runner and fails as plain code; one that could not be asked is told."""
    said = {case.id: case for report in reports for case in report.cases}
    wrong = [name for name in asked if name in said and said[name].bad and said[name].reason not in _ELSEWHERE]
    findings = []
    if wrong:
        findings.append(
            named_finding(UNDER_TEST, "passes under the test runner and fails as plain code without it", wrong)
        )
    return findings

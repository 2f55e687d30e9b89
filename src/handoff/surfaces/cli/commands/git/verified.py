"""What `record verify` found, for a pull request: a table for the job's summary, and SARIF for the Files tab."""

from __future__ import annotations

import json

from handoff import __version__
from handoff.base.files import write_atomic
from handoff.base.record import TYPE_CHECKING
from handoff.checks.suite import plain_command
from handoff.engine.outcome import reviews
from handoff.engine.place.proof import git_notes

if TYPE_CHECKING:
    from typing import Any

    from handoff.engine.app import App
    from handoff.engine.outcome.reviews import DoubtfulTest
    from handoff.engine.place.proof.git_notes import Compared

_RULES = {
    "record-differs": "A recorded check says something else when it is run again on the exact tree.",
    "not-recorded": "Nobody has recorded a check of this commit.",
    "weak-test": "A test was weakened, or asks nothing.",
}
_MARKS = {git_notes.SAME: "✅", git_notes.DIFFERS: "❌", git_notes.NOT_RECORDED: "⚠️", git_notes.NO_CHECK: "·"}


def write(app: App, found: list[Compared], *, sarif: str, summary: str) -> None:
    """Write one of the files, or both."""
    doubts = [doubt for one in found for doubt in reviews.doubts_of(app, commit=one.commit.commit)]
    if sarif:
        write_atomic(sarif, json.dumps(_sarif(found, doubts), indent=2) + "\n")
    if summary:
        with open(summary, "a", encoding="utf-8") as file:  # a job's summary may have words of others already
            file.write(_summary(found, doubts))


def _summary(found: list[Compared], doubts: list[DoubtfulTest]) -> str:
    lines = ["## Records of handoff, verified again", "", "| | commit | record | why |", "|---|---|---|---|"]
    for one in found:
        said = [one.why] if one.why else []
        said += [
            f"`{plain_command(check.recorded.command)}`: {'; '.join(check.differences) or 'the same again'}"
            for check in one.checks
        ]
        cells = (_MARKS[one.outcome], f"`{one.commit.commit[:10]}` {one.commit.subject}", one.outcome, "; ".join(said))
        lines.append("| " + " | ".join(map(_cell, cells)) + " |")
    if doubts:
        lines += ["", "Tests to look at:", ""]
        lines += [_cell(f"- `{one.path}:{one.line}` {one.message}") for one in doubts]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    """Words of commits are text here, whatever they hold."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def _sarif(found: list[Compared], doubts: list[DoubtfulTest]) -> dict[str, Any]:
    results = [
        _result(
            "record-differs", "error", f"{one.commit.commit[:10]}: {plain_command(check.recorded.command)}: {words}"
        )
        for one in found
        for check in one.checks
        for words in check.differences
    ]
    results += [
        _result("not-recorded", "warning", f"{one.commit.commit[:10]} {one.commit.subject}: {one.why}")
        for one in found
        if one.outcome == git_notes.NOT_RECORDED
    ]
    results += [_result("weak-test", "warning", one.message, path=one.path, line=one.line) for one in doubts]
    rules = [{"id": name, "shortDescription": {"text": text}} for name, text in _RULES.items()]
    driver = {"name": "handoff", "version": __version__, "rules": rules}
    return {"version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}


def _result(rule: str, level: str, text: str, *, path: str = ".", line: int = 1) -> dict[str, Any]:
    place = {"artifactLocation": {"uri": path, "uriBaseId": "%SRCROOT%"}, "region": {"startLine": line}}
    return {"ruleId": rule, "level": level, "message": {"text": text}, "locations": [{"physicalLocation": place}]}

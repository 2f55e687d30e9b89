"""A review as the board shows it."""

from __future__ import annotations

from handoff.base.record import TYPE_CHECKING
from handoff.surfaces.cli.commands.board.text import clean

if TYPE_CHECKING:
    from handoff.engine.clients.review import TaskReview

_DIFF_STYLES = {"+": "good", "-": "bad", "@": "moving"}


def review_lines(found: TaskReview, question: str) -> tuple[list[tuple[str, str]], list[int]]:
    """A review as lines, and where each file begins: what speaks against it comes first."""
    lines: list[tuple[str, str]] = []
    if found.gate is not None:
        lines += [(f" {clean(question)}", "strong")]
        lines += [(f" {clean(line)}", "") for line in found.gate.question.splitlines()[1:]]
        lines += (
            [("", ""), *((f"   {clean(line)}", "") for line in found.gate.subject.splitlines())]
            if found.gate.subject
            else []
        )
        if found.gate.state != "open":
            lines.append((f" It was {found.gate.state} by {found.gate.answered_by or 'somebody'}.", "warn"))
    lines += [("", ""), (" CHECKS", "strong")]
    lines += [(f"   {clean(line)}", "good" if line.startswith("green") else "bad") for line in found.checks]
    lines += [] if found.checks else [("   none was run for it yet", "dim")]
    if found.weakened:
        lines += [("", ""), (f" WEAKENED, SKIPPED OR REMOVED TESTS {len(found.weakened)}", "bad")]
        lines += [(f"   {clean(line)}", "bad") for line in found.weakened]
    lines += [("", ""), (f" FILES {len(found.files)}", "strong")]
    lines += [(f"   {found.trouble}", "warn")] if found.trouble else []
    lines += [(f"   {clean(one.path)}  +{one.added} -{one.removed}", "") for one in found.files]
    starts = []
    for one in found.files:
        starts.append(len(lines) + 1)
        lines += [("", ""), (f" {clean(one.path)}  +{one.added} -{one.removed}", "title")]
        lines += [(f" {clean(line)}", _DIFF_STYLES.get(line[:1], "")) for line in one.lines]
    return lines, starts

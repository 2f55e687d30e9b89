"""Extra arguments for an agent, with the task's names filled in: one word can name a script for each task."""

from __future__ import annotations

from handoff.base.record import TYPE_CHECKING
from handoff.board.tasks.tasks import PARTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from handoff.board.tasks.tasks import Task


def fill_in(words: Sequence[str], task: Task) -> tuple[str, ...]:
    """`{task}`, `{part}` (the task without its batch), `{attempt}` and, in a flow, `{flow}`, `{cycle}` and `{phase}` stand for what they say.

    A part is told with its batch (`split/one`), because another batch may have a part of that name.
    """
    cycle, _, phase = task.id.partition("-")
    names = {
        "{task}": task.label if task.kind in PARTS else task.id,
        "{part}": task.id,
        "{attempt}": str(task.attempt),
        "{flow}": task.scope,
        "{cycle}": cycle,
        "{phase}": phase,
    }
    found = []
    for word in words:
        for name, value in names.items():
            word = word.replace(name, value)  # noqa: PLW2901 - one word, filled name by name
        found.append(word)
    return tuple(found)

"""The states of a task and the moves between them: one table, nothing else."""

from __future__ import annotations

WAITING = "waiting"
"""Something it needs is not done, or its batch is not whole."""
READY = "ready"
"""Anybody may claim it."""
RUNNING = "running"
"""A session holds it."""
GATED = "gated"
"""A person is asked for a yes or a no."""
BLOCKED = "blocked"
"""It cannot go on by itself; the reason is in the row."""
DONE = "done"
CANCELLED = "cancelled"

MOVES: dict[str, tuple[str, ...]] = {
    WAITING: (READY, GATED, BLOCKED, DONE, CANCELLED),
    READY: (WAITING, RUNNING, GATED, BLOCKED, DONE, CANCELLED),
    RUNNING: (READY, GATED, BLOCKED, DONE, CANCELLED),
    GATED: (WAITING, READY, BLOCKED, DONE, CANCELLED),
    BLOCKED: (READY, WAITING, GATED, DONE, CANCELLED),
    DONE: (WAITING, READY, GATED),  # a fan-in, when a part comes after it; a part that is sent back
    CANCELLED: (),
}
STATES = tuple(MOVES)
ENDED = (DONE, CANCELLED)
LIVE = tuple(state for state in STATES if state not in ENDED)


def may_move(before: str, after: str) -> bool:
    """Whether the table allows it."""
    return after in MOVES[before]

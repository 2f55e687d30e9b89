"""What waits for its provider or its ground, as lists and pictures show it."""

from __future__ import annotations

from handoff.base.clock import stamp
from handoff.base.record import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from handoff.board.sessions.holds import Hold
    from handoff.board.tasks.tasks import Task
    from handoff.surfaces.cli.command import Context

AGENT = "agent"


def hold_data(held: Hold | None) -> dict[str, Any] | None:
    """A hold for programs; nothing for nothing."""
    return held and {**held._asdict(), "at": stamp(held.at), "until": stamp(held.until)}


def by_task(holds: Iterable[Hold], tasks: Iterable[Task]) -> dict[int, Hold]:
    """The holds of these tasks, as far as nobody works on them."""
    found = {held.name: held for held in holds if held.kind != AGENT}
    return {task.key: found[str(task.key)] for task in tasks if task.state == "ready" and str(task.key) in found}


def tell_agents(ctx: Context, holds: Iterable[Hold]) -> None:
    """One line for each agent that is not started for now."""
    for held in holds:
        if held.kind == AGENT:
            ctx.out.line(f"Agent {held.name} on {held.host} is held {held.words}", "warn")


def tell_of_task(ctx: Context, task: Task, holds: Iterable[Hold]) -> None:
    """Why a ready task is not started, and what mends it."""
    for held in holds:
        who = f"agent {held.name} on {held.host}" if held.kind == AGENT else f"'{task.label}'"
        ctx.out.line(f"  held: {who} {held.words}", "warn")

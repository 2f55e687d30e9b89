"""`status --follow`: one live line until the plan is complete, redrawn when it changes."""

from __future__ import annotations

from contextlib import suppress

from handoff.base.errors import HandoffError
from handoff.base.record import TYPE_CHECKING
from handoff.base.settings import terminal_width
from handoff.engine.features import status
from handoff.feature.plan import plan as plans
from handoff.surfaces.cli.overview import fit

if TYPE_CHECKING:
    from collections.abc import Callable

    from handoff.engine.features.status import View
    from handoff.surfaces.cli.command import Context

_BAR = 20
_PAUSE = 0.5


def follow(ctx: Context, show: Callable[[Context, View], None]) -> int:
    """Stay until the plan is complete. A half-written file is shown as such and read again, never the end."""
    view = status.look(ctx.app)  # what is wrong from the start is an error, as without --follow
    name = view.feature.name
    app = ctx.app.with_feature(name)  # another terminal may switch; this one stays with its feature
    line = ""
    while True:
        with suppress(HandoffError):  # between two writes of an editor the file may be away or cut
            view = status.look(app)
        if view.plan.verdict == plans.COMPLETE:
            if line and ctx.out.person and not ctx.out.json_wanted:
                ctx.out.redraw("", over=True)
            show(ctx._replace(app=app), view)
            return 0
        fresh = _line(view, terminal_width(ctx.settings))
        if fresh != line:
            _draw(ctx, line, fresh)
            line = fresh
        app.clock.sleep(_PAUSE)


def _line(view: View, width: int) -> str:
    plan = view.plan
    total = len(plan.marks)
    filled = round(_BAR * plan.done / total) if total else 0
    bar = "#" * filled + "." * (_BAR - filled)
    if plan.verdict == plans.INVALID:
        text = f"STATE.md line {plan.problems[0].line}: {plan.problems[0].fault}"
    elif plan.current is not None:
        text = plan.current.text
    else:
        text = plan.guard
    return fit(f"[{bar}] {plan.done}/{total}  {text}", width - 1)


def _draw(ctx: Context, before: str, line: str) -> None:
    if ctx.out.json_wanted:
        return
    if ctx.out.person:
        ctx.out.redraw(line, over=bool(before))
    else:
        ctx.out.raw(line + "\n")

"""The review limit: while as many tasks of a project wait for a person's look as they wish, nothing new of it starts by itself."""

from __future__ import annotations

from handoff.base.record import TYPE_CHECKING
from handoff.board.sessions import pauses
from handoff.board.tasks import decisions
from handoff.engine.home import home_config

if TYPE_CHECKING:
    from handoff.engine.app import App


def stop_or_resume(app: App, project: str) -> None:
    """Stop the project at its limit, and let it go on below it."""
    limit = int(home_config(app).number("max_reviews"))
    scope = {"scope": pauses.PROJECT, "project": project, "name": pauses.REVIEWS}
    with app.database.transaction() as transaction:
        if len(decisions.in_review(transaction, project=project)) >= limit:
            why = f"{limit} or more finished tasks wait for your review"
            pauses.pause(transaction, **scope, reason=why, paused_by="the review limit")
        else:
            pauses.resume(transaction, **scope)


def look(app: App) -> None:
    """Let go on what stands at no limit any more: a task was taken back, or the setting was raised."""
    for stop in pauses.listing(app.database):
        if stop.name == pauses.REVIEWS and stop.scope == pauses.PROJECT:
            stop_or_resume(app, stop.project)

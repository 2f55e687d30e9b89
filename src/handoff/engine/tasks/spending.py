"""What a day may cost: sessions that run go on, and no new one begins until there is money again."""

from __future__ import annotations

from handoff.base.errors import Refused
from handoff.base.record import TYPE_CHECKING
from handoff.board.sessions import expenses
from handoff.engine.home import home_config

if TYPE_CHECKING:
    from handoff.base.settings import Config
    from handoff.engine.app import App


def spent_up(app: App, config: Config | None = None) -> str:
    """Why nothing may start now, or nothing."""
    limit = (config or home_config(app)).number("max_cost_per_day")
    if not limit:
        return ""
    spent = expenses.of_a_day(app.database)
    if spent < limit:
        return ""
    return f"the sessions of the last 24 hours cost {spent:.2f} USD, and max_cost_per_day is {limit:g}"


def refuse_spent_up(app: App, config: Config) -> None:
    """For a person who starts a session by hand."""
    why = spent_up(app, config)
    if why:
        raise Refused(f"No session may start: {why}.", "Wait, or raise max_cost_per_day in config.toml of the home.")

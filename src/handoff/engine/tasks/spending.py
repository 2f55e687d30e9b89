"""What a day, a batch and a task may cost: sessions that run go on, and no new one begins until there is money again."""

from __future__ import annotations

from handoff.agents.usage import Prices
from handoff.base.errors import Refused
from handoff.base.record import TYPE_CHECKING
from handoff.board.sessions import expenses
from handoff.engine.home import home_config
from handoff.engine.proof.faults import GroundFault

if TYPE_CHECKING:
    from handoff.base.settings import Config
    from handoff.board.tasks.tasks import Task
    from handoff.engine.app import App


def prices_of(config: Config) -> Prices:
    """What tokens cost: the person's own prices first."""
    return Prices(config.values["price"], where=config.path)


def spent_up(app: App, config: Config | None = None) -> str:
    """Why nothing may start now, or nothing."""
    limit = (config or home_config(app)).number("max_cost_per_day")
    spent = expenses.of_a_day(app.database) if limit else 0.0
    return _over("the sessions of the last 24 hours", spent, "max_cost_per_day", limit)


def refuse_spent_up(app: App, config: Config) -> None:
    """For a person who starts a session by hand."""
    why = spent_up(app, config)
    if why:
        raise Refused(f"No session may start: {why}.", "Wait, or raise max_cost_per_day in config.toml of the home.")


def refuse_spent_up_task(app: App, config: Config, task: Task) -> None:
    """Before each session of a task: what its earlier ones have cost, however they ended, and what its batch has."""
    for what, setting, key, batch in (
        (f"the sessions of '{task.label}'", "max_cost_per_task", task.key, 0),
        ("the sessions of its batch", "max_cost_per_batch", 0, task.batch or 0),
    ):
        limit = config.number(setting)
        if limit and (key or batch):
            spent = sum(one.money for one in expenses.by_agent(app.database, task=key, batch=batch))
            why = _over(what, spent, setting, limit)
            if why:
                raise GroundFault(
                    f"'{task.label}' may not start: {why}.",
                    f"Raise {setting} in {config.path}, then: {app.settings.program} retry {task.label}",
                )


def _over(what: str, spent: float, setting: str, limit: float) -> str:
    return f"{what} cost {spent:.2f} USD, and {setting} is {limit:g}" if 0 < limit <= spent else ""

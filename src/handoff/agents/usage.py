"""What a session has used and what that costs: tokens as its client tells them, money as the client, a setting or a list says.

A client tells its tokens with each answer, once at its end, or only in the record that it keeps of the conversation. A session that
is killed never comes to its end, so the record is followed as well. What is told twice counts once."""

from __future__ import annotations

import os

from handoff.agents.contract import TOTAL, AgentEvent, Usage
from handoff.base.errors import ConfigError
from handoff.base.record import TYPE_CHECKING, Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

SAID, LISTED, UNKNOWN = "said", "listed", "unknown"
"""Whence a cost is known: from the client itself; from the setting `price` or the list; or not, or not for all of it."""
_MILLION = 1_000_000
_WRITTEN = 1.25  # what goes into a cache costs a quarter more, where a provider charges for it at all
_BOUNDS = "-@:["
_NAMES = ("input", "cached", "output")


class Bill(Record):
    """What a session has used until now, and what that costs as far as it is known."""

    models: tuple[str, ...] = ()
    input: int = 0
    cached: int = 0
    output: int = 0
    reasoning: int = 0
    money: float = 0.0
    basis: str = UNKNOWN


class Book:
    """What one session used: what its answers said, what it told of itself as a whole, and what its own record says."""

    def __init__(self) -> None:
        self._answers: dict[str, Usage] = {}
        self._totals: dict[str, Usage] = {}
        self._recorded: dict[str, Usage] = {}
        self._model = ""

    def hear(self, event: AgentEvent) -> None:
        """Something that the client printed."""
        if event.use is not None:
            self._put(self._totals if event.kind == TOTAL else self._answers, event.use)

    def copy(self, uses: Iterable[Usage]) -> None:
        """Something that the client wrote into its own record."""
        for use in uses:
            self._put(self._recorded, use)

    def _put(self, page: dict[str, Usage], use: Usage) -> None:
        self._model = use.model or self._model
        if use.tokens or use.money is not None:
            page[use.key or f"#{len(page)}"] = use._replace(model=use.model or self._model)

    def uses(self) -> list[Usage]:
        """What counts, one line for each model.

        The client's own total is the whole of it, unless the session went on after that; its record has more than what it printed.
        """
        page = max((self._totals, self._recorded), key=_tokens)
        found: dict[str, Usage] = {}
        for use in (page or self._answers).values():
            before = found.get(use.model)
            found[use.model] = _sum(before, use) if before is not None else use
        return list(found.values())

    def bill(self, prices: Prices, *, agent: str) -> Bill | None:
        """All of it with its price; None when nothing was told."""
        uses = self.uses()
        if not uses:
            return None
        costs = [prices.cost(use, agent=agent) for use in uses]
        said = all(use.money is not None for use in uses)
        return Bill(
            models=tuple(use.model for use in uses if use.model),
            input=sum(use.input for use in uses),
            cached=sum(use.cached for use in uses),
            output=sum(use.output for use in uses),
            reasoning=sum(use.reasoning for use in uses),
            money=sum(cost or 0.0 for cost in costs),
            basis=UNKNOWN if None in costs else SAID if said else LISTED,
        )


def _tokens(page: dict[str, Usage]) -> int:
    return sum(use.tokens for use in page.values())


def _sum(one: Usage, other: Usage) -> Usage:
    money = None if one.money is None or other.money is None else one.money + other.money
    counts = {name: getattr(one, name) + getattr(other, name) for name in (*_NAMES, "reasoning", "written")}
    return one._replace(money=money, **counts)


class Prices:
    """What tokens cost: the person's own prices by model or agent, then the list that comes with handoff."""

    def __init__(self, own: Mapping[str, Any] | None = None, *, where: str = "config.toml") -> None:
        self._own = {name: _checked(name, value, where) for name, value in (own or {}).items()}
        self._list: dict[str, tuple[float, ...]] | None = None

    def cost(self, use: Usage, *, agent: str) -> float | None:
        """What a use costs in US dollars: as the client says, else by its price; None when nobody knows."""
        if use.money is not None:
            return use.money
        price = self.of(use.model, agent=agent)
        if price is None:
            return None
        of_input, of_cached, of_output = price
        paid = (use.input + use.written * (_WRITTEN - 1)) * of_input + use.cached * of_cached + use.output * of_output
        return paid / _MILLION

    def of(self, model: str, *, agent: str) -> tuple[float, ...] | None:
        """Input, cached input and output of a model, per million tokens."""
        found = _longest(self._own, model) or self._own.get(agent)
        if found is None and model:
            if self._list is None:
                self._list = _listed()
            found = _longest(self._list, model)
        return found


def _longest(prices: Mapping[str, tuple[float, ...]], model: str) -> tuple[float, ...] | None:
    """The price of the longest name that the model begins with; a provider before a slash is no part of its name."""
    names = {model, model.rpartition("/")[2]} - {""}
    fits = [name for name in prices for one in names if one.startswith(name) and one[len(name) :][:1] in ("", *_BOUNDS)]
    return prices[max(fits, key=len)] if fits else None


def _checked(name: str, value: Any, where: str) -> tuple[float, ...]:
    amounts: list[Any] = [value.get(key) for key in _NAMES] if isinstance(value, dict) else [None]
    if isinstance(value, dict) and "cached" not in value:
        amounts[1] = value.get("input")
    good = all(isinstance(one, int | float) and not isinstance(one, bool) and one >= 0 for one in amounts)
    if not good or set(value) - set(_NAMES):
        raise ConfigError(
            f"{where}: price.{name} must say what a million tokens cost in US dollars.",
            f'For example: price = {{ "{name}" = {{ input = 1.25, cached = 0.125, output = 10 }} }}',
        )
    return tuple(float(one) for one in amounts)


def _listed() -> dict[str, tuple[float, ...]]:
    from tomllib import load

    with open(os.path.join(os.path.dirname(__file__), "prices.toml"), "rb") as file:
        return {name: tuple(map(float, amounts)) for name, amounts in load(file)["prices"].items()}

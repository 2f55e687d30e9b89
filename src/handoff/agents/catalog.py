"""The agents by name: ours, those of other packages (entry points `handoff.agents`), and commands from the settings."""

from __future__ import annotations

from importlib import import_module

from handoff.agents.adapters.command import made_from
from handoff.agents.contract import Adapter
from handoff.base.errors import ConfigError, UserError
from handoff.base.record import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

GROUP = "handoff.agents"
OURS = {name: name for name in "claude codex gemini copilot opencode aider acp scripted person".split()}
"""The name people say, and the module's name."""


def adapter(name: str, *, commands: Mapping[str, Any] | None = None, where: str = "config.toml") -> Adapter:
    """The adapter of that name; a command of the person's own wins over a package, ours over both."""
    if name in OURS:
        found: Adapter = import_module(f"handoff.agents.adapters.{OURS[name]}").ADAPTER
        return found
    if commands and name in commands:
        return _command(name, commands[name], where)
    for point in _points():
        if point.name == name:
            return _loaded(point)
    known = ", ".join(names(commands=commands))
    raise UserError(f"There is no agent '{name}'.", f"Known agents: {known}. A command of yours: docs/howto/agents.md")


def names(*, commands: Mapping[str, Any] | None = None) -> list[str]:
    """Every agent that can be named, ours first."""
    return list(dict.fromkeys([*OURS, *sorted(commands or {}), *sorted(point.name for point in _points())]))


def _command(name: str, words: Any, where: str) -> Adapter:
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise ConfigError(
            f"{where}: agents.{name} must be a list of texts, not {words!r}.",
            'For example: agents = { mine = ["my-agent", "--task", "{prompt_file}"] }',
        )
    return made_from(name, words, where=f"{where}: agents.{name}")


def _points() -> list[Any]:
    from importlib.metadata import entry_points

    return list(entry_points(group=GROUP))


def _loaded(point: Any) -> Adapter:
    try:
        found = point.load()
    except (ImportError, AttributeError, SyntaxError) as error:
        raise UserError(
            f"The agent '{point.name}' of {point.value} cannot be loaded: {error}.", "Fix or remove that package."
        ) from error
    if not isinstance(found, Adapter):
        raise UserError(
            f"The agent '{point.name}' of {point.value} is no handoff.agents.contract.Adapter.",
            "See docs/howto/add-an-agent.md.",
        )
    return found

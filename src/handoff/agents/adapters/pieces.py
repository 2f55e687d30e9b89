"""What the adapters of several clients are made of: abilities that came with a version, our tools among its servers, events."""

from __future__ import annotations

from handoff.agents.contract import USAGE, Abilities, AgentEvent, LaunchRequest, Usage, at_least, text_of
from handoff.base.record import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def no_abilities(version: str) -> Abilities:
    """For a client that can nothing of its own: the sandbox, and the comparison afterwards."""
    del version
    return Abilities()


def with_hooks(floor: str, **more: Any) -> Callable[[str], Abilities]:
    """For a client with hooks from version `floor` on, which can be resumed and has our tools; `more` says what differs."""

    def abilities(version: str) -> Abilities:
        able = at_least(version, floor)
        usual = {"start_context": able, "deny_edit": able, "refuse_stop": able, "resume": True, "mcp": True}
        return Abilities(**{**usual, **more})

    return abilities


def new_id(order: LaunchRequest) -> tuple[str, ...]:
    """The id we chose for a fresh conversation, for clients that let us."""
    return ("--session-id", order.client_id) if order.client_id else ()


def model(order: LaunchRequest, flag: str = "--model") -> tuple[str, ...]:
    """The model, if one was asked for."""
    return (flag, order.model) if order.model else ()


def our_server(
    order: LaunchRequest, *, http: dict[str, Any], local: dict[str, Any], both: dict[str, Any]
) -> dict[str, dict[str, Any]]:
    """Our tools among a client's servers: over HTTP where an endpoint answers, else as a program, else nothing."""
    if order.endpoint:
        return {"handoff": {**http, **both}}
    return {"handoff": {**local, **both}} if order.mcp else {}


def as_program(order: LaunchRequest) -> dict[str, Any]:
    """Our tools as most clients name a program: its path, and its arguments apart."""
    return {"command": "".join(order.mcp[:1]), "args": list(order.mcp[1:])}


def event(kind: str, text: Any = "", **values: Any) -> tuple[AgentEvent, ...]:
    """One event, as `read` gives it back; a text is cut to size whatever shape a client gives it."""
    return (AgentEvent(kind=kind, text=text_of(text), **values),)


def usage_event(use: Usage, kind: str = USAGE) -> tuple[AgentEvent, ...]:
    """What was used, if anything was."""
    return event(kind, use=use) if use.tokens or use.money is not None else ()


def part(value: dict[str, Any], name: str) -> dict[str, Any]:
    """The object under a name; an empty one when it is none."""
    found = value.get(name)
    return found if isinstance(found, dict) else {}

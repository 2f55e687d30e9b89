"""The relay's tools over MCP, by standard input and by HTTP."""

from __future__ import annotations

from contextvars import ContextVar

from handoff.base import errors
from handoff.base.record import TYPE_CHECKING

if TYPE_CHECKING:
    from handoff.base.settings import Settings

CALLER: ContextVar[Settings] = ContextVar("caller")
"""Who speaks at the moment: where one server answers many a caller of it, otherwise whoever started it."""


def need() -> None:
    """The library, or an error that says how to get it."""
    errors.need("mcp", "The MCP server")

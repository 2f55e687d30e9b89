"""The hook entries of each client's settings: what a session is started with and what `handoff setup hooks install` writes."""

from __future__ import annotations

from handoff.agents.dialects import COMPACT, DIALECTS, EDIT
from handoff.base.markdown import shell_line
from handoff.base.record import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

SECONDS = 60
_NOT_TRIED = {"copilot": (COMPACT,), "cursor": (COMPACT,)}  # an unknown event name voids Cursor's whole file


def group_hooks(
    command: tuple[str, ...], dialect: str, *, more: tuple[str, ...] = (), every_tool: bool = False
) -> dict[str, Any]:
    """Claude, Codex and Gemini: event, then groups with a matcher, then commands.

    We are asked before edits; `every_tool` has us hear of every call, as a sign of life.
    """
    speech = DIALECTS[dialect]
    entries: dict[str, Any] = {}
    for name, meaning in speech.events.items():
        entry = {
            "type": "command",
            "command": shell_line((*command, dialect, name, *more)),
            "timeout": SECONDS * speech.timeout_scale,
        }
        group: dict[str, Any] = {"hooks": [entry]}
        if meaning == EDIT and not every_tool:
            group = {"matcher": "|".join(speech.edit_tools), "hooks": [entry]}
        entries[name] = [group]
    return entries


def flat(command: tuple[str, ...], dialect: str, *, more: tuple[str, ...] = ()) -> dict[str, Any]:
    """Copilot and Cursor: event, then commands."""
    speech = DIALECTS[dialect]
    entries: dict[str, Any] = {}
    for name, meaning in speech.events.items():
        if meaning in _NOT_TRIED[dialect]:
            continue
        line = shell_line((*command, dialect, name, *more))
        if dialect == "copilot":
            entries[name] = [{"type": "command", "bash": line, "timeoutSec": SECONDS}]
        else:
            entries[name] = [{"command": line, "timeout": SECONDS}]
    return entries

"""Cursor's agent on the command line, by its documentation: the program cannot be driven by a scripted model, so it was not tried.

Its hooks are read from `.cursor/hooks.json` of the project or of the person and from nowhere else, so a session has those that
`handoff setup hooks install --agent cursor` wrote; they know the session by its environment.
"""

from __future__ import annotations

from handoff.agents.adapters.pieces import answer_event, call_event, event, model, part
from handoff.agents.contract import RESULT, SAID, STARTED, Abilities, Adapter, AgentEvent, Launch, parse_line
from handoff.base.record import TYPE_CHECKING

if TYPE_CHECKING:
    from handoff.agents.contract import LaunchRequest

_ALONE = "--output-format stream-json --force --trust --approve-mcps".split()


def abilities(version: str) -> Abilities:
    """It can be resumed; nothing that was not tried is promised."""
    del version
    return Abilities(resume=True)


def launch(order: LaunchRequest) -> Launch:
    """A fresh session."""
    return _launch(order, ())


def resume(order: LaunchRequest) -> Launch:
    """The same conversation once more."""
    return _launch(order, ("--resume", order.client_id))


def _launch(order: LaunchRequest, which: tuple[str, ...]) -> Launch:
    where = ("--workspace", order.workspace)
    return Launch((order.program, "-p", order.prompt, *_ALONE, *where, *which, *model(order), *order.words))


def read(line: str) -> tuple[AgentEvent, ...]:
    """One line of stream-json. On a failure it prints no result and ends with an exit code that is not 0."""
    value = parse_line(line)
    kind = value.get("type")
    if kind == "system":
        return event(STARTED, client_id=str(value.get("session_id") or ""))
    if kind == "assistant":
        return event(SAID, part(value, "message").get("content"))
    if kind == "tool_call":
        name, told = next(iter(part(value, "tool_call").items()), ("", {}))
        told, key = told if isinstance(told, dict) else {}, str(value.get("call_id") or "")
        if value.get("subtype") == "started":
            return call_event(name.removesuffix("ToolCall"), part(told, "args"), key)
        return answer_event(key, part(told, "result").get("success") or told.get("result"))
    if kind == "result":
        return event(
            RESULT, value.get("result"), client_id=str(value.get("session_id") or ""), ok=not value.get("is_error")
        )
    return ()


ADAPTER = Adapter(
    name="cursor",
    title="Cursor CLI",
    programs=("cursor-agent",),
    abilities=abilities,
    launch=launch,
    read=read,
    resume=resume,
    tells_use=False,
    variables=("CURSOR_*",),
    hosts=("*.cursor.sh", "cursor.com"),
    secrets=("CURSOR_API_KEY",),
)

"""Claude Code: full hooks, own session ids, limits on turns and money."""

from __future__ import annotations

import os

from handoff.agents.contract import (
    BY_SANDBOX,
    RESULT,
    SAID,
    STARTED,
    TOOL,
    WAIT,
    Abilities,
    Adapter,
    AgentEvent,
    Launch,
    at_least,
    bearer,
)
from handoff.agents.hook_entries import group_hooks
from handoff.agents.reading.lines import number, parse, text_of
from handoff.base.light_json import dumps
from handoff.base.record import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from handoff.agents.contract import LaunchRequest

_FLOOR = "2.1.0"
_BLOCKS_ON_FAILURE = "2.1.300"
_TOOLS = ("Read", "Glob", "Grep", "Write", "Edit", "NotebookEdit", "Bash", "Task", "TodoWrite", "mcp__handoff")


def abilities(version: str) -> Abilities:
    """The same for every version from the floor on."""
    able = at_least(version, _FLOOR)
    return Abilities(
        start_context=able,
        deny_edit=able,
        refuse_stop=able,
        end_event=able,
        choose_id=True,
        resume=True,
        mcp=True,
        turn_limit=True,
        money_limit=True,
        fence=BY_SANDBOX,
    )


def launch(order: LaunchRequest) -> Launch:
    """A fresh session."""
    return _launch(order, ("--session-id", order.client_id) if order.client_id else ())


def resume(order: LaunchRequest) -> Launch:
    """The same conversation once more, with a new prompt."""
    return _launch(order, ("--resume", order.client_id))


def interactive(order: LaunchRequest) -> Launch:
    """The same in a person's terminal: their own settings hold, and they are asked what is not allowed anyway."""
    return _launch(order, ("--session-id", order.client_id) if order.client_id else (), alone=False)


def _launch(order: LaunchRequest, which: tuple[str, ...], *, alone: bool = True) -> Launch:
    settings = os.path.join(order.folder, "claude-settings.json")
    servers = os.path.join(order.folder, "claude-mcp.json")
    hooks = group_hooks(order.hook, "claude") if order.hook else {}
    if at_least(order.version, _BLOCKS_ON_FAILURE) and "PreToolUse" in hooks:
        hooks["PreToolUse"][0]["hooks"][0]["onFailure"] = "block"
    mcp: dict[str, Any] = {}
    if order.endpoint:
        mcp["handoff"] = {"type": "http", "url": order.endpoint, "headers": bearer(order), "alwaysLoad": True}
    elif order.mcp:
        mcp["handoff"] = {
            "type": "stdio",
            "command": order.mcp[0],
            "args": list(order.mcp[1:]),
            "alwaysLoad": True,
        }
    how: tuple[str, ...] = (order.prompt, "--permission-mode", "acceptEdits")
    if alone:
        how = (
            "-p",
            order.prompt,
            "--output-format",
            "stream-json",
            "--verbose",
            "--setting-sources",
            "",
            "--permission-mode",
            "dontAsk",
        )
    argv = [
        order.program,
        *how,
        *which,
        "--settings",
        settings,
        "--mcp-config",
        servers,
        "--strict-mcp-config",
        "--allowedTools",
        ",".join(_TOOLS),
    ]
    argv += ["--model", order.model] if order.model else []
    argv += ["--max-turns", str(order.limits.turns)] if order.limits.turns and alone else []
    argv += ["--max-budget-usd", f"{order.limits.money:g}"] if order.limits.money and alone else []
    own = {"CLAUDE_CONFIG_DIR": os.path.join(order.state or order.folder, "claude")} if order.sandboxed else {}
    return Launch(
        (*argv, *order.words),
        {"DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", **own},
        {settings: dumps({"hooks": hooks}), servers: dumps({"mcpServers": mcp})},
    )


def read(line: str) -> tuple[AgentEvent, ...]:
    """One line of stream-json. Several results may come; the last one counts, and only the process's end is the end."""
    value = parse(line)
    kind = value.get("type")
    if kind == "system" and value.get("subtype") == "init":
        return (AgentEvent(kind=STARTED, client_id=str(value.get("session_id") or "")),)
    if kind == "assistant":
        message = value.get("message")
        content = message.get("content") if isinstance(message, dict) else []
        return tuple(_part(part) for part in content or [] if isinstance(part, dict))
    if kind == "rate_limit_event":
        info = value.get("rate_limit_info")
        if isinstance(info, dict) and info.get("status") == "rejected":
            return (AgentEvent(kind=WAIT, text="the usage limit is reached", until=number(info.get("resetsAt"))),)
    if kind == "result":
        good = not value.get("is_error") and value.get("subtype") == "success"
        text = text_of(value.get("result") or value.get("errors") or value.get("terminal_reason") or "")
        if value.get("subtype") not in ("success", None):
            text = f"{value['subtype']}: {text}".rstrip(": ")
        if value.get("api_error_status"):
            text = f"API error {value['api_error_status']}: {text}"
        return (
            AgentEvent(
                kind=RESULT,
                text=text,
                client_id=str(value.get("session_id") or ""),
                ok=good,
                turns=int(number(value.get("num_turns"))),
                money=number(value.get("total_cost_usd")),
            ),
        )
    return ()


def _part(part: dict[str, Any]) -> AgentEvent:
    if part.get("type") == "tool_use":
        return AgentEvent(kind=TOOL, text=str(part.get("name") or ""))
    return AgentEvent(kind=SAID, text=text_of(part.get("text") or ""))


ADAPTER = Adapter(
    name="claude",
    title="Claude Code",
    programs=("claude",),
    abilities=abilities,
    launch=launch,
    read=read,
    resume=resume,
    dialect="claude",
    floor=_FLOOR,
    secrets=("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"),
    logins=((".claude/.credentials.json", "claude/.credentials.json", True),),
    interactive=interactive,
)

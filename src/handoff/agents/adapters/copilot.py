"""GitHub Copilot CLI: a home of its own for each session, because its hooks are read from there."""

from __future__ import annotations

import os

from handoff.agents.contract import (
    BY_SANDBOX,
    RESULT,
    SAID,
    STARTED,
    TOOL,
    TROUBLE,
    Abilities,
    Adapter,
    AgentEvent,
    Launch,
    at_least,
    bearer,
)
from handoff.agents.hook_entries import flat
from handoff.agents.reading.lines import parse, text_of
from handoff.base.light_json import dumps
from handoff.base.record import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from handoff.agents.contract import LaunchRequest

_FLOOR = "1.0.80"


def abilities(version: str) -> Abilities:
    """No cap on turns: the supervisor counts them."""
    able = at_least(version, _FLOOR)
    return Abilities(
        start_context=able,
        deny_edit=able,
        refuse_stop=able,
        end_event=True,
        choose_id=True,
        resume=True,
        mcp=True,
        fence=BY_SANDBOX,
    )


def launch(order: LaunchRequest) -> Launch:
    """A fresh session."""
    return _launch(order, ("--session-id", order.client_id) if order.client_id else ())


def resume(order: LaunchRequest) -> Launch:
    """The same conversation once more."""
    return _launch(order, (f"--resume={order.client_id}",))


def _launch(order: LaunchRequest, which: tuple[str, ...]) -> Launch:
    home = os.path.join(order.state or order.folder, "copilot")
    servers: dict[str, Any] = {}
    if order.endpoint:
        servers["handoff"] = {"type": "http", "url": order.endpoint, "headers": bearer(order), "tools": ["*"]}
    elif order.mcp:
        servers["handoff"] = {
            "type": "local",
            "command": order.mcp[0],
            "args": list(order.mcp[1:]),
            "tools": ["*"],
        }
    argv = [
        order.program, "-C", order.workspace, "-p", order.prompt, "--output-format", "json", "--allow-all",
        "--no-ask-user", "--no-auto-update", "--no-remote", "--disable-builtin-mcps", *which,
        *(("--model", order.model) if order.model else ()),
    ]  # fmt: skip
    hooks = {"version": 1, "hooks": flat(order.hook, "copilot") if order.hook else {}}
    return Launch(
        (*argv, *order.words),
        {"COPILOT_HOME": home},
        {
            os.path.join(home, "hooks", "handoff.json"): dumps(hooks),
            os.path.join(home, "mcp-config.json"): dumps({"mcpServers": servers}),
        },
    )


def read(line: str) -> tuple[AgentEvent, ...]:
    """One line of its JSON output."""
    value = parse(line)
    kind = str(value.get("type") or "")
    data = value.get("data")
    data = data if isinstance(data, dict) else {}
    if kind == "session.start":
        return (AgentEvent(kind=STARTED, client_id=str(data.get("sessionId") or "")),)
    if kind == "tool.execution_start":
        return (AgentEvent(kind=TOOL, text=str(data.get("toolName") or "")),)
    if kind == "assistant.message":
        return (AgentEvent(kind=SAID, text=text_of(data.get("content") or "")),)
    if kind in ("session.error", "error"):
        return (AgentEvent(kind=TROUBLE, text=text_of(data.get("message") or value.get("message") or "")),)
    if kind == "result":
        good = not value.get("exitCode")
        return (AgentEvent(kind=RESULT, text="", client_id=str(value.get("sessionId") or ""), ok=good),)
    return ()


ADAPTER = Adapter(
    name="copilot",
    title="GitHub Copilot CLI",
    programs=("copilot",),
    abilities=abilities,
    launch=launch,
    read=read,
    resume=resume,
    dialect="copilot",
    floor=_FLOOR,
    secrets=("COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN", "COPILOT_PROVIDER_API_KEY"),
)

"""Codex: hooks by command-line settings, its own sandbox with one rule for each path.

The relay's home stays writable inside that sandbox, because a session reports from there.
"""

from __future__ import annotations

import os

from handoff.agents.contract import (
    BY_CLIENT,
    RESULT,
    SAID,
    STARTED,
    TOKEN_VARIABLE,
    TOOL,
    TROUBLE,
    USAGE,
    Abilities,
    Adapter,
    AgentEvent,
    Launch,
    at_least,
)
from handoff.agents.hook_entries import group_hooks
from handoff.agents.reading.lines import parse, text_of
from handoff.base.light_json import dumps
from handoff.base.record import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from handoff.agents.contract import LaunchRequest

_FLOOR = "0.150.0"
_TOOL_ITEMS = ("command_execution", "file_change", "mcp_tool_call", "web_search", "collab_tool_call")


def abilities(version: str) -> Abilities:
    """Hooks came with 0.150; older ones are supervised only."""
    able = at_least(version, _FLOOR)
    return Abilities(
        start_context=able,
        deny_edit=able,
        refuse_stop=able,
        end_event=True,
        resume=True,
        mcp=True,
        fence=BY_CLIENT,
    )


def launch(order: LaunchRequest) -> Launch:
    """A fresh session; Codex chooses the id and tells it in its first event."""
    argv = (order.program, "exec", *_options(order), "-C", order.workspace, *order.words, order.prompt)
    return Launch(argv, *_home(order))


def resume(order: LaunchRequest) -> Launch:
    """The same thread once more; `resume` knows no -C, the supervisor starts it in the workspace."""
    return Launch(
        (order.program, "exec", "resume", *_options(order), *order.words, order.client_id, order.prompt), *_home(order)
    )


def _home(order: LaunchRequest) -> tuple[dict[str, str], dict[str, str]]:
    """Inside a sandbox the person's home cannot be written: Codex has one of its own, which must exist."""
    if not order.sandboxed:
        return {}, {}
    home = os.path.join(order.state or order.folder, "codex")
    return {"CODEX_HOME": home}, {os.path.join(home, ".handoff"): ""}


def _options(order: LaunchRequest) -> tuple[str, ...]:
    words = [
        "--json",
        "--ignore-user-config",
        "--skip-git-repo-check",
        "--disable",
        "plugins",
        "--disable",
        "apps",
        "-c",
        "analytics.enabled=false",
        "-c",
        "check_for_update_on_startup=false",
    ]
    if order.model:
        words += ["-m", order.model]
    if order.sandboxed or not order.owned:
        words.append("--dangerously-bypass-approvals-and-sandbox")
    else:
        grant = {":root": "read", **dict.fromkeys((order.folder, *order.writable, *order.owned), "write")}
        words += ["-c", 'default_permissions="task"', "-c", f"permissions.task.filesystem={_toml(grant)}"]
    if order.hook:
        words.append("--dangerously-bypass-hook-trust")
        for name, groups in group_hooks(order.hook, "codex").items():
            words += ["-c", f"hooks.{name}={_toml(groups)}"]
    if order.endpoint:
        server: dict[str, Any] = {
            "url": order.endpoint,
            "bearer_token_env_var": TOKEN_VARIABLE,
            "required": True,
            "startup_timeout_sec": 30,
            "default_tools_approval_mode": "approve",
        }
        words += ["-c", f"mcp_servers.handoff={_toml(server)}"]
    elif order.mcp:
        server = {
            "command": order.mcp[0],
            "args": list(order.mcp[1:]),
            "required": True,
            "startup_timeout_sec": 30,
            "default_tools_approval_mode": "approve",
            "env_vars": _PASSED,
        }
        words += ["-c", f"mcp_servers.handoff={_toml(server)}"]
    return tuple(words)


_PASSED = [
    "HANDOFF_HOME",
    "HANDOFF_SESSION",
    "HANDOFF_PROJECT",
    "HANDOFF_TASK",
    "HANDOFF_FENCE",
    "HANDOFF_TOKEN",
    "HANDOFF_DATABASE_URL",
    "HANDOFF_BROKER",
]


def _toml(value: Any) -> str:
    """A value as TOML writes it inline; its texts are JSON's."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{dumps(key)}={_toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(_toml(item) for item in value) + "]"
    return dumps(value)


def read(line: str) -> tuple[AgentEvent, ...]:
    """One line of `exec --json`."""
    value = parse(line)
    kind = str(value.get("type") or "")
    if kind == "thread.started":
        return (AgentEvent(kind=STARTED, client_id=str(value.get("thread_id") or "")),)
    if kind in ("item.started", "item.completed"):
        item = value.get("item")
        return _item(item if isinstance(item, dict) else {}, started=kind == "item.started")
    if kind == "turn.started":
        return (AgentEvent(kind=USAGE, turns=1),)
    if kind == "turn.completed":
        return (AgentEvent(kind=RESULT, ok=True),)
    if kind == "turn.failed":
        return (AgentEvent(kind=RESULT, text=text_of(value.get("error")), ok=False),)
    if kind == "error":
        return (AgentEvent(kind=TROUBLE, text=text_of(value.get("message"))),)
    return ()


def _item(item: dict[str, Any], *, started: bool) -> tuple[AgentEvent, ...]:
    kind = item.get("type")
    if kind in _TOOL_ITEMS:
        return (
            (AgentEvent(kind=TOOL, text=str(item.get("command") or kind)),) if started or kind == "file_change" else ()
        )
    if kind == "agent_message" and not started:
        return (AgentEvent(kind=SAID, text=text_of(item.get("text") or "")),)
    return ()


ADAPTER = Adapter(
    name="codex",
    title="Codex",
    programs=("codex",),
    abilities=abilities,
    launch=launch,
    read=read,
    resume=resume,
    dialect="codex",
    floor=_FLOOR,
    secrets=("OPENAI_API_KEY", "CODEX_API_KEY"),
    logins=((".codex/auth.json", "codex/auth.json", True),),
)

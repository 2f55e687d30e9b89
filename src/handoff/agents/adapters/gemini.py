"""Gemini CLI: hooks in a settings file of the session."""

from __future__ import annotations

import os

from handoff.agents.adapters.pieces import as_program, event, model, new_id, our_server, part, usage_event, with_hooks
from handoff.agents.contract import (
    ANSWERED,
    RESULT,
    SAID,
    STARTED,
    TOOL,
    TOTAL,
    TROUBLE,
    Adapter,
    AgentEvent,
    Launch,
    bearer,
)
from handoff.agents.hook_entries import group_hooks
from handoff.agents.reading.lines import number, parse
from handoff.agents.reading.records import of_openai
from handoff.base.light_json import dumps
from handoff.base.record import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from handoff.agents.contract import LaunchRequest

_FLOOR = "0.50.0"
_ALONE = "--output-format stream-json --approval-mode yolo --skip-trust".split()


def launch(order: LaunchRequest) -> Launch:
    """A fresh session."""
    return _launch(order, new_id(order))


def resume(order: LaunchRequest) -> Launch:
    """The same conversation once more."""
    return _launch(order, ("--resume", order.client_id))


def _launch(order: LaunchRequest, which: tuple[str, ...]) -> Launch:
    path = os.path.join(order.folder, "gemini-settings.json")
    settings: dict[str, Any] = {
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"enableAutoUpdate": False, "maxAttempts": 3},
        "telemetry": {"enabled": False},
    }
    if order.hook:
        settings["hooks"] = group_hooks(order.hook, "gemini")
    http = {"httpUrl": order.endpoint, "headers": bearer(order)}
    if servers := our_server(order, http=http, local=as_program(order), both={"trust": True, "timeout": 60000}):
        settings["mcpServers"] = servers
    if order.limits.turns:
        settings["model"] = {"maxSessionTurns": order.limits.turns}
    argv = (order.program, "-p", order.prompt, *_ALONE, *which, *model(order, "-m"), *order.words)
    own = {"GEMINI_CLI_HOME": os.path.join(order.state or order.folder, "gemini")} if order.sandboxed else {}
    return Launch(
        argv,
        {"GEMINI_CLI_SYSTEM_SETTINGS_PATH": path, "GEMINI_CLI_NO_RELAUNCH": "true", **own},
        {path: dumps(settings)},
    )


def read(line: str) -> tuple[AgentEvent, ...]:
    """One line of stream-json."""
    value = parse(line)
    kind = value.get("type")
    if kind == "init":
        return event(STARTED, client_id=str(value.get("session_id") or ""))
    if kind == "tool_use":
        return event(TOOL, value.get("tool_name"))
    if kind == "tool_result":
        return event(ANSWERED)
    if kind == "message" and value.get("role") == "assistant":
        return event(SAID, value.get("content"))
    if kind == "error":
        return event(TROUBLE, value.get("message"))
    if kind == "result":
        good = value.get("status") == "success"
        turns = int(number(part(value, "stats").get("turns")))
        return (*_bill(part(value, "stats")), *event(RESULT, "" if good else value.get("error"), ok=good, turns=turns))
    return ()


def _bill(stats: dict[str, Any]) -> tuple[AgentEvent, ...]:
    """What was used, by model; what it reasoned is neither input nor output there, only part of the total."""
    found: tuple[AgentEvent, ...] = ()
    for name, told in part(stats, "models").items():
        if isinstance(told, dict):
            use = of_openai(told, "input_tokens cached output_tokens thoughts", model=name, key=name)
            reasoned = max(0, int(number(told.get("total_tokens"))) - use.tokens)
            found += usage_event(use._replace(output=use.output + reasoned, reasoning=reasoned), TOTAL)
    return found


ADAPTER = Adapter(
    name="gemini",
    title="Gemini CLI",
    programs=("gemini",),
    abilities=with_hooks(_FLOOR, choose_id=True, turn_limit=True),
    launch=launch,
    read=read,
    resume=resume,
    dialect="gemini",
    floor=_FLOOR,
    variables=(
        "GEMINI_*",
        "GOOGLE_*",
    ),
    hosts=(
        "generativelanguage.googleapis.com",
        "cloudcode-pa.googleapis.com",
        "oauth2.googleapis.com",
        "aiplatform.googleapis.com",
    ),
    secrets=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    logins=(
        (".gemini/settings.json", "gemini/.gemini/settings.json", False),
        (".gemini/google_accounts.json", "gemini/.gemini/google_accounts.json", False),
        (".gemini/oauth_creds.json", "gemini/.gemini/oauth_creds.json", True),
    ),
)

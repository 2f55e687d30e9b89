"""Gemini CLI: hooks in a settings file of the session, exit codes that are HTTP codes in disguise."""

from __future__ import annotations

import os

from handoff.agents.contract import (
    BY_SANDBOX,
    FAILED,
    LIMIT,
    RESULT,
    SAID,
    STARTED,
    TOOL,
    TROUBLE,
    Abilities,
    Adapter,
    AgentEvent,
    AgentOutcome,
    Launch,
    at_least,
    bearer,
)
from handoff.agents.hook_entries import group_hooks
from handoff.agents.reading.lines import number, parse, text_of
from handoff.agents.reading.outcomes import UNKNOWN_WAIT_SECONDS, judge
from handoff.agents.reading.waiting import reset_time
from handoff.base.light_json import dumps
from handoff.base.record import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from handoff.agents.contract import Ending, LaunchRequest

_FLOOR = "0.50.0"
_TOO_MANY_REQUESTS = 429 % 256
_CODES = {
    41: "Gemini CLI is not signed in",
    53: "the limit on turns is reached",
    55: "Gemini CLI does not trust the folder",
}


def abilities(version: str) -> Abilities:
    """Hooks are there from the floor on; it has a cap on turns, none on money."""
    able = at_least(version, _FLOOR)
    return Abilities(
        start_context=able,
        deny_edit=able,
        refuse_stop=able,
        end_event=True,
        choose_id=True,
        resume=True,
        mcp=True,
        turn_limit=True,
        fence=BY_SANDBOX,
    )


def launch(order: LaunchRequest) -> Launch:
    """A fresh session."""
    return _launch(order, ("--session-id", order.client_id) if order.client_id else ())


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
    if order.endpoint:
        settings["mcpServers"] = {
            "handoff": {"httpUrl": order.endpoint, "headers": bearer(order), "trust": True, "timeout": 60000}
        }
    elif order.mcp:
        settings["mcpServers"] = {
            "handoff": {"command": order.mcp[0], "args": list(order.mcp[1:]), "trust": True, "timeout": 60000}
        }
    if order.limits.turns:
        settings["model"] = {"maxSessionTurns": order.limits.turns}
    argv = [
        order.program,
        "-p",
        order.prompt,
        "--output-format",
        "stream-json",
        "--approval-mode",
        "yolo",
        "--skip-trust",
        *which,
        *(("-m", order.model) if order.model else ()),
    ]
    own = {"GEMINI_CLI_HOME": os.path.join(order.state or order.folder, "gemini")} if order.sandboxed else {}
    return Launch(
        (*argv, *order.words),
        {"GEMINI_CLI_SYSTEM_SETTINGS_PATH": path, "GEMINI_CLI_NO_RELAUNCH": "true", **own},
        {path: dumps(settings)},
    )


def read(line: str) -> tuple[AgentEvent, ...]:
    """One line of stream-json."""
    value = parse(line)
    kind = value.get("type")
    if kind == "init":
        return (AgentEvent(kind=STARTED, client_id=str(value.get("session_id") or "")),)
    if kind == "tool_use":
        return (AgentEvent(kind=TOOL, text=str(value.get("tool_name") or "")),)
    if kind == "message" and value.get("role") == "assistant":
        return (AgentEvent(kind=SAID, text=text_of(value.get("content"))),)
    if kind == "error":
        return (AgentEvent(kind=TROUBLE, text=text_of(value.get("message"))),)
    if kind == "result":
        good = value.get("status") == "success"
        stats = value.get("stats")
        turns = int(number(stats.get("turns"))) if isinstance(stats, dict) else 0
        return (AgentEvent(kind=RESULT, text="" if good else text_of(value.get("error")), ok=good, turns=turns),)
    return ()


def outcome(ending: Ending, now: float) -> AgentOutcome:
    """Exit codes are the HTTP status modulo 256; the ones with a meaning of their own are told."""
    judged = judge(ending, now)
    if judged.kind == FAILED and ending.code == _TOO_MANY_REQUESTS:
        return AgentOutcome(LIMIT, judged.reason, reset_time(judged.reason, now) or now + UNKNOWN_WAIT_SECONDS)
    if judged.kind == FAILED and ending.code in _CODES and ending.result is None:
        return AgentOutcome(FAILED, _CODES[ending.code])
    return judged


ADAPTER = Adapter(
    name="gemini",
    title="Gemini CLI",
    programs=("gemini",),
    abilities=abilities,
    launch=launch,
    read=read,
    resume=resume,
    outcome=outcome,
    dialect="gemini",
    floor=_FLOOR,
    secrets=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    logins=(
        (".gemini/settings.json", "gemini/.gemini/settings.json", False),
        (".gemini/google_accounts.json", "gemini/.gemini/google_accounts.json", False),
        (".gemini/oauth_creds.json", "gemini/.gemini/oauth_creds.json", True),
    ),
)

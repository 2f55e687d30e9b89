"""Gemini CLI: hooks in a home of the session's own, beside what the person has set."""

from __future__ import annotations

import os
import re

from handoff.agents.adapters.pieces import (
    answer_event,
    as_program,
    call_event,
    event,
    group_hooks,
    model,
    new_id,
    our_server,
    part,
    usage_event,
    with_hooks,
)
from handoff.agents.contract import (
    PIECE,
    RESULT,
    SAID,
    STARTED,
    TOTAL,
    TROUBLE,
    Adapter,
    AgentEvent,
    Launch,
    bearer,
    number,
    parse_line,
)
from handoff.agents.records import of_openai
from handoff.base.errors import ConfigError
from handoff.base.files import read_text
from handoff.base.light_json import dumps, loads
from handoff.base.record import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from handoff.agents.contract import LaunchRequest

_FLOOR = "0.50.0"
_SETTINGS = ".gemini/settings.json"
_COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)  # or a text, in which none begins
_ALONE = "--output-format stream-json --approval-mode yolo --skip-trust".split()
_RENEWED = ("oauth_creds.json", "gemini-credentials.json")


def launch(order: LaunchRequest) -> Launch:
    """A fresh session."""
    return _launch(order, new_id(order))


def resume(order: LaunchRequest) -> Launch:
    """The same conversation once more."""
    return _launch(order, ("--resume", order.client_id))


def _launch(order: LaunchRequest, which: tuple[str, ...]) -> Launch:
    # A home of the session's own: settings of the system it reads only from folders of root, the person's are not ours to write.
    home = os.path.join(order.state or order.folder, "gemini")
    ours: dict[str, Any] = {
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"enableAutoUpdate": False, "maxAttempts": 3},
        "telemetry": {"enabled": False},
    }
    if order.hook:
        ours["hooksConfig"] = {"enabled": True}
        ours["hooks"] = group_hooks(order.hook, "gemini")
    http = {"httpUrl": order.endpoint, "headers": bearer(order)}
    if servers := our_server(order, http=http, local=as_program(order), both={"trust": True, "timeout": 60000}):
        ours["mcpServers"] = servers
    if order.limits.turns:
        ours["model"] = {"maxSessionTurns": order.limits.turns}
    argv = (order.program, "-p", order.prompt, *_ALONE, *which, *model(order, "-m"), *order.words)
    return Launch(
        argv,
        {"GEMINI_CLI_HOME": home, "GEMINI_CLI_NO_RELAUNCH": "true"},
        {os.path.join(home, _SETTINGS): dumps(_with_ours(_persons(order.settings), ours))},
    )


def _persons(path: str) -> dict[str, Any]:
    """What the person has set in Gemini CLI; it allows comments there."""
    if not path:
        return {}
    try:
        said = loads(_COMMENT.sub(lambda found: found[1] or "", read_text(path)) or "{}")
    except ValueError as error:
        raise ConfigError(f"{path} is no JSON.", "Fix the file: Gemini CLI does not read it either.") from error
    if not isinstance(said, dict):
        raise ConfigError(f"{path} holds no JSON object.", "Fix the file: Gemini CLI does not read it either.")
    if part(said, "hooksConfig").get("enabled") is False:  # ours must run, theirs must not
        said.pop("hooks", None)
    if isinstance(allowed := part(said, "mcp").get("allowed"), list):
        said["mcp"]["allowed"] = [*allowed, "handoff"]
    return said


def _with_ours(theirs: dict[str, Any], ours: dict[str, Any]) -> dict[str, Any]:
    """Both settings, as Gemini CLI itself joins two files: objects key by key, hooks of both; of any other value ours holds."""
    joined = dict(theirs)
    for key, value in ours.items():
        if isinstance(value, dict):
            joined[key] = _with_ours(part(theirs, key), value)
        elif isinstance(value, list) and isinstance(theirs.get(key), list):
            joined[key] = [*theirs[key], *value]
        else:
            joined[key] = value
    return joined


def read(line: str) -> tuple[AgentEvent, ...]:
    """One line of stream-json."""
    value = parse_line(line)
    kind = value.get("type")
    if kind == "init":
        return event(STARTED, client_id=str(value.get("session_id") or ""))
    if kind == "tool_use":
        return call_event(value.get("tool_name"), part(value, "parameters"), str(value.get("tool_id") or ""))
    if kind == "tool_result":
        good = value.get("status") == "success"
        return answer_event(str(value.get("tool_id") or ""), value.get("output") or value.get("error"), ok=good)
    if kind == "message" and value.get("role") == "assistant":
        return event(SAID, value.get("content"), call=PIECE if value.get("delta") else "")
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
    variables=("GEMINI_*", "GOOGLE_*"),
    hosts=(
        "generativelanguage.googleapis.com",
        "cloudcode-pa.googleapis.com",
        "oauth2.googleapis.com",
        "aiplatform.googleapis.com",
    ),
    secrets=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    logins=tuple(
        (f".gemini/{name}", f"gemini/.gemini/{name}", name in _RENEWED)
        for name in (
            *_RENEWED,
            *"google_accounts.json .env GEMINI.md extensions commands skills agents policies".split(),
        )
    ),
    settings=(_SETTINGS, ""),
)

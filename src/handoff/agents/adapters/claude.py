"""Claude Code: full hooks, own session ids, limits on turns and money."""

from __future__ import annotations

import os

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
    ANSWERED,
    RESULT,
    SAID,
    STARTED,
    TOTAL,
    TROUBLE,
    WAIT,
    Adapter,
    AgentEvent,
    Launch,
    Usage,
    at_least,
    bearer,
    number,
    parse_line,
    text_of,
)
from handoff.agents.records import of_claude
from handoff.base.light_json import dumps
from handoff.base.record import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from handoff.agents.contract import LaunchRequest

_FLOOR = "2.1.0"
_BLOCKS_ON_FAILURE = "2.1.300"
_TOOLS = "Read,Glob,Grep,Write,Edit,NotebookEdit,Bash,Task,TodoWrite,mcp__handoff"
_ALONE = "--output-format stream-json --verbose --permission-mode dontAsk".split()


def launch(order: LaunchRequest) -> Launch:
    """A fresh session."""
    return _launch(order, new_id(order))


def resume(order: LaunchRequest) -> Launch:
    """The same conversation once more, with a new prompt."""
    return _launch(order, ("--resume", order.client_id))


def interactive(order: LaunchRequest) -> Launch:
    """The same in a person's terminal: their own settings hold, and they are asked what is not allowed anyway."""
    return _launch(order, new_id(order), alone=False)


def _launch(order: LaunchRequest, which: tuple[str, ...], *, alone: bool = True) -> Launch:
    settings = os.path.join(order.folder, "claude-settings.json")
    servers = os.path.join(order.folder, "claude-mcp.json")
    hooks = group_hooks(order.hook, "claude") if order.hook else {}
    if at_least(order.version, _BLOCKS_ON_FAILURE) and "PreToolUse" in hooks:
        hooks["PreToolUse"][0]["hooks"][0]["onFailure"] = "block"
    mcp = our_server(
        order,
        http={"type": "http", "url": order.endpoint, "headers": bearer(order)},
        local={"type": "stdio", **as_program(order)},
        both={"alwaysLoad": True},
    )
    how: tuple[str, ...] = (order.prompt, "--permission-mode", "acceptEdits")
    limits: list[str] = []
    if alone:
        how = ("-p", order.prompt, *_ALONE, "--setting-sources", "")
        limits += ["--max-turns", str(order.limits.turns)] if order.limits.turns else []
        limits += ["--max-budget-usd", f"{order.limits.money:g}"] if order.limits.money else []
    ours = ("--settings", settings, "--mcp-config", servers, "--strict-mcp-config", "--allowedTools", _TOOLS)
    own = {"CLAUDE_CONFIG_DIR": os.path.join(order.state or order.folder, "claude")} if order.sandboxed else {}
    return Launch(
        (order.program, *how, *which, *ours, *model(order), *limits, *order.words),
        {"DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", **own},
        {settings: dumps({"hooks": hooks}), servers: dumps({"mcpServers": mcp})},
    )


def read(line: str) -> tuple[AgentEvent, ...]:
    """One line of stream-json. Several results may come; the last one counts, and only the process's end is the end."""
    value = parse_line(line)
    kind = value.get("type")
    if kind == "system" and value.get("subtype") == "init":
        return event(STARTED, client_id=str(value.get("session_id") or ""))
    if kind == "system" and value.get("subtype") == "api_retry":
        status = int(number(value.get("error_status")))
        return event(TROUBLE, f"API error {status or ''}: {text_of(value.get('error'))}", status=status)
    if kind == "assistant":
        message = part(value, "message")
        content = message.get("content") or []
        if value.get("is_api_error_message"):  # its own words, no model's
            return event(TROUBLE, content)
        named = {"model": str(message.get("model") or ""), "key": str(message.get("id") or "")}
        said = tuple(one for item in content if isinstance(item, dict) for one in _said(item))
        return (*said, *usage_event(of_claude(part(message, "usage"), **named)))
    if kind == "rate_limit_event":
        info = part(value, "rate_limit_info")
        if info.get("status") == "rejected":
            return event(WAIT, "the usage limit is reached", until=number(info.get("resetsAt")))
    if kind == "result":
        return (*_bill(value), *_result(value))
    return _answers(part(value, "message").get("content")) if kind == "user" else ()


def _said(item: dict[str, Any]) -> tuple[AgentEvent, ...]:
    if item.get("type") == "tool_use":
        return call_event(item.get("name"), part(item, "input"), str(item.get("id") or ""))
    return event(SAID, item.get("text"))


def _answers(content: Any) -> tuple[AgentEvent, ...]:
    """What tools gave; an error without a code is a command that failed, or a call that was refused."""
    results = (
        [item for item in content if isinstance(item, dict) and item.get("type") == "tool_result"]
        if isinstance(content, list)
        else []
    )
    found = tuple(
        one
        for item in results
        for one in answer_event(str(item.get("tool_use_id") or ""), item.get("content"), ok=not item.get("is_error"))
    )
    return found or event(ANSWERED)


def _bill(value: dict[str, Any]) -> tuple[AgentEvent, ...]:
    """What was used since its last result. Its total holds what a conversation had cost before it was resumed as well."""
    new = part(value, "model_usage_since_last_result")
    index = f"{value.get('result_index')}:" if new else ""
    return tuple(
        one
        for name, told in (new or part(value, "modelUsage")).items()
        if isinstance(told, dict)
        for one in usage_event(_by_model(name, told, key=f"{index}{name}"), TOTAL)
    )


def _by_model(model: str, told: dict[str, Any], *, key: str) -> Usage:
    names = "inputTokens cacheReadInputTokens outputTokens thinkingTokens cacheCreationInputTokens".split()
    new, cached, output, reasoning, written = (int(number(told.get(name))) for name in names)
    return Usage(
        model=model,
        input=new + written,
        cached=cached,
        output=output,
        reasoning=reasoning,
        written=written,
        money=number(told.get("costUSD")) if "costUSD" in told else None,
        key=key,
    )


def _result(value: dict[str, Any]) -> tuple[AgentEvent, ...]:
    text = text_of(value.get("result") or value.get("errors") or value.get("terminal_reason") or "")
    if value.get("subtype") not in ("success", None):
        text = f"{value['subtype']}: {text}".rstrip(": ")
    status = int(number(value.get("api_error_status")))
    if status and str(status) not in text:
        text = f"API error {status}: {text}"
    return event(
        RESULT,
        text,
        client_id=str(value.get("session_id") or ""),
        ok=not value.get("is_error") and value.get("subtype") == "success",
        turns=int(number(value.get("num_turns"))),
        status=status,
    )


ADAPTER = Adapter(
    name="claude",
    title="Claude Code",
    programs=("claude",),
    abilities=with_hooks(_FLOOR, choose_id=True, turn_limit=True, money_limit=True),
    launch=launch,
    read=read,
    resume=resume,
    dialect="claude",
    floor=_FLOOR,
    variables=(
        "ANTHROPIC_*",
        "CLAUDE_*",
        "DISABLE_*",
        "ENABLE_*",
        "MAX_THINKING_TOKENS",
        "API_TIMEOUT_MS",
        "BASH_*",
        "MCP_*",
    ),
    hosts=("api.anthropic.com", "platform.claude.com", "console.anthropic.com"),
    secrets=("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"),
    login_status=("auth", "status"),
    login_command="claude auth login",
    logins=((".claude/.credentials.json", "claude/.credentials.json", True),),
    interactive=interactive,
)

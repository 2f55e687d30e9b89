"""GitHub Copilot CLI: a home of its own for each session, because its hooks are read from there."""

from __future__ import annotations

import os

from handoff.agents.adapters.pieces import (
    answer_event,
    as_program,
    call_event,
    event,
    flat_hooks,
    model,
    new_id,
    our_server,
    part,
    with_hooks,
)
from handoff.agents.contract import (
    RESULT,
    SAID,
    STARTED,
    TROUBLE,
    Adapter,
    AgentEvent,
    Launch,
    LaunchRequest,
    bearer,
    number,
    parse_line,
)
from handoff.base.light_json import dumps

_FLOOR = "1.0.80"
_ALONE = (
    """--output-format json --allow-all --no-ask-user --no-auto-update --no-remote --disable-builtin-mcps""".split()
)


def launch(order: LaunchRequest) -> Launch:
    """A fresh session."""
    return _launch(order, new_id(order))


def resume(order: LaunchRequest) -> Launch:
    """The same conversation once more."""
    return _launch(order, (f"--resume={order.client_id}",))


def _launch(order: LaunchRequest, which: tuple[str, ...]) -> Launch:
    home = os.path.join(order.state or order.folder, "copilot")
    servers = our_server(
        order,
        http={"type": "http", "url": order.endpoint, "headers": bearer(order)},
        local={"type": "local", **as_program(order)},
        both={"tools": ["*"]},
    )
    argv = (order.program, "-C", order.workspace, "-p", order.prompt, *_ALONE, *which, *model(order), *order.words)
    hooks = {"version": 1, "hooks": flat_hooks(order.hook, "copilot") if order.hook else {}}
    return Launch(
        argv,
        {"COPILOT_HOME": home},
        {
            os.path.join(home, "hooks", "handoff.json"): dumps(hooks),
            os.path.join(home, "mcp-config.json"): dumps({"mcpServers": servers}),
        },
    )


def read(line: str) -> tuple[AgentEvent, ...]:
    """One line of its JSON output."""
    value = parse_line(line)
    kind = str(value.get("type") or "")
    data = part(value, "data")
    if kind == "session.start":
        return event(STARTED, client_id=str(data.get("sessionId") or ""))
    if kind == "tool.execution_start":
        return call_event(data.get("toolName"), part(data, "arguments"), str(data.get("toolCallId") or ""))
    if kind == "tool.execution_complete":
        ran, told = part(data, "shellExecution"), part(data, "result").get("content")
        return answer_event(
            str(data.get("toolCallId") or ""), told, code=ran.get("exitCode"), ok=bool(data.get("success"))
        )
    if kind == "assistant.message":
        return event(SAID, data.get("content"))
    if kind in ("session.error", "error"):
        return event(TROUBLE, data.get("message") or value.get("message"), status=int(number(data.get("statusCode"))))
    if kind == "result":
        return event(RESULT, client_id=str(value.get("sessionId") or ""), ok=not value.get("exitCode"))
    return ()


ADAPTER = Adapter(
    name="copilot",
    title="GitHub Copilot CLI",
    programs=("copilot",),
    abilities=with_hooks(_FLOOR, choose_id=True),  # no cap on turns: the supervisor counts them
    launch=launch,
    read=read,
    resume=resume,
    dialect="copilot",
    floor=_FLOOR,
    variables=("COPILOT_*", "GH_HOST"),
    hosts=("api.github.com", "*.githubcopilot.com"),
    secrets=("COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN", "COPILOT_PROVIDER_API_KEY"),
)

"""Codex: hooks by command-line settings, its own sandbox with one rule for each path.

The relay's home stays writable inside that sandbox, because a session reports from there. Of the person's own settings hold those
that say which model is asked and how it is reached; their sandbox, hooks and servers would stand beside ours.
"""

from __future__ import annotations

import os
import re
import tomllib

from handoff.agents.adapters.pieces import (
    answer_event,
    as_program,
    both_events,
    call_event,
    event,
    file_event,
    group_hooks,
    model,
    our_server,
    part,
    usage_event,
    with_hooks,
)
from handoff.agents.contract import (
    BY_CLIENT,
    RESULT,
    SAID,
    STARTED,
    TOKEN_VARIABLE,
    TROUBLE,
    USAGE,
    Adapter,
    AgentEvent,
    Launch,
    parse_line,
)
from handoff.agents.records import of_openai
from handoff.base.errors import ConfigError
from handoff.base.files import read_text
from handoff.base.light_json import dumps
from handoff.base.record import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from handoff.agents.contract import LaunchRequest

_FLOOR = "0.150.0"
_QUIET = """--json --ignore-user-config --skip-git-repo-check --disable plugins --disable apps
    -c analytics.enabled=false -c check_for_update_on_startup=false -c allow_login_shell=false""".split()
"""A login shell would set PATH anew: neither `handoff` nor the guarded git would be found."""
_KEPT = (
    "model",
    "openai_base_url chatgpt_base_url oss_provider service_tier personality web_search plan_mode_reasoning_effort"
    " preferred_auth_method forced_login_method forced_chatgpt_workspace_id cli_auth_credentials_store".split(),
)
"""What of the person's settings holds: all that begins so, and these."""
_PROVIDERS, _SECRET, _HEADERS = "model_providers", "experimental_bearer_token", "http_headers"
_SERVER = {"required": True, "startup_timeout_sec": 30, "default_tools_approval_mode": "approve"}
_PASSED = [f"HANDOFF_{name}" for name in "HOME SESSION PROJECT TASK FENCE TOKEN DATABASE_URL BROKER".split()]
_COUNTS = "input_tokens cached_input_tokens output_tokens reasoning_output_tokens"
_TOOL_ITEMS = ("command_execution", "file_change", "mcp_tool_call", "web_search", "collab_tool_call")


def launch(order: LaunchRequest) -> Launch:
    """A fresh session; Codex chooses the id and tells it in its first event."""
    return _launch(order, (), ("-C", order.workspace, *order.words, order.prompt))


def resume(order: LaunchRequest) -> Launch:
    """The same thread once more; `resume` knows no -C, the supervisor starts it in the workspace."""
    return _launch(order, ("resume",), (*order.words, order.client_id, order.prompt))


def _launch(order: LaunchRequest, verb: tuple[str, ...], rest: tuple[str, ...]) -> Launch:
    kept, secrets = _persons(order.settings)
    home, files = _home(order)
    argv = (order.program, "exec", *verb, *kept, *_options(order), *rest)
    return Launch(argv, {**home, **secrets}, files, variables=_named(kept + order.words))


def _persons(path: str) -> tuple[tuple[str, ...], dict[str, str]]:
    """Which model the person has chosen and how it is reached, as words; what is secret of it goes by the environment."""
    if not path:
        return (), {}
    try:
        said = tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: {error}.", "Fix the file: Codex does not read it either.") from error
    begin, names = _KEPT
    words: list[str] = []
    secrets: dict[str, str] = {}
    for name, value in said.items():
        if name.startswith(begin) or name in names:
            told = _without_secrets(value, secrets) if name == _PROVIDERS else value
            words += ["-c", f"{name}={_toml(told)}"]
    return tuple(words), secrets


def _without_secrets(providers: Any, secrets: dict[str, str]) -> Any:
    """Providers that take their tokens and headers from variables: anybody on the machine reads a program's words."""

    def variable(value: Any) -> str:
        name = f"CODEX_HANDOFF_KEY_{len(secrets) + 1}"
        secrets[name] = str(value)
        return name

    told = {}
    for name, provider in providers.items() if isinstance(providers, dict) else ():
        told[name] = dict(provider) if isinstance(provider, dict) else {}
        if _SECRET in told[name]:
            told[name]["env_key"] = variable(told[name].pop(_SECRET))
        if isinstance(told[name].get(_HEADERS), dict):
            headers = {header: variable(value) for header, value in told[name].pop(_HEADERS).items()}
            told[name]["env_http_headers"] = {**told[name].get("env_http_headers", {}), **headers}
    return told


def _named(words: tuple[str, ...]) -> tuple[str, ...]:
    """The variables that providers take their keys and headers from."""
    return tuple(name for word in words for name in re.findall(r"""env_key"?\s*=\s*["']([A-Za-z0-9_]+)""", word))


def _home(order: LaunchRequest) -> tuple[dict[str, str], dict[str, str]]:
    """Inside a sandbox the person's home cannot be written: Codex has one of its own, which must exist."""
    if not order.sandboxed:
        return {}, {}
    home = os.path.join(order.state or order.folder, "codex")
    return {"CODEX_HOME": home}, {os.path.join(home, ".handoff"): ""}


def _options(order: LaunchRequest) -> tuple[str, ...]:
    words = [*_QUIET, *model(order, "-m")]
    if order.sandboxed or not order.owned:
        words.append("--dangerously-bypass-approvals-and-sandbox")
    else:
        grant = {":root": "read", **dict.fromkeys((order.folder, *order.writable, *order.owned), "write")}
        words += ["-c", 'default_permissions="task"', "-c", f"permissions.task.filesystem={_toml(grant)}"]
    if order.hook:
        words.append("--dangerously-bypass-hook-trust")
        for name, groups in group_hooks(order.hook, "codex").items():
            words += ["-c", f"hooks.{name}={_toml(groups)}"]
    http = {"url": order.endpoint, "bearer_token_env_var": TOKEN_VARIABLE}
    local = {**as_program(order), "env_vars": _PASSED}
    for name, server in our_server(order, http=http, local=local, both=_SERVER).items():
        words += ["-c", f"mcp_servers.{name}={_toml(server)}"]
    return tuple(words)


def _toml(value: Any) -> str:
    """A value as TOML writes it inline; its texts are JSON's."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{dumps(key)}={_toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(_toml(item) for item in value) + "]"
    return dumps(value)


def read(line: str) -> tuple[AgentEvent, ...]:
    """One line of `exec --json`."""
    value = parse_line(line)
    kind = str(value.get("type") or "")
    if kind == "thread.started":
        return event(STARTED, client_id=str(value.get("thread_id") or ""))
    if kind in ("item.started", "item.completed"):
        return _item(part(value, "item"), started=kind == "item.started")
    if kind == "turn.started":
        return event(USAGE, turns=1)
    if kind == "turn.completed":
        # Of the thread, with what it used before it was resumed: its record says it better, where there is one.
        return (*usage_event(of_openai(part(value, "usage"), _COUNTS, key="thread")), *event(RESULT, ok=True))
    if kind == "turn.failed":
        return event(RESULT, value.get("error"), ok=False)
    return event(TROUBLE, value.get("message")) if kind == "error" else ()


def _item(item: dict[str, Any], *, started: bool) -> tuple[AgentEvent, ...]:
    kind = item.get("type")
    key = str(item.get("id") or "")
    if kind == "file_change":
        return () if started else file_event(item.get("changes"), ok=item.get("status") != "failed")
    if kind == "todo_list" and not started:
        return both_events("update_plan", {"plan": item.get("items")}, "")
    if kind in _TOOL_ITEMS and started:
        called = call_event(kind, {"command": item.get("command")} if item.get("command") else item, key)
        return tuple(one._replace(text=str(item.get("command") or kind)) for one in called)
    if kind in _TOOL_ITEMS:
        return answer_event(key, item.get("aggregated_output") or item.get("result"), code=item.get("exit_code"))
    return event(SAID, item.get("text")) if kind == "agent_message" and not started else ()


ADAPTER = Adapter(
    name="codex",
    title="Codex",
    programs=("codex",),
    abilities=with_hooks(_FLOOR, fence=BY_CLIENT),
    launch=launch,
    read=read,
    resume=resume,
    dialect="codex",
    floor=_FLOOR,
    variables=("OPENAI_*", "CODEX_*"),
    hosts=("api.openai.com", "chatgpt.com", "auth.openai.com"),
    secrets=("OPENAI_API_KEY", "CODEX_API_KEY"),
    login_status=("login", "status"),
    login_command="codex login",
    logins=((".codex/auth.json", "codex/auth.json", True),),
    settings=(".codex/config.toml", "CODEX_HOME"),
)

"""Any agent that speaks the Agent Client Protocol: a driver of ours talks to it and asks the hook program before each write.

The words after `--with` are the agent's own command, for example `--with gemini --with=--acp`.
"""

from __future__ import annotations

import os

from handoff.agents.adapters import claude, codex, gemini, opencode
from handoff.agents.adapters.pieces import answer_event, both_events, call_event, event, part
from handoff.agents.contract import (
    ANSWERED,
    PIECE,
    RESULT,
    SAID,
    STARTED,
    TOOL,
    USAGE,
    Abilities,
    Adapter,
    AgentEvent,
    Launch,
    Usage,
    number,
    parse_line,
)
from handoff.agents.records import of_openai
from handoff.base.errors import UserError
from handoff.base.light_json import dumps
from handoff.base.process import own_argv
from handoff.base.record import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from handoff.agents.contract import LaunchRequest

NAME, TALK, PLAN = "acp", "acp.json", "plan"
_COUNTS = "inputTokens cachedReadTokens outputTokens thoughtTokens"
_HOMES: dict[str, tuple[dict[str, str], tuple[tuple[str, str, bool], ...]]] = {
    "gemini": (
        {"GEMINI_CLI_HOME": "gemini"},
        ((".gemini/settings.json", "gemini/.gemini/settings.json", False), *gemini.ADAPTER.logins),
    ),
    "qwen": (
        {"QWEN_HOME": "qwen"},
        tuple(
            (f".qwen/{name}", f"qwen/{name}", name == "oauth_creds.json")
            for name in "oauth_creds.json settings.json .env QWEN.md extensions commands skills agents".split()
        ),
    ),
    "copilot": ({"COPILOT_HOME": "copilot"}, ((".copilot/config.json", "copilot/config.json", False),)),
    "opencode": (opencode.HOMES, opencode.ADAPTER.logins),
    "claude-code-acp": ({"CLAUDE_CONFIG_DIR": "claude"}, claude.ADAPTER.logins),
    "goose": ({}, ((".config/goose", "", False),)),
    "codex-acp": ({"CODEX_HOME": "codex"}, ((".codex/config.toml", "codex/config.toml", False), *codex.ADAPTER.logins)),
}
"""Inside a sandbox the person's home cannot be written, and no agent starts that cannot write beside its settings: which
variables move it into its session's folder, and what it sees there of the person's."""


def abilities(version: str) -> Abilities:
    """The driver calls the hooks itself, so they cannot be skipped."""
    del version
    return Abilities(start_context=True, deny_edit=True, refuse_stop=True, mcp=True)


def launch(order: LaunchRequest) -> Launch:
    """Our driver, with the agent's command in a file."""
    if not order.words:
        raise UserError(
            "Which agent? Give its command.", "For example: --agent acp --with gemini --with=--acp (each word apart)"
        )
    path = os.path.join(order.folder, TALK)
    talk = {
        "argv": list(order.words),
        "cwd": order.workspace,
        "prompt": order.prompt,
        "hook": list(order.hook),
        "mcp": list(order.mcp),
        "endpoint": order.endpoint,
    }
    # opencode is the one known agent that does not ask unless it is told to.
    asking = {"OPENCODE_PERMISSION": dumps({"edit": "ask"})}
    argv = (*own_argv("handoff.agents.acp_driver"), order.folder)
    name = os.path.basename(order.words[0])
    moved, reads = _HOMES.get(name, ({}, ())) if order.sandboxed else ({}, ())
    own = {variable: os.path.join(order.state or order.folder, below) for variable, below in moved.items()}
    files = {path: dumps(talk), **{os.path.join(home, ".handoff"): "" for home in own.values()}}  # some must be there
    return Launch(argv, {**asking, **own}, files, reads=reads)


def read(line: str) -> tuple[AgentEvent, ...]:
    """One line of the driver."""
    value = parse_line(line)
    kind = value.get("type")
    if kind == STARTED:
        return event(STARTED, client_id=str(value.get("id") or ""))
    if kind == RESULT:
        return event(RESULT, value.get("text"), ok=bool(value.get("ok")))
    if kind == USAGE:
        return event(USAGE, use=_used(value))
    if kind == PLAN:
        return both_events("update_plan", {"plan": value.get("items")}, "")
    if kind == TOOL:
        called = call_event(value.get("tool"), value.get("input"), str(value.get("call") or ""))
        return tuple(one._replace(text=str(value.get("text") or "")) for one in called)
    if kind == ANSWERED:
        return answer_event(str(value.get("call") or ""), value.get("output"), ok=bool(value.get("ok", True)))
    return event(SAID, value.get("text"), call=PIECE) if kind == SAID else ()


def _used(value: dict[str, Any]) -> Usage:
    """What an agent tells as the protocol names it. Some count what was cached and reasoned apart: then it shows in their total."""
    told, model = part(value, "usage"), str(value.get("model") or "").rpartition("|")[2].partition("(")[0]
    use = of_openai(told, _COUNTS, model=model)
    more = int(number(told.get("totalTokens"))) - use.tokens
    if more == use.cached + use.reasoning:
        use = use._replace(input=use.input + use.cached, output=use.output + use.reasoning)
    return use


ADAPTER = Adapter(
    name=NAME,
    title="any agent that speaks ACP",
    programs=(),
    abilities=abilities,
    launch=launch,
    read=read,
    tells_use=False,
    dialect="acp",
    version_words=(),
    variables=(
        "ANTHROPIC_*",
        "CLAUDE_*",
        "OPENAI_*",
        "CODEX_*",
        "GEMINI_*",
        "GOOGLE_*",
        "COPILOT_*",
        "OPENCODE_*",
        "QWEN_*",
    ),
    hosts=(
        "api.anthropic.com",
        "api.openai.com",
        "chatgpt.com",
        "generativelanguage.googleapis.com",
        "cloudcode-pa.googleapis.com",
        "oauth2.googleapis.com",
        "api.github.com",
        "*.githubcopilot.com",
        "openrouter.ai",
    ),
    secrets=tuple(
        """ANTHROPIC_API_KEY OPENAI_API_KEY GEMINI_API_KEY GOOGLE_API_KEY COPILOT_PROVIDER_API_KEY GH_TOKEN GITHUB_TOKEN
        COPILOT_GITHUB_TOKEN""".split()
    ),
)

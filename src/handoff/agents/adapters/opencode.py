"""opencode: no hook settings, so a small plugin of the session calls our hook program; it cannot refuse a stop."""

from __future__ import annotations

import os

from handoff.agents.adapters.pieces import both_events, event, model, our_server, part, usage_event, with_hooks
from handoff.agents.contract import (
    RESULT,
    SAID,
    STARTED,
    USAGE,
    Adapter,
    AgentEvent,
    Launch,
    Usage,
    bearer,
    number,
    parse_line,
    text_of,
)
from handoff.base.light_json import dumps
from handoff.base.record import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from handoff.agents.contract import LaunchRequest

_FLOOR = "1.10.0"
_QUIET = {
    **{f"OPENCODE_DISABLE_{name}": "1" for name in ("AUTOUPDATE", "LSP_DOWNLOAD", "DEFAULT_PLUGINS")},
    "npm_config_offline": "true",
}
_MODEL = "handoff.model"  # what our plugin prints: opencode itself does not tell which model it asks
_PLUGIN = """\
// Written by handoff for one session: asks the hook program before a file is edited.
import { spawnSync } from "node:child_process"
const command = %s
const ask = (event, input) => {
  const done = spawnSync(command[0], [...command.slice(1), "opencode", event], { input: JSON.stringify(input), encoding: "utf8" })
  if (done.status !== 0) throw new Error((done.stderr || "handoff: the hook failed").trim())
  return done.stdout
}
export const Handoff = async ({ directory }) => {
  let context = ""
  let model = ""
  return {
    "chat.params": async (input) => {
      const named = `${input.model?.providerID}/${input.model?.id}`
      if (named !== model) console.log(JSON.stringify({ type: "%s", model: (model = named) }))
    },
    "experimental.chat.system.transform": async (_input, output) => {
      if (!context) context = JSON.parse(ask("start", { cwd: directory }) || "{}").context || " "
      output.system.push(context)
    },
    "tool.execute.before": async (input, output) => {
      ask("edit", { cwd: directory, tool: input.tool, input: output.args })
    },
    "tool.execute.after": async (input, output) => {
      const said = JSON.parse(ask("after", { cwd: directory, tool: input.tool }) || "{}").context
      if (said) output.output = `${output.output || ""}\n\n${said}`
    },
  }
}
"""
HOMES = {"XDG_DATA_HOME": "opencode/share", "XDG_STATE_HOME": "opencode/state", "XDG_CONFIG_HOME": "opencode/config"}
"""Which variables move what it writes, and where below its session's folder."""


def launch(order: LaunchRequest) -> Launch:
    """A fresh session; opencode chooses the id and tells it with its first event."""
    return _launch(order, ())


def resume(order: LaunchRequest) -> Launch:
    """The same conversation once more."""
    return _launch(order, ("--session", order.client_id))


def _launch(order: LaunchRequest, which: tuple[str, ...]) -> Launch:
    folder = os.path.join(order.folder, "opencode")
    config: dict[str, Any] = {"autoupdate": False, "share": "disabled"}
    http = {"type": "remote", "url": order.endpoint, "headers": bearer(order), "oauth": False}
    local = {"type": "local", "command": list(order.mcp)}
    if servers := our_server(order, http=http, local=local, both={"enabled": True}):
        config["mcp"] = servers
    files = {os.path.join(folder, "opencode.json"): dumps(config)}
    if order.hook:
        files[os.path.join(folder, "plugin", "handoff.js")] = _PLUGIN % (dumps(list(order.hook)), _MODEL)
    place = ("--format", "json", "--dir", order.workspace, "--title", order.session, "--auto")
    argv = (order.program, "run", *place, *which, *model(order, "-m"), *order.words, order.prompt)
    own = {}
    if order.sandboxed:  # the person's home cannot be written inside a sandbox
        own = {name: os.path.join(order.state or order.folder, below) for name, below in HOMES.items()}
    return Launch(
        argv,
        {
            **_QUIET,
            "OPENCODE_CONFIG_DIR": folder,
            "OPENCODE_DB": os.path.join(order.state or order.folder, "opencode", "opencode.db"),
            **own,
        },
        files,
    )


def read(line: str) -> tuple[AgentEvent, ...]:
    """One line of its JSON events. It has no last event: the last finished step that stopped is the result."""
    value = parse_line(line)
    kind = value.get("type")
    known = str(value.get("sessionID") or "")
    step = part(value, "part")
    if kind == "step_start":
        return event(STARTED, client_id=known)
    if kind == "tool_use":
        state = part(step, "state")  # it tells of a tool when that has come back
        code = part(state, "metadata").get("exit")
        output = state.get("output") or state.get("error")
        return both_events(
            step.get("tool"), part(state, "input"), output, code=code, ok=state.get("status") == "completed"
        )
    if kind == "text":
        return event(SAID, step.get("text"))
    if kind == "step_finish":
        over = step.get("reason") == "stop"
        return (*usage_event(_used(step)), *(event(RESULT, client_id=known, ok=True) if over else ()))
    if kind == _MODEL:
        return event(USAGE, use=Usage(model=str(value.get("model") or "")))
    return _failed(part(value, "error"), known) if kind == "error" else ()


def _failed(error: dict[str, Any], known: str) -> tuple[AgentEvent, ...]:
    """Its own error, with the provider's status, and when the provider may be asked again."""
    data = part(error, "data")
    again = part(data, "responseHeaders").get("retry-after")
    words = f"{text_of(error)} (retry-after: {again})" if again else text_of(error)
    return event(RESULT, words, client_id=known, ok=False, status=int(number(data.get("statusCode"))))


def _used(step: dict[str, Any]) -> Usage:
    """One step. A cost of 0 is what it says of every model whose price it does not know."""
    told = part(step, "tokens")
    names = (
        (told, "input"),
        (told, "output"),
        (told, "reasoning"),
        (part(told, "cache"), "read"),
        (part(told, "cache"), "write"),
    )
    new, output, reasoning, cached, written = (int(number(where.get(name))) for where, name in names)
    return Usage(
        input=new + written,
        cached=cached,
        output=output + reasoning,
        reasoning=reasoning,
        written=written,
        money=number(step.get("cost")) or None,
        key=str(step.get("id") or ""),
    )


ADAPTER = Adapter(
    name="opencode",
    title="opencode",
    programs=("opencode",),
    abilities=with_hooks(_FLOOR, refuse_stop=False),  # one that stops too early is resumed with the reason
    launch=launch,
    read=read,
    resume=resume,
    dialect="opencode",
    floor=_FLOOR,
    variables=("OPENCODE_*", "ANTHROPIC_*", "OPENAI_*", "GEMINI_*", "OPENROUTER_*"),
    hosts=("api.anthropic.com", "api.openai.com", "generativelanguage.googleapis.com", "openrouter.ai", "opencode.ai"),
    secrets=("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"),
    logins=(
        (".local/share/opencode/auth.json", "opencode/share/opencode/auth.json", True),
        (".config/opencode/opencode.json", "opencode/config/opencode/opencode.json", False),
        (".config/git/config", "opencode/config/git/config", False),
        (".config/git/ignore", "opencode/config/git/ignore", False),
    ),
)

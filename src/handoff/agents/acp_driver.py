"""The driver of an ACP agent: speaks the protocol on its standard input and output and does its writes, if they are allowed.

Run as `python -m handoff.agents.acp_driver FOLDER`; what to start and to say is in FOLDER/acp.json.
"""

from __future__ import annotations

import os
import sys

from handoff.agents.adapters.acp import PLAN, TALK
from handoff.agents.contract import ANSWERED, RESULT, SAID, STARTED, TOKEN_VARIABLE, TOOL, USAGE, text_of
from handoff.agents.monitor import ERRORS
from handoff.base.files import make_folder, read_text
from handoff.base.light_json import dumps, loads
from handoff.base.process import Child, run, spawn
from handoff.base.record import TYPE_CHECKING
from handoff.base.settings import from_environment

if TYPE_CHECKING:
    from typing import Any

PROTOCOL = 1
_HOOK_SECONDS = 60.0
_NO_METHOD, _REFUSED = -32601, -32000
_EDITS = ("edit", "delete", "move")
_FORGETFUL = ("gemini",)  # a turn that is cancelled is gone from its conversation: words wait for its stop


class HungUpError(Exception):
    """The agent ended in the middle of the talk."""


class Driver:
    """One talk with one agent."""

    def __init__(self, folder: str) -> None:
        self.talk = loads(read_text(os.path.join(folder, TALK)))
        self.environment = from_environment().environment
        self.agent: Child = spawn(
            self.talk["argv"],
            environment=self.environment,
            cwd=self.talk["cwd"],
            err=os.path.join(folder, ERRORS),
            talk=True,
        )
        self.number = 0
        self.session = ""
        self.told_use = False
        """Whether it tells its tokens with its messages, and need not at the end of a turn."""
        self.running: set[str] = set()
        """The tool calls that have not come back."""
        self.words = ""
        """What a person said meanwhile. The protocol has no way into a turn, so it is ended, and the next one begins with them."""

    def run(self) -> int:
        """Begin, prompt, prompt again while the stop is refused, end."""
        try:
            able = self.ask(
                "initialize",
                protocolVersion=PROTOCOL,
                clientCapabilities={"fs": {"readTextFile": False, "writeTextFile": True}},
            )
            made = self.ask("session/new", cwd=self.talk["cwd"], mcpServers=self._servers(able))
            self.session = str(made.get("sessionId") or "")
            tell(STARTED, id=self.session)
            tell(USAGE, model=_model(made))
            text = self._with_context(str(self.talk["prompt"]))
            while text:
                answer = self.ask("session/prompt", sessionId=self.session, prompt=[{"type": "text", "text": text}])
                reason = str(answer.get("stopReason") or "")
                self._tell_use(answer)
                text, self.words = self.words, ""
                if not text and reason not in ("cancelled", "refusal"):
                    code, _, refusal = self.hook("stop", {"cwd": self.talk["cwd"]})
                    text = refusal if code else ""
            self.hook("end", {})
        except HungUpError as error:
            tell(RESULT, ok=False, text=str(error))
            return 1
        tell(RESULT, ok=reason == "end_turn", text="" if reason == "end_turn" else f"the agent stopped: {reason}")
        self.agent.talk.close()
        return 0

    def _tell_use(self, answer: dict[str, Any]) -> None:
        """What a turn has used: as the protocol has it, or as Gemini says it."""
        quota = ((answer.get("_meta") or {}).get("quota") or {}).get("model_usage") or []
        if self.told_use:
            return
        if answer.get("usage"):
            tell(USAGE, usage=answer["usage"])
        for one in quota:
            told = one.get("token_count") or {}
            counts = {"inputTokens": told.get("input_tokens"), "outputTokens": told.get("output_tokens")}
            tell(USAGE, model=one.get("model"), usage=counts)

    def _servers(self, able: dict[str, Any]) -> list[dict[str, Any]]:
        """Our tools, over HTTP where the agent says that it can."""
        transports = (able.get("agentCapabilities") or {}).get("mcpCapabilities") or {}
        if self.talk["endpoint"] and transports.get("http"):
            value = f"Bearer {self.environment.get(TOKEN_VARIABLE, '')}"
            headers = [{"name": "Authorization", "value": value}]
            return [{"type": "http", "name": "handoff", "url": self.talk["endpoint"], "headers": headers}]
        if not self.talk["mcp"]:
            return []
        words = self.talk["mcp"]
        env = [
            {"name": name, "value": value} for name, value in self.environment.items() if name.startswith("HANDOFF_")
        ]
        return [{"name": "handoff", "command": words[0], "args": words[1:], "env": env}]

    def _with_context(self, prompt: str) -> str:
        code, out, error = self.hook("start", {"cwd": self.talk["cwd"]})
        if code:
            raise HungUpError(error or "the start hook failed")
        context = _context(out)
        return f"{context}\n\n{prompt}" if context else prompt

    def _listen(self) -> None:
        """After its last open tool call: end the turn if a person has said something."""
        if self.running or self.words or os.path.basename(self.talk["argv"][0]) in _FORGETFUL:
            return
        self.words = _context(self.hook("after", {"cwd": self.talk["cwd"]})[1])
        if self.words:
            self.send({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": self.session}})

    def hook(self, event: str, value: dict[str, Any]) -> tuple[int, str, str]:
        """Ask the hook program, as every other client does."""
        if not self.talk["hook"]:
            return 0, "", ""
        done = run(
            [*self.talk["hook"], "acp", event],
            environment=self.environment,
            cwd=self.talk["cwd"],
            stdin=dumps(value).encode(),
            timeout=_HOOK_SECONDS,
        )
        return done.code, done.text, done.error_text

    # --- the protocol ------------------------------------------------------------------------------------

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a request and answer the agent's own until the response comes."""
        self.number += 1
        number = self.number
        self.send({"jsonrpc": "2.0", "id": number, "method": method, "params": parameters})
        while True:
            message = self.hear()
            if "method" in message:
                self.answer(message)
            elif message.get("id") == number:
                if "error" in message:
                    fault = message["error"]
                    data = fault.get("data")
                    more = f": {data.get('details') or data.get('message') or ''}" if isinstance(data, dict) else ""
                    raise HungUpError(f"{method}: {fault.get('message')}{more}".rstrip(": "))
                result = message.get("result")
                return result if isinstance(result, dict) else {}

    def send(self, message: dict[str, Any]) -> None:
        try:
            self.agent.talk.write(dumps(message).encode() + b"\n")
            self.agent.talk.flush()
        except OSError as error:
            raise HungUpError("the agent has hung up") from error

    def hear(self) -> dict[str, Any]:
        while True:
            line = self.agent.heard.readline()
            if not line:
                raise HungUpError("the agent ended before it had answered")
            try:
                value = loads(line.decode("utf-8", "replace"))
            except ValueError:
                continue
            if isinstance(value, dict):
                return value

    def answer(self, message: dict[str, Any]) -> None:
        """A request or a notification of the agent."""
        method, given = message["method"], message.get("params") or {}
        if method == "session/update":
            self.update(given.get("update") or {})
        elif method == "session/request_permission":
            self.send({"jsonrpc": "2.0", "id": message["id"], "result": {"outcome": self.permission(given)}})
        elif method == "fs/write_text_file":
            refused = self.write(str(given.get("path") or ""), str(given.get("content") or ""))
            body = {"error": {"code": _REFUSED, "message": refused}} if refused else {"result": None}
            self.send({"jsonrpc": "2.0", "id": message["id"], **body})
        elif "id" in message:
            self.send(
                {"jsonrpc": "2.0", "id": message["id"], "error": {"code": _NO_METHOD, "message": f"no {method} here"}}
            )

    def update(self, update: dict[str, Any]) -> None:
        kind = update.get("sessionUpdate")
        if kind == "agent_message_chunk":
            content = update.get("content") or {}
            used = (update.get("_meta") or {}).get("usage")
            if used:
                self.told_use = True
                tell(USAGE, usage=used)
            tell(SAID, text=str(content.get("text") or ""))
        elif kind == "tool_call":
            key, asked = str(update.get("toolCallId") or ""), update.get("rawInput")
            self.running.add(key)
            tell(
                TOOL,
                text=str(update.get("title") or update.get("kind") or ""),
                call=key,
                tool=update.get("kind"),
                input=asked,
            )
        elif kind == "tool_call_update" and update.get("status") in ("completed", "failed"):
            key, output = str(update.get("toolCallId") or ""), update.get("rawOutput") or update.get("content")
            tell(ANSWERED, call=key, ok=update.get("status") == "completed", output=text_of(output))
            self.running.discard(key)
            self._listen()
        elif kind == "plan":
            tell(PLAN, items=update.get("entries"))

    def permission(self, given: dict[str, Any]) -> dict[str, str]:
        """Yes to everything but an edit the hook refuses."""
        call = given.get("toolCall") or {}
        paths = [str(place.get("path")) for place in call.get("locations") or [] if place.get("path")]
        paths += [str(part.get("path")) for part in call.get("content") or [] if part.get("type") == "diff"]
        edits = call.get("kind") in _EDITS or any(part.get("type") == "diff" for part in call.get("content") or [])
        refused = next((reason for path in dict.fromkeys(paths) if edits and (reason := self.refusal(path))), "")
        wanted = ("reject_once", "reject_always") if refused else ("allow_once", "allow_always")
        if refused:
            tell(SAID, text=refused)
        for kind in wanted:
            for option in given.get("options") or []:
                if option.get("kind") == kind:
                    return {"outcome": "selected", "optionId": str(option.get("optionId"))}
        return {"outcome": "cancelled"}

    def refusal(self, path: str) -> str:
        code, _, error = self.hook("edit", {"tool": "write", "input": {"path": path}, "cwd": self.talk["cwd"]})
        return error if code else ""

    def write(self, path: str, content: str) -> str:
        """Do the agent's write; why not, when it is refused."""
        refused = self.refusal(path)
        if refused:
            return refused
        try:
            make_folder(os.path.dirname(path))
            with open(path, "w", encoding="utf-8", newline="") as file:
                file.write(content)
        except OSError as error:
            return f"cannot write {path}: {error.strerror}"
        return ""


def _context(out: str) -> str:
    """The text for the model in what the hook program printed."""
    return str(loads(out).get("context") or "") if out.strip() else ""


def _model(made: dict[str, Any]) -> str:
    """Which model a new session asks, as far as the agent says it."""
    options = [one for one in made.get("configOptions") or [] if isinstance(one, dict) and one.get("id") == "model"]
    named = options[0].get("currentValue") if options else (made.get("models") or {}).get("currentModelId")
    return str(named or "")


def tell(kind: str, **values: Any) -> None:
    """One line for the supervisor."""
    os.write(1, dumps({"type": kind, **values}).encode() + b"\n")


if __name__ == "__main__":
    sys.exit(Driver(sys.argv[1]).run())

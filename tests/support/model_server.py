"""A scripted model on the loopback: speaks Anthropic Messages, OpenAI Chat and Responses, and Gemini; streams, calls tools.

A script is a list of acts: ("write", path, text), ("patch", text), ("shell", line), ("tool", name, arguments), ("say", text),
("with", text, act) (words, and a call in the same answer), ("error", status, body), ("page",) (HTML instead of an answer), ("cut",) (an answer that breaks off), ("hang",), ("until", text, act) (each request
without that text hangs, and the first with it is answered), ("full", act) (the same, and the window is nearly full), ("full", act, tokens) (and so much is in it). One act answers one request that offers tools; requests without tools (titles, quotas)
get a word, unless the client is one that never offers any: then a write is spoken as a block to search and replace.
"""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

USAGE = {
    "input_tokens": 10,
    "output_tokens": 5,
}  # of every answer, in each dialect: 4 of the 10 are cached, 2 of the 5 are reasoning
FULL = {**USAGE, "input_tokens": 999_000}  # more than any window leaves room for: the client must compact
WRITE = {
    "Write": ("file_path", "content"), "write_file": ("file_path", "content"), "create": ("path", "file_text"),
    "write": ("filePath", "content"),
}  # fmt: skip
SHELL = ("Bash", "run_shell_command", "bash", "exec_command", "shell_command", "shell")


class ModelServer:
    """Start it, give its `url` to a client, look at `requests` afterwards."""

    def __init__(self, *acts: tuple[Any, ...], toolless: bool = False, host: str = "127.0.0.1") -> None:
        self.acts = list(acts)
        self.toolless = toolless
        self.closing = threading.Event()
        self.requests: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.headers: list[dict[str, str]] = []
        self._turn = 0
        self._lock = threading.Lock()
        owner = self

        class Talk(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_words: Any) -> None:
                return

            def do_GET(self) -> None:
                _send(self, 200, "application/json", b'{"data": [], "models": []}')

            def do_POST(self) -> None:
                length = int(self.headers.get("content-length") or 0)
                raw = self.rfile.read(length) if length else _chunked(self.rfile)
                owner.answer(self, json.loads(raw or b"{}"))

        self._server = ThreadingHTTPServer((host, 0), Talk)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()
        self.url = f"http://{host}:{self._server.server_port}"

    def close(self) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def texts(self, number: int = 0) -> str:
        """Everything the model was told in one of its requests."""
        return json.dumps(self.requests[number], ensure_ascii=False)

    def all_texts(self) -> str:
        return json.dumps(self.requests, ensure_ascii=False)

    def answer(self, talk: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        if "count_tokens" in talk.path or "countTokens" in talk.path:
            _send(talk, 200, "application/json", b'{"input_tokens": 10, "totalTokens": 10}')
            return
        names = _tool_names(body)
        with self._lock:
            act: tuple[Any, ...] = ("say", "ok")
            if names or self.toolless:
                self.requests.append(body)
                self.paths.append(talk.path)
                self.headers.append({name.lower(): value for name, value in talk.headers.items()})
                act = self.acts[min(self._turn, len(self.acts) - 1)]
                if act[0] == "until":
                    act = act[2] if act[1] in self.texts(-1) else ("hang",)
                self._turn += act != ("hang",)
        if act[0] == "error":
            _send(talk, act[1], "application/json", json.dumps(act[2]).encode())
            return
        if act[0] == "page":
            _send(talk, 200, "text/html", b"<html><body>Sign in to the network first.</body></html>")
            return
        if act[0] == "cut":
            _send(talk, 200, "text/event-stream", b": one moment\n\n", {"content-length": "100000"})
            talk.close_connection = True
            return
        usage = (
            {**FULL, "input_tokens": act[2]} if act[0] == "full" and act[2:] else FULL if act[0] == "full" else USAGE
        )
        act = act[1] if act[0] == "full" else act
        if act[0] == "hang":
            self.closing.wait()
            return
        text = act[1] if act[0] in ("say", "with") else ""
        act = act[2] if act[0] == "with" else act
        call = None if self.toolless else _call(act, names, body)
        if self.toolless and act[0] == "write":
            text = f"{act[1]}\n```\n<<<<<<< SEARCH\n=======\n{act[2]}\n>>>>>>> REPLACE\n```\n"
        for marker, speak in (("/messages", _messages), ("/responses", _responses), ("/chat/completions", _chat),
                              ("generateContent", _gemini), ("GenerateContent", _gemini)):  # fmt: skip
            if marker in talk.path:
                speak(talk, {**body, "usage": usage, "turn": self._turn}, text, call)
                return
        _send(talk, 404, "application/json", b"{}")


def _tool_names(body: dict[str, Any]) -> list[str]:
    names: list[str] = []
    for tool in body.get("tools") or []:
        if "functionDeclarations" in tool:
            names += [one["name"] for one in tool["functionDeclarations"]]
        elif "function" in tool:
            names.append(tool["function"]["name"])
        elif tool.get("type") == "namespace":
            names += [one["name"] for one in tool.get("tools", [])]
        elif "name" in tool:
            names.append(tool["name"])
    return names


def _call(act: tuple[Any, ...], names: list[str], body: dict[str, Any]) -> tuple[str, Any, bool] | None:
    """The tool to call: its name, its arguments, and whether they are free text."""
    if act[0] == "tool":
        name = next((one for one in names if one.endswith(act[1])), act[1])
        return name, act[2], False
    if act[0] == "shell":
        name = next((one for one in SHELL if one in names), "Bash")
        key = "cmd" if name == "exec_command" else "command"
        return name, {key: act[1], "description": "run it"}, False
    if act[0] == "write":
        name = next((one for one in WRITE if one in names), "")
        if name:
            where, what = WRITE[name]
            return name, {where: act[1], what: act[2]}, False
    if act[0] in ("write", "patch"):
        lines = "".join(f"+{line}\n" for line in act[-1].splitlines())
        change = act[1] if act[0] == "patch" else f"*** Add File: {act[1]}\n{lines}"
        patch = f"*** Begin Patch\n{change}*** End Patch\n"
        if "apply_patch" in names:
            free = any(one.get("name") == "apply_patch" and one.get("type") == "custom" for one in body["tools"])
            return "apply_patch", patch if free else {"input": patch}, free
        return "exec_command", {"cmd": f"apply_patch <<'EOF'\n{patch}EOF"}, False
    return None


def _send(
    talk: BaseHTTPRequestHandler, status: int, kind: str, data: bytes, more: dict[str, str] | None = None
) -> None:
    talk.send_response(status)
    for name, value in {"content-type": kind, "content-length": str(len(data)), **(more or {})}.items():
        talk.send_header(name, value)
    talk.end_headers()
    talk.wfile.write(data)


def _chunked(stream: Any) -> bytes:
    parts = []
    while size := int(stream.readline().strip() or b"0", 16):
        parts.append(stream.read(size))
        stream.readline()
    return b"".join(parts)


def _events(talk: BaseHTTPRequestHandler, events: list[dict[str, Any]], *, named: bool, done: bool = False) -> None:
    data = b""
    for event in events:
        head = f"event: {event['type']}\n" if named else ""
        data += f"{head}data: {json.dumps(event)}\n\n".encode()
    _send(talk, 200, "text/event-stream", data + (b"data: [DONE]\n\n" if done else b""))


def _messages(talk: Any, body: dict[str, Any], text: str, call: Any) -> None:
    blocks: list[dict[str, Any]] = [{"type": "text", "text": text}] if text or not call else []
    if call:
        asked = {"type": "tool_use", "id": f"toolu_{len(json.dumps(body))}", "name": call[0], "input": call[1]}
        blocks.append(asked)
    usage = {
        **body["usage"], "input_tokens": body["usage"]["input_tokens"] - 4, "cache_read_input_tokens": 4,
        "cache_creation_input_tokens": 0,
    }  # fmt: skip
    message = {
        "id": f"msg_{body['turn']}", "type": "message", "role": "assistant", "model": body.get("model", "m"), "content": blocks,
        "stop_reason": "tool_use" if call else "end_turn", "stop_sequence": None, "usage": usage,
    }  # fmt: skip
    if not body.get("stream"):
        _send(talk, 200, "application/json", json.dumps(message).encode())
        return
    streamed: list[dict[str, Any]] = []
    for index, block in enumerate(blocks):
        delta = {"type": "text_delta", "text": text}
        empty: dict[str, Any] = {"type": "text", "text": ""}
        if block["type"] == "tool_use":
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
            empty = {**block, "input": {}}
        streamed += [
            {"type": "content_block_start", "index": index, "content_block": empty},
            {"type": "content_block_delta", "index": index, "delta": delta},
            {"type": "content_block_stop", "index": index},
        ]
    _events(
        talk,
        [
            {"type": "message_start", "message": {**message, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}},
            *streamed,
            {"type": "message_delta", "delta": {"stop_reason": message["stop_reason"], "stop_sequence": None}, "usage": usage},
            {"type": "message_stop"},
        ],
        named=True,
    )  # fmt: skip


def _responses(talk: Any, body: dict[str, Any], text: str, call: Any) -> None:
    number = len(json.dumps(body))
    item: dict[str, Any] = {
        "type": "message", "role": "assistant", "id": f"msg_{number}", "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    }  # fmt: skip
    items = [item] if text or not call else []
    if call and call[2]:
        item = {
            "type": "custom_tool_call",
            "id": f"ct_{number}",
            "call_id": f"call_{number}",
            "name": call[0],
            "input": call[1],
        }
    elif call:
        item = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "name": call[0],
                "arguments": json.dumps(call[1])}  # fmt: skip
        for one in body.get("tools", []):
            if one.get("type") == "namespace" and call[0] in [inner["name"] for inner in one.get("tools", [])]:
                item["namespace"] = one["name"]
            if one.get("type") == "tool_search" and call[0] not in _tool_names(body):
                item["namespace"] = "mcp__handoff"  # a model would have searched for it first
    if call:
        items.append(item)
    response = {"id": f"resp_{number}", "object": "response", "status": "completed", "output": items, "model": body.get("model", "m"),
                "usage": {**body["usage"], "total_tokens": sum(body["usage"].values()), "input_tokens_details": {"cached_tokens": 4},
                          "output_tokens_details": {"reasoning_tokens": 2}}}  # fmt: skip
    if not body.get("stream"):
        _send(talk, 200, "application/json", json.dumps(response).encode())
        return
    _events(
        talk,
        [
            {"type": "response.created", "response": {**response, "output": [], "status": "in_progress"}},
            *(
                {"type": f"response.output_item.{state}", "output_index": index, "item": one}
                for index, one in enumerate(items)
                for state in ("added", "done")
            ),
            {"type": "response.completed", "response": response},
        ],
        named=True,
    )


def _chat(talk: Any, body: dict[str, Any], text: str, call: Any) -> None:
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if call:
        function = {"name": call[0], "arguments": json.dumps(call[1])}
        message = {"role": "assistant", "content": text or None,
                   "tool_calls": [{"index": 0, "id": f"call_{len(json.dumps(body))}", "type": "function", "function": function}]}  # fmt: skip
    finish = "tool_calls" if call else "stop"
    usage = {
        "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15, "prompt_tokens_details": {"cached_tokens": 4},
        "completion_tokens_details": {"reasoning_tokens": 2},
    }  # fmt: skip
    base = {"id": "c1", "created": 1, "model": body.get("model", "m")}
    if not body.get("stream"):
        whole = {**base, "object": "chat.completion", "usage": usage,
                 "choices": [{"index": 0, "message": message, "finish_reason": finish}]}  # fmt: skip
        _send(talk, 200, "application/json", json.dumps(whole).encode())
        return
    chunk = {**base, "object": "chat.completion.chunk"}
    _events(
        talk,
        [
            {**chunk, "choices": [{"index": 0, "delta": message, "finish_reason": None}]},
            {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]},
            {**chunk, "choices": [], "usage": usage},
        ],
        named=False,
        done=True,
    )


def _gemini(talk: Any, body: dict[str, Any], text: str, call: Any) -> None:
    del body
    parts: list[dict[str, Any]] = [{"text": text}] if text or not call else []
    if call:
        parts.append({"functionCall": {"name": call[0], "args": call[1]}})
    counts = (("prompt", 10), ("cachedContent", 4), ("candidates", 3), ("thoughts", 2), ("total", 15))
    answer = {
        "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {f"{name}TokenCount": count for name, count in counts},
    }
    if "stream" not in talk.path:
        _send(talk, 200, "application/json", json.dumps(answer).encode())
        return
    _events(talk, [answer], named=False)

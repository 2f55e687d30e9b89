"""Small stores written by hand, one for each client: the same short session, in the form in which each client keeps it."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sqlite3
from typing import Any

FIRST = "Build a cart that sums prices. Never touch README.md."
SECOND = "Now also count VAT. Keep the old function name."
SAID = "I count in cents because floats lose money. Caching by name does not work."
LAST = "VAT is half done. Next: wire checkout.py."
RED = "FAIL: test_sum (test_cart.T.test_sum)\nAssertionError: 4 != 3\nFAILED (failures=1)"
TEST = "API_TOKEN=hunter2hunter2 python3 -m unittest"
AT = "2026-11-18T04:4{}:00.000Z"
ID = "b21d455c-4278-4149-abe5-80f24a636a16"


def write_rows(path: str, rows: list[Any], *, end: str = "") -> str:
    """A log of JSON rows as clients write it: without blanks, one a line."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)
        file.write(end)
    return path


def slug(folder: str) -> str:
    return re.sub(r"[^A-Za-z0-9]", "-", folder)


def claude_rows(folder: str) -> list[dict[str, Any]]:
    about = {"cwd": folder, "gitBranch": "main", "version": "2.1.325", "sessionId": ID, "isSidechain": False}

    def user(content, minute, **more):
        return {
            "type": "user",
            "message": {"role": "user", "content": content},
            "timestamp": AT.format(minute),
            **about,
            **more,
        }

    def model(*content, id="msg_1", minute=1):
        usage = {"input_tokens": 6, "cache_read_input_tokens": 4, "output_tokens": 5}
        message = {"id": id, "role": "assistant", "model": "claude-opus-5-5", "content": list(content), "usage": usage}
        return {"type": "assistant", "message": message, "timestamp": AT.format(minute), **about}

    def call(name, number, **asked):
        return {"type": "tool_use", "id": f"t{number}", "name": name, "input": asked}

    def result(number, text, minute=1, shown=None, **more):
        block = {"type": "tool_result", "tool_use_id": f"t{number}", "content": text, **more}
        return user([block], minute, toolUseResult=shown or {})

    return [
        {"type": "queue-operation", "operation": "enqueue", "content": FIRST},
        user(FIRST, 0),
        {"parentUuid": None, "isSidechain": False, "attachment": {"type": "skill_listing", "content": "x" * 500}, "type": "attachment"},
        {"type": "api-request-shape", "shape": {"system": "y" * 500}},
        model(call("Edit", 1, file_path=f"{folder}/cart.py", old_string="0", new_string="1")),
        result(1, "done", shown={"structuredPatch": []}),
        model(call("Edit", 2, file_path=f"{folder}/cart.py", old_string="no", new_string="1"), id="msg_2"),
        result(2, "String to replace not found in file.", is_error=True),
        model(call("Write", 3, file_path=f"{folder}/prices.py", content="C = 1"), id="msg_3"),
        result(3, "ok", shown={"type": "create"}),
        model(call("Bash", 4, command="python3 -c 1"), id="msg_4"),
        result(4, ""),
        model(call("Bash", 5, command=TEST), id="msg_5"),
        result(5, f"Exit code 1\n{RED}", is_error=True),
        model({"type": "text", "text": SAID}, id="msg_6"),
        model({"type": "text", "text": SAID}, id="msg_6") | {"isSidechain": True},
        {"type": "cost-state", "totalCostUSD": 0.5},
        user(SECOND, 2),
        model({"type": "text", "text": LAST}, id="msg_7", minute=3),
        {"type": "cost-state", "totalCostUSD": 0.75},
    ]  # fmt: skip


def claude(home: str, folder: str) -> str:
    return write_rows(f"{home}/.claude/projects/{slug(folder)}/{ID}.jsonl", claude_rows(folder))


def codex_rows(folder: str) -> list[dict[str, Any]]:
    def event(minute, **payload):
        return {"timestamp": AT.format(minute), "type": "event_msg", "payload": payload}

    def item(minute, **what):
        return event(minute, type="item_completed", item=what)

    def said(minute, text):
        return item(minute, type="UserMessage", content=[{"type": "text", "text": text}])

    def ran(line, code, text=""):
        return item(
            1, type="CommandExecution", command=["/bin/bash", "-lc", line], aggregated_output=text, exit_code=code
        )

    meta = {"id": ID, "cwd": folder, "cli_version": "0.163.0", "git": {"branch": "main", "commit_hash": "abc123"}}
    context = {
        "type": "message",
        "role": "user",
        "content": [{"type": "input_text", "text": "<environment_context>x</environment_context>"}],
    }
    return [
        {"timestamp": AT.format(0), "type": "session_meta", "payload": meta},
        event(0, type="task_started"),
        {"timestamp": AT.format(0), "type": "response_item", "payload": context},
        {"timestamp": AT.format(0), "type": "turn_context", "payload": {"model": "gpt-5.5"}},
        said(0, FIRST),
        item(1, type="FileChange", changes={f"{folder}/cart.py": {"type": "update", "unified_diff": "@@\n-0\n+1\n"}}, status="completed"),
        {"timestamp": AT.format(1), "type": "response_item", "payload": {"type": "custom_tool_call", "call_id": "c", "input": "*** Update File: cart.py\n"}},
        {"timestamp": AT.format(1), "type": "response_item", "payload": {"type": "custom_tool_call_output", "call_id": "c", "output": "apply_patch failed"}},
        item(1, type="FileChange", changes={f"{folder}/prices.py": {"type": "add", "content": "C = 1"}}, status="completed"),
        ran("python3 -c 1", 0),
        ran(TEST, 1, RED),
        item(1, type="AgentMessage", content=[{"type": "Text", "text": SAID}]),
        event(1, type="token_count", info={"total_token_usage": {"total_tokens": 60}}),
        event(1, type="task_complete"),
        event(2, type="task_started"),
        said(2, SECOND),
        item(3, type="AgentMessage", content=[{"type": "Text", "text": LAST}]),
        event(3, type="token_count", info={"total_token_usage": {"total_tokens": 70}}),
        event(3, type="task_complete"),
    ]  # fmt: skip


def codex(
    home: str, folder: str, *, id: str = ID, rows: list[Any] | None = None, time: str = "2026-11-18T04-40-54"
) -> str:
    path = f"{home}/.codex/sessions/2026/11/18/rollout-{time}-{id}.jsonl"
    return write_rows(path, codex_rows(folder) if rows is None else rows)


def gemini_rows(folder: str) -> list[dict[str, Any]]:
    def user(id, text, minute):
        return {"id": id, "timestamp": AT.format(minute), "type": "user", "content": [{"text": text}]}

    def model(id, text="", minute=1, **call):
        row = {
            "id": id,
            "timestamp": AT.format(minute),
            "type": "gemini",
            "content": text,
            "tokens": {"total": 10},
            "model": "gemini-2.5-pro",
        }
        return {**row, "toolCalls": [call]} if call else row

    def call(name, output, status="success", shown=None, **asked):
        result = [{"functionResponse": {"response": {"error" if status == "error" else "output": output}}}]
        return {"name": name, "args": asked, "status": status, "result": result, "resultDisplay": shown}

    header = {
        "sessionId": ID,
        "projectHash": hashlib.sha256(folder.encode()).hexdigest(),
        "startTime": AT.format(0),
        "kind": "main",
    }
    context = user("c", "<session_context>\nThis is the Gemini CLI.\n</session_context>", 0)
    red = f"<untrusted_context>\nOutput: {RED}\nExit Code: 1\nProcess Group PGID: 4\n</untrusted_context>"
    rows = [
        header,
        {"$set": {"messages": [context], "lastUpdated": AT.format(0)}},
        user("u1", f"<hook_context>from a hook</hook_context>{FIRST}", 0),
        model("g1"),
        model("g1", **call("replace", "ok", shown={"isNewFile": False}, file_path=f"{folder}/cart.py", old_string="0", new_string="1")),
        model("g2", **call("replace", "Could not find it", "error", file_path=f"{folder}/cart.py", old_string="no", new_string="1")),
        model("g3", **call("write_file", "ok", shown={"isNewFile": True}, file_path=f"{folder}/prices.py", content="C = 1")),
        model("g4", **call("run_shell_command", "<untrusted_context>\nOutput: 1\n</untrusted_context>", command="python3 -c 1")),
        model("g5", **call("run_shell_command", red, command=TEST)),
        model("g6", SAID),
    ]  # fmt: skip
    again = [context, user("u1", FIRST, 2), {"id": "g1", "type": "gemini", "content": [{"functionCall": {}}]}]
    return [*rows, {"$set": {"messages": again}}, user("u2", SECOND, 2), model("g7", LAST, 3)]


def gemini(home: str, folder: str) -> str:
    os.makedirs(f"{home}/.gemini/tmp/app", exist_ok=True)
    return write_rows(f"{home}/.gemini/tmp/app/chats/session-2026-11-18T04-41-{ID[:8]}.jsonl", gemini_rows(folder))


def copilot_rows(folder: str) -> list[dict[str, Any]]:
    def event(kind, minute=1, **data):
        return {"type": kind, "data": data, "timestamp": AT.format(minute)}

    def call(number, name, result, *, success=True, asked=None, **more):
        start = event("tool.execution_start", toolCallId=f"c{number}", toolName=name, arguments=asked or {})
        shown = {"result": {"content": result}} if success else {"error": {"message": result}}
        return [start, event("tool.execution_complete", toolCallId=f"c{number}", success=success, **shown, **more)]

    def edits(path, kind):
        return [{"path": path, "kind": kind}]

    context = {"cwd": folder, "branch": "main", "headCommit": "abc123"}
    cart, prices = f"{folder}/cart.py", f"{folder}/prices.py"
    return [
        event("session.start", 0, sessionId=ID, copilotVersion="1.0.102", selectedModel="gpt-4.1", context=context),
        event("user.message", 0, content=FIRST, transformedContent=f"<current_datetime>x</current_datetime>{FIRST}", delivery="idle"),
        event("system.message", content="You are the GitHub Copilot CLI."),
        *call(1, "edit", "updated", asked={"path": cart, "old_str": "0", "new_str": "1"}, fileEdits=edits(cart, "edit")),
        *call(2, "edit", "No match found", success=False, asked={"path": cart, "old_str": "no", "new_str": "1"}),
        *call(3, "create", "made", asked={"path": prices}, fileEdits=edits(prices, "create")),
        *call(4, "bash", "", asked={"command": "python3 -c 1"}, shellExecution={"exitCode": 0}),
        *call(5, "bash", f"{RED}\n<shellId: 0 completed with exit code 1>", asked={"command": TEST}, shellExecution={"exitCode": 1}),
        event("session.usage_record", usage={"inputTokens": 50, "outputTokens": 10, "cost": 0.5}),
        event("assistant.message", content=SAID, toolRequests=[]),
        event("session.shutdown", accountingSnapshot={}),
        event("session.resume", 2, selectedModel="gpt-4.1", context=context),
        event("user.message", 2, content=SECOND, delivery="idle"),
        event("assistant.message", 3, content=LAST),
        event("session.usage_record", usage={"inputTokens": 5, "outputTokens": 5, "cost": 0.25}),
        event("session.shutdown", 3, accountingSnapshot={}),
    ]  # fmt: skip


def copilot(home: str, folder: str) -> str:
    place = f"{home}/.copilot/session-state/{ID}"
    path = write_rows(f"{place}/events.jsonl", copilot_rows(folder))
    with sqlite3.connect(f"{place}/session.db") as base:
        base.execute("CREATE TABLE todos (id TEXT PRIMARY KEY, title TEXT, description TEXT, status TEXT)")
        base.execute("INSERT INTO todos VALUES ('a', 'write cart', '', 'done'), ('b', 'wire checkout', '', 'pending')")
    base.close()
    return path


def opencode_parts(folder: str) -> list[tuple[str, int, dict[str, Any]]]:
    """Role, minute and part."""

    def tool(name, output, metadata=None, status="completed", **asked):
        state = {
            "status": status,
            "input": asked,
            "metadata": metadata or {},
            "error" if status == "error" else "output": output,
        }
        return "assistant", 1, {"type": "tool", "tool": name, "callID": "c", "state": state}

    return [
        ("user", 0, {"type": "text", "text": f'"{FIRST}"'}),
        ("user", 0, {"type": "text", "text": "file contents", "synthetic": True}),
        tool("edit", "ok", filePath=f"{folder}/cart.py", oldString="0", newString="1"),
        tool("edit", "Could not find oldString", status="error", filePath=f"{folder}/cart.py", oldString="no", newString="1"),
        tool("write", "ok", {"exists": False}, filePath=f"{folder}/prices.py", content="C = 1"),
        ("assistant", 1, {"type": "patch", "files": [f"{folder}/prices.py"]}),
        tool("bash", "", {"exit": 0}, command="python3 -c 1"),
        tool("bash", RED, {"exit": 1}, command=TEST),
        ("assistant", 1, {"type": "text", "text": SAID}),
        ("assistant", 1, {"type": "step-finish", "tokens": {"input": 50, "output": 10}, "cost": 0.75}),
        ("user", 2, {"type": "text", "text": f'"{SECOND}"'}),
        ("assistant", 3, {"type": "text", "text": LAST}),
    ]  # fmt: skip


def opencode(home: str, folder: str) -> str:
    path = f"{home}/.local/share/opencode/opencode.db"
    os.makedirs(os.path.dirname(path), exist_ok=True)
    start = 1_794_976_800_000
    with sqlite3.connect(path) as base:
        base.executescript("""
            CREATE TABLE session (id TEXT, project_id TEXT, parent_id TEXT, directory TEXT, version TEXT, time_updated INTEGER);
            CREATE TABLE message (id TEXT, session_id TEXT, time_created INTEGER, data TEXT);
            CREATE TABLE part (id TEXT, message_id TEXT, session_id TEXT, time_created INTEGER, data TEXT);
            CREATE TABLE todo (session_id TEXT, content TEXT, status TEXT, position INTEGER);
        """)
        base.execute("INSERT INTO session VALUES (?, 'root', NULL, ?, '1.18.18', ?)", (ID, folder, start + 200_000))
        base.execute(
            "INSERT INTO session VALUES ('other', 'root', NULL, '/elsewhere', '1.18.18', ?)", (start + 900_000,)
        )
        for number, (role, minute, part) in enumerate(opencode_parts(folder)):
            at = start + minute * 60_000 + number
            message = {"role": role, "mode": "build", "modelID": "m", "time": {"created": at, "completed": at}}
            base.execute("INSERT INTO message VALUES (?, ?, ?, ?)", (f"m{number:02}", ID, at, json.dumps(message)))
            base.execute(
                "INSERT INTO part VALUES (?, ?, ?, ?, ?)", (f"p{number:02}", f"m{number:02}", ID, at, json.dumps(part))
            )
        base.execute(
            "INSERT INTO todo VALUES (?, 'write cart', 'completed', 0), (?, 'wire checkout', 'pending', 1)", (ID, ID)
        )
    base.close()
    return path


def qwen_rows(folder: str) -> list[dict[str, Any]]:
    about = {"sessionId": ID, "cwd": folder, "version": "0.24.4", "gitBranch": "main"}

    def row(kind, provenance, *parts, minute=1, **more):
        return {
            "type": kind,
            "provenance": provenance,
            "timestamp": AT.format(minute),
            **about,
            "message": {"parts": list(parts)},
            **more,
        }

    def call(number, name, output, status="success", shown=None, **asked):
        asks = row(
            "assistant",
            "assistant_output",
            {"functionCall": {"id": f"c{number}", "name": name, "args": asked}},
            model="m",
        )
        reply = {
            "functionResponse": {"id": f"c{number}", "response": {"error" if status == "error" else "output": output}}
        }
        return [
            asks,
            row("tool_result", "tool_result", reply, toolCallResult={"status": status, "resultDisplay": shown}),
        ]

    def says(text, minute):
        return row(
            "assistant",
            "assistant_output",
            {"text": text},
            minute=minute,
            model="m",
            usageMetadata={"totalTokenCount": 35},
        )

    cart = f"{folder}/cart.py"
    return [
        row("user", "real_user", {"text": FIRST}, minute=0),
        row("user", "system", {"text": "a reminder of the client"}, minute=0),
        {"type": "system", "subtype": "ui_telemetry", "systemPayload": {}, **about},
        *call(1, "edit", "ok", file_path=cart, old_string="0", new_string="1"),
        *call(2, "edit", "0 occurrences found", "error", file_path=cart, old_string="no", new_string="1"),
        *call(3, "write_file", "Successfully created and wrote to new file: x.", file_path=f"{folder}/prices.py", content="C = 1"),
        *call(4, "run_shell_command", "Command: x\nOutput: 1\nExit Code: 0", command="python3 -c 1"),
        *call(5, "run_shell_command", f"Command: x\nOutput: {RED}\nExit Code: 1", "error", command=TEST),
        says(SAID, 1),
        row("user", "real_user", {"text": SECOND}, minute=2),
        says(LAST, 3),
    ]  # fmt: skip


def qwen(home: str, folder: str) -> str:
    return write_rows(f"{home}/.qwen/projects/{slug(folder)}/chats/{ID}.jsonl", qwen_rows(folder))


def aider(home: str, folder: str) -> str:
    path = os.path.join(folder, ".aider.chat.history.md")
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"""
# aider chat started at 2026-11-18 04:40:00

> Main model: openai/gpt-4.1 with diff edit format

#### An older chat.

# aider chat started at 2026-11-18 04:41:00

> Main model: openai/gpt-4.1 with diff edit format

#### {FIRST}

{SAID}

> Applied edit to cart.py
> Tokens: 2.5k sent, 100 received. Cost: $0.01 message, $0.75 session.

#### {SECOND}

{LAST}
""")
    return path


def cursor(home: str, folder: str) -> str:
    def row(role, *content):
        return {"role": role, "message": {"content": list(content)}}

    return write_rows(
        f"{home}/.cursor/projects/{slug(folder).lstrip('-')}/agent-transcripts/{ID}/{ID}.jsonl",
        [
            row("user", {"type": "text", "text": f"<user_query>\n{FIRST}\n</user_query>"}),
            row("assistant", {"type": "tool_use", "name": "StrReplace", "input": {"path": f"{folder}/cart.py"}}),
            row("assistant", {"type": "tool_use", "name": "Shell", "input": {"command": TEST}}),
            row("assistant", {"type": "text", "text": SAID}),
            row("user", {"type": "text", "text": f"<user_query>{SECOND}</user_query>"}),
            row("assistant", {"type": "text", "text": LAST}),
        ],
    )


STORES = {
    "claude": claude,
    "codex": codex,
    "gemini": gemini,
    "copilot": copilot,
    "opencode": opencode,
    "qwen": qwen,
    "aider": aider,
    "cursor": cursor,
}
WITH_RESULTS = tuple(name for name in STORES if name not in ("aider", "cursor"))

"""The clients' own session stores, written in their form: what `take` finds of a session that never heard of handoff."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sqlite3
import time
import uuid

_STATES = {"[x]": "completed", "[>]": "in_progress", "[ ]": "pending"}


def write(client, home, folder, told):
    """The store of one session; its path. What was told says when it happened (`at`)."""
    folder = os.path.realpath(folder)
    _TIMES[:] = [one["at"] for one in told]
    return {"claude": _claude, "codex": _codex, "gemini": _gemini, "copilot": _copilot, "opencode": _opencode,
            "qwen": _qwen, "aider": _aider}.get(client, _claude)(home, folder, told)  # fmt: skip


def text_of(path):
    """The raw record, as somebody would paste it."""
    if path.endswith(".db"):
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as base:
            return "\n".join(row[0] for row in base.execute("SELECT data FROM part ORDER BY id"))
    with open(path, encoding="utf-8") as file:
        return file.read()


_TIMES = []
"""When each thing happened that is written now."""


def _stamp(number=0):
    at = _TIMES[min(number, len(_TIMES) - 1)]
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at)) + f".{int(at * 1000) % 1000:03d}Z"


def _slug(folder):
    return re.sub(r"[^A-Za-z0-9]", "-", folder)


def _put(path, rows):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n" for row in rows)
    os.chmod(path, 0o600)
    return path


def _tool(one, folder, names):
    """A call as (name, input, output) in the words of a client: names of shell, write, edit, read and their fields."""
    kind = one["kind"]
    where = os.path.join(folder, one.get("path", ""))
    if kind == "file" and one["how"] == "delete":
        return names["shell"], {"command": f"rm {one['path']}"}, "", 0
    if kind == "file" and one["how"] == "add":
        return (
            names["write"],
            {names["path"]: where, names["content"]: one["new"]},
            f"File created successfully at: {where}",
            0,
        )
    if kind == "file":
        given = {names["path"]: where, names["old"]: one["old"], names["new"]: one["new"]}
        return names["edit"], given, f"The file {where} has been updated.", 0
    if kind == "read":
        return names["read"], {names["path"]: where}, one["output"], 0
    return names["shell"], {"command": one["command"]}, one.get("output", ""), one.get("exit", 0)


_CALLS = ("file", "read", "shell", "open")


# --- Claude ----------------------------------------------------------------------------------------------------


def _claude(home, folder, told):
    names = {"shell": "Bash", "write": "Write", "edit": "Edit", "read": "Read", "path": "file_path", "content": "content",
             "old": "old_string", "new": "new_string"}  # fmt: skip
    session, rows, parent = str(uuid.uuid4()), [], None

    def row(kind, number, **words):
        nonlocal parent
        own = {"type": kind, "uuid": str(uuid.uuid4()), "parentUuid": parent, "timestamp": _stamp(number), "cwd": folder,
               "gitBranch": "main", "version": "2.1.325", "sessionId": session, "isSidechain": False, **words}  # fmt: skip
        parent = own["uuid"]
        rows.append(own)

    def assistant(number, content):
        usage = {"input_tokens": 900, "output_tokens": 60}
        message = {
            "id": f"msg_{number}",
            "role": "assistant",
            "model": "claude-sonnet-4-5",
            "content": content,
            "usage": usage,
        }
        row("assistant", number, message=message)

    for number, one in enumerate(told):
        kind = one["kind"]
        if kind == "person":
            message = {"role": "user", "content": one["text"]}
            row("user", number, message=message, origin={"kind": "human"}, promptSource="typed")
        elif kind == "say":
            assistant(number, [{"type": "text", "text": one["text"]}])
        elif kind == "todo":
            todos = [{"content": step[4:], "status": _STATES[step[:3]], "activeForm": step[4:]} for step in one["text"]]
            assistant(
                number, [{"type": "tool_use", "id": f"toolu_{number}", "name": "TodoWrite", "input": {"todos": todos}}]
            )
            result = [{"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": "Todos have been modified"}]
            row("user", number, message={"role": "user", "content": result}, toolUseResult={"newTodos": todos})
        elif kind in _CALLS:
            name, given, output, code = _tool(one, folder, names)
            assistant(number, [{"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": given}])
            if kind != "open":
                text = f"Exit code {code}\n{output}" if code else output
                result = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": text}
                if code:
                    result["is_error"] = True
                row("user", number, message={"role": "user", "content": [result]},
                    toolUseResult=f"Error: {text}" if code else {"stdout": output, "stderr": "", "interrupted": False})  # fmt: skip
        elif kind == "compact":
            row("system", number, subtype="compact_boundary", compactMetadata={"trigger": "auto", "preTokens": 155000})
            words = (
                f"This session is being continued from a previous conversation that ran out of context. {one['text']}"
            )
            row("user", number, message={"role": "user", "content": words}, isCompactSummary=True)
        elif kind == "limit":
            message = {
                "id": "x",
                "role": "assistant",
                "model": "<synthetic>",
                "content": [{"type": "text", "text": one["text"]}],
            }
            row("assistant", number, message=message, isApiErrorMessage=True)
    return _put(os.path.join(home, ".claude", "projects", _slug(folder), f"{session}.jsonl"), rows)


# --- Codex -----------------------------------------------------------------------------------------------------


def _codex(home, folder, told):
    session = str(uuid.uuid4())
    rows = []

    def row(kind, **payload):
        rows.append({"timestamp": _stamp(len(rows)), "ordinal": len(rows), "type": kind, "payload": payload})

    def item(**words):
        row("event_msg", type="item_completed", thread_id=session, turn_id="1", item={"id": f"i{len(rows)}", **words})

    row("session_meta", id=session, timestamp=_stamp(), cwd=folder, originator="codex_cli", cli_version="0.163.0",
        source="cli", history_mode="paginated", git={"branch": "main"})  # fmt: skip
    row("turn_context", cwd=folder, model="gpt-5.1-codex")
    row("event_msg", type="task_started", turn_id="1")
    for one in told:
        kind = one["kind"]
        if kind == "person":
            item(type="UserMessage", content=[{"type": "text", "text": one["text"]}])
        elif kind == "say":
            item(type="AgentMessage", content=[{"type": "Text", "text": one["text"]}])
        elif kind == "todo":
            plan = [{"step": step[4:], "status": _STATES[step[:3]]} for step in one["text"]]
            given = json.dumps({"plan": plan})
            row("response_item", type="function_call", name="update_plan", arguments=given, call_id=f"c{len(rows)}")
        elif kind == "file":
            change = {
                "add": {"type": "add", "content": one["new"]},
                "delete": {"type": "delete", "content": one["old"]},
            }
            diff = f"@@ -1 +1 @@\n-{one['old']}\n+{one['new']}\n"
            told_change = change.get(one["how"], {"type": "update", "unified_diff": diff, "move_path": None})
            item(type="FileChange", changes={os.path.join(folder, one["path"]): told_change}, status="completed")
        elif kind in ("shell", "read"):
            command = one.get("command") or f"sed -n 1,200p {one['path']}"
            item(type="CommandExecution", command=["bash", "-lc", command], cwd=folder, aggregated_output=one["output"],
                 exit_code=one.get("exit", 0), status="failed" if one.get("exit") else "completed", parsed_cmd=[])  # fmt: skip
        elif kind == "open":
            given = json.dumps({"cmd": one["command"]})
            row("response_item", type="function_call", name="exec_command", arguments=given, call_id="open")
        elif kind == "compact":
            row("compacted", message=one["text"], replacement_history=[])
        elif kind == "limit":
            row("event_msg", type="task_complete", turn_id="1", error={"message": one["text"]})
    day = time.strftime("%Y/%m/%d", time.gmtime())
    name = f"rollout-{time.strftime('%Y-%m-%dT%H-%M-%S', time.gmtime())}-{session}.jsonl"
    return _put(os.path.join(home, ".codex", "sessions", day, name), rows)


# --- Gemini and Qwen -------------------------------------------------------------------------------------------

_GEMINI = {"shell": "run_shell_command", "write": "write_file", "edit": "replace", "read": "read_file", "path": "file_path",
           "content": "content", "old": "old_string", "new": "new_string"}  # fmt: skip


def _gemini_text(one, output, code, *, always=False):
    return f"Output: {output}\nExit Code: {code}" if one["kind"] == "shell" and (code or always) else output


def _gemini(home, folder, told):
    session, base = str(uuid.uuid4()), os.path.join(home, ".gemini")
    name = os.path.basename(folder)
    rows = [
        {
            "sessionId": session,
            "projectHash": hashlib.sha256(folder.encode()).hexdigest(),
            "startTime": _stamp(),
            "lastUpdated": _stamp(),
            "kind": "main",
        }
    ]

    def message(kind, **words):
        rows.append({"id": str(uuid.uuid4()), "timestamp": _stamp(len(rows)), "type": kind, **words})

    for number, one in enumerate(told):
        kind = one["kind"]
        if kind == "person":
            message("user", content=[{"text": one["text"]}])
        elif kind == "say":
            message("gemini", content=one["text"], model="gemini-2.5-pro")
        elif kind in ("todo", "file", "read", "shell"):
            if kind == "todo":
                todos = [{"description": step[4:], "status": _STATES[step[:3]]} for step in one["text"]]
                call, given, output, code = "write_todos", {"todos": todos}, "Successfully updated the todo list.", 0
            else:
                call, given, output, code = _tool(one, folder, _GEMINI)
            said = _gemini_text(one, output, code)
            answer = [{"functionResponse": {"id": f"t{number}", "name": call, "response": {"output": said}}}]
            tool = {"id": f"t{number}", "name": call, "args": given, "status": "success", "result": answer}
            message("gemini", content="", model="gemini-2.5-pro", toolCalls=[tool])
        elif kind == "compact":
            kept = [row for row in rows[1:] if "id" in row][-2:]
            summary = {
                "id": str(uuid.uuid4()),
                "timestamp": _stamp(number),
                "type": "user",
                "content": [{"text": one["text"]}],
            }
            thanks = {
                **summary,
                "id": str(uuid.uuid4()),
                "type": "gemini",
                "content": "Got it. Thanks for the additional context!",
            }
            rows.append({"$set": {"messages": [summary, thanks, *kept]}})
        elif kind == "open":
            message("gemini", content="", model="gemini-2.5-pro")
    listed = os.path.join(base, "projects.json")
    os.makedirs(base, exist_ok=True)
    known = json.loads(text_of(listed)) if os.path.exists(listed) else {"projects": {}}
    known["projects"][folder] = name
    with open(listed, "w", encoding="utf-8") as file:
        json.dump(known, file)
    place = os.path.join(base, "tmp", name)
    os.makedirs(place, exist_ok=True)
    with open(os.path.join(place, ".project_root"), "w", encoding="utf-8") as file:
        file.write(folder)
    return _put(
        os.path.join(place, "chats", f"session-{time.strftime('%Y-%m-%dT%H-%M', time.gmtime())}-{session[:8]}.jsonl"),
        rows,
    )


def _qwen(home, folder, told):
    session, rows = str(uuid.uuid4()), []

    def row(kind, provenance, parts, **words):
        role = "model" if kind == "assistant" else "user"
        rows.append({"uuid": str(uuid.uuid4()), "parentUuid": None, "sessionId": session, "timestamp": _stamp(len(rows)),
                     "type": kind, "provenance": provenance, "cwd": folder, "version": "0.24.4", "gitBranch": "main",
                     "message": {"role": role, "parts": parts}, **words})  # fmt: skip

    for number, one in enumerate(told):
        kind = one["kind"]
        if kind == "person":
            row("user", "real_user", [{"text": one["text"]}])
        elif kind == "say":
            row("assistant", "assistant_output", [{"text": one["text"]}], model="qwen3-coder")
        elif kind in ("todo", *_CALLS):
            if kind == "todo":
                todos = [
                    {"id": str(at), "content": step[4:], "status": _STATES[step[:3]]}
                    for at, step in enumerate(one["text"])
                ]
                call, given, output, code = "todo_write", {"todos": todos}, "Todos have been modified successfully.", 0
            else:
                call, given, output, code = _tool(one, folder, _GEMINI)
            row("assistant", "assistant_output", [{"functionCall": {"id": f"t{number}", "name": call, "args": given}}])
            if kind != "open":
                answer = {"output": _gemini_text(one, output, code, always=True)}
                row(
                    "tool_result",
                    "tool_result",
                    [{"functionResponse": {"id": f"t{number}", "name": call, "response": answer}}],
                )
    return _put(os.path.join(home, ".qwen", "projects", _slug(folder), "chats", f"{session}.jsonl"), rows)


# --- Copilot, opencode, aider ----------------------------------------------------------------------------------


def _copilot(home, folder, told):
    session, rows = str(uuid.uuid4()), []
    names = {"shell": "bash", "write": "create", "edit": "edit", "read": "view", "path": "path", "content": "file_text",
             "old": "old_str", "new": "new_str"}  # fmt: skip

    def row(kind, **data):
        rows.append(
            {"type": kind, "data": data, "id": str(uuid.uuid4()), "parentId": None, "timestamp": _stamp(len(rows))}
        )

    row("session.start", sessionId=session, version=1, producer="copilot-agent", copilotVersion="1.0.102",
        context={"cwd": folder, "gitRoot": folder, "branch": "main"})  # fmt: skip
    place = os.path.join(home, ".copilot", "session-state", session)
    os.makedirs(place)
    for number, one in enumerate(told):
        kind = one["kind"]
        if kind == "person":
            row("user.message", content=one["text"], transformedContent=one["text"])
        elif kind == "say":
            row("assistant.message", content=one["text"], messageId=str(number))
        elif kind == "todo":
            with sqlite3.connect(os.path.join(place, "session.db")) as base:
                base.execute("CREATE TABLE IF NOT EXISTS todos (id TEXT, title TEXT, description TEXT, status TEXT)")
                base.execute("DELETE FROM todos")
                states = {"[x]": "done", "[>]": "in_progress", "[ ]": "pending"}
                base.executemany(
                    "INSERT INTO todos VALUES (?, ?, '', ?)",
                    [(str(at), step[4:], states[step[:3]]) for at, step in enumerate(one["text"])],
                )
        elif kind in _CALLS:
            call, given, output, code = _tool(one, folder, names)
            row("tool.execution_start", toolCallId=f"t{number}", toolName=call, arguments=given)
            if kind != "open":
                shell = {"shellExecution": {"exitCode": code}} if call == "bash" else {}
                result = {"content": output, "detailedContent": output}
                row("tool.execution_complete", toolCallId=f"t{number}", success=True, result=result, **shell)
        elif kind == "compact":
            row("session.compaction_complete", success=True, summaryContent=one["text"])
    with open(os.path.join(place, "workspace.yaml"), "w", encoding="utf-8") as file:
        file.write(f"id: {session}\ncwd: {folder}\n")
    return _put(os.path.join(place, "events.jsonl"), rows)


def _opencode(home, folder, told):
    path = os.path.join(home, ".local", "share", "opencode", "opencode.db")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    names = {"shell": "bash", "write": "write", "edit": "edit", "read": "read", "path": "filePath", "content": "content",
             "old": "oldString", "new": "newString"}  # fmt: skip
    now, session = int(time.time() * 1000), f"ses_{uuid.uuid4().hex}"
    with sqlite3.connect(path) as base:
        base.executescript(
            """CREATE TABLE IF NOT EXISTS session (id TEXT, project_id TEXT, parent_id TEXT, directory TEXT, title TEXT,
                 version TEXT, time_created INTEGER, time_updated INTEGER);
               CREATE TABLE IF NOT EXISTS message (id TEXT, session_id TEXT, time_created INTEGER, time_updated INTEGER, data TEXT);
               CREATE TABLE IF NOT EXISTS part (id TEXT, message_id TEXT, session_id TEXT, time_created INTEGER, time_updated INTEGER, data TEXT);
               CREATE TABLE IF NOT EXISTS todo (session_id TEXT, content TEXT, status TEXT, priority TEXT, position INTEGER,
                 time_created INTEGER, time_updated INTEGER);"""
        )
        base.execute(
            "INSERT INTO session VALUES (?, 'p', NULL, ?, 'work', '1.18.18', ?, ?)", (session, folder, now, now)
        )

        def part(number, role, **data):
            known = f"{number:06d}{session[-6:]}"
            about = {"role": role, "time": {"created": now + number, "completed": now + number}}
            if role == "assistant":
                about |= {"modelID": "claude-sonnet-4-5", "providerID": "anthropic"}
            base.execute(
                "INSERT INTO message VALUES (?, ?, ?, ?, ?)",
                (f"msg_{known}", session, now + number, now + number, json.dumps(about)),
            )
            base.execute(
                "INSERT INTO part VALUES (?, ?, ?, ?, ?, ?)",
                (f"prt_{known}", f"msg_{known}", session, now + number, now + number, json.dumps(data)),
            )

        for number, one in enumerate(told):
            kind = one["kind"]
            if kind == "person":
                part(number, "user", type="text", text=one["text"])
            elif kind == "say":
                part(number, "assistant", type="text", text=one["text"])
            elif kind == "todo":
                base.execute("DELETE FROM todo WHERE session_id = ?", (session,))
                base.executemany(
                    "INSERT INTO todo VALUES (?, ?, ?, 'medium', ?, 0, 0)",
                    [(session, step[4:], _STATES[step[:3]], at) for at, step in enumerate(one["text"])],
                )
            elif kind in _CALLS:
                call, given, output, code = _tool(one, folder, names)
                state = {
                    "status": "running" if kind == "open" else "completed",
                    "input": given,
                    "output": output,
                    "metadata": {"exit": code} if call == "bash" else {},
                }
                part(number, "assistant", type="tool", tool=call, callID=f"t{number}", state=state)
            elif kind == "compact":
                part(number, "assistant", type="compaction", auto=True)
    return path


def _aider(home, folder, told):
    del home
    lines = [
        f"\n# aider chat started at {time.strftime('%Y-%m-%d %H:%M:%S')}\n",
        "> Main model: sonnet with diff edit format\n",
    ]
    for one in told:
        kind = one["kind"]
        if kind == "person":
            lines.append("\n" + "".join(f"#### {line}  \n" for line in one["text"].splitlines()))
        elif kind == "say":
            lines.append(f"\n{one['text']}\n")
        elif kind == "todo":
            lines.append("\n" + "\n".join(f"- {step}" for step in one["text"]) + "\n")
        elif kind == "file":
            lines.append(f"\n> Applied edit to {one['path']}  \n")
        elif kind == "shell":
            lines.append(
                f"\n#### /run {one['command']}  \n\n> Added {len(one['output'].splitlines())} lines of output to the chat.  \n"
            )  # the output itself it keeps nowhere
    path = os.path.join(folder, ".aider.chat.history.md")
    with open(path, "a", encoding="utf-8") as file:
        file.writelines(lines)
    return path

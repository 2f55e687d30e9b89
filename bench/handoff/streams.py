"""What each client prints while it works, as its adapter reads it: one line for each thing that a session does."""

from __future__ import annotations

import json
import os
import time
import uuid

_STATES = {"[x]": "completed", "[>]": "in_progress", "[ ]": "pending"}


class Speaker:
    """One client's tongue."""

    def __init__(self, name, folder):
        self.name, self.folder, self.id, self.count = name, folder, str(uuid.uuid4()), 0
        self.limit = ""

    def put(self, **words):
        print(json.dumps(words), flush=True)

    def whole(self, path):
        return os.path.join(self.folder, path)

    def begin(self):
        getattr(self, f"begin_{self.name}", lambda: None)()

    def tell(self, told):
        """One thing that happened."""
        self.count += 1
        if told["kind"] == "limit":
            self.limit = told["text"]
        getattr(self, self.name if hasattr(self, f"begin_{self.name}") else "plain")(told)

    def end(self):
        getattr(self, f"end_{self.name}", lambda: None)()

    # --- Claude ------------------------------------------------------------------------------------------------

    def begin_claude(self):
        self.put(type="system", subtype="init", session_id=self.id, cwd=self.folder, model="claude-sonnet-4-5")

    def claude(self, told):
        kind = told["kind"]
        if kind == "say":
            self._claude([{"type": "text", "text": told["text"]}])
        elif kind == "todo":
            todos = [{"content": one[4:], "status": _STATES[one[:3]], "activeForm": one[4:]} for one in told["text"]]
            self._claude_tool("TodoWrite", {"todos": todos}, "Todos have been modified successfully.")
        elif kind == "file" and told["how"] == "delete":
            self._claude_tool("Bash", {"command": f"rm {told['path']}", "description": "remove it"}, "")
        elif kind == "file" and told["how"] == "add":
            where = self.whole(told["path"])
            self._claude_tool("Write", {"file_path": where, "content": told["new"]}, f"File created at: {where}")
        elif kind == "file":
            given = {"file_path": self.whole(told["path"]), "old_string": told["old"], "new_string": told["new"]}
            self._claude_tool("Edit", given, f"The file {given['file_path']} has been updated.")
        elif kind == "read":
            self._claude_tool("Read", {"file_path": self.whole(told["path"])}, told["output"])
        elif kind == "shell":
            text = (f"Exit code {told['exit']}\n" if told["exit"] else "") + told["output"]
            given = {"command": told["command"], "description": "run it"}
            self._claude_tool("Bash", given, text, is_error=bool(told["exit"]))
        elif kind == "open":
            self._claude(
                [{"type": "tool_use", "id": "toolu_open", "name": "Bash", "input": {"command": told["command"]}}]
            )
        elif kind == "compact":
            self.put(type="system", subtype="compact_boundary", session_id=self.id,
                     compact_metadata={"trigger": "auto", "pre_tokens": 155000})  # fmt: skip
            words = (
                f"This session is being continued from a previous conversation that ran out of context. {told['text']}"
            )
            self.put(type="user", message={"role": "user", "content": words}, isSynthetic=True, session_id=self.id)

    def _claude(self, content):
        usage = {"input_tokens": 900, "output_tokens": 60}
        message = {
            "id": f"msg_{self.count}",
            "role": "assistant",
            "model": "claude-sonnet-4-5",
            "content": content,
            "usage": usage,
        }
        self.put(type="assistant", message=message, session_id=self.id)

    def _claude_tool(self, name, given, result, *, is_error=False):
        number = f"toolu_{self.count}"
        self._claude([{"type": "tool_use", "id": number, "name": name, "input": given}])
        content = [{"tool_use_id": number, "type": "tool_result", "content": result, "is_error": is_error}]
        self.put(type="user", message={"role": "user", "content": content}, session_id=self.id)

    def end_claude(self):
        if self.limit:
            self.put(
                type="rate_limit_event", rate_limit_info={"status": "rejected", "resetsAt": int(time.time()) + 7200}
            )
        self.put(type="result", subtype="success", is_error=bool(self.limit), num_turns=self.count, session_id=self.id,
                 result=self.limit or "", **({"api_error_status": 429} if self.limit else {}))  # fmt: skip

    # --- Codex -------------------------------------------------------------------------------------------------

    def begin_codex(self):
        self.put(type="thread.started", thread_id=self.id)
        self.put(type="turn.started")

    def codex(self, told):
        kind = told["kind"]
        if kind == "say":
            self._codex(type="agent_message", text=told["text"])
        elif kind == "todo":
            items = [{"text": one[4:], "completed": one.startswith("[x]")} for one in told["text"]]
            self._codex(type="todo_list", items=items)
        elif kind == "file":
            self._codex(
                type="file_change",
                changes=[{"path": self.whole(told["path"]), "kind": told["how"]}],
                status="completed",
            )
        elif kind in ("shell", "read", "open"):
            command = told.get("command") or f"sed -n 1,200p {told['path']}"
            line = f"bash -lc {json.dumps(command)}"
            item = {"id": f"item_{self.count}", "type": "command_execution", "command": line, "aggregated_output": ""}
            self.put(type="item.started", item={**item, "exit_code": None, "status": "in_progress"})
            if kind != "open":
                code = told.get("exit", 0)
                done = {
                    "aggregated_output": told["output"],
                    "exit_code": code,
                    "status": "failed" if code else "completed",
                }
                self.put(type="item.completed", item={**item, **done})

    def _codex(self, **item):
        self.put(type="item.completed", item={"id": f"item_{self.count}", **item})

    def end_codex(self):
        if self.limit:
            self.put(type="error", message=self.limit)
            self.put(type="turn.failed", error={"message": self.limit})
        else:
            self.put(type="turn.completed", usage={"input_tokens": 900, "cached_input_tokens": 0, "output_tokens": 60})

    # --- Gemini ------------------------------------------------------------------------------------------------

    def begin_gemini(self):
        self.put(type="init", session_id=self.id, model="gemini-2.5-pro")

    def gemini(self, told):
        kind = told["kind"]
        if kind == "say":
            self.put(type="message", role="assistant", content=told["text"], delta=True)
        elif kind == "todo":
            todos = [{"description": one[4:], "status": _STATES[one[:3]]} for one in told["text"]]
            self._gemini("write_todos", {"todos": todos}, "Successfully updated the todo list.")
        elif kind == "file" and told["how"] == "delete":
            self._gemini("run_shell_command", {"command": f"rm {told['path']}"}, "")
        elif kind == "file" and told["how"] == "add":
            self._gemini(
                "write_file", {"file_path": self.whole(told["path"]), "content": told["new"]}, "Successfully created"
            )
        elif kind == "file":
            given = {"file_path": self.whole(told["path"]), "old_string": told["old"], "new_string": told["new"]}
            self._gemini("replace", given, "Successfully modified")
        elif kind == "read":
            self._gemini("read_file", {"absolute_path": self.whole(told["path"])}, told["output"])
        elif kind == "shell":
            text = f"Output: {told['output']}" + (f"\nExit Code: {told['exit']}" if told["exit"] else "")
            self._gemini("run_shell_command", {"command": told["command"]}, text)
        elif kind == "open":
            self.put(
                type="tool_use", tool_name="run_shell_command", tool_id="open", parameters={"command": told["command"]}
            )

    def _gemini(self, name, given, result):
        self.put(type="tool_use", tool_name=name, tool_id=f"t{self.count}", parameters=given)
        self.put(type="tool_result", tool_id=f"t{self.count}", status="success", output=result)

    def end_gemini(self):
        if self.limit:
            self.put(type="error", severity="error", message=f"429 {self.limit}")
        self.put(type="result", status="error" if self.limit else "success", stats={"total_tokens": 900})

    # --- whatever prints plain lines -------------------------------------------------------------------------------

    def plain(self, told):
        kind = told["kind"]
        if kind == "say":
            print(told["text"], flush=True)
        elif kind == "todo":
            print("\n".join(told["text"]), flush=True)
        elif kind == "file":
            print(
                {"delete": "Removed", "add": "Created"}.get(told["how"], "Applied edit to") + f" {told['path']}",
                flush=True,
            )
        elif kind == "read":
            print(f"Read {told['path']}\n{told['output']}", flush=True)
        elif kind == "shell":
            print(f"$ {told['command']}\n{told['output'].rstrip()}\n(exit {told['exit']})", flush=True)
        elif kind == "limit":
            print(f"litellm.RateLimitError: {told['text']}", flush=True)

"""How each client's hooks speak: its event names, where a call names the paths, how an answer must look.

One shape inside (`Call` in, `Answer` out), one table and a few pure functions for each dialect. On the hot path of every
edit an agent makes, so it imports nothing but the record.
"""

from __future__ import annotations

from handoff.base.record import TYPE_CHECKING, Record

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

START, EDIT, TOOL, AFTER, STOP = "start", "edit", "tool", "after", "stop"
COMPACT, END, OTHER = "compact", "end", "other"
EXIT_REFUSED = 2
"""Exit 2 with the reason on standard error is the one refusal every client understands."""

INSTALLED = "installed"
"""The word behind a call of the hooks in a person's settings; a session of ours, which brings its own, does not run them too."""
HEARD = "hooks"  # in the home: a file for each client whose installed hooks have called
SAID, OPENED, GIVEN, SHORTENED = "said", ".open", ".given", ".shortened"
"""In the home: a file for each session that a person's words wait for; the same while they are read, a receipt of them, and a mark that
its client has shortened the conversation."""

_PATH_KEYS = ("file_path", "notebook_path", "path", "filePath", "absolute_path", "target_file")
_UNASKED = ("bypassPermissions", "dontAsk")  # Claude's names for modes without a dialogue
_PATCH_MARKS = ("*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: ")


class Call(Record):
    """One call of a client, the same for every vendor."""

    event: str
    name: str
    tool: str = ""
    paths: tuple[str, ...] = ()
    refused_before: bool = False
    folder: str = ""
    asks: bool = False
    """Whether the client would put a question to its person, if it is told to."""
    client: str = ""
    talk: str = ""
    """Which conversation of the client it is."""


class HookAnswer(Record):
    """What we say: text for the model, a reason why not, or what the person before the client is asked."""

    context: str = ""
    refusal: str = ""
    question: str = ""


class Reply(Record):
    """What the hook program prints and how it exits. `out` is turned into JSON by the caller."""

    out: Mapping[str, Any] | None = None
    error: str = ""
    code: int = 0


class Dialect(Record):
    """The names one client uses."""

    name: str
    events: Mapping[str, str]
    edit_tools: tuple[str, ...]
    timeout_scale: int = 1
    asks: bool = False
    """Whether a hook may have the client ask its person; the others take such an answer for a yes."""


_CLAUDE = {
    "SessionStart": START,
    "PreToolUse": EDIT,
    "PostToolUse": AFTER,
    "Stop": STOP,
    "PreCompact": COMPACT,
    "SessionEnd": END,
}
DIALECTS = {
    "claude": Dialect("claude", _CLAUDE, ("Write", "Edit", "MultiEdit", "NotebookEdit"), asks=True),
    "codex": Dialect("codex", _CLAUDE, ("apply_patch", "Write", "Edit")),
    "gemini": Dialect(
        "gemini",
        {
            "SessionStart": START,
            "BeforeTool": EDIT,
            "AfterTool": AFTER,
            "AfterAgent": STOP,
            "PreCompress": COMPACT,
            "SessionEnd": END,
        },
        ("write_file", "replace"),
        timeout_scale=1000,
    ),
    "copilot": Dialect(
        "copilot",
        {
            "sessionStart": START,
            "preToolUse": EDIT,
            "postToolUse": AFTER,
            "agentStop": STOP,
            "preCompact": COMPACT,
            "sessionEnd": END,
        },
        ("create", "edit", "str_replace", "apply_patch", "write"),
        asks=True,
    ),
    "cursor": Dialect(
        "cursor",
        {"sessionStart": START, "preToolUse": EDIT, "stop": STOP, "preCompact": COMPACT, "sessionEnd": END},
        ("Write", "Edit", "StrReplace", "MultiEdit", "Delete", "EditNotebook"),
    ),
    "opencode": Dialect(
        "opencode",
        {"start": START, "edit": EDIT, "after": AFTER, "stop": STOP, "compact": COMPACT, "end": END},
        ("write", "edit", "patch", "apply_patch", "multiedit"),
    ),
    "qwen": Dialect("qwen", _CLAUDE, ("write_file", "edit", "notebook_edit")),
    "acp": Dialect("acp", {"start": START, "edit": EDIT, "after": AFTER, "stop": STOP, "end": END}, ("write", "edit")),
}


def understand(dialect: str, name: str, raw: Mapping[str, Any]) -> Call:
    """A client's call in our words. An event nobody knows is `other`: it is answered with nothing."""
    speech = DIALECTS[dialect]
    event = speech.events.get(name, OTHER)
    tool = str(raw.get("tool_name") or raw.get("toolName") or raw.get("tool") or "")
    given = _input(raw)
    paths = _paths(tool, given) if event == EDIT else ()
    if event == EDIT and not paths:
        event = TOOL
    return Call(
        event=event,
        name=name,
        tool=tool,
        paths=paths,
        refused_before=bool(raw.get("stop_hook_active") or raw.get("stopHookActive") or raw.get("loop_count")),
        folder=str(raw.get("cwd") or ""),
        asks=speech.asks and raw.get("permission_mode") not in _UNASKED,
        client=dialect,
        talk=str(raw.get("session_id") or raw.get("sessionId") or ""),
    )


def _input(raw: Mapping[str, Any]) -> Any:
    given = raw.get("tool_input", raw.get("toolArgs", raw.get("input", {})))
    if isinstance(given, str) and given.lstrip().startswith("{"):
        from handoff.base.light_json import loads

        try:
            return loads(given)
        except ValueError:
            return {"command": given}
    return given


def _paths(tool: str, given: Any) -> tuple[str, ...]:
    if isinstance(given, str):
        return _patched(given)
    if not isinstance(given, dict):
        return ()
    command = given.get("command", given.get("patchText", given.get("patch", given.get("input"))))
    if isinstance(command, list):
        command = "\n".join(str(word) for word in command)
    if isinstance(command, str) and "*** Begin Patch" in command:
        return _patched(command)
    bare = tool.rpartition(".")[2]
    if not any(bare in dialect.edit_tools for dialect in DIALECTS.values()):
        return ()
    found = [given[key] for key in _PATH_KEYS if isinstance(given.get(key), str) and given[key]]
    return tuple(found[:1])


def _patched(text: str) -> tuple[str, ...]:
    """The paths a patch touches, each once."""
    found: dict[str, None] = {}
    for line in text.split("\n"):
        for mark in _PATCH_MARKS:
            if line.startswith(mark):
                found[line[len(mark) :].strip()] = None
    return tuple(found)


def reply(dialect: str, call: Call, answer: HookAnswer) -> Reply:
    """Our answer in the client's words."""
    if answer.question:
        return _ask(dialect, call, answer.question)
    if answer.refusal:
        return _refuse(dialect, call, answer.refusal)
    if answer.context:
        return Reply(_context(dialect, call, answer.context))
    return Reply()


def _refuse(dialect: str, call: Call, reason: str) -> Reply:
    if dialect in ("opencode", "acp"):
        return Reply(error=reason, code=EXIT_REFUSED)
    if call.event == STOP:
        if dialect == "cursor":  # it cannot be held; it can be asked to go on
            return Reply({"followup_message": reason})
        return Reply({"decision": "deny" if dialect == "gemini" else "block", "reason": reason})
    if dialect == "gemini":
        return Reply({"decision": "deny", "reason": reason})
    verdict = {"permissionDecision": "deny", "permissionDecisionReason": reason}
    if dialect == "copilot":
        return Reply(verdict)
    if dialect == "cursor":
        return Reply({"permission": "deny", "agent_message": reason, "user_message": reason})
    return Reply({"hookSpecificOutput": {"hookEventName": call.name, **verdict}})


def _ask(dialect: str, call: Call, question: str) -> Reply:
    """The client's own dialogue, where it has one; the model is told too, because only the person sees the dialogue."""
    if not call.asks:
        return _refuse(dialect, call, question)
    verdict = {"permissionDecision": "ask", "permissionDecisionReason": question}
    if dialect == "copilot":
        return Reply(verdict)
    return Reply({"hookSpecificOutput": {"hookEventName": call.name, **verdict, "additionalContext": question}})


def _context(dialect: str, call: Call, text: str) -> Mapping[str, Any]:
    if dialect == "copilot":
        return {"additionalContext": text}
    if dialect == "cursor":
        return {"additional_context": text}
    if dialect in ("opencode", "acp"):
        return {"context": text}
    return {"hookSpecificOutput": {"hookEventName": call.name, "additionalContext": text}}

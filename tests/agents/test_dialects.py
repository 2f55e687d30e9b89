"""Hooks of every vendor: one shape inside, the vendor's own words outside."""

from __future__ import annotations

import json

import pytest

from handoff.agents.dialects import DIALECTS, EDIT, OTHER, START, STOP, TOOL, Call, HookAnswer, reply, understand
from handoff.base.light_json import dumps, loads

PATCH = (
    "*** Begin Patch\n*** Add File: src/a.py\n+x\n*** Update File: other/b.py\n*** Move to: other/c.py\n*** End Patch"
)


@pytest.mark.parametrize(
    ("dialect", "event", "raw", "paths"),
    [
        ("claude", "PreToolUse", {"tool_name": "Write", "tool_input": {"file_path": "/w/a"}}, ("/w/a",)),
        ("claude", "PreToolUse", {"tool_name": "NotebookEdit", "tool_input": {"notebook_path": "n.ipynb"}}, ("n.ipynb",)),
        ("codex", "PreToolUse", {"tool_name": "apply_patch", "tool_input": {"command": PATCH}}, ("src/a.py", "other/b.py", "other/c.py")),
        ("codex", "PreToolUse", {"tool_name": "Bash", "tool_input": {"command": ["apply_patch", PATCH]}}, ("src/a.py", "other/b.py", "other/c.py")),
        ("gemini", "BeforeTool", {"tool_name": "write_file", "tool_input": {"file_path": "a"}}, ("a",)),
        ("copilot", "preToolUse", {"toolName": "create", "toolArgs": '{"path": "/w/a"}'}, ("/w/a",)),
        ("copilot", "preToolUse", {"toolName": "edit", "toolArgs": {"path": "/w/a"}}, ("/w/a",)),
        ("cursor", "preToolUse", {"tool_name": "Write", "tool_input": {"file_path": "/w/a"}}, ("/w/a",)),
        ("opencode", "edit", {"tool": "write", "input": {"filePath": "/w/a"}}, ("/w/a",)),
    ],
)  # fmt: skip
def test_the_paths_of_an_edit_are_found(dialect, event, raw, paths):
    call = understand(dialect, event, raw)
    assert (call.event, call.paths) == (EDIT, paths)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_tool_that_edits_nothing_is_not_an_edit(dialect):
    name = next(name for name, meaning in DIALECTS[dialect].events.items() if meaning == EDIT)
    for raw in (
        {"tool_name": "Read", "tool_input": {"file_path": "/x"}},
        {"tool_name": "Bash", "tool_input": {"command": "ls"}},
        {},
        {"toolArgs": 3},
    ):
        assert understand(dialect, name, raw).event == TOOL


def test_an_unknown_event_is_answered_with_nothing():
    call = understand("claude", "Wonder", {})
    assert call.event == OTHER
    assert reply("claude", call, HookAnswer()).out is None


@pytest.mark.parametrize(
    ("dialect", "event", "key", "value"),
    [
        ("claude", "PreToolUse", "hookSpecificOutput", {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": "no"}),
        ("codex", "PreToolUse", "hookSpecificOutput", {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": "no"}),
        ("gemini", "BeforeTool", "decision", "deny"),
        ("copilot", "preToolUse", "permissionDecision", "deny"),
        ("cursor", "preToolUse", "permission", "deny"),
    ],
)  # fmt: skip
def test_a_refused_edit_is_told_in_the_clients_own_words(dialect, event, key, value):
    said = reply(dialect, Call(EDIT, event), HookAnswer(refusal="no"))
    assert said.out is not None
    assert said.out[key] == value
    assert "no" in json.dumps(said.out)


@pytest.mark.parametrize("dialect", ["opencode", "acp"])
def test_a_client_without_a_contract_is_refused_by_the_exit_code(dialect):
    said = reply(dialect, Call(EDIT, "edit"), HookAnswer(refusal="no"))
    assert (said.code, said.error) == (2, "no")


@pytest.mark.parametrize(
    ("dialect", "word"), [("claude", "block"), ("codex", "block"), ("gemini", "deny"), ("copilot", "block")]
)
def test_a_stop_is_refused_with_the_reason(dialect, word):
    assert reply(dialect, Call(STOP, "x"), HookAnswer(refusal="report first")).out == {
        "decision": word,
        "reason": "report first",
    }


@pytest.mark.parametrize("dialect", DIALECTS)
def test_context_reaches_the_model_at_the_start(dialect):
    name = next(name for name, meaning in DIALECTS[dialect].events.items() if meaning == START)
    said = reply(dialect, understand(dialect, name, {}), HookAnswer(context="the baton"))
    assert "the baton" in json.dumps(said.out)


@pytest.mark.parametrize("value", [{"a": [1, 2.5, None, True, 'é\n"\\\u2028']}, [], "x", 3, {"b": {"c": {}}}])
def test_the_light_json_says_what_the_real_one_says(value):
    assert json.loads(dumps(value)) == value
    assert loads(json.dumps(value)) == value


@pytest.mark.parametrize("text", ["", "{", "{} {}", "nope", '{"a":', '"abc', "[1,", '{"a" 1}', "\x00"])
def test_the_light_json_refuses_what_is_none(text):
    with pytest.raises(ValueError, match="JSON"):
        loads(text)

"""What a session's own output tells whoever goes on: commands with their result, files, to-do lists, words apart from output."""

from __future__ import annotations

import json

import pytest

from handoff.agents import catalog
from handoff.agents.adapters.pieces import entries_of
from handoff.agents.history.facts import facts


def read(agent: str, *rows: dict) -> list:
    return list(entries_of(catalog.adapter(agent).read, [json.dumps(row) for row in rows]))


RED = "line\nFAILED tests/test_a.py::test_a - assert 1 == 2\n1 failed"
CLAUDE = (
    {"type": "assistant", "message": {"content": [{"type": "text", "text": "I look."}, {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "pytest -q"}}]}},
    {"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": "t1", "is_error": True, "content": f"Exit code 1\n{RED}"}]}},
    {"type": "assistant", "message": {"content": [{"type": "tool_use", "id": "t2", "name": "Write", "input": {"file_path": "/w/new.py", "content": "x"}}]}},
    {"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": "t2", "content": "File created successfully at: /w/new.py"}]}},
    {"type": "assistant", "message": {"content": [{"type": "tool_use", "id": "t3", "name": "TodoWrite", "input": {"todos": [{"content": "one", "status": "completed"}, {"content": "two", "status": "in_progress"}]}}]}},
    {"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": "t3", "content": "ok"}]}},
    {"type": "assistant", "message": {"content": [{"type": "tool_use", "id": "t4", "name": "Bash", "input": {"command": "make"}}]}},
)  # fmt: skip
CODEX = (
    {"type": "item.completed", "item": {"id": "m", "type": "agent_message", "text": "I look."}},
    {"type": "item.started", "item": {"id": "c", "type": "command_execution", "command": "pytest -q"}},
    {"type": "item.completed", "item": {"id": "c", "type": "command_execution", "command": "pytest -q", "aggregated_output": RED, "exit_code": 1}},
    {"type": "item.completed", "item": {"id": "f", "type": "file_change", "changes": [{"path": "/w/new.py", "kind": "add"}], "status": "completed"}},
    {"type": "item.completed", "item": {"id": "l", "type": "todo_list", "items": [{"step": "one", "status": "completed"}, {"step": "two", "status": "in_progress"}]}},
    {"type": "item.started", "item": {"id": "d", "type": "command_execution", "command": "make"}},
)  # fmt: skip
GEMINI = (
    {"type": "message", "role": "assistant", "content": "I ", "delta": True},
    {"type": "message", "role": "assistant", "content": "look.", "delta": True},
    {"type": "tool_use", "tool_name": "run_shell_command", "tool_id": "a", "parameters": {"command": "pytest -q"}},
    {"type": "tool_result", "tool_id": "a", "status": "success", "output": f"{RED}\nExit Code: 1"},
    {"type": "tool_use", "tool_name": "write_file", "tool_id": "b", "parameters": {"file_path": "/w/new.py", "content": "x"}},
    {"type": "tool_result", "tool_id": "b", "status": "success", "output": "Successfully created new file"},
    {"type": "tool_use", "tool_name": "write_todos", "tool_id": "c", "parameters": {"todos": [{"description": "one", "status": "completed"}, {"description": "two", "status": "in_progress"}]}},
    {"type": "tool_result", "tool_id": "c", "status": "success", "output": "ok"},
    {"type": "tool_use", "tool_name": "run_shell_command", "tool_id": "d", "parameters": {"command": "make"}},
)  # fmt: skip
COPILOT = (
    {"type": "assistant.message", "data": {"content": "I look."}},
    {"type": "tool.execution_start", "data": {"toolCallId": "a", "toolName": "bash", "arguments": {"command": "pytest -q"}}},
    {"type": "tool.execution_complete", "data": {"toolCallId": "a", "success": True, "result": {"content": RED}, "shellExecution": {"exitCode": 1}}},
    {"type": "tool.execution_start", "data": {"toolCallId": "b", "toolName": "create", "arguments": {"path": "/w/new.py"}}},
    {"type": "tool.execution_complete", "data": {"toolCallId": "b", "success": True, "result": {"content": "created file"}}},
    {"type": "tool.execution_start", "data": {"toolCallId": "c", "toolName": "update_plan", "arguments": {"plan": [{"step": "one", "status": "completed"}, {"step": "two", "status": "in_progress"}]}}},
    {"type": "tool.execution_complete", "data": {"toolCallId": "c", "success": True}},
    {"type": "tool.execution_start", "data": {"toolCallId": "d", "toolName": "bash", "arguments": {"command": "make"}}},
)  # fmt: skip


@pytest.mark.parametrize(
    ("agent", "rows"), [("claude", CLAUDE), ("codex", CODEX), ("gemini", GEMINI), ("copilot", COPILOT)]
)
def test_a_session_of_each_client_gives_the_same_facts(agent, rows):
    known = facts(read(agent, *rows))
    assert [one.text for one in known.statements] == ["I look."]
    (run,) = known.red
    assert (run.command, run.ok, run.failing) == ("pytest -q", False, ("tests/test_a.py::test_a",))
    assert run.exit == 1
    assert [(one.path, one.how) for one in known.files] == [("/w/new.py", "added")]
    assert [(one.text, one.state) for one in known.todo] == [("one", "done"), ("two", "doing")]
    assert known.open_calls == ("make",)


def test_opencode_tells_of_a_tool_when_it_has_come_back():
    state = {"status": "completed", "input": {"command": "pytest -q"}, "output": RED, "metadata": {"exit": 1}}
    known = facts(read("opencode", {"type": "tool_use", "part": {"tool": "bash", "state": state}}))
    assert [(run.command, run.exit) for run in known.red] == [("pytest -q", 1)]


def test_the_scripted_agents_words_are_apart_from_what_its_commands_print():
    lines = [
        "I look.",
        "$ pytest -q",
        "  collected 1 item",
        "  FAILED a::b",
        "exit 1",
        "edited a.py",
        "(the process dies here)",
    ]
    known = facts(entries_of(catalog.adapter("scripted").read, lines))
    assert [one.text for one in known.statements] == ["I look."]
    assert [(run.exit, run.failing) for run in known.red] == [(1, ("a::b",))]
    assert [(one.path, one.how) for one in known.files] == [("a.py", "changed")]


def test_of_a_command_of_ones_own_only_sentences_count_as_words():
    lines = [
        "[1/3] Compiling core v0.1",
        "warning: unused",
        "I kept the old parser because the new one is slow.",
        "Next: the tests",
        "ok 3",
    ]
    known = facts(entries_of(catalog.read_words, lines))
    assert [one.text for one in known.statements] == [lines[2], lines[3]]
    assert known.next_action is not None
    assert [one.text for one in known.decisions] == [lines[2]]


def test_a_list_of_codex_says_only_what_is_completed():
    items = [{"text": "one", "completed": True}, {"text": "two", "completed": False}]
    known = facts(read("codex", {"type": "item.completed", "item": {"id": "l", "type": "todo_list", "items": items}}))
    assert [(one.text, one.state) for one in known.todo] == [("one", "done"), ("two", "open")]


def test_a_program_that_shows_its_commands_as_a_shell_does_is_understood():
    lines = ["I look.", "$ pytest -q", "collected 1 item", "FAILED tests/a.py::test_x - assert 1 == 2", "(exit 1)"]
    more = ["That test was red before I came.", "+ make lint", "all fine"]
    known = facts(entries_of(catalog.read_words, lines + more))
    assert [(run.command, run.verdict, run.failing) for run in known.runs] == [
        ("pytest -q", "red (exit 1)", ("tests/a.py::test_x",)),
        ("make lint", "no result", ()),
    ]
    assert [one.text for one in known.statements] == ["That test was red before I came."]

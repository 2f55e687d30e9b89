"""Every adapter: what it starts, how it reads its client's lines, how a session of it comes out."""

from __future__ import annotations

import json
import os

import pytest

from handoff.agents import catalog
from handoff.agents.contract import (
    ANSWERED,
    RESULT,
    SAID,
    STARTED,
    TOOL,
    TROUBLE,
    WAIT,
    AgentEvent,
    LaunchRequest,
    SessionLimits,
    at_least,
    version_of,
)
from handoff.base.errors import ConfigError, UserError

NOW = 1_763_193_600.0
FULL = ("claude", "codex", "gemini", "copilot", "opencode")


def order(**changes) -> LaunchRequest:
    values = {
        "program": "/bin/client", "prompt": "do it", "workspace": "/ws", "folder": "/s", "session": "session-1",
        "client_id": "0000-1", "hook": ("/bin/handoff", "hook"), "mcp": ("/bin/handoff", "mcp"),
        "owned": ("/ws/src",), "writable": ("/h",), "limits": SessionLimits(turns=7, money=1.5), "version": "9.0.0",
    }  # fmt: skip
    return LaunchRequest(**{**values, **changes})


def read(name: str, *values) -> list[AgentEvent]:
    adapter = catalog.adapter(name)
    lines = [value if isinstance(value, str) else json.dumps(value) for value in values]
    return [event for line in lines for event in adapter.read(line)]


@pytest.mark.parametrize("name", FULL)
def test_a_full_client_is_given_its_hooks_its_tools_and_its_prompt(name):
    launch = catalog.adapter(name).launch(order())
    everything = " ".join([*launch.argv, *launch.files.values()])
    assert launch.argv[0] == "/bin/client"
    assert "do it" in launch.argv
    assert "/bin/handoff hook" in everything or '"/bin/handoff", "hook"' in everything
    assert "mcp" in everything
    assert all(path.startswith("/s/") for path in launch.files), "nothing is written outside the session's folder"


@pytest.mark.parametrize("name", FULL)
def test_a_resumed_client_is_told_which_conversation(name):
    adapter = catalog.adapter(name)
    assert adapter.resume is not None
    assert any("0000-1" in word for word in adapter.resume(order()).argv)


def test_settings_files_are_json_a_client_can_read():
    for name in FULL:
        for path, text in catalog.adapter(name).launch(order()).files.items():
            if path.endswith(".json"):
                json.loads(text)


def test_claude_has_its_limits_and_its_guard_fails_shut():
    launch = catalog.adapter("claude").launch(order())
    assert launch.argv[launch.argv.index("--max-turns") + 1] == "7"
    assert launch.argv[launch.argv.index("--max-budget-usd") + 1] == "1.5"
    settings = json.loads(launch.files["/s/claude-settings.json"])
    assert settings["hooks"]["PreToolUse"][0]["hooks"][0]["onFailure"] == "block"
    old = json.loads(catalog.adapter("claude").launch(order(version="2.1.100")).files["/s/claude-settings.json"])
    assert "onFailure" not in old["hooks"]["PreToolUse"][0]["hooks"][0]


def test_codex_writes_only_where_the_task_owns_unless_an_outer_sandbox_does_it():
    import tomllib

    argv = catalog.adapter("codex").launch(order()).argv
    settings = [argv[i + 1] for i, word in enumerate(argv) if word == "-c"]
    grant = next(s for s in settings if s.startswith("permissions.task"))
    assert tomllib.loads(grant)["permissions"]["task"]["filesystem"] == {
        ":root": "read",
        "/s": "write",
        "/h": "write",
        "/ws/src": "write",
    }
    for setting in settings:
        tomllib.loads(setting)
    assert "--dangerously-bypass-approvals-and-sandbox" not in argv
    assert "--dangerously-bypass-approvals-and-sandbox" in catalog.adapter("codex").launch(order(sandboxed=True)).argv


def test_claude_events_are_read_and_the_last_result_counts():
    events = read(
        "claude",
        {"type": "system", "subtype": "init", "session_id": "abc"},
        {"type": "assistant", "message": {"content": [{"type": "text", "text": "hm"}, {"type": "tool_use", "name": "Write"}]}},
        {"type": "user", "message": {"content": []}},
        "Warning: something that is no JSON",
        {"type": "result", "subtype": "success", "is_error": False, "num_turns": 2, "total_cost_usd": 0.25, "result": "done"},
        {"type": "result", "subtype": "success", "is_error": True, "api_error_status": 529, "result": "Overloaded"},
    )  # fmt: skip
    assert [event.kind for event in events] == [STARTED, SAID, TOOL, ANSWERED, RESULT, RESULT]
    assert events[0].client_id == "abc"
    assert (events[4].ok, events[4].turns) == (True, 2)
    assert events[5].ok is False, "the subtype says success and is_error says the truth"
    assert events[5].status == 529
    (told,) = read("claude", {"type": "result", "api_error_status": 529, "result": "API Error: 529 Overloaded."})
    assert told.text == "API Error: 529 Overloaded.", "the number is said once"


def test_a_claude_usage_limit_is_a_wait_until_the_moment_it_names():
    events = read(
        "claude",
        {"type": "rate_limit_event", "rate_limit_info": {"status": "rejected", "resetsAt": NOW + 3600}},
        {"type": "rate_limit_event", "rate_limit_info": {"status": "allowed", "resetsAt": NOW + 60}},
    )
    assert [(event.kind, event.until) for event in events] == [(WAIT, NOW + 3600)]


def test_codex_events_are_read():
    events = read(
        "codex",
        {"type": "thread.started", "thread_id": "t1"},
        {"type": "turn.started"},
        {"type": "item.started", "item": {"type": "command_execution", "command": "ls"}},
        {"type": "item.completed", "item": {"type": "command_execution", "command": "ls", "exit_code": 0}},
        {"type": "item.completed", "item": {"type": "file_change", "changes": []}},
        {"type": "item.completed", "item": {"type": "agent_message", "text": "fine"}},
        {"type": "error", "message": "stream disconnected"},
        {"type": "turn.failed", "error": {"message": "unexpected status 500"}},
    )
    kinds = [event.kind for event in events if event.kind != "usage"]
    assert kinds == [STARTED, TOOL, ANSWERED, TOOL, SAID, TROUBLE, RESULT]
    assert events[-1].text == "unexpected status 500"


def test_gemini_events_are_read():
    good = read("gemini", {"type": "init", "session_id": "g"}, {"type": "tool_use", "tool_name": "write_file"},
                {"type": "tool_result", "status": "success"}, {"type": "result", "status": "success", "stats": {}})  # fmt: skip
    assert [event.kind for event in good] == [STARTED, TOOL, ANSWERED, RESULT]


def test_gemini_has_a_home_of_its_own_with_what_the_person_has_set_and_ours(tmp_path):
    theirs = {
        "security": {"auth": {"selectedType": "oauth-personal"}}, "general": {"vimMode": True, "maxAttempts": 10},
        "hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": "theirs"}]}]},
        "mcpServers": {"theirs": {"command": "x"}}, "mcp": {"allowed": ["theirs"]}, "ui": {"footer": "// no comment"},
    }  # fmt: skip
    path = tmp_path / "settings.json"
    path.write_text("// theirs\n" + json.dumps(theirs).replace('"ui"', '/* look */ "ui"'))
    launch = catalog.adapter("gemini").launch(order(settings=str(path)))
    home = launch.environment["GEMINI_CLI_HOME"]
    assert "GEMINI_CLI_SYSTEM_SETTINGS_PATH" not in launch.environment, "it reads that from folders of root alone"
    (made,) = launch.files
    assert made == os.path.join(home, ".gemini", "settings.json")
    said = json.loads(launch.files[made])
    assert said["security"] == theirs["security"]
    assert (said["general"]["vimMode"], said["general"]["maxAttempts"]) == (True, 3)
    assert [group["hooks"][0]["command"].split()[0] for group in said["hooks"]["SessionStart"]] == [
        "theirs",
        "/bin/handoff",
    ]
    assert set(said["mcpServers"]) == set(said["mcp"]["allowed"]) == {"theirs", "handoff"}
    assert said["ui"] == theirs["ui"]
    path.write_text(json.dumps({**theirs, "hooksConfig": {"enabled": False}}))
    said = json.loads(catalog.adapter("gemini").launch(order(settings=str(path))).files[made])
    assert said["hooksConfig"]["enabled"]
    assert "theirs" not in json.dumps(said["hooks"]), "theirs are off, and stay off"
    path.write_text("{")
    with pytest.raises(ConfigError, match=r"settings\.json"):
        catalog.adapter("gemini").launch(order(settings=str(path)))


def test_opencode_has_no_last_event_so_the_last_stopped_step_is_the_result():
    events = read(
        "opencode",
        {"type": "step_start", "sessionID": "s"},
        {"type": "tool_use", "sessionID": "s", "part": {"tool": "write"}},
        {"type": "step_finish", "sessionID": "s", "part": {"reason": "tool-calls"}},
        {"type": "step_finish", "sessionID": "s", "part": {"reason": "stop"}},
        {"type": "error", "sessionID": "s", "error": {"name": "APIError", "data": {"message": "down"}}},
    )
    assert [(event.kind, event.ok) for event in events] == [
        (STARTED, None),
        (TOOL, None),
        (ANSWERED, None),
        (RESULT, True),
        (RESULT, False),
    ]
    assert events[-1].text == "down"


def test_aiders_troubles_are_known_by_its_words():
    events = read("aider", "Applied edit to a.py", "litellm.InternalServerError: The API provider's servers are down")
    assert [event.kind for event in events] == [TOOL, TROUBLE]


def test_a_command_of_ones_own_is_an_agent():
    adapter = catalog.adapter("mine", commands={"mine": ["my-agent", "--file={prompt_file}", "{workspace}"]})
    launch = adapter.launch(order())
    assert launch.argv == ("/bin/client", "--file=/s/prompt.md", "/ws")
    assert launch.files == {"/s/prompt.md": "do it"}


@pytest.mark.parametrize("words", ["my-agent", [], ["a", "{promt}"], ["a", "{prompt"], [1]])
def test_a_command_that_cannot_work_is_refused_with_its_place(words):
    with pytest.raises(ConfigError) as caught:
        catalog.adapter("mine", commands={"mine": words}, where="/h/config.toml")
    assert "/h/config.toml" in caught.value.message
    assert "mine" in caught.value.message


@pytest.mark.parametrize("said", [{"arguments": "x"}, {"words": ["x"]}, {"command": ["mine"], "arguments": [1]}])
def test_arguments_that_cannot_be_read_are_refused_with_their_place(said):
    with pytest.raises(ConfigError) as caught:
        catalog.arguments("claude", commands={"claude": said}, where="/h/config.toml")
    assert "/h/config.toml: agents.claude" in caught.value.message


def test_a_command_for_an_agent_of_our_own_is_refused_because_it_would_not_be_run():
    with pytest.raises(ConfigError):
        catalog.adapter("claude", commands={"claude": ["my-claude"]}, where="/h/config.toml")


CODEX = """
model = "m"
model_provider = "house"
model_reasoning_effort = "high"
sandbox_mode = "danger-full-access"
notify = ["x"]
[model_providers.house]
base_url = "http://proxy"
experimental_bearer_token = "secret-1"
http_headers = { a = "secret-2" }
[mcp_servers.theirs]
command = "y"
[hooks]
"""


def test_codex_keeps_the_persons_model_and_provider_and_puts_no_secret_into_words(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text(CODEX)
    launch = catalog.adapter("codex").launch(order(settings=str(path), words=("-c", 'model="mine"')))
    words = " ".join(launch.argv)
    assert 'model_provider="house"' in words
    assert 'model_reasoning_effort="high"' in words
    assert '"base_url"="http://proxy"' in words
    assert words.index('model="m"') < words.index('model="mine"'), "what was said for this session comes last"
    for left_out in ("secret", "danger-full-access", "theirs", "notify"):
        assert left_out not in words
    assert sorted(launch.environment.values()) == ["secret-1", "secret-2"]
    assert all(name in words for name in launch.environment)
    path.write_text("model = \n")
    with pytest.raises(ConfigError) as caught:
        catalog.adapter("codex").launch(order(settings=str(path)))
    assert str(path) in caught.value.message
    assert "line 1" in caught.value.message


def test_an_unknown_agent_is_an_error_that_lists_the_known_ones():
    with pytest.raises(UserError) as caught:
        catalog.adapter("clode")
    assert "claude" in caught.value.hint


def test_another_package_adds_an_agent_by_an_entry_point(tmp_path, monkeypatch):
    (tmp_path / "their_agent.py").write_text(
        "from handoff.agents.contract import Abilities, Adapter, Launch\n"
        "ADAPTER = Adapter('theirs', 'Theirs', ('theirs',), lambda v: Abilities(), lambda o: Launch((o.program, o.prompt)), lambda l: ())\n"
        "WRONG = 3\n"
    )
    meta = tmp_path / "their_agent-1.0.dist-info"
    meta.mkdir()
    (meta / "METADATA").write_text("Metadata-Version: 2.1\nName: their-agent\nVersion: 1.0\n")
    (meta / "entry_points.txt").write_text(
        "[handoff.agents]\ntheirs = their_agent:ADAPTER\nwrong = their_agent:WRONG\ngone = no_such_module:X\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert catalog.adapter("theirs").launch(order()).argv == ("/bin/client", "do it")
    assert "theirs" in catalog.names()
    for name in ("wrong", "gone"):
        with pytest.raises(UserError):
            catalog.adapter(name)


def test_versions_are_found_in_what_clients_print():
    assert version_of("2.1.325 (Claude Code)") == "2.1.325"
    assert version_of("codex-cli 0.163.0") == "0.163.0"
    assert version_of("GitHub Copilot CLI 1.0.102.\nRun 'copilot update'") == "1.0.102"
    assert version_of("no idea") == ""
    assert at_least("2.1.325", "2.1.300")
    assert not at_least("0.99.0", "0.150.0")
    assert at_least("", "1.0")


@pytest.mark.parametrize(
    ("agent", "variable"),
    [("gemini", "GEMINI_CLI_HOME"), ("qwen", "QWEN_HOME"), ("copilot", "COPILOT_HOME"), ("opencode", "XDG_DATA_HOME")],
)
def test_an_acp_agent_inside_a_sandbox_has_a_home_in_its_sessions_folder(agent, variable):
    adapter = catalog.adapter("acp")
    inside = adapter.launch(order(sandboxed=True, words=(agent,)))
    assert inside.environment[variable].startswith("/s/")
    assert all(below.startswith(agent) for _, below, _ in inside.reads)
    outside = adapter.launch(order(words=(agent,)))
    assert variable not in outside.environment, "the person's own home serves"

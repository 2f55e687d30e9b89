"""`handoff mcp` as a client speaks to it: its tools, the baton, the prompt."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from sandbox import absent

NAMES = [
    "answer",
    "ask_human",
    "block",
    "checks",
    "claim",
    "finish",
    "handoff",
    "note",
    "open_batch",
    "request_path",
    "say",
    "status",
    "task",
]


class Talk:
    """A client on the server's standard input and output, one JSON value a line."""

    def __init__(self, cli) -> None:
        self.process = cli.start("mcp", stdin=subprocess.PIPE)
        self.number = 0
        self.ask(
            "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "test", "version": "1"}
        )
        self.say({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def say(self, value) -> None:
        self.process.stdin.write(json.dumps(value).encode() + b"\n")
        self.process.stdin.flush()

    def ask(self, method: str, **parameters):
        self.number += 1
        self.say({"jsonrpc": "2.0", "id": self.number, "method": method, "params": parameters})
        while True:
            line = self.process.stdout.readline()
            assert line, self.process.stderr.read().decode()
            answer = json.loads(line)
            if answer.get("id") == self.number:
                assert "error" not in answer, answer
                return answer["result"]

    def call(self, name: str, /, **arguments) -> str:
        result = self.ask("tools/call", name=name, arguments=arguments)
        return ("ERROR " if result.get("isError") else "") + result["content"][0]["text"]

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait(30)
        self.process.stdout.close()
        self.process.stderr.close()


@pytest.fixture
def talk(cli):
    """A running server for one client."""
    try:
        import mcp  # noqa: F401
    except ImportError:
        absent("the package mcp")
    made = Talk(cli)
    yield made
    made.close()


def test_a_task_is_claimed_refused_without_evidence_and_finished_with_it(talk, cli, repo):
    assert sorted(tool["name"] for tool in talk.ask("tools/list")["tools"]) == NAMES
    cli("dump", "--task", "demo", "--next", "make a", "--owns", "src/", "--check", "test -f src/a")
    assert "demo: ready" in talk.call("status")
    assert "make a" in talk.call("claim", name="demo")
    assert "make a" in talk.call("task")
    assert "make a" in talk.ask("resources/read", uri="handoff://baton")["contents"][0]["text"]
    refused = talk.call("finish", summary="honest")
    assert refused.startswith("ERROR")
    assert "not done" in refused
    assert "red" in talk.call("checks") or "exit" in talk.call("checks")
    assert "Noted" in talk.call("note", text="half way")
    assert "not yours yet" in talk.call("request_path", path="other/x", reason="shared type")
    repo.write("src/a", "x")
    assert "is done" in talk.call("finish", summary="made it")
    assert cli("show", "demo", "--json").json["state"] == "done"


def test_a_session_blocks_asks_and_hands_on(talk, cli):
    assert "written down" in talk.call("handoff", name="next-one", brief="go on", owns=["a/"])
    talk.call("claim", name="next-one")
    assert "stop here" in talk.call("ask_human", question="May I?")
    cli("answer", "next-one", "yes")
    talk.call("claim")
    assert "is blocked" in talk.call("block", reason="no key")
    assert talk.call("block", reason="again").startswith("ERROR")


def test_a_session_plans_what_comes_after_and_opens_a_batch(talk, cli):
    talk.call("handoff", name="first", brief="go on")
    said = talk.call("handoff", name="second", brief="then this", after=["first"], agent="codex", priority=5)
    assert "waiting" in said
    second = cli("show", "second", "--json").json
    assert (second["agent"], second["priority"]) == ("codex", 5)
    parts = [
        {"id": "cart", "brief": "Build the cart.", "owns": ["src/cart/", "tests/test_cart_*.py"], "agent": "claude"},
        {"id": "guide", "brief": "Write it down.", "owns": ["guide.md"], "after": ["cart"], "check": "true"},
    ]
    meet = [*parts, {"id": "more", "brief": "x", "owns": ["src/cart/one.py"]}]
    refused = talk.call("open_batch", name="shop", parts=meet)
    assert refused.startswith("ERROR")
    assert "both own src/cart/one.py" in refused
    assert talk.call("open_batch", name="shop", parts=[{"id": "cart", "owns": "src/"}]).startswith("ERROR")
    said = talk.call("open_batch", name="shop", parts=parts, why="no shared file", agent="codex", check="true")
    assert "2 parts, ready now: cart" in said
    tasks = {task["task"]: task for task in cli("task", "list", "--json").json["tasks"]}
    assert {tasks[name]["agent"] for name in ("shop/guide", "shop-join")} == {"codex"}
    assert tasks["shop/cart"]["agent"] == "claude"
    assert cli("show", "shop/cart", "--json").json["owns"] == ["src/cart/", "tests/test_cart_*.py"]
    assert tasks["shop/guide"]["state"] == "waiting"


def test_an_argument_that_a_tool_does_not_have_is_an_error_and_nothing_is_done(talk, cli):
    for name in ("first", "second"):
        talk.call("handoff", name=name, brief="go on")
    said = talk.call("claim", task="second")
    assert "ERROR" in said
    assert "`claim` has no argument 'task'. It takes: name." in said
    for name in NAMES:
        assert "has no argument 'nothing', 'such'" in talk.call(name, nothing=1, such=2), name
    assert "It takes: none" in talk.call("status", all=True)
    unknown = [{"id": "cart", "brief": "Build it.", "own": ["src/cart/"]}, {"id": "guide", "brief": "Write it."}]
    assert "Part 'cart' has an unknown key: own. A part has: owns, " in talk.call(
        "open_batch", name="shop", parts=unknown
    )
    assert {task["state"] for task in cli("task", "list", "--json").json["tasks"]} == {"ready"}
    assert "You hold 'second'" in talk.call("claim", name="second", wait_for_previous=True), "Gemini CLI adds this one"


def test_an_answer_passed_on_needs_the_code_a_person_was_given(talk, cli):
    talk.call("handoff", name="next-one", brief="go on")
    talk.call("claim", name="next-one")
    assert talk.call("ask_human").startswith("ERROR")
    talk.call("ask_human", question="This text?", text="old", within="2h", default="no")
    assert talk.call("ask_human", code="next-one", answer="yes").startswith("ERROR")
    code = cli("gate", "show", "next-one", "--json").json["code"]
    assert talk.call("ask_human", code=code, answer="edit").startswith("ERROR")
    assert "is ready" in talk.call("ask_human", code=code, answer="edit", text="new")
    assert "new" in talk.call("claim")


def test_the_continue_prompt_is_offered_when_the_plan_is_ready(talk, cli, repo):
    cli("init", "login")
    repo.write(
        ".handoff/features/login/STATE.md",
        "# State\n\n# Current Step\n\nStep 1: build it\n\n# Execution Plan\n\n- [>] Step 1: build it\n",
    )
    assert [prompt["name"] for prompt in talk.ask("prompts/list")["prompts"]] == ["continue"]
    said = talk.ask("prompts/get", name="continue")
    assert "Step 1: build it" in json.dumps(said)


def test_a_broken_installation_is_told_with_the_command_that_mends_it(cli, tmp_path):
    (tmp_path / "mcp").mkdir()
    (tmp_path / "mcp" / "__init__.py").write_text("raise ImportError('not here')\n")
    cli.environment["PYTHONPATH"] = str(tmp_path) + os.pathsep + os.environ.get("PYTHONPATH", "")
    assert f"Run: {sys.executable} -m pip install handoff-relay" in cli("mcp", code=1).err

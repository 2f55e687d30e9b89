"""Real clients over the Agent Client Protocol, with the scripted model behind them."""

from __future__ import annotations

import json
import os
import sys

import pytest

from client_stage import wait_for

pytestmark = [pytest.mark.clients, pytest.mark.slow]
WORDS = "use the other table, please"
DONE = ("shell", f"{sys.executable} -m handoff.surfaces.cli.main task done --summary 'made a'")
FOR = {
    "gemini": ["--acp", "--skip-trust", "-m", "gemini-2.5-pro"],
    "opencode": ["acp"],
    "copilot": ["--acp"],
    "qwen": ["--acp"],
}


def test_an_acp_session_writes_what_it_owns_is_refused_the_rest_and_reports(stage):
    stage.repo.write("other/there.txt", "")  # some clients make no folders, and would not even ask
    stage.repo.commit("a folder")
    server = stage.serve(
        stage.write("other/b.txt"), stage.write("owned/a.txt"), DONE, ("say", "finished"), DONE, ("say", "finished"),
    )  # fmt: skip
    words = [f"--with={word}" for word in (stage.client, *FOR[stage.client])]
    end = stage.cli("session", "start", "demo", "--agent", "acp", "--minutes", "5", "--json", *words, code=None).json
    assert server.requests, stage.log(end)
    assert "Task `demo` of project" in server.texts(0), stage.log(end)
    for top in (stage.tree, stage.repo.path):
        assert not os.path.exists(os.path.join(top, "other/b.txt")), stage.log(end)
    assert "edit write refused" in stage.text(end, "calls"), stage.log(end)
    assert (end["outcome"], end["state"], end["outside"]) == ("ok", "done", []), stage.log(end)
    stage.note("driven over ACP", "edit inside allowed", "report by command")


# Not Qwen Code: it hides tools behind a search of its own, and its first request does not wait for them.
@pytest.mark.clients("gemini", "opencode", "copilot")
def test_an_acp_session_reports_with_the_relays_tools_over_http(stage):
    stage.set(session_workspace='"shared"')  # inside a sandbox one broker serves them
    server = stage.serve(
        stage.write("owned/a.txt"), ("tool", "finish", {"summary": "by http"}),
        ("say", "finished"),
    )  # fmt: skip
    words = [f"--with={word}" for word in (stage.client, *FOR[stage.client])]
    with stage.endpoint():
        end = stage.cli(
            "session", "start", "demo", "--agent", "acp", "--minutes", "5", "--json", *words, code=None
        ).json
    told = stage.log(end) + server.all_texts()[-3000:]
    assert (end["outcome"], end["state"], end["reason"]) == ("ok", "done", "by http"), told
    assert stage.text(end, "hello-mcp"), told
    assert stage.text(end, "token").strip() not in stage.text(end, "acp.json")
    stage.note("report by MCP tool over ACP")


# Not Gemini CLI: it forgets a turn that is cancelled, so words wait for its stop.
@pytest.mark.clients("opencode", "copilot", "qwen")
def test_words_of_a_person_end_the_turn_after_a_tool_call_and_the_next_one_begins_with_them(stage):
    begun, go = (os.path.join(stage.tree, "owned", name) for name in ("begun", "go"))
    wait = f"mkdir -p {os.path.dirname(go)}; echo x > {begun}; until [ -e {go} ]; do sleep 0.1; done"
    server = stage.serve(
        ("shell", "echo looked-around"), ("shell", wait), ("until", WORDS, stage.write("owned/a.txt")), DONE, ("say", "finished"),
    )  # fmt: skip
    words = [f"--with={word}" for word in (stage.client, *FOR[stage.client])]
    process = stage.cli.start("session", "start", "demo", "--agent", "acp", "--minutes", "5", "--json", *words)
    wait_for(lambda: os.path.exists(begun), "the tool call began")
    said = stage.cli("session", "say", "demo", WORDS)
    assert "after its next tool call" in said.out
    with open(go, "w", encoding="utf-8"):
        pass
    out, err = process.communicate(timeout=600)
    assert out, err
    end = json.loads(out)
    told = stage.log(end) + server.all_texts()[-3000:]
    assert (end["outcome"], end["state"]) == ("ok", "done"), told
    assert WORDS not in server.texts(0), told
    assert "echo looked-around" in server.texts(-1), "it knows what it did before"
    (message,) = stage.cli("show", "demo", "--json").json["messages"]
    assert (message["state"], message["session"]) == ("seen", end["session"]), told
    stage.note("over ACP, words of a person end its turn and begin the next one")

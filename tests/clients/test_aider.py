"""aider: no hooks, no tools, exit code 0 whatever happens. It is fenced by the sandbox and judged by what lies there afterwards."""

from __future__ import annotations

import json
import os

import pytest

from client_stage import wait_for
from handoff.agents.sandbox.sandbox import BUBBLEWRAP
from scripts import processes_with

pytestmark = [pytest.mark.clients, pytest.mark.slow]
FOR = ("aider",)


def test_it_gets_its_baton_writes_what_it_owns_and_is_judged_by_the_check(stage):
    server = stage.serve(("write", "owned/a.txt", "hello"))
    end = stage.run()
    assert "Task `demo` of project" in server.texts(0), stage.log(end)
    assert (end["outcome"], end["state"], end["outside"]) == ("ok", "done", []), stage.log(end)
    assert stage.repo.read("owned/a.txt") == "hello\n"
    agents = stage.repo.git("log", "--format=%(trailers:key=Handoff-Agent,valueonly)").split()
    assert agents == ["aider"], "it committed nothing by itself"
    assert stage.repo.git("rev-list", "--count", "HEAD").strip() == "2"
    stage.note("baton in the first request", "edit inside allowed", "judged by the task's check")


def test_an_edit_outside_is_found_when_it_is_over_and_the_task_is_not_done(stage):
    stage.serve(("write", "other/b.txt", "x"))
    end = stage.run()
    assert (end["outcome"], end["state"], end["outside"]) == ("failed", "ready", ["other/b.txt"]), stage.log(end)
    stage.note("edit outside found afterwards")


def test_an_edit_outside_is_stopped_by_the_sandbox(stage):
    stage.need(BUBBLEWRAP)
    stage.serve(("write", "other/b.txt", "x"))
    end = stage.run("--sandbox", "owned")
    assert not os.path.exists(os.path.join(stage.tree, "other/b.txt")), stage.log(end)
    assert (end["outcome"], end["state"], end["outside"]) == ("failed", "ready", []), stage.log(end)
    stage.note("edit outside stopped by the sandbox")


def test_an_api_that_fails_is_seen_though_it_returns_0(stage):
    stage.serve(
        ("error", 400, {"error": {"message": "scripted failure", "type": "invalid_request_error", "code": 400}})
    )
    end = stage.run()
    assert (end["outcome"], end["state"]) == ("unknown", "ready"), stage.log(end)
    assert stage.read(end, "outcome.json")["code"] == 0
    stage.note("API failure seen")


def test_it_is_stopped_in_the_middle_and_leaves_no_process(stage):
    stage.serve(("hang",))
    process = stage.start()
    wait_for(lambda: stage.servers[-1].requests, "it asked its model")
    stage.cli("session", "stop", stage.sessions()[0], "--reason", "enough")
    out, err = process.communicate(timeout=200)
    end = json.loads(out)
    assert (end["outcome"], end["state"]) == ("stopped", "ready"), err
    assert processes_with(stage.folder(end)) == []
    stage.note("killed without a trace")


def test_words_end_its_turn_at_once_and_its_next_session_begins_with_them_and_with_the_work_so_far(stage):
    stage.serve(("write", "owned/half.txt", "half"), ("hang",))
    process = stage.start()
    wait_for(lambda: os.path.exists(os.path.join(stage.tree, "owned/half.txt")), "it wrote its first file")
    said = stage.cli("session", "say", "demo", "use the other table")
    assert "the next session of 'demo' begins with them" in said.out
    said = stage.cli("session", "say", "demo", "and hurry", "--now")
    assert "its work is kept" in said.out
    out, err = process.communicate(timeout=200)
    end = json.loads(out)
    assert (end["outcome"], end["state"]) == ("stopped", "ready"), err
    server = stage.serve(("write", "owned/a.txt", "hello"))
    end = stage.run()
    for words in ("use the other table", "and hurry", "owned/half.txt"):
        assert words in server.texts(0), (words, stage.log(end))
    assert end["state"] == "done", stage.log(end)
    assert stage.repo.read("owned/half.txt") == "half\n"
    found = stage.cli("show", "demo", "--json").json
    assert (found["attempt"], [one["state"] for one in found["messages"]]) == (1, ["delivered"] * 2)
    stage.note("words of a person end its turn, and its next session begins with them")

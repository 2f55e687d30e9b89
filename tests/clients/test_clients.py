"""The real clients under the supervisor, with a scripted model: context, fence, stop, failure, limit, kill, strays, resume."""

from __future__ import annotations

import json
import os
import sys
import time

import pytest

from handoff.agents.sandbox.sandbox import BUBBLEWRAP
from scripts import processes_with

pytestmark = [pytest.mark.clients, pytest.mark.slow]
DONE = ("shell", f"{sys.executable} -m handoff.surfaces.cli.main task done --summary 'made a'")
FOR = ("claude", "codex", "gemini", "copilot", "opencode")
WITHOUT_STOP = ("opencode",)


def test_a_session_gets_its_baton_writes_what_it_owns_and_reports(stage):
    server = stage.serve(stage.write("owned/a.txt"), DONE, ("say", "finished"))
    end = stage.run()
    assert "Task `demo` of project" in server.texts(0), stage.log(end)
    assert (end["outcome"], end["state"], end["outside"]) == ("ok", "done", []), stage.log(end)
    assert "hello" in stage.repo.read("owned/a.txt")
    stage.note("baton in the first request", "edit inside allowed", "report by command")


def test_an_edit_outside_is_refused_with_the_reason_and_a_stop_is_refused_until_the_report(stage):
    server = stage.serve(
        stage.write("other/b.txt"), ("say", "I am finished"), stage.write("owned/a.txt"), DONE, ("say", "now really"),
    )  # fmt: skip
    end = stage.run()
    for top in (stage.tree, stage.repo.path):
        assert not os.path.exists(os.path.join(top, "other")), stage.log(end)
    assert "is not yours to change" in server.all_texts(), stage.log(end)
    stage.note("edit outside refused, reason read by the model")
    if stage.client in WITHOUT_STOP:
        assert (end["outcome"], end["state"]) == ("failed", "ready"), stage.log(end)
        return
    assert "neither done nor blocked" in server.all_texts(), stage.log(end)
    assert (end["outcome"], end["state"]) == ("ok", "done"), stage.log(end)
    stage.note("stop refused until the report")


def test_the_commands_of_a_session_find_handoff_and_the_guarded_git_by_name(stage):
    """Also where the system's profile sets PATH anew for every login shell, as Debian's does. In a clone git needs no guard."""
    stage.set(session_workspace='"shared"')
    with open(os.path.join(stage.environment["HOME"], ".profile"), "w", encoding="utf-8") as file:
        file.write("PATH=/usr/bin:/bin\n")
    look = "mkdir -p owned; command -v git > owned/git.txt; echo x > owned/a.txt; handoff task done --summary by-name"
    stage.serve(("shell", look), ("say", "finished"))
    end = stage.run()
    assert (end["outcome"], end["state"], end["reason"]) == ("ok", "done", "by-name"), stage.log(end)
    assert "/guard/" in stage.repo.read("owned/git.txt")
    stage.note("finds handoff and the guarded git by name")


def test_the_relays_tools_finish_a_task(stage):
    server = stage.serve(stage.write("owned/a.txt"), ("tool", "finish", {"summary": "by tool"}), ("say", "finished"))
    end = stage.run()
    assert (end["outcome"], end["state"], end["reason"]) == ("ok", "done", "by tool"), (
        stage.log(end) + server.all_texts()[-3000:]
    )
    stage.note("report by MCP tool")


LOOK = """import os, glob
token = os.environ.get("HANDOFF_TOKEN", "").encode()
seen = 0
for path in glob.glob("/proc/[0-9]*/cmdline"):
    try:
        seen += token in open(path, "rb").read()
    except OSError:
        continue
open("owned/seen.txt", "w").write(str(seen if token else "no token"))
"""


def test_the_relays_tools_over_http_finish_a_task_and_no_argument_holds_the_token(stage):
    stage.set(session_workspace='"shared"')  # inside a sandbox one broker serves them
    look = os.path.join(stage.root, "look.py")
    with open(look, "w", encoding="utf-8") as file:
        file.write(LOOK)
    server = stage.serve(
        stage.write("owned/a.txt"), ("shell", f"{sys.executable} {look}"), ("tool", "finish", {"summary": "by http"}),
        ("say", "finished"),
    )  # fmt: skip
    with stage.endpoint() as url:
        end = stage.run()
    words = stage.log(end) + server.all_texts()[-3000:]
    assert (end["outcome"], end["state"], end["reason"]) == ("ok", "done", "by http"), words
    assert stage.read(end, "session.json")["tools"] == url
    assert stage.repo.read("owned/seen.txt") == "0"
    token = stage.text(end, "token").strip()
    assert stage.text(end, "hello-mcp").strip() == token
    for name in ("launch.json", "events.jsonl", "errors.log", "monitor.log", "calls", "outcome.json"):
        assert token not in stage.text(end, name), name
    stage.note("report by MCP tool over HTTP", "no token in any argument or log")


def test_an_api_that_fails_for_an_unknown_reason_is_held_whatever_the_exit_code(stage):
    fault = {
        "type": "error",
        "error": {"type": "invalid_request_error", "message": "scripted failure", "code": 400, "status": "INVALID"},
    }
    stage.serve(("error", 400, fault))
    end = stage.run()
    assert end["outcome"] == "unknown", stage.log(end)
    assert end["state"] == "ready"
    stage.note("API failure seen")


def test_a_provider_that_refuses_or_never_answers_costs_no_attempt_and_the_work_goes_on_when_it_is_back(stage):
    fault = {"type": "error", "error": {"type": "authentication_error", "message": "invalid x-api-key", "code": 401}}
    cases = (
        (("error", 401, fault), "2", "login", ("401", "x-api-key")),  # opencode shows the words alone
        (("hang",), "1", "down", ("its provider never answered",)),
    )
    for act, minutes, kind, why in cases:
        stage.serve(act)
        end = stage.run("--minutes", minutes)
        assert (end["outcome"], end["state"], any(one in end["reason"] for one in why)) == (kind, "ready", True), (
            stage.log(end)
        )
        assert stage.cli("agent", "retry", stage.client).out == f"Agent {stage.client} is started again from now on.\n"
    stage.serve(stage.write("owned/a.txt"), DONE, ("say", "finished"))
    end = stage.run()
    assert (end["outcome"], end["state"]) == ("ok", "done"), stage.log(end)
    assert stage.cli("show", "demo", "--json").json["attempt"] == 1
    stage.note("provider refuses or hangs: no attempt used up")


def test_a_stopped_session_leaves_no_process_behind(stage):
    mark = f"610.{os.getpid()}"
    stage.serve(("shell", f"setsid sleep {mark} >/dev/null 2>&1 & sleep {mark}"), ("say", "finished"))
    process = stage.start()
    for _ in range(1200):
        if processes_with(f"sleep\0{mark}"):
            break
        time.sleep(0.05)
    else:
        process.kill()
        raise AssertionError("the shell never ran")
    stage.cli("session", "stop", stage.sessions()[0], "--reason", "enough")
    out, err = process.communicate(timeout=200)
    end = json.loads(out)
    assert (end["outcome"], end["state"]) == ("stopped", "ready"), err
    assert processes_with(mark) == []
    stage.note("killed without a trace")


def test_a_straggler_is_ended_after_the_client_is_gone(stage):
    mark = f"611.{os.getpid()}"
    stage.serve(
        ("shell", f"setsid sleep {mark} >/dev/null 2>&1 & sleep 0.1"),
        stage.write("owned/a.txt"),
        DONE,
        ("say", "finished"),
    )
    end = stage.run()
    assert end["state"] == "done", stage.log(end)
    assert processes_with(mark) == []
    stage.note("straggler ended")


def test_a_resumed_session_remembers_its_conversation(stage):
    stage.serve(("say", "the magic word is xyzzy"), *[("say", "still xyzzy")] * 5)
    first = stage.run()
    assert (first["outcome"], first["state"]) == ("failed", "ready"), stage.log(first)
    server = stage.serve(stage.write("owned/a.txt"), DONE, ("say", "finished"))
    end = stage.resume(first["session"])
    assert "xyzzy" in server.texts(0), stage.log(end)
    assert end["state"] == "done", stage.log(end)
    stage.note("resumed with its history", "resumed inside the sandbox")


def test_a_shell_write_outside_is_stopped_by_the_sandbox(stage):
    stage.need(BUBBLEWRAP)
    outside = os.path.join(stage.tree, "other.txt")
    stage.serve(("shell", f"echo x > {outside}"), stage.write("owned/a.txt"), DONE, ("say", "finished"))
    end = stage.run("--sandbox", "owned")
    assert not os.path.exists(outside), stage.log(end)
    assert (end["state"], end["outside"]) == ("done", []), stage.log(end)
    stage.note("shell write outside stopped by the sandbox")


def test_behind_the_sandbox_a_client_is_hooked_reports_and_reaches_nothing_else(stage):
    stage.need()
    home, relay = stage.environment["HOME"], stage.environment["HANDOFF_HOME"]
    places = [os.path.join(stage.repo.path, "x.txt"), os.path.join(home, "x.txt"), os.path.join(relay, "x.txt")]
    lines = "; ".join(f"echo x > {place}" for place in places)
    server = stage.serve(
        ("shell", f"{lines}; cat {relay}/handoff.db; true"), stage.write("other/b.txt"), stage.write("owned/a.txt"),
        ("tool", "finish", {"summary": "by tool"}), ("say", "finished"),
    )  # fmt: skip
    end = stage.run()
    assert "error" not in end, end
    assert end["outcome"] == "ok", stage.log(end)
    assert "Task `demo` of project" in server.texts(0), stage.log(end)
    assert "is not yours to change" in server.all_texts(), stage.log(end)
    assert not [place for place in places if os.path.exists(place)], stage.log(end)
    assert (end["outcome"], end["state"], end["reason"]) == ("ok", "done", "by tool"), stage.log(end)
    assert "hello" in stage.repo.read("owned/a.txt"), "it landed on the person's branch"
    stage.note("works in a clone inside the sandbox")


def test_a_limit_of_the_provider_is_a_wait_and_not_a_failure(stage):
    words = "Rate limit reached: quota exceeded. Please try again in 2 hours."
    fault = {
        "type": "error",
        "error": {"type": "rate_limit_error", "message": words, "code": 429, "status": "RESOURCE_EXHAUSTED"},
    }
    stage.serve(("error", 429, fault))
    end = stage.run()
    assert (end["outcome"], end["state"]) == ("limit", "ready"), stage.log(end)
    assert end["until"] > time.time() + 600, stage.log(end)
    stage.note("rate limit waited for")


def test_a_task_is_carried_on_by_three_vendors(relay):
    relay.serve(relay.write("owned/one.txt"), ("say", "I chose the blue one"), *[("say", "still blue")] * 4)
    first = relay.run()
    assert (first["outcome"], first["state"]) == ("failed", "ready"), relay.log(first)
    relay.become("codex")
    server = relay.serve(relay.write("owned/two.txt"), ("say", "the blue one fits"), *[("say", "it fits")] * 4)
    second = relay.run()
    told = server.texts(0)
    assert "What was tried" in told
    assert "owned/one.txt" in told
    assert "still blue" in told
    relay.become("copilot")
    server = relay.serve(relay.write("owned/a.txt"), DONE, ("say", "finished"))
    third = relay.run()
    told = server.texts(0)
    assert "owned/two.txt" in told, relay.log(third)
    assert "it fits" in told
    assert (second["state"], third["state"]) == ("ready", "done"), relay.log(third)
    for name in ("claude", "codex", "copilot"):
        relay.client = name
        relay.note("carries on what another vendor began")

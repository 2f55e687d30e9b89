"""What the real clients used: counted from what they print and record, also when they are killed in the middle of a turn."""

from __future__ import annotations

import json
import os
import signal
import sys
import time

import pytest

pytestmark = [pytest.mark.clients, pytest.mark.slow]
DONE = ("shell", f"{sys.executable} -m handoff.surfaces.cli.main task done --summary 'made a'")
ACP = {"gemini": ["--acp", "--skip-trust", "-m", "gemini-2.5-pro"], "qwen": ["--acp"]}
HOOKED = ("claude", "codex", "gemini", "copilot", "opencode")
FOR = (*HOOKED, "aider", "qwen")
MODELS = {
    "claude": "claude-",
    "codex": "gpt-5.5",
    "gemini": "gemini-2.5-pro",
    "copilot": "gpt-4.1",
    "opencode": "local/m",
}


def _start(stage):
    if stage.client in HOOKED or stage.client == "aider":
        return stage.start()
    words = [f"--with={word}" for word in (stage.client, *ACP[stage.client])]
    return stage.cli.start("session", "start", "demo", "--agent", "acp", "--minutes", "5", "--json", *words)


def _end(stage, process):
    out, err = process.communicate(timeout=120)
    assert out, err
    end = json.loads(out)
    return end, stage.read(end, "outcome.json")["bill"]


def _kill(stage):
    folder = os.path.join(stage.environment["HANDOFF_HOME"], "project", "sessions", stage.sessions()[0])
    with open(os.path.join(folder, "process.json"), encoding="utf-8") as file:
        os.kill(int(json.load(file)["pid"]), signal.SIGKILL)


def _known(stage):
    """What is known while it runs, once both answers are told."""
    return [one for one in stage.cli("agent", "list", "--json").json if one["used"] and one["used"]["output"] == 10]


def _used(bill):
    return bill["input"], bill["cached"], bill["output"], bill["reasoning"]


def test_a_session_that_ends_by_itself_tells_its_tokens_and_its_cost_is_known_or_said_to_be_unknown(stage):
    stage.repo.write("owned/there.txt", "")  # some clients make no folders
    stage.repo.commit("a folder")
    act = ("write", "owned/a.txt", "hello") if stage.client == "aider" else stage.write("owned/a.txt")
    server = stage.serve(act, DONE, ("say", "finished"), ("say", "finished"))
    end, bill = _end(stage, _start(stage))
    assert end["state"] == "done", stage.log(end)
    assert bill is not None, stage.log(end)
    if stage.client == "aider":
        assert (bill["models"], bill["basis"], bill["money"] > 0) == (["openai/gpt-4.1"], "said", True), bill
    else:
        # What Qwen asks beside the conversation it tells nobody.
        answers = bill["output"] // 5 if stage.client == "qwen" else len(server.requests)
        assert 3 <= answers <= len(server.requests), (bill, stage.log(end))
        assert _used(bill)[:3] == (6 * answers, 4 * answers, 5 * answers), (bill, answers, stage.log(end))
        known = "said" if stage.client == "claude" else "listed" if stage.client in MODELS else "unknown"
        assert bill["basis"] == ("unknown" if stage.client == "opencode" else known), bill
        assert bill["models"][0].startswith(MODELS.get(stage.client, "m")), bill
    (row,) = [one for one in stage.cli("agent", "list", "--json").json if one["used"]]
    assert (row["used"]["output"], row["used"]["sessions"]) == (bill["output"], 1)
    stage.note("tokens and cost counted")


@pytest.mark.clients(*HOOKED, "qwen")
def test_a_session_killed_in_the_middle_of_a_turn_keeps_what_it_used(stage):
    stage.serve(stage.write("owned/b.txt"), ("shell", "true"), ("hang",))
    process = _start(stage)
    deadline = time.monotonic() + 120
    while len(stage.servers[-1].requests) < 3 and time.monotonic() < deadline:
        time.sleep(0.1)
    while stage.client == "copilot" and not _known(stage) and time.monotonic() < deadline:
        time.sleep(0.2)  # it writes its own record a moment after each answer
    _kill(stage)
    end, bill = _end(stage, process)
    assert end["outcome"] in ("killed", "failed"), stage.log(end)
    assert bill is not None, stage.log(end)
    assert _used(bill)[:3] == (12, 8, 10), (bill, stage.log(end))
    assert bill["basis"] == "unknown", "nobody knows what the third answer would have cost"
    if stage.client in HOOKED:
        first = bill
        stage.serve(stage.write("owned/a.txt"), DONE, ("say", "finished"))
        again = stage.resume(end["session"])
        bill = stage.read(again, "outcome.json")["bill"]
        assert _used(bill)[:3] == (18, 12, 15), (bill, stage.log(again))
        (row,) = [one for one in stage.cli("agent", "list", "--json").json if one["used"]]
        assert row["used"]["output"] == first["output"] + bill["output"]
    stage.note("tokens kept when it is killed")


def test_the_cost_of_a_session_killed_before_it_wrote_down_any_answer_is_said_to_be_unknown(stage):
    stage.serve(("hang",))
    process = _start(stage)
    deadline = time.monotonic() + 120
    while not stage.servers[-1].requests and time.monotonic() < deadline:
        time.sleep(0.1)
    _kill(stage)
    end, bill = _end(stage, process)
    assert end["outcome"] in ("killed", "failed"), stage.log(end)
    assert bill is not None, stage.log(end)
    assert (bill["basis"], bill["output"]) == ("unknown", 0), bill
    assert "cost unknown" in stage.cli("agent", "list").out

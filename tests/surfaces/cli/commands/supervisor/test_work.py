"""Conversations with `handoff work`."""

from __future__ import annotations

import os
import signal

import psutil
import pytest

from handoff.base.clock import SystemClock
from relay import manifest
from screen import Screen

PLAN = """# Execution Plan

- [x] Draw the form
- [>] Check the password
- [ ] Send the mail
"""


def until(true):
    clock = SystemClock()
    while not true():
        clock.sleep(0.05)


def configure(text):
    home = os.environ["HANDOFF_HOME"]
    os.makedirs(home, exist_ok=True)
    with open(os.path.join(home, "config.toml"), "w", encoding="utf-8") as file:
        file.write(text)


@pytest.mark.slow
def test_a_supervisor_that_works_until_all_is_done_ends_by_itself_and_says_whether_it_was_enough(cli, repo):
    configure("""max_attempts = 1
[agents]
good = ["sh", "-c", "echo made > made.txt"]
bad = ["sh", "-c", "echo wrong > made.txt"]
""")
    work = ("work", "--agent", "good", "--agent", "bad", "--until-done", "--plain")
    cli(*work)
    cli("task", "add", "first", "Make it.", "--agent", "good", "--check", "grep -q made made.txt", "--owns", "made.txt")
    cli(*work)
    assert repo.git("show", "main:made.txt") == "made\n"
    cli("task", "add", "second", "Make it.", "--agent", "bad", "--check", "false", "--owns", "made.txt")
    cli(*work, code=1)
    assert cli("show", "second", "--json").json["state"] == "blocked"
    cli("cancel", "second")
    cli("task", "add", "paused", "Make it.", "--agent", "good", "--check", "true")
    cli("pause", "paused")
    cli("task", "add", "foreign", "Make it.", "--agent", "scripted", "--check", "true")
    cli("task", "add", "large", "Make it.", "--agent", "good", "--check", "true", "--label", "gpu", "--label", "big")
    said = cli(*work, code=1).out
    assert "2 tasks stay ready: stopped, kept for you, or for an agent that does not work here." in said
    assert "repo/large stays ready: no host at work has --labels big,gpu." in said
    cli("task", "add", "taken", "Make it.", "--agent", "bad", "--check", "test -s made.txt")
    cli("take", "taken", "--to", "good")
    cli(*work, code=1)  # the others wait on
    assert cli("show", "taken", "--json").json["state"] == "done"


def test_a_supervisor_needs_an_agent_it_knows(cli):
    configure('agents = { gone = ["nowhere-to-be-found"] }\n')
    for words, why in (
        ((), "Say which agent works"),
        (("--agent", "nobody"), "There is no agent 'nobody'"),
        (("--agent", "gone"), "'nowhere-to-be-found'"),
        (("--agent", "scripted", "--max", "-1"), "--max must be"),
        (("--agent", "scripted", "--until", "nothing"), "There is no batch 'nothing'"),
    ):
        answer = cli("work", *words, code=1)
        assert (why in answer.err, answer.out) == (True, ""), "it does not say that it works, and then that it cannot"


def test_a_service_is_written_for_a_workers_that_could_work_and_removed_again(cli):
    assert "Say which agent works" in cli("setup", "service", "install", "work", code=1).err
    assert "install work" in cli("setup", "service", "install", "--agent", "scripted", code=2).err
    told = cli("setup", "service", "install", "work", "--agent", "scripted", "--max", "2", "--json", code=None).json
    path = next(step["words"] for step in told if step["words"].startswith("Wrote "))[6:-1]
    with open(path, encoding="utf-8") as file:
        assert '"work" "--agent" "scripted" "--max" "2"' in file.read() or path.endswith(".plist")
    cli("setup", "service", "remove", "work", code=None)
    assert not os.path.exists(path)


def test_where_nobody_works_it_says_so(cli):
    assert "No supervisor works" in cli("work", "--status").out
    assert cli("work", "--status", "--json").json["supervisors"] == []
    assert "No supervisor works on this machine" in cli("work", "--stop").out


def test_a_task_waits_for_a_machine_with_its_label_and_everybody_can_see_it(cli, tmp_path):
    script = tmp_path / "agent.toml"
    script.write_text('[[act]]\nrun = "true"\n')
    cli("dump", "--task", "train", "--next", "x", "--label", "gpu", "--label", "big-disk")
    assert "GPU" in cli("dump", "--task", "wrong", "--next", "x", "--label", "GPU", code=1).err
    assert "(on a host with big-disk, gpu)" in cli("task", "list").out
    assert cli("task", "list", "--json").json["tasks"][0]["labels"] == ["big-disk", "gpu"]
    assert "runs on a host with: big-disk, gpu" in cli("show", "train").out
    assert "need a host with big-disk, gpu" in cli("task", "claim", code=1).err
    assert "say so: --labels big-disk" in cli("task", "claim", "train", "--labels", "gpu", code=3).err
    cli("work", "--agent", "scripted", "--labels", "gpu", "--detach", "--", str(script))
    shown = cli("work", "--status").out
    assert "; has scripted, label gpu" in shown
    assert "Nobody can take repo/train yet: no supervisor runs with label big-disk and label gpu." in shown
    assert cli("work", "--status", "--json").json["unserved"][0]["task"] == "train"
    assert "no host at work has what 'train' needs" in cli("task", "claim", code=1).err
    cli("work", "--stop")
    configure('labels = ["big-disk"]\n')
    cli("work", "--agent", "scripted", "--labels", "gpu", "--detach", "--", str(script))
    until(lambda: "done" in cli("show", "train").out)
    cli("work", "--stop")


@pytest.mark.slow
def test_in_the_background_it_works_is_seen_stops_and_attaches_again(cli, tmp_path):
    go, starts, script = tmp_path / "go", tmp_path / "starts", tmp_path / "agent.toml"
    script.write_text(f"""
[[act]]
run = "echo x >> {starts}; while ! test -e {go}; do sleep 0.1; done"
""")
    cli("dump", "--task", "first", "--next", "do it", "--check", f"test -e {go}")
    started = cli("work", "--agent", "scripted", "--in-checkout", "--detach", "--json", "--", str(script)).json
    until(starts.exists)
    shown = cli("work", "--status", "--json").json
    assert [one["id"] for one in shown["supervisors"]] == [started["supervisor"]]
    assert [task["id"] for task in shown["running"]] == ["first"]
    assert started["supervisor"] in cli("work", "--stop").out
    assert not psutil.pid_exists(started["pid"]) or psutil.Process(started["pid"]).status() == "zombie"
    again = cli("work", "--agent", "scripted", "--in-checkout", "--detach", "--json", "--", str(script)).json
    assert again["supervisor"] != started["supervisor"]
    go.write_text("")
    until(lambda: "done" in cli("show", "first").out)
    assert starts.read_text() == "x\n", "the living agent was kept"
    assert cli("work", "--stop", "--drain", "--json").json["stopped"] == [again["supervisor"]]
    until(lambda: not psutil.pid_exists(again["pid"]) or psutil.Process(again["pid"]).status() == "zombie")
    with open(started["log"], encoding="utf-8") as file:
        said = file.read()
    assert "first: started with scripted (fence 1)" in said
    assert "Took over from supervisor" in said
    assert os.path.dirname(started["log"]).endswith("logs")


def test_a_person_sees_the_board_while_it_works_and_leaves_it_with_ctrl_c(cli, repo, tmp_path):
    go, script = tmp_path / "go", tmp_path / "agent.toml"
    script.write_text(f"""
[[act]]
run = "while ! test -e {go}; do sleep 0.05; done"
""")
    cli("init", "login")
    repo.write(".handoff/features/login/STATE.md", PLAN)
    cli("dump", "--task", "first", "--next", "do it", "--check", "true", "--priority", "9")
    cli("dump", "--open-batch", manifest(tmp_path / "m.json", batch="night"))
    words = cli.command("work", "--agent", "scripted", "--max", "1", "--in-checkout", "--", str(script))
    screen = Screen(words, cwd=repo.path, env={**cli.full_environment(), "TERM": "xterm-256color"})
    try:
        screen.until("it lands on your branch", "Which one? [auto]:")  # in a terminal it is asked once
        screen.type("\r")
        seen = screen.until("●1 running", "● first", "night  ", "2 waiting of 2", "NEXT 3")
        assert "scripted" in next(line for line in seen.splitlines() if "● first" in line)
        assert not screen.cursor_shown
        cli("pause")
        go.write_text("")
        screen.until("●0 running", "‖ project repo", "✓ first")
        screen.type("\x03")  # Ctrl-C means the same as everywhere
        assert screen.process.wait(timeout=60) == 0
        assert "has ended; nothing it started runs on." in screen.look()
        assert screen.cursor_shown, "the terminal is left as it was found"
        with open(os.path.join(os.environ["HANDOFF_HOME"], "config.toml"), encoding="utf-8") as file:
            assert file.read() == 'landing = "auto"\n'
    finally:
        screen.close()


def test_without_a_terminal_it_says_one_plain_line_for_each_thing(cli, tmp_path):
    script = tmp_path / "agent.toml"
    script.write_text('[[act]]\nsay = "fine"\n')
    cli("dump", "--task", "first", "--next", "do it", "--check", "true")
    process = cli.start("work", "--agent", "scripted", "--", str(script))
    until(lambda: "done" in cli("show", "first").out)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    lines = out.decode().splitlines()
    assert "\x1b" not in out.decode()
    assert any(line.endswith("repo/first: started with scripted (fence 1)") for line in lines)
    assert lines[-1].endswith("has ended; nothing it started runs on.")


def test_when_the_days_money_is_spent_nothing_more_is_started_and_everybody_can_see_why(cli, tmp_path):
    script = tmp_path / "agent.toml"
    script.write_text("[[act]]\nspend = 0.4\n[[act]]\nspend = 0.35\n")
    configure("max_cost_per_day = 0.5\nmax_running = 1\n")
    for name in ("first", "second"):
        cli("dump", "--task", name, "--next", "do it", "--check", "true")
    process = cli.start("work", "--agent", "scripted", "--", str(script))
    until(lambda: "done" in cli("show", "first").out)
    reason = "the sessions of the last 24 hours cost 0.75 USD, and max_cost_per_day is 0.5"
    until(lambda: reason in cli("work", "--status").out)
    assert cli("work", "--status", "--json").json["spent_up"] == reason
    assert reason in cli("session", "start", "second", "--agent", "scripted", "--with", str(script), code=3).err
    assert "ready" in cli("show", "second").out
    configure("max_cost_per_day = 2.5\nmax_running = 1\n")
    until(lambda: "done" in cli("show", "second").out)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert f"Nothing is started: {reason}." in out.decode()
    assert "Budget raised: going on." in out.decode()

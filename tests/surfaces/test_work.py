"""Conversations with `handoff work`."""

from __future__ import annotations

import os

import psutil
import pytest

from handoff.base.clock import SystemClock


def until(true):
    clock = SystemClock()
    while not true():
        clock.sleep(0.05)


def configure(text):
    home = os.environ["HANDOFF_HOME"]
    os.makedirs(home, exist_ok=True)
    with open(os.path.join(home, "config.toml"), "w", encoding="utf-8") as file:
        file.write(text)


def test_a_supervisor_needs_an_agent_it_knows(cli):
    configure('agents = { gone = ["nowhere-to-be-found"] }\n')
    assert "Say which agent works" in cli("work", code=1).err
    assert "There is no agent 'nobody'" in cli("work", "--agent", "nobody", code=1).err
    assert "'nowhere-to-be-found'" in cli("work", "--agent", "gone", code=1).err
    assert "--max must be" in cli("work", "--agent", "scripted", "--max", "-1", code=1).err


def test_a_service_is_written_for_a_crew_that_could_work_and_removed_again(cli):
    assert "Say which agent works" in cli("install", "work", code=1).err
    assert "install work" in cli("install", "--agent", "scripted", code=2).err
    told = cli("install", "work", "--agent", "scripted", "--max", "2", "--json", code=None).json
    path = next(step["words"] for step in told if step["words"].startswith("Wrote "))[6:-1]
    with open(path, encoding="utf-8") as file:
        assert '"work" "--agent" "scripted" "--max" "2"' in file.read() or path.endswith(".plist")
    cli("uninstall", "work", code=None)
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
    assert "(on a host with big-disk, gpu)" in cli("queue").out
    assert cli("queue", "--json").json["tasks"][0]["labels"] == ["big-disk", "gpu"]
    assert "runs on a host with: big-disk, gpu" in cli("show", "train").out
    assert "need a host with big-disk, gpu" in cli("claim", code=1).err
    assert "say so: --labels big-disk" in cli("claim", "train", "--labels", "gpu", code=3).err
    cli("work", "--agent", "scripted", "--labels", "gpu", "--detach", "--", str(script))
    shown = cli("work", "--status").out
    assert "; has scripted, label gpu" in shown
    assert "No host at work can take repo/train: it needs label big-disk and label gpu." in shown
    assert cli("work", "--status", "--json").json["unserved"][0]["task"] == "train"
    assert "no host at work has what 'train' needs" in cli("claim", code=1).err
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
    begun = cli("work", "--agent", "scripted", "--detach", "--json", "--", str(script)).json
    until(starts.exists)
    shown = cli("work", "--status", "--json").json
    assert [one["id"] for one in shown["supervisors"]] == [begun["supervisor"]]
    assert [task["id"] for task in shown["running"]] == ["first"]
    assert begun["supervisor"] in cli("work", "--stop").out
    assert not psutil.pid_exists(begun["pid"]) or psutil.Process(begun["pid"]).status() == "zombie"
    again = cli("work", "--agent", "scripted", "--detach", "--json", "--", str(script)).json
    assert again["supervisor"] != begun["supervisor"]
    go.write_text("")
    until(lambda: "done" in cli("show", "first").out)
    assert starts.read_text() == "x\n", "the living agent was kept"
    assert cli("work", "--stop", "--drain", "--json").json["stopped"] == [again["supervisor"]]
    until(lambda: not psutil.pid_exists(again["pid"]) or psutil.Process(again["pid"]).status() == "zombie")
    with open(begun["log"], encoding="utf-8") as file:
        said = file.read()
    assert "first: started with scripted (fence 1)" in said
    assert "Took over from supervisor" in said
    assert os.path.dirname(begun["log"]).endswith("logs")

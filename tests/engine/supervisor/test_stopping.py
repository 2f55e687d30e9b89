"""A session that a person ends, or that died while nobody looked: every view knows at once, and nobody is charged."""

from __future__ import annotations

import os
import shlex
import signal

from handoff.board.sessions import executors, leases, sessions
from handoff.engine.place import pulse
from handoff.engine.supervisor import watchdog
from handoff.engine.work import overview
from handoff.surfaces.api.calls import ApiRequest, get_task, list_tasks

PROJECT = ("--project", "demo")
LONG = {"run": "sleep 1000"}


def _session(ground):
    """The session at work, once its agent runs."""
    ground.until(lambda: ground.trace_lines() and sessions.at_work(ground.app.database), "a session works")
    (one,) = sessions.at_work(ground.app.database)
    return one.id


def _kill_all(ground):
    """Everything of the sessions dies at once, as by a power cut."""
    while left := ground.agents():
        for pid in left:
            os.kill(pid, signal.SIGKILL)


def _looks(ground):
    found = overview.look(ground.app, project="demo")
    return [(item.section, item.look) for item in found.items if item.key]


def test_a_session_stopped_after_its_supervisor_is_concluded_at_once(file_ground, cli):
    ground = file_ground
    ground.add("aa", LONG)
    ground.supervisor()
    name = _session(ground)
    said = cli("work", "--stop").out
    assert f"{name} goes on; end it: handoff session stop {name}" in said
    said = cli("session", "stop", name).out
    assert f"Session {name} has ended.\nTask 'aa' is ready.\n" == said
    task = ground.tasks()["aa"]
    assert (task.state, task.attempt, ground.agents()) == ("ready", 1, [])
    assert pulse.listing(ground.app) == []
    assert "No session runs" in cli("session", "list", *PROJECT).out
    assert f"Session {name} was over already." in cli("session", "stop", name).out


def test_a_session_that_died_without_a_supervisor_is_called_running_by_no_view(file_ground, cli):
    ground = file_ground
    ground.add("aa", LONG)
    supervisor = ground.supervisor()
    name = _session(ground)
    assert _looks(ground) == [("running", "running")]
    supervisor.kill()
    supervisor.wait()
    _kill_all(ground)
    assert _looks(ground) == [("needs you", "ended")]
    stop = f"handoff session stop {name}"
    (line,) = cli("task", "list", *PROJECT).out.splitlines()
    assert line.split()[:2] == ["aa", "ended"]
    assert stop in line
    assert cli("task", "list", "--json", *PROJECT).json["tasks"][0]["ended"] == "left"
    assert f"has ended, and nobody looks after it: {stop}" in cli("session", "list", *PROJECT).out
    assert cli("session", "list", "--json", *PROJECT).json[0]["alive"] is False
    asked = ApiRequest(ground.app, {"key": ground.tasks()["aa"].key}, {}, "demo")
    assert [one["ended"] for one in (*list_tasks(asked)["items"], get_task(asked))] == ["left", "left"]
    assert stop in cli("show", "aa", *PROJECT).out
    assert "0 running" in cli("work", "--status").out
    diagnosed = cli("doctor", code=None).out
    assert "died: its process is gone" in diagnosed
    assert stop in diagnosed
    assert "was over already" in cli("session", "stop", name).out
    assert (ground.states(), pulse.listing(ground.app)) == ({"aa": "ready"}, [])


def test_doctor_says_that_sessions_run_without_a_supervisor(file_ground, cli):
    ground = file_ground
    ground.add("aa", LONG)
    supervisor = ground.supervisor()
    name = _session(ground)
    assert "without a supervisor" not in cli("doctor", code=None).out
    supervisor.kill()
    supervisor.wait()
    said = cli("doctor", code=None).out
    assert f"1 session runs without a supervisor: {name}." in said
    assert "died: its process is gone" in said
    assert "All is well" not in said
    (one,) = executors.listing(ground.app.database)
    assert not executors.lives(one, host=ground.app.settings.host)
    assert overview.look(ground.app, project="demo").supervisors == 0


def test_the_watchdog_concludes_what_died_without_a_supervisor_before_it_calls_anybody_silent(file_ground):
    ground = file_ground
    ground.add("aa", {"write": "made.txt", "text": "made"}, check_command="test -f made.txt")
    supervisor = ground.supervisor("supervisor.runs.save_step:call")
    supervisor.wait()
    assert ground.states() == {"aa": "running"}
    leases.heartbeat(ground.app.database, key=ground.tasks()["aa"].key, fence=1, lease_seconds=0.001)
    assert watchdog.look(ground.app).report.freed == ()
    assert (ground.states(), ground.tasks()["aa"].attempt) == ({"aa": "done"}, 1)


def test_a_session_that_never_began_gives_its_task_back_uncharged(file_ground, cli):
    ground = file_ground
    ground.add("aa")
    ground.supervisor("supervisor.runs.session_step:call").wait()
    (one,) = sessions.at_work(ground.app.database)
    assert "has ended, and nobody looks after it" in cli("session", "list", *PROJECT).out
    assert "Task 'aa' is ready." in cli("session", "stop", one.id).out
    assert (ground.tasks()["aa"].attempt, ground.started("aa")) == (1, 0)
    ground.supervisor()
    ground.until(ground.done, "the next session has it")


def test_a_supervisor_takes_up_a_session_whose_own_command_was_killed(file_ground, cli):
    ground = file_ground
    ground.settings()
    ground.add("aa", {"run": "while ! test -e go; do sleep 0.1; done"}, {"write": "made.txt", "text": "made"})
    script = os.path.join(ground.scripts, "aa.toml")
    command = cli.start("session", "start", "aa", "--agent", "scripted", "--with", script, *PROJECT)
    name = _session(ground)
    ground.supervisor()
    ground.until(lambda: ground.works(ground.supervisors[0]), "the supervisor works")
    assert [trace.is_watched_by_hand for trace in pulse.listing(ground.app)] == [True]
    command.kill()
    command.communicate()
    ground.until(lambda: [one.watcher for one in pulse.listing(ground.app)] == [pulse.SUPERVISED], "it is taken up")
    with open(os.path.join(ground.repo, "go"), "w", encoding="ascii"):
        pass
    ground.until(lambda: sessions.get(ground.app.database, id=name).ending == "ok", "it is concluded")
    assert (ground.states(), ground.tasks()["aa"].attempt, ground.started("aa")) == ({"aa": "done"}, 1, 1)


def test_a_task_is_kept_for_the_person_who_stopped_its_session(file_ground, cli, repo):
    ground = file_ground
    ground.add("aa", LONG)
    ground.add("bb", LONG)
    ground.supervisor(limit=1)
    name = _session(ground)
    said = cli("session", "stop", name, "--hold").out
    assert "Task 'aa' is kept for you. Take it: handoff task claim aa" in said
    ground.until(lambda: ground.states()["bb"] == "running", "the supervisor goes on with another task")
    assert (ground.states()["aa"], ground.started("aa")) == ("ready", 1)
    assert "kept for " in cli("task", "list", *PROJECT).out
    assert "You hold aa" in cli("task", "claim", "aa", *PROJECT).out
    assert "aa is free" in cli("task", "release", "aa", *PROJECT).out
    for one in sessions.at_work(ground.app.database):
        cli("session", "stop", one.id, "--hold")
    ground.until(lambda: ground.started("aa") == 2, "what was given back is the agents' again")
    assert ground.tasks()["bb"].state == "ready"
    assert "bb is ready" in cli("retry", "bb", *PROJECT).out


def test_what_a_person_holds_stays_theirs_when_they_were_silent_for_too_long(file_ground, cli):
    ground = file_ground
    ground.add("aa", LONG)
    ground.supervisor(limit=1)
    cli("session", "stop", _session(ground), "--hold")
    cli("task", "claim", "aa", "--lease", "0.001", *PROJECT)
    ground.until(lambda: ground.count("task.expired"), "the claim has expired")
    ground.add("bb", LONG)
    ground.until(lambda: ground.states()["bb"] == "running", "the supervisor has looked since")
    assert (ground.states()["aa"], ground.started("aa")) == ("ready", 1)


def test_who_takes_a_task_over_by_hand_is_told_where_its_work_is_and_the_command_brings_it(
    file_ground, cli, repo, monkeypatch
):
    ground = file_ground
    monkeypatch.setenv("HANDOFF_PROJECT", "demo")
    ground.settings('session_sandbox = "none"\n', place="clone")
    made = {"write": "half of it.txt", "text": "half"}
    ground.add("aa", made, {"run": f"echo made >> {ground.traces}"}, LONG, check_command="test -f whole.txt")
    ground.supervisor()
    ground.until(lambda: "made" in ground.trace_lines(), "half of it is made")
    cli("session", "stop", _session(ground), "--hold")
    assert not os.path.exists(os.path.join(repo.path, "half of it.txt"))
    said = cli("task", "claim", "aa", *PROJECT).err
    assert "Earlier sessions of 'aa' left 1 changed file in " in said
    command = shlex.split(said.partition("Bring that here: ")[2])
    assert command[0] == "handoff"
    cli(*command[1:])
    assert repo.read("half of it.txt") == "half"
    repo.write("whole.txt", "whole")
    assert "aa is done" in cli("task", "done", "aa", *PROJECT).out
    assert ground.tasks()["aa"].attempt == 1

"""Whose fault it was: what the provider or the ground kept from working costs no attempt, is told once, and goes on when mended."""

from __future__ import annotations

import contextlib
import json
import os
import signal

import pytest

from handoff.board.sessions import holds
from handoff.engine.supervisor.news import News
from handoff.engine.work import workers
from relay import manifest

PROJECT = ("--project", "demo")


def _client(ground, mark):
    """An agent whose provider serves it only while `mark` is there."""
    program = os.path.join(ground.folder, "client")
    with open(program, "w", encoding="utf-8") as file:
        file.write(f"#!/bin/sh\ntest -e {mark} && exec echo done\necho 'API error 401: please log in' >&2\nexit 1\n")
    os.chmod(program, 0o755)
    return f'agents = {{ wobbly = ["{program}"] }}\n'


def _held(ground):
    return {held.name: held for held in holds.listing(ground.app.database)}


@pytest.mark.slow
def test_a_logged_out_client_costs_no_attempt_is_told_once_and_twenty_tasks_go_on_when_it_is_back(file_ground, cli):
    ground = file_ground
    login = os.path.join(ground.folder, "login")
    ground.settings(_client(ground, login) + "back_off_seconds = 1\nstarts_per_minute = 100000\n")
    for number in range(20):
        ground.add(f"task-{number:02}")
    ground.supervisor(agent="wobbly", limit=4)
    ground.until(lambda: ground.count("agent.held_again") >= 2, "the agent was tried again and again")
    assert {(task.state, task.attempt) for task in ground.tasks().values()} <= {("ready", 1), ("running", 1)}
    assert ground.count("agent.held") == 1, "people are told once"
    assert ground.count("task.claimed") <= 4 + 2 * ground.count("agent.held_again"), "one session tries for all others"
    ground.settings(_client(ground, login) + "back_off_seconds = 7200\nstarts_per_minute = 100000\n")
    far = ground.clock.now() + 7000
    ground.until(lambda: any(held.until > far for held in _held(ground).values()), "the pause has grown")
    assert "please log in" in cli("agent", "list").out
    queue = cli("task", "list", *PROJECT)
    assert "Agent wobbly on " in queue.out
    assert "agent retry wobbly" in queue.out
    assert cli("task", "list", "--json", *PROJECT).json["holds"][0]["name"] == "wobbly"
    assert "held: agent wobbly" in cli("show", "task-07", *PROJECT).out
    assert cli("show", "task-07", "--json", *PROJECT).json["holds"][0]["until"].startswith("20")
    assert "Agent wobbly on " in cli("work", "--status").out
    assert cli("work", "--status", "--json").json["holds"][0]["tries"] >= 3
    with open(login, "w", encoding="ascii"):
        pass
    assert "is started again" in cli("agent", "retry", "wobbly").out
    ground.until(ground.done, "all twenty are done")
    assert {task.attempt for task in ground.tasks().values()} == {1}
    assert _held(ground) == {}
    assert (ground.count("agent.held"), ground.count("task.blocked"), ground.count("task.expired")) == (1, 0, 0)
    assert "was not held" in cli("agent", "retry", "wobbly").out


def test_a_held_agent_goes_on_by_itself_when_its_provider_serves_it_again(file_ground):
    ground = file_ground
    login = os.path.join(ground.folder, "login")
    ground.settings(_client(ground, login) + "back_off_seconds = 0.5\n")
    ground.add("aa")
    ground.add("bb")
    ground.supervisor(agent="wobbly")
    ground.until(lambda: ground.logs().count("Agent wobbly on ") >= 2, "each pause is told beside the supervisor")
    with open(login, "w", encoding="ascii"):
        pass
    ground.until(ground.done, "both are done")
    assert {task.attempt for task in ground.tasks().values()} == {1}
    assert (ground.count("agent.held"), ground.count("agent.released")) == (1, 1)


def _make_tool(path: str) -> None:
    os.makedirs(os.path.dirname(path))
    with open(path, "w", encoding="ascii") as file:
        file.write("#!/bin/sh\n")
    os.chmod(path, 0o755)


def test_a_check_that_cannot_run_any_more_costs_no_attempt_and_no_second_session(file_ground, cli):
    ground = file_ground
    ground.settings("back_off_seconds = 7200\n")
    tool = os.path.join(ground.repo, ".venv", "bin", "python")
    _make_tool(tool)
    ground.add("aa", {"run": "rm -rf .venv"}, check_command=".venv/bin/python -c true")
    ground.supervisor()
    ground.until(lambda: ground.count("task.held"), "the task waits for its ground")
    task = ground.tasks()["aa"]
    assert (task.state, task.attempt, ground.started("aa")) == ("ready", 1, 1)
    (line,) = [line for line in cli("task", "list", *PROJECT).out.splitlines() if line.startswith("aa")]
    assert " held " in line
    assert "The check cannot run: `.venv/bin/python -c true`" in line
    assert "retry aa" in cli("show", "aa", *PROJECT).out
    _make_tool(tool)
    assert "ready" in cli("retry", "aa", *PROJECT).out
    ground.until(ground.done, "it is judged again")
    assert ground.started("aa") == 1, "the work was there: nobody is paid for it twice"
    assert ground.tasks()["aa"].attempt == 1


def test_dependencies_made_after_the_work_judge_it_without_a_second_session(file_ground, cli, repo):
    ground = file_ground
    ground.settings('back_off_seconds = 7200\nsession_sandbox = "none"\n', place="clone")
    repo.write(".gitignore", "node_modules/\n")
    repo.commit("ignore")
    made = {"write": "made.txt", "text": "made"}
    ground.add("aa", made, check_command="test -f made.txt && node_modules/.bin/tool")
    ground.supervisor()
    ground.until(lambda: ground.count("task.held"), "the task waits for its dependencies")
    assert "Make node_modules in your checkout" in cli("show", "aa", *PROJECT).out
    _make_tool(os.path.join(repo.path, "node_modules", ".bin", "tool"))
    cli("retry", "aa", *PROJECT)
    ground.until(ground.done, "it is judged with what the checkout has now")
    assert (ground.started("aa"), ground.tasks()["aa"].attempt) == (1, 1)


def test_the_trial_of_a_check_reaches_the_second_piece_though_the_first_is_red(file_ground, cli, tmp_path):
    ground = file_ground
    _open_batch(ground, cli, tmp_path, "test -f src/all.txt && no-such-tool")
    ground.supervisor(agent="maker")
    ground.until(lambda: ground.count("task.held") == 2, "both parts wait for their tool")
    assert ground.trace_lines() == [], "nobody is paid before that"
    (line, _) = [line for line in cli("task", "list").out.splitlines() if " held " in line]
    assert "The check cannot run: `test -f src/all.txt && no-such-tool`" in line
    assert "Put 'no-such-tool' where the check looks for it" in line


def test_the_trial_of_a_check_does_not_miss_what_a_red_piece_was_to_make(file_ground, cli, tmp_path):
    ground = file_ground
    _open_batch(ground, cli, tmp_path, "sh build && out/made")
    ground.supervisor(agent="maker")
    ground.until(lambda: len(ground.trace_lines()) >= 2, "both parts have begun")
    assert ground.count("task.held") == 0


@pytest.mark.parametrize("place", ["shared", "clone"])
def test_a_client_that_cannot_be_started_holds_the_agent_and_costs_no_attempt(file_ground, place):
    """In a clone it is our own program inside the sandbox that finds no interpreter."""
    ground = file_ground
    program = os.path.join(ground.folder, "client")
    with open(program, "w", encoding="utf-8") as file:
        file.write("#!/nowhere/at/all\n")
    os.chmod(program, 0o755)
    ground.settings(f'agents = {{ broken = ["{program}"] }}\nback_off_seconds = 7200\n', place=place)
    ground.add("aa")
    ground.supervisor(agent="broken")
    ground.until(lambda: ground.count("agent.held"), "the agent is held")
    assert ground.tasks()["aa"].attempt == 1
    assert "the client does not run here" in _held(ground)["broken"].reason
    news = News(ground.app, project="another", batch=1)
    (said,), more = news.lines(), news.lines()
    assert (said.startswith("Agent broken on "), "does not run here" in said, more) == (True, True, [])
    ground.until(lambda: said in ground.logs(), "the supervisor says the same")
    host = ground.app.settings.host
    assert workers.is_served(ground.app, "demo", by="broken", on=host)
    assert not workers.is_served(ground.app, "demo", by="claude", on=host)
    assert not workers.is_served(ground.app, "demo", by="broken", on="another")


def _maker(ground):
    """An agent that makes a file where its part may, and leaves a trace."""
    program = os.path.join(ground.folder, "maker")
    with open(program, "w", encoding="utf-8") as file:
        file.write(
            "#!/bin/sh\nname=${HANDOFF_TASK##*/}\nmkdir -p src/$name\necho made > src/$name/made.txt\n"
            f"echo begin $HANDOFF_TASK >> {ground.traces}\n"
        )
    os.chmod(program, 0o755)
    return f'agents = {{ maker = ["{program}"] }}\nback_off_seconds = 7200\nsession_sandbox = "none"\n'


def _open_batch(ground, cli, tmp_path, check):
    path = manifest(tmp_path / "m.json", check=check)
    with open(path, encoding="utf-8") as file:
        value = json.load(file)
    for part in value["sub_tasks"]:
        part["check"] = check
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file)
    ground.settings(_maker(ground))
    cli("dump", "--open-batch", path)


def test_a_batch_whose_check_cannot_run_in_a_clone_is_held_before_anybody_is_paid(
    file_ground, cli, repo, tmp_path, monkeypatch
):
    ground = file_ground
    monkeypatch.setenv("HANDOFF_SANDBOX", "none")  # nothing would keep a check from writing what it is lent
    repo.write(".gitignore", ".venv\n")
    repo.git("add", ".gitignore")
    repo.git("commit", "-qm", "ignore")
    os.makedirs(os.path.join(repo.path, ".venv"))
    with open(os.path.join(repo.path, ".venv", "tool"), "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\ntouch .left-behind\ntest -d src\n")
    os.chmod(os.path.join(repo.path, ".venv", "tool"), 0o755)
    _open_batch(ground, cli, tmp_path, "cd . && .venv/tool")
    ground.supervisor(agent="maker")
    ground.until(lambda: ground.count("task.held") == 2, "both parts wait for their ground")
    assert ground.trace_lines() == []
    assert {task.attempt for task in ground.tasks().values()} == {1}
    (line, _) = [line for line in cli("task", "list").out.splitlines() if " held " in line]
    assert "put the line '.venv' into .worktreeinclude" in line
    repo.write(".worktreeinclude", ".venv\n")
    repo.write(".gitignore", ".venv\n.worktreeinclude\n.left-behind\n")
    repo.git("commit", "-qam", "ignore more")
    for part in ("form", "api"):
        cli("retry", part)
    ground.until(ground.done, "the batch is done")
    assert sorted(line.split("/")[-1] for line in ground.trace_lines()) == ["api", "begin login-join", "form"], (
        ground.story()
    )
    assert {task.attempt for task in ground.tasks().values()} == {1}


def test_a_check_whose_program_is_missing_holds_its_task_before_a_session(file_ground, cli, monkeypatch):
    ground = file_ground
    ground.settings("back_off_seconds = 7200\n")
    ground.add("aa", check_command="no-such-tool --all")
    ground.add("bb", check_command="./made-by-the-task", max_attempts=1)
    ground.supervisor()
    ground.until(lambda: ground.count("task.held") and ground.states()["bb"] == "blocked", "one is held, one was tried")
    assert (ground.started("aa"), ground.started("bb")) == (0, 1)
    assert "Put 'no-such-tool' where the check looks for it" in cli("show", "aa", *PROJECT).out
    monkeypatch.setenv("HANDOFF_PROJECT", "demo")
    assert "‖ " in cli().out


@pytest.mark.slow
def test_a_fan_in_whose_session_cannot_settle_the_conflict_asks_and_goes_on_after_the_persons_merge(
    file_ground, cli, repo, tmp_path
):
    ground = file_ground
    _open_batch(ground, cli, tmp_path, "test -d src")
    for part in ("form", "api"):
        cli("session", "start", part, "--agent", "maker")
    repo.write("src/form/made.txt", "by hand\n")
    repo.git("add", "src")
    repo.git("commit", "-qm", "by hand")
    ground.supervisor(agent="maker")
    ground.until(lambda: ground.tasks()["login-join"].state == "gated", "the fan-in asks")
    said = cli("gate", "show", "login-join").out
    assert "2 sessions could not settle the conflict" in said
    branch = cli("show", "login/form", "--json").json["evidence"]["branch"]
    assert f"git merge {branch}" in said
    repo.git("merge", "-q", "-X", "ours", "-m", "joined by hand", branch)
    cli("answer", "login-join", "yes")
    ground.until(ground.done, "the fan-in is done")
    assert repo.git("show", "HEAD:src/form/made.txt") == "by hand\n"
    assert repo.git("show", "HEAD:src/api/made.txt") == "made\n"


def test_everything_that_is_killed_at_once_costs_no_attempt_and_goes_on_at_once(file_ground):
    ground = file_ground
    ground.settings("back_off_seconds = 7200\n")
    once = "test -e {0} || {{ touch {0}; sleep 1000; }}"
    for name in ("aa", "bb"):
        ground.add(name, {"run": once.format(os.path.join(ground.folder, name))}, max_attempts=1)
    supervisor = ground.supervisor()
    ground.until(lambda: all(os.path.exists(os.path.join(ground.folder, name)) for name in ("aa", "bb")), "both work")
    supervisor.kill()
    supervisor.wait()
    while left := ground.agents():
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
    ground.supervisor()
    ground.until(ground.done, "both are done when the power is back")
    assert {(task.attempt, task.state) for task in ground.tasks().values()} == {(1, "done")}
    assert (ground.count("task.blocked"), ground.count("task.held")) == (0, 0)


def test_what_nobody_can_explain_is_held_longer_each_time_and_then_put_to_a_person(file_ground, cli):
    ground = file_ground
    ground.settings("back_off_seconds = 0.2\n")
    mark = os.path.join(ground.folder, "well")
    ground.add("aa", {"run": f"test -e {mark} || kill -9 $PPID"}, max_attempts=1)
    ground.supervisor()
    ground.until(lambda: ground.states()["aa"] == "gated", "a person is asked")
    assert (ground.tasks()["aa"].attempt, ground.started("aa"), ground.count("task.held")) == (1, 5, 3)
    said = cli("gate", "show", "aa", *PROJECT).out
    assert "5 sessions of 'aa' in a row ended, and not by the agent's fault" in said
    assert "killed from outside: the process was ended by signal 9" in said
    with open(mark, "w", encoding="ascii"):
        pass
    cli("answer", "aa", "yes", *PROJECT)
    ground.until(ground.done, "it goes on after the answer")
    assert ground.tasks()["aa"].attempt == 1


def test_a_limit_that_was_over_before_anybody_looked_holds_nobody(file_ground):
    ground = file_ground
    program, mark = os.path.join(ground.folder, "client"), os.path.join(ground.folder, "told")
    with open(program, "w", encoding="utf-8") as file:
        file.write(
            f"#!/bin/sh\ntest -e {mark} && exec echo done\ntouch {mark}\nsleep 1\necho 'rate limit: try again in 2 hours' >&2\nexit 1\n"
        )
    os.chmod(program, 0o755)
    ground.settings(f'agents = {{ slow = ["{program}"] }}\nback_off_seconds = 60\n')
    ground.add("aa")
    supervisor = ground.supervisor(agent="slow")
    ground.until(lambda: os.path.exists(mark), "it works")
    supervisor.kill()
    supervisor.wait()
    ground.until(lambda: not ground.agents(), "it has met its limit and nobody has looked")
    (session,) = {event.session for event in ground.events() if event.kind == "task.claimed"}
    path = os.path.join(ground.app.settings.home, "demo", "sessions", session, "exit.json")
    long_ago = ground.clock.now() - 3 * 3600
    os.utime(path, (long_ago, long_ago))
    ground.supervisor(agent="slow")
    ground.until(ground.done, "it is tried at once")
    assert (ground.tasks()["aa"].attempt, ground.count("agent.held")) == (1, 0)

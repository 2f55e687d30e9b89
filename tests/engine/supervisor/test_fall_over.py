"""Another agent goes on where one fails or is refused by its provider, and its baton says what was tried."""

from __future__ import annotations

import os

from handoff.board.tasks import tasks

PROJECT = ("--project", "demo")


def _agents(ground):
    """One that fails, one whose provider refuses it, and one that copies its baton and does the work."""
    bodies = {
        "broken": "echo half > half.txt; echo 'I cannot do this' >&2; exit 3",
        "logged-out": "echo 'API error 401: please log in' >&2; exit 1",
        "steady": f'cp "$1" {ground.folder}/baton; echo whole > whole.txt; echo done',
    }
    lines = []
    for name, body in bodies.items():
        program = os.path.join(ground.folder, name)
        with open(program, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\n{body}\n")
        os.chmod(program, 0o755)
        lines.append(f'{name} = ["{program}", "{{prompt_file}}"]')
    return 'back_off_seconds = 7200\nsession_sandbox = "none"\n[agents]\n' + "\n".join(lines) + "\n"


def test_the_next_agent_goes_on_with_the_work_and_reads_what_was_tried(file_ground, cli):
    ground = file_ground
    ground.settings(_agents(ground), place="clone")
    ground.add("aa", agent="broken,steady", max_attempts=2, check_command="test -s whole.txt")
    ground.supervisor(agent="broken,steady")
    ground.until(ground.done, "the second agent has done it")
    with open(os.path.join(ground.folder, "baton"), encoding="utf-8") as file:
        baton = file.read()
    assert "broken has used up its 2 attempts, steady goes on" in baton
    assert "This is attempt 1 of 3" not in baton
    assert "This is attempt 1 of 2" in baton
    assert "half.txt" in baton, "the work so far is there"
    shown = cli("show", "aa", *PROJECT).out
    assert "agent: steady, broken has used up its attempts" in shown
    assert ground.count("task.claimed") == 3


def test_an_agent_that_its_provider_refuses_gives_its_tasks_on_and_no_attempt_is_used(file_ground):
    ground = file_ground
    ground.settings(_agents(ground))
    for name in ("aa", "bb"):
        ground.add(name, agent="logged-out,steady")
    ground.add("alone", agent="logged-out")
    ground.supervisor(agent="logged-out,steady", limit=1, flows=0.3)

    def over():
        found = ground.tasks()
        return {found[name].state for name in ("aa", "bb")} == {"done"}

    ground.until(over, "the other agent has done both")
    assert {(task.agent, task.attempt) for task in ground.tasks().values() if task.state == "done"} == {("steady", 1)}
    assert ground.tasks()["alone"].state == "ready", "it waits for the one it is for"
    ground.until(lambda: "goes on with steady: logged-out is held" in ground.logs(), "it is told beside the supervisor")


def test_a_fault_of_the_environment_is_nobodys_to_mend_and_stays_where_it_is(file_ground):
    ground = file_ground
    ground.settings(_agents(ground))
    ground.add("aa", agent="steady,broken", check_command="no-such-tool --now")
    ground.supervisor(agent="steady,broken", flows=0.3)
    ground.until(lambda: ground.count("task.held"), "it waits for its environment")
    task = ground.tasks()["aa"]
    assert (task.agent, task.attempt, task.baseline_facts[tasks.AGENTS]) == ("steady", 1, ["steady", "broken"])


def test_project_batch_and_command_name_the_agents_in_their_order(cli, repo):
    repo.write(".handoff/config.toml", 'agents = ["claude", "codex"]\n')
    cli("task", "add", "by-project", "do it")
    assert "agent: claude, then codex" in cli("show", "by-project").out
    cli("task", "add", "by-command", "do it", "--agent", "codex,claude")
    assert "agent: codex, then claude" in cli("show", "by-command").out
    cli("task", "edit", "by-command", "--agent", "gemini")
    assert "agent: gemini\n" in cli("show", "by-command").out
    assert "no agent 'cluade'" in cli("task", "edit", "by-command", "--agent", "codex,cluade", code=1).err

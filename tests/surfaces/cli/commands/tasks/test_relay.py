"""Conversations of a person and a session with the relay, each word a real process."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest

from handoff.base.markdown import BATON_MARK
from relay import tree
from sandbox import Cli


def home() -> str:
    return os.environ["HANDOFF_HOME"]


def queue(project="repo"):
    return os.path.join(home(), project, "queue")


def read(*parts):
    with open(os.path.join(*parts), encoding="utf-8") as file:
        return file.read()


def dump(cli, task="form", *more, brief="Build the form.", **options):
    return cli("dump", "--task", task, "--next", brief, *more, **options)


def in_own_terminal(cli, *words):
    """A command that whoever runs these tests is not above, because that may be a client."""
    line = ["sh", "-c", '"$@" &', "sh", *cli.command(*words)]
    done = subprocess.run(line, cwd=cli.folder, capture_output=True, text=True, check=True, timeout=100)
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


def test_a_newcomer_writes_a_task_down_and_opens_it(cli):
    said = dump(cli)
    assert "Task form of project repo is ready." in said.out
    assert "handoff task open form" in said.out
    opened = cli("task", "open", "form")
    assert opened.out.startswith("Nothing was opened.")
    assert os.path.join(queue(), "form.md") in opened.out
    baton = read(queue(), "form.md")
    assert baton.startswith(f"{BATON_MARK}\n# Task `form` of project `repo`\n\n## Goal\nBuild the form.\n")
    assert re.search(r"HEAD was `[0-9a-f]{10}` on branch `main` when the task was written, 20", baton)
    lines = read(queue(), "form.uri").splitlines()
    assert lines[0] == f"WORKSPACE={cli.folder}"
    assert lines[1].startswith("URI=vscode://")
    assert len(lines) == 2


def test_the_project_is_the_checkout_also_from_a_folder_inside(cli, repo):
    repo.write("src/deep/a.py", "")
    dump(cli, cwd=os.path.join(repo.path, "src", "deep"))
    assert os.path.exists(os.path.join(queue("repo"), "form.md"))


def test_from_claim_to_done_nothing_but_the_verb_is_typed(cli):
    dump(cli)
    assert "fence 1" in cli("task", "claim").out
    assert not os.path.exists(os.path.join(queue(), "form.uri"))
    assert "yours" in cli("heartbeat").out
    assert cli("task", "done", "--summary", "it is in").out == "form is done.\n"
    assert os.path.exists(os.path.join(queue(), "form.done"))
    assert "summary: it is in" in read(queue(), "form.done")
    assert os.listdir(os.path.join(home(), "sessions")) == []


def test_the_commands_in_the_baton_work_as_they_stand_also_in_a_home_with_spaces(repo, tmp_path):
    place = str(tmp_path / "a home with 'quotes' and spaces")
    cli = Cli(repo.path, HANDOFF_HOME=place)
    dump(cli)
    cli("task", "claim")
    baton = read(place, "repo", "queue", "form.md")
    block = re.search(r"```sh\n(.*?)```", baton, re.DOTALL)[1]
    lines = [line for line in block.splitlines() if " block " not in line]
    shim = tmp_path / "bin" / "handoff"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m handoff.surfaces.cli.main "$@"\n')
    shim.chmod(0o755)
    environment = {**os.environ, "PATH": f"{shim.parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["sh", "-e", "-c", "\n".join(lines)], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "form is done." in done.stdout


def test_a_live_id_is_not_written_over(cli):
    dump(cli, brief="The first brief.")
    again = dump(cli, brief="Another brief.", code=4)
    assert "still ready" in again.err
    assert "The first brief." in read(queue(), "form.md")


def test_done_keeps_the_brief_and_frees_the_id(cli):
    dump(cli, brief="The first brief.")
    cli("dump", "--task", "form", "--next", "all fine", "--status", "done")
    assert "The first brief." in read(queue(), "form.md")
    assert "all fine" in read(queue(), "form.done")
    dump(cli, brief="A second life.")
    assert "A second life." in read(queue(), "form.md")
    assert not os.path.exists(os.path.join(queue(), "form.done"))
    assert os.path.exists(os.path.join(queue(), "form.uri"))


def test_a_task_nobody_wrote_down_can_be_reported_as_the_older_tool_allows(cli):
    cli("dump", "--task", "by-hand", "--next", "made by hand", "--status", "blocked", "--blocked-reason", "no key")
    paper = read(queue(), "by-hand.BLOCKED.md")
    assert paper.startswith("# BLOCKED: project `repo` / task `by-hand`")
    assert "no key" in paper
    assert not os.path.exists(os.path.join(queue(), "by-hand.uri"))


def test_an_old_fence_is_refused_and_told_who_holds_the_task(cli):
    dump(cli)
    first = cli("task", "claim", "--json").json
    cli("task", "release")
    second = cli("task", "claim", "--json").json
    late = cli("task", "done", "--session", first["session"], "--fence", str(first["fence"]), "--task", "form", code=4)
    assert second["session"] in late.err
    assert cli("heartbeat", "--session", first["session"], "--fence", "1", "--task", "form", code=4)
    assert "is done" in cli("task", "done", "--session", second["session"], "--fence", "2").out


def test_the_environment_names_the_session_and_options_win_over_it(cli, repo, tmp_path):
    dump(cli)
    claim = cli("task", "claim", "--json").json
    other = Cli(str(tmp_path), HANDOFF_SESSION=claim["session"], HANDOFF_FENCE="99")
    assert other("heartbeat", code=4)
    other("heartbeat", "--session", claim["session"], "--fence", str(claim["fence"]))
    right = Cli(str(tmp_path), HANDOFF_SESSION=claim["session"], HANDOFF_FENCE=str(claim["fence"]))
    assert "form is done" in right("task", "done").out


def test_two_claims_in_one_folder_must_be_told_apart(cli):
    dump(cli, "one-task")
    dump(cli, "two-task")
    cli("task", "claim", "one-task")
    cli("task", "claim", "two-task")
    unsure = cli("task", "done", code=1)
    assert "one-task" in unsure.err
    assert "two-task" in unsure.err
    cli("task", "done", "--task", "one-task")
    assert "two-task is done" in cli("task", "done").out


def test_a_claim_exports_what_a_shell_needs(cli):
    dump(cli)
    lines = cli("task", "claim", "--export").out.splitlines()
    assert [line.partition("=")[0] for line in lines] == [
        "export HANDOFF_TASK",
        "export HANDOFF_SESSION",
        "export HANDOFF_FENCE",
    ]


def test_nothing_to_take_is_said_with_the_reason(cli):
    assert "no task is ready" in cli("task", "claim", code=1).err


def test_limits_of_the_settings_are_kept(cli):
    os.makedirs(home())
    with open(os.path.join(home(), "config.toml"), "w", encoding="utf-8") as file:
        file.write("max_running_project = 1\n")
    dump(cli, "one-task")
    dump(cli, "two-task")
    cli("task", "claim", "one-task")
    assert "most for this project" in cli("task", "claim", "two-task", code=3).err


# --- done is derived -------------------------------------------------------------------------------------------


def test_a_red_check_keeps_the_task_and_shows_the_evidence(cli, repo):
    dump(cli, "form", "--check", "echo only 3 of 4 passed; test -f made.txt")
    cli("task", "claim")
    red = cli("task", "done", code=3)
    assert "only 3 of 4 passed" in red.err
    assert "red (exit 1)" in red.err
    assert cli("show", "form", "--json").json["state"] == "running"
    repo.write("made.txt", "")
    green = cli("task", "done", "--json").json
    assert green["evidence"]["check"]["green"] is True
    assert green["evidence"]["head"] == repo.head()
    kinds = [event["kind"] for event in cli("log", "form", "--json").json]
    assert "task.rejected" in kinds


def test_changes_outside_the_ownership_are_named_and_refused(cli, repo):
    dump(cli, "form", "--owns", "src/form/")
    cli("task", "claim")
    repo.write("src/form/a.py", "")
    repo.write("src/other/new.py", "")
    repo.write("README.md", "changed\n")
    refused = cli("task", "done", code=3)
    assert "src/other/new.py" in refused.err
    assert "README.md" in refused.err
    assert "src/form/a.py" not in refused.err
    repo.git("add", "-A")
    repo.git("commit", "-q", "-m", "hide it in a commit")
    assert "README.md" in cli("task", "done", code=3).err
    accepted = in_own_terminal(cli, "task", "done", "--accept-outside", "the person asked for it", "--json")
    assert accepted["state"] == "done"
    events = cli("log", "form", "--json").json
    (waived,) = [event for event in events if event["kind"] == "task.waived"]
    assert waived["body"]["reason"] == "the person asked for it"


def test_a_deletion_outside_the_ownership_is_seen(cli, repo):
    dump(cli, "form", "--owns", "src/")
    cli("task", "claim")
    os.unlink(os.path.join(repo.path, "README.md"))
    assert "README.md" in cli("task", "done", code=3).err


def test_what_was_lying_about_before_and_what_a_neighbour_owns_is_not_held_against_a_session(cli, repo):
    repo.write("notes/old.txt", "from before\n")
    dump(cli, "form", "--owns", "src/form/")
    dump(cli, "api", "--owns", "src/api/")
    cli("task", "claim", "form")
    repo.write("src/api/b.py", "")
    assert "form is done" in cli("task", "done", "--task", "form").out
    repo.write("notes/old.txt", "changed since\n")
    assert "notes/old.txt" in cli("task", "done", "--task", "api", code=3).err


def test_a_session_in_a_worktree_is_judged_where_it_worked(cli, repo, tmp_path):
    dump(cli, "form", "--owns", "src/", "--check", "test -f src/made.txt")
    tree = str(tmp_path / "tree")
    repo.git("worktree", "add", "-q", tree)
    repo.write("stray.txt", "in the main checkout, which is somebody else's\n")
    cli("task", "claim", cwd=tree)
    assert "red" in cli("task", "done", cwd=tree, code=3).err
    os.makedirs(os.path.join(tree, "src"))
    for name in ("src/made.txt", "other.txt"):
        with open(os.path.join(tree, name), "w", encoding="utf-8"):
            pass
    refused = cli("task", "done", cwd=tree, code=3).err
    assert "other.txt" in refused
    assert "stray.txt" not in refused
    os.unlink(os.path.join(tree, "other.txt"))
    assert "form is done" in cli("task", "done", cwd=tree).out


def test_the_given_tests_are_run_and_their_verdict_stands_in_the_baton(cli):
    dump(cli, "form", "--tests", "echo 2 failed; exit 1")
    baton = read(queue(), "form.md")
    assert "`echo 2 failed; exit 1` was red (exit 1)" in baton
    assert "2 failed" in baton


def test_a_task_waits_for_the_one_it_comes_after(cli):
    dump(cli, "first")
    assert "waits for first" in dump(cli, "second", "--after", "first").out
    assert "waits for first" in cli("task", "claim", "second", code=4).err
    assert not os.path.exists(os.path.join(queue(), "second.uri"))
    cli("task", "claim", "first")
    assert "Now ready: second" in cli("task", "done").out
    assert os.path.exists(os.path.join(queue(), "second.uri"))


# --- stop --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["STOP_AUTO", "done", "repo/STOP_AUTO"])
def test_a_stop_file_drops_neither_a_baton_nor_a_completion(cli, name):
    dump(cli, "held")
    cli("task", "claim")
    path = os.path.join(home(), name)
    with open(path, "w", encoding="utf-8"):
        pass
    said = dump(cli, "later")
    assert "is stopped" in said.err
    assert os.path.exists(os.path.join(queue(), "later.md"))
    assert "held is done" in cli("task", "done").out
    assert os.path.exists(os.path.join(queue(), "held.done"))
    assert path in cli("task", "claim", code=1).err
    assert "stopped" in cli("task", "claim", code=1).err
    os.unlink(path)
    assert "You hold later" in cli("task", "claim").out


def test_pause_and_resume_work_with_rows_and_files(cli):
    dump(cli)
    cli("pause", "--reason", "lunch")
    assert os.path.exists(os.path.join(home(), "repo", "STOP_AUTO"))
    assert "lunch" in cli("task", "claim", code=1).err
    assert "lunch" in cli("task", "list").out
    cli("resume")
    assert not os.path.exists(os.path.join(home(), "repo", "STOP_AUTO"))
    assert "was not stopped" in cli("resume").out
    cli("task", "claim")


# --- a person at the board ------------------------------------------------------------------------------------------


def test_block_retry_and_cancel(cli):
    dump(cli)
    cli("task", "claim")
    assert "handoff retry form" in cli("task", "block", "the key is missing").out
    assert "the key is missing" in read(queue(), "form.BLOCKED.md")
    cli("retry", "form")
    assert not os.path.exists(os.path.join(queue(), "form.BLOCKED.md"))
    cli("task", "claim")
    cli("cancel", "form", "--reason", "not needed")
    assert cli("task", "done", "--task", "form", code=4).err
    assert cli("task", "list").out.startswith("No live tasks")
    assert "cancelled" in cli("task", "list", "--all").out


def test_prune_is_a_dry_run_unless_told(cli):
    dump(cli)
    cli("task", "claim")
    cli("task", "done")
    before = tree(home())
    said = cli("prune", "--days", "0")
    assert "Would forget 1 task and" in said.out
    assert tree(home()) == before
    cli("prune", "--days", "0", "--execute")
    assert not os.path.exists(os.path.join(queue(), "form.md"))
    assert cli("task", "list", "--all", "--json").json["tasks"] == []
    assert "  done " in cli("log").out
    assert "Would put" in cli("prune", "--days", "0", "--journal").out
    assert "Read them there: handoff log --archive" in cli("prune", "--days", "0", "--journal", "--execute").out
    assert "  done " not in cli("log").out
    assert "  done " in cli("log", "--archive", "form").out
    assert cli("log", "--archive", "nothing").out == ""


def test_the_journal_can_be_followed(cli):
    follower = cli.start("log", "--follow", "--json")
    try:
        dump(cli)
        text = b""
        while b'"task.added"' not in text:
            chunk = os.read(follower.stdout.fileno(), 4096)
            assert chunk, follower.stderr.read()
            text += chunk
    finally:
        follower.kill()
        follower.communicate()


def test_files_that_were_lost_are_rebuilt_and_strangers_are_put_aside(cli):
    dump(cli)
    wanted = read(queue(), "form.md")
    os.unlink(os.path.join(queue(), "form.md"))
    with open(os.path.join(queue(), "ghost.md"), "w", encoding="utf-8") as file:
        file.write("from another time\n")
    cli("database", "files")
    assert read(queue(), "form.md") == wanted
    assert "repo/ghost" in cli("dump", "--cleanup-orphan").out
    assert os.path.exists(os.path.join(queue(), "ghost.md"))
    listing = cli("dump", "--cleanup-orphan", "--apply", "--json").json["recovery"]
    assert not os.path.exists(os.path.join(queue(), "ghost.md"))
    assert read(listing.removesuffix(".json"), "repo", "ghost.md") == "from another time\n"
    assert "No orphans." in cli("dump", "--cleanup-orphan").out


def test_a_marker_touched_by_hand_is_believed_as_far_as_the_check_goes(cli, repo):
    dump(cli, "plain")
    dump(cli, "checked", "--check", "test -f made.txt")
    for name in ("plain", "checked"):
        with open(os.path.join(queue(), f"{name}.done"), "w", encoding="utf-8"):
            pass
    report = cli("watchdog", "--json").json
    assert len(report["taken_in"]) == len(report["refused"]) == 1
    assert cli("show", "plain", "--json").json["state"] == "done"
    assert cli("show", "checked", "--json").json["state"] == "ready"
    assert cli("watchdog", "--json").json["refused"] == []


def test_every_answer_is_json_alone_when_asked(cli):
    dump(cli)
    for words in (
        ["task", "list"],
        ["show", "form"],
        ["log"],
        ["gate", "list"],
        ["watchdog"],
        ["task", "open", "form"],
        ["task", "claim"],
        ["heartbeat"],
        ["task", "block", "x"],
        ["retry", "form"],
        ["batch", "list"],
        ["gate"],
        ["project", "tidy"],
        ["pause"],
        ["resume"],
        ["prune"],
        ["database", "files"],
        ["dump", "--cleanup-orphan"],
        ["cancel", "form"],
        ["heartbeat", "calibration"],
    ):
        assert cli(*words, "--json").json is not None, words
    wrong = cli("show", "nobody", "--json", code=1)
    assert wrong.json["exit_code"] == 1


def test_a_task_is_taken_from_the_current_step_of_the_plan(cli, repo):
    cli("init", "shop-login")
    state = os.path.join(repo.path, ".handoff", "features", "shop-login", "STATE.md")
    with open(state, "w", encoding="utf-8") as file:
        file.write(
            "# Execution Plan\n- [x] Lay the table\n- [>] Build the form  (check: test -f form.txt)\n- [ ] Build the API\n"
        )
    said = cli("dump", "--from-step", "--json").json
    assert said["task"] == "shop-login-step-2"
    baton = read(queue(), "shop-login-step-2.md")
    assert baton.splitlines()[3:5] == ["## Goal", "Build the form"]
    assert "step 2 of 3 of feature `shop-login`" in baton
    assert "`test -f form.txt` ends with exit 0" in baton
    assert cli("dump", "--from-step", code=4)


def test_a_task_made_from_a_step_ticks_it_when_its_check_is_green(cli, repo):
    cli("init", "shop-login")
    cli("step", "add", "Build the form", "--check", "test -f form.txt")
    cli("step", "add", "Build the API")
    cli("task", "add", "--from-step")
    cli("task", "claim")
    cli("task", "done", code=3)
    assert cli("status", "--json").json["plan"]["done"] == 0, "red ticks nothing"
    repo.write("form.txt", "here\n")
    said = cli("task", "done").out
    assert "Step 1 of feature 'shop-login' is ticked; next is: Build the API." in said
    plan = cli("status", "--json").json["plan"]
    assert (plan["done"], plan["current"]["text"]) == (1, "Build the API")
    assert "(done: " in repo.read(".handoff/features/shop-login/STATE.md")

    cli("task", "add", "no-check", "--from-step")
    assert "step done --step 2 --unchecked" in read(queue(), "no-check.md")
    cli("task", "claim")
    cli("task", "done")
    assert cli("status", "--json").json["plan"]["done"] == 1, "nothing was checked, so nothing is ticked"


def test_a_step_that_is_gone_or_ticked_already_is_no_fault_of_the_task(cli, repo):
    cli("init", "shop-login")
    cli("step", "add", "Build the form", "--check", "test -f form.txt")
    cli("step", "add", "Build the API", "--check", "test -f api.txt")
    cli("task", "add", "first", "--from-step")
    repo.write("form.txt", "here\n")
    cli("task", "claim", "first")
    cli("step", "done")
    assert "is ticked" in cli("task", "done").out
    cli("task", "add", "second", "--from-step")
    repo.write("api.txt", "here\n")
    state = ".handoff/features/shop-login/STATE.md"
    repo.write(state, repo.read(state).replace("Build the API", "Build another API"))
    cli("task", "claim", "second")
    said = cli("task", "done")
    assert "second is done" in said.out
    assert "no longer has the step 'Build the API'" in said.err

"""Steps are finished on evidence; staleness shows; two processes do not lose each other's edits."""

from __future__ import annotations

import os
import subprocess
import time

import psutil

from handoff.agents.sandbox.sandbox import NOTHING, layer
from sandbox import absent
from workspaces import PLAN, put, ready


def test_red_changes_nothing_and_green_ticks_with_commit_and_time(cli, repo):
    base = ready(cli, repo)
    before = repo.read(f"{base}/STATE.md")
    refused = cli("step", "done", code=3)
    assert "The check is red (exit 1): test -f form.txt" in refused.err
    assert repo.read(f"{base}/STATE.md") == before
    put(repo.path, "form.txt", "")
    answer = cli("step", "done")
    assert "Now: 3. Limit the rate (R2)" in answer.out
    after = repo.read(f"{base}/STATE.md")
    assert f"- [x] Write the form  (check: test -f form.txt)  (done: {repo.head()[:10]}+changes 20" in after
    assert "- [>] Limit the rate (R2)" in after
    prompt = cli("continue", "--raw").out
    assert "red (exit 1)" in prompt
    assert "green" in prompt


def test_a_step_without_a_check_is_not_done_on_anybodys_word_unless_said(cli, repo):
    base = ready(cli, repo, state="# Execution Plan\n- [>] a\n")
    assert "has no check" in cli("step", "done", code=3).err
    cli("step", "done", "--unchecked")
    assert "unchecked)" in repo.read(f"{base}/STATE.md")


def test_the_default_check_of_the_config_proves_a_step(cli, repo):
    base = ready(cli, repo, state="# Execution Plan\n- [>] a\n")
    put(repo.path, ".handoff/config.toml", 'check = "false"\n')
    cli("step", "done", code=3)
    put(repo.path, ".handoff/config.toml", 'check = "test -d .git"\n')
    assert "The plan is complete." in cli("step", "done").out
    assert "[x] a" in repo.read(f"{base}/STATE.md")


def test_the_check_of_a_step_runs_inside_the_sandbox_unless_the_person_says_otherwise(cli, repo):
    if layer(os.environ) == NOTHING:
        absent("a sandbox")
    state = "# Execution Plan\n- [>] a  (check: sh tools/ci.sh)\n- [ ] b  (check: sh tools/ci.sh)\n"
    ready(cli, repo, state=state)
    left = os.path.join(os.environ["HOME"], "left-by-check")
    repo.write("tools/ci.sh", f"echo mine > {left}; test -f form.txt\n")
    repo.write("form.txt", "")
    assert "Step 1 is done" in cli("step", "done").out
    assert not os.path.exists(left)
    repo.write("form.txt", "more\n")
    assert "Step 2 is done" in cli("step", "done", "--no-sandbox").out
    assert os.path.exists(left)


def test_the_check_of_a_plan_in_a_folder_of_the_repository_runs_in_that_folder(cli, repo):
    repo.write("part/form.txt", "")
    ready(cli, repo, state="# Execution Plan\n- [>] a  (check: test -f form.txt)\n")
    part = os.path.join(repo.path, "part")
    os.rename(os.path.join(repo.path, ".handoff"), os.path.join(part, ".handoff"))
    assert "Step 1 is done" in cli("step", "done", cwd=part).out


def test_a_check_that_cannot_fail_or_was_green_before_ticks_nothing_in_silence(cli, repo):
    base = ready(cli, repo, state="# Execution Plan\n- [>] a  (check: python3 -c 'assert True')\n- [ ] b\n- [ ] c\n")
    before = repo.read(f"{base}/STATE.md")
    assert "can never fail" in cli("step", "done", code=3).err
    repo.write("check.py", "# of course\nassert 1 == 1\n")
    refused = cli("step", "done", "--check", "python3 check.py", code=3).err
    assert "check.py, which asserts nothing" in refused
    assert "--unchecked" in refused
    assert repo.read(f"{base}/STATE.md") == before
    cli("step", "done", "--check", "test -f check.py")
    refused = cli("step", "done", "--check", "test -f check.py", code=3).err
    assert "Nothing has changed since this check was green for another step ('a')" in refused
    repo.write("more.py", "work = 1\n")
    done = cli("step", "done", "--check", "test -f check.py")
    assert "green before this step too" in done.err
    assert "(green before this step too))" in repo.read(f"{base}/STATE.md")
    cli("step", "done", "--unchecked")
    assert "complete" in cli("status", "--json").json["plan"]["verdict"]


def test_a_check_that_never_ends_is_ended_with_what_it_started(cli, repo):
    seconds = f"300.{os.getpid()}"  # by which it is known again: inside the sandbox it has another number
    ready(cli, repo, state=f"# Execution Plan\n- [>] a  (check: sleep {seconds} & wait)\n")
    put(repo.path, ".handoff/config.toml", "check_timeout = 5\n")
    assert "no answer within" in cli("step", "done", code=3).err
    deadline = time.monotonic() + 60
    while [one for one in psutil.process_iter(["cmdline"]) if seconds in (one.info["cmdline"] or ())]:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_block_drop_add_and_start_edit_one_line_each(cli, repo):
    base = ready(cli, repo)
    cli("step", "block", "no key yet")
    assert "- [!] Write the form  (check: test -f form.txt)  (blocked: no key yet)" in repo.read(f"{base}/STATE.md")
    cli("step", "drop", "not needed", "--step", "3")
    status = cli("status", "--json").json
    assert status["plan"]["verdict"] == "blocked"
    assert status["next"]["command"] == "handoff step start 2"
    assert "Step 2 waits: no key yet. When that" in status["next"]["focus"]
    refused = cli("continue", code=3)
    assert "step 2: no key yet" in refused.err
    cli("step", "start", "2")
    cli("step", "add", "Write the docs", "--check", "true")
    assert "- [ ] Write the docs  (check: true)\n" in repo.read(f"{base}/STATE.md")
    assert cli("status", "--json").json["plan"]["current"]["number"] == 2
    cli("step", "start", "9", code=1)
    cli("step", "done", "--step", "1", code=4)


def test_step_alone_and_step_list_show_the_plan_and_status_names_what_is_blocked(cli, repo):
    assert "handoff init NAME" in cli("step").out
    ready(cli, repo)
    cli("step", "block", "no key yet")
    for words in (["step"], ["step", "list"]):
        assert cli(*words).out == (
            "  1. [x] Set up src/login.py\n"
            "  2. [!] Write the form  (check: test -f form.txt)  (blocked: no key yet)\n"
            "  3. [>] Limit the rate (R2)\n"
        )
    shown = cli("step", "list", "--json").json
    assert (shown["feature"], shown["verdict"]) == ("login", "valid")
    assert [step["mark"] for step in shown["steps"]] == ["x", "!", ">"]
    assert "  Blocked: 2. Write the form (no key yet)\n" in cli("status").out
    put(repo.path, ".handoff/current/STATE.md", "# Execution Plan\nNot yet generated.\n")
    assert "handoff step add TEXT" in cli("step").out
    put(repo.path, ".handoff/current/STATE.md", "# Execution Plan\n+ [ ] a\n")
    assert "STATE.md:2" in cli("step", code=1).err


def test_an_invalid_plan_is_not_edited_and_the_line_is_named(cli, repo):
    base = ready(cli, repo, state=PLAN.replace("- [ ] Limit", "+ [ ] Limit"))
    before = repo.read(f"{base}/STATE.md")
    for words in (["done"], ["block", "x"], ["add", "x"], ["drop", "x"]):
        assert "9" in cli("step", *words, code=None).err
        assert repo.read(f"{base}/STATE.md") == before
    answer = cli("validate", code=1)
    assert "STATE.md:9:" in answer.out


def test_validate_says_yes_or_no_by_its_exit_code(cli, repo):
    base = ready(cli, repo)
    assert cli("validate").out.startswith("Execution plan: valid\n")
    put(repo.path, f"{base}/STATE.md", "# Execution Plan\n- [x] a\n")
    assert cli("validate").out.startswith("Execution plan: complete\n")
    put(repo.path, f"{base}/STATE.md", "# Execution Plan\nNot yet generated.\n")
    assert "Execution plan not initialized. Run `handoff generate` first." in cli("validate", code=1).err


def test_status_tells_what_changed_since_the_hand_off_until_it_is_accepted(cli, repo):
    base = ready(cli, repo, state=PLAN)
    cli("ignore")
    cli("continue", "--raw")
    put(repo.path, "src/login.py", "x = 1\n")
    repo.commit("change it")
    drift = cli("status", "--json").json["drift"]
    assert drift == [
        "1 commit since the last hand-off.",
        "Files named in the plan changed since then: src/login.py.",
        "SESSION.md was not updated since; the notes are older than the code.",
    ]
    assert "change it" in cli("continue", "--raw").out
    put(repo.path, "other.py", "")
    repo.commit("more")
    cli("accept")
    assert cli("status", "--json").json["drift"] == []
    put(repo.path, f"{base}/STATE.md", PLAN.replace("[x]", "[ ]"))
    assert "1 more finished steps" in cli("status", "--json").json["drift"][0]


def test_a_hand_off_at_a_commit_that_is_gone_is_said(cli, repo):
    ready(cli, repo)
    cli("ignore")
    put(repo.path, "a", "1")
    repo.commit("to be lost")
    cli("continue", "--raw")
    repo.git("reset", "-q", "--hard", "HEAD~1")
    repo.git("reflog", "expire", "--expire=now", "--all")
    repo.git("gc", "-q", "--prune=now")
    assert "no longer in this history" in cli("status", "--json").json["drift"][0]


def test_notes_and_decisions_are_appended_and_keep_what_was_there(cli, repo):
    base = ready(cli, repo)
    before = repo.read(f"{base}/SESSION.md")
    cli("note", "mind the gap")
    cli("note", "two\nlines")
    after = repo.read(f"{base}/SESSION.md")
    assert after.startswith(before)
    assert after.count("## Notes") == 1
    assert ": two\n  lines\n" in after
    cli("decide", "use it", "--because", "it is there")
    cli("decide", "use that", "--because", "it is better")
    assert repo.read(f"{base}/DECISIONS.md").count("Because: ") == 2
    cli("decide", "no reason", code=2)
    cli("note", "  ", code=1)


def test_many_processes_editing_one_feature_lose_nothing(cli, repo):
    base = ready(cli, repo, state="# Execution Plan\n- [>] a\n")
    children = [cli.start("note", f"note-{n}-end") for n in range(8)]
    children += [cli.start("step", "add", f"step-{n}-end") for n in range(8)]
    children += [cli.start("decide", f"choice-{n}-end", "--because", "x") for n in range(4)]
    for child in children:
        _, err = child.communicate(timeout=90)
        assert child.returncode == 0, err
    session, state = repo.read(f"{base}/SESSION.md"), repo.read(f"{base}/STATE.md")
    assert all(f"note-{n}-end" in session for n in range(8))
    assert all(f"- [ ] step-{n}-end" in state for n in range(8))
    assert repo.read(f"{base}/DECISIONS.md").count("choice-") == 4


def test_follow_survives_a_half_written_file_and_ends_when_the_plan_is_complete(cli, repo):
    base = ready(cli, repo)
    child = cli.start("status", "--follow", stderr=subprocess.STDOUT)
    seen = b""
    while b"1/3" not in seen:
        seen += child.stdout.read1(4096)
    put(repo.path, f"{base}/STATE.md", "")
    while b"STATE.md line 1" not in seen:
        seen += child.stdout.read1(4096)
    os.unlink(f"{repo.path}/{base}/STATE.md")
    time.sleep(1.5)  # longer than it waits for an event: it has looked, and found nothing
    put(repo.path, f"{base}/STATE.md", "# Execution Plan\n- [x] a\n- [>] 漢字の手順\n")
    while "漢字の手順".encode() not in seen:
        seen += child.stdout.read1(4096)
    put(repo.path, f"{base}/STATE.md", "# Execution Plan\n- [x] a\n- [x] b\n")
    rest, _ = child.communicate(timeout=60)
    assert child.returncode == 0
    assert b"complete" in rest


def test_json_stands_alone_on_standard_output(cli, repo):
    ready(cli, repo)
    for words in (
        ["status"],
        ["next"],
        ["validate"],
        ["list"],
        ["continue"],
        ["run"],
        ["version"],
        ["accept"],
        ["export", "--diff"],
    ):
        assert cli(*words, "--json").json is not None
    assert cli("switch", "nope", "--json", code=1).json["exit_code"] == 1


def test_what_only_concerns_this_machine_is_not_committed_with_the_documents(cli, repo):
    ready(cli, repo)
    cli("continue", "--raw")
    repo.commit("with the documents")
    cli("accept")
    cli("note", "more")
    assert repo.git("status", "--porcelain").split() == ["M", ".handoff/features/login/SESSION.md"]

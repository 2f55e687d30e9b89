"""The prompt carries the state, within its budget."""

from __future__ import annotations

import os

import pytest

from handoff.base.markdown import BATON_MARK
from handoff.feature.baton import estimate
from workspaces import PLAN, put, ready


def test_continue_tells_goal_plan_notes_git_and_what_to_write_back(cli, repo):
    base = ready(cli, repo)
    cli("ignore")
    put(repo.path, "half.py", "x = 1\n")
    prompt = cli("continue", "--raw").out
    for text in (
        "People can log in.", "2. [>] Write the form  (check: test -f form.txt)   <- current", "The skeleton.",
        f"HEAD {repo.head()[:10]} on main", "untracked: half.py", "Last commits", "Before you stop", f"`{base}/STATE.md`",
    ):  # fmt: skip
        assert text in prompt


def test_an_assistant_without_files_gets_spec_and_design_and_decisions(cli, repo):
    base = ready(cli, repo)
    put(repo.path, f"{base}/SPEC.md", "# Spec\n\n## Functional Requirements\nR2. At most five tries a minute.\n")
    put(repo.path, f"{base}/DESIGN.md", "# Design\n\n## Proposed Changes\nA token bucket.\n")
    cli("decide", "use a bucket", "--because", "it is fair")
    prompt = cli("continue", "--raw").out
    assert "At most five tries a minute." in prompt
    assert "A token bucket." in prompt
    assert "use a bucket" in prompt
    assert "Because: it is fair" in prompt
    short = cli("continue", "--raw", "--no-embed").out
    assert "token bucket" not in short
    assert f"`{base}/SPEC.md`" in short


@pytest.mark.parametrize("budget", [1200, 2000, 4000, 8000])
def test_the_budget_holds_and_what_does_not_fit_is_named_with_its_path(cli, repo, budget):
    base = ready(cli, repo, state=PLAN + "".join(f"- [ ] later {n}\n" for n in range(0)))
    filler = "".join(f"## Part {n}\n{'words and more words ' * 40}\n\n" for n in range(80))
    put(repo.path, f"{base}/SPEC.md", f"# Spec\n\n{filler}## Rate limit\nLimit the rate: R2 is about the rate.\n")
    put(repo.path, f"{base}/SESSION.md", "# Session\n\n## What Was Implemented\n" + "long note " * 4000)
    put(repo.path, f"{base}/FEATURE.md", "# Feature\n\n## Goal\nPeople can log in.\n" + "detail " * 9000)
    prompt = cli("continue", "--raw", "--budget", str(budget)).out
    assert estimate(prompt) <= budget
    assert "People can log in." in prompt
    assert "2. [>] Write the form" in prompt
    assert f"all of it is in `{base}/SPEC.md`" in prompt
    assert f"all of it is in `{base}/SESSION.md`" in prompt


def test_the_part_of_the_spec_about_the_current_step_is_chosen(cli, repo):
    base = ready(cli, repo, state=PLAN.replace("[>]", "[x]").replace("- [ ] Limit", "- [>] Limit"))
    filler = "".join(f"## Part {n}\n{'words and more words ' * 60}\n\n" for n in range(60))
    put(repo.path, f"{base}/SPEC.md", f"# Spec\n\n{filler}## Rate\nR2: limit the rate to five.\n")
    prompt = cli("continue", "--raw", "--budget", "3000").out
    assert "R2: limit the rate to five." in prompt


def test_a_plan_of_thousands_of_steps_is_shown_around_the_current_one(cli, repo):
    steps = "".join(f"- [{'x' if n < 2500 else ' '}] step {n}\n" for n in range(5000))
    ready(cli, repo, state=f"# Execution Plan\n{steps}")
    prompt = cli("continue", "--raw", "--budget", "3000").out
    assert "2501. [ ] step 2500   <- current" in prompt
    assert estimate(prompt) <= 3000
    assert "more steps after" in prompt


def test_run_chooses_the_prompt_by_where_the_feature_stands(cli, repo):
    cli("init", "login")
    refused = cli("run", code=1)
    assert "FEATURE.md still contains scaffold content" in refused.err
    put(repo.path, ".handoff/current/FEATURE.md", "# Feature\n\n## Goal\nPeople can log in.\n")
    assert cli("run", "--json").json["kind"] == "generate"
    assert "- uncommitted: 1 path\n- untracked: .handoff/" in cli("run").out
    put(repo.path, ".handoff/current/STATE.md", "# Execution Plan\n- [>] a\n- [ ] b\n")
    assert cli("run", "--json").json["kind"] == "start"
    put(repo.path, ".handoff/current/STATE.md", "# Execution Plan\n- [x] a\n- [>] b\n")
    assert cli("run", "--json").json["kind"] == "continue"
    put(repo.path, ".handoff/current/STATE.md", "# Execution Plan\n- [x] a\n- [x] b\n")
    assert cli("run", code=1).err.startswith("Error: No remaining steps to continue.")


def test_guards_keep_their_sentences_and_name_a_command_that_works(cli, repo):
    ready(cli, repo, state="# Execution Plan\nNot yet generated.\n")
    assert "Execution plan not initialized. Run `handoff start` first." in cli("continue", code=1).err
    cli("start", "--raw")
    put(repo.path, ".handoff/current/STATE.md", "# Execution Plan\n- [>] a\n- [>] b\n")
    error = cli("run", code=1).err
    assert error.startswith("Error: Invalid execution plan: multiple current steps ([>]) found.")
    assert "STATE.md:3:" in error


def test_a_misread_plan_never_leads_to_a_prompt_that_would_rewrite_progress(cli, repo):
    ready(cli, repo)
    cli("continue", "--raw")
    for text in (
        "",
        "## Execution Plan\n- [x] a\n- [ ] b\n",
        "# Plan\n- [x] a\n",
        "# Execution Plan\n",
        "# Execution Plan\nNot yet generated.\n",
    ):
        put(repo.path, ".handoff/current/STATE.md", text)
        assert cli("run", code=None).code in (1, 3)
        assert cli("status", "--json").json["status"] != "execution complete"


def test_printing_the_same_prompt_twice_is_one_hand_off(cli, repo):
    base = ready(cli, repo)
    first = cli("continue", "--raw").out
    assert cli("continue", "--raw").out == first
    assert repo.read(f"{base}/history.jsonl").count("\n") == 1
    cli("prompt", "continue")
    cli("continue", "--no-record", "--raw")
    assert repo.read(f"{base}/history.jsonl").count("\n") == 1


def test_raw_prints_the_prompt_alone_and_copying_is_never_claimed_falsely(cli, repo):
    ready(cli, repo)
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "TMUX"):
        cli.environment[name] = ""
    cli.environment["TERM"] = "dumb"
    answer = cli("continue", "--raw", "--copy")
    assert answer.out.startswith(f"{BATON_MARK}\n# Continue ")
    assert "was not copied" in answer.err
    assert "Copied" not in answer.out + answer.err


def test_a_native_clipboard_gets_exactly_the_prompt(cli, repo, tmp_path):
    ready(cli, repo)
    tool = tmp_path / "bin" / "xclip"
    tool.parent.mkdir()
    tool.write_text(f"#!/bin/sh\ncat > {tmp_path}/clip\n")
    tool.chmod(0o755)
    cli.environment.update(PATH=f"{tool.parent}:{os.environ['PATH']}", DISPLAY=":7", WAYLAND_DISPLAY="")
    answer = cli("continue", "--raw", "--copy")
    assert "Copied prompt to clipboard (xclip)." in answer.err
    assert (tmp_path / "clip").read_text() == answer.out


def test_secrets_do_not_leave_in_a_prompt(cli, repo):
    base = ready(cli, repo)
    key = "sk-" + "a1B2" * 10
    put(
        repo.path,
        f"{base}/SESSION.md",
        f"# Session\n\n## What Was Implemented\nUsed {key} and postgres://bob:hunter2@db/x\n",
    )
    answer = cli("continue", "--raw")
    assert key not in answer.out
    assert "hunter2" not in answer.out
    assert "2 value(s)" in answer.err


def test_prompt_needs_no_workspace_and_no_plan(cli, repo):
    for kind in ("generate", "start", "spec", "design", "tasks", "continue", "context"):
        assert cli("prompt", kind, "--raw").out.startswith(f"{BATON_MARK}\n# ")
    assert not os.path.exists(f"{repo.path}/.handoff")


def test_every_planning_prompt_works_on_a_fresh_feature(cli, repo):
    cli("init", "login")
    for kind in ("generate", "spec", "design", "tasks"):
        assert "{{" not in cli(kind, "--raw").out


def test_an_override_is_used_and_an_empty_one_is_said(cli, repo):
    ready(cli, repo)
    path = ".handoff/templates/default_continue_prompt.md"
    put(repo.path, path, "Mine for {{feature_name}}\n")
    prompt = cli("continue", "--raw").out
    assert prompt.startswith(f"{BATON_MARK}\nMine for login")
    assert "People can log in." in prompt
    put(repo.path, path, "")
    answer = cli("continue", "--raw")
    assert "is empty. The packaged one is used." in answer.err
    assert answer.out.startswith(f"{BATON_MARK}\n# Continue")


def test_context_files_of_the_config_are_quoted(cli, repo):
    ready(cli, repo)
    put(repo.path, "docs/rules.md", "Always use tabs.\n")
    put(repo.path, ".handoff/config.toml", 'context_files = ["docs/rules.md"]\n')
    assert "Always use tabs." in cli("continue", "--raw").out
    put(repo.path, ".handoff/config.toml", 'context_files = ["docs/none.md"]\n')
    assert "docs/none.md" in cli("continue", code=1).err


def test_context_files_outside_the_repository_are_never_quoted(cli, repo, tmp_path):
    ready(cli, repo)
    put(str(tmp_path), "private/id", "the person's key\n")
    os.symlink(tmp_path / "private", os.path.join(repo.path, "docs"))
    for name in ("../private/id", str(tmp_path / "private" / "id"), "docs/id"):
        put(repo.path, ".handoff/config.toml", f'context_files = ["{name}"]\n')
        answer = cli("continue", "--raw", code=1)
        assert "the person's key" not in answer.out
        assert f"context_files names '{name}', which is not in the repository" in answer.err


def test_tasks_is_the_planning_prompt_and_with_list_the_relays_tasks(cli, repo):
    ready(cli, repo)
    assert cli("tasks", "--raw").out.startswith(f"{BATON_MARK}\n# Write the plan")
    cli("dump", "--task", "fix-it", "--next", "Fix it.")
    for words in (["--list"], ["--state", "ready"], ["--all"]):
        assert "fix-it  ready" in cli("tasks", *words).out
    assert "fix-it" not in cli("tasks", "--state", "done").out

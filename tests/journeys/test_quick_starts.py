"""Whoever follows the quick start of an older tool arrives, command by command, with what that tool promises."""

from __future__ import annotations

import os
from urllib.parse import unquote

from handoff.base.markdown import BATON_MARK
from sandbox import Cli, Repo
from workspaces import put

GOAL = "# Feature: my-feature\n\n## Goal\nVisitors can sort the list by price.\n"
STATE = """# State

# Current Step
Not started

# Execution Plan
- [>] Sort in src/list.py  (check: test -f sorted.txt)
- [ ] Add the arrow  (check: test -f arrow.txt)

# Completed Steps
None

# Remaining Steps
Unknown
"""


def _clipboard(cli, tmp_path):
    """A clipboard program that keeps what it was given."""
    tool = tmp_path / "bin" / "xclip"
    tool.parent.mkdir()
    tool.write_text(f"#!/bin/sh\ncat > {tmp_path}/clip\n")
    tool.chmod(0o755)
    cli.environment.update(PATH=f"{tool.parent}:{os.environ['PATH']}", DISPLAY=":7", WAYLAND_DISPLAY="", TMUX="")
    return (tmp_path / "clip").read_text


def test_the_quick_start_of_the_rust_tool(cli, repo, tmp_path):
    copied = _clipboard(cli, tmp_path)
    cli("init", "my-feature")
    assert os.readlink(f"{repo.path}/.handoff/current") == "features/my-feature"
    assert "scaffold content" in cli("start", "--copy", code=1).err  # nobody has said yet what is wanted
    put(repo.path, ".handoff/current/FEATURE.md", GOAL)

    cli("start", "--copy")
    prompt = copied()
    for words in (
        "Nothing is planned yet.", "Visitors can sort the list by price.", "### Part one: make what is missing",
        "Write `.handoff/features/my-feature/SPEC.md`", "Write `.handoff/features/my-feature/DESIGN.md`", "Execution Plan",
        "### Part two: carry the plan out", "handoff step done",
    ):  # fmt: skip
        assert words in prompt
    assert "Run `handoff start` first." in cli("continue", code=1).err

    for name in ("SPEC.md", "DESIGN.md", "STATE.md", "SESSION.md"):
        os.unlink(f"{repo.path}/.handoff/current/{name}")
    prompt = cli("start", "--raw").out
    assert (
        "below the heading `# Execution Plan`: small steps" in prompt
    )  # there is nothing in whose place it could stand
    assert "Write `.handoff/features/my-feature/SPEC.md`" in prompt
    assert "Write `.handoff/features/my-feature/SPEC.md`" in cli("prompt", "start", "--raw").out

    cli("init", "my-feature")  # brings the missing documents back
    for words, title in (
        (("spec", "--copy"), "SPEC.md"),
        (("design", "--copy"), "DESIGN.md"),
        (("tasks", "--copy"), "STATE.md"),
    ):
        cli(*words)
        assert title in copied()
    put(repo.path, ".handoff/current/SPEC.md", "# Spec\n\n## Functional Requirements\nR1. By price.\n")
    prompt = cli("start", "--raw").out
    assert "The spec is written, the plan is not." in prompt
    assert "SPEC.md is there: it is the truth" in prompt
    assert "Write `.handoff/features/my-feature/SPEC.md`" not in prompt

    put(repo.path, ".handoff/current/STATE.md", STATE)
    assert "The plan is made." in cli("start", "--raw").out
    assert "The plan is made." in cli("prompt", "start", "--raw").out
    put(repo.path, "sorted.txt", "")
    cli("step", "done")
    state = repo.read(".handoff/current/STATE.md")
    assert "# Current Step\nAdd the arrow\n" in state
    assert "# Completed Steps\n- Sort in src/list.py\n\n# Remaining Steps\n- Add the arrow\n" in state

    cli("continue", "--copy")
    assert "2. [>] Add the arrow" in copied()
    assert "Add the arrow" in cli("status").out
    put(repo.path, "arrow.txt", "")
    cli("step", "done")
    state = repo.read(".handoff/current/STATE.md")
    assert "# Current Step\nAll steps are done\n" in state
    assert state.endswith("- Add the arrow\n\n# Remaining Steps\nNone\n")
    cli("archive", "my-feature")
    assert not os.path.lexists(f"{repo.path}/.handoff/current")


def test_the_quick_start_of_handoff_fanout(tmp_path):
    repo = Repo.create(str(tmp_path / "Projects" / "my-repo"))
    repo.write("tests/test_discount.py", "def test_discount(): assert True\n")
    tool = tmp_path / "bin" / "code"
    tool.parent.mkdir()
    tool.write_text(f'#!/bin/sh\nprintf "%s\\n" "$2" >> {tmp_path}/opened\n')
    tool.chmod(0o755)
    home = os.environ["HANDOFF_HOME"]
    cli = Cli(
        repo.path, PATH=f"{tool.parent}:{os.environ['PATH']}", TERM_PROGRAM="vscode", TMUX="", HANDOFF_NO_PBCOPY="1"
    )
    # What it can set up depends on the system; that tabs open is written down.
    cli("setup", "service", "install", "--auto-open", code=None)
    cli(
        "dump", "--task", "fix-bug-123", "--next", "Fix the off-by-one in the discount calculation.", "--status", "active",
        "--tests", "tests/test_discount.py",
    )  # fmt: skip
    document = os.path.join(home, "my-repo", "queue", "fix-bug-123.md")
    with open(document, encoding="utf-8") as file:
        assert "Fix the off-by-one in the discount calculation." in file.read()
    cli("watchdog")
    cli("watchdog")
    folder, chat = (tmp_path / "opened").read_text().splitlines()
    assert folder == f"vscode://file{repo.path}/"
    assert document in unquote(chat)
    for words, code in ((("heartbeat", "calibration", "my-repo"), 0), (("git-guard", "status"), 0), (("prune",), 0)):
        cli(*words, code=code)
    repo.write("src/discount.py", "rate = 2\n")
    cli("safe-commit", "-m", "Fix the discount", "--", "src/discount.py")
    cli("dump", "--task", "fix-bug-123", "--next", "It is fixed.", "--status", "done")
    assert os.path.exists(document.removesuffix(".md") + ".done")


def test_force_says_what_it_did_and_a_word_of_ones_own_stays(cli, repo):
    cli("init", "one")
    said = cli("init", "two", "--force").out
    assert "Initialized feature: two" in said
    assert "Active feature: two (before: one; back: handoff switch one)" in said
    said = cli("init", "one", "--force").out
    assert "'one' is there already; its files stay as they are." in said
    assert "Active feature: one (before: two" in said
    assert "nothing was changed" in cli("init", "one", "--force").out

    put(
        repo.path, ".handoff/templates/default_spec_prompt.md", "For {{team}} about {{feature_name}}\n{{feature_nam}}\n"
    )
    answer = cli("spec", "--raw")
    assert answer.out.startswith(f"{BATON_MARK}\nFor {{{{team}}}} about one\n{{{{feature_nam}}}}\n")
    assert "default_spec_prompt.md:1: unknown placeholder '{{team}}'. It stays as it is." in answer.err
    assert (
        "default_spec_prompt.md:2: unknown placeholder '{{feature_nam}}'. Did you mean '{{feature_name}}'?"
        in answer.err
    )
    assert answer.err.count("{{team}}") == 1

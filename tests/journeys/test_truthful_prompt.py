"""What the next session is told is all there is, and true: the feature's prompt, and a task's baton."""

from __future__ import annotations

import os

from workspaces import put, ready

FEATURE = """# Login

Only for staff.

# Goal
People can log in.

## Why
They cannot now.

# Acceptance
- A wrong word is refused.

# Rollout
## First week
Ten percent.

## Requirements
- What must it do? One line each, testable.
- Links live one hour.

## Context
Found in this repository:
- README.md

Ask Ada about mail.
"""


def test_continue_carries_every_section_and_says_what_is_true_of_the_files_now(cli, repo):
    base = ready(cli, repo)
    put(repo.path, f"{base}/FEATURE.md", FEATURE)
    state = f"{base}/STATE.md"
    put(repo.path, state, repo.read(state) + "\n# Known Issues\nThe mail server is slow.\n\n# Drift Warnings\nNone\n")
    repo.write("form.txt", "one\n")
    repo.write("note.txt", "kept\n")
    repo.commit("a form")
    repo.write("form.txt", "one\ntwo\n")
    repo.write("new.txt", "a\nb\nc\n")
    repo.write("odd\n- name.txt", "")
    cli("step", "done", "--check", "test -f new.txt")
    prompt = cli("continue", "--raw").out
    for words in (
        "Only for staff.", "People can log in.", "They cannot now.", "### Acceptance\n- A wrong word", "### Rollout",
        "### First week\nTen percent.", "Links live one hour.", "Ask Ada about mail.", "The mail server is slow.",
    ):  # fmt: skip
        assert prompt.count(words) == 1, words
    assert "One line each, testable" not in prompt
    assert "- README.md" not in prompt
    assert "changed, not staged: form.txt (+1 -0)" in prompt
    assert "untracked: new.txt (+3)" in prompt
    assert "untracked: odd\\n- name.txt" in prompt
    assert "no file changed since" in prompt

    assert "green on tree " in prompt
    repo.git("add", "form.txt", "new.txt")
    repo.git("commit", "-q", "-m", "the same files, committed")
    assert "no file changed since" in cli("continue", "--raw").out
    repo.write("form.txt", "one\ntwo\nthree\n")
    assert "CHANGED since, so it says nothing about the files now: form.txt" in cli("continue", "--raw").out
    repo.commit("more")
    assert "CHANGED since, so it says nothing about the files now: form.txt" in cli("continue", "--raw").out
    assert not [name for name in os.listdir(os.path.join(repo.path, ".git")) if name.startswith("handoff-check")]


def test_what_does_not_fit_is_named_section_by_section(cli, repo):
    base = ready(cli, repo)
    long = "".join(f"\n## Part {number}\n" + "A sentence about it. " * 60 + "\n" for number in range(30))
    put(repo.path, f"{base}/FEATURE.md", f"# Goal\nPeople can log in.\n{long}")
    prompt = cli("continue", "--raw", "--budget", "3000").out
    assert "sections of .handoff/features/login/FEATURE.md not shown: " in prompt
    shown = [number for number in range(30) if f"### Part {number}\n" in prompt]
    named = prompt.partition("not shown: ")[2].partition("]")[0]
    assert shown
    assert f"Part {shown[-1] + 1}," in named
    assert "enough to work without opening them" not in prompt


def test_a_task_after_another_is_told_what_that_one_did_and_the_words_a_failure_does_not_erase(cli, repo):
    cli("dump", "--task", "aa", "--next", "Write a.", "--owns", "a.txt")
    cli("dump", "--task", "bb", "--next", "Use a.", "--after", "aa")
    cli("task", "claim", "aa")
    repo.write("a.txt", "a\n")
    cli("task", "done", "--summary", "a.txt holds the words; read them with utf-8")
    cli("task", "claim", "bb", "--session", "first")
    baton = _baton("bb")
    assert "`aa`: done, a.txt holds the words; read them with utf-8" in baton
    assert "changed: `a.txt`" in baton
    cli("task", "release", "bb", "--session", "first", "--reason", "the parser is done, the tests are missing")
    cli("task", "claim", "bb", "--session", "second")
    cli("task", "release", "bb", "--session", "second", "--reason", "my client was logged out")
    told = _baton("bb")
    assert "it gave the task back: my client was logged out" in told
    assert "it gave the task back: the parser is done, the tests are missing" in told


def _baton(task: str) -> str:
    with open(os.path.join(os.environ["HANDOFF_HOME"], "repo", "queue", f"{task}.md"), encoding="utf-8") as file:
        return file.read()

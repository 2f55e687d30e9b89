"""Sessions as conversations with the command: started, watched, bounded, ended, concluded; nothing of them survives."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time

import pytest

from sandbox import absent
from scripts import DETACHED, handoff, processes_with, write_script

HERE = ("--workspace", "shared")  # the person's own checkout, where no sandbox ends what a session leaves behind


@pytest.fixture
def project(repo, cli, tmp_path):
    """A repository with one ready task `demo` that owns src/."""
    return Project(repo, cli, tmp_path)


class Project:
    def __init__(self, repo, cli, tmp_path) -> None:
        self.repo, self.cli, self.tmp = repo, cli, tmp_path
        self.home = os.environ["HANDOFF_HOME"]

    def task(self, *words: str, name: str = "demo") -> None:
        self.cli("dump", "--task", name, "--next", "write src/a.txt", "--owns", "src/", *words)

    def script(self, *acts) -> str:
        return write_script(os.path.join(os.environ["HOME"], "script.toml"), *acts)

    def run(self, *acts, words=(), code=None):
        return self.cli(
            "session", "start", "demo", "--agent", "scripted", "--with", self.script(*acts), "--json", *words, code=code
        ).json

    def state(self, name: str = "demo") -> dict:
        return self.cli("show", name, "--json").json

    def folder(self, session: str) -> str:
        return os.path.join(self.home, "repo", "sessions", session)


def test_a_session_that_reports_done_is_ok_and_its_folder_is_closed_to_others(project):
    project.task("--check", "test -f src/a.txt")
    end = project.run(
        {"write": "src/a.txt", "text": "x"}, {"run": handoff("task", "done", "--summary", "fine")}, code=0
    )
    assert (end["outcome"], end["state"], end["outside"]) == ("ok", "done", [])
    folder = project.folder(end["session"])
    assert os.stat(folder).st_mode & 0o777 == 0o700
    assert all(os.stat(os.path.join(folder, name)).st_mode & 0o077 == 0 for name in os.listdir(folder))
    with open(os.path.join(folder, "baton.md"), encoding="utf-8") as file:
        assert "write src/a.txt" in file.read()


def test_an_agent_that_cannot_report_is_judged_by_the_tasks_check(project):
    project.task("--check", "test -f src/a.txt")
    assert project.run({"write": "src/a.txt", "text": "x"}, code=0)["state"] == "done"


def test_a_good_exit_code_without_evidence_is_not_done(project):
    project.task("--check", "test -f src/a.txt")
    end = project.run({"say": "all done, honestly"}, code=1)
    assert (end["outcome"], end["state"]) == ("failed", "ready")
    assert "not done" in end["reason"]
    project.cli("cancel", "demo")
    project.task()
    end = project.run({"say": "nothing to see"}, code=1)
    assert "without reporting" in end["reason"]


def test_a_write_outside_the_ownership_is_found_after_the_end(project):
    project.task("--check", "true")
    end = project.run({"write": "src/a.txt", "text": "x"}, {"write": "other/b.txt", "text": "y"}, code=1)
    assert end["outside"] == ["other/b.txt"]
    assert end["state"] == "ready"


def test_a_crash_uses_up_no_attempt_and_says_by_which_signal(project):
    project.task()
    end = project.run({"crash": True}, words=HERE, code=1)
    assert end["outcome"] == "killed"
    assert "signal 9" in end["reason"]
    assert end["state"] == "ready"
    assert project.cli("show", "demo", "--json").json["attempt"] == 1
    baton = project.run(
        {"expect": "What was tried"}, {"expect": "signal 9"}, {"run": handoff("task", "block", "enough")}, words=HERE
    )
    assert baton["reason"] == "blocked: enough"


def test_a_session_over_its_minutes_is_ended(project):
    project.task()
    end = project.run({"hang": True}, words=("--minutes", "0.02"), code=1)
    assert "minutes" in end["reason"]
    assert end["outcome"] == "failed"


@pytest.mark.parametrize(
    "line",
    [
        "sleep {mark} {away}",
        "setsid sleep {mark} {away}",
        "nohup setsid sh -c 'trap \"\" TERM HUP INT; while :; do sleep {mark}; done' {away}",
        "(setsid env -i sh -c 'sleep {mark}' {away})",
        "setsid sh -c 'for i in 1 2 3 4 5; do setsid env -i sleep {mark} & done; wait' {away}",
    ],
    ids=["plain", "own-session", "ignores-signals", "bare-environment", "many"],
)
def test_no_process_survives_its_session(project, line):
    mark = f"600.{os.getpid()}{int(time.monotonic() * 1000) % 100000}"
    project.task("--check", "true")
    end = project.run(
        {"run": line.format(mark=mark, away=DETACHED)}, {"run": f"sleep 0.2; pgrep -f {mark} >seen; true"}, words=HERE
    )
    assert processes_with(mark) == []
    with open(os.path.join(project.folder(end["session"]), "exit.json"), encoding="utf-8") as file:
        assert json.load(file)["stragglers"] >= 1, "the straggler was really there"


def test_a_stopped_session_frees_its_task_without_using_an_attempt(project):
    project.task()
    mark = f"601.{os.getpid()}"
    script = project.script({"run": f"sleep {mark} {DETACHED}"}, {"hang": True})
    process = project.cli.start("session", "start", "demo", "--agent", "scripted", "--with", script, "--json")
    session = _wait_for(lambda: _session_of(project, mark))
    project.cli("session", "stop", session, "--reason", "lunch")
    out, _ = process.communicate(timeout=60)
    end = json.loads(out)
    assert (end["outcome"], end["reason"], end["state"]) == ("stopped", "lunch", "ready")
    assert processes_with(mark) == []
    assert "was over already" in project.cli("session", "stop", session).out


def test_a_killed_supervisor_leaves_the_agent_working_and_another_takes_it_up(project):
    project.task("--check", "test -f src/a.txt")
    go = str(project.tmp / "go")
    script = project.script(
        {"run": f"while [ ! -e {go} ]; do sleep 0.05; done"}, {"write": "src/a.txt", "text": "x"},
        {"run": handoff("task", "done", "--summary", "late")},
    )  # fmt: skip
    process = project.cli.start("session", "start", "demo", "--agent", "scripted", "--with", script, "--json", *HERE)
    session = _wait_for(lambda: _session_of(project, go))
    process.send_signal(signal.SIGKILL)
    process.communicate()
    other = project.cli.start("session", "attach", session, "--json")
    open(go, "w").close()
    out, _ = other.communicate(timeout=60)
    end = json.loads(out)
    assert (end["outcome"], end["state"]) == ("ok", "done")


def test_a_killed_monitor_is_a_lost_session_and_its_agent_is_ended(project):
    project.task()
    mark = f"602.{os.getpid()}"
    script = project.script({"run": f"sleep {mark} {DETACHED}"}, {"hang": True})
    process = project.cli.start("session", "start", "demo", "--agent", "scripted", "--with", script, "--json")
    session = _wait_for(lambda: _session_of(project, mark))
    with open(os.path.join(project.folder(session), "monitor.json"), encoding="utf-8") as file:
        os.kill(json.load(file)["pid"], signal.SIGKILL)
    out, _ = process.communicate(timeout=60)
    assert json.loads(out)["outcome"] == "killed"
    assert processes_with(mark) == []


def test_a_session_whose_task_was_given_away_is_ended_when_the_next_one_starts(project):
    project.task("--check", "true")
    mark = f"603.{os.getpid()}"
    script = project.script({"run": f"sleep {mark} {DETACHED}"}, {"hang": True})
    process = project.cli.start("session", "start", "demo", "--agent", "scripted", "--with", script, "--json")
    session = _wait_for(lambda: _session_of(project, mark))
    fence = project.state()["fence"]
    project.cli("task", "release", "--task", "demo", "--session", session, "--fence", str(fence))
    end = project.run({"say": "mine now"}, code=0)
    assert end["state"] == "done"
    assert processes_with(mark) == []
    out, _ = process.communicate(timeout=60)
    assert json.loads(out)["outcome"] == "failed"


def test_secrets_are_in_no_file_of_the_session_and_in_no_argument(project):
    project.task("--check", "true")
    secret = "a-very-secret-value-1234567890"
    project.cli.environment["ANTHROPIC_API_KEY"] = secret
    end = project.run(
        {"say": "hello"}, {"run": 'test -n "$ANTHROPIC_API_KEY"'}, words=("--workspace", "shared"), code=0
    )
    folder = project.folder(end["session"])
    found = subprocess.run(["grep", "-rl", secret, folder], capture_output=True, text=True, check=False).stdout
    assert found == ""


def test_an_agent_that_is_not_there_is_an_error_before_anything_is_claimed(project):
    project.task()
    project.cli.environment["PATH"] = os.path.dirname("/usr/bin/git")
    answer = project.cli("session", "start", "demo", "--agent", "aider", code=1)
    assert "not installed" in answer.err
    assert not os.path.exists(os.path.join(project.home, "repo", "sessions"))
    assert "no agent" in project.cli("session", "start", "demo", "--agent", "nobody", code=1).err


def test_a_task_waits_until_the_limit_ends_that_its_client_told_of(project):
    project.task()
    with open(os.path.join(project.home, "config.toml"), "w", encoding="utf-8") as file:
        file.write(
            'agents = { mine = ["/bin/sh", "-c", "echo usage limit reached, try again in 2 hours >&2; exit 1"] }\n'
        )
    end = project.cli("session", "start", "demo", "--agent", "mine", "--json", code=1).json
    assert (end["outcome"], end["state"]) == ("limit", "ready")
    assert end["until"] == pytest.approx(time.time() + 7200, abs=120)
    again = project.cli("session", "start", "demo", "--agent", "mine", code=3)
    assert "later" in again.err


def test_agents_are_listed_with_what_they_can_and_what_fences_them(project):
    rows = {row["name"]: row for row in project.cli("agent", "list", "--json").json}
    assert {"claude", "codex", "gemini", "copilot", "opencode", "aider", "scripted", "person"} <= set(rows)
    assert rows["scripted"]["installed"]
    assert "comparison" in rows["scripted"]["fence"]
    assert "person" in project.cli("agent", "list").out


def test_a_question_lets_the_task_wait_for_a_person(project):
    project.task()
    end = project.run({"run": handoff("task", "ask", "'May I?'")}, code=0)
    assert end["state"] == "gated"
    assert "May I?" in project.cli("gate", "list").out
    project.cli("answer", "demo", "yes")
    assert project.run({"run": handoff("task", "block", "no")})["state"] == "blocked"


def test_a_question_with_three_choices_is_answered_and_the_next_session_does_what_was_chosen(project):
    project.task("--check", "grep -q Redis src/a.txt")
    choices = ("--choice", "Postgres", "--choice", "Redis", "--choice", "'a plain file'")
    end = project.run({"run": handoff("task", "ask", "'Where is it kept?'", *choices)}, code=0)
    assert end["state"] == "gated"
    assert project.cli("gate", "show", "demo", "--json").json["choices"] == ["Postgres", "Redis", "a plain file"]
    assert project.cli("answer", "demo", "Redis").out == "Answered: demo is ready.\n"
    done = {"write": "src/a.txt", "text": "Redis"}
    end = project.run({"expect": "Where is it kept?"}, {"expect": "Redis"}, done, code=0)
    assert (end["state"], project.state()["attempt"]) == ("done", 1)


def _session_of(project, text: str) -> str:
    folder = os.path.join(project.home, "repo", "sessions")
    names = os.listdir(folder) if os.path.isdir(folder) else []
    return names[0] if names and processes_with(text) else ""


def _wait_for(look):
    for _ in range(600):
        found = look()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError("it did not happen")


@pytest.fixture
def sandboxed(project):
    """A project on a machine that has bubblewrap."""
    import shutil

    if shutil.which("bwrap") is None:
        absent("bubblewrap")
    return project


def test_a_shell_cannot_write_beyond_what_the_task_owns_behind_its_sandbox(sandboxed):
    sandboxed.repo.write("other/kept.txt", "old")
    sandboxed.repo.commit("more")
    sandboxed.task("--check", "test -f src/a.txt")
    end = sandboxed.run(
        {"run": "echo x > other/kept.txt", "may_fail": True}, {"run": "echo x > new.txt", "may_fail": True},
        {"write": "src/a.txt", "text": "x"}, {"run": handoff("task", "done", "--summary", "sandboxed")},
        words=("--sandbox", "owned"), code=0,
    )  # fmt: skip
    assert (end["state"], end["outside"], end["reason"]) == ("done", [], "sandboxed")
    assert sandboxed.repo.read("other/kept.txt") == "old"
    assert not os.path.exists(os.path.join(sandboxed.repo.path, "new.txt"))


def test_an_escaped_sign_opens_the_one_file_that_it_spells(sandboxed):
    for name in ("app/[id]/page.tsx", "app/i/page.tsx", "app/kept.tsx", "!odd.txt", "kept.txt"):
        sandboxed.repo.write(name, "old")
    sandboxed.repo.commit("more")
    owns = ("--owns", r"app/\[id]/page.tsx", "--owns", r"\!odd.txt")
    sandboxed.cli("dump", "--task", "demo", "--next", "do it", *owns, "--check", "grep new '!odd.txt'")
    tries = [
        {"run": f"echo new > '{name}'", "may_fail": True} for name in ("app/i/page.tsx", "app/kept.tsx", "kept.txt")
    ]
    mine = [{"run": f"echo new > '{name}'"} for name in ("app/[id]/page.tsx", "!odd.txt")]
    done = {"run": handoff("task", "done", "--summary", "signs")}
    end = sandboxed.run(*tries, *mine, done, words=("--sandbox", "owned"), code=0)
    assert (end["state"], end["outside"]) == ("done", [])
    assert [sandboxed.repo.read(name) for name in ("app/i/page.tsx", "app/kept.tsx", "kept.txt")] == ["old"] * 3
    assert sandboxed.repo.read("app/[id]/page.tsx") == "new\n"


def test_a_sandbox_around_the_workspace_keeps_the_rest_of_the_disk(sandboxed):
    outside = os.path.join(os.environ["HOME"], "outside.txt")
    sandboxed.task("--check", "test -f src/a.txt")
    end = sandboxed.run(
        {"run": f"echo x > {outside}", "may_fail": True}, {"write": "src/a.txt", "text": "x"},
        words=("--sandbox", "workspace"), code=0,
    )  # fmt: skip
    assert end["state"] == "done"
    assert not os.path.exists(outside)


def test_a_session_has_the_guarded_git_and_may_not_sweep_up_others_work(project):
    project.repo.write("theirs.txt", "unsaved work of somebody else")
    project.task("--check", "test -f src/a.txt")
    end = project.run(
        {"write": "src/a.txt", "text": "x"}, {"run": "git stash -u", "may_fail": True}, {"run": "git add -A", "may_fail": True},
        {"run": "git status --short"}, {"run": handoff("task", "done", "--summary", "guarded")}, words=HERE, code=0,
    )  # fmt: skip
    assert end["reason"] == "guarded"
    assert project.repo.read("theirs.txt") == "unsaved work of somebody else"
    assert project.repo.git("stash", "list") == ""
    assert project.repo.git("diff", "--cached", "--name-only") == ""


def test_what_an_agent_said_can_be_read_after_it_left_the_settings(project):
    project.task()
    path = os.path.join(project.home, "config.toml")
    with open(path, "w", encoding="utf-8") as file:
        file.write('agents = { mine = ["/bin/sh", "-c", "echo I looked around"] }\n')
    end = project.cli("session", "start", "demo", "--agent", "mine", "--json", code=None).json
    os.unlink(path)
    assert "said: I looked around" in project.cli("session", "log", end["session"]).out


def test_a_session_cannot_accept_for_its_person_what_it_changed_outside(project):
    project.task()
    acts = ({"write": "README.md", "text": "x"}, {"run": handoff("task", "done", "--accept-outside", "please")})
    project.run(*acts, words=HERE)
    assert project.state()["state"] != "done"
    assert "task.waived" not in project.cli("log", "demo", "--json").out

"""Whatever handoff starts works in a clone behind the sandbox and lands on the branch it began at, or says what is in the way."""

from __future__ import annotations

import contextlib
import glob
import os
import shlex
import shutil
import time

import pytest

from sandbox import Cli, Repo
from scripts import handoff, write_script


class Desk:
    """A repository of a person, and sessions of the scripted agent for single tasks."""

    def __init__(self, repo, cli, tmp_path) -> None:
        self.repo, self.cli, self.tmp = repo, cli, tmp_path
        repo.write("a.txt", "one\ntwo\nthree\nfour\nfive\n")
        repo.write("b.txt", "b\n")
        repo.commit("more")

    def run(self, task: str, *lines: str, words=(), dump=(), code=0) -> dict:
        """Write the task, let a session of the agent run these lines and report, and tell how it ended."""
        self.cli("dump", "--task", task, "--next", f"Do {task}.", *dump)
        acts = [{"run": line} for line in (*lines, handoff("task", "done", "--summary", f"'{task} is done'"))]
        script = write_script(str(self.tmp / f"{task}.toml"), *acts)
        self.answer = self.cli(
            "session", "start", task, "--agent", "scripted", "--with", script, "--json", *words, code=code
        )
        return self.answer.json

    @contextlib.contextmanager
    def beside(self, task: str, *lines: str):
        """A session that has run these lines and reports when the person has done what they do meanwhile."""
        self.cli("dump", "--task", task, "--next", f"Do {task}.")
        begun = os.path.join(os.environ["HANDOFF_HOME"], "repo", "workspaces", f"{task}-*", "tree", ".git", "begun")
        wait = "touch .git/begun; while [ -e .git/begun ]; do sleep 0.05; done"
        acts = [{"run": line} for line in (*lines, wait, handoff("task", "done", "--summary", f"'{task} is done'"))]
        script = write_script(str(self.tmp / f"{task}.toml"), *acts)
        process = self.cli.start("session", "start", task, "--agent", "scripted", "--with", script)
        while not glob.glob(begun):
            assert process.poll() is None, process.communicate()
            time.sleep(0.02)
        yield
        os.unlink(*glob.glob(begun))
        out, err = process.communicate(timeout=100)
        assert process.returncode == 0, (out, err)

    def said(self, end: dict) -> str:
        return self.cli("session", "log", end["session"], "--raw").out

    def subjects(self, where: str = "HEAD") -> list[str]:
        return self.repo.git("log", "--format=%s", where).split("\n")[:-1]


@pytest.fixture
def desk(repo, cli, tmp_path):
    return Desk(repo, cli, tmp_path)


def test_two_tasks_after_each_other_land_beside_the_persons_edits_and_the_second_begins_with_the_first(desk):
    desk.repo.write("b.txt", "mine, not committed\n")
    desk.repo.write("draft.txt", "mine, new\n")
    end = desk.run("first", "pwd", "sed -i s/one/ONE/ a.txt", dump=("--check", "grep -q ONE a.txt"))
    assert end["state"] == "done", desk.said(end)
    assert "workspaces/first" in desk.said(end)
    end = desk.run("second", "grep ONE a.txt && echo new > c.txt", dump=("--after", "first"))
    assert end["state"] == "done", desk.said(end)
    assert desk.subjects() == ["second: Do second.", "first: Do first.", "more", "first"]
    assert "Handoff-Check: grep -q ONE a.txt (green)" in desk.repo.git("log", "-1", "--format=%B", "HEAD~1")
    assert desk.repo.git("status", "--short").split("\n")[:-1] == [" M b.txt", "?? draft.txt"]
    assert desk.repo.read("b.txt") == "mine, not committed\n"
    assert desk.repo.git("branch", "--list", "handoff/*") == "", "what has landed is tidied away"


def test_an_edit_of_the_person_in_the_way_is_a_gate_that_lands_when_it_is_answered(desk):
    cli, repo = desk.cli, desk.repo
    repo.write("a.txt", "one\ntwo\nthree\nfour\nfive, mine\n")
    end = desk.run("loud", "sed -i s/one/ONE/ a.txt")
    assert (end["state"], cli("show", "loud", "--json").json["attempt"]) == ("gated", 1), desk.said(end)
    asked = cli("gate", "show", "loud").out
    assert "your uncommitted a.txt is in the way" in asked
    assert "git show handoff/loud-1" in asked
    assert repo.read("a.txt").startswith("one\n"), "nothing of the person was touched"
    refused = cli("answer", "loud", "yes", code=3).err
    assert "a.txt: not committed in" in refused
    assert cli("gate", "list", "--json").json, "a yes too early leaves the gate"
    repo.git("commit", "-qam", "mine")
    assert "is done" in cli("answer", "loud", "yes").out
    assert repo.read("a.txt") == "ONE\ntwo\nthree\nfour\nfive, mine\n"
    assert desk.subjects()[:2] == ["loud: Do loud.", "mine"]
    assert cli("show", "loud", "--json").json["result"] == "loud is done"
    assert cli("workspace", "list", "--json").json == []


def test_no_branch_holds_what_the_person_had_not_committed(desk, tmp_path):
    cli, repo = desk.cli, desk.repo
    repo.write("draft.txt", "mine alone\n")
    repo.write("a.txt", "one\ntwo\nthree\nfour\nfive, mine\n")
    assert desk.run("loud", "sed -i s/one/ONE/ a.txt")["state"] == "gated"
    assert repo.git("diff", "--stat", "main", "handoff/loud-1").splitlines()[-1].strip() == (
        "1 file changed, 1 insertion(+), 1 deletion(-)"
    )
    assert repo.git("show", "handoff/loud-1:a.txt") == "ONE\ntwo\nthree\nfour\nfive\n"
    assert desk.run("close", "sed -i s/mine/MINE/ a.txt")["state"] == "gated"
    asked = cli("gate", "show", "close").out
    assert "git show refs/handoff/work/close-2" in asked, "it stands on what the person has not committed"
    assert "five, MINE" in repo.git("show", "refs/handoff/work/close-2")
    repo.git("init", "-q", "--bare", str(tmp_path / "published"))
    repo.git("push", "-q", "--all", str(tmp_path / "published"))
    published = Repo(str(tmp_path / "published"))
    assert published.git("branch", "--format=%(refname:short)").split() == ["handoff/loud-1", "main"]
    told = published.git("log", "--branches", "-p")
    assert "mine" not in told
    assert "working tree as it was" not in told
    repo.git("commit", "-qm", "mine", "--", "a.txt")
    cli("answer", "loud", "yes")
    cli("answer", "close", "yes")
    assert repo.read("a.txt") == "ONE\ntwo\nthree\nfour\nfive, MINE\n"
    assert repo.git("for-each-ref", "refs/handoff/work", "refs/heads/handoff") == "", "what has landed is tidied away"


@pytest.mark.slow
def test_what_the_person_commits_meanwhile_is_joined_or_asked_about_and_what_they_bring_in_by_hand_has_landed(desk):
    cli, repo = desk.cli, desk.repo
    with desk.beside("joined", "sed -i s/one/ONE/ a.txt"):
        repo.write("a.txt", "one\ntwo\nthree\nfour\nFIVE\n")
        repo.git("commit", "-qam", "by the person")
    assert desk.subjects()[:2] == ["joined: Do joined.", "by the person"]
    assert repo.read("a.txt") == "ONE\ntwo\nthree\nfour\nFIVE\n"
    with desk.beside("clash", "echo agent > b.txt"):
        repo.write("b.txt", "person\n")
        repo.git("commit", "-qam", "b by the person")
    asked = cli("gate", "show", "clash").out
    assert "b.txt: changed by" in asked
    assert "b by the person (Test Person)" in asked
    repo.git("cherry-pick", "handoff/clash-2", check=False)
    repo.write("b.txt", "both\n")
    repo.git("commit", "-qa", "--no-edit")
    cli("answer", "clash", "yes")
    assert repo.read("b.txt") == "both\n"
    assert desk.subjects()[:2] == ["clash: Do clash.", "b by the person"]


@pytest.mark.slow
def test_it_lands_on_the_branch_it_began_at_and_says_so_where_there_is_none(desk):
    cli, repo = desk.cli, desk.repo
    repo.git("checkout", "-q", "-b", "side")
    with desk.beside("sideways", "echo x > side.txt"):
        repo.git("checkout", "-q", "main")
    assert desk.subjects("side")[0] == "sideways: Do sideways."
    assert "side.txt" not in os.listdir(repo.path)
    end = desk.run("later", "cat side.txt && echo y > later.txt", dump=("--after", "sideways"))
    assert end["state"] == "done", desk.said(end)
    assert desk.subjects("side")[:2] == ["later: Do later.", "sideways: Do sideways."]
    assert desk.subjects()[0] == "more", "the branch the person is on stays as it was"
    repo.git("checkout", "-q", "--detach")
    assert desk.run("lost", "echo z > lost.txt")["state"] == "gated"
    assert "HEAD is detached" in cli("gate", "list").out
    repo.git("checkout", "-q", "-b", "short")
    cli("answer", "lost", "yes")
    assert desk.subjects()[0] == "lost: Do lost."
    with desk.beside("orphan", "echo o > orphan.txt"):
        repo.git("checkout", "-q", "main")
        repo.git("branch", "-q", "-D", "short")
    assert "the branch short it began at is gone" in cli("gate", "list").out
    repo.git("branch", "short", "main")
    cli("answer", "orphan", "yes")
    assert desk.subjects("short")[0] == "orphan: Do orphan."


def test_what_a_session_notes_in_the_documents_comes_home_and_a_check_it_plants_there_does_not(desk):
    cli, repo = desk.cli, desk.repo
    cli("init", "login")
    plan = "# State\n\n# Current Step\n\nStep 1: build\n\n# Execution Plan\n\n- [>] Step 1: build\n"
    repo.write(".handoff/features/login/STATE.md", plan)
    planted = "sed -i 's/Step 1: build$/Step 1: build (check: curl evil)/' .handoff/features/login/STATE.md"
    end = desk.run(
        "noted", handoff("note", "'the mail server is slow'"), planted, "echo x > c.txt", dump=("--owns", "c.txt")
    )
    assert end["state"] == "done", desk.said(end)
    assert "the mail server is slow" in repo.read(".handoff/features/login/SESSION.md")
    assert repo.read(".handoff/features/login/STATE.md") == plan
    assert "curl evil" in repo.read(".handoff/features/login/STATE.md.from-noted-1")
    assert desk.repo.git("show", "--format=", "--name-only", "HEAD").split() == ["c.txt"]


def test_the_persons_own_checkout_is_a_choice_and_where_nothing_can_be_cloned_that_is_said(desk, tmp_path):
    cli, repo, home = desk.cli, desk.repo, os.environ["HANDOFF_HOME"]
    end = desk.run("shared", "pwd; echo x > here.txt", words=("--workspace", "shared"))
    assert repo.path in desk.said(end)
    with open(os.path.join(home, "config.toml"), "w", encoding="utf-8") as file:
        file.write('session_workspace_project = { repo = "shared" }\n')
    assert repo.path in desk.said(desk.run("again", "pwd; echo y > here.txt"))
    assert desk.subjects()[0] == "more"
    cli("dump", "--task", "mine", "--next", "by my own tab")
    cli("task", "claim", "mine")
    repo.write("b.txt", "by my own tab\n")
    cli("task", "done")
    assert repo.git("status", "--short").split() == ["M", "b.txt", "??", "here.txt"]
    plain = Desk.__new__(Desk)
    (tmp_path / "plain").mkdir()
    plain.repo, plain.cli, plain.tmp = Repo(str(tmp_path / "plain")), Cli(str(tmp_path / "plain")), tmp_path
    end = plain.run("simple", "echo x > here.txt")
    assert (end["state"], plain.repo.read("here.txt")) == ("done", "x\n")
    assert "is not a git repository" in plain.answer.err
    assert "nothing keeps it inside" in plain.answer.err


def test_in_the_persons_checkout_what_a_session_did_to_uncommitted_work_is_told_with_the_command_that_brings_it_back(
    desk,
):
    cli, repo = desk.cli, desk.repo
    repo.write("a.txt", "mine\n")
    repo.write("b.txt", "staged\n")
    repo.git("add", "b.txt")
    repo.write("draft.txt", "never added\n")
    before = repo.git("status", "--short")
    real = shutil.which("git")
    end = desk.run(
        "bull", f"{real} reset -q --hard; {real} clean -fdq; echo x > own.txt", words=("--workspace", "shared"),
        dump=("--owns", "own.txt"),
    )  # fmt: skip
    assert end["state"] == "done", desk.said(end)
    assert repo.git("status", "--short").split() == ["??", "own.txt"]
    told = cli("incident", "list", "--json").json["incidents"]
    assert {one["kind"] for one in told} == {"work-changed", "unstaged"}
    for one in told:
        assert one["fix"] in desk.answer.err, "the session's end tells it too"
        cli(*shlex.split(one["fix"])[1:])
    assert repo.git("status", "--short") == before + "?? own.txt\n"
    assert [repo.read(name) for name in ("a.txt", "b.txt", "draft.txt")] == ["mine\n", "staged\n", "never added\n"]


def test_the_command_that_brings_uncommitted_work_back_brings_all_of_it_however_many_files_there_were(desk):
    cli, repo = desk.cli, desk.repo
    drafts = [f"draft-{number}.txt" for number in range(25)]
    for name in drafts:
        repo.write(name, f"{name}\n")
    desk.run("bull", "rm -f draft-*; echo x > own.txt", words=("--workspace", "shared"), dump=("--owns", "own.txt"))
    (told,) = cli("incident", "list", "--json").json["incidents"]
    cli(*shlex.split(told["fix"])[1:])
    assert [repo.read(name) for name in drafts] == [f"{name}\n" for name in drafts]


@pytest.mark.slow
def test_what_a_check_makes_is_no_work_of_the_session_and_does_not_land(desk, cli):
    check = "date +%N > built.txt; python3 -c 'from answer import A'"
    end = desk.run("whole", "echo A = 42 > answer.py", dump=("--check", check))
    assert end["outcome"] == "ok"
    assert "Left by the check, and no part of the work: built.txt." in desk.said(end)
    assert desk.repo.git("show", "--format=", "--name-only", "HEAD") == "answer.py\n"

    # A red check leaves its files too, and the session that mends its work reports once more beside them.
    check = "date +%N > built.txt; date +%N > b.txt; python3 -c 'from other import B'"
    red = f"echo b = 43 > other.py; {handoff('task', 'done', '--summary', 'red')} || true"
    end = desk.run(
        "fenced", red, "echo B = 43 > other.py", dump=("--owns", "other.py", "--owns", "built.txt", "--check", check)
    )
    assert end["state"] == "done", desk.said(end)
    assert desk.repo.git("show", "--format=", "--name-only", "HEAD") == "other.py\n"
    assert "not its own files" not in cli("log", "fenced").out


@pytest.mark.slow
def test_several_that_report_at_the_same_moment_land_one_after_the_other_and_nobody_is_asked(desk, cli):
    names = [f"task-{number}" for number in range(4)]
    running = []
    for name in names:
        cli("task", "add", name, f"Do {name}.", "--owns", f"{name}.txt", "--check", f"sleep 0.5; test -s {name}.txt")
        acts = [{"write": f"{name}.txt", "text": "x"}, {"run": handoff("task", "done", "--summary", "made")}]
        script = write_script(str(desk.tmp / f"{name}.toml"), *acts)
        running.append(cli.start("session", "start", name, "--agent", "scripted", "--with", script))
    for process in running:
        out, err = process.communicate(timeout=100)
        assert process.returncode == 0, (out, err)
    assert [cli("show", name, "--json").json["state"] for name in names] == ["done"] * 4
    assert sorted(desk.subjects()[:4]) == [f"{name}: Do {name}." for name in names]

"""A task that a person lets try again goes on upon what they have now, with the work it has; nothing of either is lost."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from points import OF_RENEWALS, armed
from scripts import handoff, write_script

CHECK = "test -e needed.txt && grep -q made made.txt"


class Blocked:
    """A task whose first session made something and said that needed.txt is missing."""

    def __init__(self, repo, cli, tmp_path) -> None:
        self.repo, self.cli, self.tmp = repo, cli, tmp_path
        repo.write("a.txt", "one\ntwo\nthree\nfour\nfive\n")
        repo.commit("more")
        cli("task", "add", "demo", "Make it.", "--check", CHECK)

    def script(self, *lines: str) -> str:
        return write_script(str(self.tmp / "acts.toml"), *({"run": line} for line in lines))

    def run(self, *lines: str, code: int | None = 0):
        return self.cli(
            "session", "start", "demo", "--agent", "scripted", "--with", self.script(*lines), "--json", code=code
        )

    def block(self, *lines: str):
        said = self.run(*lines, handoff("task", "block", "'needed.txt is missing'"), code=1)
        assert self.state() == "blocked"
        return said

    def supply(self) -> None:
        self.repo.write("needed.txt", "by the person\n")
        self.repo.commit("needed")

    def state(self) -> str:
        return self.cli("show", "demo", "--json").json["state"]

    def subjects(self) -> list[str]:
        return self.repo.git("log", "--format=%s").split("\n")[:-1]


@pytest.fixture
def blocked(repo, cli, tmp_path):
    return Blocked(repo, cli, tmp_path)


@pytest.mark.parametrize("committed", [True, False], ids=["committed", "not-committed"])
def test_it_goes_on_upon_what_the_person_has_now_with_its_work(blocked, committed):
    blocked.block("echo made > made.txt", "sed -i s/one/ONE/ a.txt")
    blocked.repo.write("a.txt", "one\ntwo\nthree\nfour\nFIVE\n")
    blocked.repo.commit("five")
    if committed:
        blocked.supply()
    else:
        blocked.repo.write("needed.txt", "by the person\n")
    blocked.cli("retry", "demo")
    said = blocked.run("git status --short; cat a.txt made.txt", code=None)
    assert "goes on upon main as it is now, with its work so far (2 files)" in said.err
    told = blocked.cli("session", "log", said.json["session"], "--raw").out
    assert " M a.txt" in told
    assert "?? made.txt" in told
    assert "needed.txt" not in told
    if not committed:  # its check is green where it works, and main alone does not have what it needs
        assert "joined with main as it is now" in blocked.cli("gate", "list").out
        blocked.repo.commit("needed")
        blocked.cli("answer", "demo", "yes")
    assert blocked.state() == "done"
    assert blocked.repo.read("a.txt") == "ONE\ntwo\nthree\nfour\nFIVE\n"
    assert blocked.repo.read("made.txt") == "made\n"
    assert blocked.repo.git("status", "--short") == ""
    assert blocked.repo.git("diff", "--name-only", "HEAD~1", "HEAD").split() == ["a.txt", "made.txt"]


def test_without_work_it_begins_anew_and_attempts_that_nobody_asked_for_go_on_where_they_were(blocked):
    blocked.run("true", code=1)
    blocked.supply()
    blocked.run("test ! -e needed.txt", code=1)
    blocked.block("test ! -e needed.txt && touch gone")
    blocked.cli("retry", "demo")
    blocked.run("test -e needed.txt && echo made > made.txt")
    assert blocked.state() == "done"
    assert blocked.subjects()[:2] == ["demo: Make it.", "needed"]


@pytest.mark.parametrize("name", ["lines.txt", "Cargo.lock"])  # a lock is never joined line by line
def test_work_that_meets_the_branch_stays_where_it_was_and_that_is_said(blocked, name):
    blocked.repo.write(name, "one\ntwo\nthree\nfour\nfive\n")
    blocked.repo.commit("its lines")
    blocked.block("echo made > made.txt", f"sed -i s/one/ONE/ {name}")
    blocked.repo.write(name, f"{'uno' if name == 'lines.txt' else 'one'}\ntwo\nthree\nfour\nFIVE\n")
    blocked.supply()
    blocked.cli("retry", "demo")
    said = blocked.run(f"head -1 {name}", code=1)
    assert f"goes on where it was, not upon main as it is now: its clone meets main as it is now in {name}." in said.err
    assert "ONE" in blocked.cli("session", "log", said.json["session"], "--raw").out


def test_it_goes_on_upon_the_branch_it_is_for_where_the_person_is_on_another_now(blocked):
    blocked.block("echo made > made.txt")
    blocked.supply()
    blocked.repo.git("checkout", "-q", "-b", "elsewhere")
    blocked.repo.write("other.txt", "x\n")
    blocked.repo.commit("other")
    blocked.cli("retry", "demo")
    said = blocked.run("test ! -e other.txt")
    assert "goes on upon main as it is now" in said.err
    assert blocked.repo.git("log", "--format=%s", "main").split("\n")[:2] == ["demo: Make it.", "needed"]


def test_a_clone_whose_session_may_still_run_is_not_taken_away(blocked):
    said = blocked.block("echo made > made.txt")
    folder = os.path.join(os.environ["HANDOFF_HOME"], "sessions", "running")
    with open(
        os.path.join(folder, said.json["session"]), "w", encoding="utf-8"
    ) as file:  # as if nobody had concluded it
        file.write(f"1 1 0 {os.path.join(os.path.dirname(folder), said.json['session'])}")
    blocked.supply()
    blocked.cli("retry", "demo")
    blocked.run("test -e made.txt && test ! -e needed.txt || exit 9", code=1)
    os.unlink(file.name)
    blocked.run("true", code=1)
    blocked.block("true")
    blocked.cli("retry", "demo")
    assert "goes on upon main as it is now" in blocked.run("true").err


def test_what_a_session_wrote_in_a_document_keeps_its_clone(blocked):
    feature = ".handoff/features/shop"
    os.makedirs(os.path.join(blocked.repo.path, feature))
    blocked.repo.write(f"{feature}/notes.md", "before\n")
    blocked.block("echo made > made.txt", f"echo learned >> {feature}/notes.md")
    blocked.supply()
    blocked.cli("retry", "demo")
    said = blocked.run(f"cat {feature}/notes.md", code=1)
    assert f"its clone has what would stay behind: {feature}/notes.md" in said.err
    assert "learned" in blocked.cli("session", "log", said.json["session"], "--raw").out


@pytest.mark.parametrize(
    "point",
    OF_RENEWALS,
)
def test_whoever_is_killed_on_the_way_leaves_the_work_there_once(blocked, point):
    blocked.block("echo made > made.txt", "sed -i s/one/ONE/ a.txt")
    blocked.supply()
    blocked.cli("retry", "demo")
    words = blocked.cli.command("session", "start", "demo", "--agent", "scripted", "--with", blocked.script("true"))
    ended = subprocess.run(
        words,
        cwd=blocked.repo.path,
        env={**blocked.cli.full_environment(), **armed(str(blocked.tmp / "marks"), point)},
        capture_output=True,
        timeout=100,
        check=False,
    )
    assert ended.returncode == -signal.SIGKILL, ended
    blocked.cli("task", "release", "demo", code=None)
    blocked.cli("watchdog", "--once")
    said = blocked.run("cat a.txt made.txt")
    assert blocked.state() == "done"
    assert blocked.subjects()[:2] == ["demo: Make it.", "needed"]
    assert blocked.repo.read("made.txt") == "made\n"
    assert blocked.repo.read("a.txt").startswith("ONE\n")
    assert blocked.cli("workspace", "list", "--json").json == [], said

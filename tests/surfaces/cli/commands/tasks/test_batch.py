"""`batch example`, `batch run` and its older word `batch watch`: from the manifest to the verdict, with real sessions of the scripted agent."""

from __future__ import annotations

import json
import pathlib
import signal

import pytest

from handoff.base.clock import SystemClock
from relay import manifest
from sandbox import Repo
from screen import Screen
from scripts import handoff, write_script

DONE = {"run": handoff("task", "done", "--summary", "made")}


class Ground:
    """A repository, a folder of scripts by task, and `batch run` with the scripted agent."""

    def __init__(self, cli, repo, folder):
        self.cli, self.repo, self.folder = cli, repo, folder
        (folder / "login").mkdir()
        self.words = ("--agents", "scripted=2", "--with", str(folder / "{task}.toml"))

    def script(self, task, *acts):
        write_script(str(self.folder / f"{task}.toml"), *acts)

    def parts(self, *names):
        for name in names:
            made = {"write": f"src/{name}/made.txt", "text": f"by {name}"}
            self.script(f"login/{name}", made, {"spend": 0.25}, DONE)
        self.script("login-join", DONE)

    def run(self, *words, code=0, **more):
        source = manifest(self.folder / "m.json", **more)
        return self.cli("batch", "run", source, *self.words, *words, code=code)

    def subjects(self):
        return self.repo.git("log", "--format=%s").splitlines()


@pytest.fixture
def ground(cli, repo, tmp_path):
    yield Ground(cli, repo, tmp_path)
    cli("work", "--stop")


def until(true):
    clock = SystemClock()
    while not true():
        clock.sleep(0.05)


@pytest.mark.slow
def test_the_example_is_sound_as_it_is_printed_and_runs_to_its_end(ground):
    shown = ground.cli("batch", "example").out
    (ground.folder / "split.toml").write_text(shown)
    (ground.folder / "greeting").mkdir()
    for name, path in {
        "hello": "greeting/hello.txt",
        "world": "greeting/world.txt",
        "guide": "docs/greeting/guide.md",
    }.items():
        ground.script(f"greeting/{name}", {"write": path, "text": "words\n"}, DONE)
    ground.script("greeting-join", DONE)
    source = str(ground.folder / "split.toml")
    assert "nothing was started" in ground.cli("batch", "run", source, "--check").out
    assert ground.cli("task", "list", "--all", "--json").json["tasks"] == []
    said = ground.cli("batch", "run", source, *ground.words).out
    assert "started with scripted" in said
    assert "Batch greeting has landed: 3 of 3 parts landed on main as " in said
    subjects = ground.subjects()
    assert len(subjects) == 4, "one commit a part"
    assert subjects[0].startswith("guide: "), "the one that waited last"
    until(lambda: "No supervisor works" in ground.cli("work", "--status").out)


@pytest.mark.slow
def test_the_verdict_for_programs_says_what_landed_what_it_cost_and_how_long_it_took(ground):
    ground.parts("form", "api")
    found = ground.run("--json").json
    assert found["verdict"] == "landed"
    assert sorted(found["landed"]) == ["api", "form"]
    assert found["missing"] == {}
    assert found["cost"] == {"scripted": 0.5}
    assert found["commit"] == ground.repo.head()
    assert found["seconds"] > 0
    again = ground.cli("batch", "watch", "login", "--json").json
    assert again["verdict"] == "landed"
    assert "login/api is not on main any more.\n" in ground.cli("undo").out
    said = ground.cli("batch", "watch", "login", code=1).out
    assert "Batch login was taken back: nothing of it is on main any more; " in said
    assert "taken back (scripted)" in said
    assert "landed with its batch" in ground.cli("retry", "login/api", code=4).err
    assert "login/api: landing taken back" in ground.cli("batch", "report", "login").out
    ground.cli("undo")
    assert ground.cli("batch", "watch", "login", "--json").json["verdict"] == "landed"


@pytest.mark.slow
def test_a_part_that_is_blocked_lets_nothing_land_and_can_be_tried_again_and_joined(ground):
    ground.parts("form", "api")
    ground.script("login/api", {"run": handoff("task", "block", "no-key")})
    said = ground.run(code=1).out
    assert "Batch login waits for you: nothing landed, 1 green" in said
    assert "login-join asks: 1 of 2 parts of batch 'login' is missing: api (no-key)" in said
    assert "handoff retry login/api" in said
    assert ground.subjects() == ["first"]
    ground.parts("api")
    ground.cli("retry", "login/api")
    said = ground.cli("batch", "run", "login").out
    assert "2 of 2 parts landed" in said
    assert len(ground.subjects()) == 3


@pytest.mark.slow
def test_in_order_each_part_lands_as_soon_as_it_is_green(ground):
    ground.parts("form", "api")
    ground.script("login/api", {"run": handoff("task", "block", "no-key")})
    said = ground.run("--land", "in-order", code=1).out
    assert "Each part lands as soon as it is green" in said
    assert "1 of 2 parts landed" in said
    assert ground.subjects() == ["form: Build form.", "first"]
    ground.cli("answer", "login-join", "yes")
    said = ground.cli("batch", "watch", "login", code=1).out
    assert "Batch login has landed in part: 1 of 2 parts landed on main" in said
    assert "  Let it try again: handoff retry login/api\n" in said
    assert ground.subjects() == ["form: Build form.", "first"], "what had landed does not land twice"
    assert (
        "Each part landed by its own check alone; the merged result is checked once"
        in ground.cli("batch", "report").out
    )


@pytest.mark.slow
def test_whoever_leaves_is_told_what_goes_on_and_can_join_again(ground):
    ground.parts("form", "api")
    wait = {"run": "while ! test -e src/form/go; do sleep 0.05; done"}
    ground.script("login/form", wait, {"write": "src/form/made.txt", "text": "x"}, DONE)
    source = manifest(ground.folder / "m.json")
    process = ground.cli.start("batch", "run", source, *ground.words)
    while b"login/form: started" not in (line := process.stdout.readline()):
        assert line, process.stderr.read()
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"Batch login goes on" in out
    assert b"nothing was stopped" in out
    assert b"handoff batch run login" in out

    def trees():
        return [one["tree"] for one in ground.cli("workspace", "list", "--json").json if "form" in one["name"]]

    until(trees)  # a session is called started before its clone is listed
    Repo(trees()[0]).write("src/form/go", "where its session can see it")
    assert "has landed" in ground.cli("batch", "watch", "login").out


@pytest.mark.slow
def test_a_batch_that_nobody_works_for_any_more_says_how_to_go_on_with_the_agents_it_had(ground):
    ground.parts("form", "api")
    ground.script("login/form", {"run": "sleep 60"})
    process = ground.cli.start("batch", "run", manifest(ground.folder / "m.json"), *ground.words)
    while b"login/form: started" not in (line := process.stdout.readline()):
        assert line, process.stderr.read()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    ground.cli("work", "--stop")
    said = ground.cli("batch", "watch", "login", code=None)
    assert "Let one work: handoff batch run login --agents scripted\n" in said.err


@pytest.mark.slow
def test_on_a_terminal_the_board_is_shown_and_ends_with_the_batch(ground):
    ground.parts("form", "api")
    source = manifest(ground.folder / "m.json")
    words = ground.cli.command("batch", "run", source, *ground.words)
    screen = Screen(words, cwd=ground.repo.path, env={**ground.cli.full_environment(), "TERM": "xterm-256color"})
    screen.until("2 of 2 parts landed on main", patience=120)
    assert screen.process.wait(timeout=60) == 0


def test_everything_that_is_wrong_is_told_before_anything_starts(ground):
    ground.repo.write("package.json", "{}")
    ground.repo.write("package-lock.json", "{}")
    ground.repo.write("db/migrations/0001_a.sql", "")
    ground.repo.commit("files")
    source = manifest(ground.folder / "m.json")
    with open(source, encoding="utf-8") as file:
        value = json.load(file)
    form, api = value["sub_tasks"]
    form["file_ownership"] += [
        {"type": "exact", "path": "package.json"},
        {"type": "glob", "path": "db/migrations/0002_*.sql"},
    ]
    api["file_ownership"] += [
        {"type": "exact", "path": "package-lock.json"},
        {"type": "glob", "path": "db/migrations/0003_*.sql"},
    ]
    form |= {"needs": ["src/api/x.py"], "check": "python -m pytest tests/test_form.py"}
    with open(source, "w", encoding="utf-8") as file:
        json.dump(value, file, indent=1)
    said = ground.cli("batch", "run", source, *ground.words, code=1).err
    assert "'form' and 'api' both own files of package-lock.json and package.json: a lock file" in said
    assert "'form' and 'api' both own files of db/migrations/: numbered migrations" in said
    assert "'form' needs src/api/x.py, which belongs to 'api'" in said
    assert "the check needs tests/test_form.py, which is not there, and nobody owns it" in said
    assert f"{source}:" in said
    assert ground.cli("task", "list", "--all", "--json").json["tasks"] == []


def test_a_check_that_cannot_be_started_is_a_fault_and_a_red_one_is_not(ground):
    source = manifest(ground.folder / "m.json", check="no-such-program --all")
    said = ground.cli("batch", "run", source, *ground.words, code=1).err
    assert "`no-such-program --all` cannot run" in said
    assert ground.cli("task", "list", "--all", "--json").json["tasks"] == []
    source = manifest(ground.folder / "m.json", check="false")
    said = ground.cli("batch", "run", source, "--check")
    assert "check red (exit 1) before: false" in said.out
    assert ground.cli("workspace", "list", "--json").json == [], "the clone it was tried in is gone"


def test_the_clone_that_checks_are_tried_in_goes_whoever_ends_the_command_and_however(ground):
    def clones():
        return [one["name"] for one in ground.cli("workspace", "list", "--json").json]

    def end_while_it_tries(number):
        command = ground.cli.start("batch", "run", source, "--check")
        until(lambda: list(home.glob("*/workspaces/preflight-login/tree/begun")))
        command.send_signal(number)
        command.communicate()

    home = pathlib.Path(ground.cli.full_environment()["HANDOFF_HOME"])
    source = manifest(ground.folder / "m.json", check="touch begun; test -e go || sleep 60")
    end_while_it_tries(signal.SIGINT)
    assert clones() == []
    end_while_it_tries(signal.SIGKILL)
    assert clones() == ["preflight-login"]
    assert "preflight-login" in ground.cli("project", "tidy").out, "also what is not old yet"
    ground.repo.write("go", "")
    ground.cli("batch", "run", source, "--check")
    assert clones() == []


def test_what_a_check_writes_itself_is_nothing_it_needs(ground):
    source = manifest(ground.folder / "m.json")
    with open(source, encoding="utf-8") as file:
        value = json.load(file)
    check = "echo 1 >count.txt; echo 2>>'log.txt'; echo 3 2> told.txt; cat count.txt log.txt told.txt"
    for ending, code in (("; false", 0), (" never.txt", 1)):
        value["sub_tasks"][0]["check"] = check + ending
        with open(source, "w", encoding="utf-8") as file:
            json.dump(value, file, indent=1)
        said = ground.cli("batch", "run", source, "--check", code=code)
        assert [line for line in said.err.splitlines() if "check needs" in line and "never.txt" not in line] == []
    assert "the check needs never.txt, which is not there" in said.err


def test_the_projects_own_suite_judges_the_whole_if_it_is_green_before(ground):
    ground.repo.write("test_sum.py", "def test_sum():\n    assert 1 + 1 == 2\n")
    ground.repo.write("pytest.ini", "[pytest]\n")
    ground.repo.commit("tests")
    source = manifest(ground.folder / "m.json")
    said = ground.cli("batch", "run", source, "--check", "--json").json
    (command,) = said["checks_before"]
    assert "pytest" in command


def test_nobody_is_started_without_an_agent_or_with_one_that_is_not_known(ground):
    source = manifest(ground.folder / "m.json")
    assert "which agent works" in ground.cli("batch", "run", source, code=1).err
    ground.cli("batch", "run", source, "--agents", "nobody-knows", code=1)
    assert "does not say how many" in ground.cli("batch", "run", source, "--agents", "scripted=x", code=1).err
    assert ground.cli("task", "list", "--all", "--json").json["tasks"] == []

"""A part that several sessions run for: evidence says who won, exactly one result lands, and what the others made is kept."""

from __future__ import annotations

import json

import pytest

from relay import manifest
from scripts import handoff, write_script

DONE = {"run": handoff("task", "done", "--summary", "made")}
SHORT = "def add(a, b):\n    return a + b\n"
LONG = SHORT + "".join(f"\n\ndef more_{n}(a):\n    return a + {n}\n" for n in range(6))


class Race:
    """A batch of which the part `form` is raced, on the command line."""

    def __init__(self, cli, repo, folder):
        self.cli, self.repo, self.folder = cli, repo, folder

    def open(self, race=2, parts=("form", "api"), **more):
        path = manifest(self.folder / "m.json", parts=parts, **more)
        with open(path, encoding="utf-8") as file:
            value = json.load(file)
        value["sub_tasks"][0]["race"] = race
        with open(path, "w", encoding="utf-8") as file:
            json.dump(value, file)
        return self.cli("dump", "--open-batch", path)

    def work(self, task, *acts, code=0):
        script = write_script(str(self.folder / "script.toml"), *acts)
        return self.cli("session", "start", task, "--agent", "scripted", "--with", script, code=code)

    def make(self, task, text=SHORT, *acts):
        return self.work(task, {"write": "src/form/made.py", "text": text}, *acts, DONE)

    def block(self, task, code=1):
        return self.work(task, {"run": handoff("task", "block", "no-key")}, code=code)

    def states(self):
        tasks = self.cli("task", "list", "--all", "--json").json["tasks"]
        return {task["task"].rpartition("/")[2]: task["state"] for task in tasks}

    def report(self):
        return self.cli("batch", "report", "login", "--json").json


@pytest.fixture
def race(cli, repo, tmp_path):
    return Race(cli, repo, tmp_path)


@pytest.mark.slow
def test_the_smaller_of_two_green_changes_wins_and_alone_lands_while_the_other_is_kept(race, repo):
    race.open(race=3)
    assert race.states() == dict.fromkeys(("form-1", "form-2", "form-3", "api"), "ready") | dict.fromkeys(
        ("form", "login-join"), "waiting"
    )
    race.make("form-1", LONG)
    race.make("form-2", SHORT)
    assert race.states()["form"] == "waiting", "one still runs"
    race.work("form-3", {"write": "other.txt", "text": "not mine"}, DONE, {"exit": 1}, code=1)
    race.block("form-3", code=None)
    states = race.states()
    assert (states["form"], states["form-2"], states["form-3"]) == ("done", "done", "cancelled")
    race.work("api", {"write": "src/api/made.txt", "text": "made"}, DONE)
    race.work("login-join", DONE)
    assert repo.read("src/form/made.py") == SHORT
    assert repo.read("src/api/made.txt") == "made"
    assert repo.git("log", "--format=%s", "-2").split("\n")[:2] == ["api: Build api.", "form: Build form."]
    assert "Handoff-Task: login/form\n" in repo.git("log", "-1", "--format=%B", "HEAD~1")
    assert repo.git("branch", "--list", "handoff/*") == ""
    assert race.cli("workspace", "list", "--json").json == []
    (told,) = race.report()["races"]
    assert told["winner"] == "form-2"
    lost = {one["id"]: one for one in told["entrants"]}
    assert "changes more (26 lines against 2)" in lost["form-1"]["why"]
    assert "no-key" in lost["form-3"]["why"]
    assert "form-2 (scripted) won of 3" in race.cli("batch", "report", "login").out
    kept = race.cli("snapshot", "list", "--json").json["snapshots"]
    lost_work = next(one for one in kept if one["workspace"].startswith("login-form-1-"))
    race.cli("snapshot", "restore", lost_work["id"][:10], "--into", str(race.folder / "back"))
    assert (race.folder / "back" / "src" / "form" / "made.py").read_text() == LONG
    assert repo.git("status", "--porcelain") == ""


def test_a_weakened_test_and_a_trespass_lose_against_a_larger_change(race, repo):
    repo.write("src/form/test_add.py", "def test_add():\n    assert 1 + 1 == 2\n    assert 2 + 2 == 4\n")
    repo.commit("tests")
    race.open(race=3)
    race.make("form-1", SHORT, {"write": "src/form/test_add.py", "text": "def test_add():\n    assert 1 + 1 == 2\n"})
    refused = {**DONE, "may_fail": True}
    race.make("form-2", SHORT, {"write": "other.txt", "text": "x"}, refused, {"delete": "other.txt"})
    race.make("form-3", LONG)
    (told,) = race.report()["races"]
    assert told["winner"] == "form-3"
    why = {one["id"]: one["why"] for one in told["entrants"]}
    assert why["form-1"].startswith("weakened a test: src/form/test_add.py")
    assert why["form-2"] == "changed what it does not own: other.txt"


def test_what_nothing_tells_apart_is_a_persons_to_choose_and_both_diffs_are_named(race, repo):
    race.open(race=["scripted", "scripted"])
    race.make("form-1", SHORT)
    race.make("form-2", SHORT.replace("a + b", "b + a"))
    assert race.states()["form"] == "gated"
    (gate,) = race.cli("gate", "list", "--json").json
    assert "form-1 and form-2 are equally good" in gate["question"]
    branches = [line.split()[-1] for line in gate["question"].splitlines() if "git show" in line]
    assert [repo.git("show", "--stat", name).count("src/form/made.py") for name in branches] == [1, 1]
    race.cli("answer", "login/form", "yes", "form-2")
    assert race.states()["form"] == "done"
    race.work("api", {"write": "src/api/made.txt", "text": "made"}, DONE)
    race.work("login-join", DONE)
    assert repo.read("src/form/made.py") == SHORT.replace("a + b", "b + a")
    assert race.report()["races"][0]["words"] == "form-2 (scripted) won of 2: a person chose it"


def test_a_race_that_nobody_won_blocks_its_part_and_a_retry_lets_everybody_run_again(race):
    race.open()
    race.block("form-1")
    assert "form-1" not in race.cli().out.partition("NEXT")[0], "the others still run"
    race.block("form-2")
    assert race.states()["form"] == "blocked"
    race.cli("retry", "login/form")
    assert (race.states()["form"], race.states()["form-1"], race.states()["form-2"]) == ("waiting", "ready", "ready")
    race.make("form-1")
    race.cli("cancel", "login/form-2")
    assert race.states()["form"] == "done"
    assert "is over" in race.cli("retry", "login/form-2", code=4).err or race.states()["form-2"] == "cancelled"


@pytest.mark.slow
def test_a_winner_that_makes_the_whole_red_is_sent_back_and_the_next_in_line_takes_its_place(race, repo):
    check = "test ! -e src/form/made.py || ! grep -q sum src/form/made.py || { echo no sum please; exit 1; }"
    race.open(check=check)
    race.make("form-1", SHORT.replace("a + b", "sum((a, b))"))
    race.make("form-2", LONG)
    assert race.report()["races"][0]["winner"] == "form-1"
    race.work("api", {"write": "src/api/made.txt", "text": "made"}, DONE)
    race.work("login-join", DONE, code=None)
    states = race.states()
    assert (states["form"], states["form-1"], states["form-2"]) == ("waiting", "ready", "done")
    assert "no sum please" in race.cli("show", "login/form-1").out
    race.block("form-1", code=None)
    assert race.states()["form"] == "done"
    assert race.report()["races"][0]["winner"] == "form-2"
    race.work("login-join", DONE)
    assert repo.read("src/form/made.py") == LONG


def test_a_late_runner_changes_nothing_when_the_race_is_over(race, repo):
    race.open()
    claimed = race.cli("task", "claim", "login/form-1", "--session", "s-late", "--json").json
    race.make("form-2")
    race.cli("cancel", "login/form-1")
    assert race.states()["form"] == "done"
    late = ("--task", "login/form-1", "--session", "s-late", "--fence", str(claimed["fence"]))
    race.cli("task", "done", *late, "--summary", "late", code=4)
    assert race.states()["form"] == "done"
    assert race.report()["races"][0]["winner"] == "form-2"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (1, "from 2 to 8 may run for a part"),
        ("three", "race"),
        ([1, 2], "race"),
    ],
)
def test_a_race_that_cannot_be_is_refused_with_its_line(race, value, said):
    path = manifest(race.folder / "m.json")
    with open(path, encoding="utf-8") as file:
        text = file.read().replace('"brief": "Build form."', f'"brief": "Build form.", "race": {json.dumps(value)}')
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    answer = race.cli("dump", "--open-batch", path, code=1)
    assert "m.json:" in answer.err
    assert said in answer.err

"""`split`: an agent plans, the plan is judged, and a person says go, edit or plan again."""

from __future__ import annotations

import json

import pytest

from handoff.base.clock import SystemClock
from handoff.engine.work.tasks.manifests import example
from relay import manifest
from screen import Screen
from scripts import handoff, write_script

DONE = {"run": handoff("task", "done", "--summary", "made")}
PLAN = "split-greet-everybody"


def until(true):
    clock = SystemClock()
    while not true():
        clock.sleep(0.2)


class Ground:
    """Scripts by task: a planner and the parts of the example."""

    def __init__(self, cli, repo, folder):
        self.cli, self.repo, self.folder = cli, repo, folder
        (folder / "greeting").mkdir()
        for name, path in {
            "hello": "greeting/hello",
            "world": "greeting/world",
            "guide": "docs/greeting/guide",
        }.items():
            ending = "md" if name == "guide" else "txt"
            self.script(f"greeting/{name}", {"write": f"{path}.{ending}", "text": "words\n"}, DONE)
        self.script("greeting-join", DONE)
        self.words = ("--agents", "scripted=2", "--with", str(folder / "{task}.toml"))

    def script(self, task, *acts):
        write_script(str(self.folder / f"{task}.toml"), *acts)

    def planner(self, text="", *acts):
        self.script(PLAN, *acts, {"write": "handoff-split.toml", "text": text or example()}, DONE)

    def split(self, *words, code=0):
        return self.cli("split", "Greet everybody", *self.words, *words, code=code)

    def gates(self):
        return [line.split()[0] for line in self.cli("gate", "list").out.splitlines() if " open " in line]


@pytest.fixture
def ground(cli, repo, tmp_path):
    yield Ground(cli, repo, tmp_path)
    cli("work", "--stop")


def test_a_plan_is_shown_with_table_graph_and_advice_and_waits_for_a_word(ground):
    ground.planner(example(), {"expect": "Greet everybody"}, {"expect": "Make 3 parts."})
    said = ground.split("--parts", "3").out
    assert "  hello          10   any    greeting/hello.txt   test -s greeting/hello.txt (red (exit 1))" in said
    assert "  hello ─┬─▶ guide ───▶ greeting-join\n  world ─┘\n" in said
    assert "25 min one after the other, 20 side by side: 1.2 times faster" in said
    assert "Advice: do not split" in said
    assert ground.gates() == [PLAN]
    assert ground.repo.git("status", "--porcelain") == "", "the plan is no file of the person's"
    ground.cli("answer", PLAN, "yes")
    tasks = {task["task"]: task["state"] for task in ground.cli("task", "list", "--json").json["tasks"]}
    assert tasks == {
        "greeting/hello": "ready",
        "greeting/world": "ready",
        "greeting/guide": "waiting",
        "greeting-join": "waiting",
    }


@pytest.mark.slow
def test_with_go_one_command_leads_from_the_request_to_the_verdict(ground):
    ground.planner()
    said = ground.split("--go").out
    assert "Batch greeting has landed: 3 of 3 parts landed on main" in said
    assert ground.repo.git("log", "--format=%s").count("\n") == 4, "one commit a part, and none of the plan"
    until(lambda: ground.cli("workspace", "list", "--json").json == [])


def test_a_plan_with_faults_is_an_attempt_and_the_next_one_reads_why(ground):
    ground.planner(example().replace('"greeting/world*.txt"', '"greeting/**"'))
    said = ground.split(code=1)
    assert "both own greeting/hello.txt" in said.err
    assert f"{PLAN} is blocked" in said.out
    assert ground.gates() == []
    history = ground.cli("show", PLAN).out
    assert "both own greeting/hello.txt" in history


def test_a_planner_that_asks_is_answered_and_plans_then(ground):
    ground.script(PLAN, {"run": handoff("task", "ask", "'Two or three?'")})
    said = ground.split(code=1).out
    assert f"{PLAN} asks: Two or three?" in said
    assert f"answer {PLAN}" in said
    assert ground.gates() == [PLAN]
    ground.cli("answer", PLAN, "three")
    assert "greeting" not in ground.cli("task", "list").out, "an answer is no yes to a plan"
    ground.planner(example(), {"expect": "three"})
    ground.cli("session", "start", PLAN, "--agent", "scripted", "--with", str(ground.folder / f"{PLAN}.toml"))
    ground.cli("answer", PLAN, "yes")
    assert "greeting-join" in ground.cli("task", "list").out


def test_a_changed_plan_must_be_sound_too_before_the_yes_counts(ground):
    ground.planner()
    ground.split()
    wrong = example().replace('batch_id = "greeting" ', 'batch_id = "x" ')
    said = ground.cli("answer", PLAN, "yes", "--text", wrong, code=1).err
    assert "batch_id" in said
    assert ground.gates() == [PLAN], "it still waits"
    ground.cli("answer", PLAN, "yes", "--text", example().replace('"greeting-join"', '"greeting-end"'))
    assert "greeting-end" in ground.cli("task", "list").out


def test_at_a_terminal_a_person_can_let_it_be_planned_again_with_words_and_then_leave(ground):
    ground.planner()
    words = ground.cli.command("split", "Greet everybody", *ground.words)
    screen = Screen(words, cwd=ground.repo.path, env={**ground.cli.full_environment(), "TERM": "dumb"}, columns=150)
    screen.until("[g/e/a/l]")
    ground.planner(example().replace('"hello"', '"hallo"'), {"expect": "name it in German"})
    screen.type("a\n")
    screen.until("How instead?")
    screen.type("name it in German\n")
    screen.until("hallo", "[g/e/a/l]")
    screen.type("l\n")
    screen.until("It waits for your word")
    assert screen.process.wait(timeout=60) == 0
    assert ground.gates() == [PLAN]


def test_a_manifest_written_by_hand_takes_the_same_way(ground):
    source = manifest(ground.folder / "m.json")
    said = ground.cli("split", source, "--json").json
    assert [part["id"] for part in said["parts"]] == ["form", "api"]
    assert said["coupling"]["word"] == "unknown"
    assert said["forecast"]["speedup"] == 2
    with open(source, encoding="utf-8") as file:
        value = json.load(file)
    value["sub_tasks"][0]["file_ownership"] = [{"type": "prefix", "path": "src/"}]
    with open(source, "w", encoding="utf-8") as file:
        json.dump(value, file)
    assert "both own" in ground.cli("split", source, code=1).err


def test_a_step_of_the_plan_is_what_the_planner_is_asked_to_split(ground):
    ground.cli("init", "greet")
    ground.repo.write(
        ".handoff/features/greet/STATE.md",
        "# State\n\n# Current Step\nGreet everybody\n\n# Execution Plan\n- [x] Begin\n- [>] Greet everybody\n- [ ] Go home\n",
    )
    ground.script(
        "split-of-the-feature-greet-its-documents-are",
        {"expect": "2. Greet everybody"},
        {"run": handoff("task", "block", "no")},
    )
    said = ground.cli("split", "--step", "2", *ground.words, code=1)
    assert "is blocked" in said.out
    assert "has no step 9" in ground.cli("split", "--step", "9", *ground.words, code=1).err


def test_a_plan_that_is_a_link_is_no_plan_and_shows_nothing_of_where_it_points(ground, tmp_path):
    secret = tmp_path / "key"
    secret.write_text("[[sub_task]]\nid = 'PRIVATE'\n")
    ground.script(PLAN, {"run": f"ln -s {secret} handoff-split.toml"}, DONE)
    said = ground.split(code=1)
    assert "it wrote no handoff-split.toml" in said.out + said.err
    assert "PRIVATE" not in said.out + said.err + ground.cli("log", PLAN).out

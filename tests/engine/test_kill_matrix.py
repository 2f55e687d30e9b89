"""Every kind of work is killed at every step from its session's end to its branch, on both databases, and comes true once."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys

import pytest

import points
from desk import NOTES, Desk
from flow_ground import ADD, LIST, TEST_ADD, FlowGround, case, module
from handoff.board.sessions import pauses
from handoff.board.tasks import batches
from handoff.board.tasks import flows as flow_rows
from handoff.engine.place import pulse
from handoff.engine.work.flows import flows
from handoff.engine.work.tasks.manifests import example
from handoff.engine.work.tasks.splitting import planner
from sandbox import Cli, Repo
from scripts import handoff
from source import ROOT, functions, package_modules

PATIENCE = 500.0
QUICK = pytest.mark.parametrize("place", ["sqlite", pytest.param("postgres", marks=pytest.mark.slow)], indirect=True)


def test_every_point_is_a_function_that_is_there():
    there = set()
    for one in package_modules():
        place = one.name.removesuffix(".py").split("/")[-2:]
        there |= {".".join([*place, function.name]) for function in functions(one)}
    named = {
        value for value in vars(points).values() if isinstance(value, str) and value.endswith((":call", ":return"))
    }
    grouped = {
        one
        for name, group in vars(points).items()
        if name.startswith(("OF_", "_")) and isinstance(group, tuple)
        for one in group
    }
    assert sorted(point for point in named | grouped if point.rpartition(":")[0] not in there) == []


def killed_until(ground, at, over, more=None) -> None:
    """Supervisors, each killed at the next of these points, until all were met and nothing is left to do.

    Whoever repeats what was killed may take another way: there is `more` to do until each point was met.
    """
    ground.supervisor(*at, limit=1)

    def reached() -> bool:
        code = ground.supervisors[-1].poll()
        if code is not None:
            assert code == -signal.SIGKILL, f"exit {code}\n{ground.story()}"
            ground.supervisor(*at, limit=1)
        if not over() or not concluded(ground):
            return False
        if not_met(ground, at) and more is not None:
            more()
        return not not_met(ground, at)

    try:
        ground.until(reached, "all is done and concluded, and every point was met", patience=PATIENCE)
    except AssertionError as error:
        raise AssertionError(f"not met: {not_met(ground, at)}\n{error}") from None
    ground.supervisors[-1].kill()
    ground.supervisors[-1].wait()


def not_met(ground, at) -> list[str]:
    return sorted(set(at) - {name.replace("-", ":") for name in os.listdir(ground.points)})


def concluded(ground) -> bool:
    told = [event.session for event in ground.events() if event.kind == "session.concluded"]
    return len(told) == ground.count("task.claimed") and not pulse.listing(ground.app) and not ground.agents()


def new_marks(ground, name) -> None:
    """What was met so far is forgotten."""
    ground.points = os.path.join(ground.folder, name)
    os.makedirs(ground.points)


def agents_begun(ground) -> list[str]:
    """The tasks whose agents really ran, once for each time."""
    return sorted(line.split()[1].rpartition("/")[2] for line in ground.trace_lines() if line.startswith("begin"))


def check_done_once(ground, *names) -> None:
    """Finished once, by the one session that was paid for it."""
    for name in names:
        kinds = [event.kind for event in ground.events() if event.task_id.endswith(name)]
        assert (kinds.count("task.claimed"), kinds.count("task.finished")) == (1, 1), ground.story()
        assert (kinds.count("session.concluded"), agents_begun(ground).count(name)) == (1, 1), ground.story()
        assert ground.tasks()[name].attempt == 1


def check_landed_once(ground, *names) -> None:
    """On the branch and in the checkout once, with its record, and nothing of it is left lying about."""
    repo = Repo(ground.repo)
    for name in names:
        (commit,) = repo.git("log", "--format=%H", "main", "--", f"{name}.txt").split()
        assert commit in notes(repo), name
        assert repo.read(f"{name}.txt").startswith(f"{name}\n")
    assert repo.git("status", "--porcelain") == ""
    refs = ("for-each-ref", "refs/heads/handoff", "refs/handoff/work")
    ground.until(lambda: repo.git(*refs) == "", "what has landed is tidied away")
    repo.git("fsck", "--strict")


def notes(repo) -> set[str]:
    """The commits that have a record."""
    return {line.split()[1] for line in repo.git("notes", "--ref", "handoff", "list", check=False).splitlines()}


@pytest.fixture
def night(ground):
    """Tasks that work in clones and are published; no sandbox, which would keep the traces inside."""
    shared = os.path.join(ground.folder, "shared.git")
    Repo(ground.repo).git("init", "-q", "--bare", shared)
    Repo(ground.repo).write(".gitignore", ".handoff/\n")
    Repo(ground.repo).commit("ignore")
    ground.settings(f'session_sandbox = "none"\ngit_remote = "{shared}"\n', place="clone")
    return ground


def made(name) -> dict:
    return {"write": f"{name}.txt", "text": f"{name}\n"}


def tasks_to_kill(night, *last):
    """What adds one more task, made from a step of a plan, that writes a file and a line of a document; the names so far."""
    names: list[str] = []
    Cli(night.repo)("init", "shop")
    Repo(night.repo).write(NOTES, "before\n")

    def more() -> None:
        names.append(f"work-{len(names) + 1}")
        Cli(night.repo)("step", "add", names[-1], "--check", f"test -f {names[-1]}.txt")
        step = {"root": night.repo, "feature": "shop", "text": names[-1]}
        learned = {"run": f"echo learned by {names[-1]} >> {NOTES}"}
        order = {"check_command": f"test -f {names[-1]}.txt", "baseline": {"step": step}}
        night.add(names[-1], made(names[-1]), learned, *last, **order)

    return more, names


def check_tasks(night, names) -> None:
    check_done_once(night, *names)
    check_landed_once(night, *names)
    lines = Repo(night.repo).read(NOTES).splitlines()
    assert lines == ["before", *(f"learned by {name}" for name in names)]
    assert Cli(night.repo)("status", "--json").json["plan"]["done"] == len(names)


@pytest.mark.slow
def test_tasks_land_once_whoever_is_killed_on_the_way(night):
    more, names = tasks_to_kill(night)
    more()
    killed_until(night, points.beside(night.app.database.kind, points.OF_TASKS), night.done, more)
    check_tasks(night, names)


@pytest.mark.slow
def test_a_report_that_is_killed_on_the_way_and_made_again_lands_once(night):
    armed = points.armed(night.points, *points.OF_REPORTS).items()
    report = " ".join([*(f"{name}={shlex.quote(value)}" for name, value in armed), handoff("task", "done")])
    more, names = tasks_to_kill(
        night, {"run": f"for n in 1 2 3 4 5 6 7 8 9 10 11 12 13 14; do {report} && break; done"}
    )
    more()
    night.supervisor(limit=1)

    def reached() -> bool:
        if night.done() and concluded(night) and not_met(night, points.OF_REPORTS):
            more()
        return night.done() and concluded(night)

    night.until(reached, "all is done and concluded, and every point was met", patience=PATIENCE)
    check_tasks(night, names)


def open_batch(ground, *names, race=(), owns=(), check="") -> None:
    parts = [
        batches.SubTask(name, f"do {name}", check_command=f"test -f {name}.txt", owns=(f"{name}.txt", *owns), race=race)
        for name in names
    ]
    for name in names:
        for entrant in (f"{name}-{number + 1}" for number in range(len(race))) if race else (name,):
            ground.script(f"night/{entrant}", made(name))
    ground.script("join")
    whole = check or " && ".join(f"test -f {name}.txt" for name in names)
    join = batches.SubTask("join", "join them", check_command=whole)
    batches.open_batch(
        ground.app.database, project="demo", id="night", sub_tasks=parts, fan_in=join, workspace=ground.repo
    )


@pytest.mark.slow
def test_parts_and_their_fan_in_land_once_whoever_is_killed_on_the_way(night):
    names = ("one", "two", "three")
    open_batch(night, *names)
    pauses.pause(night.app.database, scope=pauses.TASK, project="demo", name="join")
    killed_until(night, points.OF_PARTS, lambda: night.states() == {**dict.fromkeys(names, "done"), "join": "ready"})
    new_marks(night, "joined")
    pauses.resume(night.app.database, scope=pauses.TASK, project="demo", name="join")
    killed_until(night, points.OF_FAN_INS, night.done)
    check_done_once(night, *names, "join")
    check_landed_once(night, *names)
    assert (night.count("batch.joined"), night.count("batch.finished")) == (1, 1)


@pytest.mark.slow
def test_a_race_is_decided_once_whoever_is_killed_on_the_way(night):
    open_batch(night, "one", race=("", ""))
    night.script("night/one-1", made("one"), {"run": "seq 40 >> one.txt"})
    pauses.pause(night.app.database, scope=pauses.TASK, project="demo", name="join")
    killed_until(night, points.OF_ENTRANTS, lambda: night.states()["join"] == "ready")
    assert night.states()["one"] == "done", night.story()
    check_done_once(night, "one-1", "one-2")
    decided = [event for event in night.events() if event.kind == "task.finished" and event.task_id == "night/one"]
    assert len(decided) == 1
    pauses.resume(night.app.database, scope=pauses.TASK, project="demo", name="join")
    night.supervisor(limit=1)
    night.until(lambda: night.done() and concluded(night), "it is joined")
    check_landed_once(night, "one")


@pytest.mark.slow
def test_a_part_that_makes_the_whole_red_is_sent_back_once_whoever_is_killed_on_the_way(night):
    open_batch(night, "one", "two", check="! grep -qs bad one.txt")
    night.script("night/one", {"run": "if test $HANDOFF_FENCE = 1; then echo bad; else echo one; fi > one.txt"})
    killed_until(night, points.OF_SENT_BACK, night.done)
    kinds = [event.kind for event in night.events() if event.task_id == "night/one"]
    assert (kinds.count("task.claimed"), kinds.count("task.finished")) == (2, 2), night.story()
    assert sorted(agents_begun(night)).count("one") == 2
    check_done_once(night, "two")
    check_landed_once(night, "one", "two")
    assert night.count("batch.finished") == 1


@pytest.mark.slow
def test_a_conflict_is_settled_once_whoever_is_killed_on_the_way(night):
    Repo(night.repo).write("both.txt", "nobody\n")
    Repo(night.repo).commit("both")
    open_batch(night, "one", "two", owns=("both.txt",), check="grep -q settled both.txt")
    for name in ("one", "two"):
        night.script(f"night/{name}", made(name), {"write": "both.txt", "text": f"{name}\n"})
    night.script("join", {"write": "both.txt", "text": "settled\n"})
    killed_until(night, points.OF_SETTLED, night.done)
    check_done_once(night, "one", "two", "join")
    check_landed_once(night, "one", "two")
    assert Repo(night.repo).read("both.txt") == "settled\n"


# --- flows ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def calc(ground, tmp_path, monkeypatch):
    """The ground of a flow, with supervisors."""
    found = FlowGround(str(tmp_path / "calc"), str(tmp_path / "unused"))
    ground.repo = found.repo.path
    ground.settings('session_sandbox = "none"\n', place="clone")
    monkeypatch.chdir(ground.repo)
    found.relay = ground
    return found


def verified(ground, flow) -> list[str]:
    return [event.body["phase"] for event in flows.history(ground.app, flow) if event.kind == "flow.verified"]


@pytest.mark.slow
def test_phases_of_a_flow_are_done_once_whoever_is_killed_on_the_way(calc):
    ground = calc.relay
    ground.script("1-plan", {"write": "test-list.md", "text": LIST})
    ground.script("1-red", {"write": "tests/test_add.py", "text": TEST_ADD})
    ground.script("1-green", {"append": "calc.py", "text": "\n\n" + ADD})
    ground.script("1-refactor", {"write": "calc.py", "text": '"""Sums."""\n\nNAME = "calc"\n\n\n' + ADD})
    flow = calc.start(ground.app, max_cycles=1)
    killed_until(ground, points.OF_PHASES, lambda: flow_rows.get(ground.app.database, key=flow.key).cycle == 2)
    assert calc.commits() == [
        "plan: adds two numbers comes next (2 open, 0 done)", "test: adds two numbers", "feat: adds two numbers",
        "refactor: tidy up after: adds two numbers",
    ]  # fmt: skip
    assert agents_begun(ground) == ["1-green", "1-plan", "1-red", "1-refactor"], "no agent worked twice"
    assert verified(ground, flow) == ["baseline", "plan", "red", "green", "refactor"]
    assert len(notes(calc.repo)) == 5, "baseline and each of the four commits, once"
    check_done_once(ground, "1-plan", "1-red", "1-green", "1-refactor")


STATE = """# State

# Current Step
The greeting

# Execution Plan
- [ ] The greeting says a name (check: grep -q 'def greet' greet.py)
- [ ] It is loud (check: grep -q upper greet.py)
"""


FEATURE = ".handoff/features/greet"
TICKED = STATE.replace("- [ ]", "- [x]") + "- [ ] It says hello (check: grep -q Hello greet.py)\n"
REVIEW = ".handoff/review.md"
ONE_TEST = "# Tests\n\n- [ ] adds two numbers\n"
HIDDEN = module("More", "add", case("more", "self.assertEqual(add(20, 22), 42)"))
CYCLE = {
    "1-plan": {"write": "test-list.md", "text": ONE_TEST},
    "1-red": {"write": "tests/test_add.py", "text": TEST_ADD},
    "1-green": {"append": "calc.py", "text": "\n\n" + ADD},
    "1-refactor": {"write": "calc.py", "text": '"""Sums."""\n\nNAME = "calc"\n\n\n' + ADD},
    "2-plan": {"say": "nothing is missing"},
}
WALKS = {
    "tdd": CYCLE,
    "tdd-strict": {"1-hidden": {"write": "tests/test_more.py", "text": HIDDEN}, **CYCLE},
    "feature": {
        "1-spec": {"write": f"{FEATURE}/SPEC.md", "text": "# Spec\n\nIt greets.\n"},
        "1-design": {"write": f"{FEATURE}/DESIGN.md", "text": "# Design\n\nOne file.\n"},
        "1-plan": {"write": f"{FEATURE}/STATE.md", "text": STATE},
        "1-step": {"write": "greet.py", "text": "def greet(n):\n    return n\n"},
        "2-step": {"write": "greet.py", "text": "def greet(n):\n    return n.upper()\n"},
        "2-review": {"write": REVIEW, "text": "verdict: changes\n\nSay hello.\n"},
        "2-replan": {"write": f"{FEATURE}/STATE.md", "text": TICKED},
        "3-step": {"write": "greet.py", "text": 'def greet(n):\n    return "Hello " + n.upper()\n'},
        "3-review": {"write": REVIEW, "text": "verdict: approved\n\nFine.\n"},
    },
    "review": {
        "1-implement": {"append": "calc.py", "text": "\n\n" + ADD},
        "1-review": {"write": REVIEW, "text": "verdict: changes\n\nTest it.\n"},
        "1-fix": {"write": "tests/test_add.py", "text": TEST_ADD},
        "2-review": {"write": REVIEW, "text": "verdict: approved\n\nFine.\n"},
    },
}
COMMITS = {
    "tdd": ["plan", "test", "feat", "refactor"], "tdd-strict": ["plan", "test", "feat", "refactor"],
    "feature": ["feat", "feat", "feat"], "review": ["feat", "fix"],
}  # fmt: skip
BARE = {"tdd": ["2-whole"], "tdd-strict": ["2-whole"]}


def stepped(ground, flow, folder) -> int:
    """One `flow step` as a process that dies at the points that were not met in that folder; its exit code."""
    os.makedirs(folder, exist_ok=True)
    word = os.path.join(ground.scripts, "{task}.toml")
    plan = {"points": points.OF_EVERY_PHASE, "folder": folder, "flow": flow.key, "word": word, "steps": 1, "until": 9}
    with open(os.path.join(ground.folder, "plan.json"), "w", encoding="utf-8") as file:
        json.dump(plan, file)
    support = os.path.join(ROOT, "tests", "support")
    done = subprocess.run(
        [sys.executable, os.path.join(support, "flow_step.py"), file.name], cwd=ground.repo, capture_output=True,
        env={**os.environ, "PYTHONPATH": support}, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode in (0, -signal.SIGKILL), done.stdout.decode() + done.stderr.decode()
    return done.returncode


@pytest.mark.slow
@pytest.mark.parametrize("workflow", WALKS)
def test_every_phase_of_a_packaged_workflow_is_done_once_wherever_its_process_is_killed(calc, workflow):
    ground, walk = calc.relay, WALKS[workflow]
    for name, act in walk.items():
        ground.script(name, act)
    if workflow == "feature":
        Cli(ground.repo)("init", "greet")
        Cli(ground.repo)("ignore")
        calc.repo.write(f"{FEATURE}/FEATURE.md", "# Feature: greet\n\n## Goal\nGreet people by name, loudly.\n")
    flow = calc.start(ground.app, workflow, feature="greet" if workflow == "feature" else "")
    met, killed = os.path.join(ground.folder, "met"), 0
    while flow.state == "running":
        killed += stepped(ground, flow, os.path.join(met, f"{flow.cycle}-{flow.phase}")) < 0
        assert killed < 400, ground.story()
        flow = flow_rows.get(ground.app.database, key=flow.key)
    assert flow.state == "done", flow.reason
    reached = {name: {one.replace("-", ":") for one in os.listdir(os.path.join(met, name))} for name in os.listdir(met)}
    assert sorted(reached) == sorted([*walk, *BARE.get(workflow, ())])
    assert [name for name, found in reached.items() if set(points.PHASE_ALWAYS) - found] == []
    assert killed == sum(map(len, reached.values()))
    assert agents_begun(ground) == sorted(walk), "no agent worked twice"
    names = [name.partition("-")[2] for name in [*walk, *BARE.get(workflow, ())]]
    assert [phase for phase in verified(ground, flow) if phase != "baseline"] == names
    assert [line.partition(":")[0] for line in calc.commits()] == COMMITS[workflow]
    noted = notes(calc.repo)
    assert set(calc.repo.git("log", "--format=%H", "main..handoff/calc").split()) <= noted
    if workflow == "feature":
        assert calc.repo.read(f"{FEATURE}/SPEC.md") == walk["1-spec"]["text"]
        assert calc.repo.read(f"{FEATURE}/STATE.md").count("- [x]") == 3
    kinds = [event.kind for event in ground.events()]
    assert (kinds.count("task.claimed"), kinds.count("task.finished")) == (len(walk), len(walk)), ground.story()
    assert calc.repo.git("status", "--porcelain") == ""


@pytest.mark.slow
def test_documents_and_steps_of_a_flow_come_home_once_whoever_is_killed_on_the_way(calc):
    ground, folder = calc.relay, ".handoff/features/greet"
    Cli(ground.repo)("init", "greet")
    Cli(ground.repo)("ignore")
    calc.repo.write(f"{folder}/FEATURE.md", "# Feature: greet\n\n## Goal\nGreet people by name, loudly.\n")
    ground.script("1-spec", {"write": f"{folder}/SPEC.md", "text": "# Spec\n\nIt greets.\n"})
    ground.script("1-design", {"write": f"{folder}/DESIGN.md", "text": "# Design\n\nOne file.\n"})
    ground.script("1-plan", {"write": f"{folder}/STATE.md", "text": STATE})
    ground.script("1-step", {"write": "greet.py", "text": "def greet(n):\n    return n\n"})
    ground.script("2-step", {"write": "greet.py", "text": "def greet(n):\n    return n.upper()\n"})
    ground.script("2-review", {"write": ".handoff/review.md", "text": "verdict: approved\n\nFine.\n"})
    flow = calc.start(ground.app, "feature", feature="greet")
    killed_until(ground, points.OF_DOCUMENTS, lambda: flow_rows.get(ground.app.database, key=flow.key).state == "done")
    assert calc.repo.read(f"{folder}/SPEC.md") == "# Spec\n\nIt greets.\n"
    assert calc.repo.read(f"{folder}/STATE.md").count("- [x]") == 2
    assert calc.commits() == ["feat: The greeting says a name", "feat: It is loud"]
    names = ["1-design", "1-plan", "1-spec", "1-step", "2-review", "2-step"]
    assert agents_begun(ground) == names, "no agent worked twice"
    assert verified(ground, flow) == ["spec", "design", "plan", "step", "step", "review"]
    check_done_once(ground, *names)


@pytest.mark.slow
def test_a_phase_without_a_session_is_done_once_whoever_is_killed_on_the_way(calc, cli):
    ground, desk = calc.relay, Desk(calc.relay, calc.repo, Cli(calc.repo.path))
    pauses.pause(ground.app.database)  # the phase after it has a session, which begins later
    words = ("flow", "start", "tdd", "--request", "a calculator", "--id", "calc", "--agent", "scripted")
    desk.killed(points.PHASE_JUDGING, *words)
    (flow,) = flow_rows.listing(ground.app.database, project="calc")
    killed_until(
        ground, points.OF_BARE_PHASES, lambda: flow_rows.get(ground.app.database, key=flow.key).phase == "plan"
    )
    assert verified(ground, flow) == ["baseline"]
    assert ground.states() == {"1-plan": "ready"}
    assert len(notes(calc.repo)) == 1


# --- a person's words -----------------------------------------------------------------------------------------------


@pytest.fixture
def desk(ground, repo, cli, monkeypatch):
    monkeypatch.chdir(repo.path)
    return Desk(ground, repo, cli)


@pytest.mark.slow
def test_a_planner_asks_once_and_its_split_is_opened_once_whoever_is_killed_on_the_way(desk):
    ground, name = desk.ground, desk.plan_split()
    ground.script(name, {"write": planner.FILE, "text": example()})
    killed_until(ground, points.OF_PLANNERS, lambda: desk.state(name) == "gated")
    assert agents_begun(ground) == [name]
    desk.killed_on_the_way(points.OF_A_YES_TO_A_SPLIT, "answer", name, "yes")
    kinds = desk.kinds(name)
    assert [kinds.count(kind) for kind in ("task.claimed", "gate.opened", "gate.approved", "task.finished")] == [1] * 4
    assert sorted(ground.tasks()) == sorted([name, "hello", "world", "guide", "greeting-join"])
    assert ground.count("batch.opened") == 1


@pytest.mark.slow
def test_work_that_waits_for_a_yes_lands_once_whoever_is_killed_on_the_way(desk):
    repo = desk.repo
    repo.write("a.txt", "a\n")
    repo.write(".gitignore", ".handoff/\n")
    repo.commit("more")
    repo.write(NOTES, "before\n")
    for point in points.OF_A_YES:
        number = points.OF_A_YES.index(point)
        name = f"work-{number}"
        desk.cli("task", "add", name, "Make it.", "--check", f"grep -q {name} a.txt")
        learned = {"run": f"echo learned by {name} >> {NOTES}"}
        person = {"run": f"echo mine > {shlex.quote(repo.path)}/a.txt"}
        desk.session(name, {"write": "a.txt", "text": f"{name}\n"}, learned, person, code=None)
        assert desk.state(name) == "gated", "an edit of the person is in the way"
        repo.git("checkout", "a.txt")
        desk.killed(point, "answer", name, "yes")
        desk.cli("answer", name, "yes", code=None)
        assert (desk.state(name), repo.read("a.txt")) == ("done", f"{name}\n"), point
        kinds = desk.kinds(name)
        assert (kinds.count("task.claimed"), kinds.count("task.finished")) == (1, 1), (point, kinds)
        assert len(repo.git("log", "--format=%H", "main", "--", "a.txt").split()) == number + 2, point
        assert repo.read(NOTES).splitlines().count(f"learned by {name}") == 1, point
    assert repo.git("status", "--porcelain") == ""
    repo.git("fsck", "--strict")


@QUICK
def test_a_claim_that_is_killed_on_the_way_is_the_same_claim_when_it_is_made_again(desk):
    desk.add()
    desk.killed_on_the_way(points.OF_CLAIMS, "task", "claim", "demo")
    assert desk.kinds().count("task.claimed") == 1
    desk.repo.write("made.txt", "made\n")
    desk.cli("task", "done")
    assert desk.state() == "done"


@pytest.mark.slow
def test_a_report_from_a_persons_checkout_counts_once_whoever_is_killed_on_the_way(desk):
    for number, point in enumerate(points.OF_TABS):
        name = f"tab-{number}"
        desk.cli("task", "add", name, "Make it.", "--check", f"test -f {name}.txt")
        desk.cli("task", "claim", name)
        desk.repo.write(f"{name}.txt", "made\n")
        commit = desk.repo.commit(name)
        desk.killed(point, "task", "done", name)
        desk.cli("task", "done", name)
        assert desk.state(name) == "done", point
        kinds = desk.kinds(name)
        assert (kinds.count("task.claimed"), kinds.count("task.finished")) == (1, 1), (point, kinds)
        assert commit in notes(desk.repo), point
    assert desk.repo.git("status", "--porcelain") == ""

"""Who is killed between two writes, and what happens before anybody repeats them: what was decided comes true once."""

from __future__ import annotations

import glob
import json
import os
import shlex
import sqlite3
import time
from contextlib import closing

import pytest

import points
from desk import CHECK, MADE, NOTES, Desk
from flow_ground import FlowGround
from handoff.engine.app.home import find_project
from handoff.engine.work.flows import flows
from handoff.engine.work.tasks.manifests import example
from handoff.engine.work.tasks.splitting import planner
from relay_ground import Ground
from sandbox import Cli, Repo
from scripts import handoff, write_script


@pytest.fixture
def desk(file_ground, repo, cli, monkeypatch):
    monkeypatch.chdir(repo.path)
    return Desk(file_ground, repo, cli)


# --- refused ------------------------------------------------------------------------------------------------


@pytest.fixture
def relay(tmp_path, monkeypatch):
    """Supervisors for a flow's repository."""
    calc = FlowGround(str(tmp_path / "calc"), str(tmp_path / "scripts"))
    monkeypatch.chdir(calc.repo.path)
    found = Ground(str(tmp_path / "relay"), calc.repo.path)
    found.settings('session_sandbox = "none"\n', place="clone")
    yield found
    found.close()


def until_used_up(relay, name) -> list[str]:
    """A supervisor that is killed once and started again, until every attempt of the task was refused; what was told of it."""

    def blocked() -> bool:
        if relay.supervisors[-1].poll() is not None:
            relay.supervisor()
        return relay.states().get(name) == "blocked" and not relay.agents()

    relay.until(blocked, "it was tried as often as it may")
    assert len(os.listdir(relay.points)) == 1
    return [event.kind for event in relay.events() if event.task_id.endswith(name)]


@pytest.mark.slow
def test_a_phase_that_was_refused_before_the_kill_is_refused_once_and_for_what_it_did(relay):
    relay.script("1-plan", {"write": "calc.py", "text": "NAME = 'no list of tests'\n"})
    request = flows.FlowRequest("tdd", "a calculator", id="calc", agents={"": "scripted"})
    flow = flows.start(relay.app, request=request)
    relay.supervisor(points.PHASE_REFUSED)
    kinds = until_used_up(relay, "1-plan")
    told = [event.body for event in flows.history(relay.app, flow) if event.kind == "flow.refused"]
    attempts = [body["attempt"] for body in told]
    assert attempts == list(range(1, len(attempts) + 1)) == list(range(1, kinds.count("task.claimed") + 1)), told
    assert "nothing-changed" not in str(told), "the next session reads what was wrong, not how it was cleaned up"
    assert kinds.count("session.concluded") == kinds.count("task.claimed")
    assert "task.revived" not in kinds


@pytest.mark.slow
def test_a_planner_that_was_refused_before_the_kill_is_refused_once(relay):
    task = planner.write_down(relay.app, find_project(relay.app), "Greet everybody", agent="scripted")
    relay.script(task.id, {"write": planner.FILE, "text": "nothing that is a manifest"})
    relay.supervisor(points.PLANNER_REFUSED)
    kinds = until_used_up(relay, task.id)
    assert kinds.count("task.expired") + kinds.count("task.blocked") == kinds.count("task.claimed"), kinds
    assert kinds.count("session.concluded") == kinds.count("task.claimed")
    assert "task.revived" not in kinds


# --- landed, and not written down -----------------------------------------------------------------------------


def deadly_report(desk, point) -> dict:
    """The agent's own `task done`, which dies at that point; the agent hears of no answer."""
    armed = [f"{name}={shlex.quote(value)}" for name, value in points.armed(desk.marks, point).items()]
    return {"run": f"{' '.join(armed)} {handoff('task', 'done', '--summary', 'made')}", "may_fail": True}


def test_work_that_landed_before_the_kill_is_done_and_no_other_session_is_paid_for_it(desk):
    desk.add()
    desk.session("demo", MADE, deadly_report(desk, points.LANDED), {"exit": 1}, code=None)
    assert os.listdir(desk.marks)
    assert len(desk.landings()) == 1
    desk.recover()
    assert desk.state() == "done", "its work is on the branch"
    kinds = desk.kinds()
    assert (kinds.count("task.claimed"), kinds.count("task.finished")) == (1, 1), kinds


@pytest.mark.slow
def test_work_that_landed_before_the_kill_stays_reverted_where_the_person_reverts_it_meanwhile(desk):
    desk.add()
    person = f"cd {shlex.quote(desk.repo.path)} && echo mine > mine.txt && git add mine.txt && git commit -qm mine"
    desk.killed(points.LANDED, *desk.words("demo", MADE, {"run": person}))
    assert len(desk.landings()) == 1
    desk.repo.git("revert", "--no-edit", "HEAD")
    desk.recover()
    assert desk.state() == "done"
    assert len(desk.landings()) == 1, "it lands once"
    assert not os.path.exists(os.path.join(desk.repo.path, "made.txt")), "the person took it back"


@pytest.mark.slow
def test_a_step_is_ticked_whoever_is_killed_after_its_task_was_written_down_as_done(desk):
    desk.cli("init", "shop")
    desk.cli("step", "add", "Make it", "--check", CHECK)
    desk.cli("task", "add", "demo", "--from-step")
    desk.killed(points.ROW_WRITTEN, *desk.words("demo", MADE))
    desk.recover()
    assert desk.state() == "done"
    assert desk.cli("status", "--json").json["plan"]["done"] == 1


def test_a_step_is_ticked_where_the_report_from_a_persons_checkout_was_killed_and_made_again(desk):
    desk.cli("init", "shop")
    desk.cli("step", "add", "Make it", "--check", CHECK)
    desk.cli("task", "add", "demo", "--from-step")
    desk.cli("task", "claim", "demo")
    desk.repo.write("made.txt", "made\n")
    desk.killed(points.ROW_WRITTEN, "task", "done")
    desk.cli("task", "done", "demo", code=None)
    assert desk.state() == "done"
    assert desk.cli("status", "--json").json["plan"]["done"] == 1


@pytest.mark.slow
def test_lines_of_a_document_come_home_once_where_the_person_edits_them_before_it_is_repeated(desk):
    desk.repo.write(NOTES, "# Notes\n\nbefore\n")
    desk.add()
    learned = {"run": f"echo learned >> {NOTES}"}
    desk.killed(points.DOCUMENTS_HOME, *desk.words("demo", MADE, learned))
    assert desk.repo.read(NOTES) == "# Notes\n\nbefore\nlearned\n"
    desk.repo.write(NOTES, "# Notes\n\nbefore\nlearned, and checked by me\n")
    desk.recover()
    assert desk.state() == "done"
    assert desk.repo.read(NOTES) == "# Notes\n\nbefore\nlearned, and checked by me\n"


# --- phases of a flow ---------------------------------------------------------------------------------------------

SPEC = ".handoff/features/greet/SPEC.md"


@pytest.fixture
def greeting(relay):
    """A person's repository with a feature, and the words of one step of its flow."""
    found = Desk(relay, Repo(relay.repo), Cli(relay.repo))
    found.cli("init", "greet")
    found.cli("ignore")
    found.repo.write(".handoff/features/greet/FEATURE.md", "# Feature: greet\n\n## Goal\nGreet people by name.\n")
    found.repo.write(SPEC, "# Spec\n\nbefore\n")
    found.cli("flow", "start", "feature", "--feature", "greet", "--agent", "scripted", "--id", "greet")
    return found


def step(desk, *acts) -> tuple[str, ...]:
    return ("flow", "step", "greet", "--with", write_script(os.path.join(desk.ground.folder, "acts.toml"), *acts))


def phases(desk) -> list[str]:
    found = flows.find(desk.ground.app, name="greet")
    told = [event for event in flows.history(desk.ground.app, found) if event.kind == "flow.verified"]
    return [*(event.body["phase"] for event in told), f"in {found.phase}"]


@pytest.mark.slow
def test_a_phase_that_was_decided_before_the_kill_is_carried_out_by_the_watchdog(greeting):
    greeting.killed(points.PHASE_DECIDED, *step(greeting, {"append": SPEC, "text": "It greets.\n"}))
    assert greeting.repo.read(SPEC) == "# Spec\n\nbefore\n"
    greeting.recover()
    assert greeting.repo.read(SPEC) == "# Spec\n\nbefore\nIt greets.\n"
    assert phases(greeting) == ["spec", "in design"]
    assert greeting.kinds("greet/1-spec").count("task.finished") == 1


@pytest.mark.slow
def test_what_an_older_handoff_decided_about_a_phase_is_carried_out_by_whoever_has_its_clone(greeting):
    greeting.killed(points.PHASE_DECIDED, *step(greeting, {"append": SPEC, "text": "It greets.\n"}))
    with closing(sqlite3.connect(os.path.join(os.environ["HANDOFF_HOME"], "handoff.db"))) as connection, connection:
        ((body,),) = connection.execute("SELECT body FROM decision WHERE state = 'open'").fetchall()
        old = json.dumps({name: value for name, value in json.loads(body).items() if name != "home"})
        connection.execute(
            "UPDATE decision SET host = '', fence = 0, session = '', body = ? WHERE state = 'open'", [old]
        )
    greeting.recover()
    assert greeting.repo.read(SPEC) == "# Spec\n\nbefore\nIt greets.\n"
    assert phases(greeting) == ["spec", "in design"]
    assert greeting.kinds("greet/1-spec").count("task.finished") == 1


@pytest.mark.slow
def test_a_flow_that_is_cancelled_before_its_decision_is_carried_out_goes_no_further(greeting):
    greeting.killed(points.PHASE_DECIDED, *step(greeting, {"append": SPEC, "text": "It greets.\n"}))
    greeting.cli("cancel", "greet")
    greeting.recover()
    assert greeting.repo.read(SPEC) == "# Spec\n\nbefore\n"
    assert phases(greeting) == ["in spec"]


@pytest.mark.slow
def test_lines_that_a_person_writes_while_a_phase_works_are_kept_and_come_once(greeting):
    mine = {"run": f"sed -i 's/^before/by me/' {shlex.quote(os.path.join(greeting.repo.path, SPEC))}"}
    greeting.killed(points.PHASE_DOCUMENTS, *step(greeting, mine, {"append": SPEC, "text": "\nIt greets.\n"}))
    greeting.recover()
    assert phases(greeting) == ["spec", "in design"]
    lines = greeting.repo.read(SPEC).splitlines()
    assert (lines.count("by me"), lines.count("It greets.")) == (1, 1), lines


# --- a person's word ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("point", [points.YES_WRITTEN, points.SPLIT_OPENED])
def test_a_yes_to_a_split_opens_it_once_whoever_is_killed_on_the_way(desk, point):
    name = desk.plan_split()
    desk.session(name, {"write": planner.FILE, "text": example()}, code=None)
    assert desk.state(name) == "gated"
    desk.killed(point, "answer", name, "yes")
    if point == points.YES_WRITTEN:  # neither the answer nor the split: it is said again
        desk.cli("answer", name, "yes")
    else:
        desk.recover()
    names = [task["task"] for task in desk.cli("task", "list", "--json").json["tasks"]]
    assert sorted(names) == ["greeting-join", "greeting/guide", "greeting/hello", "greeting/world"]
    assert desk.state(name) == "done"


@pytest.mark.slow
def test_work_that_lands_by_a_yes_exactly_as_it_was_judged_has_its_note_and_is_published(desk):
    desk.repo.write("a.txt", "a\n")
    desk.repo.commit("more")
    desk.cli("task", "add", "demo", "Make it.", "--check", "grep -q made a.txt")
    person = f"echo mine > {shlex.quote(desk.repo.path)}/a.txt"
    desk.session("demo", {"write": "a.txt", "text": "made\n"}, {"run": person}, code=None)
    assert desk.state() == "gated", "an edit of the person is in the way"
    desk.repo.git("checkout", "a.txt")
    desk.cli("answer", "demo", "yes")
    assert desk.state() == "done"
    (landed,) = desk.landings()
    assert landed in desk.noted(), "the record is where a landing without a question leaves it"
    bare = ("--git-dir", desk.remote)
    names = desk.repo.git(*bare, "for-each-ref", "--format=%(objectname)^{tree}").split()
    trees = desk.repo.git(*bare, "rev-parse", *names).split()
    assert desk.repo.git("rev-parse", f"{landed}^{{tree}}").strip() in trees, "done means that others can have it"


@pytest.mark.slow
def test_a_persons_report_of_a_ready_task_holds_it_so_that_no_session_takes_it_meanwhile(desk):
    wait = "! test -e .git/slow || { touch .git/begun; while test -e .git/begun; do sleep 0.05; done; }"
    desk.cli("task", "add", "demo", "Make it.", "--check", f"{wait}; {CHECK}")
    desk.session("demo", MADE, {"run": handoff("task", "release", "--reason", "later")}, code=None)
    assert desk.state() == "ready"
    (inside,) = glob.glob(os.path.join(os.environ["HANDOFF_HOME"], "repo", "workspaces", "demo-*", "tree", ".git"))
    begun = os.path.join(inside, "begun")
    with open(os.path.join(inside, "slow"), "w", encoding="utf-8"):
        pass
    report = desk.cli.start("task", "done", "demo")
    while not os.path.exists(begun):
        assert report.poll() is None, report.communicate()
        time.sleep(0.02)
    claimed = desk.cli("task", "claim", "demo", "--session", "another", code=None)
    os.unlink(begun)
    said = report.communicate(timeout=100)
    assert len(desk.landings()) == desk.kinds().count("task.finished"), (
        "what has landed is done, whoever else has the task"
    )
    assert (claimed.code, report.returncode) == (4, 0), (claimed, said)
    assert desk.state() == "done"
    assert desk.kinds().count("task.finished") == 1

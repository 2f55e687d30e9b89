"""Tasks: written once, found by the name people use, ready in the right order."""

from __future__ import annotations

import pytest

from handoff.base.errors import Conflict, UserError
from handoff.board import forgetting
from handoff.board.events import journal
from handoff.board.sessions import sessions
from handoff.board.sessions.sessions import SessionIdentity
from handoff.board.tasks import batches, outcomes, tasks
from handoff.board.tasks.batches import SubTask


def add(database, name, **more):
    return tasks.add(database, project="shop", id=name, brief=f"Do {name}.", **more)


def test_a_task_keeps_everything_it_was_given(database):
    written = add(
        database, "login", title="Log in", role="green", agent="codex", workspace="/work", owns=["src/login/", "a b"],
        check_command="pytest -q", baseline={"head": "abc", "dirty": []}, priority=3, not_before=12.5,
        estimate_minutes=30, max_attempts=2,
    )  # fmt: skip
    found = tasks.find(database, project="shop", id="login")
    assert found == written
    assert (found.title, found.brief, found.role, found.agent) == ("Log in", "Do login.", "green", "codex")
    assert found.patterns == ("src/login/", "a b")
    assert found.baseline_facts == {"head": "abc", "dirty": []}
    assert (found.state, found.attempt, found.max_attempts, found.fence) == ("ready", 1, 2, 0)


def test_a_live_id_cannot_be_used_twice_and_the_first_brief_stays(database):
    add(database, "login")
    with pytest.raises(Conflict, match="still ready"):
        tasks.add(database, project="shop", id="login", brief="something else")
    assert tasks.find(database, project="shop", id="login").brief == "Do login."


def test_an_id_may_be_used_again_after_its_end_as_a_new_generation(database):
    first = add(database, "login")
    outcomes.finish(database, key=first.key, summary="done by hand")
    second = add(database, "login")
    assert (second.generation, second.key != first.key) == (2, True)
    assert tasks.find(database, project="shop", id="login") == second
    assert tasks.get(database, key=first.key).result == "done by hand"


def test_the_same_id_in_two_projects_is_two_tasks(database):
    add(database, "login")
    other = tasks.add(database, project="bank", id="login", brief="x")
    assert tasks.find(database, project="bank", id="login") == other


@pytest.mark.parametrize("name", ["", "a", "Login", "../x", "-a", "a" * 61, "a_b"])
def test_a_bad_id_is_refused_and_nothing_is_written(database, name):
    with pytest.raises(UserError, match="cannot name a task"):
        add(database, name)
    assert tasks.listing(database, include_ended=True) == []
    assert journal.since(database) == []


def test_a_task_waits_for_all_it_comes_after(database):
    first, second = add(database, "one"), add(database, "two")
    late = add(database, "late", after=["one", "two", "one"])
    assert (late.state, late.open_needs) == ("waiting", 2)
    assert outcomes.finish(database, key=first.key).woken == ()
    woken = outcomes.finish(database, key=second.key).woken
    assert [(task.id, task.state) for task in woken] == [("late", "ready")]
    assert {need.id: need.met for need in tasks.needs_of(database, key=late.key)} == {"one": 1, "two": 1}


def test_a_task_after_something_already_done_is_ready_at_once(database):
    first = add(database, "one")
    outcomes.finish(database, key=first.key)
    assert add(database, "late", after=["one"]).state == "ready"


def test_coming_after_an_unknown_task_is_refused_and_nothing_is_written(database):
    with pytest.raises(UserError, match="no task 'ghost'"):
        add(database, "late", after=["ghost"])
    assert tasks.listing(database, include_ended=True) == []


def test_coming_after_a_cancelled_task_is_refused(database):
    outcomes.cancel(database, key=add(database, "one").key)
    with pytest.raises(UserError, match="was cancelled"):
        add(database, "late", after=["one"])


def test_a_sub_task_is_found_by_its_batch_and_alone_while_that_is_clear(database):
    for batch in ("left", "right"):
        batches.open_batch(
            database, project="shop", id=batch, sub_tasks=[SubTask("api", "x")], fan_in=SubTask(f"{batch}-join", "y")
        )
    assert tasks.find(database, project="shop", id="right/api").scope == "right"
    with pytest.raises(UserError, match="names several tasks: right/api, left/api"):
        tasks.find(database, project="shop", id="api")
    outcomes.finish(database, key=tasks.find(database, project="shop", id="left/api").key)
    assert tasks.find(database, project="shop", id="api").scope == "right"


def test_an_unknown_task_is_an_error_that_says_where_to_look(database):
    with pytest.raises(UserError, match="no task 'ghost'") as caught:
        tasks.find(database, project="shop", id="ghost")
    assert "handoff task list" in caught.value.hint


def test_a_task_is_edited_only_while_nobody_works_on_it(database):
    task = add(database, "login")
    assert tasks.edit(database, key=task.key, brief="better", priority=7).brief == "better"
    outcomes.finish(database, key=task.key)
    with pytest.raises(Conflict, match="cannot be changed"):
        tasks.edit(database, key=task.key, brief="worse")


def test_pruning_shows_first_and_keeps_live_tasks_and_the_journal(database):
    ended, live = add(database, "old"), add(database, "live")
    outcomes.finish(database, key=ended.key)
    with database.transaction(write=False) as look:
        later = look.now() + 1
    assert [task.id for task in forgetting.prune(database, before=later)] == ["old"]
    assert tasks.get(database, key=ended.key)
    forgetting.prune(database, before=later, dry_run=False)
    assert tasks.listing(database, include_ended=True) == [live]
    assert [event.kind for event in journal.of_task(database, key=ended.key)] == ["task.added", "task.finished"]


def test_forgetting_one_project_leaves_what_the_others_have(database):
    for name in ("shop", "bank"):
        sessions.register(database, who=SessionIdentity(f"of-{name}", project=name))
        sessions.end(database, id=f"of-{name}")
    with database.transaction(write=False) as look:
        later = look.now() + 1
    forgetting.prune(database, before=later, project="shop", dry_run=False)
    assert sessions.get(database, id="of-shop") is None
    assert sessions.get(database, id="of-bank")
    forgetting.prune(database, before=later, dry_run=False)
    assert sessions.get(database, id="of-bank") is None


def test_nothing_of_a_failed_transaction_stays(database):
    def twice():
        with database.transaction() as transaction:
            add(transaction, "login")
            add(transaction, "login")

    with pytest.raises(Conflict):
        twice()
    assert tasks.listing(database, include_ended=True) == []
    assert add(database, "login").generation == 1


def test_text_comes_back_as_it_was_written(database):
    brief = "Über 100 % 'quotes' \"double\" :name %(name)s \\ \n\ttab 🚦 $1"
    task = tasks.add(database, project="shop", id="text", brief=brief)
    assert tasks.get(database, key=task.key).brief == brief

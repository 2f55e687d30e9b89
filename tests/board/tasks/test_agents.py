"""A list of agents: the next one goes on where one has used up its attempts or is held, and each has attempts of its own."""

from __future__ import annotations

from handoff.board.events import journal
from handoff.board.sessions import leases
from handoff.board.sessions.sessions import SessionIdentity
from handoff.board.tasks import outcomes, tasks


def add(database, agent="claude,codex", **more):
    more = {"max_attempts": 2, "baseline": {tasks.MODEL: "opus"}, **more}
    return tasks.add(database, project="shop", id="login", brief="x", agent=agent, **more)


def fail(database, number):
    """One session of whoever the task is for, which fails."""
    wanted = tasks.find(database, project="shop", id="login").agent
    claim = leases.claim_next(database, who=SessionIdentity(f"s{number}", host="here", agent=wanted))
    assert claim is not None
    return leases.hand_back(database, task=claim.task, reason=f"exit {number}").task


def stand(task):
    return (task.state, task.agent, task.attempt, task.baseline_facts.get(tasks.MODEL, ""))


def test_the_next_agent_goes_on_with_attempts_of_its_own_and_the_last_one_blocks(database):
    assert stand(add(database)) == ("ready", "claude", 1, "opus")
    found = [stand(fail(database, number)) for number in range(1, 5)]
    assert found == [
        ("ready", "claude", 2, "opus"),
        ("ready", "codex", 1, ""),
        ("ready", "codex", 2, ""),
        ("blocked", "codex", 2, ""),
    ]
    task = tasks.find(database, project="shop", id="login")
    assert task.reason == "exit 4; that was attempt 2 of 2 with codex, and each of claude, codex has tried"
    assert outcomes.agent_words(task) == "codex, claude has used up its attempts"
    said = [event.body["reason"] for event in journal.of_task(database, key=task.key) if event.kind == "task.expired"]
    assert said[1] == "exit 2; claude has used up its 2 attempts, codex goes on"
    again = outcomes.retry(database, key=task.key).task
    assert stand(again) == ("ready", "claude", 1, "opus"), "a person's yes begins with the first one"
    assert outcomes.agent_words(again) == "claude, then codex"


def test_a_held_agent_is_left_without_an_attempt_and_comes_back_with_those_it_had_used(database):
    add(database)
    fail(database, 1)
    (moved,) = outcomes.leave_held(database, held={"claude"}, able=("claude", "codex"))
    assert stand(moved) == ("ready", "codex", 1, "")
    assert outcomes.agent_words(moved) == "codex, then claude"
    assert outcomes.leave_held(database, held={"claude", "codex"}, able=("claude", "codex")) == [], "they wait"
    fail(database, 2)
    assert stand(fail(database, 3)) == ("ready", "claude", 2, "opus"), "one attempt of it is left"
    assert fail(database, 4).state == "blocked"


def test_nobody_is_given_what_only_an_agent_could_do_that_does_not_work_here(database):
    add(database)
    assert outcomes.leave_held(database, held={"claude"}, able=("claude",)) == []
    tasks.edit(database, key=tasks.find(database, project="shop", id="login").key, agent="claude")
    assert outcomes.leave_held(database, held={"claude"}, able=("claude", "codex")) == [], "it is for one agent alone"


def test_another_list_forgets_what_was_tried(database):
    key = add(database).key
    for number in (1, 2):
        fail(database, number)
    task = tasks.edit(database, key=key, agent="aider, claude,aider")
    assert (task.agent, task.baseline_facts[tasks.AGENTS]) == ("aider", ["aider", "claude"])
    assert outcomes.agent_words(task) == "aider, then claude"
    assert outcomes.agent_words(tasks.edit(database, key=key, agent="")) == ""

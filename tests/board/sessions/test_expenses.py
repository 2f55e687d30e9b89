"""Expenses: what sessions used and cost, summed over a task's attempts, a batch, a day; what is unknown is said."""

from __future__ import annotations

from handoff.board.sessions import expenses
from handoff.board.tasks import batches, tasks
from handoff.board.tasks.batches import SubTask

USED = {"input": 600, "cached": 400, "output": 50, "reasoning": 20}


def note(database, session, task, *, agent="codex", money=0.25, basis="listed"):
    spent = {"agent": agent, "money": money, "basis": basis}
    expenses.note(database, session=session, project="shop", task=task, models=("gpt-5.5",), tokens=USED, **spent)


def test_a_task_is_charged_for_all_its_attempts_and_each_session_once(database):
    task = tasks.add(database, project="shop", id="login", brief="x")
    other = tasks.add(database, project="shop", id="other", brief="x")
    note(database, "s1", task.key, money=0.1)
    note(database, "s1", task.key)  # the same session a moment later, or read again after a crash
    note(database, "s2", task.key)
    note(database, "s3", other.key)
    (spent,) = expenses.by_agent(database, task=task.key)
    assert (spent.agent, spent.sessions, spent.money, spent.unknown) == ("codex", 2, 0.5, 0)
    assert spent.tokens == {name: 2 * count for name, count in USED.items()}
    assert spent.words == "0.50 USD; 2,000 tokens in (800 cached), 100 out"
    assert expenses.of_a_day(database) == 0.75


def test_a_batch_is_charged_for_its_parts_and_for_what_joins_them(database):
    made = batches.open_batch(
        database,
        project="shop",
        id="two",
        sub_tasks=[SubTask("aa", "x"), SubTask("bb", "x")],
        fan_in=SubTask("join", "x"),
    )
    parts = tasks.of_batch(database, batch=made.key)
    assert len(parts) == 3
    for part in parts:
        note(database, f"s-{part.id}", part.key)
    note(database, "elsewhere", tasks.add(database, project="shop", id="alone", brief="x").key)
    (spent,) = expenses.by_agent(database, batch=made.key)
    assert (spent.sessions, spent.money) == (3, 0.75)


def test_an_unknown_cost_is_said_with_the_agents_name_and_never_shown_as_nothing(database):
    task = tasks.add(database, project="shop", id="login", brief="x")
    note(database, "s1", task.key, agent="mine", money=0.0, basis="unknown")
    found = expenses.by_agent(database, task=task.key)
    assert expenses.cost_words(found) == "cost unknown (mine, 1 session)"
    note(database, "s2", task.key, agent="claude", basis="said")
    found = expenses.by_agent(database, task=task.key)
    assert expenses.cost_words(found) == "0.25 USD, and cost unknown (mine, 1 session)"
    assert expenses.cost_words(()) == ""

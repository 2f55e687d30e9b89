"""A session answers for what it changed since its claim: not for the task before it, a neighbour, or the person."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize("committed", [False, True], ids=["left-dirty", "committed"])
@pytest.mark.parametrize("after", [False, True], ids=["side-by-side", "after"])
def test_two_tasks_after_each_other_in_one_checkout_are_both_done(cli, repo, committed, after):
    cli("dump", "--task", "aa", "--next", "a", "--owns", "a.txt")
    cli("dump", "--task", "bb", "--next", "b", "--owns", "b.txt", *(("--after", "aa") if after else ()))
    cli("task", "claim", "aa")
    repo.write("a.txt", "a\n")
    cli("task", "done")
    if committed:
        repo.git("add", "a.txt")
        repo.git("commit", "-qm", "a")
    cli("task", "claim", "bb")
    repo.write("b.txt", "b\n")
    cli("task", "done")
    states = {task["task"]: task["state"] for task in cli("task", "list", "--all", "--json").json["tasks"]}
    assert states == {"aa": "done", "bb": "done"}


def test_what_a_neighbour_finished_meanwhile_is_not_charged(cli, repo):
    for name in ("aa", "bb"):
        cli("dump", "--task", name, "--next", name, "--owns", f"{name}.txt")
    one = cli("task", "claim", "aa", "--session", "one", "--json").json
    two = cli("task", "claim", "bb", "--session", "two", "--json").json
    repo.write("aa.txt", "a\n")
    repo.write("bb.txt", "b\n")
    cli("task", "done", "--session", "one", "--fence", str(one["fence"]))
    cli("task", "done", "--session", "two", "--fence", str(two["fence"]))


def test_what_the_session_itself_changed_outside_is_still_refused_and_nothing_is_called_its_fault(cli, repo):
    cli("dump", "--task", "aa", "--next", "a", "--owns", "a.txt")
    cli("task", "claim", "aa")
    repo.write("foreign.txt", "x\n")
    said = cli("task", "done", code=3)
    assert "foreign.txt" in said.err
    assert "Undo" not in said.err


def test_a_second_attempt_is_not_charged_with_what_the_first_left_outside(cli, repo):
    cli("dump", "--task", "aa", "--next", "a", "--owns", "a.txt")
    cli("task", "claim", "aa")
    repo.write("left.txt", "by the first attempt\n")
    cli("task", "release")
    cli("task", "claim", "aa")
    repo.write("a.txt", "a\n")
    cli("task", "done")

"""Looks that many sessions ask for at once: one serves all who wait, and none is served by one that began before it asked."""

from __future__ import annotations

import threading

import pytest

from handoff.engine.supervisor.supervisor import Turns

_MANY = 16


class Look:
    """A work that goes on until it is let go, and says how often it was begun."""

    def __init__(self) -> None:
        self.began, self.go_on = threading.Semaphore(0), threading.Semaphore(0)
        self.times = 0

    def __call__(self) -> int:
        self.times += 1
        mine = self.times
        self.began.release()
        self.go_on.acquire()
        return mine


def _ask(turns: Turns, work: Look, name: str = "look") -> tuple[threading.Thread, list[int]]:
    said: list[int] = []
    thread = threading.Thread(target=lambda: said.append(turns.once(name, work)), daemon=True)
    thread.start()
    return thread, said


def _waiting(turns: Turns, threads: int) -> None:
    """Until so many threads wait for the turn after this one."""
    while sum(len(turn.over._cond._waiters) for turn in turns._next.values()) < threads:
        threading.Event().wait(0.001)


def test_who_asks_while_one_is_under_way_shares_the_next_with_all_who_wait() -> None:
    turns, work = Turns(), Look()
    first, said_first = _ask(turns, work)
    work.began.acquire()
    others = [_ask(turns, work) for _ in range(_MANY)]
    _waiting(turns, _MANY - 1)
    assert work.times == 1
    work.go_on.release()
    work.began.acquire()
    late, said_late = _ask(turns, work)  # the second has begun: it may have missed what this one did
    work.go_on.release(_MANY)
    for thread in (first, late, *(thread for thread, _ in others)):
        thread.join()
    assert said_first == [1]
    assert [said for _, said in others] == [[2]] * _MANY
    assert said_late == [3]


def test_names_do_not_wait_for_each_other_and_one_alone_waits_for_nobody() -> None:
    turns, slow = Turns(), Look()
    thread, said = _ask(turns, slow, "one checkout")
    slow.began.acquire()
    assert turns.once("another", lambda: "at once") == "at once"
    slow.go_on.release()
    thread.join()
    assert said == [1]
    assert turns.once("one checkout", lambda: "again") == "again"


def test_who_waited_for_a_turn_that_failed_does_the_work_itself() -> None:
    turns, work = Turns(), Look()
    failing = threading.Event()

    def fail() -> None:
        failing.wait()
        raise ValueError("the database is away")

    first, _ = _ask(turns, work)
    work.began.acquire()
    faults: list[str] = []

    def leader() -> None:
        with pytest.raises(ValueError, match="away"):
            turns.once("look", fail)
        faults.append("told")

    failed = threading.Thread(target=leader, daemon=True)
    failed.start()
    while "look" not in turns._next:
        threading.Event().wait(0.001)
    follower, said = _ask(turns, work)
    _waiting(turns, 1)
    failing.set()
    work.go_on.release(2)
    for thread in (first, failed, follower):
        thread.join()
    assert faults == ["told"]
    assert said == [2]

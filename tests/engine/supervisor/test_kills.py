"""Anything may die at any instruction: supervisor, monitor, agent and host, killed at every boundary, on both databases."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys

import pytest

from handoff.board.sessions import executors
from handoff.engine.place import pulse
from points import OF_AGENTS, OF_MONITORS, OF_RUNS, armed, beside


def met(ground, points):
    return len(os.listdir(ground.points)) == len(points)


def run_until_all_is_over(ground, supervisors, points, again):
    """Start again whoever was killed, until every point was met and nothing is left to do."""
    more = 0

    def over():
        nonlocal more
        for index, process in enumerate(supervisors):
            code = process.poll()
            if code is not None:
                assert code == -signal.SIGKILL, f"exit {code}\n{ground.story()}"
                supervisors[index] = again()
        if not (ground.done() and concluded(ground)):
            return False
        if not met(ground, points):  # a point before the start has one chance in each session
            more += 1
            ground.add(f"more-{more}")
            return False
        return not ground.agents()

    ground.until(over, "all is done and concluded, and every point was met")


def concluded(ground):
    told = [event.session for event in ground.events() if event.kind == "session.concluded"]
    return len(told) == ground.count("task.claimed") and not pulse.listing(ground.app)


def check_whole_night(ground, names):
    """What must hold whatever was killed."""
    assert ground.count("batch.joined") == 1, ground.story()
    assert ground.count("batch.finished") == 1
    events = ground.events()
    for name in (*names, "join"):
        mine = [event for event in events if event.task_id.endswith(name)]
        kinds = [event.kind for event in mine]
        assert kinds.count("task.finished") == 1, ground.story()
        assert kinds.count("task.claimed") == ground.tasks()[name].fence, "each hand-over has its fence"
        assert not {"task.claimed", "task.expired", "task.released"} & set(kinds[kinds.index("task.finished") :])
        told = [event.session for event in mine if event.kind == "session.concluded"]
        claimed = [event.session for event in mine if event.kind == "task.claimed"]
        assert sorted(told) == sorted(claimed), "each session is concluded once"
        assert os.path.exists(os.path.join(ground.repo, f"{name}.txt"))
        fences = [line.split()[2] for line in ground.trace_lines() if line.split()[:2] == ["end", f"night/{name}"]]
        assert len(fences) == len(set(fences)), "no session worked twice"
    assert ground.agents() == []


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2])
def test_a_batch_survives_a_supervisor_killed_at_every_boundary(ground, count):
    names = ("one", "two", "three", "four") if count == 1 else ("one", "two", "three", "four", "five", "six")
    ground.add_batch(*names)
    of_runs = beside(ground.app.database.kind, OF_RUNS)
    supervisors = [ground.supervisor(*of_runs) for _ in range(count)]
    run_until_all_is_over(ground, supervisors, of_runs, lambda: ground.supervisor(*of_runs))
    check_whole_night(ground, names)
    for name in (*names, "join"):
        assert ground.started(name) == 1, f"no agent was started twice: {ground.story()}"
        assert ground.tasks()[name].attempt == 1


@pytest.mark.slow
def test_a_batch_survives_a_host_that_loses_every_process_at_every_boundary(ground):
    names = ("one", "two", "three", "four", "five", "six")
    ground.add_batch(*names, max_attempts=20)

    of_runs = beside(ground.app.database.kind, OF_RUNS)

    def again():
        return ground.supervisor(*of_runs, host=True)

    run_until_all_is_over(ground, [again()], of_runs, again)
    check_whole_night(ground, names)


@pytest.mark.slow
def test_a_batch_survives_monitors_and_agents_killed_at_every_boundary(ground, monkeypatch):
    points = (*OF_MONITORS, *OF_AGENTS)
    for name, value in armed(ground.points, *points).items():
        monkeypatch.setenv(name, value)
    names = ("one", "two", "three", "four", "five", "six")
    ground.settings("back_off_seconds = 0.1\n")
    ground.add_batch(*names, max_attempts=20)
    supervisor = ground.supervisor()
    run_until_all_is_over(ground, [supervisor], points, ground.supervisor)
    check_whole_night(ground, names)
    assert supervisor.poll() is None


WRITE = """
import sys
from handoff.base.clock import SystemClock
from handoff.store import open_database
with open_database(sys.argv[1], clock=SystemClock()).transaction():
    pass
"""


def holds_a_file(pids):
    """Whether one of these processes has a file for itself; the kernel knows, whatever the file is for."""
    with open("/proc/locks", encoding="utf-8") as file:
        return any(int(line.split()[-4]) in pids for line in file if " WRITE " in line and "->" not in line)


def freeze_between_writes(ground, *pids):
    """Stop processes at a moment when they hold no lock: on one machine nobody can write while they sleep with one."""
    while True:
        _signal(signal.SIGSTOP, pids)
        try:
            subprocess.run([sys.executable, "-c", WRITE, ground.app.database_url], check=True, timeout=3)
            if not holds_a_file(pids):
                return
        except subprocess.TimeoutExpired:
            pass
        _signal(signal.SIGCONT, pids)
        ground.clock.sleep(0.05)


def is_alive(ground, supervisor):
    known = executors.listing(ground.app.database)
    return any(one.pid == supervisor.pid and one.state == executors.ALIVE for one in known)


def _signal(number, pids):
    """Some of them live for a moment only: a shell's helper may be gone by now."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


@pytest.mark.slow
def test_a_frozen_supervisor_is_given_up_and_ends_itself_when_it_wakes(ground):
    ground.add("long", {"run": f"while ! test -e {ground.folder}/go; do sleep 0.1; done"})
    first = ground.supervisor(lease=6.0)
    ground.until(lambda: ground.started("long"), "the agent works")
    freeze_between_writes(ground, first.pid)
    ground.supervisor(lease=6.0)
    try:
        with open(os.path.join(ground.folder, "go"), "w", encoding="utf-8"):
            pass
        ground.until(ground.done, "the other one finished it")
    finally:
        os.kill(first.pid, signal.SIGCONT)
    assert first.wait(timeout=60) == 4
    assert ground.started("long") == 1
    assert ground.count("task.finished") == 1
    assert ground.count("task.claimed") == 1


@pytest.mark.slow
def test_a_frozen_host_loses_its_task_and_changes_nothing_when_it_wakes(ground):
    ground.settings("lease_seconds = 6\n")
    once = f"test -e {ground.folder}/frozen || {{ touch {ground.folder}/frozen; sleep 1000; }}"
    ground.add("long", {"run": once}, {"write": "late.txt", "text": "$"})
    first = ground.supervisor(lease=6.0)
    ground.until(lambda: os.path.exists(f"{ground.folder}/frozen"), "the agent works")
    frozen = ground.agents()
    freeze_between_writes(ground, first.pid, *frozen)
    ground.supervisor(lease=6.0)
    try:
        ground.until(ground.done, "another session finished it")
        # Its own lease may end a moment after that of its task: who wakes in between is nobody's loss and goes on.
        ground.until(lambda: not is_alive(ground, first), "the others gave the host up")
    finally:
        _signal(signal.SIGCONT, (first.pid, *(pid for pid in frozen if pid in ground.agents())))
    assert first.wait(timeout=60) == 4
    ground.until(lambda: not ground.agents(), "nothing of the frozen session is left")
    assert ground.count("task.finished") == 1
    assert ground.tasks()["long"].fence == 2
    assert ground.started("long") == 2

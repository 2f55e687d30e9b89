"""The supervisor at work: real processes, real signals, both databases."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys

import pytest

from databases import place, postgres_server  # noqa: F401 - fixtures
from handoff.board import outcomes, sentinels
from relay_ground import Ground

POINTS = (
    "supervisor._claim:return",
    "durable.nudge:return",
    "phases.session_step:call",
    "folder.put_launch:return",
    "session_traces.leave:return",
    "process.spawn:return",  # the keeper is started, nobody knows it yet
    "session.start:return",
    "sessions.wait:return",
    "phases.save_step:call",
    "phases.save_step:return",
    "outcomes.finish:return",  # inside the transaction, before its commit
    "settling._tell:call",
    "phases.settle_step:return",
    "phases.run_phase:return",
)


@pytest.fixture
def ground(place, repo, tmp_path, monkeypatch):  # noqa: F811
    """A relay on one of the databases."""
    if place.kind == "postgres":
        import psycopg  # noqa: PLC0415 - only where Postgres is tested

        with psycopg.connect(place.url, autocommit=True) as connection:
            connection.execute("SET client_min_messages = warning")
            connection.execute("DROP SCHEMA IF EXISTS dbos CASCADE")
        monkeypatch.setenv("HANDOFF_DATABASE_URL", place.url)
    found = Ground(str(tmp_path / "ground"), repo.path)
    yield found
    found.close()


@pytest.fixture
def file_ground(repo, tmp_path):
    """A relay on the file in the home: where the database plays no part."""
    found = Ground(str(tmp_path / "ground"), repo.path)
    yield found
    found.close()


def keep_alive(ground, supervisors, points):
    """Start again whoever was killed; any other end is a fault."""
    for place_, process in enumerate(supervisors):
        code = process.poll()
        if code is None:
            continue
        assert code == -signal.SIGKILL, f"exit {code}\n{ground.story()}"
        supervisors[place_] = ground.supervisor(*points)


def check_whole_night(ground, names):
    """What must hold whatever was killed."""
    assert ground.count("batch.joined") == 1, ground.story()
    assert ground.count("batch.finished") == 1
    for name in (*names, "join"):
        assert ground.count("task.finished", name) == 1, ground.story()
        task = ground.tasks()[name]
        assert ground.count("task.claimed", name) == task.fence, "each hand-over has its fence"
        assert os.path.exists(os.path.join(ground.repo, f"{name}.txt"))
    assert ground.agents() == []


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2])
def test_a_batch_survives_a_supervisor_killed_at_every_boundary(ground, count):
    names = ("one", "two", "three", "four") if count == 1 else ("one", "two", "three", "four", "five", "six")
    ground.add_batch(*names)
    supervisors = [ground.supervisor(*POINTS) for _ in range(count)]

    def over():
        keep_alive(ground, supervisors, POINTS)
        return ground.done()

    ground.until(over, "the whole batch is done")
    ground.until(lambda: not ground.agents(), "no agent is left")
    check_whole_night(ground, names)
    assert len(os.listdir(ground.points)) == len(POINTS), f"every boundary was met: {ground.story()}"
    for name in (*names, "join"):
        assert ground.begun(name) == 1, f"no agent was started twice: {ground.story()}"


@pytest.mark.slow
def test_agents_that_die_hang_or_fail_are_replaced_and_the_rest_goes_on(ground):
    ground.settings("lease_seconds = 3\n")
    once = "test -e {0} || {{ touch {0}; {1}; }}"
    mark = os.path.join(ground.folder, "once-")
    ground.add("dies", {"run": once.format(mark + "dies", "kill -9 $PPID")})
    ground.add("fails", {"run": once.format(mark + "fails", "exit 1")})
    ground.add("hangs", {"run": once.format(mark + "hangs", "sleep 1000")})
    ground.add("lost", {"run": once.format(mark + "lost", "kill -9 -$(ps -o sid= -p $PPID | tr -d ' ')")})
    ground.add("red", check_command="false", max_attempts=2)
    ground.add("after", after=("hangs",))
    ground.supervisor()
    ground.until(
        lambda: (
            ground.states() == {**dict.fromkeys(("dies", "fails", "hangs", "lost", "after"), "done"), "red": "blocked"}
        ),
        "everything ends as it must",
    )
    ground.until(lambda: not ground.agents(), "no agent is left")
    for name in ("dies", "fails", "hangs", "lost", "red"):
        assert ground.begun(name) == 2, f"{name}\n{ground.story()}"
    assert "attempt 2 of 2" in ground.tasks()["red"].reason
    assert ground.begun("after") == 1


WRITE = """
import sys
from handoff.base.clock import SystemClock
from handoff.store.drivers import open_database
with open_database(sys.argv[1], clock=SystemClock()).transaction():
    pass
"""


def freeze_between_writes(ground, pid):
    """Stop a process at a moment when it holds no lock: on one file nobody can write while it sleeps with one."""
    while True:
        os.kill(pid, signal.SIGSTOP)
        try:
            subprocess.run([sys.executable, "-c", WRITE, ground.app.database_url], check=True, timeout=10)
        except subprocess.TimeoutExpired:
            os.kill(pid, signal.SIGCONT)
            ground.clock.sleep(0.05)
        else:
            return


@pytest.mark.slow
def test_a_frozen_supervisor_is_given_up_and_ends_itself_when_it_wakes(ground):
    ground.add("long", {"run": f"while ! test -e {ground.folder}/go; do sleep 0.1; done"})
    first = ground.supervisor(lease=6.0)
    ground.until(lambda: ground.begun("long"), "the agent works")
    freeze_between_writes(ground, first.pid)
    ground.supervisor(lease=6.0)
    try:
        with open(os.path.join(ground.folder, "go"), "w", encoding="utf-8"):
            pass
        ground.until(ground.done, "the other one finished it")
    finally:
        os.kill(first.pid, signal.SIGCONT)
    assert first.wait(timeout=60) == 4
    assert ground.begun("long") == 1
    assert ground.count("task.finished") == 1
    assert ground.count("task.claimed") == 1


def test_limits_priorities_and_pauses_are_honoured(file_ground):
    ground = file_ground
    for name, priority in (("low", 0), ("high", 5), ("middle", 3)):
        ground.add(name, {"sleep": 0.3}, priority=priority)
    ground.add("held")
    sentinels.stop(ground.app.database, scope="task", project="demo", name="held")
    ground.supervisor(most=1)
    ground.until(lambda: list(ground.states().values()).count("done") == 3, "three tasks are done")
    assert [line.split()[:2] for line in ground.trace_lines()] == [
        [word, name] for name in ("high", "middle", "low") for word in ("begin", "end")
    ]
    assert ground.states()["held"] == "ready"
    sentinels.resume(ground.app.database, scope="task", project="demo", name="held")
    ground.until(ground.done, "the task goes on after the pause")


def test_starts_are_staggered(file_ground):
    ground = file_ground
    ground.settings("starts_per_minute = 2\n")
    for name in ("aa", "bb", "cc"):
        ground.add(name)
    ground.supervisor()
    ground.until(lambda: list(ground.states().values()).count("done") == 2, "two tasks are done")
    assert ground.count("task.claimed") == 2
    assert ground.states()["cc"] == "ready"


def test_a_providers_limit_is_waited_for_and_costs_no_attempt(file_ground):
    ground = file_ground
    later = int(ground.clock.now()) + 3600
    ground.settings(f'agents = {{ tired = ["sh", "-c", "echo usage limit reached resetsAt: {later}; exit 1"] }}\n')
    ground.add("long-night")
    ground.supervisor(agent="tired")
    ground.until(lambda: ground.tasks()["long-night"].not_before, "the task waits")
    task = ground.tasks()["long-night"]
    assert (task.state, task.not_before, task.attempt) == ("ready", later, 1)
    assert ground.count("task.claimed") == 1


def test_a_cancelled_task_loses_its_agent_even_when_no_supervisor_looks(file_ground):
    ground = file_ground
    kept, dropped = ground.add("kept", {"run": "sleep 1000"}), ground.add("dropped", {"run": "sleep 1000"})
    first = ground.supervisor()
    ground.until(lambda: ground.begun("kept") and ground.begun("dropped"), "both agents work")
    outcomes.cancel(ground.app.database, key=kept)
    ground.until(lambda: len(ground.sessions()) == 1, "the waiting supervisor ends it")
    first.kill()
    first.wait()
    assert len(ground.sessions()) == 1, "an agent outlives its supervisor"
    outcomes.cancel(ground.app.database, key=dropped)
    ground.supervisor()
    ground.until(lambda: not ground.agents(), "the next supervisor ends what it finds")
    assert (ground.begun("kept"), ground.begun("dropped")) == (1, 1)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_sixty_tasks_are_each_done_once_while_supervisors_are_killed_at_random(file_ground):
    ground = file_ground
    ground.settings(
        f'agents = {{ quick = ["sh", "-c", "echo begin $HANDOFF_TASK $HANDOFF_FENCE >> {ground.traces}"] }}\n'
        "starts_per_minute = 100000\n"
    )
    names = [f"task-{number:02}" for number in range(60)]
    for name in names:
        ground.add(name)
    chance = random.Random(7)
    supervisors = [ground.supervisor(agent="quick") for _ in range(2)]
    kills = [chance.uniform(0.1, 1.5) for _ in range(8)]

    def over():
        for index, process in enumerate(supervisors):
            if process.poll() is not None:
                assert process.returncode == -signal.SIGKILL, ground.story()
                supervisors[index] = ground.supervisor(agent="quick")
        victim = chance.choice(supervisors)
        if kills and ground.works(victim):
            ground.clock.sleep(kills.pop())
            victim.kill()
            victim.wait()
        return ground.done()

    ground.until(over, "all sixty are done", patience=280.0)
    for name in names:
        assert ground.begun(name) == 1, ground.story()
        assert ground.count("task.finished", name) == 1
    assert ground.count("task.claimed") == 60
    assert ground.agents() == []

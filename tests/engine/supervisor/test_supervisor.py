"""The supervisor at work: real processes, real signals, both databases."""

from __future__ import annotations

import os
import random
import signal

import pytest

from handoff.board.sessions import holds, pauses
from handoff.board.tasks import outcomes


@pytest.mark.slow
def test_agents_that_die_hang_or_fail_are_replaced_and_the_rest_goes_on(ground):
    ground.settings("lease_seconds = 10\n")
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
        assert ground.started(name) == 2, f"{name}\n{ground.story()}"
    assert "attempt 2 of 2" in ground.tasks()["red"].reason
    assert ground.started("after") == 1


def test_limits_priorities_and_pauses_are_honoured(file_ground):
    ground = file_ground
    for name, priority in (("low", 0), ("high", 5), ("middle", 3)):
        ground.add(name, {"sleep": 0.3}, priority=priority)
    ground.add("held")
    pauses.pause(ground.app.database, scope="task", project="demo", name="held")
    ground.supervisor(limit=1)
    ground.until(lambda: list(ground.states().values()).count("done") == 3, "three tasks are done")
    assert [line.split()[:2] for line in ground.trace_lines()] == [
        [word, name] for name in ("high", "middle", "low") for word in ("begin", "end")
    ]
    assert ground.states()["held"] == "ready"
    pauses.resume(ground.app.database, scope="task", project="demo", name="held")
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
    ground.until(lambda: holds.listing(ground.app.database), "the agent waits")
    (held,) = holds.listing(ground.app.database)
    assert (held.kind, held.name, held.until) == ("agent", "tired", later)
    task = ground.tasks()["long-night"]
    assert (task.state, task.attempt) == ("ready", 1)
    assert ground.count("task.claimed") == 1


def test_a_cancelled_task_loses_its_agent_even_when_no_supervisor_looks(file_ground):
    ground = file_ground
    kept, dropped = ground.add("kept", {"run": "sleep 1000"}), ground.add("dropped", {"run": "sleep 1000"})
    first = ground.supervisor()
    ground.until(lambda: ground.started("kept") and ground.started("dropped"), "both agents work")
    outcomes.cancel(ground.app.database, key=kept)
    ground.until(lambda: len(ground.sessions()) == 1, "the waiting supervisor ends it")
    first.kill()
    first.wait()
    assert len(ground.sessions()) == 1, "an agent outlives its supervisor"
    outcomes.cancel(ground.app.database, key=dropped)
    ground.supervisor()
    ground.until(lambda: not ground.agents(), "the next supervisor ends what it finds")
    assert (ground.started("kept"), ground.started("dropped")) == (1, 1)


@pytest.mark.slow
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
        assert ground.started(name) == 1, ground.story()
        assert ground.count("task.finished", name) == 1
    assert ground.count("task.claimed") == 60
    assert ground.agents() == []


def test_a_touched_marker_is_taken_in_between_two_looks_of_its_watchdog(file_ground):
    ground = file_ground
    ground.add("held")
    pauses.pause(ground.app.database, scope="task", project="demo", name="held")
    folder = os.path.join(ground.app.settings.home, "demo")
    os.makedirs(os.path.join(folder, "queue"))
    ground.supervisor(watchdog=3600.0)
    ground.until(lambda: os.path.exists(os.path.join(folder, ".markers")), "its first look is over")
    with open(os.path.join(folder, "queue", "held.done"), "w", encoding="utf-8"):
        pass
    ground.until(lambda: ground.states()["held"] == "done", "the marker counts")

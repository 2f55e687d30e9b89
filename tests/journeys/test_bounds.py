"""What takes too much of the machine is ended and says why, and what goes on beside it goes on: processes, memory, output."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from handoff.agents.sandbox.sandbox import BUBBLEWRAP, LANDLOCK, NOTHING, layer
from sandbox import absent
from scripts import handoff, processes_with, write_script

BOMB = """import os, sys, time
for number in range(200):
    if not os.fork():
        if number % 2:
            os.setsid()
        time.sleep(600)
        os._exit(0)
time.sleep(600)
"""
EATER = """import time
kept = [bytearray(os.urandom(1) * (50 << 20)) for _ in range(16)]
time.sleep(600)
""".replace("import time", "import os, time", 1)
SHARING = """import os, time
kept = b"x" * (120 << 20)
children = []
for number in range(5):
    child = os.fork()
    if not child:
        time.sleep(2)
        os._exit(len(kept) % 2)
    children.append(child)
assert [os.waitpid(child, 0)[1] for child in children] == [0] * 5
"""
SETTINGS = 'session_processes = 64\nsession_memory = "300M"\nmax_attempts = 1\n'


class Bounded:
    """A task whose session or check runs one program, where little is allowed."""

    def __init__(self, repo, cli, tmp_path) -> None:
        self.repo, self.cli, self.tmp, self.mark = repo, cli, tmp_path, f"greedy-{os.getpid()}.py"
        self.config = os.path.join(os.environ["HANDOFF_HOME"], "config.toml")
        cli("init", code=None)
        os.makedirs(os.path.dirname(self.config), exist_ok=True)
        with open(self.config, "a", encoding="utf-8") as file:
            file.write(SETTINGS)

    def program(self, text: str) -> str:
        self.repo.write(self.mark, text)
        self.repo.commit("a program")
        return f"{sys.executable} {self.mark}"

    def run(self, line: str, *words: str) -> dict:
        self.cli("task", "add", "demo", "Do it.", *words)
        script = write_script(str(self.tmp / "acts.toml"), {"run": line}, {"run": handoff("task", "done")})
        return self.cli("session", "start", "demo", "--agent", "scripted", "--with", script, "--json", code=None).json

    def reason(self) -> str:
        return str(self.cli("show", "demo", "--json").json["reason"])


@pytest.fixture(params=[BUBBLEWRAP, LANDLOCK, NOTHING])
def held(request, monkeypatch):
    """Behind each layer that this machine has, and behind none."""
    if request.param != NOTHING and layer(dict(os.environ), wanted=request.param) != request.param:
        absent(request.param)
    monkeypatch.setenv("HANDOFF_SANDBOX", request.param)
    return request.param


@pytest.fixture
def bounded(repo, cli, tmp_path):
    return Bounded(repo, cli, tmp_path)


@pytest.fixture
def bystander():
    """Somebody else's program."""
    with subprocess.Popen(["sleep", "600"]) as one:
        yield one
        one.kill()


@pytest.mark.parametrize(("what", "setting"), [(BOMB, "session_processes allows 64"), (EATER, "session_memory = 300M")])
def test_a_session_that_takes_too_much_is_ended_and_its_task_says_why(held, bounded, bystander, what, setting):
    end = bounded.run(bounded.program(what))
    assert end["state"] == "blocked", end
    assert setting in bounded.reason()
    assert bounded.config in bounded.reason(), "where to raise it"
    assert processes_with(bounded.mark) == []
    assert bystander.poll() is None


@pytest.mark.parametrize(("what", "setting"), [(BOMB, "session_processes allows 64"), (EATER, "session_memory = 300M")])
def test_a_check_that_takes_too_much_is_red_and_its_task_says_why(held, bounded, bystander, what, setting):
    if held == NOTHING and what is BOMB:
        what = what.replace("os.setsid()", "pass")  # what left its check altogether has no mark
    end = bounded.run("echo work > work.txt", "--check", bounded.program(what))
    assert end["state"] == "blocked", end
    assert setting in bounded.reason(), bounded.reason()
    assert processes_with(bounded.mark) == []
    assert bystander.poll() is None


def test_memory_that_processes_share_counts_once(bounded):
    line = bounded.program(SHARING)
    assert bounded.run(line, "--check", line)["state"] == "done"


def test_the_kernel_ends_programs_of_sessions_and_checks_before_others(bounded):
    line = "test $(cat /proc/self/oom_score_adj) = 500"
    end = bounded.run(f"{line} && echo yes > yes.txt", "--check", f"{line} && test -e yes.txt")
    assert end["state"] == "done", bounded.reason()


@pytest.mark.parametrize("said", ["90", "0%", "101%", "lots"])
def test_an_amount_of_memory_that_is_none_is_refused_with_its_place(bounded, said):
    with open(bounded.config, "w", encoding="utf-8") as file:
        file.write(f'session_memory = "{said}"\n')
    bounded.cli("task", "add", "demo", "Do it.")
    script = write_script(str(bounded.tmp / "acts.toml"), {"run": "true"})
    told = bounded.cli("session", "start", "demo", "--agent", "scripted", "--with", script, code=None)
    assert told.code == 1
    assert f"{bounded.config}: session_memory is '{said}'" in told.err
    assert bounded.cli("show", "demo", "--json").json["state"] == "ready"


def test_of_a_check_that_prints_300_mb_the_end_is_kept(tmp_path):
    program = (
        "import os, resource\n"
        "from handoff.base.clock import SystemClock\n"
        "from handoff.checks.commands import run_check\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "line = 'head -c 300000000 /dev/zero | tr \"\\\\0\" x | fold -w 1000; echo; echo the last line'\n"
        "done = run_check(line, folder='.', environment=dict(os.environ), timeout=300.0, clock=SystemClock())\n"
        "assert done.green, done\n"
        "assert done.tail.endswith('x\\nthe last line'), done.tail[-100:]\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 60_000, "kilobytes that reading it took"

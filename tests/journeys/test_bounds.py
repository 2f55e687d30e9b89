"""What takes too much of the machine is ended and says why, and what goes on beside it goes on; no room and damage are told truly."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys

import pytest

from handoff.agents.sandbox.sandbox import BUBBLEWRAP, LANDLOCK, NOTHING, layer
from sandbox import absent
from scripts import handoff, processes_with, write_script
from suites import Project, use_this_python

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


@pytest.fixture(params=[BUBBLEWRAP, *(pytest.param(one, marks=pytest.mark.slow) for one in (LANDLOCK, NOTHING))])
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


def test_a_suite_of_a_flow_that_takes_too_much_gives_no_result_and_says_why(bounded, monkeypatch):
    use_this_python(monkeypatch)
    bomb = "".join(f"    {line}\n" for line in BOMB.splitlines())
    files = {"pyproject.toml": "[tool.pytest.ini_options]\n", "tests/test_a.py": f"def test_a():\n{bomb}"}
    project = Project(bounded.repo, {**files, bounded.mark: ""})
    (report,) = project.run()
    assert "session_processes allows 64" in report.trouble
    assert not report.cases


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


ON_A_SMALL_DISK = 'mount -t tmpfs -o size=2m small "$HANDOFF_HOME" && exec sh -c "$1" sh "$2" "$3" "$4"'
BLOCKED = """
handoff() { python=$1; shift; "$python" -m handoff.surfaces.cli.main "$@"; }
handoff "$1" task add demo x && handoff "$1" task claim demo >&2 || exit 90
cat /dev/zero > "$HANDOFF_HOME/filler" 2>/dev/null
test $2 = 0 || truncate -s -${2}K "$HANDOFF_HOME/filler"
handoff "$1" task block "$(head -c $3 /dev/zero | tr '\\0' x)" 2>"said"
echo "exit $?"
rm "$HANDOFF_HOME/filler"
handoff "$1" show demo --json
"""


@pytest.mark.parametrize(("room", "length"), [(0, 20), (0, 90_000), (8, 20), (16, 90_000)])
def test_a_report_on_a_full_disk_says_what_became_of_it(repo, room, length):
    os.makedirs(os.environ["HANDOFF_HOME"], exist_ok=True)
    inside = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", ON_A_SMALL_DISK, "sh"]
    if subprocess.run([*inside, "true", "x"], capture_output=True, check=False).returncode:
        absent("user namespaces")
    words = [*inside, BLOCKED, sys.executable, str(room), str(length)]
    done = subprocess.run(words, cwd=repo.path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done
    code, _, shown = done.stdout.partition("exit ")[2].partition("\n")
    said, state = repo.read("said"), json.loads(shown)["state"]
    assert code in ("0", "1")
    assert "fault of its own" not in said
    assert state in ("running", "blocked"), said
    assert (state == "blocked") == (code == "0" or "is blocked" in said), (code, said)
    assert state == "running" or "Nothing was changed" not in said


DAMAGES = ("its head", "its list of tables", "its first half", "its last half", "a few bytes of each page", "its end")


def damaged(path: str, damage: str, page: int) -> None:
    size = os.path.getsize(path)
    places = {
        "its head": [(0, 100)],
        "its list of tables": [(100, page - 100)],
        "its first half": [(page, size // 2)],
        "its last half": [(size // 2, size - size // 2)],
        "a few bytes of each page": [(at + 8, 40) for at in range(page, size, page)],
        "its end": [],
    }
    with open(path, "r+b") as file:
        for start, count in places[damage]:
            file.seek(start)
            file.write(b"\xff" * count)
        if not places[damage]:
            file.truncate(size * 2 // 3)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_database_is_said_to_be_one_by_every_command_and_is_no_fault_of_ours(repo, cli, damage):
    cli("task", "add", "demo", "x" * 20_000)
    path = os.path.join(os.environ["HANDOFF_HOME"], "handoff.db")
    raw = sqlite3.connect(path)
    raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    page = raw.execute("PRAGMA page_size").fetchone()[0]
    raw.close()
    damaged(path, damage, page)
    for words in (("task", "list"), ("show", "demo"), ("task", "add", "more", "y"), ("log",), ("status",), ("doctor",)):
        said = cli(*words, code=None)
        both = said.out + said.err
        assert "fault of its own" not in both, (words, both)
        assert said.code == 0 or "damaged" in both or "There is no task" in both, (words, said.code, both)
    assert "damaged" in cli("work", "--agent", "scripted", "--until-done", code=1).err

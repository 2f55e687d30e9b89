"""Whole batches, sixteen parts at a time, from the manifest to the landing: what they cost beside the agents, and what is left."""

from __future__ import annotations

import ctypes
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from bench.__main__ import Row

_SIZES = "10,30" if os.environ.get("HANDOFF_BENCH_QUICK") else "10,30,100,300"
SIZES = tuple(int(word) for word in os.environ.get("HANDOFF_BENCH_PARTS", _SIZES).split(","))
"""How many parts: 1,000 take a quarter of an hour, so that size is asked for: HANDOFF_BENCH_PARTS=100,1000."""
AT_ONCE = 16
_TICKS = os.sysconf("SC_CLK_TCK")
MAIN = [sys.executable, "-m", "handoff.surfaces.cli.main"]
_SUBREAPER = 36
_PERSON = "[user]\n\tname = B\n\temail = b@example.invalid\n[init]\n\tdefaultBranch = main\n[gc]\n\tauto = 0\n"
# The agent is a shell that writes a module and its test: what is spent beside it is spent by handoff, git and the sandbox.
_AGENT = """case $1 in *join) exit 0;; esac
echo "def number(): return ${1#p}" >shop/$1.py
printf 'import unittest\\nfrom shop.%s import number\\nclass Case(unittest.TestCase):\\n    def test_number(self):\\n        self.assertEqual(number(), %s)\\n' $1 ${1#p} >tests/test_$1.py
"""


class Cost(NamedTuple):
    """Seconds by the clock; seconds of CPU of the supervisor's own process, and of everything that was started."""

    took: float
    supervisor: float
    everything: float


class Batch:
    """One home, one repository and one batch of so many parts, from its manifest to its verdict."""

    def __init__(self, folder: str, count: int) -> None:
        self.home, self.top, self.count = os.path.join(folder, "home"), os.path.join(folder, "work"), count
        for path in (self.home, os.path.join(self.top, "shop"), os.path.join(self.top, "tests")):
            os.makedirs(path)
        agent, config = os.path.join(folder, "agent.sh"), os.path.join(folder, "gitconfig")
        _write(agent, _AGENT)
        _write(config, _PERSON)
        _write(
            os.path.join(self.home, "config.toml"),
            f'agents = {{ bare = ["/bin/sh", "{agent}"] }}\nstarts_per_minute = 100000\nmax_running = {AT_ONCE}\n',
        )
        for name in ("shop", "tests"):
            _write(os.path.join(self.top, name, "__init__.py"), "")
        _write(os.path.join(self.top, ".gitignore"), "__pycache__/\nsplit.json\n")
        _write(os.path.join(self.top, "split.json"), json.dumps(_manifest(count)))
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("HANDOFF_")},
            "HOME": folder,
            "HANDOFF_HOME": self.home,
            "GIT_CONFIG_GLOBAL": config,
            "GIT_CONFIG_NOSYSTEM": "1",
        }
        self.do("git", "init", "-q")
        self.do("git", "add", ".")
        self.do("git", "commit", "-qm", "first")

    def do(self, *words: str) -> str:
        done = subprocess.run(
            words, cwd=self.top, env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{' '.join(words)} ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def run(self) -> Cost:
        """The batch to its end, and what was spent on it."""
        began, before = time.monotonic(), _spent()
        words = ("batch", "run", "split.json", "--agents", f"bare={AT_ONCE}", "--with", "{part}", "--json")
        verdict = json.loads(self.do(*MAIN, *words))
        assert verdict["verdict"] == "landed", verdict
        assert len(verdict["landed"]) == self.count, verdict
        supervisor = self.see_off()
        return Cost(time.monotonic() - began, supervisor, _spent() - before)

    def see_off(self) -> float:
        """Wait for what goes on behind the command: ours since its parents ended. What the supervisor itself has spent."""
        most = 0.0
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
            except ChildProcessError:
                return most
            with open(f"/proc/{ended.si_pid}/stat", encoding="utf-8") as file:
                fields = file.read().rpartition(")")[2].split()
            most = max(most, (int(fields[11]) + int(fields[12])) / _TICKS)
            os.waitpid(ended.si_pid, 0)

    def left(self) -> list[str]:
        """What the batch leaves behind when it was tidied: it must be nothing."""
        self.do(*MAIN, "project", "tidy", "--days", "0", "--newest", "1", "--execute")
        found = [f"clone {one['name']}" for one in json.loads(self.do(*MAIN, "workspace", "list", "--json"))]
        found += [f"folder {name}" for name in os.listdir(os.path.join(self.home, "work", "workspaces"))]
        refs = self.do("git", "for-each-ref", "--format=%(refname)").split()
        found += [f"ref {name}" for name in refs if name != "refs/heads/main" and not name.startswith("refs/notes/")]
        found += [f"file {line}" for line in self.do("git", "status", "--porcelain").splitlines()]
        return found


def _manifest(count: int) -> dict[str, object]:
    return {
        "schema_version": 2,
        "batch_id": "many",
        "fan_in_task": "many-join",
        "check": f"{sys.executable} -m unittest discover -q -t . -s tests",
        "amdahl_estimate": {"estimated_speedup": 2.0, "serial_minutes": 1},
        "sub_tasks": [
            {
                "id": name,
                "brief": f"Write shop/{name}.py and its test.",
                "estimated_minutes": 1,
                "file_ownership": [
                    {"type": "exact", "path": f"shop/{name}.py"},
                    {"type": "exact", "path": f"tests/test_{name}.py"},
                ],
                "check": f"test -s shop/{name}.py",
            }
            for name in (f"p{number}" for number in range(1, count + 1))
        ],
    }


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def _spent() -> float:
    """Seconds of CPU of all children that have ended, and of theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(count: int) -> tuple[Cost, list[str]]:
    """One batch in a home of its own, and what is left of it."""
    with tempfile.TemporaryDirectory(prefix="ho-batch-", ignore_cleanup_errors=True) as folder:
        batch = Batch(folder, count)
        return batch.run(), batch.left()


def rows() -> list[Row]:
    """Each size once; ratios within one run count."""
    # Whoever loses its parent becomes our child: so its cost is counted, and nothing is left running unseen.
    ctypes.CDLL(None, use_errno=True).prctl(_SUBREAPER, 1, 0, 0, 0)
    found: list[Row] = []
    costs: dict[int, Cost] = {}
    for count in SIZES:
        cost, left = measure(count)
        costs[count] = cost
        found += [
            (f"{count} parts, {AT_ONCE} at a time: all landed, suite green", f"{cost.took:.0f} s", "-"),
            (f"{count} parts: CPU of the supervisor, a part", _ms(cost.supervisor / count), "400 ms from 100 parts on"),
            (f"{count} parts: CPU of all processes, a part", _ms(cost.everything / count), "-"),
            (f"{count} parts: clones, refs and files left after tidying", str(len(left)), "0"),
        ]
    few, many = SIZES[-2:]
    growth = costs[many].everything / many / (costs[few].everything / few)
    return [*found, (f"CPU a part, {many} parts beside {few}", f"{growth:.2f}x", "1.3x")]


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms"

"""A person's words to a running session: from the start of `session say` until the client's hook has given them."""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

from bench.startup import clean_environment, program, run
from bench.supervisor import MAIN, claims, relay, until
from handoff.board.tasks import tasks

Row = tuple[str, str, str]
ROUNDS = 15
BUSY = 400


def rows() -> list[Row]:
    """From the start of `session say` until the hook after a tool call has given the words, while tasks start and end beside it."""
    spent = []
    with relay() as (app, environment, checkout, start):
        subprocess.run([*MAIN, "dump", "--task", "talk", "--next", "do it"], env=environment, cwd=checkout, check=True, stdout=subprocess.DEVNULL)  # fmt: skip
        said = subprocess.run([*MAIN, "task", "claim", "talk", "--json"], env=environment, cwd=checkout, check=True, capture_output=True)  # fmt: skip
        claim = json.loads(said.stdout)
        folder = os.path.join(app.settings.home, "shop", "sessions", claim["session"])
        os.makedirs(folder)
        with open(os.path.join(folder, "permissions"), "w", encoding="utf-8") as file:
            file.write(
                f"{tasks.find(app.database, project='shop', id='talk').key}\n{claim['fence']}\ntalk\n{checkout}\n\n"
            )
        own = {"HANDOFF_SESSION": claim["session"], "HANDOFF_PROJECT": "shop", "HANDOFF_FENCE": str(claim["fence"])}
        with app.database.transaction() as transaction:
            for number in range(BUSY):
                tasks.add(transaction, project="shop", id=f"task-{number}", brief="do it", workspace=checkout, check_command="true")  # fmt: skip
        start()
        until(lambda: claims(app) > 1)
        for number in range(ROUNDS):
            began = time.perf_counter()
            subprocess.run([*MAIN, "session", "say", claim["session"], f"word {number}"], env=environment, cwd=checkout, check=True, stdout=subprocess.DEVNULL)  # fmt: skip
            heard = subprocess.run([*MAIN, "hook", "claude", "PostToolUse"], env={**environment, **own}, cwd=checkout, check=True, input=b'{"tool_name": "Bash"}', capture_output=True)  # fmt: skip
            assert f"word {number}".encode() in heard.stdout, heard
            spent.append(time.perf_counter() - began)
        left = sum(not tasks.find(app.database, project="shop", id=f"task-{number}").ended for number in range(BUSY))
        assert left, "the relay was not busy until the end"
    return [
        ("`session say`, beside `python -c pass`: processor time, median", f"{_dearness():.1f}x", "-"),
        ("start of `session say` to the hook's answer, busy relay, median", _ms(statistics.median(spent)), "1000 ms"),
        ("the same, slowest of fifteen", _ms(max(spent)), "-"),
    ]


def _dearness() -> float:
    """What one command of a person costs beside the interpreter alone, in one run."""
    said, bare = [], []
    with tempfile.TemporaryDirectory(prefix="ho-bench-", ignore_cleanup_errors=True) as folder:
        environment = clean_environment(folder)
        run(["git", "init", "-q", folder], folder, environment)
        run([*program(), "dump", "--task", "talk", "--next", "do it"], folder, environment)
        run([*program(), "task", "claim", "talk"], folder, environment)
        for number in range(ROUNDS):
            bare.append(_spent([sys.executable, "-c", "pass"], folder, environment))
            said.append(_spent([*program(), "session", "say", "talk", f"word {number}"], folder, environment))
    return statistics.median(said) / statistics.median(bare)


def _spent(words: list[str], folder: str, environment: dict[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run(words, folder, environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms"


if __name__ == "__main__":
    for line in rows():
        print(*line, sep=" | ")

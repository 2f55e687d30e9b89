"""Many readers beside one who switches: nobody ever meets a moment without an active feature."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

READERS = 4
LOOKS = 475
REAL_CALLS = 100

PREPARE = """
import os, sys
from handoff.base.settings import from_environment
from handoff.engine.app import App
from handoff.engine.features import lifecycle, status
app = App(from_environment("handoff"))
"""
READ = (
    PREPARE
    + """
for _ in range(int(sys.argv[1])):
    assert status.look(app).feature.name in ("left", "right")
"""
)
SWITCH = (
    PREPARE
    + """
turns = 0
while not os.path.exists(sys.argv[1]):
    lifecycle.switch(app, name=("left", "right")[turns % 2])
    turns += 1
print(turns)
"""
)


def _start(script: str, word: str, folder: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script, word], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def _end(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=100)
    assert process.returncode == 0, err
    return out


@pytest.mark.slow
def test_two_thousand_status_calls_beside_a_loop_of_switch_never_fail(repo, cli, folder):
    cli("init", "left")
    cli("init", "right", "--force")
    stop = os.path.join(folder, "stop")
    switcher = _start(SWITCH, stop, repo.path)
    readers = [_start(READ, str(LOOKS), repo.path) for _ in range(READERS)]
    try:
        for _ in range(REAL_CALLS):
            assert cli("status", "--json").json["feature"] in ("left", "right")
        for reader in readers:
            _end(reader)
    finally:
        with open(stop, "w", encoding="utf-8"):
            pass
        turns = int(_end(switcher))
    assert turns > 100, "the switching was too slow to prove anything"

"""The minute people share: one agent has reached its limit, one file and one command, and another goes on."""

from __future__ import annotations

import subprocess
import sys

import pytest
from release.build import pyz

from client_stage import BYPASS

pytestmark = [pytest.mark.clients, pytest.mark.slow]
PAIRS = (("claude", "codex"),)
ASKED = "Build a cart that sums prices. Never touch README.md."
LIMIT = {"type": "error", "error": {"type": "rate_limit_error", "message": "You have reached your limit.", "code": 429}}


def test_a_session_at_its_limit_goes_on_in_another_client_by_one_file(pair):
    stage, _, target = pair
    stage.repo.write("cart.py", "def total(items):\n    return 0\n")
    stage.repo.commit("one")
    change, check = (
        "sed -i 's/return 0/return sum(items) + 1/' cart.py",
        "python3 -c 'import cart; assert cart.total([1]) == 1'",
    )
    stage.serve(("shell", change), ("shell", check), ("error", 429, LIMIT))
    words = stage.ask(ASKED)
    stage.client = target
    server = stage.serve(("say", "I go on."))
    more = [f"--with={word}" for word in (*stage.words(), *BYPASS)]
    done = subprocess.run(
        [sys.executable, "-S", "-I", pyz(stage.root), "take", "--to", target, "--yes", *more], cwd=stage.repo.path,
        env=stage.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = server.texts(0)
    for fact in (ASKED, "- Never touch README.md.", "changed cart.py", "AssertionError", "return sum(items) + 1"):
        assert fact in told, (fact, done.stderr, words[-2000:])
    stage.note("goes on from another's limit by `python handoff.pyz take`")

"""Hooks installed into a client's own settings: a person's plain session starts with the active feature's prompt."""

from __future__ import annotations

import subprocess

import pytest

pytestmark = [pytest.mark.clients, pytest.mark.slow, pytest.mark.timeout(400)]
FOR = {
    "claude": ["-p", "hi"],
    "gemini": ["-p", "hi", "--skip-trust", "-m", "gemini-2.5-pro"],
    "copilot": ["-p", "hi", "--allow-all", "--no-auto-update"],
    "codex": ["exec", "--skip-git-repo-check", "--dangerously-bypass-hook-trust"],
}
STATE = "# State\n\n# Current Step\n\nStep 1: build it\n\n# Execution Plan\n\n- [>] Step 1: build it\n- [ ] Step 2: ship it\n"


def test_a_plain_session_of_a_person_starts_with_the_features_prompt(stage):
    server = stage.serve(("say", "hello"))
    stage.cli("init", "login")
    stage.repo.write(".handoff/features/login/STATE.md", STATE)
    stage.cli("hooks", "install", "--agent", stage.client, "--user")
    words = [*FOR[stage.client], *stage.words()]
    words += ["hi"] if stage.client == "codex" else []
    done = subprocess.run(
        [stage.client, *words], cwd=stage.repo.path, env=stage.environment, stdin=subprocess.DEVNULL, capture_output=True,
        text=True, check=False, timeout=200, executable=f"{stage.root}/bin/{stage.client}",
    )  # fmt: skip
    assert server.requests, done.stdout + done.stderr
    assert "Step 1: build it" in server.texts(0), done.stdout + done.stderr
    stage.note("a person's own session starts with the feature's prompt")

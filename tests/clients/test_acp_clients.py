"""Real clients over the Agent Client Protocol, with the scripted model behind them."""

from __future__ import annotations

import os
import sys

import pytest

pytestmark = [pytest.mark.clients, pytest.mark.slow, pytest.mark.timeout(400)]
DONE = ("shell", f"{sys.executable} -m handoff.surfaces.cli.main task done --summary 'made a'")
FOR = {
    "gemini": ["--acp", "--skip-trust", "-m", "gemini-2.5-pro"],
    "opencode": ["acp"],
    "copilot": ["--acp"],
    "qwen": ["--acp"],
}


def test_an_acp_session_writes_what_it_owns_is_refused_the_rest_and_reports(stage):
    os.mkdir(os.path.join(stage.repo.path, "other"))  # some clients make no folders, and would not even ask
    server = stage.serve(
        ("write", os.path.join(stage.repo.path, "other/b.txt"), "x"),
        ("write", os.path.join(stage.repo.path, "owned/a.txt"), "x"), DONE, ("say", "finished"), DONE, ("say", "finished"),
    )  # fmt: skip
    words = [f"--with={word}" for word in (stage.client, *FOR[stage.client])]
    end = stage.cli("session", "start", "demo", "--agent", "acp", "--minutes", "1.5", "--json", *words, code=None).json
    assert "Task `demo` of project" in server.texts(0), stage.log(end)
    assert not os.path.exists(os.path.join(stage.repo.path, "other/b.txt")), stage.log(end)
    assert "edit write refused" in stage.text(end, "calls"), stage.log(end)
    assert (end["outcome"], end["state"], end["outside"]) == ("ok", "done", []), stage.log(end)
    stage.note("driven over ACP", "edit inside allowed", "report by command")

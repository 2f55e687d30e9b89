"""The relay's tools over HTTP for clients driven over the Agent Client Protocol.

Qwen Code is not among them: it hides tools behind a search of its own, and its first request does not wait for them.
"""

from __future__ import annotations

import os

import pytest

pytestmark = [pytest.mark.clients, pytest.mark.slow, pytest.mark.timeout(400)]
WORDS = {"gemini": ["--acp", "--skip-trust", "-m", "gemini-2.5-pro"], "opencode": ["acp"], "copilot": ["--acp"]}
FOR = tuple(WORDS)


def test_an_acp_session_reports_with_the_relays_tools_over_http(stage):
    server = stage.serve(
        ("write", os.path.join(stage.repo.path, "owned/a.txt"), "x"), ("tool", "finish", {"summary": "by http"}),
        ("say", "finished"),
    )  # fmt: skip
    words = [f"--with={word}" for word in (stage.client, *WORDS[stage.client])]
    with stage.endpoint():
        end = stage.cli(
            "session", "start", "demo", "--agent", "acp", "--minutes", "1.5", "--json", *words, code=None
        ).json
    told = stage.log(end) + server.all_texts()[-3000:]
    assert (end["outcome"], end["state"], end["reason"]) == ("ok", "done", "by http"), told
    assert stage.text(end, "hello-mcp"), told
    assert stage.text(end, "token").strip() not in stage.text(end, "acp.json")
    stage.note("report by MCP tool over ACP")

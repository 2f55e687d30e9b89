"""A real client under `handoff work`: its session reports to the supervisor's own endpoint."""

from __future__ import annotations

import time

import pytest

pytestmark = [pytest.mark.clients, pytest.mark.slow]
FOR = ("claude",)


def test_a_supervisors_session_reports_to_the_supervisors_endpoint(stage):
    stage.set(session_workspace='"shared"')  # inside a sandbox one broker serves them
    server = stage.serve(
        stage.write("owned/a.txt"), ("tool", "finish", {"summary": "to the supervisor"}), ("say", "finished"),
    )  # fmt: skip
    started = stage.cli("work", "--agent", "claude", "--detach", "--json").json
    try:
        deadline = time.monotonic() + 120
        while stage.cli("show", "demo", "--json").json["state"] != "done" and time.monotonic() < deadline:
            time.sleep(0.2)
        shown = stage.cli("show", "demo", "--json").json
    finally:
        stage.cli("work", "--stop")
    with open(started["log"], encoding="utf-8") as file:
        log = file.read()
    (session,) = [name for name in stage.sessions() if name.startswith("session-")]
    end = {"session": session}
    assert (shown["state"], shown["result"]) == ("done", "to the supervisor"), log + stage.log(end)
    url = stage.read(end, "session.json")["tools"]
    assert url.startswith("http://127.0.0.1:")
    token = stage.text(end, "token").strip()
    assert stage.text(end, "hello-mcp").strip() == token
    assert token not in log
    assert token not in server.all_texts()
    stage.note("a supervisor's session reports over HTTP")

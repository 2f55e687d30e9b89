"""A real client that compacts its conversation: the baton is given again, and the workspace was kept before."""

from __future__ import annotations

import os
import sys

import pytest

pytestmark = [pytest.mark.clients, pytest.mark.slow]
FOR = ("claude",)
DONE = ("shell", f"{sys.executable} -m handoff.surfaces.cli.main task done --summary 'made a'")


def test_after_a_compaction_the_baton_is_there_again_and_a_snapshot_was_taken_before(stage):
    stage.repo.write("AGENTS.md", "# For agents\n\n## Rules\n\n- Never say please twice.\n")
    stage.repo.commit("rules")
    stage.set(session_workspace='"shared"')  # a person asks for the snapshots of their own checkout
    server = stage.serve(
        ("full", stage.write("owned/a.txt")), ("say", "<summary>I wrote it.</summary>"),
        DONE, ("say", "finished"),
    )  # fmt: skip
    end = stage.run()
    told = stage.log(end)
    calls = stage.text(end, "calls").split("\n")
    assert calls[:4] == ["SessionStart  ok", "PreToolUse Write ok", "PreCompact  ok", "SessionStart  ok"], told
    asked, after = server.texts(1), server.texts(2)
    assert "Respond with TEXT ONLY" in asked, asked[-2000:]
    assert "I wrote it." in after, after[-2000:]
    assert "File created successfully" not in after, "the conversation before it is gone"
    assert "Task `demo` of project" in after, after[-4000:]
    assert "## Rules\n- Never say please twice." in after.replace("\\n", "\n"), "the rules are there again, first"
    shown = stage.cli("snapshot", "list", "--json").json["snapshots"]
    taken = {row["reason"]: row for row in shown}
    assert "before PreCompact" in taken, taken
    os.unlink(os.path.join(stage.repo.path, "owned/a.txt"))
    stage.cli("snapshot", "restore", taken["before PreCompact"]["id"])
    assert "hello" in stage.repo.read("owned/a.txt")
    assert (end["outcome"], end["state"]) == ("ok", "done"), told
    stage.note("compacts: snapshot before, baton again after", "compacts: the rules are there again")

"""Two tasks after each other in one checkout, by the real clients: the second does not answer for the first."""

from __future__ import annotations

import os

import pytest

pytestmark = [pytest.mark.clients, pytest.mark.slow]
FOR = ("claude", "codex", "copilot")


@pytest.mark.parametrize("committed", [False, True], ids=["left-dirty", "committed"])
def test_two_tasks_after_each_other_are_both_done(stage, committed):
    stage.set(session_workspace='"shared"')
    stage.cli("dump", "--task", "more", "--next", "Write more/b.txt.", "--owns", "more/", "--after", "demo")
    made = {}
    for task, path in (("demo", "owned/a.txt"), ("more", "more/b.txt")):
        os.makedirs(os.path.join(stage.repo.path, os.path.dirname(path)), exist_ok=True)
        server = stage.serve(
            ("write", os.path.join(stage.repo.path, path), "hello"), ("shell", "handoff task done --summary made"), ("say", "over")
        )  # fmt: skip
        more = [f"--with={word}" for word in stage.words()]
        words = ("session", "start", task, "--agent", stage.client, "--minutes", "5", "--json", *more)
        end = made[task] = stage.cli(*words, code=None).json
        assert (end["outcome"], end["state"], end["outside"]) == ("ok", "done", []), stage.log(end)
        if committed:
            stage.repo.git("add", path)
            stage.repo.git("commit", "-qm", task)
    assert "owned/a.txt" in server.texts(0), "the second is told what the first made"
    assert stage.repo.git("status", "--short").split() == ([] if committed else ["??", "more/", "??", "owned/"])
    stage.note("does two tasks after each other in one checkout")

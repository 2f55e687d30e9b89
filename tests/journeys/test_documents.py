"""No task's document is overwritten by another task's, nor anybody else's by ours."""

from __future__ import annotations

import os

from relay import manifest


def _queue(name: str) -> str:
    return os.path.join(os.environ["HANDOFF_HOME"], "repo", "queue", name)


def test_a_task_named_like_a_live_part_is_refused_and_the_parts_document_stays(cli, tmp_path):
    cli("dump", "--open-batch", manifest(tmp_path / "m.json"))
    with open(_queue("form.md"), encoding="utf-8") as file:
        before = file.read()
    said = cli("dump", "--task", "form", "--next", "something else", code=4)
    assert "login/form" in said.err
    with open(_queue("form.md"), encoding="utf-8") as file:
        assert file.read() == before


def test_a_document_of_an_older_tool_is_not_overwritten(cli):
    cli("dump", "--task", "first", "--next", "x")
    with open(_queue("theirs.md"), "w", encoding="utf-8") as file:
        file.write("the only words there are\n")
    said = cli("dump", "--task", "theirs", "--next", "ours", code=3)
    assert "theirs.md" in said.err
    with open(_queue("theirs.md"), encoding="utf-8") as file:
        assert file.read() == "the only words there are\n"
    assert "theirs" not in cli("queue", "--all").out

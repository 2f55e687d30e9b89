"""Lines of the journal have names for people: every kind that is written, and none that is not."""

from __future__ import annotations

import ast
import glob
import os

import handoff
from handoff.board import gates
from handoff.board.events import journal, wording
from handoff.board.tasks import states
from scripts import write_script

_FILES = (".html", ".json", ".toml", ".md", ".py")


def _written() -> set[str]:
    """Texts of the source that look like a kind."""
    top = os.path.dirname(handoff.__file__)
    rooms = {kind.partition(".")[0] for kind in wording.NAMES}
    found = {f"gate.{gates.APPROVED}", f"gate.{gates.REJECTED}", f"batch.{states.CANCELLED}", "batch.finished"}
    for room in ("board", "engine"):
        for path in glob.glob(os.path.join(top, room, "**", "*.py"), recursive=True):
            if path.endswith("wording.py"):
                continue
            with open(path, encoding="utf-8") as file:
                tree = ast.parse(file.read())
            for node in ast.walk(tree):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    room_of, _, word = node.value.partition(".")
                    if room_of in rooms and word.replace("_", "").isalpha() and not node.value.endswith(_FILES):
                        found.add(node.value)
    return found


def test_every_kind_that_is_written_has_a_name_and_no_name_is_left_over():
    assert set(wording.NAMES) ^ _written() == set()


def test_people_read_names_and_programs_the_kinds(cli, repo):
    cli("task", "add", "login", "Build it.", "--check", "test -s login.txt")
    script = write_script(os.path.join(os.environ["HANDOFF_HOME"], "script.toml"), {"exit": 7})
    cli("session", "start", "login", "--agent", "scripted", "--with", script, code=1)
    kinds = [event["kind"] for event in cli("log", "login", "--json").json]
    assert "task.expired" in kinds
    for words in (("log", "login"), ("show", "login")):
        said = cli(*words).out
        assert "attempt failed" in said
        assert "exit 7" in said
        assert "next attempt 2" in said
        assert not [kind for kind in kinds if kind in said]


def test_a_session_that_was_lost_is_no_failed_attempt():
    event = journal.Event(1, 0.0, "task.expired", "shop", 1, "login", None, "s", 1, {"reason": "power", "attempt": 1})
    assert wording.name(event) == "attempt failed"
    lost = event._replace(body={**event.body, "charged": False})
    assert (wording.name(lost), wording.details(lost)) == ("session lost", "power · next attempt 1")

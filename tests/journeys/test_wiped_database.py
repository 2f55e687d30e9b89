"""A database that was cut, wiped or damaged is never taken for an empty board, and the hint names what is there."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest


@pytest.fixture
def place(repo, cli):
    """A board with one live task."""
    cli("dump", "--task", "t1", "--next", "x")
    return os.path.join(os.environ["HANDOFF_HOME"], "handoff.db")


def cut(path):
    os.truncate(path, 0)


def wipe(path):
    for name in os.listdir(os.path.dirname(path)):
        if name.startswith("handoff.db") and not name.endswith(".lock"):
            os.unlink(os.path.join(os.path.dirname(path), name))


@pytest.mark.parametrize("harm", [cut, wipe])
def test_an_empty_database_beside_queue_files_is_an_error_that_names_them(cli, place, harm):
    harm(place)
    for words in (("task", "list"), ("task", "claim"), ("dump", "--task", "t2", "--next", "y")):
        said = cli(*words, code=1)
        assert "No live tasks" not in said.out
        assert "repo/queue/t1.md" in said.err
        assert "There is no backup" in said.err
        assert "backup-" not in said.err
    os.rename(os.path.join(os.path.dirname(place), "repo", "queue"), os.path.join(os.path.dirname(place), "kept"))
    assert "No live tasks" in cli("task", "list").out


def test_the_hint_names_a_backup_that_exists_and_it_works(cli, place):
    backup = f"{place}.backup-schema1-20261115T000000Z"
    shutil.copy(place, backup)
    with open(place, "wb") as file:
        file.write(b"this is no database" * 500)
    for name in (f"{place}-wal", f"{place}-journal"):
        if os.path.exists(name):
            os.unlink(name)
    for _ in range(2):
        said = cli("task", "list", code=1)
        assert backup in said.err
        hint = next(line for line in said.err.splitlines() if line.startswith("Hint: "))
        os.truncate(place, 0)
    subprocess.run(["sh", "-c", hint.partition(": cp ")[2].join(("cp ", ""))], check=True)
    assert "t1" in cli("task", "list").out


def test_a_damaged_database_without_a_backup_promises_none(cli, place):
    with open(place, "r+b") as file:
        file.write(b"not a database at all")
    assert "There is no backup" in cli("task", "list", code=1).err

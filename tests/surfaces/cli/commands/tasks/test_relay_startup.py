"""The relay's everyday commands import nothing they do not need; `bench/startup.py` has the figures."""

from __future__ import annotations

import subprocess
import sys

from relay import here

HEAVY = {
    "typing", "contextlib", "dataclasses", "pathlib", "subprocess", "tomllib", "urllib", "tempfile", "shutil", "inspect", "locale",
    "psutil", "threading", "random", "logging", "hashlib", "socket", "difflib", "ast",
}  # fmt: skip
PROBE = """
import sys
from handoff.surfaces.cli.main import main
code = main(sys.argv[1:])
sys.stderr.write("\\n" + "\\n".join(sys.modules))
sys.exit(code)
"""


def imported(folder, *words):
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path[:] = {sys.path!r}\n{PROBE}", *words],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return set(done.stderr.splitlines())


def test_the_everyday_commands_import_nothing_heavy(repo, monkeypatch):
    monkeypatch.chdir(repo.path)
    here("dump", "--task", "first", "--next", "The database is there.")
    for words in (
        ("dump", "--task", "form", "--next", "x"),
        ("task", "claim", "form"),
        ("heartbeat",),
        ("task", "done"),
    ):
        loaded = imported(repo.path, *words)
        assert not loaded & HEAVY, (words, sorted(loaded & HEAVY))
        assert "handoff.store.sqlite" in loaded


def test_a_heartbeat_needs_neither_git_nor_the_files(repo, monkeypatch):
    monkeypatch.chdir(repo.path)
    here("dump", "--task", "form", "--next", "x")
    here("task", "claim", "form")
    loaded = imported(repo.path, "heartbeat")
    assert not [
        name for name in loaded if name.startswith(("handoff.git", "handoff.engine.place.fanout.views", "json"))
    ]

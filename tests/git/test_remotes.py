"""The shared repository: which branches there have nothing any more that its main branch does not have."""

from __future__ import annotations

import os

import pytest

from handoff.git.remotes import Remote


@pytest.fixture
def shared(repo, tmp_path):
    """A repository with branches off one commit, and a mirror of it to come."""
    repo.write("shop.py", "def total(items):\n    return sum(items)\n")
    repo.commit("shop")
    for name, path, text in (
        ("squashed", "cart.py", "cart = []\n"),
        ("changed-since", "mail.py", "to = 1\n"),
        ("indented", "deep.py", "if x:\n    y()\n"),
        ("alone", "alone.py", "z = 1\n"),
        ("picture", "logo.bin", b"\0one"),
    ):
        repo.git("checkout", "-q", "-b", f"handoff/{name}-1", "main")
        repo.write(path, text)
        repo.commit(f"half of {name}")
        repo.write("shop.py", f"def total(items):\n    return sum(items)  # {name}\n")
        repo.commit(f"the rest of {name}")
        repo.git("checkout", "-q", "main")
    return repo, Remote(repo.path, "shared", os.environ), str(tmp_path / "mirror")


def test_a_branch_that_was_squashed_is_known_by_what_it_changed(shared):
    repo, remote, mirror = shared
    tips = remote.refs("refs/heads/handoff/*")
    assert remote.history(mirror) == set(repo.git("rev-list", "HEAD").split())
    assert remote.contained(mirror, tips) == set()
    for name, more in (
        ("changed-since", "mail.py"),
        ("indented", "deep.py"),
        ("picture", "logo.bin"),
        ("squashed", ""),
    ):
        repo.git("merge", "-q", "--squash", f"handoff/{name}-1")
        if name == "indented":
            repo.write("deep.py", "if x:\n  y()\n")
            repo.git("add", "-A")
        repo.commit(f"{name} (#1)")
        if more:
            repo.write(more, "something else by now\n")
            repo.write("shop.py", "def total(items):\n    return sum(items)\n")
            repo.commit(f"After {name}")
    remote.history(mirror)
    assert remote.contained(mirror, tips) == {"refs/heads/handoff/squashed-1", "refs/heads/handoff/changed-since-1"}
    repo.git("revert", "--no-edit", "HEAD")
    moved = {**tips, "refs/heads/handoff/squashed-1": "1" * 40}
    remote.history(mirror)
    assert remote.contained(mirror, moved) == {"refs/heads/handoff/changed-since-1"}, "only what was seen is judged"

"""A session swaps what lies in its workspace for links while we look at it from outside: nothing behind them is read or written."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from handoff.base.errors import HandoffError
from snapshot_archive import SnapshotArchive

SECRET = "what only the person may read"
# Exchanges its folder and a link to another in one step, as fast as it can, and changes its own files now and then.
SWAP = """
import ctypes, os, sys
libc = ctypes.CDLL(None)
here, there = (os.fsencode(path) for path in sys.argv[1:3])
own = os.open(here, os.O_RDONLY | os.O_DIRECTORY)
names = os.listdir(own)
print("swapping", flush=True)
round = 0
while os.getppid() == int(sys.argv[3]):
    libc.renameat2(-100, here, -100, there, 2)
    round += 1
    if round % 500 == 0:
        for name in names:
            fd = os.open(name, os.O_WRONLY | os.O_TRUNC, dir_fd=own)
            os.write(fd, b"%d\\n" % round)
            os.close(fd)
"""
ROUNDS = 25
LIGHT, HEAVY = 8, 80  # so many files are read by us, or with git's help


@pytest.fixture
def archive(repo):
    return SnapshotArchive(repo.path)


@pytest.fixture(params=[LIGHT, HEAVY])
def private(request, tmp_path):
    """A folder of the person's outside of the checkout."""
    folder = tmp_path / "private"
    folder.mkdir()
    for number in range(request.param):
        (folder / f"key{number}").write_text(SECRET)
    return str(folder)


@pytest.fixture
def swapping(repo, private, tmp_path):
    """`work/` of the checkout, with the names of the private folder, exchanged with a link to that all the time."""
    for name in os.listdir(private):
        repo.write(f"work/{name}", "mine\n")
    repo.commit("work")
    link = str(tmp_path / "link")
    os.symlink(private, link)
    words = [sys.executable, "-c", SWAP, os.path.join(repo.path, "work"), link, str(os.getpid())]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline()
        yield repo
        process.kill()


def everything(archive) -> bytes:
    """All that the store holds, of every kind, whether or not a snapshot names it."""
    return archive.store.git("cat-file", "--batch-all-objects", "--batch", "--unordered").out


def test_a_folder_that_is_swapped_for_a_link_gives_nothing_of_the_other_away(archive, swapping):
    for _ in range(ROUNDS):
        try:
            archive.take()
        except HandoffError:
            continue  # a tree that is swapped while git lists it may stop a snapshot; it gives nothing away
    assert SECRET.encode() not in everything(archive)


def test_a_restore_writes_nothing_through_a_link(archive, swapping, private):
    names = sorted(os.listdir(private))
    taken = archive.take()
    for _ in range(ROUNDS // 5):
        try:
            archive.restore(taken, exact=True)
        except (HandoffError, OSError):
            continue  # what it meets may stop it
    assert sorted(os.listdir(private)) == names
    for name in names:
        with open(os.path.join(private, name), encoding="utf-8") as file:
            assert file.read() == SECRET


@pytest.mark.parametrize("private", [LIGHT], indirect=True)
def test_links_in_the_git_folder_are_kept_as_links(repo, archive, private):
    hook = os.path.join(repo.path, ".git", "hooks", "pre-commit")
    for name in ("hooks/pre-commit", "info/attributes", "logs/refs/heads/other", "MERGE_MSG"):
        path = os.path.join(repo.path, ".git", name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.symlink(os.path.join(private, "key0"), path)
    taken = archive.take()
    assert SECRET.encode() not in everything(archive)
    os.unlink(hook)
    archive.restore(taken, settings=True)
    assert os.readlink(hook) == os.path.join(private, "key0")

"""Whatever happens to the files, a snapshot equals the disk: few changes, many, back and forth."""

from __future__ import annotations

import os
import random
import shutil

import pytest

from handoff.git.snapshots.restore import blobs
from handoff.git.snapshots.scan import LIMIT
from snapshot_archive import SnapshotArchive, tree_facts


@pytest.fixture
def archive(repo):
    return SnapshotArchive(repo.path)


def held(archive, taken):
    """A snapshot in the same words as `tree_facts`."""
    found = {}
    listed = [line.split("\t", 1) for line in archive.store.ask("ls-tree", "-r", "-z", taken.sha).split("\0") if line]
    contents = blobs(archive.store, [facts.split(" ")[2] for facts, _ in listed])
    for (facts, name), data in zip(listed, contents, strict=True):
        mode = facts.split(" ")[0]
        if mode == "120000":
            found[name] = ("link", os.fsdecode(data))
        else:
            found[name] = ("program" if mode == "100755" else "file", data)
    return found


def test_a_change_taken_back_is_taken_back_in_the_snapshot_too(repo, archive):
    path = os.path.join(repo.path, "README.md")
    os.utime(path, (1_700_000_000, 1_700_000_000))
    repo.git("update-index", "-q", "--refresh")
    archive.take()
    repo.write("README.md", "changed\n")
    assert held(archive, archive.take())["README.md"][1] == b"changed\n"
    repo.write("README.md", "# A project\n")
    assert held(archive, archive.take())["README.md"][1] == b"# A project\n"
    repo.write("new.txt", "new\n")
    archive.take()
    os.unlink(os.path.join(repo.path, "new.txt"))
    assert set(held(archive, archive.take())) == {"README.md"}


def test_many_changes_after_few_and_few_after_many(repo, archive):
    archive.take()
    repo.write("few.txt", "1\n")
    archive.take()
    for number in range(LIMIT + 20):
        repo.write(f"many/{number}.txt", f"{number}\n")
    assert held(archive, archive.take()) == tree_facts(repo.path)
    repo.write("few.txt", "2\n")
    shutil.rmtree(os.path.join(repo.path, "many"))
    assert held(archive, archive.take()) == tree_facts(repo.path)


def test_ignored_files_do_not_stay_after_they_were_asked_for_once(repo, archive):
    repo.write(".gitignore", "*.log\n")
    repo.write("x.log", "x\n")
    archive.take()
    assert "x.log" in held(archive, archive.take(ignored=True))
    repo.write("a.txt", "a\n")
    assert set(held(archive, archive.take())) == {"README.md", ".gitignore", "a.txt"}


def test_the_last_file_of_a_folder_takes_the_folder_with_it(repo, archive):
    repo.write("a/b/c.txt", "c\n")
    archive.take()
    repo.write("a/b/d.txt", "d\n")
    archive.take()
    shutil.rmtree(os.path.join(repo.path, "a"))
    taken = archive.take()
    assert held(archive, taken) == tree_facts(repo.path)
    os.unlink(os.path.join(repo.path, "README.md"))
    assert held(archive, archive.take()) == {}
    assert archive.sound()


@pytest.mark.parametrize("seed", range(4))
def test_any_sequence_of_changes_is_held_exactly(repo, archive, seed):
    chance = random.Random(seed)
    folders = ["", "a", "a/b", "c", "c/d/e"]
    names = ["x", "y.txt", "z z", "ü", "Q"]

    def place():
        return os.path.join(repo.path, chance.choice(folders), chance.choice(names))

    for step in range(45):
        path = place()
        kind = chance.choice(
            ["write", "write", "write", "delete", "link", "mode", "rename", "folder", "stage", "commit", "reset"]
        )
        if kind in ("write", "link", "folder"):
            _make_room(repo.path, path)
        if kind == "write":
            with open(path, "w", encoding="utf-8") as file:
                file.write(f"{seed} {step % 7}\n")
        elif kind == "link":
            os.symlink("x", path)
        elif kind == "folder":
            os.mkdir(path)
            with open(os.path.join(path, "inside"), "w", encoding="utf-8") as file:
                file.write(f"{step}\n")
        elif kind == "delete" and os.path.lexists(path):
            _remove(path)
        elif kind == "mode" and os.path.isfile(path) and not os.path.islink(path):
            os.chmod(path, chance.choice([0o644, 0o755]))
        elif kind == "rename" and os.path.lexists(path):
            other = os.path.join(repo.path, f"renamed{step}")
            os.rename(path, other)
        elif kind == "stage":
            repo.git("add", "-A")
        elif kind == "commit":
            repo.git("add", "-A")
            repo.git("commit", "-q", "--allow-empty", "-m", "x")
        elif kind == "reset":
            repo.git("reset", "-q", "--hard")
        if chance.random() < 0.6:
            assert held(archive, archive.take()) == tree_facts(repo.path), (seed, step, kind)
    assert held(archive, archive.take()) == tree_facts(repo.path)
    assert archive.sound()


def _make_room(top, path):
    at = top
    for part in os.path.relpath(path, top).split("/")[:-1]:
        at = os.path.join(at, part)
        if os.path.lexists(at) and (os.path.islink(at) or not os.path.isdir(at)):
            os.unlink(at)
        os.makedirs(at, exist_ok=True)
    if os.path.lexists(path):
        _remove(path)


def _remove(path):
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        os.unlink(path)

"""The sides of a snapshot: the store holds all that they need, and each object once."""

from __future__ import annotations

import os

import pytest

from snapshot_archive import SnapshotArchive


@pytest.fixture
def archive(repo):
    return SnapshotArchive(repo.path)


def test_a_snapshot_copies_what_changed_and_not_every_file_again(repo, archive):
    for number in range(60):
        repo.write(f"f{number}.txt", f"{number}\n")
    repo.commit("many")
    packs = os.path.join(archive.store.objects, "pack")

    def copied():
        """How many objects came in packs since the last time, and how many of them came before."""
        found = []
        for name in sorted(set(os.listdir(packs)) - seen):
            seen.add(name)
            if name.endswith(".idx"):
                with open(os.path.join(packs, name), "rb") as file:
                    listed = archive.store.ask("show-index", stdin=file.read())
                found += [line.split(" ")[1] for line in listed.splitlines()]
        again = len(found) - len(set(found) - held)
        held.update(found)
        return len(found), again

    seen, held = set(), set()
    archive.take()
    count, again = copied()
    assert count > 60
    assert again == 0, "the index and the history have the same files"
    repo.write("f7.txt", "changed\n")
    repo.git("add", "-A")
    archive.take()
    count, again = copied()
    assert count <= 4
    assert again == 0
    repo.commit("changed")
    archive.take()
    assert copied()[0] <= 4
    repo.git("update-index", "--force-remove", "f8.txt")
    repo.git("gc", "-q", "--prune=now")
    taken = archive.take()
    archive.store.ask("fsck", "--full")
    assert archive.content(taken, "f7.txt") == b"changed\n"

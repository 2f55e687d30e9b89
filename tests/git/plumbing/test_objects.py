"""Objects and trees we write are the ones git itself would write; what is packed costs one question."""

from __future__ import annotations

import os
import subprocess

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from handoff.base.errors import UserError
from handoff.git.commits.index import index_info
from handoff.git.plumbing.objects import FILE, PROGRAM, Entry, Repository
from snapshot_archive import SnapshotArchive

_NAMES = st.text("ab-.0", min_size=1, max_size=2).filter(lambda name: name.strip("."))
_PATHS = st.lists(_NAMES, min_size=1, max_size=3).map(lambda parts: "/".join(parts).encode())


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("trees"))
    subprocess.run(["git", "init", "-q", folder], check=True)
    blobs = [
        subprocess.run(
            ["git", "-C", folder, "hash-object", "-w", "--stdin"], input=text, capture_output=True, check=True
        ).stdout.decode().strip()
        for text in (b"1", b"2")
    ]  # fmt: skip
    return Repository(folder, dict(os.environ)), blobs


def _write_tree(repo, index, changes):
    repo.ask(
        "update-index",
        "-z",
        "--add",
        "--remove",
        "--replace",
        "--index-info",
        stdin=index_info(changes, 20),
        index=index,
    )
    return repo.ask("write-tree", index=index).strip()


def _apart(paths):
    """Paths of which none is a folder of another."""
    return [path for path in paths if not any(other.startswith(path + b"/") for other in paths)]


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    st.sets(_PATHS, min_size=1, max_size=12), st.dictionaries(_PATHS, st.sampled_from("12x-"), min_size=1, max_size=6)
)
def test_a_grafted_tree_is_the_tree_git_writes(place, first, second):
    repo, blobs = place
    index = os.path.join(repo.folder, "index-test")
    if os.path.exists(index):
        os.unlink(index)
    before = {path: Entry(FILE, blobs[0]) for path in _apart(first)}
    tree = _write_tree(repo, index, before)
    kinds = {"1": Entry(FILE, blobs[0]), "2": Entry(FILE, blobs[1]), "x": Entry(PROGRAM, blobs[0]), "-": None}
    wanted = _apart([path for path in second if second[path] != "-"])
    changes = {path: kinds[second[path]] for path in wanted}
    changes |= {path: None for path, kind in second.items() if kind == "-" and path in before and path not in changes}
    # What must make room for a new file or folder is named as removed, as a commit names it.
    for path in list(before):
        if any(new.startswith(path + b"/") or path.startswith(new + b"/") for new in wanted):
            changes[path] = None
    grafted = repo.graft(repo.graft("", before), changes)
    expected = _write_tree(repo, index, changes)
    assert repo.graft("", before) == tree
    assert grafted == expected


def test_objects_written_together_are_one_pack_that_git_can_read(repo):
    archive = SnapshotArchive(repo.path)
    archive.take()
    texts = [b"", b"x", *(str(number).encode() * (number * 37) for number in range(1, 30))]
    with archive.store.gathered():
        names = [archive.store.write("blob", text) for text in texts]
        assert archive.store.read(names[5]) == texts[5]
        assert not any(os.path.exists(os.path.join(archive.store.objects, name[:2], name[2:])) for name in names[:1])
        assert archive.store.readable(names[:1])  # git is asked: now it is on the disk
    assert len(archive.store.packs) == 1
    assert [archive.store.git("cat-file", "blob", name).out for name in names] == texts
    assert archive.sound()


class Counted(Repository):
    """A repository that counts how often git is asked for objects."""

    calls = 0

    def git(self, *words, **options):
        self.calls += words[0] == "cat-file"
        return super().git(*words, **options)


def test_what_the_paths_need_of_a_packed_commit_is_read_in_one_question(repo):
    paths = [f"a/b{number}/c/{name}.txt" for number in range(3) for name in "xy"]
    for path in paths:
        repo.write(path, path)
    repo.commit("packed")
    repo.git("gc", "-q")
    counted = Counted(repo.path, dict(os.environ))
    tree = counted.load(repo.head(), [path.encode() for path in paths])
    changes = {b"a/b1/c/x.txt": counted.look_up(tree, b"a/b2/c/y.txt"), b"a/b0/c/x.txt": None, b"a/b0/c/y.txt": None}
    grafted = counted.graft(tree, changes)
    assert counted.calls == 1
    assert repo.git("ls-tree", "-r", "--name-only", grafted).split() == ["README.md", *paths[2:]]
    assert repo.git("rev-parse", f"{grafted}:a/b1/c/x.txt") == repo.git("rev-parse", "HEAD:a/b2/c/y.txt")


def test_what_lies_loose_is_read_without_git_even_if_a_folder_beside_it_is_packed(repo):
    repo.write("packed/a.txt", "a")
    repo.write("loose/b.txt", "b")
    repo.commit("one")
    repo.git("gc", "-q")
    repo.write("loose/b.txt", "c")
    repo.commit("two")
    counted = Counted(repo.path, dict(os.environ))
    tree = counted.load(repo.head(), [b"loose/b.txt", b"new/deep/c.txt"])
    assert counted.look_up(tree, b"loose/b.txt").mode == FILE
    assert counted.calls == 0
    counted.load(repo.head(), [b"loose/b.txt", b"packed/a.txt"])
    assert counted.look_up(tree, b"packed/a.txt").mode == FILE
    assert counted.calls == 1


def test_an_object_nobody_has_is_an_error_that_names_it(repo):
    with pytest.raises(UserError, match="1111111111"):
        Repository(repo.path, dict(os.environ)).tree("1" * 40)

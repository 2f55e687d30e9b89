"""Trees rebuilt along the changed paths are the trees git itself would write."""

from __future__ import annotations

import os
import subprocess

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from handoff.git.commits.index import index_info
from handoff.git.plumbing.objects import FILE, PROGRAM, Entry
from handoff.git.plumbing.repository import Repository

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


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
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

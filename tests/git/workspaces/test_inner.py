"""A workspace with a repository inside goes only when nothing in there would be lost."""

from __future__ import annotations

import os
import subprocess

import pytest

from handoff.base.errors import Refused
from handoff.engine.place import workspaces as engine
from handoff.git.snapshots.take import RetentionRules
from handoff.git.workspaces import WorkspaceRequest
from sandbox import Repo
from snapshot_archive import SnapshotArchive


@pytest.fixture
def archive(repo):
    return SnapshotArchive(repo.path)


@pytest.fixture
def add(archive):
    def make(name="one"):
        made = engine.add_workspace(
            archive.app, order=WorkspaceRequest(name), snapshot_store=archive.snapshot_store
        ).workspace
        return Repo(made.tree)

    return make


@pytest.fixture
def with_submodule(repo, tmp_path):
    library = Repo.create(str(tmp_path / "library"))
    library.write("lib.txt", "lib\n")
    library.commit("a library")
    repo.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", library.path, "lib")
    repo.commit("with a library")


def remove(archive, name="one", **options):
    return engine.remove_workspace(archive.app, name=name, snapshot_store=archive.snapshot_store, **options)


def test_a_submodule_nobody_touched_goes_with_its_workspace(with_submodule, archive, add):
    clone = add()
    assert clone.read("lib/lib.txt") == "lib\n"
    remove(archive)
    assert not os.path.exists(clone.path)


@pytest.mark.parametrize("what", ["changed", "new", "staged", "committed", "stashed"])
def test_work_inside_a_submodule_keeps_its_workspace(with_submodule, archive, add, what):
    clone = add()
    inner = Repo(os.path.join(clone.path, "lib"))
    inner.write("new.txt" if what == "new" else "lib.txt", "work\n")
    if what in ("staged", "committed"):
        inner.git("add", "-A")
    if what == "committed":
        inner.git("commit", "-qm", "inside")
    if what == "stashed":
        inner.git("stash", "-q")
    with pytest.raises(Refused, match=r"no snapshot holds: lib \(\d (changed file|commit)") as error:
        remove(archive)
    assert f"git fetch {inner.path} HEAD" in error.value.hint
    assert os.path.exists(os.path.join(clone.path, "lib"))
    remove(archive, force=True)
    assert not os.path.exists(clone.path)
    assert "gone with it: lib (" in archive.app.notes[-1]


def test_the_commits_of_a_repository_that_a_session_began_keep_its_workspace(archive, add):
    clone = add()
    inner = Repo.create(os.path.join(clone.path, "deep", "own"))
    with pytest.raises(Refused, match=r"deep/own \(1 commit\)"):
        remove(archive)
    assert os.path.exists(inner.path)


def test_its_files_alone_are_in_the_snapshot(archive, add):
    clone = add()
    subprocess.run(["git", "init", "-q", os.path.join(clone.path, "own")], check=True)
    clone.write("own/a.txt", "a\n")
    kept = remove(archive)
    assert archive.store.git("show", f"{kept.snapshot}:own/a.txt").text == "a\n"


def test_what_git_ignores_and_what_leads_elsewhere_keeps_nothing(repo, archive, add, tmp_path):
    repo.write(".gitignore", "cache/\n")
    repo.commit("ignore")
    clone = add()
    Repo.create(os.path.join(clone.path, "cache", "fetched"))
    theirs = Repo.create(str(tmp_path / "theirs"))
    clone.write("trap/.git", f"gitdir: {theirs.path}/.git\n")
    remove(archive)
    assert not os.path.exists(clone.path)


def test_a_filter_planted_inside_does_not_run_when_its_workspace_goes(archive, add, tmp_path):
    clone = add()
    inner = Repo.create(os.path.join(clone.path, "own"))
    inner.write(".gitattributes", "* filter=evil\n")
    inner.git("config", "filter.evil.clean", f"touch {tmp_path}/ran")
    inner.git("config", "core.fsmonitor", f"touch {tmp_path}/ran")
    inner.write("a.txt", "a\n")
    with pytest.raises(Refused):
        remove(archive)
    assert not (tmp_path / "ran").exists()


def test_keeping_house_leaves_such_a_workspace_and_says_why(archive, add):
    clone = add()
    Repo.create(os.path.join(clone.path, "own"))
    done = engine.tidy(
        archive.app,
        rules=RetentionRules(30, 10, 1 << 30),
        snapshot_store=archive.snapshot_store,
        over=["one"],
        apply=True,
    )
    assert done.workspaces == ()
    assert "own (1 commit)" in done.stay[0]
    assert os.path.exists(clone.path)

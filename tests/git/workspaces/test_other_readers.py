"""A clone is an ordinary repository to the libraries that tools and checks read repositories with."""

from __future__ import annotations

import dulwich.porcelain
import dulwich.repo
import pygit2
import pytest

import git as gitpython
from handoff.engine.place import workspaces as engine
from handoff.git.workspaces import WorkspaceRequest
from sandbox import Repo
from snapshot_archive import SnapshotArchive


@pytest.fixture
def clone(repo):
    """A clone of two commits with every kind of tag, one file of it changed and one new."""
    repo.write("a.txt", "a\n")
    repo.git("tag", "light")
    repo.git("tag", "-a", "-m", "first", "noted")
    repo.git("tag", "-a", "-m", "of a tag", "twice", "noted")
    repo.git("tag", "-a", "-m", "of a folder", "tree", "HEAD^{tree}")
    repo.commit("two")
    repo.git("branch", "other", "HEAD~1")
    archive = SnapshotArchive(repo.path)
    made = engine.add_workspace(archive.app, order=WorkspaceRequest("one"), snapshot_store=archive.snapshot_store)
    there = Repo(made.workspace.tree)
    there.write("a.txt", "changed\n")
    there.write("new.txt", "new\n")
    return there


def refs(clone: Repo) -> dict[str, str]:
    lines = clone.git("for-each-ref", "--format=%(refname) %(objectname)").splitlines()
    return dict(line.split(" ") for line in lines)


def commits_of_tags(clone: Repo) -> dict[str, str]:
    names = (name for name in refs(clone) if name.startswith("refs/tags/"))
    return {name: clone.git("rev-parse", f"{name}^{{}}").strip() for name in names}


def test_packed_refs_of_a_clone_are_what_git_would_write(clone):
    ours = clone.read(".git/packed-refs")
    assert {"refs/tags/light", "refs/tags/noted", "refs/remotes/origin/other"} <= set(refs(clone))
    clone.git("pack-refs", "--all")
    assert clone.read(".git/packed-refs") == ours


def test_gitpython_reads_a_clone(clone):
    with gitpython.Repo(clone.path) as repo:
        assert repo.head.commit.hexsha == clone.head()
        assert repo.active_branch.path == clone.git("symbolic-ref", "HEAD").strip()
        assert {ref.path for ref in repo.refs} == set(refs(clone))
        commits = {name: sha for name, sha in commits_of_tags(clone).items() if name != "refs/tags/tree"}
        assert {tag.path: tag.commit.hexsha for tag in repo.tags if tag.path in commits} == commits
        assert [commit.message.strip() for commit in repo.iter_commits()] == ["two", "first"]
        assert [change.a_path for change in repo.index.diff(None)] == ["a.txt"]
        assert repo.untracked_files == ["new.txt"]


def test_dulwich_reads_a_clone(clone):
    with dulwich.repo.Repo(clone.path) as repo:
        assert repo.head().decode() == clone.head()
        found = {name.decode(): sha.decode() for name, sha in repo.refs.as_dict().items() if name != b"HEAD"}
        assert found == refs(clone)
        assert {name: repo.get_peeled(name.encode()).decode() for name in commits_of_tags(clone)} == commits_of_tags(
            clone
        )
        assert [entry.commit.message.strip() for entry in repo.get_walker()] == [b"two", b"first"]
        status = dulwich.porcelain.status(repo)
        assert (status.unstaged, status.untracked, any(status.staged.values())) == ([b"a.txt"], [b"new.txt"], False)


def test_pygit2_reads_a_clone(clone):
    repo = pygit2.Repository(clone.path)
    assert str(repo.head.target) == clone.head()
    assert {name: str(repo.references[name].target) for name in repo.references} == refs(clone)
    assert {name: str(repo.references[name].peel().id) for name in commits_of_tags(clone)} == commits_of_tags(clone)
    assert [commit.message.strip() for commit in repo.walk(repo.head.target)] == ["two", "first"]
    changed, new = pygit2.enums.FileStatus.WT_MODIFIED, pygit2.enums.FileStatus.WT_NEW
    assert repo.status() == {"a.txt": changed, "new.txt": new}

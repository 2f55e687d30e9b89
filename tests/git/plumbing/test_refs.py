"""HEAD and the branches, read from git's own files, are what git itself says."""

from __future__ import annotations

import os

import pytest

from handoff.git.commits.commit import commit
from handoff.git.plumbing import open_source
from handoff.git.plumbing.refs import Head, head, refs


def as_git_says(repo):
    ref = repo.git("symbolic-ref", "-q", "HEAD", check=False).strip()
    return Head(ref, repo.git("rev-parse", "-q", "--verify", "HEAD", check=False).strip())


def detach(repo):
    repo.git("checkout", "-q", "--detach")


def pack(repo):
    repo.git("pack-refs", "--all", "--prune")


def go_on_after_packing(repo):
    pack(repo)
    repo.write("more.txt", "more")
    repo.commit("more")


def start_a_branch_without_a_commit(repo):
    repo.git("checkout", "-q", "--orphan", "fresh")


@pytest.mark.parametrize("change", [pack, go_on_after_packing, detach, start_a_branch_without_a_commit])
def test_head_is_read_as_git_reads_it(repo, change):
    assert head(open_source(repo.path)) == as_git_says(repo)
    change(repo)
    assert head(open_source(repo.path)) == as_git_says(repo)


def test_a_linked_worktree_has_a_head_of_its_own(repo, tmp_path):
    linked = str(tmp_path / "linked")
    repo.git("worktree", "add", "-q", "-b", "topic", linked)
    found = open_source(linked)
    assert found.common == open_source(repo.path).common
    assert head(found) == Head("refs/heads/topic", repo.head())
    assert head(found).branch == "topic"


def test_every_ref_is_found_packed_or_loose(repo):
    repo.git("tag", "packed")
    pack(repo)
    repo.git("tag", "loose")
    repo.git("symbolic-ref", "refs/heads/alias", repo.git("symbolic-ref", "HEAD").strip())
    lines = repo.git("for-each-ref", "--format=%(refname) %(objectname)").splitlines()
    wanted = dict(line.split(" ") for line in lines) | {"refs/heads/alias": "ref: " + as_git_says(repo).ref}
    assert refs(open_source(repo.path)) == wanted


def test_a_commit_where_head_is_a_link_stays_on_its_branch(repo):
    place = os.path.join(repo.path, ".git", "HEAD")
    before = as_git_says(repo)
    os.unlink(place)
    os.symlink(before.ref, place)
    repo.write("linked.txt", "linked")
    landed = commit(repo.path, ["linked.txt"], "through a link", environment=dict(os.environ), now=1e9)
    assert as_git_says(repo) == before._replace(commit=landed.commit)

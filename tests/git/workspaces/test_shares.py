"""A tree that was laid out before is laid out again by several gits at once, and nothing tells the difference."""

from __future__ import annotations

import os
import shutil

import pytest

from handoff.engine.safety import snapshots
from handoff.engine.workspaces import workspaces as engine
from handoff.git.workspaces.workspaces import WorkspaceRequest
from sandbox import Repo
from snapshot_archive import SnapshotArchive, tree_facts

_WRAPPER = """#!/bin/sh
echo "$GIT_INDEX_FILE $*" >>"{log}"
case "$GIT_INDEX_FILE" in *{fails}) echo "no space" >&2; exit 1;; esac
exec "{real}" "$@"
"""


class Maker:
    """Makes workspaces of a repository with many files, with a git that writes down what it is asked."""

    def __init__(self, repo, folder, monkeypatch):
        self.repo, self.folder, self.log = repo, folder, os.path.join(folder, "log")
        self.real = shutil.which("git")
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        self.wrap()
        for number in range(1100):
            repo.write(f"d{number % 7}/er/f{number}.txt", f"{number}\n")
        repo.write("d1/tool.sh", "true\n")
        os.chmod(os.path.join(repo.path, "d1/tool.sh"), 0o755)
        os.symlink("tool.sh", os.path.join(repo.path, "d1/link"))
        repo.commit("many")
        self.archive = SnapshotArchive(repo.path)

    def wrap(self, fails="none"):
        with open(os.path.join(self.folder, "git"), "w", encoding="utf-8") as file:
            file.write(_WRAPPER.format(log=self.log, fails=fails, real=self.real))
        os.chmod(file.name, 0o755)

    def make(self, name):
        """The clone, and how many gits laid out a share of it, and how many all of it."""
        open(self.log, "w", encoding="utf-8").close()
        order = WorkspaceRequest(name)
        made = engine.add_workspace(self.archive.app, order=order, snapshot_store=self.archive.snapshot_store)
        with open(self.log, encoding="utf-8") as file:
            asked = file.read()
        clone = Repo(made.workspace.tree)
        assert not [name for name in os.listdir(os.path.join(clone.path, ".git")) if "share" in name]
        return clone, asked.count(" checkout-index "), asked.count(" read-tree -m -u HEAD")

    def start(self, clone, name):
        """What the first snapshot of a clone holds."""
        own = SnapshotArchive(clone.path)
        (start,) = snapshots.listing(own.app, snapshot_store=own.snapshot_store, workspace=name)
        return own.files(start)


@pytest.fixture
def maker(repo, tmp_path, monkeypatch):
    folder = tmp_path / "wrapped"
    folder.mkdir()
    return Maker(repo, str(folder), monkeypatch)


def _alike(maker, first, *others):
    """Files, rights, links, index, and the first snapshots; each is as git says it should be."""
    facts, listed = tree_facts(first.path), first.git("ls-files", "-s")
    for one in others:
        assert tree_facts(one.path) == facts
        assert one.git("ls-files", "-s") == listed
    for one in (first, *others):
        assert one.git("status", "--porcelain") == ""
        assert one.git("write-tree") == maker.repo.git("rev-parse", "HEAD^{tree}")
        one.git("fsck", "--strict")


def test_the_second_clone_of_a_tree_is_laid_out_by_two_gits_and_is_the_same(maker):
    first, shares, whole = maker.make("one")
    assert (shares, whole) == (0, 1)
    second, shares, whole = maker.make("two")
    assert (shares, whole) == (2, 0)
    with open(os.path.join(second.path, ".git", "index"), "rb") as index:
        assert b"TREE" in index.read(), "git need not compare each file with its tree"
    _alike(maker, first, second)
    assert maker.start(first, "one") == maker.start(second, "two")
    maker.repo.write("d2/new.txt", "new\n")
    maker.repo.commit("another tree")
    third, shares, whole = maker.make("three")
    assert (shares, whole) == (0, 1)
    assert third.read("d2/new.txt") == "new\n"


def test_where_one_of_them_fails_one_git_begins_anew_and_it_is_not_tried_again(maker):
    first, *_ = maker.make("one")
    maker.wrap(fails="share-1")
    second, shares, whole = maker.make("two")
    assert (shares, whole) == (2, 1)
    maker.wrap()
    third, shares, whole = maker.make("three")
    assert (shares, whole) == (0, 1)
    _alike(maker, first, second, third)


@pytest.mark.parametrize(
    ("settings", "attributes"),
    [("true", "* -text\n"), ("true", ""), ("false", "*.txt text eol=crlf\n"), ("input", "* text=auto\n")],
)
def test_files_are_converted_as_by_one_git(maker, settings, attributes):
    maker.repo.git("config", "core.autocrlf", settings)
    if attributes:
        maker.repo.write(".gitattributes", attributes)
        maker.repo.commit("attributes")
    first, second, third = (maker.make(name)[0] for name in ("one", "two", "three"))
    _alike(maker, first, second, third)
    ends = b"\r\n" if "crlf" in attributes or not attributes else b"\n"
    with open(os.path.join(third.path, "d6/er/f6.txt"), "rb") as file:
        assert file.read() == b"6" + ends

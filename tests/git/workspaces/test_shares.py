"""A large tree is laid out by several gits at once, and nothing tells the difference."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress

import pytest

from handoff.base.errors import UserError
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

_INTERRUPTING = """#!/bin/sh
case "$*" in *" checkout-index "*|*" read-tree -m -u "*) echo begun >>"{log}"; sleep 0.1; mkdir "{log}.told" && kill -INT {pid}; sleep 0.3; "{real}" "$@"; echo ended >>"{log}"; exit;; esac
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

    def make(self, name, **order):
        """The clone, and how many gits laid out a share of it, and how many all of it."""
        open(self.log, "w", encoding="utf-8").close()
        order = WorkspaceRequest(name, **order)
        made = engine.add_workspace(self.archive.app, order=order, snapshot_store=self.archive.snapshot_store)
        with open(self.log, encoding="utf-8") as file:
            asked = file.read()
        clone = Repo(made.workspace.tree)
        assert not [name for name in os.listdir(os.path.join(clone.path, ".git")) if "share" in name]
        return clone, asked.count(" checkout-index "), asked.count(" read-tree -m -u HEAD")

    def listings(self):
        """How often git was asked what is in a tree."""
        with open(self.log, encoding="utf-8") as file:
            return file.read().count(" ls-tree ")

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


def test_a_clone_is_laid_out_by_two_gits_and_is_as_one_git_makes_it(maker):
    first, shares, whole = maker.make("one")
    assert (shares, whole, maker.listings()) == (2, 0, 1)
    second, shares, whole = maker.make("two")
    assert (shares, whole, maker.listings()) == (2, 0, 0), "what is in the tree is known by now"
    plain = Repo(os.path.join(maker.folder, "plain"))
    maker.repo.git("clone", "-q", maker.repo.path, plain.path)
    _alike(maker, plain, first, second)
    assert maker.start(first, "one") == maker.start(second, "two")
    assert _known_trees(first) == _known_trees(second) == _known_trees(plain)
    maker.repo.write("d2/new.txt", "new\n")
    maker.repo.commit("another tree")
    third, shares, whole = maker.make("three")
    assert (shares, whole) == (2, 0)
    assert third.read("d2/new.txt") == "new\n"


def _known_trees(clone):
    """What an index says of whole folders: git need not compare each file with its tree."""
    with open(os.path.join(clone.path, ".git", "index"), "rb") as file:
        index = file.read()
    return index[index.index(b"TREE") : -20]


def test_where_one_of_them_fails_one_git_begins_anew_and_it_is_not_tried_again(maker):
    maker.wrap(fails="share-1")
    first, shares, whole = maker.make("one")
    assert (shares, whole) == (2, 1)
    maker.wrap()
    second, shares, whole = maker.make("two")
    assert (shares, whole) == (0, 1)
    _alike(maker, first, second)
    maker.repo.write("d2/other.txt", "new\n")
    maker.repo.commit("another tree")
    third, shares, whole = maker.make("three")
    assert (shares, whole) == (0, 1), "what made one fail may make the next"
    assert third.read("d2/other.txt") == "new\n"


def test_a_tree_with_rules_for_its_files_is_laid_out_by_one_git_until_it_is_known_that_they_change_nothing(maker):
    maker.repo.write("d3/.gitattributes", "*.png -diff\n")
    maker.repo.commit("rules")
    made = [maker.make(name) for name in ("one", "two")]
    assert [numbers for _, *numbers in made] == [[0, 1], [2, 0]]
    _alike(maker, *(clone for clone, *_ in made))


HOSTILE = {
    "git's own folder": [("40000", ".git", "inner")],
    "the folder above": [("40000", "..", "inner")],
    "another way to write it": [("40000", ".GIT", "inner")],
    "a link and a folder of one name": [("120000", "way", "outside"), ("40000", "way", "inner")],
    "a folder and a link of one name": [("40000", "way", "inner"), ("120000", "way", "outside")],
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_tree_that_git_would_not_lay_out_is_not_laid_out_by_shares_either(maker, tmp_path, what):
    outside = tmp_path / "outside"
    outside.mkdir()
    file = maker.repo.git("hash-object", "-w", "--stdin", stdin=b"planted\n").strip()
    known = {
        "outside": maker.repo.git("hash-object", "-w", "--stdin", stdin=os.fsencode(outside)).strip(),
        "inner": _write_tree(maker.repo, [("100755", "planted", file)]),
    }
    listed = (line.split(None, 3) for line in maker.repo.git("ls-tree", "HEAD").splitlines())
    usual = [(mode.lstrip("0"), name, sha) for mode, _kind, sha, name in listed]
    tree = _write_tree(maker.repo, [*usual, *((mode, name, known[of]) for mode, name, of in HOSTILE[what])])
    maker.repo.git("branch", "hostile", maker.repo.git("commit-tree", tree, "-m", "hostile").strip())
    with suppress(UserError):  # git has words of its own for some of them, and lays out others in its own way
        maker.make("one", base="hostile")
    with open(maker.log, encoding="utf-8") as log:
        assert " checkout-index " not in log.read()
    assert os.listdir(outside) == []


def _write_tree(repo, entries):
    """A tree as anybody can make and push one."""
    data = b"".join(f"{mode} {name}\0".encode() + bytes.fromhex(sha) for mode, name, sha in entries)
    return repo.git("hash-object", "-w", "-t", "tree", "--literally", "--stdin", stdin=data).strip()


@pytest.mark.parametrize("rules", ["", "*.png -diff\n"])
def test_whoever_interrupts_the_making_of_a_clone_finds_no_git_at_work_and_nothing_left(maker, rules):
    if rules:  # then one git
        maker.repo.write("d3/.gitattributes", rules)
        maker.repo.commit("rules")
    with open(os.path.join(maker.folder, "git"), "w", encoding="utf-8") as file:
        file.write(_INTERRUPTING.format(log=maker.log, pid=os.getpid(), real=maker.real))
    with pytest.raises(KeyboardInterrupt):
        maker.make("one")
    with open(maker.log, encoding="utf-8") as file:
        said = file.read().split()
    assert said.count("begun") == said.count("ended") == (1 if rules else 2)
    maker.wrap()
    again, *_ = maker.make("one")
    _alike(maker, again)


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

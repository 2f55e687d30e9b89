"""A clone is checked out as git does it: exact bytes, rights and links, and its first snapshot holds what lies on the disk."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress

import pytest

from handoff.base.errors import UserError
from handoff.engine.place import workspaces as engine
from handoff.engine.safety import snapshots
from handoff.git.workspaces import WorkspaceRequest
from sandbox import Repo
from snapshot_archive import SnapshotArchive, tree_facts

_INTERRUPTING = """#!/bin/sh
case "$*" in *" read-tree -m -u "*) echo begun >>"{log}"; sleep 0.1; mkdir "{log}.told" && kill -INT {pid}; sleep 0.3; "{real}" "$@"; echo ended >>"{log}"; exit;; esac
exec "{real}" "$@"
"""


class Maker:
    """Makes workspaces of a repository with files of every ordinary kind."""

    def __init__(self, repo):
        self.repo = repo
        for number in range(30):
            repo.write(f"d{number % 7}/er/f{number}.txt", f"{number}\n")
        for name in ("empty", "deep/er/ä b\nc.txt", f"deep/{'n' * 200}", "deep-er/x", "deep.er/x", "d1/tool.sh"):
            repo.write(name, "" if name == "empty" else f"{name}\n")
        os.chmod(os.path.join(repo.path, "d1/tool.sh"), 0o755)
        os.symlink("tool.sh", os.path.join(repo.path, "d1/link"))
        repo.commit("many")
        self.archive = SnapshotArchive(repo.path)

    def make(self, name, **order):
        order = WorkspaceRequest(name, **order)
        made = engine.add_workspace(self.archive.app, order=order, snapshot_store=self.archive.snapshot_store)
        return Repo(made.workspace.tree)

    def check_start(self, clone, name):
        """The first snapshot of a clone holds every file as it lies on the disk."""
        own = SnapshotArchive(clone.path)
        (start,) = snapshots.listing(own.app, snapshot_store=own.snapshot_store, workspace=name)
        facts = tree_facts(clone.path)
        for path in own.files(start):
            if path in facts and not os.path.islink(os.path.join(clone.path, path)):
                assert own.content(start, path) == facts[path][1], path
        return own.files(start)


@pytest.fixture
def maker(repo):
    return Maker(repo)


def _alike(maker, first, *others):
    """Files, rights, links and index; each is as git says it should be."""
    facts, listed = tree_facts(first.path), first.git("ls-files", "-s")
    for one in others:
        assert tree_facts(one.path) == facts
        assert one.git("ls-files", "-s") == listed
    for one in (first, *others):
        assert one.git("status", "--porcelain") == ""
        assert one.git("write-tree") == maker.repo.git("rev-parse", "HEAD^{tree}")
        one.git("fsck", "--strict")


def test_a_clone_is_as_plain_git_makes_it(maker, tmp_path):
    first, second, plain = maker.make("one"), maker.make("two"), Repo(str(tmp_path / "plain"))
    maker.repo.git("clone", "-q", maker.repo.path, plain.path)
    _alike(maker, plain, first, second)
    start = maker.check_start(first, "one")
    assert start == maker.check_start(second, "two")
    listed = maker.repo.git("-c", "core.quotePath=false", "ls-files", "-z").split("\0")[:-1]
    assert sorted(start) == sorted(listed)
    maker.repo.write("d2/new.txt", "new\n")
    maker.repo.commit("another tree")
    assert maker.make("three").read("d2/new.txt") == "new\n"


HOSTILE = {
    "git's own folder": [("40000", ".git", "inner")],
    "the folder above": [("40000", "..", "inner")],
    "another way to write it": [("40000", ".GIT", "inner")],
    "a link and a folder of one name": [("120000", "way", "outside"), ("40000", "way", "inner")],
    "a folder and a link of one name": [("40000", "way", "inner"), ("120000", "way", "outside")],
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_tree_that_would_lead_out_of_the_folder_leaves_nothing_outside(maker, tmp_path, what):
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
    with suppress(UserError):  # git has words of its own for some of them, and checks out others in its own way
        maker.make("one", base="hostile")
    assert os.listdir(outside) == []


def _write_tree(repo, entries):
    """A tree as anybody can make and push one."""
    data = b"".join(f"{mode} {name}\0".encode() + bytes.fromhex(sha) for mode, name, sha in entries)
    return repo.git("hash-object", "-w", "-t", "tree", "--literally", "--stdin", stdin=data).strip()


def test_whoever_interrupts_the_making_of_a_clone_finds_no_git_at_work_and_nothing_left(maker, tmp_path, monkeypatch):
    folder, log = tmp_path / "wrapped", str(tmp_path / "log")
    folder.mkdir()
    real = shutil.which("git")
    (folder / "git").write_text(_INTERRUPTING.format(log=log, pid=os.getpid(), real=real), encoding="utf-8")
    os.chmod(folder / "git", 0o755)
    with monkeypatch.context() as wrapped:
        wrapped.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        archive, maker.archive = maker.archive, SnapshotArchive(maker.repo.path)
        with pytest.raises(KeyboardInterrupt):
            maker.make("one")
    with open(log, encoding="utf-8") as file:
        assert file.read().split() == ["begun", "ended"]
    maker.archive = archive
    _alike(maker, maker.make("one"))


@pytest.mark.parametrize(
    ("settings", "attributes"),
    [("true", "* -text\n"), ("true", ""), ("false", "*.txt text eol=crlf\n"), ("input", "* text=auto\n")],
)
def test_files_are_converted_as_by_plain_git(maker, settings, attributes):
    maker.repo.git("config", "core.autocrlf", settings)
    if attributes:
        maker.repo.write(".gitattributes", attributes)
        maker.repo.commit("attributes")
    first, second = (maker.make(name) for name in ("one", "two"))
    _alike(maker, first, second)
    ends = b"\r\n" if "crlf" in attributes or not attributes else b"\n"
    with open(os.path.join(second.path, "d6/er/f6.txt"), "rb") as file:
        assert file.read() == b"6" + ends
    maker.check_start(second, "two")


def _smudged(repo, _attributes):
    repo.git("config", "filter.loud.smudge", "tr a-z A-Z")  # other bytes, and as many
    repo.write("d3/.gitattributes", "*.txt filter=loud\n")


def _keyword(repo, attributes):
    repo.write("word.txt", "$Id$\n")
    attributes.write_text("*.txt ident\n", encoding="utf-8")
    repo.git("config", "--global", "core.attributesFile", str(attributes))


def _encoded(repo, _attributes):
    repo.write("wide.c", "wide\n".encode("utf-16"))
    repo.write(".gitattributes", "*.c working-tree-encoding=UTF-16\n")


def _line_ends(repo, _attributes):
    repo.git("config", "--global", "core.eol", "crlf")
    repo.write(".gitattributes", "*.txt text\n")


def _pointer(repo, _attributes):
    repo.git("update-index", "--add", "--cacheinfo", f"160000,{repo.head()},inner")


@pytest.mark.parametrize("change", [_smudged, _keyword, _encoded, _line_ends, _pointer])
def test_the_first_snapshot_holds_the_bytes_of_the_disk_whatever_git_made_of_them(maker, tmp_path, change):
    change(maker.repo, tmp_path / "attributes")
    maker.repo.git("add", "-A", "--", ":!inner")
    maker.repo.git("commit", "-qm", "unusual")
    maker.check_start(maker.make("one"), "one")

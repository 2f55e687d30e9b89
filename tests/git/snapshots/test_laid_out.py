"""The index git wrote while it laid files out proves them, or they are looked at: it is never believed by half."""

from __future__ import annotations

import os
import shutil

import pytest

from handoff.git.plumbing import Git, open_source
from handoff.git.snapshots.laid_out import list_tree, prove
from sandbox import Repo


@pytest.fixture
def checkout(repo):
    """A checkout with a file of every ordinary kind."""
    repo.write("a.txt", "aaa\n")
    repo.write("empty", "")
    repo.write("deep/er/ä b\nc.txt", "x" * 300)
    repo.write(f"deep/{'n' * 200}", "long\n")
    repo.write("deep/tool.sh", "true\n")
    os.chmod(os.path.join(repo.path, "deep/tool.sh"), 0o755)
    os.symlink("a.txt", os.path.join(repo.path, "deep/link"))
    repo.commit("two")
    return repo


def expected(repo):
    listed = list_tree(Git("", os.environ), "", repo.git("rev-parse", "HEAD^{tree}").strip(), top=repo.path)()
    return listed and listed.expect()


def answer(repo):
    laid_out = expected(repo)
    return laid_out and prove(laid_out, open_source(repo.path))


def test_what_is_proven_is_what_lies_on_the_disk(checkout):
    proven = answer(checkout)
    assert sorted(proven.names) == sorted(checkout.git("-c", "core.quotePath=false", "ls-files", "-z").split("\0")[:-1])
    for mode, names in proven.modes.items():
        assert {os.lstat(os.path.join(checkout.path, name)).st_mode for name in names} == {mode}
    assert {name for names in proven.modes.values() for name in names} == {*proven.names} - {"deep/link"}
    times = [int(os.lstat(os.path.join(checkout.path, name)).st_ctime) for name in proven.names]
    assert proven.young(min(times)) == {*proven.names}
    assert proven.young(max(times) + 1) == set()


def _smudged(repo):
    repo.write(".gitattributes", "*.txt filter=loud\n")
    repo.commit("attributes")


def _twins(repo):
    repo.write("ÉTÉ.txt", "1\n")
    repo.write("e\u0301te\u0301.TXT", "2\n")
    repo.commit("twins")


def _twin_folders(repo):
    repo.write("deep/one.txt", "1\n")
    repo.write("Deep", "2\n")
    repo.commit("twins")


def _pointer(repo):
    repo.git("update-index", "--add", "--cacheinfo", f"160000,{repo.head()},inner")
    repo.git("commit", "-qm", "pointer")


UNUSUAL = {
    "a filter may change bytes and keep their number": _smudged,
    "so may one that only this repository knows of": lambda repo: repo.write(".git/info/attributes", "* ident\n"),
    "two names that are one on other disks": _twins,
    "a file and a folder that are one on other disks": _twin_folders,
    "a repository inside": _pointer,
    "another length on the disk": lambda repo: (repo.write("a.txt", "aaaa\n"), repo.git("add", "-A")),
    "another object of the same length": lambda repo: (repo.write("a.txt", "bbb\n"), repo.git("add", "-A")),
    "another mode": lambda repo: repo.git("update-index", "--chmod=+x", "a.txt"),
    "a file too many": lambda repo: (repo.write("new", ""), repo.git("add", "-A")),
    "a file too few": lambda repo: repo.git("rm", "-q", "--cached", "a.txt"),
    "a file git was told not to look at": lambda repo: repo.git("update-index", "--assume-unchanged", "a.txt"),
    "a file that is not laid out": lambda repo: repo.git("update-index", "--skip-worktree", "a.txt"),
    "an index of another kind": lambda repo: repo.git("update-index", "--index-version=4"),
    "an index in two files": lambda repo: repo.git("update-index", "--split-index"),
    "rights that differ": lambda repo: os.chmod(os.path.join(repo.path, "deep/er/ä b\nc.txt"), 0o600),
    "no index": lambda repo: os.unlink(os.path.join(repo.path, ".git/index")),
}


def test_nothing_is_proven_where_one_thing_is_unusual(checkout, tmp_path):
    believed = []
    for number, (what, change) in enumerate({"nothing": Repo.head, **UNUSUAL}.items()):
        one = Repo(str(tmp_path / f"copy{number}"))
        shutil.copytree(checkout.path, one.path, symlinks=True)
        change(one)
        if answer(one) is not None:
            believed.append(what)
    assert believed == ["nothing"]


def test_the_index_to_begin_with_is_the_one_git_writes_byte_by_byte(checkout):
    for name in ("deep-er/x", "deep.er/x", "a/b/c/d/1", "a/b/2", "z/1", "zz/1", "y/z/1"):
        checkout.write(name, name)
    checkout.commit("folders whose names git sorts in its own way")
    os.unlink(os.path.join(checkout.path, ".git/index"))
    checkout.git("read-tree", "HEAD")
    with open(os.path.join(checkout.path, ".git/index"), "rb") as file:
        written = file.read()
    listed = expected(checkout).listed
    assert listed.blank == written
    assert written[listed.starts[-1] : -20] == listed.known_trees
    assert not os.path.exists(os.path.join(checkout.path, ".git/index-listed"))

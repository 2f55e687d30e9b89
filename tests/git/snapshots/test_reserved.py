"""Names git keeps for itself, under which no index takes a file: kept by snapshots, brought back, and never landed."""

from __future__ import annotations

import os

import pytest

from handoff.git.plumbing.beneath import is_reserved
from sandbox import Repo
from snapshot_archive import tree_facts

HIDDEN = "\u200c"
NAMES = ["git~1/config", ".GIT/config", "d/.Git/hooks/x", ".git /config", "d/.git./config", f"src/.g{HIDDEN}it/config",
         "a\\.git\\config", ".git::$INDEX_ALLOCATION/config", ".gitmodules ", f".git{HIDDEN}modules", "GITMOD~1", "gi7eba~1"]  # fmt: skip
PLAIN = [
    ".gitignore",
    ".gitmodules",
    ".gitattributes",
    ".github/x",
    "git/x",
    "digit",
    "a.git",
    "git~x",
    "gitk~1",
    "äöü.git/x",
]


def test_twins_of_git_s_own_names_are_known_and_others_are_not():
    assert [name for name in NAMES if not is_reserved(name)] == []
    assert [name for name in PLAIN if is_reserved(name)] == []


@pytest.mark.parametrize("others", [2, 100], ids=["few files", "many files"])
def test_they_are_kept_when_a_workspace_goes_and_never_land(cli, repo, others):
    clone = Repo(cli("workspace", "add", "alpha").out.strip())
    for number in range(others):
        clone.write(f"src/f{number}.txt", f"{number}\n")
    for name in NAMES:
        clone.write(name, f"in {name}\n")
    said = cli("land", "alpha").err
    assert "that git keeps for itself" in said
    assert set(repo.git("ls-files", "-z").split("\0")) - {"", "README.md"} == {f"src/f{n}.txt" for n in range(others)}
    assert not [path for path in tree_facts(repo.path) if is_reserved(path)]
    os.unlink(os.path.join(clone.path, NAMES[0]))
    clone.write(NAMES[1], "changed\n")
    before = tree_facts(clone.path)
    removed = cli("workspace", "remove", "alpha", "--json").json
    assert not os.path.lexists(clone.path)
    cli("undo", removed["snapshot"][:10])
    assert tree_facts(clone.path) == before
    assert clone.read(NAMES[1]) == "changed\n"


def test_a_person_s_own_tree_with_such_names_is_cloned_without_them(cli, repo):
    repo.write("draft.txt", "draft\n")
    repo.write(".GIT/config", "mine\n")
    clone = Repo(cli("workspace", "add", "alpha", "--base", "dirty").out.strip())
    assert clone.read("draft.txt") == "draft\n"
    assert not os.path.lexists(os.path.join(clone.path, ".GIT"))
    told = cli("safe-commit", "-m", "x", "--", f"{os.path.join(repo.path, '.GIT')}/config", code=1).err
    assert "git" in told
    repo.write(f"src/.g{HIDDEN}it/config", "x\n")
    assert "keeps for itself" in cli("safe-commit", "-m", "x", "--", "src", code=1).err

"""`kill -9` of the whole command at every git call it makes: landing, restoring and removing lose nothing and leave nothing half."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from handoff.engine.safety import snapshots
from relay import app
from snapshot_archive import tree_facts

# One process with everything imported forks for each command, because starting an interpreter takes longer than they do.
_SERVER = """
import os, sys
import handoff.engine.safety.incidents, handoff.engine.place.landing, handoff.engine.place.workspaces, handoff.store.sqlite
from handoff.surfaces.cli.main import main
for line in sys.stdin:
    words = line.rstrip("\\n").split("\\t")
    child = os.fork()
    if not child:
        os.setsid()
        log = os.open(words[0], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(log, 1)
        os.dup2(log, 2)
        sys.argv = ["handoff", *words[1:]]
        os._exit(main())
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Killer:
    """Commands that die, with all they started, when they call git for the n-th time."""

    def __init__(self, cwd, folder):
        self.at, self.count, self.log = (os.path.join(folder, name) for name in ("at", "count", "log"))
        real = shutil.which("git")
        wrapper = os.path.join(folder, "bin", "git")
        os.makedirs(os.path.dirname(wrapper))
        with open(wrapper, "w", encoding="utf-8") as file:
            file.write(
                f'#!/bin/sh\nread -r n < "{self.count}"\nn=$((n + 1))\necho $n > "{self.count}"\nread -r at < "{self.at}"\n'
                f'if [ "$n" = "$at" ]; then kill -s KILL -- -$PPID; fi\nexec "{real}" "$@"\n'
            )
        os.chmod(wrapper, 0o755)
        environment = {**os.environ, "PATH": f"{os.path.dirname(wrapper)}:{os.environ['PATH']}"}
        self._process = subprocess.Popen(
            [sys.executable, "-c", _SERVER], cwd=cwd, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True,
        )  # fmt: skip

    def __call__(self, at, *words):
        """Whether the command was killed at its call number `at`; 0 lets it live."""
        for path, number in ((self.at, at), (self.count, 0)):
            with open(path, "w", encoding="utf-8") as file:
                file.write(f"{number}\n")
        self._process.stdin.write("\t".join((self.log, *words)) + "\n")
        self._process.stdin.flush()
        code = int(self._process.stdout.readline())
        if code not in (0, -9):
            with open(self.log, encoding="utf-8") as file:
                raise AssertionError(f"{words}: exit {code}\n{file.read()}")
        return code == -9

    def close(self):
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


@pytest.fixture
def killer(repo, tmp_path, monkeypatch):
    monkeypatch.chdir(repo.path)
    folder = tmp_path / "killer"
    folder.mkdir()
    found = Killer(repo.path, str(folder))
    yield found
    found.close()


@pytest.fixture
def project(repo):
    """A person with a dirty file, a staged one, a stash, and a second branch."""
    for name in ("a", "b", "dirty", "staged"):
        repo.write(f"src/{name}.txt", "0\n")
    repo.commit("base")
    repo.git("branch", "topic")
    repo.write("src/b.txt", "stashed\n")
    repo.git("stash", "push", "-q")
    repo.write("src/dirty.txt", "mine\n")
    repo.write("src/staged.txt", "mine\n")
    repo.git("add", "src/staged.txt")
    return repo


def tree_of_clone(name):
    return os.path.join(os.environ["HANDOFF_HOME"], "repo", "workspaces", name, "tree")


@pytest.mark.slow
def test_a_landing_is_whole_or_absent(project, killer):
    killer(0, "workspace", "add", "alpha")
    number = 0
    while True:
        number += 1
        before, name = project.head(), f"src/n{number}.txt"
        with open(os.path.join(tree_of_clone("alpha"), name), "w", encoding="utf-8") as file:
            file.write(f"{number}\n")
        killed = killer(number, "land", "alpha")
        assert project.head() == before or project.git("rev-parse", "HEAD^").strip() == before
        assert project.read("src/dirty.txt") == project.read("src/staged.txt") == "mine\n"
        killer(0, "land", "alpha")
        assert project.git("show", f"HEAD:{name}") == project.read(name) == f"{number}\n"
        assert project.git("status", "--porcelain").splitlines() == [" M src/dirty.txt", "M  src/staged.txt"]
        if not killed:
            break
    assert number > 10
    assert "missing" not in project.git("fsck")


@pytest.mark.slow
def test_a_restore_is_whole_after_the_next_and_what_it_overwrote_is_kept(project, killer):
    wanted = tree_facts(project.path)
    index, stash = project.git("ls-files", "-s"), project.git("stash", "list")
    snapshot_store = snapshots.open_snapshot_store(app(), folder=project.path)
    good = snapshots.snapshot(app(), snapshot_store=snapshot_store, request=snapshots.SnapshotRequest("good")).sha
    number = 0
    while True:
        number += 1
        project.write("src/a.txt", f"late {number}\n")
        os.unlink(os.path.join(project.path, "src", "b.txt"))
        project.git("stash", "drop", "-q")
        project.git("reset", "-q")
        late = tree_facts(project.path)
        killed = killer(number, "snapshot", "restore", good, "--all")
        for name, value in tree_facts(project.path).items():
            assert value in (wanted.get(name), late.get(name)), (number, name)
        killer(0, "snapshot", "restore", good, "--all")
        assert tree_facts(project.path) == wanted, number
        assert (project.git("ls-files", "-s"), project.git("stash", "list")) == (index, stash), number
        kept = [
            snapshot_store.store.git("cat-file", "blob", f"{one.sha}:src/a.txt").out
            for one in snapshots.listing(app(), snapshot_store=snapshot_store)[:6]
        ]
        assert f"late {number}\n".encode() in kept, number
        if not killed:
            break
    assert number > 10
    assert snapshots.verify(app(), snapshot_store=snapshot_store) == []


@pytest.mark.slow
def test_a_removed_workspace_can_be_brought_back(project, killer):
    snapshot_store = snapshots.open_snapshot_store(app(), folder=project.path)
    number = 0
    while True:
        number += 1
        name = f"w{number}"
        killer(0, "workspace", "add", name)
        tree = tree_of_clone(name)
        with open(os.path.join(tree, "src", "fresh.txt"), "w", encoding="utf-8") as file:
            file.write(name)
        held = tree_facts(tree)
        killed = killer(number, "workspace", "remove", name)
        if os.path.isdir(tree):
            assert tree_facts(tree) == held, number
        if os.path.exists(os.path.join(os.path.dirname(tree), "workspace.json")):
            killer(0, "workspace", "remove", name)
        assert not os.path.exists(tree)
        newest = snapshots.listing(app(), snapshot_store=snapshot_store, workspace=name)[0]
        assert snapshot_store.store.git("cat-file", "blob", f"{newest.sha}:src/fresh.txt").out == name.encode(), number
        if not killed:
            break
    assert number > 5
    assert project.git("status", "--porcelain").splitlines() == [" M src/dirty.txt", "M  src/staged.txt"]

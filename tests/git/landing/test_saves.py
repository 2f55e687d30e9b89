"""A person saves a file in the very moment of a landing: the save is kept, whichever way their editor writes."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading

import pytest

from handoff.base.errors import HandoffError
from handoff.engine.place import landing, workspaces
from handoff.git.landing import target
from handoff.git.plumbing import Git
from handoff.git.workspaces import WorkspaceRequest
from sandbox import Repo
from snapshot_archive import SnapshotArchive

FILES = [f"f{number:03}.txt" for number in range(60)]


def in_place(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def by_rename(path: str, text: str) -> None:
    in_place(path + "~", text)
    os.replace(path + "~", path)


class Landed:
    """A checkout with many files, and a session's work that changes all of them."""

    def __init__(self, repo) -> None:
        self.repo = repo
        for name in FILES:
            repo.write(name, f"{name}\n" * 400)
        repo.commit("many")
        self.archive = SnapshotArchive(repo.path)

    def work(self, name: str) -> None:
        order = WorkspaceRequest(name)
        made = workspaces.add_workspace(self.archive.app, order=order, snapshot_store=self.archive.snapshot_store)
        clone = Repo(made.workspace.tree)
        for file in FILES:
            clone.write(file, f"{name} {file}\n" * 400)

    def land(self, name: str) -> str:
        try:
            landing.land(self.archive.app, names=(name,), snapshot_store=self.archive.snapshot_store)
        except HandoffError as error:
            return error.message
        return ""


@pytest.mark.slow
@pytest.mark.parametrize("save", [in_place, by_rename])
def test_sixteen_saves_aimed_at_the_moment_of_a_landing_are_all_kept(repo, save):
    desk, folder = Landed(repo), os.path.join(repo.path, ".git")
    for number in range(16):
        desk.work(f"w{number}")
        before, name, mine = repo.git("rev-parse", "HEAD"), FILES[-1 - number], f"mine {number}\n"
        done = threading.Event()

        def at_that_moment(number=number, name=name, mine=mine, done=done) -> None:
            while not done.is_set() and not any(one.endswith(".landing.files") for one in os.listdir(folder)):
                continue  # until the new files wait to change places
            done.wait(0.0007 * number)
            save(os.path.join(repo.path, name), mine)

        person = threading.Thread(target=at_that_moment)
        person.start()
        said = desk.land(f"w{number}")
        done.set()
        person.join(timeout=100)
        assert repo.read(name) == mine, (number, said)
        assert "was written in this moment" in said or not said, said
        assert bool(said) == (repo.git("rev-parse", "HEAD") == before), said
        status = repo.git("status", "--porcelain").splitlines()
        assert {line[3:] for line in status if line[:2] != "??"} <= {name}, "every other file is as its commit has it"
        assert not [one for one in os.listdir(folder) if ".landing" in one]
        repo.git("checkout", "-q", "--", ".")


PERSON = {
    "a file is written": "echo mine > a.txt",
    "a file is replaced": "echo mine > t && mv t z.txt",
    "a file that goes is written": "echo mine > gone.txt",
    "a file that comes is there": "echo mine > new.txt",
    "a folder that comes is a file": "echo mine > folder",
    "a file is deleted": "rm -f z.txt",
}


@pytest.mark.parametrize("act", [*PERSON, ""])
def test_what_somebody_does_after_the_look_stays_and_everything_else_goes_back(repo, act):
    for name in ("a.txt", "gone.txt", "z.txt"):
        repo.write(name, f"{name}\n")
    repo.commit("old")
    old = repo.git("rev-parse", "HEAD").strip()
    for name in ("a.txt", "z.txt", "new.txt", "folder/deep/new.txt"):
        repo.write(name, f"new {name}\n")
    repo.git("rm", "-q", "gone.txt")
    repo.commit("new")
    new = repo.git("rev-parse", "HEAD").strip()
    repo.git("reset", "-q", "--hard", old)
    git, private = Git(repo.path, dict(os.environ), ()), os.path.join(repo.path, ".git", "private")
    shutil.copy2(os.path.join(repo.path, ".git", "index"), private)
    known = target.facts_of(repo.path, git, old, new)
    if not act:
        assert target.bring_along(git, repo.path, private, (old, new), known) == ""
        os.replace(private, os.path.join(repo.path, ".git", "index"))
        repo.git("update-ref", "HEAD", new)
        assert repo.git("status", "--porcelain") == ""
        assert not os.path.exists(os.path.join(repo.path, "gone.txt"))
        return
    repo.write(".git/info/attributes", "a.txt filter=person\n")  # the first to be made: all looks are over by then
    repo.git("config", "filter.person.smudge", f"{PERSON[act]}; cat")
    with pytest.raises(target.Saved):
        target.bring_along(git, repo.path, private, (old, new), known)
    after = {name: repo.read(name) for name in os.listdir(repo.path) if name != ".git"}
    subprocess.run(["sh", "-c", PERSON[act]], cwd=repo.path, check=True)
    assert {name: repo.read(name) for name in os.listdir(repo.path) if name != ".git"} == after
    assert [name for name, text in after.items() if text.startswith("new ")] == []
    assert not [one for one in os.listdir(os.path.join(repo.path, ".git")) if one.endswith(target.FILES)]


def test_a_link_of_the_persons_leads_no_landing_out_of_the_checkout(repo, tmp_path):
    old = repo.git("rev-parse", "HEAD").strip()
    repo.write("folder/new.txt", "new\n")
    repo.commit("new")
    new = repo.git("rev-parse", "HEAD").strip()
    repo.git("reset", "-q", "--hard", old)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    os.symlink(elsewhere, os.path.join(repo.path, "folder"))
    git, private = Git(repo.path, dict(os.environ), ()), os.path.join(repo.path, ".git", "private")
    shutil.copy2(os.path.join(repo.path, ".git", "index"), private)
    with pytest.raises(target.Cannot):
        target.bring_along(git, repo.path, private, (old, new), target.facts_of(repo.path, git, old, new))
    assert os.listdir(elsewhere) == []

"""A clone reads the history of its base and nothing else: no snapshot, no draft, no stash, no other branch, no settings."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from handoff.agents.sandbox.sandbox import BUBBLEWRAP, LANDLOCK, layer
from handoff.engine.place import landing
from handoff.engine.place import workspaces as engine
from handoff.engine.place.proof import sandboxes
from handoff.git.snapshots.take import RetentionRules
from handoff.git.workspaces import WorkspaceRequest
from handoff.git.workspaces.kinds import histories
from sandbox import Repo, absent
from snapshot_archive import MovingClock, SnapshotArchive

SECRET = "only-the-person-may-read-this"
_EVERYTHING = (
    'for d in "$@"; do GIT_DIR="$d" git cat-file --batch-all-objects --batch --unordered; done 2>/dev/null; true'
)


@pytest.fixture
def archive(repo):
    return SnapshotArchive(repo.path)


def add(archive, name, **order):
    return engine.add_workspace(
        archive.app, order=WorkspaceRequest(name, **order), snapshot_store=archive.snapshot_store
    ).workspace


def fill(repo, archive):
    """A person with much that is nobody's business, and neighbours at work; all of it in snapshots."""
    repo.git("remote", "add", "origin", f"https://me:{SECRET}-token@example.invalid/x.git")
    repo.git("config", "lfs.url", f"https://me:{SECRET}-lfs@example.invalid/x.git")
    repo.git("checkout", "-q", "-b", "private")
    repo.write("plan.txt", f"{SECRET} branch")
    repo.commit("private")
    repo.git("tag", "-a", "-m", f"{SECRET} tag", "private-tag")
    repo.git("checkout", "-q", "main")
    repo.write("README.md", f"{SECRET} dropped stash")
    repo.git("stash", "-q")
    repo.git("stash", "drop", "-q")
    repo.write("README.md", f"{SECRET} commit that was reset away")
    repo.git("commit", "-qam", "away")
    repo.git("reset", "-q", "--hard", "HEAD~1")
    repo.write("staged.txt", f"{SECRET} staged")
    repo.git("add", "staged.txt")
    repo.write("staged.txt", "later\n")
    repo.write("draft.txt", f"{SECRET} draft")
    repo.write(".git/info/exclude", ".env\n")
    repo.write(".env", f"{SECRET} env")
    archive.take(ignored=True)
    peer = add(archive, "peer")
    Repo(peer.tree).write("peer.txt", f"{SECRET} of a peer")
    engine.keep(archive.app, engine.snapshot_store_of(archive.app, workspace=peer), "work")
    add(archive, "dirty", base="dirty")
    repo.git("checkout", "-q", "private")
    add(archive, "private")
    repo.git("checkout", "-q", "main")


def test_a_session_reads_nothing_but_the_history_of_its_base(repo, archive):
    repo.git("tag", "-a", "-m", "the first one", "v1")
    fill(repo, archive)
    repo.write("more.txt", "more\n")
    repo.git("add", "more.txt")
    repo.git("commit", "-qm", "second", "--", "more.txt")
    repo.git("tag", "-a", "-m", "the second one", "v2")
    own = add(archive, "own")
    clone = Repo(own.tree)
    assert clone.git("log", "--format=%s").split() == ["second", "first"]
    assert clone.git("tag").split() == ["v1", "v2"]
    assert clone.git("describe", "--tags").strip() == "v2"
    clone.git("fsck", "--full", "--strict")
    assert SECRET not in clone.git("cat-file", "--batch-all-objects", "--batch", "--unordered")
    assert SECRET not in clone.read(".git/config") + clone.read(".git/packed-refs")
    assert "private" not in clone.git("for-each-ref")
    # Where nothing stands around a session it could read the home anyway; inside, only this is there.
    for place in sandboxes.borrowed_objects(archive.app, own):
        assert place.startswith(os.path.join(own.project, "bases", ""))
    for by in (BUBBLEWRAP, LANDLOCK):
        if layer(os.environ, wanted=by) != by:
            absent(by)
        sandbox = sandboxes.sandbox_of_workspace(archive.app, workspace=own)._replace(layer=by)
        folders = (os.path.join(own.tree, ".git"), archive.store.path, os.path.join(repo.path, ".git"))
        wrapped = sandbox.wrap(["sh", "-c", _EVERYTHING, "sh", *folders], dict(os.environ))
        done = subprocess.run(wrapped.argv, env=wrapped.environment, capture_output=True, check=True, timeout=60)
        assert b"# A project" in done.stdout, done.stderr  # the base itself can be read
        assert SECRET.encode() not in done.stdout


def test_a_rewritten_branch_costs_no_second_copy_and_what_nobody_borrows_goes(repo):
    clock = MovingClock()
    archive = SnapshotArchive(repo.path, clock)
    project = archive.snapshot_store.place.project
    add(archive, "one")
    for number in range(3):
        repo.write("a.txt", f"{number}\n")
        repo.git("add", "-A")
        repo.git("commit", "-q", "--amend", "-m", f"rewritten {number}", "--allow-empty") if number else repo.commit(
            "x"
        )
        made = add(archive, f"w{number}")
        assert Repo(made.tree).git("fsck", "--full") == ""
    assert [one.tip for one in histories(project)] == [repo.git("rev-parse", "HEAD~1").strip()]
    repo.git("checkout", "-q", "--orphan", "new")
    repo.commit("another beginning")
    add(archive, "other")
    assert len(histories(project)) == 2
    for name in ("one", "w0", "w1", "w2"):
        engine.remove_workspace(archive.app, name=name, snapshot_store=archive.snapshot_store)
    left = os.path.join(project, "bases", "leftover.tmp")
    os.makedirs(left)  # somebody was killed while copying
    clock.moment = 4_000_000_000.0
    engine.tidy(archive.app, rules=RetentionRules(), snapshot_store=archive.snapshot_store, apply=True)
    assert [one.tip for one in histories(project)] == [repo.head()]
    archive.store.git("fsck", "--full")
    assert Repo(os.path.join(project, "workspaces", "other", "tree")).git("log", "--format=%s") == "another beginning\n"


def test_a_history_that_vanished_is_lent_again(repo, archive):
    own = add(archive, "own")
    shutil.rmtree(os.path.join(own.project, "bases"))
    repo.git("reflog", "expire", "--expire=now", "--all")
    repo.git("gc", "-q", "--prune=now")
    sandboxes.sandbox_of_workspace(archive.app, workspace=own)
    assert Repo(own.tree).git("log", "--format=%s") == "first\n"


@pytest.mark.parametrize("how", [("--depth", "1"), ("--filter=blob:none",)], ids=["shallow", "partial"])
def test_a_checkout_without_all_of_its_history_is_cloned_and_landed_on(repo, tmp_path, how):
    for number in range(3):
        repo.write("same.txt", f"{number}\n")
        repo.commit(f"c{number}")
    repo.git("config", "uploadpack.allowFilter", "true")
    repo.git("config", "uploadpack.allowAnySHA1InWant", "true")
    theirs = Repo(str(tmp_path / "theirs"))
    repo.git("clone", "-q", *how, f"file://{repo.path}", theirs.path)
    archive = SnapshotArchive(theirs.path)
    made = engine.add_workspace(archive.app, order=WorkspaceRequest("one"), snapshot_store=archive.snapshot_store)
    assert made.alone == ("--depth" not in how)
    clone = Repo(made.workspace.tree)
    assert clone.git("log", "--format=%s").split() == ["c2"]
    assert clone.read("same.txt") == "2\n"
    clone.write("new.txt", "new\n")
    clone.commit("work")
    landing.land(archive.app, names=["one"], snapshot_store=archive.snapshot_store)
    assert theirs.read("new.txt") == "new\n"
    assert theirs.git("log", "--format=%s").splitlines()[:2] == ["work", "c2"]
    theirs.git("fsck", "--connectivity-only")
    if "--depth" in how:
        theirs.git("fetch", "-q", "--unshallow")
        assert len(Repo(add(archive, "two").tree).git("log", "--format=%s").split()) == 5

"""Restoring brings back exactly what was asked for, and what it overwrites can be brought back too."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys

import pytest

from handoff.base.errors import Conflict, Refused, UserError
from handoff.engine.safety import snapshots as engine
from handoff.git.snapshots.restore import give_objects
from sandbox import Repo
from snapshot_archive import SnapshotArchive, tree_facts


@pytest.fixture
def archive(repo):
    return SnapshotArchive(repo.path)


def test_lost_and_changed_files_come_back_and_newer_ones_stay(repo, archive):
    repo.write("a.txt", "a\n")
    repo.write("b.txt", "b\n")
    kept = archive.take()
    os.unlink(os.path.join(repo.path, "a.txt"))
    repo.write("b.txt", "worse\n")
    repo.write("newer.txt", "newer\n")
    report = archive.restore(kept)
    assert repo.read("a.txt") == "a\n"
    assert repo.read("b.txt") == "b\n"
    assert repo.read("newer.txt") == "newer\n"
    assert {(change.kind, change.path) for change in report.changes} == {("add", "a.txt"), ("change", "b.txt")}


def test_exact_also_deletes_what_the_snapshot_lacks(repo, archive):
    kept = archive.take()
    before = tree_facts(repo.path)
    repo.write("d/newer.txt", "newer\n")
    archive.restore(kept, exact=True)
    assert tree_facts(repo.path) == before
    assert not os.path.exists(os.path.join(repo.path, "d"))


def test_a_dry_run_changes_nothing(repo, archive):
    repo.write("a.txt", "a\n")
    kept = archive.take()
    repo.write("a.txt", "b\n")
    report = archive.restore(kept, dry_run=True)
    assert [change.path for change in report.changes] == ["a.txt"]
    assert report.before is None
    assert repo.read("a.txt") == "b\n"


def test_one_path_is_restored_alone(repo, archive):
    repo.write("src/a.txt", "a\n")
    repo.write("src/b.txt", "b\n")
    kept = archive.take()
    repo.write("src/a.txt", "x\n")
    repo.write("src/b.txt", "x\n")
    archive.restore(kept, paths=("src/a.txt",))
    assert (repo.read("src/a.txt"), repo.read("src/b.txt")) == ("a\n", "x\n")


def test_a_path_the_snapshot_lacks_is_an_error(archive):
    kept = archive.take()
    with pytest.raises(UserError, match=r"nowhere\.txt"):
        archive.restore(kept, paths=("nowhere.txt",))


def test_undo_takes_a_restore_back_and_again(repo, archive):
    repo.write("a.txt", "old\n")
    kept = archive.take()
    repo.write("a.txt", "new\n")
    repo.git("add", "a.txt")
    repo.write("untracked.txt", "u\n")
    index = repo.git("ls-files", "-s")
    archive.restore(kept, exact=True, staged=True)
    assert repo.read("a.txt") == "old\n"
    archive.undo()
    assert repo.read("a.txt") == "new\n"
    assert repo.read("untracked.txt") == "u\n"
    assert repo.git("ls-files", "-s") == index
    archive.undo()
    assert repo.read("a.txt") == "old\n"


def test_undo_of_a_session_goes_back_to_its_start(repo, archive):
    repo.write("a.txt", "before\n")
    archive.take("start", session="s-1", operation="start")
    repo.write("a.txt", "by the session\n")
    repo.write("b.txt", "by the session\n")
    archive.take("end", session="s-1")
    repo.write("c.txt", "somebody else's, later\n")
    engine.undo_session(archive.app, snapshot_store=archive.snapshot_store, session="s-1")
    assert repo.read("a.txt") == "before\n"
    assert not os.path.exists(os.path.join(repo.path, "b.txt"))
    assert repo.read("c.txt") == "somebody else's, later\n"


def test_undo_of_a_session_moves_no_branch_over_anybody_elses_commits(repo, archive):
    archive.take("start", session="s-1", operation="start")
    repo.write("a.txt", "by a person\n")
    head = repo.commit("by a person")
    archive.take("end", session="s-1")
    with pytest.raises(Refused, match="by a person"):
        engine.undo_session(archive.app, snapshot_store=archive.snapshot_store, session="s-1")
    assert repo.read("a.txt") == "by a person\n"
    assert repo.git("log", "-1", "--format=%s") == "by a person\n", head


def test_a_link_in_the_way_is_replaced_and_never_followed(repo, archive, tmp_path):
    repo.write("d/f.txt", "ours\n")
    kept = archive.take()
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "f.txt").write_text("somebody else's\n")
    shutil.rmtree(os.path.join(repo.path, "d"))
    os.symlink(outside, os.path.join(repo.path, "d"))
    archive.restore(kept)
    assert repo.read("d/f.txt") == "ours\n"
    assert (outside / "f.txt").read_text() == "somebody else's\n"
    assert not os.path.islink(os.path.join(repo.path, "d"))


def test_exact_never_deletes_through_a_link(repo, archive, tmp_path):
    kept = archive.take()
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "f.txt").write_text("somebody else's\n")
    os.symlink(outside, os.path.join(repo.path, "d"))
    archive.restore(kept, exact=True)
    assert (outside / "f.txt").read_text() == "somebody else's\n"
    assert not os.path.lexists(os.path.join(repo.path, "d"))


def test_ignored_files_in_the_way_are_kept_first(repo, archive):
    repo.write("build", "a file once\n")
    kept = archive.take()
    os.unlink(os.path.join(repo.path, "build"))
    repo.write(".gitignore", "build/\n*.log\n")
    repo.write("build/precious", "never committed\n")
    report = archive.restore(kept)
    assert repo.read("build") == "a file once\n"
    assert archive.content(report.before, "build/precious") == b"never committed\n"


def test_a_folder_with_a_repository_of_its_own_is_put_aside_not_deleted(repo, archive):
    repo.write("x", "a file once\n")
    kept = archive.take()
    os.unlink(os.path.join(repo.path, "x"))
    inner = Repo.create(os.path.join(repo.path, "x"))
    commit = inner.head()
    report = archive.restore(kept)
    assert repo.read("x") == "a file once\n"
    aside = next(name for name in os.listdir(repo.path) if name.endswith(".aside"))
    assert Repo(os.path.join(repo.path, aside)).head() == commit
    assert any("aside" in note for note in report.notes)


def test_a_private_file_stays_private(repo, archive):
    path = repo.write("secret.txt", "one\n")
    os.chmod(path, 0o600)
    kept = archive.take()
    repo.write("secret.txt", "two\n")
    archive.restore(kept)
    assert os.stat(path).st_mode & 0o777 == 0o600


def test_the_index_is_not_written_while_git_holds_it(repo, archive):
    repo.write("a.txt", "a\n")
    repo.git("add", "a.txt")
    kept = archive.take()
    repo.git("rm", "-q", "--cached", "a.txt")
    lock = os.path.join(repo.path, ".git", "index.lock")
    open(lock, "w", encoding="utf-8").close()
    with pytest.raises(Conflict):
        archive.restore(kept, staged=True)
    assert os.path.exists(lock)
    os.unlink(lock)
    archive.restore(kept, staged=True)
    assert repo.git("ls-files", "a.txt") == "a.txt\n"


def test_planted_hooks_go_and_settings_come_back(repo, archive):
    kept = archive.take()
    config = repo.read(".git/config")
    repo.git("config", "core.sshCommand", "steal")
    os.chmod(repo.write(".git/hooks/pre-commit", "#!/bin/sh\nexit 1\n"), 0o755)
    repo.write(".git/info/attributes", "* filter=x\n")
    archive.restore(kept, settings=True)
    assert repo.read(".git/config") == config
    assert not os.path.exists(os.path.join(repo.path, ".git/info/attributes"))
    assert not os.path.exists(os.path.join(repo.path, ".git/hooks/pre-commit"))


def test_a_snapshot_of_a_checkout_that_is_gone_can_be_put_elsewhere(repo, tmp_path):
    path = str(tmp_path / "linked")
    repo.git("worktree", "add", "-q", path)
    linked = SnapshotArchive(path)
    with open(os.path.join(path, "w.txt"), "w", encoding="utf-8") as file:
        file.write("w\n")
    kept = linked.take()
    shutil.rmtree(path)
    archive = SnapshotArchive(repo.path)
    with pytest.raises(UserError, match="gone"):
        engine.home_of(archive.app, snapshot_store=archive.snapshot_store, chosen=kept)
    target = str(tmp_path / "out")
    engine.restore_into(archive.app, snapshot_store=archive.snapshot_store, chosen=kept, folder=target)
    assert set(tree_facts(target)) == {"README.md", "w.txt"}


def test_a_folder_of_objects_that_is_gone_is_filled_again(repo, archive):
    repo.write("a.txt", "a\n")
    repo.commit("two")
    repo.git("repack", "-adq")
    kept = archive.take()
    shutil.rmtree(os.path.join(repo.path, ".git", "objects", "pack"))
    archive.restore(kept, staged=True, refs=True)
    repo.git("fsck", "--strict")


def test_a_stash_whose_reflog_expired_is_listed_again(repo, archive):
    for number in range(3):
        repo.write("README.md", f"stashed {number}\n")
        repo.git("stash", "-q")
    before = repo.git("stash", "list", "--format=%H %gs")
    kept = archive.take()
    repo.git("reflog", "expire", "--expire=now", "--all")
    repo.git("gc", "-q", "--prune=now")
    archive.restore(kept, refs=True)
    assert repo.git("stash", "list", "--format=%H %gs") == before
    repo.git("stash", "clear")
    archive.restore(kept, refs=True)
    assert repo.git("stash", "list", "--format=%H %gs") == before
    assert repo.git("show", "stash@{1}:README.md") == "stashed 1\n"


def test_objects_that_were_emptied_where_they_lie_are_given_again(repo, archive):
    repo.write("more.txt", "more\n")
    lost = repo.commit("second")
    archive.take()
    folder = os.path.join(repo.path, ".git", "objects")
    for name in repo.git("rev-list", "--objects", "--no-object-names", lost).split():
        path = os.path.join(folder, name[:2], name[2:])
        if os.path.exists(path):
            os.chmod(path, 0o644)
            open(path, "wb").close()
    give_objects(archive.store, archive.snapshot_store.source, [lost])
    assert repo.git("show", f"{lost}:more.txt") == "more\n"


@pytest.mark.parametrize(("files", "large", "packs"), [(3, 0, 0), (3, 9_000_000, 1), (120, 0, 1)])
def test_a_few_small_objects_are_given_loose_and_others_as_one_pack(repo, archive, files, large, packs):
    first = repo.head()
    for number in range(files):
        repo.write(f"more/{number}.txt", f"{number}\n")
    repo.write("more/large.bin", os.urandom(large).hex())
    lost = repo.commit("second")
    archive.take()
    repo.git("reset", "-q", "--hard", first)
    repo.git("reflog", "expire", "--expire=now", "--all")
    repo.git("gc", "-q", "--prune=now")
    folder = os.path.join(repo.path, ".git", "objects", "pack")
    before = {name for name in os.listdir(folder) if name.endswith(".pack")}
    source = archive.snapshot_store.source
    give_objects(archive.store, source, [lost], apart="refs/heads/handoff")
    after = {name for name in os.listdir(folder) if name.endswith(".pack")}
    assert before < after if packs else before == after
    assert len(after - before) == packs
    assert repo.git("rev-list", "--objects", lost).count("\n") > files
    repo.git("fsck", "--full")


def test_a_ref_file_that_was_emptied_is_written_again(repo, archive):
    kept = archive.take()
    head = repo.head()
    repo.write(".git/refs/heads/main", "")
    archive.restore(kept, refs=True)
    assert repo.head() == head


def test_a_ref_that_replaces_objects_goes(repo, archive):
    repo.write("a.txt", "a\n")
    repo.commit("two")
    kept = archive.take()
    repo.git("replace", "HEAD", "HEAD~1")
    archive.restore(kept, refs=True)
    assert repo.git("replace", "-l") == ""


def test_everything_comes_back_into_a_repository_made_anew(repo, archive):
    repo.git("branch", "side")
    repo.write("staged.txt", "staged\n")
    repo.git("add", "staged.txt")
    repo.write("staged.txt", "dirty\n")
    before = (tree_facts(repo.path), repo.git("ls-files", "-s"), repo.git("for-each-ref"), repo.read(".git/config"))
    kept = archive.take()
    shutil.rmtree(repo.path)
    os.makedirs(repo.path)
    repo.git("init", "-q", "-b", "other")
    SnapshotArchive(repo.path).restore(kept, exact=True, staged=True, refs=True, settings=True)
    assert before == (
        tree_facts(repo.path),
        repo.git("ls-files", "-s"),
        repo.git("for-each-ref"),
        repo.read(".git/config"),
    )
    repo.git("fsck", "--strict")


_KILLED = """
import os, sys
from snapshot_archive import SnapshotArchive
archive = SnapshotArchive(sys.argv[1])
from handoff.engine.safety import snapshots as engine
from handoff.git.snapshots.restore import give_objects
chosen = engine.choose(archive.app, snapshot_store=archive.snapshot_store, name=sys.argv[2])
limit = int(sys.argv[3])
seen = 0
def audit(event, args):
    global seen
    if event in ("os.rename", "os.remove", "os.posix_spawn", "os.mkdir", "os.link"):
        seen += 1
        if seen == limit:
            os.kill(os.getpid(), 9)
sys.addaudithook(audit)
engine.restore(archive.app, snapshot_store=archive.snapshot_store, chosen=chosen, want=engine.RestoreRequest(exact=True, staged=True, refs=True))
"""


@pytest.mark.slow
def test_a_restore_killed_at_any_step_loses_nothing_and_can_be_repeated(repo, archive):
    repo.write("a.txt", "one\n")
    repo.write("d/b.txt", "one\n")
    repo.git("add", "a.txt")
    kept = archive.take()
    wanted = tree_facts(repo.path)
    killed, limit = 0, 1
    while True:
        repo.write("a.txt", f"precious {limit}\n")
        repo.write("c.txt", f"precious {limit}\n")
        shutil.rmtree(os.path.join(repo.path, "d"), ignore_errors=True)
        repo.git("add", "-A")
        code = subprocess.run(
            [sys.executable, "-c", _KILLED, repo.path, kept.sha, str(limit)],
            env={**os.environ, "PYTHONPATH": os.path.dirname(sys.modules["snapshot_archive"].__file__)},
            check=False,
            capture_output=True,
        )
        assert code.returncode in (0, -signal.SIGKILL), code.stderr.decode()
        texts = {
            archive.content(one, "c.txt") for one in engine.listing(archive.app, snapshot_store=archive.snapshot_store)
        }
        on_disk = tree_facts(repo.path).get("c.txt", ("", b""))[1]
        assert on_disk == f"precious {limit}\n".encode() or f"precious {limit}\n".encode() in texts
        if code.returncode == 0:
            break
        killed += 1
        limit += 5
        if os.path.exists(os.path.join(repo.path, ".git", "index.lock")):  # killed with git's lock in its hand
            archive.restore(kept, exact=True, staged=True)
    assert killed > 5
    assert tree_facts(repo.path) == wanted
    assert archive.sound()

"""Permission bits of files and folders are in a snapshot, and come back exactly."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import time

import pytest

from handoff.engine.safety import snapshots as engine
from handoff.git.snapshots.parts import read_modes
from handoff.git.snapshots.restore import parts_of, tree_of
from snapshot_archive import SnapshotArchive


@pytest.fixture
def archive(repo):
    return SnapshotArchive(repo.path)


def bits(top):
    """The permission bits of everything but git's own."""
    found = {".": stat.S_IMODE(os.lstat(top).st_mode)}
    for folder, folders, files in os.walk(top):
        folders[:] = [name for name in folders if name != ".git"]
        for name in (*folders, *files):
            path = os.path.join(folder, name)
            if not os.path.islink(path):
                found[os.path.relpath(path, top)] = stat.S_IMODE(os.lstat(path).st_mode)
    return found


def furnish(repo):
    """Tracked and untracked files and folders with all sorts of rights."""
    for name, mode in {
        "private.txt": 0o600, "group.txt": 0o640, "fixed.txt": 0o444, "run.sh": 0o750, "plain.txt": 0o644,
        "closed/in.txt": 0o644, "closed/deep/in.txt": 0o400, "own/key": 0o600, "ü \n.txt": 0o604,
    }.items():  # fmt: skip
        os.chmod(repo.write(name, name), mode)
    repo.git("add", "private.txt", "closed/in.txt", "run.sh", "plain.txt")
    repo.git("commit", "-q", "-m", "some")
    repo.write("untracked.txt", "u")
    os.symlink("plain.txt", os.path.join(repo.path, "link"))
    os.chmod(os.path.join(repo.path, "own"), 0o700)
    os.chmod(os.path.join(repo.path, "closed"), 0o555)
    return repo.path


NOTHING = "find closed own *.txt -depth -exec chmod 000 {} +"  # from the inside out, as an ordinary user must


@pytest.mark.parametrize("command", ["chmod -R a-w .", NOTHING, "chmod -R 777 ."])
def test_rights_taken_from_everybody_come_back(repo, archive, command):
    furnish(repo)
    kept = archive.take()
    before = bits(repo.path)
    subprocess.run(["sh", "-c", command], cwd=repo.path, check=True)
    assert bits(repo.path) != before
    report = archive.restore(kept)
    assert bits(repo.path) == before
    assert "mode" in {change.kind for change in report.changes}
    archive.undo()
    assert bits(repo.path) != before
    archive.undo()
    assert bits(repo.path) == before
    assert archive.sound()


def test_deleted_and_changed_files_come_back_with_their_rights(repo, archive):
    furnish(repo)
    kept = archive.take()
    before = bits(repo.path)
    os.chmod(os.path.join(repo.path, "closed"), 0o755)  # an ordinary user could not empty it otherwise
    shutil.rmtree(os.path.join(repo.path, "closed"))
    shutil.rmtree(os.path.join(repo.path, "own"))
    os.unlink(os.path.join(repo.path, "private.txt"))
    os.unlink(os.path.join(repo.path, "fixed.txt"))
    repo.write("group.txt", "changed")
    os.chmod(os.path.join(repo.path, "group.txt"), 0o666)
    archive.restore(kept)
    assert bits(repo.path) == before


def test_a_change_of_rights_alone_is_a_new_snapshot(repo, archive):
    furnish(repo)
    first = archive.take()
    assert archive.take().sha == first.sha
    os.chmod(os.path.join(repo.path, "plain.txt"), 0o600)
    second = archive.take()
    assert second.sha != first.sha
    os.chmod(os.path.join(repo.path, "own"), 0o750)
    third = archive.take()
    assert third.sha != second.sha
    assert archive.take().sha == third.sha
    assert tree_of(archive.store, first.sha) == tree_of(archive.store, third.sha)
    now = bits(repo.path)
    archive.restore(second)
    assert bits(repo.path) == {**now, "own": 0o700}
    archive.restore(first)
    assert bits(repo.path) == {**now, "own": 0o700, "plain.txt": 0o644}


def test_the_rights_of_a_folder_that_holds_nothing_new_are_seen(repo, archive):
    path = os.path.join(furnish(repo), "own")
    while int(time.time()) <= int(os.stat(os.path.join(path, "key")).st_ctime):
        time.sleep(0.02)  # until the second is over in which its file was written: then only the folder can tell
    archive.take()
    first = archive.take()
    os.chmod(path, 0o711)
    second = archive.take()
    assert second.sha != first.sha
    archive.restore(first)
    assert bits(repo.path)["own"] == 0o700


def test_a_git_folder_nobody_may_write_is_opened_again(repo, archive):
    furnish(repo)
    kept = archive.take()
    subprocess.run(["chmod", "-R", "a-w", repo.path], check=True)
    report = archive.restore(kept)
    assert any("was locked" in note for note in report.notes)
    for folder, _, _ in os.walk(os.path.join(repo.path, ".git")):
        assert os.lstat(folder).st_mode & 0o700 == 0o700, folder
    assert os.lstat(os.path.join(repo.path, ".git", "config")).st_mode & 0o600 == 0o600


def test_a_named_path_is_looked_at_with_the_folders_above_it(repo, archive):
    furnish(repo)
    archive.take()
    os.chmod(os.path.join(repo.path, "own"), 0o711)
    os.chmod(os.path.join(repo.path, "own", "key"), 0o400)
    kept = archive.take(paths=["own/key"])
    before = bits(repo.path)
    subprocess.run(["chmod", "-R", "777", repo.path], check=True)
    archive.restore(kept)
    assert bits(repo.path) == before


def test_one_path_gets_its_rights_and_others_keep_theirs(repo, archive):
    furnish(repo)
    kept = archive.take()
    subprocess.run(["chmod", "-R", "777", repo.path], check=True)
    archive.restore(kept, paths=("closed/deep", "private.txt"))
    after = bits(repo.path)
    assert {name for name, mode in after.items() if mode != 0o777} == {
        "closed/deep",
        "closed/deep/in.txt",
        "private.txt",
    }
    assert (after["closed/deep"], after["closed/deep/in.txt"], after["private.txt"]) == (0o755, 0o400, 0o600)
    shutil.rmtree(os.path.join(repo.path, "own"))
    archive.restore(kept, paths=("own/key",))
    assert bits(repo.path)["own"] == 0o700


def test_a_dry_run_says_whose_rights_would_change(repo, archive):
    furnish(repo)
    kept = archive.take()
    os.chmod(os.path.join(repo.path, "private.txt"), 0o666)
    report = archive.restore(kept, dry_run=True)
    assert [(change.kind, change.path, change.mode) for change in report.changes] == [("mode", "private.txt", "0600")]
    assert bits(repo.path)["private.txt"] == 0o666


def test_a_snapshot_put_elsewhere_has_its_rights_there(repo, archive, tmp_path):
    furnish(repo)
    kept = archive.take()
    target = str(tmp_path / "copy")
    engine.restore_into(archive.app, snapshot_store=archive.snapshot_store, chosen=kept, folder=target)
    assert bits(target) == bits(repo.path)


def test_a_snapshot_from_before_rights_were_kept_changes_none(repo, archive):
    furnish(repo)
    kept = archive.take()
    parents = [one for one in parts_of(archive.store, kept.sha)[:2] if one]
    message = archive.store.read(kept.sha).partition(b"\n\n")[2].decode()
    old = archive.store.write_commit(tree_of(archive.store, kept.sha), parents, message, moment=1)
    os.chmod(os.path.join(repo.path, "plain.txt"), 0o606)
    repo.write("private.txt", "changed")
    now = bits(repo.path)
    archive.restore(kept._replace(sha=old))
    assert bits(repo.path) == now
    assert repo.read("private.txt") == "private.txt"


def test_what_most_files_have_is_not_written_down(repo, archive):
    old = os.umask(0o002)
    try:
        for number in range(40):
            repo.write(f"d{number % 4}/f{number}.txt", "x")
            os.chmod(os.path.join(repo.path, f"d{number % 4}/f{number}.txt"), 0o664)
            os.chmod(os.path.join(repo.path, f"d{number % 4}"), 0o775)
    finally:
        os.umask(old)
    os.chmod(os.path.join(repo.path, "d1/f1.txt"), 0o600)
    modes = read_modes(archive.store, parts_of(archive.store, archive.take().sha).modes)
    assert modes is not None
    assert {name for name in modes.odd if name.startswith("d")} == {"d1/f1.txt"}


def test_paths_that_trade_places_leave_no_rights_behind(repo, archive):
    os.chmod(repo.write("x", "file"), 0o600)
    archive.take()
    os.unlink(os.path.join(repo.path, "x"))
    repo.write("x/inside", "folder now")
    os.chmod(os.path.join(repo.path, "x"), 0o700)
    second = archive.take()
    seconds = bits(repo.path)
    shutil.rmtree(os.path.join(repo.path, "x"))
    os.chmod(repo.write("x", "file again"), 0o640)
    third = archive.take()
    thirds = bits(repo.path)
    archive.restore(second, exact=True)
    assert bits(repo.path) == seconds
    archive.restore(third, exact=True)
    assert bits(repo.path) == thirds
    os.unlink(os.path.join(repo.path, "x"))
    modes = read_modes(archive.store, parts_of(archive.store, archive.take().sha).modes)
    assert modes is not None
    assert "x" not in modes.odd


_LOCKED_OUT = """
import ctypes, os, subprocess, sys
top = sys.argv[1]
if sys.argv[2:] != ["plain"]:  # as root: a program started now may no longer pass by the rights of files
    ctypes.CDLL(None).prctl(24, 1)
    ctypes.CDLL(None).prctl(24, 2)
    os.execv(sys.executable, [sys.executable, "-c", os.environ["PROGRAM"], top, "plain"])
subprocess.run(["git", "init", "-q", top], check=True)
from test_modes import bits
from snapshot_archive import SnapshotArchive
os.makedirs(top + "/d/e")
for name in ("a.txt", "d/b.txt", "d/e/c.txt"):
    with open(os.path.join(top, name), "w") as file:
        file.write(name)
os.chmod(top + "/d/b.txt", 0o600)
subprocess.run(["git", "-C", top, "add", "-A"], check=True)
archive = SnapshotArchive(top)
kept = archive.take()
before = bits(top)
with open(top + "/d/e/c.txt", "w") as file:
    file.write("newer")
subprocess.run(["sh", "-c", "chmod 000 d/e/c.txt d/e d; chmod -R a-w . 2>/dev/null"], cwd=top)
report = archive.restore(kept, staged=True, refs=True)
assert bits(top) == before, (bits(top), before)
assert open(top + "/d/e/c.txt").read() == "d/e/c.txt"
assert archive.content(report.before, "d/e/c.txt") == b"newer"
assert any("was locked" in note for note in report.notes), report.notes
os.chmod(top + "/d/e", 0o555)  # a folder its owner may not write to, opened to change a file and closed again
closed = archive.take()
os.chmod(top + "/d/e", 0o755)
with open(top + "/d/e/c.txt", "w") as file:
    file.write("once more")
os.chmod(top + "/d/e", 0o555)
shut = bits(top)
archive.restore(closed)
assert bits(top) == shut, (bits(top), shut)
archive.undo()
assert bits(top) == shut, (bits(top), shut)
archive.undo()
assert bits(top) == shut, (bits(top), shut)
assert open(top + "/d/e/c.txt").read() == "d/e/c.txt"
"""


def test_somebody_locked_out_of_his_own_files_gets_them_back(tmp_path):
    paths = [path for path in sys.path if path] + [os.path.dirname(__file__)]
    done = subprocess.run(
        [sys.executable, "-c", _LOCKED_OUT, str(tmp_path / "top")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PROGRAM": _LOCKED_OUT},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr

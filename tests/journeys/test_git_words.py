"""What the commands for git say where there is nothing to do, no checkout, or no room."""

from __future__ import annotations

import os
import subprocess
import sys

from sandbox import Cli, Repo, absent

ON_A_SMALL_DISK = 'mount -t tmpfs -o size=600k small "$HANDOFF_HOME" && exec sh -c "$1" sh "$2"'
FILLED = """
handoff() { "$1" -m handoff.surfaces.cli.main snapshot; }
handoff "$1" || exit 90
head -c 2000000 /dev/urandom > big; handoff "$1"; first=$?; rm big
mkdir some; for n in 1 2 3 4 5 6 7 8 9; do echo $n > some/$n; done
cat /dev/zero > "$HANDOFF_HOME/filler" 2>/dev/null; handoff "$1"; second=$?
rm "$HANDOFF_HOME/filler"; handoff "$1" || exit 91
exit $((first * 10 + second))
"""


def test_a_comparison_of_what_is_the_same_says_so_and_prints_no_patch(repo, cli):
    cli("snapshot", "-m", "good")
    said = cli("snapshot", "diff")
    assert said.out == ""
    assert "Nothing differs between" in said.err


def test_a_bare_repository_is_called_what_it_is(repo, cli, tmp_path):
    bare = str(tmp_path / "bare.git")
    repo.git("clone", "-q", "--bare", ".", bare)
    before = sorted(os.listdir(bare))
    for words in (("snapshot",), ("undo",), ("safe-commit", "-m", "x", "--", "a"), ("workspace", "list")):
        said = cli(*words, cwd=bare, code=1).err
        assert "bare repository" in said
        assert "git clone" in said
    assert sorted(os.listdir(bare)) == before

    assert "bare repository" in cli("doctor", cwd=bare, code=None).out
    assert "bare repository" in cli("task", "add", "first", "x", "--owns", "a", cwd=bare).err


def test_a_repository_without_a_commit_is_called_what_it_is(cli, tmp_path):
    fresh = Repo.create(str(tmp_path / "fresh"), commit=False).path
    for words in (
        ("land", "x"),
        ("record",),
        ("log", "--git"),
        ("workspace", "add", "one"),
        ("flow", "start", "review", "--request", "x"),
    ):
        said = cli(*words, cwd=fresh, code=1).err
        assert "has no commit yet" in said, (words, said)
        assert "Commit something first" in said
    assert "no commit yet" in cli("status", cwd=fresh).out
    assert "There is no branch topic." in cli("land", "x", "--into", "topic", cwd=fresh, code=1).err


def test_a_machine_without_git_is_told_so(repo, tmp_path):
    cli = Cli(repo.path, PATH=str(tmp_path))
    for words in (("snapshot",), ("safe-commit", "-m", "x", "--", "a"), ("land", "x"), ("record",), ("undo",)):
        assert "The program 'git' was not found." in cli(*words, code=1).err
    assert "There is no git on the PATH" in cli("doctor", code=1).out
    assert "git does not answer in" in cli("task", "add", "first", "x", "--owns", "a").err
    assert "is not in a git repository" not in cli("status").out


def test_a_folder_that_cannot_be_written_is_named(repo):
    inside = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    line = 'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && cd "$1" && shift && exec "$@"'
    if subprocess.run([*inside, line, "sh", repo.path, "true"], capture_output=True, check=False).returncode:
        absent("user namespaces")
    cli = Cli(repo.path)
    cli("task", "list")
    for words in (("init", "login"), ("safe-commit", "--allow-empty", "-m", "x"), ("ignore",)):
        done = subprocess.run(
            [*inside, line, "sh", repo.path, *cli.command(*words)], cwd=repo.path, capture_output=True, text=True, check=False
        )  # fmt: skip
        assert done.returncode == 1, (words, done)
        assert "Read-only file system" in done.stderr, (words, done.stderr)
        assert "fault of its own" not in done.stderr
    done = subprocess.run(
        [*inside, line, "sh", repo.path, *cli.command("status")],
        cwd=repo.path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done


def test_a_full_disk_is_said_and_no_snapshot_is_taken_without_what_did_not_fit(repo):
    os.makedirs(os.environ["HANDOFF_HOME"], exist_ok=True)
    inside = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", ON_A_SMALL_DISK, "sh"]
    if subprocess.run([*inside, "true", "x"], capture_output=True, check=False).returncode:
        absent("user namespaces")
    done = subprocess.run([*inside, FILLED, sys.executable], cwd=repo.path, capture_output=True, text=True, check=False)
    assert done.returncode == 11, (done.returncode, done.stderr)
    assert done.stderr.count("The disk is full") == 2, done.stderr
    assert "2.38" not in done.stderr
    assert "could not be read" not in done.stderr

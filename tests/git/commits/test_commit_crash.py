"""Safe commit under fire: killed at every step, beside other committers and beside bare git. Nothing lost, nothing half."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from handoff.base.errors import UserError
from handoff.git.commits.commit import commit
from sandbox import Repo

COMMIT = """
import os, signal, sys
from handoff.git.commits.commit import CommitOptions, commit
top, name, message, step = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
seen = 0
WATCHED = ("open", "os.rename", "os.remove", "os.link", "os.mkdir", "os.utime", "os.posix_spawn", "fcntl.flock", "os.chmod")
def watch(event, arguments):
    global seen
    if event not in WATCHED or (event == "open" and str(arguments[0]).endswith((".py", ".pyc"))):
        return
    seen += 1
    if seen == step:
        os.kill(os.getpid(), signal.SIGKILL)
environment = {key: value for key, value in os.environ.items()}
sys.addaudithook(watch)
landed = commit(top, [name], message, environment=environment, now=1e9, options=CommitOptions(look_around=True))
sys.stdout.write(f"{seen}")
"""


def run_commit(repo, name, message, step=0, **environment):
    return subprocess.run(
        [sys.executable, "-c", COMMIT, repo.path, name, message, str(step)],
        capture_output=True, text=True, check=False, env={**os.environ, **environment}, timeout=60,
    )  # fmt: skip


def entry(repo, name):
    return repo.git("ls-files", "-s", "--", name)


@pytest.fixture
def shared(repo):
    repo.write("theirs", "1\n")
    repo.write("mine", "0\n")
    repo.commit("base")
    repo.write("theirs", "2\n")
    repo.git("add", "theirs")
    return repo


def check_after_a_kill(repo, head, number, theirs):
    """The state a kill left, and the way out of it."""
    assert repo.read("mine") == f"{number}\n", "the working file is never touched"
    now = repo.head()
    if now != head:
        assert repo.git("rev-parse", "HEAD^").strip() == head, "whole commit or none"
        assert repo.git("show", "--format=", "--name-only", "HEAD").split() == ["mine"]
    if now == head:
        commit(repo.path, ["mine"], f"again {number}", environment=dict(os.environ), now=1e9)
    else:
        with pytest.raises(UserError, match="Nothing to commit"):
            commit(repo.path, ["mine"], f"again {number}", environment=dict(os.environ), now=1e9)
    assert repo.git("show", "HEAD:mine") == f"{number}\n"
    assert not os.path.exists(os.path.join(repo.path, ".git", "index.lock")), "the lock is freed"
    assert entry(repo, "theirs") == theirs, "the staging of others stays"
    assert repo.git("status", "--porcelain").splitlines() == ["M  theirs"]


@pytest.mark.slow
def test_killed_at_any_step_a_commit_is_whole_or_absent_and_the_next_one_fixes_the_rest(shared):
    theirs = entry(shared, "theirs")
    shared.write("mine", "x\n")
    steps = int(run_commit(shared, "mine", "count").stdout)
    assert steps > 30
    for step in range(1, steps + 1):
        head = shared.head()
        shared.write("mine", f"{step}\n")
        killed = run_commit(shared, "mine", "killed", step)
        assert killed.returncode in (-signal.SIGKILL, 0)
        check_after_a_kill(shared, head, step, theirs)
    assert "error" not in shared.git("fsck")


@pytest.mark.slow
def test_killed_at_any_git_call_nothing_is_half(shared, tmp_path):
    folder = tmp_path / "bin"
    folder.mkdir()
    real = subprocess.run(["sh", "-c", "command -v git"], capture_output=True, text=True, check=True).stdout.strip()
    wrapper = folder / "git"
    count = tmp_path / "count"
    wrapper.write_text(
        f'#!/bin/sh\nn=$(($(cat "{count}") + 1))\necho $n > "{count}"\n'
        f'if [ "$n" = "$KILL_AT" ]; then kill -9 $PPID; fi\nexec "{real}" "$@"\n'
    )
    wrapper.chmod(0o755)
    theirs = entry(shared, "theirs")
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    count.write_text("0\n")
    shared.write("mine", "first\n")
    assert run_commit(shared, "mine", "m", PATH=path, KILL_AT="0").returncode == 0
    calls = int(count.read_text())
    assert calls >= 3
    for step in range(1, calls + 1):
        count.write_text("0\n")
        head = shared.head()
        shared.write("mine", f"{step}\n")
        run_commit(shared, "mine", "killed", PATH=path, KILL_AT=str(step))
        check_after_a_kill(shared, head, step, theirs)


WORKER = """
import os, sys
from handoff.git.commits.commit import CommitOptions, Repository, commit
top, who, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
repo = Repository(top, dict(os.environ))
for turn in range(count):
    name = f"{who}/{turn % 3}"
    os.makedirs(os.path.join(top, who), exist_ok=True)
    with open(os.path.join(top, name), "w") as file:
        file.write(f"{turn}")
    commit(repo, [name], f"{who} {turn}", environment=repo.environment, now=1e9, options=CommitOptions(index_patience=60))
"""


def workers(repo, names, count):
    return [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, repo.path, name, str(count)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in names
    ]


def paths_by_subject(repo):
    for one in repo.git("log", "--format=%x00%s", "--name-only").split("\0")[1:]:
        subject, *paths = [line for line in one.split("\n") if line]
        yield subject, paths


def test_eight_committers_at_once_all_land_and_nobody_takes_anothers_file(shared):
    theirs = entry(shared, "theirs")
    names = [f"w{number}" for number in range(8)]
    started = workers(shared, names, 12)
    for worker in started:
        _, error = worker.communicate(timeout=100)
        assert worker.returncode == 0, error
    landed = [(subject, paths) for subject, paths in paths_by_subject(shared) if subject.startswith("w")]
    assert len(landed) == 8 * 12
    assert all(len(paths) == 1 and paths[0].startswith(subject.split()[0] + "/") for subject, paths in landed)
    assert entry(shared, "theirs") == theirs
    assert shared.git("status", "--porcelain") == "M  theirs\n"
    assert shared.git("log", "--merges", "--format=%h") == ""
    assert os.listdir(os.path.join(shared.path, ".git/handoff/line")) == []


@pytest.mark.slow
def _of_ours(repo):
    """What bare commits changed of our files, as (path, object), apart: contents HEAD had before, and those it never had."""
    old, new, known = [], [], set()
    for line in repo.git("log", "--reverse", "--format=%x00%s", "--raw", "--no-abbrev", "--no-renames").split("\n"):
        if line.startswith("\0"):
            subject = line[1:]
        elif line.startswith(":"):
            facts, path = line.split("\t")
            what = (path, facts.split()[3])
            if subject == "bare" and path.startswith("w"):
                (old if what in known or set(what[1]) == {"0"} else new).append(what)
            known.add(what)
    return old, new


def beside(repo, loop):
    """Two workers with twenty safe commits each beside a shell loop that asks nobody; what came of them."""
    loop = f"n=0; while [ ! -e stop ]; do n=$((n+1)); echo $n > bare.txt; git add bare.txt; git commit -q -m bare; {loop} done"
    neighbour = subprocess.Popen(
        ["sh", "-c", loop], cwd=repo.path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        started = workers(repo, ["w1", "w2"], 20)
        for worker in started:
            _, error = worker.communicate(timeout=110)
            assert worker.returncode == 0, error
    finally:
        repo.write("stop", "")
        neighbour.wait(30)
    ours = [(subject, paths) for subject, paths in paths_by_subject(repo) if subject.startswith("w")]
    assert len(ours) == 40
    assert all(len(paths) == 1 and paths[0].startswith(subject.split()[0] + "/") for subject, paths in ours)
    for worker in ("w1", "w2"):
        assert repo.git("show", f"HEAD:{worker}/1") == "19"
    return _of_ours(repo)


def test_beside_bare_git_in_a_loop_every_safe_commit_lands_alone_and_none_is_reverted(shared):
    """`git commit` reads the index before it locks it: one that read the old index must not write it over ours."""
    assert beside(shared, "") == ([], [])


def test_beside_bare_git_that_resets_no_commit_takes_ours_along_before_it_landed(shared):
    """`git reset -- PATH` too reads before it locks, but tries again: what it brings back, our next commit fixes."""
    assert beside(shared, "echo $n > bare2.txt; git add bare2.txt; git reset -q -- bare2.txt;")[1] == []


LATE_GIT = """#!{python}
import os, sys
index = ".git/index"
with open(index, "rb") as file:
    old, inode = file.read(), os.fstat(file.fileno()).st_ino
print("read", flush=True)
while os.stat(index).st_ino == inode:
    pass
try:
    lock = os.open(index + ".lock", os.O_WRONLY | os.O_CREAT | os.O_EXCL)
except FileExistsError:
    sys.exit("fatal: Unable to create index.lock: File exists.")
os.write(lock, old)
os.rename(index + ".lock", index)
"""


def test_a_git_that_read_the_index_before_a_safe_commit_cannot_write_it_back(shared, tmp_path):
    """A git as slow as a loaded machine makes it: between its reading and its locking a safe commit lands."""
    shared.write("first", "1\n")
    assert run_commit(shared, "first", "ours").returncode == 0
    shared.write("theirs", "3\n")
    shared.git("add", "theirs")
    late = tmp_path / "git-late"
    late.write_text(LATE_GIT.format(python=sys.executable))
    late.chmod(0o755)
    neighbour = subprocess.Popen([str(late)], cwd=shared.path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert neighbour.stdout.readline() == b"read\n"
    shared.write("mine", "1\n")
    landed = run_commit(shared, "mine", "ours again")
    assert landed.returncode == 0, landed.stderr
    assert b"File exists" in neighbour.communicate(timeout=30)[1]
    assert shared.git("show", "HEAD:mine") == "1\n"
    assert shared.git("status", "--porcelain", "mine", "theirs") == "M  theirs\n"
    assert not os.path.exists(os.path.join(shared.path, ".git", "index.lock"))


def test_a_killed_waiter_does_not_stop_the_line(shared):
    """One holds the turn, three wait in line, the middle one is killed: the others come in their order."""
    import fcntl

    shared.write("mine", "go\n")
    assert run_commit(shared, "mine", "make the queue").returncode == 0
    line = os.path.join(shared.path, ".git/handoff/line")
    with open(os.path.join(shared.path, ".git/handoff/commit.lock"), "rb+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        started = []
        for number in range(3):
            started += workers(shared, [f"q{number}"], 1)
            while len(os.listdir(line)) < number + 1:
                assert started[-1].poll() is None
        started[1].kill()
        started[1].communicate()
    for worker in (started[0], started[2]):
        _, error = worker.communicate(timeout=60)
        assert worker.returncode == 0, error
    subjects = [subject for subject, _ in paths_by_subject(shared)]
    assert subjects[:2] == ["q2 0", "q0 0"]
    assert os.listdir(line) == []


def test_a_git_that_outlives_its_killed_parent_keeps_the_place_in_line(shared):
    """The person's reference-transaction hook kills the committer while git is about to move the branch."""
    hooks = os.path.join(shared.path, ".git", "hooks")
    os.makedirs(hooks, exist_ok=True)
    script = os.path.join(hooks, "reference-transaction")
    with open(script, "w", encoding="utf-8") as file:
        file.write(
            '#!/bin/sh\nif [ "$1" = prepared ] && [ -n "$VICTIM" ]; then\n'
            "kill -9 $(ps -o ppid= -p $PPID)\nsleep 0.5\nfi\nexit 0\n"
        )
    os.chmod(script, 0o755)
    shared.write("mine", "1\n")
    killed = run_commit(shared, "mine", "killed", VICTIM="1")
    assert killed.returncode == -signal.SIGKILL
    shared.write("second", "1\n")
    again = run_commit(shared, "second", "second")
    assert again.returncode == 0, again.stderr
    assert [subject for subject, _ in paths_by_subject(shared)][:2] == ["second", "killed"]
    assert shared.git("status", "--porcelain") == "M  theirs\n"


def test_a_slow_hook_holds_up_nobody_else(repo):
    """One committer's hook waits for an event that only another's commit brings."""
    hooks = os.path.join(repo.path, ".git", "hooks")
    os.makedirs(hooks, exist_ok=True)
    script = os.path.join(hooks, "pre-commit")
    with open(script, "w", encoding="utf-8") as file:
        file.write(
            "#!/bin/sh\ncase $(git diff --cached --name-only) in slow/*)"
            " while ! git log --format=%s | grep -q quick; do sleep 0.05; done;; esac\n"
        )
    os.chmod(script, 0o755)
    slow, quick = workers(repo, ["slow", "quick"], 1)
    for worker in (slow, quick):
        _, error = worker.communicate(timeout=60)
        assert worker.returncode == 0, error
    assert [subject for subject, _ in paths_by_subject(repo)][:2] == ["slow 0", "quick 0"]


def test_two_checkouts_of_one_repository_share_the_line_and_other_repositories_do_not(repo, tmp_path):
    other = Repo.create(str(tmp_path / "other"))
    repo.git("worktree", "add", "-q", str(tmp_path / "tree"))
    tree = Repo(str(tmp_path / "tree"))
    for one in (repo, tree, other):
        one.write("mine", "1")
        assert run_commit(one, "mine", "m").returncode == 0
    assert os.path.exists(os.path.join(repo.path, ".git/handoff/commit.lock"))
    assert os.path.exists(os.path.join(other.path, ".git/handoff/commit.lock"))
    assert not os.path.exists(os.path.join(repo.path, ".git/worktrees/tree/handoff/commit.lock"))

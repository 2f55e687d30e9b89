"""The guard: what the shim and the hooks refuse, what they let through, and that they leave as they came."""

from __future__ import annotations

import os
import subprocess

import pytest

from handoff.base.files import read_bytes
from handoff.base.settings import from_environment, git_environment
from handoff.git import guard
from handoff.git.commits.commit import Repository
from sandbox import Cli, Repo

REFUSED = 99


class Session:
    """A shell of a session with a role: the guarded git first on its PATH."""

    def __init__(self, repo, home, role="sub-task", **more):
        shared = os.path.join(repo.path, ".git")
        found = guard.session_environment(str(home), role, os.environ["PATH"], shared=shared)
        self.repo = repo
        self.environment = {**os.environ, **found, "HANDOFF_HOME": str(home), **more}

    def __call__(self, line, cwd=""):
        return subprocess.run(
            ["sh", "-c", line], cwd=cwd or self.repo.path, env=self.environment, capture_output=True, text=True, check=False,
            stdin=subprocess.DEVNULL, timeout=60,
        )  # fmt: skip


@pytest.fixture
def shared(repo):
    repo.git("branch", "other")
    repo.write("theirs", "1\n")
    repo.commit("second")
    repo.write("theirs", "dirty\n")
    repo.write("untracked", "u\n")
    return repo


@pytest.fixture
def session(shared, tmp_path):
    return Session(shared, tmp_path / "home")


def facts(repo):
    return (
        repo.git("for-each-ref"), repo.git("status", "--porcelain"), repo.read("theirs"), repo.read("untracked"),
        repo.git("config", "--local", "--list"), repo.git("stash", "list"), repo.git("symbolic-ref", "HEAD"),
    )  # fmt: skip


CHANGING = [
    "git commit -am x", "git -C . commit -am x", "git -c k.v=1 commit -am x", "git --no-pager commit -am x",
    "git --git-dir=.git commit -am x", "git --git-dir .git --work-tree . commit -am x", "git -p commit -am x",
    "HANDOFF_ROLE= git commit -am x", "env -u HANDOFF_ROLE git commit -am x", "git -c alias.ci=commit ci -am x",
    "git -c alias.a=b -c alias.b=commit b -am x", "git -c 'alias.z=!git commit -am x' z", "git commit -m --dry-run -a",
    "git commit -a -m -h", "git push . HEAD:other", "git push -o --dry-run . HEAD:refs/heads/new", "git rebase other",
    "git cherry-pick other", "git reset --hard", "git reset", "git revert HEAD", "git tag v1", "git tag -a v1 -m x",
    "git am x", "git merge other", "git pull . other", "git checkout -B main other",
    "git checkout -- theirs", "git checkout .", "git switch -C main other", "git switch other", "git branch -f other",
    "git branch new", "git branch -D other", "git branch -v new", "git update-ref refs/heads/x HEAD", "git fast-import",
    "git filter-branch -f --msg-filter cat HEAD", "git stash", "git stash -u", "git stash drop", "git clean -fdx",
    "git restore theirs", "git rm -f theirs", "git mv theirs x", "git config user.name x", "git config --unset user.name",
    "git remote add x .", "git worktree add ../w", "git gc --prune=now", "git reflog expire --expire=now --all",
    "git add -A", "git add .", "git add -u", "git read-tree other", "git symbolic-ref HEAD refs/heads/other",
    "git update-index --assume-unchanged theirs", "git notes add -m x", "git replace HEAD other", "git pack-refs --all",
    "git fetch . HEAD:new", "git maintenance run",
    "git -c help.autocorrect=immediate comit -am x", "git commit --dry-run --no-dry-run -am x",
    "git push --dry-run --no-dry-run . HEAD:refs/heads/new", "git clean -f -e -n", "git clean -fdxen",
    "git remote -v add x .", "git config -z user.name x", "git config --type=path a.b x", "git add --al", "git add -fA",
    "git add ./", "git add :/", 'git add "$PWD"', "git init --separate-git-dir=../moved", "git subtree add x",
    "git fetch . +HEAD:refs/heads/other", "git apply --index x", "git sparse-checkout set x",
]  # fmt: skip


@pytest.mark.parametrize("line", CHANGING)
def test_a_sub_task_is_refused_with_99_before_anything_changes(shared, session, line):
    before = facts(shared)
    done = session(line)
    assert done.returncode == REFUSED, done.stderr
    assert "git-guard" in done.stderr
    assert "Instead:" in done.stderr
    assert facts(shared) == before


READING = [
    "git status", "git diff", "git log -1", "git -C . --no-pager log -1", "git tag", "git tag -l", "git tag --contains HEAD",
    "git branch", "git branch -a", "git branch --show-current", "git branch --list 'o*'", "git stash list", "git clean -n",
    "git config user.name", "git config --get user.name", "git config --list", "git remote -v", "git worktree list",
    "git reflog", "git show HEAD:theirs", "git push --dry-run . HEAD:new", "git symbolic-ref HEAD", "git fetch .",
    "git ls-files", "git --version", "git add theirs", "git -c alias.s=status s", "git submodule status",
    "git notes list", "git config -f .git/config user.none; test $? = 1", "git init -q ../fresh", "git clean -fdn",
    "git remote", "git remote show", "git branch -vv", "git tag -n", "git commit --dry-run -a", "git hash-object theirs", "git rev-parse HEAD", "git format-patch -1 --stdout", "git format-patch -1 -o patches",
]  # fmt: skip


@pytest.mark.parametrize("line", READING)
def test_what_only_looks_passes(session, line):
    done = session(line)
    assert done.returncode == 0, done.stderr


def test_help_of_a_verb_passes(session):
    assert session("git merge -h").returncode == 129


def test_the_next_git_on_path_is_the_one_that_runs(shared, session, tmp_path):
    own = tmp_path / "own"
    own.mkdir()
    (own / "git").write_text('#!/bin/sh\necho "my own git: $*"\n')
    (own / "git").chmod(0o755)
    folder, _, rest = session.environment["PATH"].partition(os.pathsep)
    session.environment["PATH"] = os.pathsep.join([folder, str(own), rest])
    assert session("git status").stdout == "my own git: status\n"
    assert session("git -C x log").stdout == "my own git: -C x log\n"
    session.environment["PATH"] = folder + os.pathsep + str(tmp_path / "none")
    done = subprocess.run(["/bin/sh", "-c", "git status"], env=session.environment, capture_output=True, check=False)
    assert done.returncode == 127


def test_without_a_role_git_is_git(shared, tmp_path):
    environment = {**os.environ, "PATH": guard.shim_folder() + os.pathsep + os.environ["PATH"]}
    done = subprocess.run(["git", "commit", "-qam", "x"], cwd=shared.path, env=environment, check=False)
    assert done.returncode == 0


def test_in_its_own_clone_a_sub_task_works_freely_but_does_not_push(shared, tmp_path):
    mine = str(tmp_path / "mine")
    shared.git("clone", "-q", "--shared", ".", mine)
    session = Session(shared, tmp_path / "home", HANDOFF_WORKSPACE=mine, HANDOFF_NO_SNAPSHOT="1")
    for line in (
        "echo x > a; git add -A; git commit -qm x",
        "git stash -u",
        "git reset -q --hard HEAD^",
        "git config a.b c",
        "git checkout -q -b n",
    ):
        done = session(line, cwd=mine)
        assert done.returncode == 0, done.stderr
    for line in ("git push origin HEAD:new", "git -c alias.p=push p origin HEAD:new"):
        assert session(line, cwd=mine).returncode == REFUSED
    assert session(f"git -C {shared.path} commit -am x", cwd=mine).returncode == REFUSED
    assert session(f"git --git-dir={shared.path}/.git update-ref refs/heads/x HEAD", cwd=mine).returncode == REFUSED


def test_in_its_own_worktree_only_its_branch_is_its_own(shared, tmp_path):
    mine = str(tmp_path / "mine")
    shared.git("worktree", "add", "-q", "-b", "mine", mine)
    session = Session(shared, tmp_path / "home", HANDOFF_WORKSPACE=mine, HANDOFF_NO_SNAPSHOT="1")
    guard.install(Repository(shared.path, git_environment(from_environment())))
    for line in ("echo x > a; git add -A; git commit -qm x", "git reset -q --hard HEAD", "git status"):
        done = session(line, cwd=mine)
        assert done.returncode == 0, done.stderr
    for line in (
        "git stash",
        "git branch -f main",
        "git tag x",
        "git config a.b c",
        "git gc",
        "git push . HEAD:main",
        "git update-ref refs/heads/main HEAD",
    ):
        assert session(line, cwd=mine).returncode == REFUSED, line


def test_a_repository_of_its_own_is_a_sub_tasks_own_business(shared, tmp_path):
    mine = str(tmp_path / "mine")
    shared.git("clone", "-q", "--shared", ".", mine)
    scratch = Repo.create(str(tmp_path / "scratch"))
    for more in ({"HANDOFF_WORKSPACE": mine}, {}):
        session = Session(shared, tmp_path / "home", **more)
        done = session("git commit -q --allow-empty -m x", cwd=scratch.path)
        assert done.returncode == 0, done.stderr


def test_another_sessions_clone_is_not_its_business(shared, tmp_path):
    mine, theirs = str(tmp_path / "mine"), str(tmp_path / "theirs")
    shared.git("clone", "-q", "--shared", ".", mine)
    shared.git("clone", "-q", "--shared", ".", theirs)
    session = Session(shared, tmp_path / "home", HANDOFF_WORKSPACE=mine)
    for line in (f"git -C {theirs} reset --hard HEAD^", f"cd {theirs} && git commit --allow-empty -m x"):
        assert session(line, cwd=mine).returncode == REFUSED


def test_a_main_session_gets_a_snapshot_before_what_destroys(shared, tmp_path):
    home = tmp_path / "home"
    session = Session(shared, home, role="main", HANDOFF_PROGRAM=_program(tmp_path, shared))
    done = session("git reset -q --hard && git clean -fdq")
    assert done.returncode == 0, done.stderr
    assert not os.path.exists(os.path.join(shared.path, "untracked"))
    listed = Cli(shared.path, HANDOFF_HOME=str(home))("snapshot", "list", "--json").json
    assert [one["reason"] for one in listed["snapshots"]] == ["before git clean", "before git reset"]
    first = listed["snapshots"][-1]["id"]
    Cli(shared.path, HANDOFF_HOME=str(home))("snapshot", "restore", first)
    assert shared.read("untracked") == "u\n"
    assert shared.read("theirs") == "dirty\n"


@pytest.mark.parametrize(
    "line",
    [
        "git commit -am x",
        "git add -A",
        "git stash",
        "git reset --hard",
        "git clean -fd",
        "git checkout .",
        "git rebase other",
        "git switch -f other",
    ],
)
def test_a_main_session_with_an_ownership_does_not_sweep(shared, tmp_path, line):
    session = Session(shared, tmp_path / "home", role="main", HANDOFF_OWNS="mine/", HANDOFF_NO_SNAPSHOT="1")
    before = facts(shared)
    assert session(line).returncode == REFUSED
    assert facts(shared) == before
    assert session("git log -1 && git diff --stat && git branch new && git add theirs").returncode == 0


def test_a_bare_commit_of_foreign_files_is_stopped_by_the_hook(shared, tmp_path):
    guard.install(Repository(shared.path, git_environment(from_environment())))
    program = _program(tmp_path, shared)
    shared.write("mine/a", "1")
    shared.git("add", "mine/a")
    owned = {"HANDOFF_OWNS": "mine/", "HANDOFF_PROGRAM": program}
    shared.git("commit", "-qm", "fine", **owned)
    shared.git("add", "theirs")
    done = subprocess.run(
        ["git", "commit", "-qm", "x"],
        cwd=shared.path,
        env={**os.environ, **owned},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "theirs" in done.stderr
    Cli(shared.path)("safe-commit", "-m", "x", "--", "theirs")


def _program(folder, repo):
    """`handoff` as one file, as an installed one is."""
    program = folder / "bin" / "handoff"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nexec {} "$@"\n'.format(" ".join(f"'{word}'" for word in Cli(repo.path).command())))
    program.chmod(0o755)
    return str(program)


def test_refusals_are_kept_for_the_person(shared, session, tmp_path):
    session("git commit -am x")
    state = guard.look(
        Repository(shared.path, git_environment(from_environment())),
        home=str(tmp_path / "home"),
        path=os.environ["PATH"],
    )
    assert state.refused[0].split("\t")[1:3] == ["sub-task", "commit"]


# --- hooks ----------------------------------------------------------------------------------------

PAST_THE_SHIM = [
    "commit -qam x", "commit -q --no-verify -am x", "-C . commit -qam x", "update-ref refs/heads/main other", "pull -q . other",
    "switch -q -C fresh", "checkout -q -B fresh", "reset -q --hard other", "stash -u", "branch -f other HEAD",
    "tag v1", "cherry-pick --allow-empty other", "branch -m other renamed",
]  # fmt: skip


@pytest.mark.parametrize("words", PAST_THE_SHIM)
def test_hooks_refuse_past_the_shim_whatever_no_verify_says(shared, words):
    guard.install(Repository(shared.path, git_environment(from_environment())))
    refs, head = shared.git("for-each-ref"), shared.git("symbolic-ref", "HEAD")
    done = subprocess.run(
        ["git", *words.split()],
        cwd=shared.path,
        env={**os.environ, "HANDOFF_ROLE": "sub-task"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert (shared.git("for-each-ref"), shared.git("symbolic-ref", "HEAD")) == (refs, head)
    assert shared.read("untracked") == "u\n"
    assert "git-guard" in done.stderr


def test_hooks_know_the_role_from_path_when_the_variable_is_gone(shared, session):
    guard.install(Repository(shared.path, git_environment(from_environment())))
    real = guard.real_git(os.environ["PATH"])
    assert session(f"env -u HANDOFF_ROLE {real} commit -qam x").returncode != 0
    assert shared.git("log", "-1", "--format=%s") == "second\n"


def test_others_are_not_disturbed_by_the_hooks(shared):
    guard.install(Repository(shared.path, git_environment(from_environment())))
    shared.git("commit", "-qam", "fine")
    shared.git("stash", "-u")
    shared.git("switch", "-q", "other")


def _tree(folder):
    found = {}
    for place, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(place, name)
            facts = os.readlink(path) if os.path.islink(path) else read_bytes(path)
            found[os.path.relpath(path, folder)] = (facts, os.lstat(path).st_mode)
    return found


@pytest.mark.parametrize("hooks_path", ["", "tools/hooks"])
def test_the_persons_hooks_run_behind_ours_and_are_put_back_exactly(repo, hooks_path, tmp_path):
    folder = os.path.join(repo.path, hooks_path or ".git/hooks")
    os.makedirs(folder, exist_ok=True)
    ran = str(tmp_path / "ran")
    for name in ("pre-commit", "commit-msg", "reference-transaction"):
        path = os.path.join(folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\necho "{name} $1 $(cat | wc -l)" >> "{ran}"\n')
        os.chmod(path, 0o750)
    os.symlink("commit-msg", os.path.join(folder, "pre-push"))
    if hooks_path:
        repo.git("config", "core.hooksPath", hooks_path)
    with open(os.path.join(repo.path, ".git/config"), "rb") as file:
        config = file.read()
    before = _tree(folder)
    environment = git_environment(from_environment())
    assert guard.install(Repository(repo.path, environment))
    assert guard.install(Repository(repo.path, environment)) == []
    if hooks_path:
        assert _tree(folder) == before, "tracked hooks are not touched"
    repo.git("commit", "-q", "--allow-empty", "-m", "x")
    with open(ran, encoding="utf-8") as file:
        lines = file.read().split("\n")
    assert lines[0].startswith("pre-commit")
    assert any(line.startswith("commit-msg") for line in lines)
    assert any(line.startswith("reference-transaction prepared") and not line.endswith(" 0") for line in lines)
    assert guard.look(Repository(repo.path, environment), home="", path="").hooks["pre-commit"] == "chained"
    assert guard.uninstall(Repository(repo.path, environment))
    assert _tree(folder) == before
    with open(os.path.join(repo.path, ".git/config"), "rb") as file:
        assert file.read() == config
    assert guard.uninstall(Repository(repo.path, environment)) == []


def test_a_hook_put_there_later_by_somebody_stays(repo):
    environment = git_environment(from_environment())
    guard.install(Repository(repo.path, environment))
    path = os.path.join(repo.path, ".git/hooks/pre-commit")
    with open(path, "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\nexit 0\n")
    guard.uninstall(Repository(repo.path, environment))
    assert os.path.exists(path)


@pytest.mark.parametrize("form", ["file", "list"])
def test_expected_files_bound_a_bare_commit(shared, tmp_path, form):
    guard.install(Repository(shared.path, git_environment(from_environment())))
    shared.write("we ird", "1")
    shared.git("add", "theirs", "we ird")
    listed = tmp_path / "expected"
    listed.write_text("theirs\n")
    value = str(listed) if form == "file" else "theirs"
    done = subprocess.run(
        ["git", "commit", "-qm", "x"],
        cwd=shared.path,
        env={**os.environ, "HANDOFF_EXPECTED_FILES": value},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "we ird" in done.stderr
    listed.write_text("theirs\nwe ird\n")
    value = str(listed) if form == "file" else "theirs:we ird"
    shared.git("commit", "-qm", "x", HANDOFF_EXPECTED_FILES=value)


def test_safe_commit_and_the_guards_hooks_get_along(shared, tmp_path):
    environment = git_environment(from_environment())
    guard.install(Repository(shared.path, environment))
    Cli(shared.path)("safe-commit", "-m", "x", "--", "theirs")
    linked = str(tmp_path / "tree")
    shared.git("worktree", "add", "-q", linked)
    assert guard.look(Repository(linked, environment), home="", path="").hooks["pre-commit"] == "installed"


def test_the_command_installs_shows_and_removes(shared, tmp_path):
    cli = Cli(shared.path)
    assert "are in" in cli("git-guard", "install").out
    answer = cli("git-guard", "status", "--json").json
    assert answer["hooks"] == {"reference-transaction": "installed", "pre-commit": "installed", "pre-push": "installed"}
    assert "in place" in cli("git-guard", "status").out
    lines = cli("git-guard", "env", "--role", "sub-task").out
    done = subprocess.run(
        ["sh", "-c", 'eval "$1"; git commit -am x', "-", lines],
        cwd=shared.path,
        env=cli.full_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == REFUSED
    again = cli("git-guard", "env", "--role", "main", "--json").json
    assert again["PATH"].split(os.pathsep)[0].endswith("guard/main")
    assert "are out" in cli("git-guard", "uninstall").out

"""A session plants things in its clone for the next git there, whoever starts it: nothing of it runs, and it is told."""

from __future__ import annotations

import os
import subprocess

import pytest

from handoff.agents.sandbox.sandbox import BUBBLEWRAP, layer
from handoff.engine.place import workspaces
from handoff.engine.place.proof import sandboxes
from handoff.git.plumbing import read_plain
from handoff.git.plumbing.untrusted import close_clone
from handoff.git.workspaces import WorkspaceRequest
from relay import app
from sandbox import absent

# What git obeys in its folder, each in the way a session could use it. EVIL leaves a mark outside; THEIRS is a person's folder.
PLANTS = {
    "settings": 'git config core.fsmonitor "$EVIL" && git config user.name Somebody',
    "settings of a worktree": 'git config extensions.worktreeConfig true && git config --file .git/config.worktree core.fsmonitor "$EVIL"',
    "hooks": 'cp "$EVIL" .git/hooks/post-index-change && cp "$EVIL" .git/hooks/reference-transaction',
    "a linked info folder": 'rm -rf .git/info && ln -s "$THEIRS" .git/info',
    "alternates": 'mv .git/objects .git/o && mkdir -p .git/objects && cp -r .git/o/. .git/objects && echo "$THEIRS" > .git/objects/info/alternates',
    "another past": 'git rev-parse HEAD > .git/shallow && echo "$(git rev-parse HEAD)" > .git/info/grafts',
    "a repository that git status enters": 'git init -q sub && git -C sub commit -q --allow-empty -m x && git add sub && '
    'git -C sub config core.fsmonitor "$EVIL" && printf "[submodule \\"sub\\"]\\n\\tpath = sub\\n\\turl = ./x\\n\\tignore = none\\n" > .gitmodules',
    "a git file": 'mkdir -p ../g && git init -q ../g/r && git -C ../g/r config core.fsmonitor "$EVIL" && mkdir -p src && echo "gitdir: $PWD/../g/r/.git" > src/.git',
    "commondir": 'cp -r .git ../c && rm ../c/commondir && git config --file ../c/config core.fsmonitor "$EVIL" && mv ../c .git/c && echo c > .git/commondir',
    "a git folder under another name": 'git init -q --separate-git-dir .hid three && git -C three commit -q --allow-empty -m x && '
    'git -C three config core.fsmonitor "$EVIL" && git add -f three',
    "a git folder inside its own": 'git init -q --separate-git-dir .git/own four && git -C four config core.fsmonitor "$EVIL" && '
    'cp "$EVIL" .git/own/hooks/post-index-change',
    "a bare repository in the tree": 'git init -q --bare bare && git -C bare config core.bare false && '
    'git -C bare config core.worktree "$PWD" && git -C bare config core.fsmonitor "$EVIL"',
}  # fmt: skip


@pytest.fixture
def session(repo, tmp_path, monkeypatch):
    """A clone, how its session runs a script there, and the mark that must not appear."""
    monkeypatch.chdir(repo.path)
    made = workspaces.add_workspace(app(), order=WorkspaceRequest("alpha", session="s1")).workspace
    mark, evil, theirs = tmp_path / "it-ran", tmp_path / "evil", tmp_path / "theirs"
    evil.write_text(f"#!/bin/sh\necho $0 $* >> {mark}\n")
    evil.chmod(0o755)
    theirs.mkdir()
    (theirs / "attributes").write_text("mine\n")
    environment = {**os.environ, "EVIL": str(evil), "THEIRS": str(theirs)}

    def run(script, wrap=None):
        argv, inside = ["sh", "-ec", script], environment
        if wrap is not None:
            argv, inside = wrap(argv, environment)
        return subprocess.run(argv, cwd=made.tree, env=inside, capture_output=True, timeout=60, check=wrap is None)

    return made, run, mark, theirs


def everyday(clone):
    """What a person does who has a look at a clone, by their own git: in it, and in the folders in it."""
    for folder in (clone.tree, *(os.path.join(clone.tree, name) for name in "sub src three four bare .hid".split())):
        for words in (("status",), ("log", "-1"), ("diff",), ("stash", "list")):
            if os.path.isdir(folder):
                subprocess.run(["git", *words], cwd=folder, capture_output=True, check=False, timeout=60)


def planted(cli):
    """What the person is told of, by its place."""
    found = cli("incident", "list", "--json", code=None).json["incidents"]
    return [one["evidence"]["subject"] for one in found if one["kind"] == "planted-in-clone"]


def test_what_a_session_planted_is_put_right_and_told(cli, repo, session):
    clone, run, mark, theirs = session
    cli("incident", "list")
    for name, script in PLANTS.items():
        run(script)
        mark.unlink(missing_ok=True)  # what its own git ran inside is the session's affair
        if name == "a linked info folder":
            cli("incident", "list", code=None)  # the watcher looks at any time
    close_clone(clone.tree, app().git_environment)  # as when a session ends
    everyday(clone)
    assert not mark.exists(), mark.read_text()
    assert (theirs / "attributes").read_text() == "mine\n"
    assert sorted(os.listdir(theirs)) == ["attributes"]
    told = planted(cli)
    for name in ("config", "commondir", "config.worktree", "hooks/post-index-change", "info/attributes", "shallow"):
        assert f"alpha/.git/{name}" in told, told
    assert {f"alpha/{name}/config" for name in (".hid", ".git/own", "bare")} <= set(told)
    assert {"alpha/sub/.git/config", "alpha/src/.git", "alpha/.git/objects/info/alternates"} <= set(told)
    before = len(told)
    run("git config user.name Somebody && git config branch.x.merge refs/heads/main")
    close_clone(clone.tree, app().git_environment)
    assert run("git config user.name").stdout == b"Somebody\n"  # who it is, it may say
    assert len(planted(cli)) == before


def test_behind_bubblewrap_most_of_it_cannot_even_be_planted(session):
    if layer(os.environ, wanted=BUBBLEWRAP) != BUBBLEWRAP:
        absent(BUBBLEWRAP)
    clone, run, _, _ = session
    wrap = sandboxes.sandbox_of_workspace(app(), workspace=clone)._replace(layer=BUBBLEWRAP).wrap
    for name in ("commondir", "config.worktree", "config", "info/attributes", "info/grafts", "hooks/pre-commit"):
        path = os.path.join(clone.tree, ".git", name)
        before = read_plain(path)
        run(
            f"echo x > {path}; mv {path} x; rm -rf {path} .git/info .git/hooks; mkdir -p .git/info; echo x > {path}",
            wrap,
        )
        assert read_plain(path) == before, name
    assert run("git commit -q --allow-empty -m work && git stash list && git status", wrap).returncode == 0
    close_clone(clone.tree, app().git_environment)

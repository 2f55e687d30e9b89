"""What a session lands and somebody obeys later: nothing of it counts before the person has seen it."""

from __future__ import annotations

import os

import pytest

from handoff.agents.sandbox.sandbox import BUBBLEWRAP, LANDLOCK, layer
from handoff.engine.workspaces import landing, workspaces
from handoff.git.control import Trust
from handoff.git.workspaces.workspaces import WorkspaceRequest
from sandbox import Repo, absent
from snapshot_archive import SnapshotArchive


@pytest.fixture(params=[BUBBLEWRAP, LANDLOCK])
def by(request, monkeypatch):
    if layer(os.environ, wanted=request.param) != request.param:
        absent(request.param)
    monkeypatch.setenv("HANDOFF_SANDBOX", request.param)
    return request.param


class Desk:
    """A person's checkout, and sessions in clones of it."""

    def __init__(self, repo):
        self.repo = repo
        self.archive = SnapshotArchive(repo.path)

    def clone(self, name, *, setup="", **order):
        made = workspaces.add_workspace(
            self.archive.app,
            order=WorkspaceRequest(name, **order),
            snapshot_store=self.archive.snapshot_store,
            setup=setup,
        )
        return Repo(made.workspace.tree)

    def land(self, *names, **options):
        return landing.land(self.archive.app, names=names, snapshot_store=self.archive.snapshot_store, **options)


@pytest.fixture
def desk(repo):
    return Desk(repo)


def test_a_set_up_command_runs_what_a_session_landed_inside_the_sandbox(repo, by):
    key, left = (os.path.join(os.environ["HOME"], name) for name in ("key", "left-by-setup"))
    with open(key, "w", encoding="utf-8") as file:
        file.write("the person's key\n")
    repo.write("setup.sh", "echo ready > ready\n")
    repo.commit("a set-up script")
    desk = Desk(repo)
    own = repo.write(".git/info/own", "the person's own\n")
    greedy = f"cat {key} {own} > stolen 2>&1; echo mine > {left}; echo mine > {own}; echo ready > ready\n"
    desk.clone("one").write("setup.sh", greedy)
    desk.land("one")
    two = desk.clone("two", setup="sh setup.sh")
    assert two.read("ready") == "ready\n"
    assert "the person's" not in two.read("stolen")
    assert not os.path.exists(left)
    assert repo.read(".git/info/own") == "the person's own\n"


HELD = (
    ".gitignore",
    "sub/.gitignore",
    ".gitattributes",
    ".gitmodules",
    ".worktreeinclude",
    ".handoff/config.toml",
    ".handoff/workflows/tdd.toml",
    ".handoff/prompts/continue.md",
    ".husky/pre-commit",
    ".envrc",
    "own/hooks/pre-push",
)
FREE = (".handoff/features/login/STATE.md", "src/gitignore.py", "docs/own/hooks/x.md")


def test_every_file_that_is_obeyed_lands_by_hand_only_with_the_persons_approval_and_no_other_is_held(repo, desk):
    repo.git("config", "core.hooksPath", "own/hooks")
    one = desk.clone("one")
    for path in (*HELD, *FREE):
        one.write(path, f"# {path}\n")
    with pytest.raises(landing.Unseen) as refused:
        desk.land("one")
    assert refused.value.paths.split(", ") == sorted(HELD)
    assert all(f"+# {path}" in refused.value.message.splitlines() for path in HELD)
    assert "--approve" in refused.value.hint
    assert repo.git("log", "-1", "--format=%s").strip() == "first"
    desk.land("one", approve=True)
    assert repo.read(".envrc") == "# .envrc\n"
    assert repo.read(FREE[1]) == f"# {FREE[1]}\n"


def test_a_branch_of_the_persons_own_may_change_what_is_obeyed(repo, desk):
    repo.git("checkout", "-q", "-b", "mine")
    repo.write(".gitignore", "*.tmp\n")
    repo.commit("by myself")
    repo.git("checkout", "-q", "main")
    desk.land("mine")
    assert repo.read(".gitignore") == "*.tmp\n"


def test_a_yes_means_exactly_the_change_that_was_shown(repo, desk):
    one, trust = desk.clone("one"), Trust(desk.archive.snapshot_store.place.project)
    one.write(".gitignore", "*.tmp\n")
    with pytest.raises(landing.Unseen) as refused:
        desk.land("one")
    trust.ask("one", refused.value.found)
    trust.say_yes("another")
    with pytest.raises(landing.Unseen):
        desk.land("one")
    trust.say_yes("one")
    one.write(".gitignore", "*.tmp\n!.env\n")
    with pytest.raises(landing.Unseen):
        desk.land("one")
    one.write(".gitignore", "*.tmp\n")
    desk.land("one")
    assert repo.read(".gitignore") == "*.tmp\n"

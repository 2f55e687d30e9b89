"""Where a session is placed: once found, it says the folder, the clone, what is owned there and which sandbox stands around it."""

from __future__ import annotations

import os
import subprocess

import pytest

from handoff.agents.sandbox.sandbox import BUBBLEWRAP, layer
from handoff.base.errors import ConfigError, Refused
from handoff.base.settings import from_environment
from handoff.engine.app import App
from handoff.engine.app.home import find_project, home_config
from handoff.engine.session.hooks import permissions_text
from handoff.engine.session.placement import CLONE, NONE, OWNED, SHARED, WORKSPACE, check_sandbox, place
from handoff.engine.work.tasks import create
from sandbox import absent


class Ground:
    """A repository with a few files, and tasks in it."""

    def __init__(self, repo) -> None:
        self.repo, self.app = repo, App(from_environment())
        for name in ("app/[id]/page.tsx", "app/i/page.tsx", "app/other.tsx", "src/a/x", "!odd.txt", "README.md"):
            repo.write(name, "old\n")
        repo.commit("files")

    def task(self, *owns):
        request = create.Request(task="demo", brief="do it", owns=owns)
        return create.write_down(self.app, find_project(self.app, workspace=self.repo.path), request)

    def place(self, *owns, **wishes):
        return place(self.app, home_config(self.app), task=self.task(*owns), session="session-1", **wishes)

    def owned(self, *owns):
        found = self.place(*owns, workspace=SHARED)
        return [os.path.relpath(path, found.folder) for path in found.owned]

    def set(self, text):
        os.makedirs(self.app.settings.home, exist_ok=True)
        with open(os.path.join(self.app.settings.home, "config.toml"), "w", encoding="utf-8") as file:
            file.write(text)


@pytest.fixture
def ground(repo):
    return Ground(repo)


@pytest.fixture
def bubblewrap():
    if layer(os.environ, wanted=BUBBLEWRAP) != BUBBLEWRAP:
        absent(BUBBLEWRAP)


@pytest.mark.parametrize(
    ("pattern", "owned"),
    [
        (r"app/\[id]/page.tsx", "app/[id]/page.tsx"),
        (r"app/\[id]/", "app/[id]"),
        ("app/[id]/page.tsx", "app"),
        (r"\!odd.txt", "!odd.txt"),
        ("README.md", "README.md"),
        ("src/*/x", "src"),
        ("src/a/", "src/a"),
        ("**", "."),
        ("*.md", "."),
    ],
)
def test_a_session_is_let_into_what_its_patterns_reach_and_no_further(ground, pattern, owned):
    assert ground.owned(pattern) == [owned]


def test_a_place_that_is_not_there_yet_is_reached_by_its_folder_which_is_made(ground):
    assert ground.owned("new/deep/file.py", "fresh/", "!new/deep/not.py") == ["new/deep", "fresh"]
    assert os.path.isdir(os.path.join(ground.repo.path, "new", "deep"))
    assert os.path.isdir(os.path.join(ground.repo.path, "fresh"))
    assert ground.repo.git("status", "--porcelain") == ""


def test_a_task_for_the_persons_checkout_works_there_without_a_sandbox(ground):
    found = ground.place("src/", workspace=SHARED)
    assert (found.folder, found.kind, found.sandbox, found.layer) == (ground.repo.path, SHARED, NONE, "none")
    assert (found.clone, found.workspace, found.policy) == (None, None, None)
    assert found.shared_git == os.path.join(ground.repo.path, ".git")


def test_a_clone_is_known_with_its_workspace_and_the_git_folder_it_was_made_from(ground, bubblewrap):
    found = ground.place("src/")
    assert found.kind == CLONE
    assert found.clone is not None
    assert found.clone == found.workspace
    assert found.folder == found.clone.tree != ground.repo.path
    assert found.snapshot_store.place.source.top == ground.repo.path
    assert found.shared_git == os.path.join(ground.repo.path, ".git")
    assert (found.sandbox, found.layer) == (WORKSPACE, BUBBLEWRAP)
    assert found.policy.workspace == found.folder


def test_where_nothing_is_committed_yet_nothing_is_cloned(tmp_path):
    folder = str(tmp_path / "empty")
    subprocess.run(["git", "init", "-q", folder], check=True)
    app = App(from_environment())
    task = create.write_down(app, find_project(app, workspace=folder), create.Request(task="first", brief="begin"))
    found = place(app, home_config(app), task=task, session="session-1", workspace=CLONE)
    assert (found.folder, found.kind, found.clone) == (folder, SHARED, None)


def test_outside_of_git_there_is_no_git_to_share(tmp_path):
    folder = str(tmp_path / "plain")
    os.makedirs(folder)
    app = App(from_environment())
    task = create.write_down(app, find_project(app, workspace=folder), create.Request(task="first", brief="begin"))
    found = place(app, home_config(app), task=task, session="session-1")
    assert (found.folder, found.kind, found.shared_git) == (folder, SHARED, "")


def test_a_machine_without_a_sandbox_says_so_unless_one_was_demanded(ground, monkeypatch):
    monkeypatch.setenv("HANDOFF_SANDBOX", "none")
    ground.app = App(from_environment())
    found = ground.place("src/", workspace=CLONE)
    assert (found.kind, found.sandbox, found.policy) == (CLONE, NONE, None)
    assert found.words.startswith("No sandbox: ")
    with pytest.raises(Refused, match="no sandbox of the kind 'workspace'"):
        check_sandbox(ground.app, sandbox=WORKSPACE)
    check_sandbox(ground.app, sandbox=NONE)


def test_a_layer_that_cannot_tell_files_apart_refuses_what_only_bubblewrap_can(ground, monkeypatch):
    if layer(os.environ, wanted="landlock") != "landlock":
        absent("landlock")
    monkeypatch.setenv("HANDOFF_SANDBOX", "landlock")
    ground.app = App(from_environment())
    ground.set('session_sandbox = "owned"\n')
    with pytest.raises(Refused, match="no sandbox of the kind 'owned'"):
        ground.place("src/")


def test_a_setting_nobody_knows_is_an_error_that_names_it(ground):
    ground.set('session_sandbox = "wall"\n')
    with pytest.raises(ConfigError, match="session_sandbox is 'wall'"):
        ground.place("src/")


def test_the_hook_is_told_what_is_owned_whole_and_no_more(ground):
    task = ground.task("src/", "*.md", r"app/\[id]/page.tsx", "docs/**")
    found = place(ground.app, home_config(ground.app), task=task, session="session-1", workspace=SHARED, sandbox=NONE)
    head, _, whole = permissions_text(task, found).partition("\n\n")
    assert head.split("\n")[3:] == [ground.repo.path, "src/", "*.md", r"app/\[id]/page.tsx", "docs/**"]
    assert whole.split() == ["src/", "app/[id]/page.tsx", "docs/"]


def test_the_owned_sandbox_is_a_policy_and_not_a_change_of_words(ground, bubblewrap):
    found = ground.place("src/", workspace=SHARED, sandbox=OWNED)
    assert found.sandbox == OWNED
    assert found.policy.owned is None, "what the client needs is added before anything is wrapped"
    assert found.owned == (os.path.join(ground.repo.path, "src"),)

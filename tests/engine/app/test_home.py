"""A project is named after its checkout, and the home's settings are strict."""

from __future__ import annotations

import os

import pytest

from handoff.base.errors import ConfigError, UserError
from handoff.base.settings import from_environment
from handoff.engine.app import App
from handoff.engine.app.home import find_project, home_config, name_of
from sandbox import Repo


@pytest.fixture
def app():
    return App(from_environment())


def settings_file(app, text):
    os.makedirs(app.settings.home, exist_ok=True)
    with open(os.path.join(app.settings.home, "config.toml"), "w", encoding="utf-8") as file:
        file.write(text)


def test_the_project_is_the_checkout_and_not_the_folder_inside(app, repo):
    os.makedirs(os.path.join(repo.path, "src", "deep"))
    project = find_project(app, workspace=os.path.join(repo.path, "src", "deep"))
    assert (project.name, project.workspace) == ("repo", repo.path)


def test_an_unusual_folder_name_becomes_a_slug(tmp_path):
    assert name_of(str(tmp_path / "My_Repo")) == "my-repo"
    assert name_of(str(tmp_path / "a")) == "a-project"
    assert name_of(str(tmp_path / "日本")) == "project"
    assert name_of(str(tmp_path / "sessions")) == "sessions-project"


def test_a_worktree_belongs_to_the_project_of_its_checkout(app, repo, tmp_path):
    repo.git("worktree", "add", "-q", str(tmp_path / "elsewhere"))
    assert find_project(app, workspace=str(tmp_path / "elsewhere")).name == "repo"


def test_a_submodule_is_a_project_of_its_own(app, repo, tmp_path):
    other = Repo.create(str(tmp_path / "library"))
    repo.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", other.path, "vendor")
    assert find_project(app, workspace=os.path.join(repo.path, "vendor")).name == "vendor"


@pytest.mark.parametrize("name", ["../x", "A", "sessions", "a" * 61, "-x", "x y"])
def test_a_name_that_would_leave_the_home_is_refused(app, repo, name):
    with pytest.raises(UserError):
        find_project(app, name=name, workspace=repo.path)


def test_a_folder_that_is_not_there_is_an_error(app, tmp_path):
    with pytest.raises(UserError, match="There is no folder"):
        find_project(app, workspace=str(tmp_path / "nowhere"))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("max_runing = 3\n", "config.toml:1: unknown key 'max_runing'"),
        ("\nmax_running = 0\n", "config.toml:2: 'max_running' must be a whole number above 0"),
        ("max_running_agent = { claude = 'x' }\n", "max_running_agent.claude must be a whole number"),
        ("opener = \n", "config.toml:1: not valid TOML"),
    ],
)
def test_a_broken_setting_names_its_line_and_key(app, text, told):
    settings_file(app, text)
    with pytest.raises(ConfigError) as caught:
        home_config(app)
    assert told in caught.value.message

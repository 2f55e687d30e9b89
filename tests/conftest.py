"""Every test lives in its own home: HOME, git's settings and $HANDOFF_HOME are inside its temp folder."""

from __future__ import annotations

import os
import tempfile

import pytest

from sandbox import Cli, Repo, hermetic_environment


@pytest.fixture(autouse=True)
def _own_home(tmp_path_factory, monkeypatch):
    """Nothing of the person who runs the tests is read or written."""
    home = tmp_path_factory.mktemp("home")
    for name in list(os.environ):
        if name.startswith(("HANDOFF_", "GIT_", "CLAUDE", "XDG_")):
            monkeypatch.delenv(name)
    for name, value in hermetic_environment(str(home)).items():
        monkeypatch.setenv(name, value)
    return home


@pytest.fixture
def repo(tmp_path):
    """A real git repository with one commit."""
    return Repo.create(str(tmp_path / "repo"))


@pytest.fixture
def cli(repo):
    """`handoff` as a real process, started in `repo`."""
    return Cli(repo.path)


@pytest.fixture
def folder():
    """A short temp folder outside any repository, for socket paths and the like."""
    with tempfile.TemporaryDirectory(prefix="ho-") as path:
        yield path

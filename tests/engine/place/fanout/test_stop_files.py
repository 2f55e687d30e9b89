"""The files people touch to stop something: each is seen, each is taken back."""

from __future__ import annotations

import os

import pytest

from handoff.base.settings import from_environment
from handoff.board.sessions import pauses
from handoff.engine.app import App
from handoff.engine.place.fanout import files
from handoff.engine.place.fanout.files import is_stopped


@pytest.fixture
def app():
    return App(from_environment())


def touch(app, *names):
    path = os.path.join(app.settings.home, *names)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8"):
        return path


@pytest.mark.parametrize(
    ("names", "scope"),
    [
        (("batches", "b1", "STOP"), pauses.BATCH),
        (("STOP_AUTO",), pauses.PROJECT),
        (("..", "STOP_AUTO"), pauses.ALL),
        (("..", "done"), pauses.ALL),
    ],
)
def test_every_stop_file_is_seen_and_one_that_is_gone_lets_go_on(app, names, scope):
    assert not files.read_stop_files(app, "shop")
    assert not is_stopped(app, "shop")
    path = touch(app, "shop", *names)
    (stop,) = files.read_stop_files(app, "shop")
    assert stop.scope == scope
    assert is_stopped(app, "shop") is (scope != pauses.BATCH), "a batch that stands still stops nobody else"
    os.unlink(path)
    assert not files.read_stop_files(app, "shop")


@pytest.mark.parametrize(
    ("scope", "file"),
    [(pauses.ALL, "STOP_AUTO"), (pauses.PROJECT, "shop/STOP_AUTO"), (pauses.BATCH, "shop/batches/b1/STOP")],
)
def test_a_pause_shows_as_a_file_and_a_resume_takes_it_away(app, scope, file):
    names = {"project": "" if scope == pauses.ALL else "shop", "name": "b1" if scope == pauses.BATCH else ""}
    assert files.pause_with_file(app, scope=scope, **names, reason="lunch", by="me")
    with open(os.path.join(app.settings.home, file), encoding="utf-8") as opened:
        assert opened.read().startswith("lunch")
    assert files.resume_with_file(app, scope=scope, **names)
    assert not os.path.exists(os.path.join(app.settings.home, file))
    assert not files.resume_with_file(app, scope=scope, **names)


def test_resuming_everything_also_takes_the_older_name_away(app):
    path = touch(app, "done")
    assert files.resume_with_file(app, scope=pauses.ALL, project="", name="")
    assert not os.path.exists(path)

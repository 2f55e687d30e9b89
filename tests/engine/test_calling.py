"""A person at a terminal is called without any set-up, and not where they said no."""

from __future__ import annotations

import os

from handoff.base.settings import Settings
from handoff.engine.app import App
from handoff.engine.features.calling import call
from page_ground import until


def _app(folder, **more) -> App:
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "TERM": "xterm-256color", **more}
    return App(Settings(environment, os.path.join(folder, ".handoff"), "", "handoff", str(folder)))


def test_the_bell_rings_and_the_terminal_shows_words_that_cannot_steer_it(tmp_path):
    said = call(_app(tmp_path), "Land 'cart'?\n\x1b[2Jevil")
    assert said == "\x1b]9;handoff: Land 'cart'? \\x1b[2Jevil\x07\x07"
    assert call(_app(tmp_path, TERM="linux"), "Land it?") == "\x07", "a terminal without notices rings"


def test_a_setting_switches_it_off(tmp_path):
    app = _app(tmp_path)
    os.makedirs(app.settings.home, mode=0o700)
    with open(os.path.join(app.settings.home, "config.toml"), "w", encoding="utf-8") as file:
        file.write("bell = false\n")
    assert call(app, "Land it?") == ""


def test_the_desktop_shows_a_notice_where_it_has_a_program_for_that(tmp_path):
    told, program = tmp_path / "told", tmp_path / "notify-send"
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {told}.new && mv {told}.new {told}\n')
    program.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    call(_app(tmp_path, PATH=path, DISPLAY=":0"), "Land it?")
    until(told.exists, "the desktop is told")
    assert told.read_text().splitlines()[-2:] == ["handoff", "Land it?"]

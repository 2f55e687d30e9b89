"""`demo --board`: scripted agents at work before a person's eyes."""

from __future__ import annotations

import os

import pytest

from screen import Screen


def test_without_a_terminal_the_board_of_the_demo_says_what_to_do_instead(cli):
    answer = cli("demo", "--board", code=1)
    assert "The board needs a terminal." in answer.err
    assert "handoff demo" in answer.err


@pytest.mark.slow
def test_the_demo_shows_agents_at_work_one_red_and_one_that_asks(cli, repo):
    environment = {**os.environ, "TERM": "xterm-256color"}
    screen = Screen(cli.command("demo", "--board"), columns=110, lines=32, cwd=repo.path, env=environment)
    try:
        screen.until("? cart", "✗ mail", "Drop test_empty?", patience=200)
        screen.type("q")  # an agent is still at work
        seen = screen.until("Finished in the last 24 h")
        assert screen.process.wait(timeout=60) == 0, screen.look()
        assert "●" not in seen, "its folder goes"
    finally:
        screen.close()

"""Progress: told on a terminal after two seconds, and nowhere else."""

from __future__ import annotations

import os

from handoff.base.clock import SystemClock
from handoff.surfaces.cli.output import ProgressLine
from sandbox import Cli
from screen import Screen


def _slow_tests(repo) -> None:
    repo.write(".handoff/config.toml", '[checks.slow]\ncommand = "sleep 4"\nresults = "exit"\n')


def test_a_check_that_takes_long_is_told_on_a_terminal_and_the_line_is_gone_at_the_end(cli, repo):
    _slow_tests(repo)
    screen = Screen(cli.command("check"), cwd=repo.path, env={**os.environ, "TERM": "xterm"})
    screen.until("Running the tests of slow: ")
    text = screen.until("Green: 0 tests")
    assert "Running the tests" not in text.splitlines()[-1]
    screen.close()


def test_pipes_and_programs_hear_nothing_of_it(repo):
    _slow_tests(repo)
    answer = Cli(repo.path, TERM="xterm", FORCE_COLOR="1")("check", "--json")
    assert "Running" not in answer.err + answer.out


def test_what_is_told_says_how_far_and_how_long_yet():
    class Stopped(SystemClock):
        """A clock that a test moves."""

        now_at = 0.0

        def monotonic(self) -> float:
            return self.now_at

    clock = Stopped()
    line = ProgressLine(clock, lambda _text: None)
    line.tell("Writing files", 0, 400)
    clock.now_at = 30.0
    line.tell("Writing files", 100, 400)
    assert line.words() == "Writing files: 100 of 400, 25%, 30 s, about 1:30 min more"
    line.tell("Merging", 0, 0)
    assert line.words() == "Merging: 30 s"
    line.close()

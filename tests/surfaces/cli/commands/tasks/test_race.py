"""`race`: several agents do the same work from one line, and one result lands."""

from __future__ import annotations

import pytest

from scripts import handoff, write_script

DONE = {"run": handoff("task", "done", "--summary", "made")}


@pytest.mark.slow
def test_the_best_of_two_lands_from_one_line_without_a_session_to_join_it_and_the_report_says_why(cli, repo, tmp_path):
    for folder in ("find", "find-2"):
        (tmp_path / folder).mkdir()
        for number in (1, 2):
            acts = {"write": "find.py", "text": "x = 1\n" * number * 9}, DONE
            write_script(str(tmp_path / folder / f"work-{number}.toml"), *acts)
    words = ("--agents", "scripted=2", "--with", str(tmp_path / "{task}.toml"), "--plain")
    try:
        said = cli("race", "find", "--check", "test -s find.py", *words).out
        assert "work-1 (scripted) won of 2: work-2 changes more (18 lines against 9)" in said
        assert repo.read("find.py") == "x = 1\n" * 9
        assert repo.git("log", "--format=%s", "-1").strip() == "work: find"
        assert "work-1 (scripted): won" in cli("batch", "report", "find").out
        repo.git("reset", "-q", "--hard", "HEAD~1")
        cli("race", "find", "--check", "test -s find.py", "--owns", "*.py", *words)
        assert cli("batch", "report", "--json").json["batch"] == "find-2", "a second race of that name has its own"
    finally:
        cli("work", "--stop")


def test_one_alone_runs_no_race(cli, repo):
    answer = cli("race", "find", "--agents", "scripted", code=1)
    assert "needs at least two" in answer.err
    assert "scripted" not in cli("task", "list", "--all").out

"""`handoff flow kinds`: what a person sees."""

from __future__ import annotations

import os


def test_the_packaged_ones_are_listed_and_a_file_of_ones_own_wins(cli, repo):
    assert [row["name"] for row in cli("flow", "kinds", "--json").json] == ["feature", "review", "tdd", "tdd-strict"]
    toml = cli("flow", "kinds", "tdd", "--toml").out
    repo.write(".handoff/workflows/tdd.toml", toml.replace("max_cycles = 50", "max_cycles = 7"))
    rows = {row["name"]: row for row in cli("flow", "kinds", "--json").json}
    assert not rows["tdd"]["packaged"]
    shown = cli("flow", "kinds", "tdd")
    assert "at most 7 cycles" in shown.out
    assert "all known tests pass and exactly the new one fails" in shown.out
    assert "{{test}}" in cli("flow", "kinds", "tdd", "--prompt", "red").out


def test_check_names_the_lines_and_says_it_by_its_exit_code(cli, repo):
    assert cli("flow", "kinds", "--check").out.count("nothing wrong") == 4
    text = cli("flow", "kinds", "review", "--toml").out
    repo.write(".handoff/workflows/mine.toml", text.replace('changes = "fix"', 'changes = "fixx"'))
    answer = cli("flow", "kinds", "--check", "mine", code=1)
    line = 1 + text.splitlines().index('next = { approved = "done", changes = "fix" }')
    assert f"mine.toml:{line}: there is no phase 'fixx'" in answer.out
    assert "1 problem " in cli("flow", "kinds").out
    assert f"mine.toml:{line}:" in cli("flow", "kinds", "mine", code=1).err
    assert "There is no workflow 'nine'" in cli("flow", "kinds", "nine", code=1).err


def test_a_workflow_is_drawn_as_text_and_as_svg(cli, repo):
    assert "▲ plan (next cycle)" in cli("flow", "kinds", "--graph", "tdd").out
    assert cli("flow", "kinds", "--graph", "tdd", "--svg").out.startswith("<svg ")
    cli("flow", "kinds", "--graph", "tdd", "--output", "tdd.svg")
    assert os.path.getsize(os.path.join(repo.path, "tdd.svg")) > 1000

"""Instruction files: one marked block, one line, one skill; removed without a trace."""

from __future__ import annotations

import os

import pytest

from handoff.surfaces.cli.catalog import CATALOG

BEGIN, END = "<!-- handoff:begin -->", "<!-- handoff:end -->"
"""As versions wrote them that did not seal what is between."""


def test_a_fresh_repository_gets_its_block_and_its_skill_and_loses_them_again(cli, repo):
    cli("setup", "instructions")
    text = repo.read("AGENTS.md")
    assert text.startswith("<!-- handoff:begin ")
    assert repo.read(".agents/skills/handoff/SKILL.md").startswith("---\nname: handoff\n")
    assert not os.path.exists(os.path.join(repo.path, "CLAUDE.md")), "Claude reads AGENTS.md by itself"
    assert {row["what"] for row in cli("setup", "instructions", "--json").json} == {"as it was"}
    cli("setup", "instructions", "--remove")
    assert repo.git("status", "--porcelain") == ""
    assert cli("setup", "instructions", "--remove").out.startswith("There was nothing")


@pytest.mark.parametrize("theirs", ["# Ours\n\nRead this.\n", "no newline at the end", "a\n\n", "\n"])
def test_what_people_wrote_stays_byte_for_byte(cli, repo, theirs):
    for name in ("AGENTS.md", "CLAUDE.md", "GEMINI.md"):
        repo.write(name, theirs)
    cli("setup", "instructions")
    assert repo.read("AGENTS.md").startswith(theirs)
    assert "@AGENTS.md" in repo.read("CLAUDE.md")
    cli("setup", "instructions", "--remove")
    for name in ("AGENTS.md", "CLAUDE.md", "GEMINI.md"):
        assert repo.read(name).rstrip("\n") == theirs.rstrip("\n")


def test_text_below_the_block_is_kept_and_the_block_is_brought_up_to_date(cli, repo):
    repo.write("AGENTS.md", f"above\n\n{BEGIN}\nold words\n{END}\n\nbelow\n")
    cli("setup", "instructions")
    text = repo.read("AGENTS.md")
    assert text.startswith("above\n\n")
    assert text.endswith("\n\nbelow\n")
    assert "old words" not in text
    assert text.count("handoff:begin") == 1


@pytest.mark.parametrize("broken", [f"{BEGIN}\nno end\n", f"{END}\n{BEGIN}\n", f"{BEGIN}\n{END}\n{BEGIN}\n{END}\n"])
def test_broken_marks_are_told_and_nothing_is_written(cli, repo, broken):
    repo.write("AGENTS.md", broken)
    repo.write("CLAUDE.md", "x\n")
    assert "AGENTS.md" in cli("setup", "instructions", code=1).err
    assert (repo.read("AGENTS.md"), repo.read("CLAUDE.md")) == (broken, "x\n")
    assert not os.path.exists(os.path.join(repo.path, ".agents"))


def test_lines_a_person_wrote_into_our_block_or_skill_are_kept_and_named(cli, repo):
    cli("setup", "instructions")
    skill = ".agents/skills/handoff/SKILL.md"
    repo.write("AGENTS.md", repo.read("AGENTS.md").replace(END, f"Never touch prod.\n{END}"))
    repo.write(skill, repo.read(skill) + "My own words.\n")
    for words in ((), ("--remove",)):
        answer = cli("setup", "instructions", *words, code=1)
        assert "AGENTS.md" in answer.err
        assert skill in answer.err
        assert "Never touch prod." in repo.read("AGENTS.md")
        assert "My own words." in repo.read(skill)


def test_every_command_the_instructions_name_exists(cli, repo):
    cli("setup", "instructions")
    text = repo.read("AGENTS.md") + repo.read(".agents/skills/handoff/SKILL.md")
    named = {part.split()[0].rstrip("`'),.:") for part in text.split("`handoff ")[1:]}
    assert named
    assert named <= {name.partition(" ")[0] for name in CATALOG}

"""A first suite for a project without one: the files that make it are found again as that suite, beside what was there."""

from __future__ import annotations

import json

import pytest

from handoff.checks.frameworks import STARTERS, read_proposal, starter_files, starter_suites


@pytest.mark.parametrize("name", STARTERS)
def test_every_starter_is_found_again_as_the_suite_it_was_chosen_for(name):
    files = starter_files(name, project="My 2nd Shop", read={}.get)
    (suite,) = starter_suites(name, files)
    assert (suite.framework, suite.folder) == (name, "")
    assert suite.tests


def test_what_a_project_has_already_stays():
    known = {
        "package.json": '{"name": "mine", "scripts": {"build": "x"}}',
        ".gitignore": "dist",
        "src/lib.rs": "// mine",
    }
    files = starter_files("node", project="x", read=known.get)
    assert json.loads(files["package.json"]) == {"name": "mine", "scripts": {"build": "x", "test": "node --test"}}
    assert files[".gitignore"] == "dist\nnode_modules/\n"
    assert "src/lib.rs" not in starter_files("cargo", project="x", read=known.get)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("suite: pytest\n", "pytest"),
        ("# T\n\n- Suite: `node`\n", "node"),
        ("- [ ] suite: pytest is used\n", ""),
        ("", ""),
    ],
)
def test_a_suite_is_proposed_by_a_line_of_its_own(text, name):
    assert read_proposal(text) == name

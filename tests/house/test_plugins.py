"""The plugins of clients are what the code says: the same hooks, the same skills, the same version."""

from __future__ import annotations

import json
import os
import re
import tomllib

from release import metadata, plugins

from source import ROOT, read


def test_plugins_hold_what_handoff_has_and_nothing_else():
    wanted = plugins.files()
    there = {
        os.path.relpath(os.path.join(at, name), ROOT)
        for folder in ("plugins", ".claude-plugin", ".agents")
        for at, _, names in os.walk(os.path.join(ROOT, folder))
        for name in names
    }
    assert there == set(wanted), "run: python release/plugins.py"
    assert {path: read(path) for path in wanted} == wanted, "run: python release/plugins.py"


def test_a_skill_is_short_and_says_when_it_is_used():
    for name in os.listdir(os.path.join(ROOT, "skills")):
        text = read(f"skills/{name}/SKILL.md")
        assert text.startswith(f"---\nname: {name}\ndescription: ")
        assert "Use it " in text.split("---")[1]
        assert len(text.splitlines()) <= 60


def test_the_package_page_shows_every_picture_and_names_the_server_of_the_registry():
    shown = metadata.page(read("README.md"))
    targets = re.findall(r'(?:\]\(|src=")([^)"]+)', shown)
    assert f"{metadata.ADDRESS}/raw/main/docs/board.svg" in targets
    assert [one for one in targets if not one.startswith(("https://", "#"))] == [], (
        "a relative path leads nowhere there"
    )
    server = json.loads(read("plugins/server.json"))
    assert f"mcp-name: {server['name']} " in shown, "the registry asks the package's page whose entry it is"
    assert len(server["description"]) <= 100


def test_a_client_of_the_registry_finds_a_command_of_the_packages_name():
    """Such a client runs `uvx PACKAGE mcp`, and uvx runs the command that has the package's name."""
    (package,) = json.loads(read("plugins/server.json"))["packages"]
    project = tomllib.loads(read("pyproject.toml"))["project"]
    assert package["runtimeHint"] == "uvx"
    assert package["identifier"] == project["name"]
    assert project["scripts"][project["name"]] == project["scripts"]["handoff"]

"""The plugins of clients are what the code says: the same hooks, the same skills, the same version."""

from __future__ import annotations

import os

from release import plugins

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

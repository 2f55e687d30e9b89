"""`.handoff/` folders to test with, one of them as the other tool writes it."""

from __future__ import annotations

import os

PLAN = """# State

# Current Step
Write the form

# Execution Plan
- [x] Set up src/login.py
- [>] Write the form  (check: test -f form.txt)
- [ ] Limit the rate (R2)

# Risks
None
"""


def put(root: str, name: str, text: str) -> str:
    path = os.path.join(root, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.write(text)
    return path


def ready(cli, repo, name: str = "login", state: str = PLAN) -> str:
    """A feature with a goal and a plan; returns its folder."""
    cli("init", name)
    base = f".handoff/features/{name}"
    put(repo.path, f"{base}/FEATURE.md", f"# Feature: {name}\n\n## Goal\nPeople can log in.\n")
    put(repo.path, f"{base}/STATE.md", state)
    put(
        repo.path,
        f"{base}/SESSION.md",
        "# Session\n\n## What Was Implemented\nThe skeleton.\n\n## Next Micro-Step\nFields.\n",
    )
    return base


def other_tools_workspace(root: str) -> None:
    """Five files, a link and a config as the Rust tool 0.7 leaves them, with its sentinels and quoted examples."""
    base = ".handoff/features/old-one"
    put(root, ".handoff/config.toml", '# handoff configuration\nlanguage = "German"\n')
    put(
        root,
        f"{base}/FEATURE.md",
        "> Fill this in.\n\n# Feature: old-one\n\n## Goal\nShip the importer.\n\n## Requirements\n- reads CSV\n",
    )
    put(root, f"{base}/SPEC.md", "# Feature Summary\nNot yet generated.\n\n# In Scope\nNot yet generated.\n")
    put(root, f"{base}/DESIGN.md", "# Design Summary\nNot yet generated.\n")
    put(
        root,
        f"{base}/STATE.md",
        "# State\n\n# Current Step\nParse the file\n\n# Execution Plan\n- [x] Set up\n- [>] Parse the file\n- [ ] Store rows\n\n"
        "# Completed Steps\n- Set up\n\n# Remaining Steps\n- [ ] Store rows\n\n# Known Issues\nNone\n\n# Risks\nNone\n\n"
        "# Architectural Notes\nNone\n\n# Drift Warnings\n- at most 3 files a step\n",
    )
    put(root, f"{base}/SESSION.md", "# What Was Implemented\nProject set up.\n\n# Next Micro-Step\nParse.\n")
    os.symlink("features/old-one", os.path.join(root, ".handoff/current"))
    put(root, ".handoff/templates/default_continue_prompt.md", "MY OWN PROMPT\n{{language_instruction}}\n")

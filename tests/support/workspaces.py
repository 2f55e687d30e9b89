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


RUST_VERSIONS = ("0.4.0", "0.5.0", "0.5.1", "0.6.0", "0.6.2", "0.7.0", "0.7.3")
PLACES = ("untouched", "above", "below", "instead", "alone")
_CONTRACT = """Step Marker Contract (keep to it):
- Each step is one list item that begins with its mark:
  - "- [ ] Step description" (pending)
  - "- [>] Step description" (current)
  - "- [x] Step description" (completed)
- At most one step is current.
- Without a list mark, a raw "[ ]" or "[>]" is not counted.
"""


def rust_state(version: str, plan: str = "", place: str = "untouched", current: str = "Not started") -> str:
    """A STATE.md in the shape the Rust tool leaves it, in words of ours, with a plan at one of the PLACES around its legend."""
    none = "Not yet generated.\n\n"
    body = {
        "untouched": none + _CONTRACT,
        "above": plan + "\n" + none + _CONTRACT,
        "below": none + _CONTRACT + "\n" + plan,
        "instead": plan + "\n" + _CONTRACT,
        "alone": plan,
    }[place]
    intro = '> This file says how far the feature is.\n> Mark progress here: "[>]" becomes [x], the next [ ] becomes [>].\n\n'
    return (
        f"{intro if version >= '0.6' else ''}# State\n\n# Current Step\n{current}\n\n# Execution Plan\n{body}\n"
        "# Completed Steps\nNone\n\n# Remaining Steps\nUnknown\n\n# Known Issues\nNone\n\n# Risks\nNone\n\n"
        "# Architectural Notes\nNone\n\n# Drift Warnings\n- At most 3 files a micro-step.\n"
        "- Change a mark ([>] -> [x]) only after the build is green.\n"
    )


def rust_folder(root: str, version: str, *, state: str | None = None, goal: str = "Ship the importer.") -> str:
    """A `.handoff/` as that version of the Rust tool leaves it after `init old-one`; the feature's folder."""
    base = ".handoff/features/old-one"
    settings = 'language = "German"\n' if version >= "0.6" else ""
    put(root, ".handoff/config.toml", "# handoff configuration\n" + settings)
    words = f"> Say what is wanted.\n\n# Feature: old-one\n\n## Goal\n{goal}\n\n## Requirements\n- reads CSV\n"
    put(root, f"{base}/FEATURE.md", words + "\n## Acceptance Criteria\n- [ ] a file is read\n")
    if version >= "0.5":  # before that a feature had three documents
        put(root, f"{base}/SPEC.md", "# Feature Summary\nNot yet generated.\n\n# In Scope\nNot yet generated.\n")
        put(root, f"{base}/DESIGN.md", "# Design Summary\nNot yet generated.\n")
    put(root, f"{base}/STATE.md", rust_state(version) if state is None else state)
    session = "None yet." if state is None else "Project set up."
    put(root, f"{base}/SESSION.md", f"# What Was Implemented\n{session}\n\n# Next Micro-Step\nParse.\n")
    os.symlink("features/old-one", os.path.join(root, ".handoff/current"))
    return base

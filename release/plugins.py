"""Plugins of the clients that have such a thing, written from the hooks and skills that handoff has anyway.

python release/plugins.py          write plugins/ and the two marketplace files again
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from typing import Any

from handoff import __version__
from handoff.engine.setup.settings_files import shared_hooks

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
NAME = "handoff"
_ABOUT = "Go on where another session stopped, of any coding agent; hand over; split work; take over."
_HOME = "https://github.com/handoff-relay/handoff"
_SERVER = {"command": NAME, "args": ["mcp"]}
_OWNER = {"name": "handoff", "url": _HOME}
_FOLDER = "plugins/handoff"
_GEMINI = "plugins/gemini"


def files() -> dict[str, Any]:
    """Every file by its path from the top of the repository; a text, or what is written as JSON."""
    about = {"name": NAME, "version": __version__, "description": _ABOUT}
    more = {"homepage": _HOME, "repository": _HOME, "license": "MIT"}
    found: dict[str, Any] = {
        ".claude-plugin/marketplace.json": {
            "name": NAME,
            "owner": _OWNER,
            "description": _ABOUT,
            "plugins": [{"name": NAME, "source": f"./{_FOLDER}", "description": _ABOUT}],
        },
        ".agents/plugins/marketplace.json": {
            "name": NAME,
            "interface": {"displayName": NAME},
            "plugins": [
                {
                    "name": NAME,
                    "source": {"source": "local", "path": f"./{_FOLDER}"},
                    "policy": {"installation": "AVAILABLE", "authentication": "ON_INSTALL"},
                    "category": "Coding",
                }
            ],
        },
        "plugins/server.json": {  # for the registry of MCP servers
            "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
            "name": "io.github.handoff-relay/handoff",  # and on the package's page: release/metadata.py
            "description": _ABOUT,
            "repository": {"url": _HOME, "source": "github"},
            "version": __version__,
            "packages": [
                {
                    "registryType": "pypi",
                    "identifier": "handoff-relay",
                    "version": __version__,
                    "runtimeHint": "uvx",
                    "transport": {"type": "stdio"},
                    "packageArguments": [{"type": "positional", "value": "mcp"}],
                }
            ],
        },
        f"{_FOLDER}/.claude-plugin/plugin.json": {**about, "author": _OWNER, **more, "hooks": "./hooks/claude.json"},
        f"{_FOLDER}/.codex-plugin/plugin.json": {
            **about,
            "author": _OWNER,
            **more,
            "skills": "./skills/",
            "mcpServers": "./.mcp.json",
            "hooks": "./hooks/codex.json",
        },
        f"{_FOLDER}/.mcp.json": {"mcpServers": {NAME: _SERVER}},
        f"{_GEMINI}/gemini-extension.json": {**about, "mcpServers": {NAME: _SERVER}},
        f"{_GEMINI}/hooks/hooks.json": {"hooks": shared_hooks("gemini")},
    }
    for agent in ("claude", "codex"):
        found[f"{_FOLDER}/hooks/{agent}.json"] = {"hooks": shared_hooks(agent)}
    for name in sorted(os.listdir(os.path.join(TOP, "skills"))):
        with open(os.path.join(TOP, "skills", name, "SKILL.md"), encoding="utf-8") as file:
            text = file.read()
        for folder in (_FOLDER, _GEMINI):
            found[f"{folder}/skills/{name}/SKILL.md"] = text
    return {path: made if isinstance(made, str) else json.dumps(made, indent=2) + "\n" for path, made in found.items()}


def main() -> int:
    """Write them all; what no longer belongs to them goes."""
    for folder in (_FOLDER, _GEMINI):
        shutil.rmtree(os.path.join(TOP, folder), ignore_errors=True)
    for path, text in files().items():
        full = os.path.join(TOP, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as file:
            file.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())

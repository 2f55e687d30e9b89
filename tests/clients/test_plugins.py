"""Our plugin as a client's own users install it: used once, and taken out again."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest

from source import ROOT

pytestmark = [pytest.mark.clients, pytest.mark.slow]
FOR = ("claude", "codex", "gemini")
STATE = "# State\n\n# Current Step\n\nStep 1: build it\n\n# Execution Plan\n\n- [>] Step 1: build it\n- [ ] Step 2: ship it\n"
IN = {
    "claude": (("plugin", "marketplace", "add", "{}"), ("plugin", "install", "handoff@handoff")),
    "codex": (("plugin", "marketplace", "add", "{}"), ("plugin", "add", "handoff@handoff")),
    "gemini": (("extensions", "install", "{}/plugins/gemini", "--consent", "--skip-settings"),),
}
OUT = {
    "claude": (("plugin", "uninstall", "handoff@handoff"), ("plugin", "marketplace", "remove", "handoff")),
    "codex": (("plugin", "remove", "handoff@handoff"), ("plugin", "marketplace", "remove", "handoff")),
    "gemini": (("extensions", "uninstall", "handoff"),),
}
SETTINGS = {"claude": ".claude/settings.json", "codex": ".codex/config.toml", "gemini": ".gemini/settings.json"}


def _run(stage, lines, clone):
    for words in lines:
        done = subprocess.run(
            [f"{stage.root}/bin/{stage.client}", *(word.format(clone) for word in words)], cwd=stage.repo.path,
            env=stage.environment, input="y\ny\n", capture_output=True, text=True, check=False, timeout=200,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_plugin_brings_hooks_tools_and_skills_and_goes_again(stage):
    clone = os.path.join(stage.root, "clone")
    for name in (".claude-plugin", ".agents", "plugins"):
        shutil.copytree(os.path.join(ROOT, name), os.path.join(clone, name))
    os.symlink(os.path.join(os.path.dirname(sys.executable), "handoff"), os.path.join(stage.root, "bin", "handoff"))
    stage.cli("init", "login")
    stage.repo.write(".handoff/features/login/STATE.md", STATE)
    _run(stage, IN[stage.client], clone)
    server = stage.serve(("say", "hello"))
    done = stage.ask()
    assert server.requests, done
    first = json.dumps(server.requests[0])
    assert "Step 1: build it" in first, done
    for skill in ("Go on with work that an earlier session began", "Take over what another coding agent was doing"):
        assert skill in first, done
    # Codex does not wait for a server before its first request.
    tools = stage.plain("mcp", "list").stdout if stage.client == "codex" else json.dumps(server.requests[0]["tools"])
    assert "handoff" in tools, done
    _run(stage, OUT[stage.client], clone)
    with open(os.path.join(stage.environment["HOME"], SETTINGS[stage.client]), encoding="utf-8") as file:
        assert "handoff@handoff" not in file.read()
    server = stage.serve(("say", "hello"))
    done = stage.ask()
    assert "Step 1: build it" not in json.dumps(server.requests[0]), done
    stage.note("our plugin installed as its users do: hooks, tools, skills; removed again")

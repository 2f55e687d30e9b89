"""`handoff setup`, once more, and `--undo` in the settings of clients that are in use: what a client wrote there stays."""

from __future__ import annotations

import json
import os
import tomllib
from typing import Any

import pytest

pytestmark = [pytest.mark.clients, pytest.mark.slow]
LARGEST = 1 << 20  # programs that a client unpacks into the home are no settings
# How a person gives it a server of their own; for the others the test writes the file.
ADD = {
    "claude": ["mcp", "add", "--scope", "user", "NAME", "--", "echo", "hi"],
    "codex": ["mcp", "add", "NAME", "--", "echo", "hi"],
    "gemini": ["mcp", "add", "--scope", "user", "NAME", "echo", "hi"],
    "copilot": ["mcp", "add", "NAME", "--", "echo", "hi"],
    "qwen": ["mcp", "add", "--scope", "user", "NAME", "echo", "hi"],
}
BY_HAND = {
    "opencode": (".config/opencode/opencode.json", '{\n  "theme": "light",\n  "mcp": {"NAME": {"type": "local", "command": ["echo"], "enabled": false}}\n}\n'),
    "aider": (".aider.conf.yml", "# of NAME\nlight-mode: true\n"),
}  # fmt: skip


def _add(stage, name: str) -> None:
    """A server of the person's own, as the client itself writes it."""
    home = stage.environment["HOME"]
    if stage.client in ADD:
        done = stage.plain(*(word.replace("NAME", name) for word in ADD[stage.client]))
        assert done.returncode == 0, done.stdout + done.stderr
        return
    path, text = BY_HAND[stage.client]
    if not os.path.exists(os.path.join(home, path)):
        os.makedirs(os.path.dirname(os.path.join(home, path)), exist_ok=True)
        with open(os.path.join(home, path), "w", encoding="utf-8") as file:
            file.write(text.replace("NAME", name))


def _files(stage) -> dict[str, bytes]:
    """Every file that the client keeps in the person's home."""
    home, found = stage.environment["HOME"], {}
    for folder, _, names in os.walk(home):
        for name in names:
            path = os.path.join(folder, name)
            below = os.path.relpath(path, home)
            own = below.startswith(f".{stage.client}") or f"/{stage.client}/" in below
            if own and os.path.isfile(path) and os.path.getsize(path) < LARGEST:
                with open(path, "rb") as file:
                    found[below] = file.read()
    return found


def _meaning(path: str, data: bytes) -> Any:
    """What a file says; of one that is neither JSON nor TOML its bytes."""
    try:
        return tomllib.loads(data.decode()) if path.endswith(".toml") else json.loads(data)
    except ValueError:
        return data


def _theirs(client: str, value: Any) -> Any:
    """The same without our tools and our hooks, and without what is empty then."""
    if isinstance(value, dict):
        kept = {key: _theirs(client, one) for key, one in value.items() if key != "handoff"}
        return {key: one for key, one in kept.items() if one not in ({}, [], None)}
    if isinstance(value, list):
        ours = f" hook {client} "
        return [one for item in value if ours not in json.dumps(item) and (one := _theirs(client, item)) != {}]
    return value


def _all_theirs(client: str, files: dict[str, bytes]) -> dict[str, Any]:
    found = {path: _theirs(client, _meaning(path, data)) for path, data in files.items() if "hooks/handoff" not in path}
    return {path: value for path, value in found.items() if value}


def test_what_a_client_has_written_stays_through_setup_use_setup_and_undo(stage):
    _add(stage, "mine")
    agents = ("--agent", stage.client) if stage.client != "aider" else ()
    first = _files(stage)
    assert first, "it has written nothing of its own"
    stage.cli("setup", "--yes", *agents)
    assert _all_theirs(stage.client, _files(stage)) == _all_theirs(stage.client, first)
    stage.cli("setup", "--undo", "--yes")
    assert _files(stage) == first, "undone at once, every byte is as before"

    stage.cli("setup", "--yes", *agents)
    server = stage.serve(("say", "hello"))
    said = stage.ask()
    assert server.requests, said
    _add(stage, "more")
    used = _files(stage)
    assert ".codex/config.toml" not in used or b"trust_level" in used[".codex/config.toml"]
    assert "Nothing to do" in stage.cli("setup", "--yes", *agents).out
    assert _files(stage) == used
    health = stage.cli("doctor", "--json", code=None).json
    assert [one for one in health["findings"] if one["name"] == "hooks" and one["state"] != "ok"] == []

    stage.cli("setup", "--undo", "--yes")
    left = _files(stage)
    assert _all_theirs(stage.client, left) == _all_theirs(stage.client, used)
    for path, data in left.items():
        if "/backups/" in path:
            continue  # Claude's own copies of what its settings were while ours was in them
        value = _meaning(path, data)
        for key in ("mcpServers", "mcp_servers", "mcp", "hooks") if isinstance(value, dict) else ():
            told = value.get(key)
            assert "handoff" not in (told or {}), path
            assert f" hook {stage.client} " not in json.dumps(told), path
    stage.note("setup and undo after use")

"""The front door: the built wheel in a fresh environment, `handoff setup --yes`, and the next plain session has baton, fence and tools."""

from __future__ import annotations

import glob
import os
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.clients, pytest.mark.front_door, pytest.mark.slow]
FOR = {"claude": ["-p", "hi", "--permission-mode", "acceptEdits", "--allowedTools", "mcp__handoff__status"]}
# Which index pip asks; read now, inside a test the home is another one.
PIP_SETTINGS = os.environ.get("PIP_CONFIG_FILE") or os.path.expanduser("~/.config/pip/pip.conf")
PROJECT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PIP = ("-m", "pip", "--disable-pip-version-check", "-q")


@pytest.fixture
def installed(stage):
    """handoff as pip, pipx or uv install it: a wheel, with what it needs, in an environment of its own."""
    place, wheels = os.path.join(stage.root, "tool"), os.path.join(stage.root, "wheels")
    settings = {**os.environ, "PIP_CONFIG_FILE": PIP_SETTINGS, "PIP_NO_CACHE_DIR": "1"}
    for words in (
        [sys.executable, *PIP, "wheel", "--no-deps", "-w", wheels, PROJECT],
        [sys.executable, "-m", "venv", place],
    ):
        subprocess.run(words, env=settings, check=True, stdin=subprocess.DEVNULL, timeout=400)
    wheel = glob.glob(os.path.join(wheels, "*.whl"))
    subprocess.run([f"{place}/bin/python", *PIP, "install", *wheel], env=settings, check=True, timeout=800)
    stage.environment["PATH"] = f"{stage.root}/bin:{place}/bin:/usr/bin:/bin"
    return Person(stage, place)


class Person:
    """Somebody at a shell with a client and a fresh handoff."""

    def __init__(self, stage, place: str) -> None:
        self.stage, self.place = stage, place

    def run(self, program: str, *words: str) -> str:
        done = subprocess.run(
            [program, *words], cwd=self.stage.repo.path, env=self.stage.environment, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def handoff(self, *words: str) -> str:
        return self.run(f"{self.place}/bin/handoff", *words)

    def client(self) -> str:
        return self.run(f"{self.stage.root}/bin/{self.stage.client}", *FOR[self.stage.client])


def _tools(*requests) -> set[str]:
    """What the client offered its model; servers of tools join when they are up, not always before the first request."""
    return {tool["name"] for request in requests for tool in request.get("tools", [])}


def test_after_setup_the_next_plain_session_has_baton_fence_and_tools_and_after_undo_none_of_them(stage, installed):
    outside = os.path.join(stage.repo.path, "foreign.txt")
    assert "hooks of claude" in installed.handoff("setup", "--yes")
    installed.handoff("task", "claim", "demo")
    server = stage.serve(("write", outside, "x"), ("tool", "mcp__handoff__status", {}), ("say", "hello"))
    said = installed.client()
    assert "Task `demo` of project" in server.texts(0), said
    assert {"mcp__handoff__status", "mcp__handoff__finish"} <= _tools(*server.requests), said
    assert not os.path.exists(outside)
    assert "outside of what task 'demo' owns" in server.all_texts(), said
    assert "it called in" in installed.handoff("doctor")
    assert "Nothing to do" in installed.handoff("setup", "--yes")
    stage.note("one `handoff setup` gives a person's own session baton, fence and tools")

    installed.handoff("setup", "--undo", "--yes")
    server = stage.serve(("say", "hello"))
    installed.client()
    assert "Task `demo` of project" not in server.texts(0)
    assert not [name for name in _tools(*server.requests) if "handoff" in name]

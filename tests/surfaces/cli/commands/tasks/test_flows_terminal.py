"""A person at a terminal: what a refused phase asks, on a real pseudo-terminal."""

from __future__ import annotations

import os
import pty
import subprocess

import pytest

from flow_ground import LIST, FlowGround
from sandbox import Cli


@pytest.fixture
def ground(tmp_path):
    return FlowGround(str(tmp_path / "calc"), str(tmp_path / "scripts"))


def talk(cli: Cli, words: list[str], answers: bytes) -> str:
    """The command on a terminal, with these keys typed ahead; what a person sees."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        cli.command(*words), cwd=cli.folder, env={**cli.full_environment(), "EDITOR": "sed -i s/You/YOU/", "SHELL": "/bin/sh"},
        stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    os.write(ours, answers)
    seen = b""
    while True:
        try:
            data = os.read(ours, 4096)
        except OSError:
            break
        if not data:
            break
        seen += data
    process.wait(timeout=60)
    os.close(ours)
    return seen.decode("utf-8", "replace").replace("\r\n", "\n")


def test_a_refused_phase_can_be_tried_again_with_other_words_or_done_in_a_shell(ground):
    cli = Cli(ground.repo.path)
    cli("flow", "start", "tdd", "--id", "calc", "--agent", "scripted", "--request", "a calculator")
    ground.act("1-plan", {"say": "nothing"})
    ground.act("1-plan", {"expect": "YOU keep the list"}, {"say": "nothing again"}, attempt=2)
    keys = f"x\ne\nh\nprintf '{LIST.encode('unicode_escape').decode()}' > test-list.md\nexit\n".encode()
    seen = talk(cli, ["flow", "step", "calc", "--with", ground.word], keys)
    assert seen.count("[r]etry, [s]kip, [e]dit the prompt, open a s[h]ell, [q]uit?") >= 3
    assert "empty-list" in seen
    assert "This shell is in the flow's workspace" in seen
    assert "plan: verified" in seen
    assert cli("show", "calc", "--json").json["phase"] == "red"
    seen = talk(cli, ["flow", "step", "calc", "--with", os.path.join(ground.scripts, "1-plan-1.toml")], b"s\nq\n")
    assert "cannot be skipped" in seen

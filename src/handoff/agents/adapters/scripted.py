"""The scripted agent as an adapter: the script runner under the same supervisor as every other client."""

from __future__ import annotations

import os
import sys

from handoff.agents.adapters.pieces import event, no_abilities
from handoff.agents.contract import SAID, TROUBLE, USAGE, Adapter, AgentEvent, Launch, Usage
from handoff.agents.scripted.player import SPENT
from handoff.base.errors import UserError
from handoff.base.files import read_text
from handoff.base.record import TYPE_CHECKING

if TYPE_CHECKING:
    from handoff.agents.contract import LaunchRequest


def launch(order: LaunchRequest) -> Launch:
    """The first word is the script to follow."""
    if not order.words:
        raise UserError(
            "The scripted agent needs a script.",
            "Name it: handoff session start TASK --agent scripted --with SCRIPT.toml",
        )
    prompt, script = os.path.join(order.folder, "prompt.md"), order.words[0]
    files = {prompt: order.prompt}
    if os.path.isfile(script):  # inside a sandbox only what is in the session's folder is sure to be seen
        copy = os.path.join(order.folder, "script.toml")
        files[copy] = read_text(script)
        script = copy
    argv = (sys.executable, "-m", "handoff.surfaces.cli.main", "scripted", script, "--prompt", prompt)
    return Launch(argv, {}, files)


def read(line: str) -> tuple[AgentEvent, ...]:
    """What it told; its complaints begin with Error."""
    text = line.strip()
    if text.startswith("Error: "):
        return event(TROUBLE, text.removeprefix("Error: "))
    if text.startswith(SPENT) and text.endswith(" USD"):
        return event(USAGE, text, use=Usage(money=_amount(text)))
    return event(SAID, text) if text else ()


def _amount(text: str) -> float:
    try:
        return float(text.removeprefix(SPENT).removesuffix(" USD"))
    except ValueError:
        return 0.0  # somebody's own words


ADAPTER = Adapter(
    name="scripted",
    title="the scripted agent",
    programs=(sys.executable,),
    abilities=no_abilities,
    launch=launch,
    read=read,
    interactive=launch,
    version_words=(),
)

"""aider: no hooks, no events, and exit code 0 whatever happens; its words are read instead."""

from __future__ import annotations

import os

from handoff.agents.contract import SAID, TOOL, TROUBLE, Abilities, Adapter, AgentEvent, Launch
from handoff.base.record import TYPE_CHECKING

if TYPE_CHECKING:
    from handoff.agents.contract import LaunchRequest

_TROUBLES = (
    "litellm.",
    "servers are down",
    "api provider",
    "authenticationerror",
    "ratelimiterror",
    "badrequesterror",
    "internalservererror",
    "apiconnectionerror",
    "retrying in",
)


def abilities(version: str) -> Abilities:
    """Supervised only: the sandbox and the comparison afterwards."""
    del version
    return Abilities()


def launch(order: LaunchRequest) -> Launch:
    """One message, no commits of its own, nothing of its own in the repository.

    It says yes to everything, so it must not be asked whether to open release notes, to fetch addresses the baton names, or
    to run what the model suggests. Its map of the repository is switched off because it caches it there.
    """
    prompt = os.path.join(order.folder, "aider-prompt.md")
    named = [path for path in order.owned if os.path.isfile(path)]
    argv = (
        order.program, "--message-file", prompt, "--yes-always", "--no-auto-commits", "--no-dirty-commits",
        "--no-gitignore", "--no-pretty", "--no-fancy-input", "--analytics-disable", "--no-check-update",
        "--no-show-release-notes", "--no-detect-urls", "--no-suggest-shell-commands", "--map-tokens", "0",
        "--input-history-file", os.devnull, "--chat-history-file", os.path.join(order.folder, "aider-chat.md"),
        *(("--model", order.model) if order.model else ()), *order.words, *named,
    )  # fmt: skip
    return Launch(argv, {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}, {prompt: order.prompt})


def read(line: str) -> tuple[AgentEvent, ...]:
    """Its words; trouble is only known by them."""
    text = line.strip()
    lower = text.lower()
    if any(sign in lower for sign in _TROUBLES):
        return (AgentEvent(kind=TROUBLE, text=text),)
    if text.startswith("Applied edit to "):
        return (AgentEvent(kind=TOOL, text=text),)
    return (AgentEvent(kind=SAID, text=text),) if text else ()


ADAPTER = Adapter(
    name="aider",
    title="aider",
    programs=("aider",),
    abilities=abilities,
    launch=launch,
    read=read,
    secrets=("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"),
)

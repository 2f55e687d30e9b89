"""aider: no hooks, no events, and exit code 0 whatever happens; its words are read instead."""

from __future__ import annotations

import os

from handoff.agents.adapters.pieces import event, model, no_abilities
from handoff.agents.contract import SAID, TOOL, TROUBLE, Adapter, AgentEvent, Launch
from handoff.base.record import TYPE_CHECKING

if TYPE_CHECKING:
    from handoff.agents.contract import LaunchRequest

_ALONE = """--yes-always --no-auto-commits --no-dirty-commits --no-gitignore --no-pretty --no-fancy-input --analytics-disable
    --no-check-update --no-show-release-notes --no-detect-urls --no-suggest-shell-commands --map-tokens 0""".split()
_SETTINGS = (".aider.conf.yml", ".aider.model.settings.yml", ".aider.model.metadata.json", ".aider")
_TROUBLES = (
    *("litellm.", "servers are down", "api provider", "retrying in"),
    *("authenticationerror", "ratelimiterror", "badrequesterror", "internalservererror", "apiconnectionerror"),
)


def launch(order: LaunchRequest) -> Launch:
    """One message, no commits of its own, nothing of its own in the repository.

    It says yes to everything, so it must not be asked whether to open release notes, to fetch addresses the baton names, or
    to run what the model suggests. Its map of the repository is switched off because it caches it there.
    """
    prompt = os.path.join(order.folder, "aider-prompt.md")
    named = [path for path in order.owned if os.path.isfile(path)]
    chat = os.path.join(order.folder, "aider-chat.md")
    files = ("--message-file", prompt, "--input-history-file", os.devnull, "--chat-history-file", chat)
    argv = (order.program, *files, *_ALONE, *model(order), *order.words, *named)
    return Launch(argv, {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}, {prompt: order.prompt}, reads=_SETTINGS)


def read(line: str) -> tuple[AgentEvent, ...]:
    """Its words; trouble is only known by them."""
    text = line.strip()
    lower = text.lower()
    if any(sign in lower for sign in _TROUBLES):
        return event(TROUBLE, text)
    if text.startswith("Applied edit to "):
        return event(TOOL, text)
    return event(SAID, text) if text else ()


ADAPTER = Adapter(
    name="aider",
    title="aider",
    programs=("aider",),
    abilities=no_abilities,
    launch=launch,
    read=read,
    variables=(
        "AIDER_*",
        "OPENAI_*",
        "ANTHROPIC_*",
        "GEMINI_*",
        "OPENROUTER_*",
        "LITELLM_*",
    ),
    hosts=(
        "api.anthropic.com",
        "api.openai.com",
        "generativelanguage.googleapis.com",
        "openrouter.ai",
    ),
    secrets=("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"),
)

"""aider: no hooks, no events, and exit code 0 whatever happens; its words are read instead."""

from __future__ import annotations

import os
import re

from handoff.agents.adapters.pieces import event, file_event, model
from handoff.agents.contract import (
    ANSWERED,
    LINE,
    SAID,
    TROUBLE,
    USAGE,
    Abilities,
    Adapter,
    AgentEvent,
    Launch,
    Usage,
)
from handoff.base.record import TYPE_CHECKING

if TYPE_CHECKING:
    from handoff.agents.contract import LaunchRequest

_ALONE = """--yes-always --no-auto-commits --no-dirty-commits --no-gitignore --no-pretty --no-fancy-input --analytics-disable
    --no-check-update --no-show-release-notes --no-detect-urls --no-suggest-shell-commands --map-tokens 0""".split()
_SETTINGS = tuple(
    (name, "", False)
    for name in (".aider.conf.yml", ".aider.model.settings.yml", ".aider.model.metadata.json", ".aider")
)
_TROUBLES = (
    *("litellm.", "servers are down", "api provider", "retrying in", "empty response received"),
    *("authenticationerror", "ratelimiterror", "badrequesterror", "internalservererror", "apiconnectionerror"),
)


_MODEL, _THOUSAND = "Main model: ", 1000
_COUNTS = re.compile(r"([\d.]+)(k?) (sent|received|cache hit|cache write)")
_COST = re.compile(r"Cost: \$([\d.]+) message")


def abilities(version: str) -> Abilities:
    """It counts tokens after each answer; nothing else is known of it."""
    del version
    return Abilities(shows_answers=True)


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
    if text.startswith("Tokens: "):
        return event(USAGE, text, use=_used(text)) + event(ANSWERED)
    if text.startswith(_MODEL):
        return event(USAGE, text, use=Usage(model=text.removeprefix(_MODEL).split()[0]))
    if text.startswith("Applied edit to "):
        (edit,) = file_event([{"path": text.removeprefix("Applied edit to "), "kind": "update"}], ok=True)
        return (edit._replace(text=text),)
    return event(SAID, text, call=LINE) if text else ()


def _used(text: str) -> Usage:
    """`Tokens: 2.3k sent, 1.0k cache hit, 17 received. Cost: $0.0047 message, $0.0047 session.`, rounded as it prints it."""
    told = {name: float(amount) * (_THOUSAND if k else 1) for amount, k, name in _COUNTS.findall(text)}
    cost = _COST.search(text)
    sent, cached, written = (int(told.get(name, 0)) for name in ("sent", "cache hit", "cache write"))
    return Usage(
        input=max(0, sent - cached),
        cached=cached,
        output=int(told.get("received", 0)),
        written=written,
        money=float(cost[1]) if cost else None,
    )


ADAPTER = Adapter(
    name="aider",
    title="aider",
    programs=("aider",),
    abilities=abilities,
    launch=launch,
    read=read,
    tells_use=False,
    variables=("AIDER_*", "OPENAI_*", "ANTHROPIC_*", "GEMINI_*", "OPENROUTER_*", "LITELLM_*"),
    hosts=("api.anthropic.com", "api.openai.com", "generativelanguage.googleapis.com", "openrouter.ai"),
    secrets=("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"),
)

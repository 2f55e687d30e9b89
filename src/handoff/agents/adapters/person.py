"""A person: no process of ours. The prompt is opened or printed, and the person reports with `handoff task done` or `block`."""

from __future__ import annotations

from handoff.agents.contract import BY_NOBODY, Abilities, Adapter, AgentEvent, Launch, LaunchRequest

NAME = "person"


def abilities(version: str) -> Abilities:
    """Nothing is enforced; the evidence is asked for when the person reports."""
    del version
    return Abilities(fence=BY_NOBODY)


def launch(order: LaunchRequest) -> Launch:
    """Nothing is started."""
    del order
    return Launch(())


def read(line: str) -> tuple[AgentEvent, ...]:
    """A person prints nothing."""
    del line
    return ()


ADAPTER = Adapter(
    name=NAME, title="a person", programs=(), abilities=abilities, launch=launch, read=read, version_words=()
)

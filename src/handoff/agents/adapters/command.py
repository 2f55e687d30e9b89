"""Any program: its words are a template in the settings, its exit code and the evidence are all that is known."""

from __future__ import annotations

import os

from handoff.agents.adapters.pieces import event, no_abilities
from handoff.agents.contract import LINE, SAID, Adapter, AgentEvent, Launch, LaunchRequest
from handoff.base.errors import ConfigError
from handoff.base.markdown import fill
from handoff.base.record import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

NAMES = ("prompt", "prompt_file", "workspace", "session", "folder", "model")


def read(line: str) -> tuple[AgentEvent, ...]:
    """Whatever it prints is what it said."""
    text = line.strip()
    return event(SAID, text, call=LINE) if text else ()


def made_from(name: str, template: Sequence[str], *, where: str) -> Adapter:
    """An adapter for the program a person wrote into the settings as a list of words."""
    if not template:
        raise ConfigError(f"{where}: the command of agent '{name}' is empty.", "Give its words as a list of texts.")
    for word in template:
        fill(word, dict.fromkeys(NAMES, ""), where=where)

    # An interpreter is useless where its script is hidden. Folders stay hidden: one of them may be the home itself.
    named = tuple(word for word in template[1:] if os.path.isabs(word) and os.path.isfile(word))

    def launch(order: LaunchRequest) -> Launch:
        path = os.path.join(order.folder, "prompt.md")
        values = {
            "prompt": order.prompt,
            "prompt_file": path,
            "workspace": order.workspace,
            "session": order.session,
            "folder": order.folder,
            "model": order.model,
        }
        words = [fill(word, values, where=where) for word in template]
        return Launch(
            (order.program, *words[1:], *order.words),
            {},
            {path: order.prompt},
            reads=tuple((name, "", False) for name in named),
        )

    return Adapter(
        name=name,
        title=f"{name} (a command of yours)",
        programs=(template[0],),
        abilities=no_abilities,
        launch=launch,
        read=read,
        tells_use=False,
        version_words=(),
        interactive=launch,
    )

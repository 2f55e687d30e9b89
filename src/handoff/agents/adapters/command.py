"""Any program: its words are a template in the settings, its exit code and the evidence are all that is known."""

from __future__ import annotations

import os

from handoff.agents.contract import SAID, Abilities, Adapter, AgentEvent, Launch
from handoff.base.errors import ConfigError
from handoff.base.record import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from handoff.agents.contract import LaunchRequest

NAMES = ("prompt", "prompt_file", "workspace", "session", "folder", "model")


def abilities(version: str) -> Abilities:
    """Supervised only: the sandbox and the comparison afterwards."""
    del version
    return Abilities()


def read(line: str) -> tuple[AgentEvent, ...]:
    """Whatever it prints is what it said."""
    text = line.strip()
    return (AgentEvent(kind=SAID, text=text),) if text else ()


def made_from(name: str, template: Sequence[str], *, where: str) -> Adapter:
    """An adapter for the program a person wrote into the settings as a list of words."""
    if not template:
        raise ConfigError(f"{where}: the command of agent '{name}' is empty.", "Give its words as a list of texts.")
    for word in template:
        _fill(word, dict.fromkeys(NAMES, ""), where=where)

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
        words = [_fill(word, values, where=where) for word in template]
        return Launch((order.program, *words[1:], *order.words), {}, {path: order.prompt})

    return Adapter(
        name=name,
        title=f"{name} (a command of yours)",
        programs=(template[0],),
        abilities=abilities,
        launch=launch,
        read=read,
        version_words=(),
        interactive=launch,
    )


def _fill(word: str, values: dict[str, str], *, where: str) -> str:
    """Replace `{name}`; a name nobody fills in is an error that says where it stands."""
    out, rest = "", word
    while rest:
        before, opened, after = rest.partition("{")
        out += before
        if not opened:
            break
        name, closed, rest = after.partition("}")
        if not closed or name not in values:
            known = ", ".join(f"{{{key}}}" for key in NAMES)
            raise ConfigError(f"{where}: unknown name {{{name}}} in {word!r}.", f"Known names: {known}.")
        out += values[name]
    return out

"""The agents' programs on this machine, and our own as others start it."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec

from handoff.agents import catalog
from handoff.agents.contract import version_of
from handoff.base.errors import UserError
from handoff.base.files import UNPACKED
from handoff.base.process import find, own_argv, run
from handoff.base.record import TYPE_CHECKING, Record
from handoff.engine.app.home import home_config

if TYPE_CHECKING:
    from handoff.agents.contract import Abilities, Adapter
    from handoff.base.settings import Config
    from handoff.engine.app import App

_PROBE_SECONDS = 60.0  # the first start after an installation, on a busy machine, took longer than 20


class NotInstalled(UserError):
    """The agent's program is not on this machine."""


class Client(Record):
    """An agent as it is on this machine: its program, which version it is, what that can do, and how it starts ours."""

    adapter: Adapter
    program: str
    version: str
    abilities: Abilities
    own: tuple[str, ...]
    arguments: tuple[str, ...] = ()
    """The further words of the person's settings for every session of it."""


def client_of(app: App, *, agent: str, config: Config | None = None, versions: dict[str, str] | None = None) -> Client:
    """The agent's program on this machine, or an error that says what is missing.

    `versions` remembers what programs said, for a supervisor that starts many: some clients take a second to tell.
    """
    config = config or home_config(app)
    adapter = catalog.adapter(agent, commands=config.values["agents"], where=config.path)
    program = next((path for name in adapter.programs if (path := program_of(app, name))), "")
    if not program and adapter.programs:
        raise NotInstalled(
            f"{adapter.title} is not installed: no '{adapter.programs[0]}' on the PATH.",
            f"Install it, or choose another: {app.settings.program} agent list",
        )
    versions = {} if versions is None else versions
    mark = f"{program}@{os.stat(program).st_mtime_ns}" if program else ""
    if mark not in versions:
        versions[mark] = version_on(app, adapter, program)
    able = adapter.abilities(versions[mark])
    return Client(
        adapter=adapter,
        program=program,
        version=versions[mark],
        abilities=able._replace(mcp=able.mcp and has_mcp()),
        own=own_words(),
        arguments=catalog.arguments(agent, commands=config.values["agents"], where=config.path),
    )


def version_on(app: App, adapter: Adapter, program: str) -> str:
    """Which version a program says it is; no model is asked."""
    if not program or not adapter.version_words:
        return ""
    said = run(
        [program, *adapter.version_words], environment=app.settings.environment, timeout=_PROBE_SECONDS, merge=True
    )
    return version_of(said.text)


def program_of(app: App, name: str) -> str:
    """Where a program is, or nothing."""
    if os.path.isabs(name):
        return name if os.access(name, os.X_OK) else ""
    return find(name, path=app.settings.path) or ""


def own_words() -> tuple[str, ...]:
    """How our own program is started by others: the script of the one file or beside the interpreter, else the module."""
    for script in (UNPACKED, os.path.join(os.path.dirname(sys.executable), "handoff")):
        if os.access(script, os.X_OK):
            return (script,)
    return own_argv()


def has_mcp() -> bool:
    """Whether the extra `mcp` is installed; it is not imported, that takes a second."""
    return find_spec("mcp") is not None

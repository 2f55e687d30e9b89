"""The agents' programs on this machine, our own as others start it, and what each agent can do and what fences it."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec

from handoff.agents import catalog
from handoff.agents.contract import BY_CLIENT, BY_NOBODY, at_least, version_of
from handoff.agents.sandbox.sandbox import NOTHING
from handoff.base.errors import UserError
from handoff.base.files import UNPACKED
from handoff.base.process import find, own_argv, run
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.sessions import expenses, holds
from handoff.engine.app.home import home_config
from handoff.engine.place.proof.sandboxes import present_layer

if TYPE_CHECKING:
    from handoff.agents.contract import Abilities, Adapter
    from handoff.base.settings import Config
    from handoff.board.sessions.expenses import Expense
    from handoff.board.sessions.holds import Hold
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


USED_DAYS = 30


def find_installed(app: App) -> list[str]:
    """The agents whose program is on this machine, by name; nothing of them is run."""
    config = home_config(app)
    found = []
    for name in catalog.names(commands=config.values["agents"]):
        adapter = catalog.adapter(name, commands=config.values["agents"], where=config.path)
        if any(program_of(app, program) for program in adapter.programs):
            found.append(name)
    return found


class AgentListing(Record):
    """One agent, installed or not."""

    name: str
    title: str
    program: str
    version: str
    old: bool
    abilities: Abilities
    fence: str
    arguments: tuple[str, ...] = ()
    """The further words of the settings for every session of it."""
    held: Hold | None = None
    """Why it is not started on this machine for now."""
    used: Expense | None = None
    """What its sessions have used and cost in the last days."""

    @property
    def can(self) -> list[str]:
        return [words for field, words in WORDS.items() if getattr(self.abilities, field)]

    @property
    def cannot(self) -> list[str]:
        return [words for field, words in WORDS.items() if not getattr(self.abilities, field)]


WORDS = {
    "start_context": "start hook",
    "deny_edit": "edit guard",
    "refuse_stop": "stop hook until it reports",
    "resume": "resume",
    "mcp": "MCP tools",
    "turn_limit": "turn counts",
    "money_limit": "cost counts",
}


def listing(app: App) -> list[AgentListing]:
    """Every known agent; each installed one is asked for its version, no model is."""
    config = home_config(app)
    sandbox = present_layer(app)
    held = {
        one.name: one
        for one in holds.listing(app.database)
        if one.kind == holds.AGENT and one.host == app.settings.host
    }
    used = {one.agent: one for one in expenses.by_agent(app.database, days=USED_DAYS)}
    found = []
    for name in catalog.names(commands=config.values["agents"]):
        adapter = catalog.adapter(name, commands=config.values["agents"], where=config.path)
        program = next((path for word in adapter.programs if (path := program_of(app, word))), "")
        version = version_on(app, adapter, program)
        abilities = adapter.abilities(version)
        old = bool(adapter.floor) and not at_least(version, adapter.floor)
        found.append(
            AgentListing(
                name=name,
                title=adapter.title,
                program=program,
                version=version,
                old=old,
                abilities=abilities,
                fence=_fence(abilities, sandbox),
                arguments=catalog.arguments(name, commands=config.values["agents"], where=config.path),
                held=held.get(name),
                used=used.get(name),
            )
        )
    return found


def _fence(abilities: Abilities, sandbox: str) -> str:
    """In words: what stops a write outside the ownership, and what only finds it afterwards."""
    if abilities.fence == BY_NOBODY:
        return "nothing; the evidence is looked at when the person reports"
    layers = []
    if abilities.fence == BY_CLIENT:
        layers.append("the client's own sandbox")
    if abilities.deny_edit:
        layers.append("a hook before each edit")
    layers.append("the comparison with the ownership afterwards")
    layers.append(
        f"a clone inside {sandbox}, unless the task is done in your checkout"
        if sandbox != NOTHING
        else "a clone, but no sandbox: this machine has none"
    )
    return ", ".join(layers)

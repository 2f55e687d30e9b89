"""What agents there are on this machine, what each can do, and what fences it."""

from __future__ import annotations

from handoff.agents import catalog
from handoff.agents.contract import BY_CLIENT, BY_NOBODY, at_least
from handoff.agents.sandbox.sandbox import NOTHING
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.sessions import expenses, holds
from handoff.engine.app.home import home_config
from handoff.engine.place.proof.sandboxes import present_layer
from handoff.engine.session.agent_programs import program_of, version_on

if TYPE_CHECKING:
    from handoff.agents.contract import Abilities
    from handoff.board.sessions.expenses import Expense
    from handoff.board.sessions.holds import Hold
    from handoff.engine.app import App


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

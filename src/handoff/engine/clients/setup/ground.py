"""What setup finds: the agents of this machine, what a person works in, the sandbox, the test suites of the project."""

from __future__ import annotations

import os

from handoff.agents import catalog
from handoff.agents.sandbox.sandbox import NOTHING
from handoff.base.errors import HandoffError
from handoff.base.process import find
from handoff.base.record import TYPE_CHECKING, Record
from handoff.base.settings import project_config
from handoff.checks.frameworks import find_suites
from handoff.engine.fanout.terminals import EDITORS, editor_here, terminal_here
from handoff.engine.home import home_config
from handoff.engine.proof.sandboxes import present_layer
from handoff.engine.sessions.agent_programs import program_of
from handoff.git.plumbing import find_top

if TYPE_CHECKING:
    from handoff.engine.app import App

_NOT_CLIENTS = ("acp", "scripted", "person")


class SetupGround(Record):
    """What is here."""

    agents: dict[str, str]
    """The coding agents on the PATH, and where each is."""
    top: str
    """The repository; nothing where there is none."""
    editor: str
    terminal: str
    tmux: bool
    sandbox: str
    suites: tuple[str, ...]
    shell: str


def look(app: App) -> SetupGround:
    """Look at everything and change nothing; no agent is started."""
    config = home_config(app)
    agents = {}
    for name in catalog.names(commands=config.values["agents"]):
        if name in _NOT_CLIENTS:
            continue
        adapter = catalog.adapter(name, commands=config.values["agents"], where=config.path)
        program = next((path for word in adapter.programs if (path := program_of(app, word))), "")
        if program:
            agents[name] = program
    top = find_top(app.settings.here) or ""
    layer = present_layer(app)
    return SetupGround(
        agents=agents,
        top=top,
        editor=_editor(app),
        terminal=_terminal(app),
        tmux=find("tmux", path=app.settings.path) is not None,
        sandbox="" if layer == NOTHING else layer,
        suites=_suites(top),
        shell=os.path.basename(app.settings.get("SHELL")),
    )


def _editor(app: App) -> str:
    here = editor_here(app.settings.get)
    if here is not None:
        return here.name
    return next((one.name for one in EDITORS if find(one.program, path=app.settings.path)), "")


def _terminal(app: App) -> str:
    found = terminal_here(app.settings.get, lambda program: find(program, path=app.settings.path) is not None)
    return found.name if found is not None else ""


def _suites(top: str) -> tuple[str, ...]:
    if not top:
        return ()
    try:
        config = project_config(top)
        found = find_suites(top, configured=config.values["checks"], path=config.path)
    except HandoffError:
        return ()  # `doctor` and `check` say what is wrong with them
    return tuple(dict.fromkeys(f"{one.name} in {one.folder}" if one.folder else one.name for one in found))

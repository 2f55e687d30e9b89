"""What a person chose for setup, and the pieces of files that follow from it."""

from __future__ import annotations

import json
import os

from handoff.agents import catalog
from handoff.agents.sandbox.sandbox import NOTHING
from handoff.base.errors import HandoffError, UserError
from handoff.base.process import find
from handoff.base.record import TYPE_CHECKING, Record
from handoff.base.settings import HOME_CONFIG, HOME_KEYS, project_config
from handoff.board.tasks.tasks import LANDING
from handoff.checks.frameworks import find_suites
from handoff.engine.app.home import home_config
from handoff.engine.place.fanout.terminals import EDITORS, editor_here, terminal_here
from handoff.engine.place.proof.sandboxes import present_layer
from handoff.engine.session.agent_programs import has_mcp, own_words, program_of
from handoff.engine.setup import settings_files
from handoff.engine.setup.pieces import BLOCK, HOOKS, LINE, TOOLS, WHOLE, Piece, instruction_pieces, written
from handoff.engine.setup.settings_files import PROJECT, USER
from handoff.engine.work.tasks.open_tab import AUTO, way_here
from handoff.git.plumbing import find_top

if TYPE_CHECKING:
    from collections.abc import Iterable

    from handoff.engine.app import App


_SERVERS = "mcpServers"
_PASSED_ON = "HANDOFF_HOME"
"""Some clients start a server with few variables: where the relay is must be said then."""


class ToolPlace(Record):
    """Where a client looks for MCP servers: for a person and for a project, below which key, and the variable that moves the folder."""

    user: str
    project: str = ""
    key: str = _SERVERS
    variable: str = ""


_TOOL_PLACES = {
    "claude": ToolPlace(".claude.json", ".mcp.json", variable="CLAUDE_CONFIG_DIR"),
    "codex": ToolPlace(".codex/config.toml", key="mcp_servers", variable="CODEX_HOME"),
    "gemini": ToolPlace(".gemini/settings.json", ".gemini/settings.json"),
    "qwen": ToolPlace(".qwen/settings.json", ".qwen/settings.json", variable="QWEN_HOME"),
    "copilot": ToolPlace(".copilot/mcp-config.json", variable="COPILOT_HOME"),
    "cursor": ToolPlace(".cursor/mcp.json", ".cursor/mcp.json"),
    "opencode": ToolPlace(".config/opencode/opencode.json", "opencode.json", key="mcp", variable="XDG_CONFIG_HOME"),
}
KNOWN = tuple(_TOOL_PLACES)
"""The clients that have a place for something of ours; others are only started."""


class SetupChoices(Record):
    """What is wanted."""

    agents: tuple[str, ...] = ()
    scope: str = USER
    """Where hooks and tools go: the person's own settings, or the repository's."""
    guard: bool = True
    snapshots: bool = True
    auto_open: bool = False
    landing: str = ""
    """What becomes of finished, green work; empty: as it is set."""
    completion: bool = True


def check_agents(names: Iterable[str], known: Iterable[str]) -> tuple[str, ...]:
    """The names a person said, or an error that lists those that can be said."""
    able = list(dict.fromkeys((*KNOWN, *known)))
    for name in names:
        if name not in able:
            raise UserError(f"There is no agent '{name}' to set up.", f"Known are: {', '.join(able)}.")
    return tuple(dict.fromkeys(names))


def pieces(app: App, ground: SetupGround, choices: SetupChoices, script: str) -> list[Piece]:
    """Every piece of every file, in the order they are shown; `script` completes commands in the person's shell."""
    found = [one for agent in choices.agents for one in _client(app, agent, choices.scope, ground.top)]
    if choices.completion and script:
        found += _completion(app, ground.shell, script)
    path = os.path.join(app.settings.home, HOME_CONFIG)
    if not os.path.exists(path):
        found.append(_piece(WHOLE, path, USER, "the settings you may change, all commented out", _all_settings(), "#"))
    if choices.auto_open and not home_config(app).text("auto_open"):
        way = {"": AUTO, "kitty": "kitty-window"}.get(here := way_here(app, home_config(app)), here)
        found.append(_piece(LINE, path, USER, "tabs open by themselves", f'auto_open = "{way}"', "top"))
    if choices.landing and LANDING not in home_config(app).said:
        found.append(
            _piece(LINE, path, USER, "what becomes of finished work", f'{LANDING} = "{choices.landing}"', "top")
        )
    if ground.top:
        found += instruction_pieces(ground.top, choices.agents)
    return found


def _all_settings() -> str:
    """Every key of the home's settings with its default and its meaning, as comments."""
    lines = [f"# {name} = {written(key.default)}  # {key.meaning}" for name, key in HOME_KEYS.items()]
    head = "# Settings of handoff on this machine. To set one, take away the # in front of its line."
    return "\n".join([head, *lines])


def _client(app: App, agent: str, scope: str, top: str) -> list[Piece]:
    found, scope = [], scope if top else USER
    if agent in settings_files.PLACES:
        found.append(hooks_of(app, agent, scope))
    place = _TOOL_PLACES.get(agent)
    if place is not None and has_mcp():
        found.append(_tools(app, agent, place, top if scope == PROJECT and place.project else ""))
    return found


def hooks_of(app: App, agent: str, scope: str) -> Piece:
    """Our hooks in a client's settings."""
    path = settings_files.file_of(app, agent=agent, scope=scope)
    return _piece(HOOKS, path, scope, f"hooks of {agent}: baton, fence, signs of life", agent)


def _tools(app: App, agent: str, place: ToolPlace, top: str) -> Piece:
    """The entry of our tools; in a repository, at `top`, it names the program as everybody's PATH has it."""
    what, scope = f"the relay's tools for {agent} (MCP)", PROJECT if top else USER
    words = ("handoff", "mcp") if top else (*own_words(), "mcp")
    told = "" if top else app.settings.get(_PASSED_ON)
    path = os.path.join(top, place.project) if top else _user_file(app, place)
    variables = {_PASSED_ON: told} if told else {}
    value: dict[str, object] = {"command": words[0], "args": list(words[1:]), **({"env": variables} if told else {})}
    if agent == "claude":  # otherwise it shows tools only when they are searched for
        value = {"type": "stdio", **value, "alwaysLoad": True}
    elif agent == "copilot":
        value = {"type": "local", **value, "tools": ["*"]}
    elif agent == "opencode":
        value = {
            "type": "local",
            "command": list(words),
            "enabled": True,
            **({"environment": variables} if told else {}),
        }
    return _piece(TOOLS, path, scope, what, json.dumps(value), place.key)


def _user_file(app: App, place: ToolPlace) -> str:
    home = app.settings.get("HOME") or os.path.expanduser("~")
    moved = app.settings.get(place.variable) if place.variable else ""
    if not moved:
        return os.path.join(home, place.user)
    folder, _, rest = place.user.partition("/")
    return os.path.join(moved, rest or folder)


def _completion(app: App, shell: str, script: str) -> list[Piece]:
    home = app.settings.get("HOME") or os.path.expanduser("~")
    what = f"completion of commands in {shell}"
    if shell == "bash":
        base = app.settings.get("XDG_DATA_HOME") or os.path.join(home, ".local", "share")
        path = os.path.join(base, "bash-completion", "completions", app.settings.program)
    elif shell == "fish":
        base = app.settings.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
        path = os.path.join(base, "fish", "completions", f"{app.settings.program}.fish")
    elif shell == "zsh":
        path = os.path.join(app.settings.home, "completion.zsh")
        line = f"[ -r {json.dumps(path)} ] && (( $+functions[compdef] )) && source {json.dumps(path)}"
        rc = os.path.join(app.settings.get("ZDOTDIR") or home, ".zshrc")
        return [_piece(WHOLE, path, USER, what, script, "#"), _piece(BLOCK, rc, USER, what, line, "#")]
    else:
        return []
    return [_piece(WHOLE, path, USER, what, script, "#")]


def _piece(kind: str, path: str, scope: str, what: str, detail: str, key: str = "") -> Piece:
    return Piece(kind=kind, path=path, scope=scope, what=what, detail=detail, key=key)


# --- What setup finds: the agents of this machine, what a person works in, the sandbox, the test suites of the project

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

"""Put everything in, repair it, take exactly that out again: each file is shown first, and any death in between is mended."""

from __future__ import annotations

import json
import os
import sys

from handoff.agents import catalog
from handoff.agents.sandbox.sandbox import NOTHING
from handoff.base.errors import HandoffError, UserError
from handoff.base.files import locked, sweep
from handoff.base.process import run
from handoff.base.record import TYPE_CHECKING, Record
from handoff.base.settings import HOME_CONFIG, HOME_KEYS, project_config
from handoff.board.tasks.tasks import LANDING
from handoff.checks.frameworks import find_suites
from handoff.engine.app.home import home_config
from handoff.engine.place import batch_guard
from handoff.engine.place.fanout.tabs import EDITORS, editor_here, terminal_here
from handoff.engine.place.proof import git_notes
from handoff.engine.place.proof.sandboxes import present_layer
from handoff.engine.safety import incidents
from handoff.engine.safety.snapshots import keep, open_snapshot_store
from handoff.engine.session.agents import has_mcp, own_words, program_of
from handoff.engine.setup import ledger, settings_files
from handoff.engine.setup.ledger import BLOCK, HOOKS, LINE, TOOLS, WHOLE, Piece, instruction_pieces
from handoff.engine.setup.settings_files import PROJECT, USER
from handoff.engine.setup.text_edit import written
from handoff.engine.supervisor import service, watchdog
from handoff.engine.work.tasks.open_tab import AUTO, has, way_here
from handoff.git import guard
from handoff.git.plumbing import find_top
from handoff.git.plumbing.objects import Repository

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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
    path = os.path.join(top, place.project) if top else settings_files.user_file(app, place.user, place.variable)
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
    editor = editor_here(app.settings.get) or next((one for one in EDITORS if has(app, one.program)), None)
    terminal = terminal_here(app.settings.get, lambda program: has(app, program))
    return SetupGround(
        agents=agents,
        top=top,
        editor=editor.name if editor is not None else "",
        terminal=terminal.name if terminal is not None else "",
        tmux=has(app, "tmux"),
        sandbox="" if layer == NOTHING else layer,
        suites=_suites(top),
        shell=os.path.basename(app.settings.get("SHELL")),
    )


def _suites(top: str) -> tuple[str, ...]:
    if not top:
        return ()
    try:
        config = project_config(top)
        found = find_suites(top, configured=config.values["checks"], path=config.path)
    except HandoffError:
        return ()  # `doctor` and `check` say what is wrong with them
    return tuple(dict.fromkeys(f"{one.name} in {one.folder}" if one.folder else one.name for one in found))


# --- what is done with the pieces ------------------------------------------------------------------------------------

MAKE, CHANGE, REMOVE, LEAVE, DO, FAIL = "make", "change", "remove", "leave", "do", "fail"


class SetupStep(Record):
    """One thing that will be done: to which file or where, whose it is, what and why."""

    act: str
    path: str
    scope: str
    what: str


class SetupPlan(Record):
    """Everything that will be done, in order, and what a person should know."""

    steps: tuple[SetupStep, ...]
    notes: tuple[str, ...] = ()

    @property
    def work(self) -> tuple[SetupStep, ...]:
        return tuple(step for step in self.steps if step.act not in (LEAVE, FAIL))

    @property
    def failed(self) -> tuple[SetupStep, ...]:
        return tuple(step for step in self.steps if step.act == FAIL)


def defaults(app: App, ground: SetupGround) -> SetupChoices:
    """What was chosen last time, else everything that fits this machine."""
    said = ledger.load(app).choices
    known = {name: value for name, value in said.items() if name in SetupChoices._fields and name != "agents"}
    agents = tuple(dict.fromkeys((*said.get("agents", ()), *ground.agents)))
    return SetupChoices(**{**known, "agents": agents})


def plan(app: App, ground: SetupGround, choices: SetupChoices, *, script: str) -> SetupPlan:
    """What `apply` will do. A file that cannot be read or written is named, and the others are done all the same."""
    held = ledger.load(app)
    steps = []
    for path, group in _by_file(pieces(app, ground, choices, script)).items():
        try:
            edit = ledger.plan_put(held, path, group)
            if edit.changes:
                ledger.check_writable(path)
        except (HandoffError, OSError) as error:
            steps.append(SetupStep(FAIL, path, group[0].scope, _why(error)))
            continue
        if edit.changes:
            act = MAKE if edit.before is None else CHANGE
            steps.append(SetupStep(act, path, group[0].scope, _words(group)))
        steps += [SetupStep(LEAVE, path, group[0].scope, why) for why in edit.left]
    lacking, notes = _missing_acts(app, ground.top, choices)
    for one in lacking:
        steps += [SetupStep(DO, path, one.scope, one.what) for path in one.files or (one.place,)]
    return SetupPlan(tuple(sorted(steps, key=lambda step: step.scope == PROJECT)), tuple(notes))


def apply(app: App, ground: SetupGround, choices: SetupChoices, *, script: str) -> Iterator[str]:
    """Do it, and say in words what could not be done. Each file is read anew: somebody may have written meanwhile."""
    app.open_home()
    with locked(os.path.join(app.settings.home, "setup.lock"), what="setup"):
        held = ledger.load(app)
        held.choices.update({**choices._asdict(), "agents": list(choices.agents)})
        if ground.top and ground.top not in held.acts.setdefault(REPOSITORY, []):
            held.acts[REPOSITORY].append(ground.top)
        ledger.save(app, held)
        for path, group in _by_file(pieces(app, ground, choices, script)).items():
            try:
                edit = ledger.plan_put(held, path, group)
                if edit.changes:
                    ledger.put(app, held, edit)
            except (HandoffError, OSError) as error:
                yield _why(error, path)
        for act in _missing_acts(app, ground.top, choices)[0]:
            places = held.acts.setdefault(act.name, [])
            if act.place not in places:
                places.append(act.place)
                ledger.save(app, held)
            yield from do_act(app, act, opening=_opening(app, choices))


def plan_undo(app: App, *, top: str) -> SetupPlan:
    """What `undo` will do for the repository at `top` and, unless others are set up too, for the person."""
    held = ledger.load(app)
    steps, others = [], _other_repositories(held, top)
    for entry in _mine(held, top, others):
        scope = entry.pieces[0].scope if entry.pieces else USER
        try:
            edit = ledger.plan_take(entry)
        except (HandoffError, OSError) as error:
            steps.append(SetupStep(FAIL, entry.path, scope, _why(error)))
            continue
        if edit.changes:
            act = REMOVE if edit.after is None else CHANGE
            steps.append(SetupStep(act, entry.path, scope, _words(entry.pieces)))
        steps += [SetupStep(LEAVE, entry.path, scope, why) for why in edit.left]
    for name, place in _my_acts(held, top, others):
        act = LEAVE if name == STORE else REMOVE
        steps += [SetupStep(act, path, scope_of(name), what) for path, what in what_goes(app, name, place)]
    notes = [
        f"Your own settings stay as they are while {place} is set up; there: handoff -C {place} setup --undo"
        for place in others
    ]
    return SetupPlan(tuple(sorted(steps, key=lambda step: step.scope == PROJECT)), tuple(notes))


def undo(app: App, *, top: str) -> Iterator[str]:
    """Take it out, and say in words what is left. What is out is forgotten at once, so a second run goes on."""
    app.open_home()
    with locked(os.path.join(app.settings.home, "setup.lock"), what="setup"):
        held = ledger.load(app)
        others = _other_repositories(held, top)
        for name, place in _my_acts(held, top, others):
            try:
                yield from undo_act(app, name, place)
            except HandoffError as error:
                yield _why(error, place)
                continue
            held.acts[name].remove(place)
            ledger.save(app, held)
        for entry in reversed(_mine(held, top, others)):
            try:
                ledger.take(app, held, ledger.plan_take(entry))
            except (HandoffError, OSError) as error:
                yield _why(error, entry.path)
        if not held.entries and not any(held.acts.values()):
            ledger.forget(app)


def change_alone(app: App, found: list[Piece], *, out: bool) -> list[ledger.FileEdit]:
    """Put these pieces in and nothing else, or take them `out`, also those that somebody else's setup wrote.

    All their files are read and understood before the first is written.
    """
    plan_edit = ledger.plan_take_pieces if out else ledger.plan_put
    app.open_home()
    with locked(os.path.join(app.settings.home, "setup.lock"), what="setup"):
        held = ledger.load(app)
        edits = [plan_edit(held, path, group) for path, group in _by_file(found).items()]
        for edit in edits:
            if out:
                ledger.take(app, held, edit)
            elif edit.changes:
                ledger.put(app, held, edit)
    return edits


def _why(error: Exception, path: str = "") -> str:
    """What is wrong with one file, in a line."""
    words = f"{error.message} {error.hint}".strip() if isinstance(error, HandoffError) else str(error)
    return words if not path or path in words else f"{path}: {words}"


def _by_file(found: list[Piece]) -> dict[str, tuple[Piece, ...]]:
    groups: dict[str, tuple[Piece, ...]] = {}
    for piece in found:
        groups[piece.path] = (*groups.get(piece.path, ()), piece)
    return groups


def _words(group: tuple[Piece, ...]) -> str:
    return "; ".join(dict.fromkeys(piece.what for piece in group))


def _other_repositories(held: ledger.Ledger, top: str) -> list[str]:
    """The repositories that are set up beside this one and are still there."""
    return sorted(place for place in held.acts.get(REPOSITORY, ()) if place != top and os.path.isdir(place))


def _mine(held: ledger.Ledger, top: str, others: list[str]) -> list[ledger.LedgerEntry]:
    found = []
    for entry in held.entries.values():
        if any(piece.scope == PROJECT for piece in entry.pieces):
            inside = bool(top) and entry.path.startswith(top + os.sep)
            if inside or not os.path.exists(os.path.dirname(entry.path)):
                found.append(entry)
        elif not others:
            found.append(entry)
    return found


def _my_acts(held: ledger.Ledger, top: str, others: list[str]) -> list[tuple[str, str]]:
    return [
        (name, place)
        for name, places in held.acts.items()
        for place in places
        if (not others if scope_of(name) == USER else place == top or not os.path.isdir(place))
    ]


# --- What setup does that is no edit of one file: the guard's hooks in the repository, and the watcher that takes snapshots

REPOSITORY, GUARD, WATCHER, STORE = "repository", "guard", "watcher", "snapshots"
_SECONDS = 15.0


class SetupAct(Record):
    """One such thing: where, what it is in words, the files it writes."""

    name: str
    place: str
    scope: str
    what: str
    files: tuple[str, ...]


def _missing_acts(app: App, top: str, choices: SetupChoices) -> tuple[list[SetupAct], list[str]]:
    """What is not done yet, and in words what cannot be done on this machine."""
    found, notes = [], []
    if choices.guard and top:
        found += _guard(app, top)
    if choices.snapshots and top:
        place = open_snapshot_store(app, folder=top).place
        if not os.path.isdir(place.store):
            name = os.path.join(place.source.common, "handoff-project")
            found.append(
                _act(STORE, top, PROJECT, "a first snapshot: what the watcher goes on from", place.store, name)
            )
    if choices.snapshots:
        if _has_services(app):
            opening = _opening(app, choices)
            wanted = service.plan(app, service.tab_opener() if opening else service.watchdog()).files
            lacking = [path for path, text in wanted.items() if not _holds(path, text)]
            what = "a watcher: snapshots while people work, silent sessions" + (", tabs that open" if opening else "")
            found += [_act(WATCHER, app.settings.home, USER, what, *lacking)] if lacking else []
        else:
            notes.append(
                "No systemd or launchd user service was found: snapshots while you work are taken while"
                f" `{app.settings.program} watchdog --watch` or `{app.settings.program} work` runs."
            )
    return found, notes


def _opening(app: App, choices: SetupChoices) -> bool:
    """Whether tabs are to open by themselves, as was chosen or as the settings say now."""
    return choices.auto_open or watchdog.tabs_are_wanted(app)


def do_act(app: App, act: SetupAct, *, opening: bool) -> list[str]:
    """Do it; in words what could not be done."""
    if act.name == GUARD:
        repo = _repository(app, act.place)
        with incidents.ours(app, folder=repo.top):
            _sweep(app, repo)
            guard.install(repo)
            batch_guard.leave_in(repo)
            git_notes.follow(app, repository=repo.top)
        return []
    if act.name == STORE:
        keep(app, open_snapshot_store(app, folder=act.place), "setup")
        return []
    return [step.words for step in service.install_watchdog(app, opening=opening) if not step.done]


def undo_act(app: App, name: str, place: str) -> list[str]:
    """Take it out again; in words what is left."""
    if name == GUARD and os.path.isdir(place):
        repo = _repository(app, place)
        with incidents.ours(app, folder=repo.top):
            _sweep(app, repo)
            guard.uninstall(repo)
            git_notes.unfollow(app, repository=repo.top)
    if name == WATCHER:
        return [step.words for step in service.uninstall_watchdog(app) if not step.done]
    return []


def what_goes(app: App, name: str, place: str) -> list[tuple[str, str]]:
    """The files that `undo` takes away, or that stay, each with what it is."""
    if name == GUARD and os.path.isdir(place):
        state = guard.look(_repository(app, place), home=app.settings.home, path=app.settings.path)
        words = {"installed": "the git guard's hook", "chained": "the git guard's hook; your own is put back"}
        return [(os.path.join(state.folder, hook), words[kind]) for hook, kind in state.hooks.items() if kind in words]
    if name == STORE and os.path.isdir(place):
        return [(open_snapshot_store(app, folder=place).place.store, "the snapshots are kept: they are work of yours")]
    if name == WATCHER:
        files = {**service.plan(app, service.watchdog()).files, **service.plan(app, service.tab_opener()).files}
        return [(path, "the watcher's service") for path in files if os.path.exists(path)]
    return []


def scope_of(name: str) -> str:
    """Whether it is the person's or the repository's."""
    return USER if name == WATCHER else PROJECT


def _guard(app: App, top: str) -> list[SetupAct]:
    repo = _repository(app, top)
    state = guard.look(repo, home=app.settings.home, path=app.settings.path)
    lacking = [name for name, kind in state.hooks.items() if kind in ("absent", "foreign")]
    if not lacking and not batch_guard.came_with_a_batch(repo):
        return []
    files = [os.path.join(guard.place_of_hooks(repo), name) for name in lacking] + [os.path.join(repo.common, "config")]
    return [_act(GUARD, top, PROJECT, "the git guard; hooks of yours run behind it", *files)]


def _holds(path: str, text: str) -> bool:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read() == text
    except OSError:
        return False


def _has_services(app: App) -> bool:
    if sys.platform == "darwin":
        return has(app, "launchctl")
    if not has(app, "systemctl"):
        return False
    words = ("systemctl", "--user", "show-environment")
    return run(words, environment=app.settings.environment, timeout=_SECONDS).code == 0


def _sweep(app: App, repo: Repository) -> None:
    folder = guard.look(repo, home=app.settings.home, path=app.settings.path).folder
    for name in guard.HOOKS:
        sweep(os.path.join(folder, name))


def _repository(app: App, top: str) -> Repository:
    return Repository(top, app.git_environment)


def _act(name: str, place: str, scope: str, what: str, *files: str) -> SetupAct:
    return SetupAct(name, place, scope, what, files)

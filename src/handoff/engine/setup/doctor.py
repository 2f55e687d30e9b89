"""What is wrong on this machine and in this project, each with the command that fixes it. Everything is tried, nothing is changed."""

from __future__ import annotations

import json
import os
import shutil
import sys
from importlib import metadata
from importlib.util import find_spec

import handoff
from handoff.agents import catalog
from handoff.agents.dialects import DIALECTS, END
from handoff.agents.folder import monitor_of
from handoff.agents.sandbox.landlock import holds_abstract_sockets
from handoff.agents.sandbox.sandbox import NOTHING
from handoff.base.bounds import is_alive
from handoff.base.clock import age
from handoff.base.errors import (
    CONTAINER,
    DEVCONTAINER,
    HOMEBREW,
    ONE_FILE,
    PACKAGE,
    PIPX,
    UV_PIP,
    UV_TOOL,
    HandoffError,
    install_command,
    installer,
    origin,
)
from handoff.base.files import names_in
from handoff.base.markdown import quoted
from handoff.base.process import find, pass_through, run
from handoff.base.record import TYPE_CHECKING, Record
from handoff.base.settings import project_config
from handoff.board.sessions import executors
from handoff.engine.app.home import files_folder, home_config
from handoff.engine.place import pulse
from handoff.engine.place.fanout import older
from handoff.engine.place.proof.sandboxes import present_layer
from handoff.engine.session import agents
from handoff.engine.session.agents import own_words, program_of
from handoff.engine.setup import ledger, settings_files, setup
from handoff.engine.supervisor import database as database_upkeep
from handoff.git.commits.hooks import CHAIN
from handoff.git.plumbing import find_top, is_bare
from handoff.store.database import SQLITE
from handoff.store.upkeep import backups

if TYPE_CHECKING:
    from collections.abc import Iterator

    from handoff.agents.contract import Adapter
    from handoff.engine.app import App
    from handoff.engine.setup.settings_files import Status

_OLDEST_GIT = (2, 38)
_PACKAGES = {"mcp": "tools for clients", "textual": "board"}
_LEAST_FREE = 1_000_000_000
_DRIFT_SECONDS = 5.0
_SECONDS = 30.0
_NAMED = 5


def examine(app: App) -> Iterator[Diagnosis]:
    """Look at everything, one thing after the other; what cannot be looked at is a fault of its own."""
    looks = {
        "git": _git,
        "packages": _packages,
        "home": _home,
        "settings": _settings,
        "disk": _disk,
        "database": _database,
        "sandbox": _sandbox,
        "agents": _agents,
        "log-in": logins,
        "setup": whole_setup,
        "hooks": hooks,
        "mcp": tools,
        "supervisor": _supervisor,
        "import": older_home,
    }
    told = set()
    for name, look in looks.items():
        try:
            yield from look(app)
        except HandoffError as error:
            if error.message not in told:  # one cause is one fault, however many meet it
                yield Diagnosis(name, FAULT, error.message, error.hint)
            told.add(error.message)
        except OSError as error:
            yield Diagnosis(name, FAULT, f"{error.filename or name}: {error.strerror or error}.")


def _git(app: App) -> Iterator[Diagnosis]:
    if find("git", path=app.settings.path) is None:
        yield Diagnosis("git", FAULT, "There is no git on the PATH.", "Install git 2.38 or newer.")
        return
    words = run(["git", "--version"], environment=app.git_environment, timeout=_SECONDS).text.split()
    version = words[2] if len(words) > 2 else "unknown"  # noqa: PLR2004 - git version 2.45.0
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if numbers < _OLDEST_GIT:
        yield Diagnosis("git", FAULT, f"git {version} is too old.", "Install git 2.38 or newer.")
    else:
        yield Diagnosis("git", OK, f"git {version}")
    if run(["git", "var", "GIT_COMMITTER_IDENT"], cwd=app.settings.here, environment=app.git_environment).code:
        what = "git does not know who you are: what lands is committed by 'handoff', and safe-commit refuses."
        fix = 'git config --global user.name "Your Name" && git config --global user.email you@example.com'
        yield Diagnosis("identity", WARNING, what, fix)
    top = find_top(app.settings.here)
    if top is None and is_bare(app.settings.here):
        what = "This is a bare repository: it has no files anybody could work on."
        yield Diagnosis("repository", WARNING, what, "Clone it and go there: git clone THIS_FOLDER DIR")
    elif top is None:
        yield Diagnosis(
            "repository", WARNING, "This folder is in no git repository.", "Go to one, or make one: git init"
        )
    elif run(["git", "-C", top, "rev-parse", "-q", "--verify", "HEAD"], environment=app.git_environment).code:
        fix = "git commit --allow-empty -m start"
        yield Diagnosis("repository", WARNING, f"{top} has no commit yet: sessions have nothing to begin from.", fix)
    else:
        yield Diagnosis("repository", OK, top)


def _packages(app: App) -> Iterator[Diagnosis]:
    found = installation(app)
    update = f"To update it: {' '.join(found.command)}" if found.command else found.why
    yield Diagnosis("installed", OK, f"handoff {handoff.__version__}, by {found.by}. {update}")
    missing = {name: what for name, what in _PACKAGES.items() if find_spec(name) is None}
    if missing and found.by == ONE_FILE:  # by design: everything else it does with Python and git alone
        words = f"the one file runs without {' and '.join(missing.values())} (to have them, in a clone of handoff: {install_command()})"
        yield Diagnosis("packages", OK, words)
        return
    for name, what in missing.items():
        yield Diagnosis("packages", FAULT, f"The package '{name}' is missing ({what}).", install_command())
    if not missing:
        yield Diagnosis("packages", OK, "tools and board are installed")


def _home(app: App) -> Iterator[Diagnosis]:
    home = app.settings.home
    if not os.path.isdir(home):
        yield Diagnosis("home", OK, f"{home} is made when it is needed")
        return
    mode = os.stat(home).st_mode & 0o777
    if not os.access(home, os.W_OK | os.X_OK):
        yield Diagnosis("home", FAULT, f"{home} cannot be written.", f"chown -R $(id -un) {home}; chmod 700 {home}")
    elif mode & 0o007:
        yield Diagnosis("home", WARNING, f"Others may read {home} (mode {mode:o}).", f"chmod 700 {home}")
    else:
        yield Diagnosis("home", OK, home)


def _settings(app: App) -> Iterator[Diagnosis]:
    home_config(app)
    top = find_top(app.settings.here)
    if top:
        project_config(top)
    yield Diagnosis("settings", OK, "what is there can be read")


def _disk(app: App) -> Iterator[Diagnosis]:
    place = app.settings.home if os.path.isdir(app.settings.home) else app.settings.here
    free = shutil.disk_usage(place).free
    words = f"{free / 1e9:.1f} GB free for {place}"
    fix = f"Make room; old snapshots and workspaces go with: {app.settings.program} project tidy"
    yield Diagnosis("disk", OK, words) if free > _LEAST_FREE else Diagnosis("disk", WARNING, words, fix)


def _database(app: App) -> Iterator[Diagnosis]:
    if not app.has_rows:
        yield Diagnosis("database", OK, "none yet: it is made with the first task")
        return
    database = app.database
    weakness = database.weakness()
    database_upkeep.watch(app)
    with database.transaction(write=False) as transaction:
        drift = abs(transaction.now() - app.clock.now())
    if weakness:
        yield Diagnosis("database", WARNING, weakness, f"{app.settings.program} help docs/howto/many-machines.md")
    else:
        copies = backups(database.place) if database.kind == SQLITE else []
        copy = f"; newest backup: {os.path.basename(copies[0])}" if copies else ""
        yield Diagnosis("database", OK, f"{database.place}, its tables are up to date{copy}")
    if drift > _DRIFT_SECONDS:
        fix = "Let both machines ask a time server (timedatectl set-ntp true)."
        yield Diagnosis("clock", WARNING, f"The database's clock is {age(drift)} away from this machine's.", fix)
    else:
        others = sorted({one.host for one in executors.listing(database)} - {app.settings.host})
        more = f"; each of the others tells its own by doctor: {', '.join(others)}" if others else ""
        yield Diagnosis("clock", OK, f"this machine's is within {_DRIFT_SECONDS:.0f} s of the database's{more}")


def _sandbox(app: App) -> Iterator[Diagnosis]:
    layer = present_layer(app)  # it is tried, not only looked for
    if layer == NOTHING:
        fix = "Install bubblewrap (apt-get install bubblewrap), or use a kernel with Landlock."
        yield Diagnosis("sandbox", WARNING, "No sandbox works here: sessions run with your rights.", fix)
    else:
        open_ones = "" if holds_abstract_sockets() else "; abstract sockets (X11) stay reachable before Linux 6.12"
        yield Diagnosis("sandbox", OK, f"{layer} works{open_ones}")


def _agents(app: App) -> Iterator[Diagnosis]:
    rows = [row for row in agents.listing(app) if row.name not in ("scripted", "person")] if app.has_rows else []
    there = [f"{row.name} {row.version}".strip() for row in rows if row.program]
    for row in rows:
        if row.program and row.old:
            yield Diagnosis(
                "agents", WARNING, f"{row.title} {row.version} is older than handoff knows.", f"Upgrade {row.name}."
            )
        if row.held is not None:
            fix = row.held.fix or f"When it works again: {app.settings.program} agent retry {row.name}"
            yield Diagnosis("agents", WARNING, f"{row.name} is held {row.held.why}", fix)
    if there:
        yield Diagnosis("agents", OK, ", ".join(there))
    elif app.has_rows:
        fix = "Install one, for example Claude Code, Codex or Gemini CLI."
        yield Diagnosis("agents", WARNING, "No coding agent is on the PATH.", fix)


def _supervisor(app: App) -> Iterator[Diagnosis]:
    found = executors.listing(app.database) if app.has_rows else []
    alive = [one for one in found if executors.lives(one, host=app.settings.host)]
    lost = [one for one in found if one.state == executors.ALIVE and one not in alive]
    again = f"What it ran is taken over by: {app.settings.program} work --agent NAME"
    for one in lost:
        silent = f"has been silent since {age(-one.lease_left)}" if one.lease_left <= 0 else "died: its process is gone"
        yield Diagnosis("supervisor", WARNING, f"Supervisor {one.id} on {one.host} {silent}.", again)
    yield from _unwatched(app, supervised=bool(alive)) if app.has_rows else ()
    if alive:
        yield Diagnosis("supervisor", OK, ", ".join(f"{one.id} on {one.host}" for one in alive))
    elif not lost:
        yield Diagnosis("supervisor", OK, f"none works (to have one: {app.settings.program} work --agent NAME)")


def _unwatched(app: App, *, supervised: bool) -> Iterator[Diagnosis]:
    """Sessions of this machine that nobody looks after: they are over, or they run on and nobody notices when they end."""
    program = app.settings.program
    for one in pulse.left_behind(app):
        words = f"Session {one.id} has ended and nobody looks after it: its task still counts as running."
        yield Diagnosis("sessions", WARNING, words, f"{program} session stop {one.id}")
    going = [trace.session for trace in pulse.listing(app) if is_alive(monitor_of(trace.folder))]
    alone = [] if supervised else [name for name in going if not pulse.is_watched(app, name)]
    if alone:
        words = f"{'1 session runs' if len(alone) == 1 else f'{len(alone)} sessions run'} without a supervisor: {', '.join(alone[:_NAMED])}."
        fix = f"Take them up: {program} work --agent NAME. Or end one: {program} session stop {alone[0]}"
        yield Diagnosis("sessions", WARNING, words, fix)


# --- What the doctor asks about the clients: logged in, hooks that call, tools that answer, setup that is whole. No model is asked

OK, WARNING, FAULT = "ok", "warning", "fault"


class Diagnosis(Record):
    """One thing that was looked at: ok, a warning or a fault, and what fixes it."""

    name: str
    state: str
    words: str
    fix: str = ""


_CLIENT_SECONDS = 30.0
_DAY = 86_400.0
_OLD_JOB = "Library/LaunchAgents/com.handoff-fanout.watchdog.plist"
_HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "handoff doctor", "version": "1"},
    },
}


def logins(app: App) -> Iterator[Diagnosis]:
    """Whether somebody is logged in, where a client says so without asking its provider's model."""
    config = home_config(app)
    for name in catalog.OURS:
        adapter = catalog.adapter(name, commands=config.values["agents"], where=config.path)
        program = next((path for word in adapter.programs if (path := program_of(app, word))), "")
        if program and (adapter.secrets or adapter.logins):
            yield _login(app, adapter, program)


def _login(app: App, adapter: Adapter, program: str) -> Diagnosis:
    key = next((name for name in adapter.secrets if app.settings.get(name)), "")
    if key:
        return Diagnosis("log-in", OK, f"{adapter.name} has {key}")
    if adapter.login_status:
        words = [program, *adapter.login_status]
        said = run(words, environment=app.settings.environment, timeout=_CLIENT_SECONDS, merge=True)
        if said.code == 0:
            return Diagnosis("log-in", OK, f"{adapter.name} is logged in")
        return Diagnosis("log-in", WARNING, f"{adapter.name} is not logged in.", adapter.login_command)
    home = app.settings.get("HOME") or os.path.expanduser("~")
    if any(os.path.exists(os.path.join(home, path)) for path, _, renewed in adapter.logins if renewed):
        return Diagnosis(
            "log-in", OK, f"{adapter.name} has a login; whether it still holds cannot be asked without cost"
        )
    return Diagnosis("log-in", OK, f"{adapter.name} cannot be asked without cost whether it is logged in")


def hooks(app: App) -> Iterator[Diagnosis]:
    """Our hooks in the settings of clients, each run as the client would, and when it last called by itself."""
    scopes = [settings_files.USER, *([settings_files.PROJECT] if settings_files.in_repository() else [])]
    rows = [settings_files.status(app, agent=agent, scope=scope) for agent in settings_files.PLACES for scope in scopes]
    installed = [row for row in rows if row.installed]
    for row in installed:
        yield _hook(app, row)
    if not installed:
        yield Diagnosis("hooks", OK, f"no client has them (to have them: {app.settings.program} setup)")


def _hook(app: App, row: Status) -> Diagnosis:
    fix = f"{app.settings.program} setup"
    if not row.complete:
        return Diagnosis("hooks", WARNING, f"The hooks in {row.path} are out of date.", fix)
    if row.scope == settings_files.PROJECT and find("handoff", path=app.settings.path) is None:
        return Diagnosis("hooks", WARNING, f"The hooks in {row.path} do nothing: no handoff is on the PATH.", fix)
    event = next(name for name, meaning in DIALECTS[row.agent].events.items() if meaning == END)
    line = settings_files.command_of(row.path, event)
    tried = run(["/bin/sh", "-c", line], environment=app.settings.environment, stdin=b"{}", timeout=_CLIENT_SECONDS)
    if tried.code:
        return Diagnosis("hooks", FAULT, f"A hook in {row.path} does not answer: {tried.error_text[:200]}", fix)
    heard = settings_files.heard(app.settings.home, row.agent)
    if heard:
        return Diagnosis("hooks", OK, f"{row.agent}'s answer; it called in {age(app.clock.now() - heard)} ago")
    if app.clock.now() - os.stat(row.path).st_mtime < _DAY:
        return Diagnosis("hooks", OK, f"{row.agent}'s answer; it has not called in yet (start it once)")
    trust = " and accept the hooks with /hooks" if row.agent == "codex" else " in a folder it trusts"
    words = f"{row.agent}'s answer, and it has never called in: does it run them?"
    return Diagnosis("hooks", WARNING, words, f"Start {row.agent}{trust}.")


def tools(app: App) -> Iterator[Diagnosis]:
    """Our tools over MCP: asked for real, and every program that a client was told to start."""
    if find_spec("mcp") is None:
        return  # told among the packages
    asked = json.dumps(_HELLO).encode() + b"\n"
    told = [
        piece for entry in ledger.load(app).entries.values() for piece in entry.pieces if piece.kind == ledger.TOOLS
    ]
    for piece in told:
        value = json.loads(piece.detail)["command"]
        program = value[0] if isinstance(value, list) else value
        if not program_of(app, program):
            words = f"{piece.path} names {program} for the relay's tools, and that is gone."
            yield Diagnosis("mcp", FAULT, words, f"{app.settings.program} setup")
    tried = run([*own_words(), "mcp"], environment=app.settings.environment, stdin=asked, timeout=_CLIENT_SECONDS)
    if b'"serverInfo"' in tried.out:
        yield Diagnosis("mcp", OK, "the relay's tools answer")
    else:
        yield Diagnosis("mcp", FAULT, f"`mcp` does not answer: {tried.error_text[:200]}", install_command())


def whole_setup(app: App) -> Iterator[Diagnosis]:
    """Whether what setup put in is still there, and as this version writes it."""
    fix = f"{app.settings.program} setup"
    here = setup.look(app)
    held = ledger.load(app)
    if not held.choices:
        yield Diagnosis("setup", OK, f"not done on this machine (to do it: {fix})")
        return
    if here.top and here.top not in held.acts.get("repository", ()):
        yield Diagnosis("setup", OK, f"not done in this repository (to do it: {fix})")
        return
    plan = setup.plan(app, here, setup.defaults(app, here), script="")
    work = plan.work
    for step in plan.failed:
        yield Diagnosis("setup", WARNING, step.what, fix)
    if work:
        paths = ", ".join(dict.fromkeys(step.path for step in work[:3]))
        more = f" and {len(work) - 3} more" if len(work) > 3 else ""  # noqa: PLR2004 - as many as were named
        yield Diagnosis("setup", WARNING, f"Not as it was set up: {paths}{more}.", fix)
    elif not plan.failed:
        yield Diagnosis("setup", OK, "complete")


def older_home(app: App) -> Iterator[Diagnosis]:
    """What handoff-fanout left on this machine: work that was not taken in, and parts of it that still act."""
    home = older.home_with_work(app)
    found = older.projects_with_work(app, home) if home else []
    if found:
        names = ", ".join(found[:5]) + (f" and {len(found) - 5} more" if len(found) > 5 else "")  # noqa: PLR2004 - as many as were named
        fix = f"{app.settings.program} import fanout"
        yield Diagnosis("import", WARNING, f"{home} holds work of handoff-fanout: {names}.", fix)
    first = find("handoff", path=app.settings.path) or ""
    if "handoff_fanout" in older.text_of(first):
        python = os.path.join(os.path.dirname(os.path.realpath(first)), "python3")
        own = f"{python} -m pip" if os.access(python, os.X_OK) else "pip"
        words = f"`handoff` on the PATH is handoff-fanout: {first}. Its tabs need it until they have reported."
        yield Diagnosis("older", WARNING, words, f"{own} uninstall handoff-fanout")
    job = os.path.join(app.settings.get("HOME") or os.path.expanduser("~"), _OLD_JOB)
    if os.path.exists(job):
        fix = f"launchctl unload {quoted(job)}; rm {quoted(job)}"
        yield Diagnosis("older", WARNING, f"The watchdog of handoff-fanout runs each minute: {job}.", fix)
    yield from _older_hooks(app)
    yield from _older_environments(app)


def _older_hooks(app: App) -> Iterator[Diagnosis]:
    asked = run(["git", "rev-parse", "--git-path", "hooks"], cwd=app.settings.here, environment=app.git_environment)
    hooks = os.path.normpath(os.path.join(app.settings.here, asked.text.strip())) if asked.code == 0 else ""
    for folder in (hooks, os.path.join(hooks, CHAIN)):
        kept = [one for one in names_in(folder) if one.startswith("pre-commit.bak-")]
        path = os.path.join(folder, "pre-commit")
        if "handoff-fanout" in older.text_of(path):
            fix = f"mv {quoted(os.path.join(folder, kept[-1]))} {quoted(path)}" if kept else f"rm {quoted(path)}"
            yield Diagnosis("older", WARNING, f"{path} is the hook of handoff-fanout; it may refuse safe commits.", fix)


def _older_environments(app: App) -> Iterator[Diagnosis]:
    """Open batches of the older tool whose tabs source its guard, and the file that brings ours."""
    home = app.settings.home
    for project in names_in(home):
        for folder in older.followed_folders(home, project):
            for batch in names_in(os.path.join(folder, "batches")):
                at, ours = (os.path.join(place, "batches", batch) for place in (folder, files_folder(home, project)))
                names = [
                    name for name in names_in(at) if name.endswith(".env") and os.path.exists(os.path.join(ours, name))
                ]
                if names and not older.is_over(at):
                    words = f"Tabs that source {at}/*.env use the guard of handoff-fanout."
                    yield Diagnosis("older", WARNING, words, f". {quoted(os.path.join(ours, names[0]))}")


# --- how this copy of handoff was installed, and the command of that installer which upgrades it ---------------------


class Installation(Record):
    """The installer and its upgrade command; an empty command means: nothing to run."""

    by: str
    command: tuple[str, ...]
    why: str = ""


def installation(app: App) -> Installation:
    """Look at where we run from and at the installer's own marks."""
    if installer() == ONE_FILE:
        return Installation(ONE_FILE, (), "It is one file: put a newer handoff.pyz in its place.")
    try:
        about = metadata.distribution(PACKAGE)
    except metadata.PackageNotFoundError:
        return Installation("source", (), "It runs from a source tree: update that with git.")
    if '"editable": true' in (about.read_text("direct_url.json") or "").replace('"editable":true', '"editable": true'):
        return Installation("source", (), "It is installed in development mode: update its source tree with git.")
    by = installer()
    if by == CONTAINER:
        command = "docker compose -f release/container/compose.yaml up --build --detach"
        return Installation(
            by, (), f"It is part of an image. In a newer clone of handoff, outside the container: {command}"
        )
    if by == DEVCONTAINER:
        command = "devcontainer up --workspace-folder . --remove-existing-container --build-no-cache"
        return Installation(by, (), f"It is part of a dev container. Outside it, in your project: {command}")
    commands = {
        HOMEBREW: ("brew", "upgrade", PACKAGE),
        UV_TOOL: ("uv", "tool", "upgrade", PACKAGE),
        PIPX: ("pipx", "upgrade", PACKAGE),
        UV_PIP: ("uv", "pip", "install", "--python", sys.executable, "--upgrade", origin()),
    }
    if by in commands:
        return _with(by, commands[by], app)
    return Installation(by, (sys.executable, "-m", "pip", "install", "--upgrade", origin()))


def _with(by: str, command: tuple[str, ...], app: App) -> Installation:
    if find(command[0], path=app.settings.path) is None:
        return Installation(by, (), f"'{command[0]}' is not on PATH. Where it is, run: {' '.join(command)}")
    return Installation(by, command)


def upgrade(app: App, found: Installation) -> int:
    """Run the installer's own command on the person's terminal."""
    return pass_through(list(found.command), environment=app.settings.environment)

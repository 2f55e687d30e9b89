"""What is wrong on this machine and in this project, each with the command that fixes it. Everything is tried, nothing is changed."""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec

from handoff.agents.folder import monitor_of
from handoff.agents.sandbox.landlock import holds_abstract_sockets
from handoff.agents.sandbox.sandbox import NOTHING
from handoff.base.clock import age
from handoff.base.errors import HandoffError, install_command
from handoff.base.marked import is_alive
from handoff.base.process import find, run
from handoff.base.record import TYPE_CHECKING
from handoff.base.settings import project_config
from handoff.board.sessions import executors
from handoff.engine.clients import agents, client_health
from handoff.engine.clients.diagnosis import FAULT, OK, WARNING, Diagnosis
from handoff.engine.features import pulse
from handoff.engine.home import home_config
from handoff.engine.proof.sandboxes import present_layer
from handoff.git.plumbing import find_top, is_bare

if TYPE_CHECKING:
    from collections.abc import Iterator

    from handoff.engine.app import App

_OLDEST_GIT = (2, 38)
_PACKAGES = {"dbos": "supervisor", "mcp": "tools for clients", "textual": "board"}
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
        "log-in": client_health.logins,
        "setup": client_health.whole_setup,
        "hooks": client_health.hooks,
        "mcp": client_health.tools,
        "supervisor": _supervisor,
        "import": client_health.older_home,
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
    del app
    missing = {name: what for name, what in _PACKAGES.items() if find_spec(name) is None}
    for name, what in missing.items():
        yield Diagnosis("packages", FAULT, f"The package '{name}' is missing ({what}).", install_command())
    if not missing:
        yield Diagnosis("packages", OK, "supervisor, tools and board are installed")


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
    with database.transaction(write=False) as transaction:
        drift = abs(transaction.now() - app.clock.now())
    if weakness:
        yield Diagnosis("database", WARNING, weakness, f"{app.settings.program} help docs/howto/many-machines.md")
    else:
        yield Diagnosis("database", OK, f"{database.place}, its tables are up to date")
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

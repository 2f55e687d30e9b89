"""What the doctor asks about the clients: logged in, hooks that call, tools that answer, setup that is whole. No model is asked."""

from __future__ import annotations

import json
import os
from importlib.util import find_spec

from handoff.agents import catalog
from handoff.agents.dialects import DIALECTS, END
from handoff.base.clock import age
from handoff.base.errors import install_command
from handoff.base.markdown import quoted
from handoff.base.process import find, run
from handoff.base.record import TYPE_CHECKING
from handoff.engine.clients import pieces, settings_files
from handoff.engine.clients.diagnosis import FAULT, OK, WARNING, Diagnosis
from handoff.engine.clients.setup import ground, ledger, setup
from handoff.engine.fanout import older
from handoff.engine.home import files_folder, home_config
from handoff.engine.sessions.agent_programs import own_words, program_of
from handoff.git.commits.hooks import CHAIN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from handoff.agents.contract import Adapter
    from handoff.engine.app import App
    from handoff.engine.clients.settings_files import Status

_SECONDS = 30.0
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
        said = run(words, environment=app.settings.environment, timeout=_SECONDS, merge=True)
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
    tried = run(["/bin/sh", "-c", line], environment=app.settings.environment, stdin=b"{}", timeout=_SECONDS)
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
        piece for entry in ledger.load(app).entries.values() for piece in entry.pieces if piece.kind == pieces.TOOLS
    ]
    for piece in told:
        value = json.loads(piece.detail)["command"]
        program = value[0] if isinstance(value, list) else value
        if not program_of(app, program):
            words = f"{piece.path} names {program} for the relay's tools, and that is gone."
            yield Diagnosis("mcp", FAULT, words, f"{app.settings.program} setup")
    tried = run([*own_words(), "mcp"], environment=app.settings.environment, stdin=asked, timeout=_SECONDS)
    if b'"serverInfo"' in tried.out:
        yield Diagnosis("mcp", OK, "the relay's tools answer")
    else:
        yield Diagnosis("mcp", FAULT, f"`mcp` does not answer: {tried.error_text[:200]}", install_command())


def whole_setup(app: App) -> Iterator[Diagnosis]:
    """Whether what setup put in is still there, and as this version writes it."""
    fix = f"{app.settings.program} setup"
    here = ground.look(app)
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
        yield Diagnosis("setup", OK, "whole")


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
        kept = [one for one in older.names_in(folder) if one.startswith("pre-commit.bak-")]
        path = os.path.join(folder, "pre-commit")
        if "handoff-fanout" in older.text_of(path):
            fix = f"mv {quoted(os.path.join(folder, kept[-1]))} {quoted(path)}" if kept else f"rm {quoted(path)}"
            yield Diagnosis("older", WARNING, f"{path} is the hook of handoff-fanout; it may refuse safe commits.", fix)


def _older_environments(app: App) -> Iterator[Diagnosis]:
    """Open batches of the older tool whose tabs source its guard, and the file that brings ours."""
    home = app.settings.home
    for project in older.names_in(home):
        for folder in older.followed_folders(home, project):
            for batch in older.names_in(os.path.join(folder, "batches")):
                at, ours = (os.path.join(place, "batches", batch) for place in (folder, files_folder(home, project)))
                names = [
                    name
                    for name in older.names_in(at)
                    if name.endswith(".env") and os.path.exists(os.path.join(ours, name))
                ]
                if names and not older.is_over(at):
                    words = f"Tabs that source {at}/*.env use the guard of handoff-fanout."
                    yield Diagnosis("older", WARNING, words, f". {quoted(os.path.join(ours, names[0]))}")

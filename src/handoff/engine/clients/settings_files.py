"""Put our hooks into a client's own settings and take them out again; nobody else's entries are touched."""

from __future__ import annotations

import json
import os

from handoff.agents.dialects import HEARD, INSTALLED
from handoff.agents.hook_entries import flat, group_hooks
from handoff.base import files
from handoff.base.errors import UserError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.engine.clients import json_edit
from handoff.engine.sessions.agent_programs import own_words
from handoff.git.plumbing import find_top

if TYPE_CHECKING:
    from typing import Any

    from handoff.engine.app import App

TAG = "# added by handoff"
PROJECT, USER = "project", "user"
_OUR_FOLDERS = (".claude", ".codex", ".gemini", ".cursor", "hooks", ".github")
_CREATED = "hooks-created"  # in $HANDOFF_HOME: files that were not there before us


class HookPlace(Record):
    """Where one client keeps its hooks: below the repository, below the home, and which variable moves the latter."""

    project: str
    user: str
    variable: str
    grouped: bool


PLACES = {
    "claude": HookPlace(".claude/settings.json", ".claude/settings.json", "CLAUDE_CONFIG_DIR", grouped=True),
    "codex": HookPlace(".codex/hooks.json", ".codex/hooks.json", "CODEX_HOME", grouped=True),
    "gemini": HookPlace(".gemini/settings.json", ".gemini/settings.json", "", grouped=True),
    "copilot": HookPlace(".github/hooks/handoff.json", ".copilot/hooks/handoff.json", "COPILOT_HOME", grouped=False),
    "cursor": HookPlace(".cursor/hooks.json", ".cursor/hooks.json", "", grouped=False),
}


class Status(Record):
    """Whether our hooks are in one file."""

    agent: str
    scope: str
    path: str
    installed: bool
    complete: bool


def install(app: App, *, agent: str, scope: str) -> tuple[str, bool]:
    """Add our hooks to the client's settings; the file, and whether anything had to change."""
    path = file_of(app, agent=agent, scope=scope)
    before = _text(path)
    text = with_hooks(path, before, agent=agent, scope=scope)
    if text == before:
        return path, False
    _write(app, path, text, fresh=not before)
    return path, True


def with_hooks(path: str, before: str, *, agent: str, scope: str) -> str:
    """The settings with our hooks as they are today; the same text if they are there."""
    wanted = _entries(agent, scope)
    text = before if before.strip() else "{}\n"
    _check(path, text, wanted)
    if _own(text) == wanted:
        return before
    text = _without(text)
    if not PLACES[agent].grouped and json_edit.find(text, "version") is None:
        text = json_edit.add(text, _top(text), 1, key="version")
    hooks = json_edit.find(text, "hooks")
    if hooks is None:
        text = json_edit.add(text, _top(text), {}, key="hooks")
    for event, additions in wanted.items():
        for addition in additions:
            text = _add_entry(text, event, addition)
    json.loads(text)
    return text


def without_hooks(path: str, text: str) -> str:
    """The settings without our hooks."""
    if not text.strip():
        return text
    _check(path, text, {})
    return _without(text)


def uninstall(app: App, *, agent: str, scope: str) -> tuple[str, bool]:
    """Take our hooks out; a file that held nothing else and that we made is removed."""
    path = file_of(app, agent=agent, scope=scope)
    before = _text(path)
    if not before:
        return path, False
    text = without_hooks(path, before)
    if text == before:
        return path, False
    ours = path in _created(app)
    left = json.loads(text)
    if ours and (not left or left == {"version": 1}):
        os.unlink(path)
        for folder in (os.path.dirname(path), os.path.dirname(os.path.dirname(path))):
            if os.path.basename(folder) in _OUR_FOLDERS and not os.listdir(folder):
                os.rmdir(folder)
    else:
        files.write_atomic(path, text, mode=_mode(path))
    return path, True


def status(app: App, *, agent: str, scope: str) -> Status:
    """Whether our hooks are there, and all of them."""
    path = file_of(app, agent=agent, scope=scope)
    text = _text(path)
    if not text.strip():
        return Status(agent, scope, path, installed=False, complete=False)
    _check(path, text, {})
    own = _own(text)
    return Status(agent, scope, path, bool(own), own == _entries(agent, scope))


def command_of(path: str, event: str) -> str:
    """The line a client runs for an event of ours, as it stands in its settings."""
    return next(
        str(command.get("bash") or command.get("command"))
        for entry in _own(_text(path)).get(event, [])
        for command in _commands([entry])
    )


def heard(home: str, agent: str) -> float:
    """When a client that a person started last called in at its start; 0 if it never did."""
    try:
        return os.stat(os.path.join(home, HEARD, agent)).st_mtime
    except OSError:
        return 0.0


def in_repository() -> bool:
    """Whether this folder is in a repository, so that the project's settings mean something."""
    return find_top(os.getcwd()) is not None


def file_of(app: App, *, agent: str, scope: str) -> str:
    """The settings file of a client for this project or for this person."""
    place = PLACES.get(agent)
    if place is None:
        known = ", ".join(PLACES)
        raise UserError(f"'{agent}' has no settings file for hooks.", f"Hooks can be installed for: {known}.")
    if scope == PROJECT:
        top = find_top(os.getcwd())
        if top is None:
            raise UserError("This is not a git repository.", "Go to your project, or install for yourself: --user")
        return os.path.join(top, place.project)
    moved = app.settings.get(place.variable) if place.variable else ""
    if moved:
        return os.path.join(moved, place.user.partition("/")[2])
    return os.path.join(app.settings.get("HOME") or os.path.expanduser("~"), place.user)


def _entries(agent: str, scope: str) -> dict[str, Any]:
    """Our entries, each with its tag. A file that is shared by a team must not hurt where handoff is not installed."""
    words = ("handoff", "hook") if scope == PROJECT else (*own_words(), "hook")
    more = (INSTALLED,)
    grouped = PLACES[agent].grouped
    made = group_hooks(words, agent, more=more, every_tool=True) if grouped else flat(words, agent, more=more)
    guard = "command -v handoff >/dev/null || exit 0; " if scope == PROJECT else ""
    for entries in made.values():
        for entry in _commands(entries):
            key = "bash" if "bash" in entry else "command"
            entry[key] = f"{guard}{entry[key]} {TAG}"
    return made


def _commands(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [command for entry in entries for command in entry.get("hooks", [entry])]


def _is_ours(entry: Any) -> bool:
    return TAG in json.dumps(entry) if isinstance(entry, dict) else False


def _own(text: str) -> dict[str, Any]:
    hooks = json.loads(text).get("hooks") or {}
    found = {
        event: [entry for entry in entries if _is_ours(entry)]
        for event, entries in hooks.items()
        if isinstance(entries, list)
    }
    return {event: entries for event, entries in found.items() if entries}


def _without(text: str) -> str:
    """The settings without our entries, and without the empty shells they leave."""
    for event in _own(text):
        part = json_edit.find(text, "hooks", event)
        if part is None:
            continue
        text = json_edit.cut(text, part.value_begin, lambda one: _is_ours(one.value))
        hooks = json_edit.find(text, "hooks")
        if hooks is not None and not hooks.value.get(event):
            text = json_edit.cut(text, hooks.value_begin, lambda one, event=event: one.key == event)  # type: ignore[misc]
        hooks = json_edit.find(text, "hooks")
        if hooks is not None and not hooks.value:
            text = json_edit.cut(text, _top(text), lambda one: one.key == "hooks")
    return text


def _add_entry(text: str, event: str, entry: dict[str, Any]) -> str:
    part = json_edit.find(text, "hooks", event)
    if part is None:
        hooks = json_edit.find(text, "hooks")
        assert hooks is not None  # noqa: S101 - the caller has just put it there
        return json_edit.add(text, hooks.value_begin, [entry], key=event, depth=1)
    return json_edit.add(text, part.value_begin, entry, depth=2)


def _check(path: str, text: str, wanted: dict[str, Any]) -> None:
    """Refuse a file we cannot understand before anything is written."""
    hooks = json_object(path, text).get("hooks", {})
    if not isinstance(hooks, dict):
        raise UserError(f"{path}: 'hooks' is not a JSON object.", "Fix the file; nothing was changed.")
    for event in wanted:
        if not isinstance(hooks.get(event, []), list):
            raise UserError(f"{path}: 'hooks.{event}' is not a list.", "Fix the file; nothing was changed.")


def json_object(path: str, text: str) -> dict[str, Any]:
    """The settings in a file; an error that names it where they are none."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise UserError(f"{path} is not valid JSON: {error}.", "Fix the file; nothing was changed.") from error
    if not isinstance(value, dict):
        raise UserError(f"{path} does not hold a JSON object.", "Fix the file; nothing was changed.")
    return value


def _top(text: str) -> int:
    return text.index("{")


def _text(path: str) -> str:
    return files.read_text(path) if os.path.exists(path) else ""


def _mode(path: str) -> int:
    return os.stat(path).st_mode & 0o777 if os.path.exists(path) else 0o644


def _write(app: App, path: str, text: str, *, fresh: bool) -> None:
    if fresh:
        files.make_folder(app.settings.home)
        files.write_atomic(os.path.join(app.settings.home, _CREATED), "\n".join([*_created(app), path]) + "\n")
        files.make_folder(os.path.dirname(path))
    target = os.path.realpath(path)  # a settings file that is a link stays one
    files.write_atomic(target, text, mode=_mode(target))


def _created(app: App) -> list[str]:
    return _text(os.path.join(app.settings.home, _CREATED)).splitlines()

"""Put our hooks into a client's own settings and take them out again; nobody else's entries are touched."""

from __future__ import annotations

import json
import os

from handoff.agents.adapters.pieces import flat_hooks, group_hooks
from handoff.agents.dialects import HEARD, INSTALLED
from handoff.base import files
from handoff.base.errors import UserError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.engine.session.agents import own_words
from handoff.engine.setup import text_edit
from handoff.git.plumbing import find_top

if TYPE_CHECKING:
    from typing import Any

    from handoff.engine.app import App

TAG = "# added by handoff"
PROJECT, USER = "project", "user"
_BEYOND_JSON = {".gemini/settings.json": text_edit.without_comments, "opencode.json": text_edit.plain}
"""What their client allows in a file: comments, and for opencode a last comma. Elsewhere either makes the file unreadable."""


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
    "qwen": HookPlace(".qwen/settings.json", ".qwen/settings.json", "QWEN_HOME", grouped=True),
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
    problem: str = ""
    """Why the file cannot be read."""


def with_hooks(path: str, before: str, *, agent: str, scope: str) -> str:
    """The settings with our hooks as they are today; the same text if they are there."""
    wanted = _entries(agent, scope)
    text = before if before.strip() else "{}\n"
    _check(path, text, wanted)
    if _own(text) == wanted:
        return before
    text = _without(text)
    if not PLACES[agent].grouped and text_edit.find(text, "version") is None:
        text = text_edit.add(text, text_edit.top(text), 1, key="version")
    hooks = text_edit.find(text, "hooks")
    if hooks is None:
        text = text_edit.add(text, text_edit.top(text), {}, key="hooks")
    for event, additions in wanted.items():
        for addition in additions:
            text = _add_entry(text, event, addition)
    _check(path, text, wanted)
    return text


def without_hooks(path: str, text: str) -> str:
    """The settings without our hooks."""
    if not text.strip():
        return text
    _check(path, text, {})
    return _without(text)


def status(app: App, *, agent: str, scope: str) -> Status:
    """Whether our hooks are there, and all of them."""
    path, problem = file_of(app, agent=agent, scope=scope), ""
    try:
        text = _text(path)
        if text.strip():
            _check(path, text, {})
    except UserError as error:
        text, problem = "", error.message
    own = _own(text) if text.strip() else {}
    complete = own == _entries(agent, scope)
    return Status(agent=agent, scope=scope, path=path, installed=bool(own), complete=complete, problem=problem)


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
    return user_file(app, place.user, place.variable)


def user_file(app: App, name: str, variable: str) -> str:
    """A client's own file below the person's home, or in the folder that a variable of the client names."""
    moved = app.settings.get(variable) if variable else ""
    if moved:
        folder, _, rest = name.partition("/")
        return os.path.join(moved, rest or folder)
    return os.path.join(app.settings.get("HOME") or os.path.expanduser("~"), name)


def _entries(agent: str, scope: str) -> dict[str, Any]:
    """Our entries, each with its tag. A file that is shared by a team must not hurt where handoff is not installed."""
    words = ("handoff", "hook") if scope == PROJECT else (*own_words(), "hook")
    more = (INSTALLED,)
    grouped = PLACES[agent].grouped
    made = group_hooks(words, agent, more=more, every_tool=True) if grouped else flat_hooks(words, agent, more=more)
    guard = "command -v handoff >/dev/null || exit 0; " if scope == PROJECT else ""
    for entries in made.values():
        for entry in _commands(entries):
            key = "bash" if "bash" in entry else "command"
            entry[key] = f"{guard}{entry[key]} {TAG}"
    return made


def shared_hooks(agent: str) -> dict[str, Any]:
    """Our hooks as a file that people share names them: by the program that everybody's PATH has."""
    return _entries(agent, PROJECT)


def _commands(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [command for entry in entries for command in entry.get("hooks", [entry])]


def _is_ours(entry: Any) -> bool:
    return TAG in json.dumps(entry) if isinstance(entry, dict) else False


def _own(text: str) -> dict[str, Any]:
    hooks = json.loads(text_edit.plain(text)).get("hooks") or {}
    found = {
        event: [entry for entry in entries if _is_ours(entry)]
        for event, entries in hooks.items()
        if isinstance(entries, list)
    }
    return {event: entries for event, entries in found.items() if entries}


def _without(text: str) -> str:
    """The settings without our commands, and without the empty shells they leave; a command of others in our group stays."""
    for event in _own(text):
        text = _apart(text, event)
        part = text_edit.find(text, "hooks", event)
        assert part is not None  # noqa: S101 - we have just seen our entries in it
        text = text_edit.cut(text, part.value_begin, lambda one: _is_ours(one.value))
        for path in (("hooks", event), ("hooks",)):
            empty, held = text_edit.find(text, *path), text_edit.find(text, *path[:-1])
            if empty is not None and not empty.value:
                begin = held.value_begin if held else text_edit.top(text)
                text = text_edit.cut(text, begin, lambda one, key=path[-1]: one.key == key)  # type: ignore[misc]
    return text


def _apart(text: str, event: str) -> str:
    """The settings without our commands in groups that hold somebody else's too: clients add to a group that is there."""
    part = text_edit.find(text, "hooks", event)
    for group in reversed(text_edit.parts(text, part.value_begin) if part else []):
        others = [one for one in _commands([group.value]) if not _is_ours(one)] if _is_ours(group.value) else []
        if others:
            held = next(one for one in text_edit.parts(text, group.value_begin) if one.key == "hooks")
            text = text_edit.cut(text, held.value_begin, lambda one: _is_ours(one.value))
    return text


def _add_entry(text: str, event: str, entry: dict[str, Any]) -> str:
    part = text_edit.find(text, "hooks", event)
    if part is None:
        hooks = text_edit.find(text, "hooks")
        assert hooks is not None  # noqa: S101 - the caller has just put it there
        return text_edit.add(text, hooks.value_begin, [entry], key=event, depth=1)
    return text_edit.add(text, part.value_begin, entry, depth=2)


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
        as_json = next((read for name, read in _BEYOND_JSON.items() if path.endswith(name)), str)
        value = json.loads(as_json(text))
    except ValueError as error:
        raise UserError(f"{path} is not valid JSON: {error}.", "Fix the file; nothing was changed.") from error
    if not isinstance(value, dict):
        raise UserError(f"{path} does not hold a JSON object.", "Fix the file; nothing was changed.")
    return value


def _text(path: str) -> str:
    return files.read_text(path) if os.path.exists(path) else ""

"""What the relay answers when an agent's client calls in: the baton at the start, a no with its reason, a snapshot in time.

Every edit of every agent waits for this file, so what an edit needs is read from the session's folder with plain file
calls; the database is opened only to say whose a path is and whether a task was reported.
"""

from __future__ import annotations

import os

from handoff.agents.dialects import COMPACT, EDIT, END, START, STOP, HookAnswer
from handoff.base.errors import HandoffError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.base.settings import PROJECT_FOLDER

if TYPE_CHECKING:
    from handoff.agents.dialects import Call
    from handoff.board.tasks.tasks import Task
    from handoff.engine.app import App
    from handoff.engine.session.placement import Placement

REFUSALS = 3
"""How often a session that has not reported is held before it may go."""
_NOTHING = HookAnswer()
_SHOWN = 10
_HEAD = 4  # key, fence, task, workspace


class Permissions(Record):
    """What a session was given, as its folder says."""

    folder: str
    key: int
    fence: int
    task: str
    workspace: str
    patterns: tuple[str, ...]
    whole: tuple[str, ...]
    """The files and folders among them that are owned whole."""


def answer(app: App, call: Call) -> HookAnswer | None:
    """The answer to one call; None where the client is not of a session that we started."""
    permissions = read_permissions(app)
    if permissions is None:
        return None
    if call.event == EDIT:
        reply = _edit(app, permissions, call)
        if reply.refusal:
            from handoff.engine.safety.safe_commit import note_refused

            words = f"{call.tool or 'edit'} {' '.join(call.paths[:5])}"
            note_refused(app, verb=words, place=permissions.workspace, layer="agent hook", instead=reply.refusal)
    elif call.event == START:
        _append(permissions, "hello", app.settings.get("HANDOFF_TOKEN") + "\n", fresh=True)
        reply = HookAnswer(context=_read(os.path.join(permissions.folder, "baton.md")))
    elif call.event == STOP:
        reply = _stop(app, permissions, call)
    else:
        if call.event in (COMPACT, END):
            _snapshot(app, permissions, f"before {call.name}")
        reply = _NOTHING
    _append(permissions, "calls", f"{call.name} {call.tool} {'refused' if reply.refusal else 'ok'}\n")
    return reply


def read_permissions(app: App) -> Permissions | None:
    """The grant of the present session, or None when its folder is not on this machine."""
    session, project = app.settings.get("HANDOFF_SESSION"), app.settings.get("HANDOFF_PROJECT")
    if "/" in session or "/" in project or not project:
        return None
    folder = os.path.join(app.settings.home, project, "sessions", session)
    given, _, whole = _read(os.path.join(folder, "permissions")).partition("\n\n")
    lines = given.split("\n")
    if len(lines) < _HEAD:
        return None
    return Permissions(
        folder=folder,
        key=int(lines[0]),
        fence=int(lines[1]),
        task=lines[2],
        workspace=lines[3],
        patterns=tuple(line for line in lines[_HEAD:] if line),
        whole=tuple(line for line in whole.split("\n") if line),
    )


def permissions_text(task: Task, placement: Placement) -> str:
    """The grant file of a session that holds `task`: the patterns, and after an empty line what they own whole.

    An edit there is known to be its own without another reading of the patterns.
    """
    lines = [str(task.key), str(task.fence), task.label, placement.folder, *task.patterns, ""]
    return "\n".join([*lines, *(path for path, whole in placement.reach.items() if whole and path)]) + "\n"


# --- edits -----------------------------------------------------------------------------------------------


def _edit(app: App, permissions: Permissions, call: Call) -> HookAnswer:
    base = call.folder or permissions.workspace
    for path in call.paths:
        inside = place_in(permissions.workspace, os.path.join(base, os.path.expanduser(path)))
        if inside is None:
            if _is_scratch(app, permissions, os.path.join(base, path)):
                continue
            return HookAnswer(refusal=_outside_workspace(app, permissions, path))
        if inside.partition("/")[0] == PROJECT_FOLDER or not permissions.patterns or _owns(permissions, inside):
            continue
        return HookAnswer(refusal=_not_owned(app, permissions, inside))
    return _NOTHING


def place_in(workspace: str, path: str) -> str | None:
    """The path relative to the workspace, links followed; None when it leads out of it."""
    top = os.path.realpath(workspace)
    real = os.path.realpath(path)
    if real == top:
        return "."
    return real[len(top) + 1 :] if real.startswith(top + "/") else None


def _owns(permissions: Permissions, path: str) -> bool:
    if ".git" not in path.lower() and any(  # git's own folder belongs to nobody
        path == place or (place.endswith("/") and path.startswith(place)) for place in permissions.whole
    ):
        return True
    from handoff.git.ownership import Ownership

    return Ownership.parse(permissions.patterns).covers(path)


def _is_scratch(app: App, permissions: Permissions, path: str) -> bool:
    """The session's own folder, or the temp folder as long as it is nobody's checkout."""
    real = os.path.realpath(path)
    if real.startswith(os.path.realpath(permissions.folder) + "/"):
        return True
    temp = os.path.realpath(app.settings.get("TMPDIR") or "/tmp")  # noqa: S108 - where programs put scratch files
    if not real.startswith(temp + "/"):
        return False
    from handoff.git.plumbing import find_top

    return find_top(os.path.dirname(real)) is None


def _outside_workspace(app: App, permissions: Permissions, path: str) -> str:
    return (
        f"handoff: {path} lies outside the workspace {permissions.workspace} of task '{permissions.task}'. "
        f"Work inside the workspace. If the task needs it: {app.settings.program} task block 'I need {path}'"
    )


def _not_owned(app: App, permissions: Permissions, path: str) -> str:
    program = app.settings.program
    mine = ", ".join(permissions.patterns[:_SHOWN]) + (" ..." if len(permissions.patterns) > _SHOWN else "")
    return (
        f"handoff: '{path}' is not yours to change in task '{permissions.task}'. {whose(app, app.settings.get('HANDOFF_PROJECT'), (permissions.key,), path)} "
        f"You may write: {mine}. Do without it, or ask for it with the request_path tool; "
        f"if you cannot go on: {program} task block 'I need {path} because ...'"
    )


def whose(app: App, project: str, mine: tuple[int, ...], path: str) -> str:
    """Which other live task of the same checkout owns the path."""
    from handoff.board.tasks import tasks
    from handoff.git.ownership import Ownership

    for task in tasks.listing(app.database, project=project):
        if task.key not in mine and task.patterns and Ownership.parse(task.patterns).covers(path):
            holder = f", held by session {task.held_by}" if task.held_by else ""
            return f"It belongs to task '{task.label}' ({task.state}{holder})."
    return "No task owns it at present."


# --- stops and snapshots -----------------------------------------------------------------------------------


def _stop(app: App, permissions: Permissions, call: Call) -> HookAnswer:
    from handoff.board.tasks import states, tasks
    from handoff.engine.outcome.kinds import is_judged_later

    _snapshot(app, permissions, f"before {call.name}")
    task = tasks.get(app.database, key=permissions.key)
    if task.state != states.RUNNING or task.fence != permissions.fence or is_judged_later(task):
        return _NOTHING  # a phase of a flow is judged when its session ends: it has nothing to report
    counter = os.path.join(permissions.folder, "refusals")
    refused = len(_read(counter))
    if refused >= REFUSALS or _attended(permissions):
        return _NOTHING
    _append(permissions, "refusals", "x")
    program = app.settings.program
    check = f" Its check is `{task.check_command}`; handoff runs it when you report." if task.check_command else ""
    return HookAnswer(
        refusal=f"handoff: task '{permissions.task}' is neither done nor blocked yet.{check} Finish the work, then report with the "
        f"finish tool or: {program} task done --summary 'what you did'. If you cannot go on: {program} task block 'what you need'"
    )


def _attended(permissions: Permissions) -> bool:
    """In a terminal every answer is a stop, and the person there says how it goes on."""
    from handoff.base.light_json import loads

    try:
        facts = loads(_read(os.path.join(permissions.folder, "session.json")) or "{}")
    except ValueError:
        return False
    return isinstance(facts, dict) and bool(facts.get("terminal"))


def _snapshot(app: App, permissions: Permissions, why: str) -> None:
    """Keep the workspace as it is now; a failure is noted and holds nobody up."""
    from handoff.engine.safety.snapshots import keep, open_snapshot_store

    try:
        keep(app, open_snapshot_store(app, folder=permissions.workspace), why)
    except (HandoffError, OSError) as error:
        _append(permissions, "calls", f"no snapshot: {error}\n")


# --- small files ---------------------------------------------------------------------------------------------


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _append(permissions: Permissions, name: str, text: str, *, fresh: bool = False) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | (os.O_TRUNC if fresh else os.O_APPEND)
    fd = os.open(os.path.join(permissions.folder, name), flags, 0o600)
    try:
        os.write(fd, text.encode("utf-8", "replace"))
    finally:
        os.close(fd)

"""What a session outside our control was given: its id and fence, kept so that a person types only `handoff task done`."""

from __future__ import annotations

import os

from handoff.base.errors import UserError
from handoff.base.files import make_folder, read_text, write_atomic
from handoff.base.ids import new_id
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.tasks import states, tasks

if TYPE_CHECKING:
    from typing import Any

    from handoff.board.tasks.tasks import Task
    from handoff.engine.app import App

_FOLDER = "sessions"
_SUFFIX = ".session"


class LocalClaim(Record):
    """One claim: who holds what, with which fence, and in which folder and terminal it was made.

    Without a task it is a claim whose answer has not arrived yet; `pid` is the command that asked.
    """

    session: str
    fence: int = 0
    key: int = 0
    project: str = ""
    task: str = ""
    workspace: str = ""
    terminal: str = ""
    pid: int = 0
    parents: str = ""
    """The processes above the command that asked: a client's hooks and its shell have the client in common."""
    told: int = 0
    """Whether the session knows that it has lost its task."""
    asked: str = ""
    """Marks of the files its client was refused once: the second time its person is asked."""
    aside: int = 0
    """Whether it was taken away here: no command means it any more, only the session's client is yet to hear of it."""


def begin(app: App, *, session: str = "", workspace: str) -> LocalClaim:
    """Write down who is about to claim. A claim that was killed before it heard the answer is taken up again."""
    named = session or app.settings.get("HANDOFF_SESSION")
    local_claim = LocalClaim(
        session=named or new_id("session"),
        workspace=workspace,
        terminal=terminal(),
        pid=os.getpid(),
        parents=" ".join(_above()),
    )
    if not named:
        for old in _all(app):
            if not old.task and old.workspace == workspace and not _is_running(old.pid) and _take_over(app, old):
                local_claim = local_claim._replace(session=old.session)
                break
    keep(app, local_claim)
    return local_claim


def keep(app: App, local_claim: LocalClaim) -> None:
    """Remember a claim for the commands that follow in this folder."""
    folder = os.path.join(app.settings.home, _FOLDER)
    make_folder(folder, mode=0o700)
    text = "".join(f"{name}={value}\n" for name, value in local_claim._asdict().items())
    write_atomic(_path(app, local_claim.session), text, mode=0o600)


def drop(app: App, session: str) -> None:
    """Forget a claim that has ended."""
    try:
        os.unlink(_path(app, session))
    except OSError:
        return


def put_aside(app: App, session: str) -> None:
    """A claim was taken away; its client, if it calls in, is told before it is forgotten."""
    for one in _all(app):
        if one.session == session:
            keep(app, one._replace(aside=1))


def leave_open(app: App, session: str) -> None:
    """Whoever claimed it did so from a page or a board and works elsewhere: a terminal of theirs may take it up."""
    for one in _all(app):
        if one.session == session:
            keep(app, one._replace(pid=0))


def is_open(app: App, session: str) -> bool:
    """Whether the command that claimed it still runs: a person works in its terminal."""
    return any(one.session == session and one.pid != os.getpid() and _is_running(one.pid) for one in _all(app))


def terminal() -> str:
    """The terminal this command runs in, or nothing where there is none (a hook, an agent's own shell)."""
    for stream in (0, 2, 1):
        try:
            return os.ttyname(stream)
        except OSError:
            continue
    return ""


def find(
    app: App, *, session: str = "", fence: int | None = None, task: str = "", project: str = ""
) -> LocalClaim | None:
    """The claim a command means: its options, else the environment, else the one claim made in this folder.

    A session that is named may be unknown here: then its claim has neither task nor fence.
    """
    explicit = session or app.settings.get("HANDOFF_SESSION")
    if explicit:
        known = next((one for one in _all(app) if one.session == explicit), LocalClaim(session=explicit))
        number = fence if fence is not None else None if session else _fence_of_environment(app)
        return known if number is None else known._replace(fence=number)
    mine = [one for one in _all(app) if one.task and not one.aside and (not project or one.project == project)]
    if task:  # a part of a batch may be called by its full name or, as `claim` allows, by its own
        mine = [one for one in mine if task in (one.task, one.task.rpartition("/")[2])]
    mine = _of_caller(_nearest(app, mine))  # a claim made in another checkout is somebody else's
    mine = [one for one in mine if not one.told] or mine
    if len(mine) > 1:
        mine = [one for one in mine if held_task(app, key=one.key, session=one.session, fence=one.fence)] or mine
    if len(mine) > 1:
        names = ", ".join(f"{one.task} ({one.session})" for one in mine)
        raise UserError(f"Several tasks are claimed here: {names}.", "Say which: --task TASK or --session SESSION.")
    if not mine:
        return None
    return mine[0] if fence is None else mine[0]._replace(fence=fence)


def nearest(app: App) -> list[LocalClaim]:
    """The claim of this folder, or those that cannot be told apart from here: for a client's hooks, which report nothing."""
    return _of_caller(_nearest(app, [one for one in _all(app) if one.task]))


def _of_caller(found: list[LocalClaim]) -> list[LocalClaim]:
    """Of several claims in one folder those made in the caller's terminal, then those with most processes above in common.

    Of one task the last claim counts: those before it have expired, and whoever made them is not here any more.
    """
    if len(found) > 1:
        tty = terminal()
        found = [one for one in found if tty and one.terminal == tty] or found
    if len(found) > 1:
        above = _above()
        near = {one.session: sum(parent in above for parent in one.parents.split()) for one in found}
        found = [one for one in found if near[one.session] == max(near.values())]
    newest = {one.key: max(other.fence for other in found if other.key == one.key) for one in found}
    return [one for one in found if one.fence == newest[one.key]]


def held_task(app: App, *, key: int, session: str, fence: int) -> Task | None:
    """The task, while the session holds it: nobody has it since, and it did not expire."""
    task = tasks.look_up(app.database, key=key)
    if task is None or task.state != states.RUNNING or (task.held_by, task.fence) != (session, fence):
        return None
    return task


def _above() -> list[str]:
    from handoff.base.process import parents_of

    return parents_of(os.getpid())


def _nearest(app: App, found: list[LocalClaim]) -> list[LocalClaim]:
    """The claims made in the innermost checkout around this folder."""
    here = app.settings.here + "/"
    around = [one for one in found if one.workspace and here.startswith(one.workspace.rstrip("/") + "/")]
    inmost = max((len(one.workspace) for one in around), default=0)
    return [one for one in around if len(one.workspace) == inmost]


def _path(app: App, session: str) -> str:
    if "/" in session or session.startswith("."):
        raise UserError(f"'{session}' is not the id of a session.", "handoff task claim prints it: session-…")
    return os.path.join(app.settings.home, _FOLDER, session + _SUFFIX)


def _fence_of_environment(app: App) -> int | None:
    text = app.settings.get("HANDOFF_FENCE")
    if not text:
        return None
    if not text.isdigit():
        raise UserError(f"HANDOFF_FENCE is not a number: {text!r}.", "Unset it, or give --fence N.")
    return int(text)


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return pid > 0


def _take_over(app: App, local_claim: LocalClaim) -> bool:
    """Only one of several commands may take up what a dead one began: the rename decides."""
    path = _path(app, local_claim.session)
    taken = f"{path}.{os.getpid()}"
    try:
        os.rename(path, taken)
        os.unlink(taken)
    except OSError:
        return False
    return True


def _all(app: App) -> list[LocalClaim]:
    folder = os.path.join(app.settings.home, _FOLDER)
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(_SUFFIX) and not name.startswith("."))
    except OSError:
        return []
    found = []
    for name in names:
        try:
            text = read_text(os.path.join(folder, name))
        except UserError:
            continue  # it was just dropped by its own session
        values = dict(line.split("=", 1) for line in text.split("\n") if "=" in line)
        fields: dict[str, Any] = {key: value for key, value in values.items() if key in LocalClaim._fields}
        for key in ("fence", "key", "pid", "told", "aside"):
            fields[key] = int(fields[key]) if fields.get(key, "").isdigit() else 0
        if fields.get("session"):
            found.append(LocalClaim(**fields))
    return found

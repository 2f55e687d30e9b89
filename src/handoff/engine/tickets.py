"""What a session outside our control was given: its id and fence, kept so that a person types only `handoff done`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from handoff.base.errors import UserError
from handoff.base.files import make_folder, read_text, write_atomic
from handoff.git.repo import find_top

if TYPE_CHECKING:
    from handoff.engine.app import App

_FOLDER = "sessions"
_SUFFIX = ".session"


class Ticket(NamedTuple):
    """One claim: who holds what, with which fence, and in which folder and terminal it was made."""

    session: str
    fence: int
    project: str = ""
    task: str = ""
    scope: str = ""
    workspace: str = ""
    terminal: str = ""

    @property
    def name(self) -> str:
        return f"{self.scope}/{self.task}" if self.scope else self.task


def keep(app: App, ticket: Ticket) -> None:
    """Remember a claim for the commands that follow in this folder."""
    folder = os.path.join(app.settings.home, _FOLDER)
    make_folder(folder, mode=0o700)
    text = "".join(f"{name}={value}\n" for name, value in ticket._asdict().items())
    write_atomic(os.path.join(folder, ticket.session + _SUFFIX), text, mode=0o600)


def drop(app: App, session: str) -> None:
    """Forget a claim that has ended."""
    try:
        os.unlink(os.path.join(app.settings.home, _FOLDER, session + _SUFFIX))
    except OSError:
        return


def terminal() -> str:
    """The terminal this command runs in, or nothing where there is none (a hook, an agent's own shell)."""
    for stream in (0, 2, 1):
        try:
            return os.ttyname(stream)
        except OSError:
            continue
    return ""


def find(app: App, *, session: str = "", fence: int | None = None, task: str = "", project: str = "") -> Ticket:
    """The claim a command means: its options, else the environment, else the one claim made in this folder."""
    explicit = session or app.settings.get("HANDOFF_SESSION")
    if explicit:
        known = next((ticket for ticket in _all(app) if ticket.session == explicit), Ticket(explicit, 0))
        number = fence if fence is not None else _fence_of_environment(app) if not session else None
        if number is None and not known.fence:
            raise UserError(
                f"The fence of session {explicit} is not known here.", "Give it: --fence N (claim printed it)."
            )
        chosen = known._replace(fence=known.fence if number is None else number)
        return chosen._replace(
            project=project or chosen.project, task=task or chosen.task or app.settings.get("HANDOFF_TASK")
        )
    here = find_top(".") or os.path.abspath(".")
    mine = [ticket for ticket in _all(app) if not project or ticket.project == project]
    mine = [ticket for ticket in mine if (task in (ticket.task, ticket.name) if task else ticket.workspace == here)]
    if len(mine) > 1:
        tty = terminal()
        mine = [ticket for ticket in mine if tty and ticket.terminal == tty] or mine
    if len(mine) > 1:
        names = ", ".join(f"{ticket.name} ({ticket.session})" for ticket in mine)
        raise UserError(f"Several tasks are claimed here: {names}.", "Say which: --task TASK or --session SESSION.")
    if not mine:
        where = f"task '{task}'" if task else f"the folder {here}"
        raise UserError(f"No claim of yours is known for {where}.", f"Take a task first: {app.settings.program} claim")
    return mine[0]._replace(fence=mine[0].fence if fence is None else fence)


def _fence_of_environment(app: App) -> int | None:
    text = app.settings.get("HANDOFF_FENCE")
    if not text:
        return None
    if not text.isdigit():
        raise UserError(f"HANDOFF_FENCE is not a number: {text!r}.", "Unset it, or give --fence N.")
    return int(text)


def _all(app: App) -> list[Ticket]:
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
        fence = values.pop("fence", "")
        if values.get("session") and fence.isdigit():
            known = {key: value for key, value in values.items() if key in Ticket._fields}
            found.append(Ticket(fence=int(fence), **known))
    return found

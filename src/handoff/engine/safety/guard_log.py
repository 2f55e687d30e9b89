"""What guards wrote down while they said no: the lines of their guard log become incidents, each exactly once."""

from __future__ import annotations

import os

from handoff.base.clock import parse_stamp
from handoff.base.files import FileMemory
from handoff.base.record import TYPE_CHECKING
from handoff.board.events import incidents
from handoff.git.guard import GUARD_LOG, read_refusal
from handoff.git.workspaces.workspaces import CLONE, READY, all_workspaces

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from handoff.board.events.incidents import IncidentReport
    from handoff.engine.app import App
    from handoff.git.workspaces.workspaces import Workspace

INSIDE = "handoff-refused"  # in the git folder of a clone: all a session inside a sandbox can write to
_MOST_BYTES = 256 * 1024
_MOST_TEXT = 500
_taken = FileMemory()
"""Guard logs that were read to their end."""


def workspaces_of_home(home: str) -> dict[str, list[Workspace]]:
    """The workspaces of every project folder: of a large batch there are many, and one look needs them more than once."""
    try:
        names = sorted(os.listdir(home))
    except OSError:
        return {}
    return {folder: all_workspaces(folder) for folder in (os.path.join(home, name) for name in names)}


def take_guard_logs(app: App, workspaces: Mapping[str, Sequence[Workspace]]) -> int:
    """Turn new lines into incidents; the place up to which a guard log was read is written in the same transaction."""
    told = 0
    for path, project, session in _guard_logs(app.settings.home, workspaces):
        told += _take(app, path, project, session)
    return told


def _guard_logs(home: str, workspaces: Mapping[str, Sequence[Workspace]]) -> Iterator[tuple[str, str, str]]:
    """The guard log of the home, and of each clone; of a clone only what its session says about itself is believed."""
    yield os.path.join(home, "guard", GUARD_LOG), "", ""
    for folder, found in workspaces.items():
        for one in found:
            if one.kind == CLONE and one.state == READY:
                yield os.path.join(one.tree, ".git", INSIDE), os.path.basename(folder), one.session or one.name


def _take(app: App, path: str, project: str, session: str) -> int:
    try:
        if _taken.knows(path, os.lstat(path)):
            return 0
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return 0
    with os.fdopen(fd, "rb") as file:
        facts = os.fstat(fd)
        size, inode = facts.st_size, facts.st_ino
        place = f"{os.uname().nodename}:{path}"
        with app.database.transaction(write=False) as transaction:
            before = incidents.get_watched(transaction, place=place)
        at = int(before.facts.get("at", 0))
        if before.facts.get("inode") != inode or at > size:
            at = 0  # it was cut or replaced
        if at == size:
            _taken.keep(path, facts, True)
            return 0
        file.seek(at)
        data = file.read(_MOST_BYTES)
    end = data.rfind(b"\n") + 1
    if not end:
        return 0  # a line that is still being written
    reports = []
    offset = at
    for line in data[:end].split(b"\n")[:-1]:
        report = _report(line, (place, f"{before.version}:{offset}"), project, session)
        if report is not None:
            reports.append(report)
        offset += len(line) + 1
    with app.database.transaction() as transaction:
        if not incidents.put_watched(transaction, place=place, before=before, facts={"inode": inode, "at": at + end}):
            return 0
        return incidents.tell(transaction, reports)


def _report(line: bytes, where: tuple[str, str], project: str, session: str) -> IncidentReport | None:
    refusal = read_refusal(line.decode("utf-8", "backslashreplace")[: 4 * _MOST_TEXT])
    if refusal is None:
        return None
    who = session or refusal.session
    words = f"{refusal.layer or 'git-guard'} refused {refusal.verb[:_MOST_TEXT]!r} to {refusal.role or 'a session'}"
    return incidents.IncidentReport(
        mark="\0".join((*where, repr(line))),
        kind=incidents.REFUSED,
        what=f"{words} in {refusal.place[:_MOST_TEXT]}. Nothing was changed.",
        fix=refusal.instead[:_MOST_TEXT],
        project=project or refusal.project,
        session=who,
        place=where[0],
        at=parse_stamp(refusal.moment) or 0.0,
        evidence={
            "layer": refusal.layer or "git-guard",
            "role": refusal.role,
            "command": refusal.verb,
            "folder": refusal.place,
        },
    )

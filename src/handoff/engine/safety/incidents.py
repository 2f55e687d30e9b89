"""Incidents as a journey: guards' refusals and the watcher's findings become events with evidence and a way to fix."""

from __future__ import annotations

import os
import shlex
from contextlib import contextmanager

from handoff.base.clock import parse_stamp
from handoff.base.errors import HandoffError
from handoff.base.files import FileMemory
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.events import incidents
from handoff.engine.safety import detectors as repositories
from handoff.git import tampering
from handoff.git.guard import GUARD_LOG, read_refusal
from handoff.git.workspaces import CLONE, READY, Workspace, all_workspaces

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from handoff.board.events.incidents import Incident, IncidentReport, Watched
    from handoff.engine.app import App
    from handoff.engine.safety.detectors import WatchedRepository
    from handoff.git.tampering import Tampering

_TRIES = 3


class Inspection(Record):
    """One look at a repository: what it is like now, and what is wrong with it."""

    now: dict[str, Any]
    findings: list[Tampering]
    fixed: list[str]


def look(app: App) -> int:
    """Take the guards' log in and look at every repository somebody works on; how many incidents are new."""
    return int(app.once("incidents", lambda: _look(app)))


def _look(app: App) -> int:
    workspaces = workspaces_of_home(app.settings.home)
    told = take_guard_logs(app, workspaces)
    for watched in repositories.watched_repositories(app, workspaces):
        try:
            repositories.finish_landings(app, watched)
            told += _look_at(app, watched)
        except (HandoffError, OSError):
            continue  # a repository that cannot be read at this moment is looked at in the next round
    return told


@contextmanager
def ours(app: App, *, folder: str) -> Iterator[None]:
    """Inside, handoff itself changes a repository at a person's word: that is no incident, and fixes some."""
    if not has_board(app):
        yield
        return
    for watched in repositories.watched_repositories(app):
        if repositories.is_of(watched, folder):
            _look_at(app, watched)
    yield
    for watched in repositories.watched_repositories(app):
        if repositories.is_of(watched, folder):
            _accept(app, watched)


def accept(app: App, *, folder: str) -> None:
    """What handoff itself just did is no incident: go on from how it is now."""
    if has_board(app):
        for watched in repositories.watched_repositories(app):
            if repositories.is_of(watched, folder):
                _accept(app, watched)


def _accept(app: App, watched: WatchedRepository) -> None:
    with app.database.transaction(write=False) as transaction:
        before = incidents.get_watched(transaction, place=watched.place)
        open_ones = incidents.of_place(transaction, place=watched.place)
    if before.version and (before.facts.get("busy") or open_ones):
        now = _with_snapshot(app, watched, repositories.facts(app, watched, before.facts))
        fixed = [one.id for one in open_ones if repositories.is_fixed(watched, one.fixed, now)]
        _remember(app, watched, before, Inspection(now, [], fixed))


def has_board(app: App) -> bool:
    """Whether the relay was ever used here: a light command opens and makes nothing."""
    if app.settings.get("HANDOFF_DATABASE_URL"):
        return True
    return os.path.exists(os.path.join(app.settings.home, "handoff.db"))


def _look_at(app: App, watched: WatchedRepository) -> int:
    with app.database.transaction(write=False) as transaction:
        before = incidents.get_watched(transaction, place=watched.place)
        open_ones = incidents.of_place(transaction, place=watched.place)
    known = watched.busy or before.facts.get("busy") or open_ones
    if not (known or repositories.missing_batches(app, watched.name)):
        return 0  # the person is alone here, and may do whatever they like
    now = repositories.facts(app, watched, before.facts)
    if {**now, "snapshot": ""} == {**before.facts, "snapshot": ""}:
        return 0
    now = _with_snapshot(app, watched, now)
    return _remember(app, watched, before, _compared(app, watched, before.facts, now, open_ones))


def _compared(
    app: App, watched: WatchedRepository, before: dict[str, Any], now: dict[str, Any], open_ones: Sequence[Incident]
) -> Inspection:
    ours = repositories.our_moves(watched, before, now) | repositories.lost_races(app, before, now)
    fixed, resolved = [], set()
    for incident in open_ones:
        if repositories.is_fixed(watched, incident.fixed, now):
            fixed.append(incident.id)
            resolved.add((incident.kind, str(incident.evidence.get("subject", ""))))
            if "ref" in incident.fixed:
                ours.add((incident.fixed["ref"], now["refs"].get(incident.fixed["ref"], "")))
    if not before.get("busy"):
        return Inspection(now, repositories.wiped_batches(watched, before, now), fixed)  # else the person was alone
    snapshot = before.get("snapshot", "")
    findings = tampering.compare(watched.store, watched.source, before, now, snapshot=snapshot, ours=ours)
    findings += repositories.strange_commits(watched, before, now)
    findings += repositories.find_injected(watched.workspaces, watched.source.top, before, now)
    findings += repositories.find_vanished(app, watched, before, now)
    return Inspection(now, [one for one in findings if (one.kind, one.subject) not in resolved], fixed)


def _with_snapshot(app: App, watched: WatchedRepository, now: dict[str, Any]) -> dict[str, Any]:
    """The facts as they are after a snapshot that holds exactly these: what goes wrong next can be brought back from it."""
    for _ in range(_TRIES):
        kept = repositories.keep(app, watched)
        again = repositories.facts(app, watched, now)
        if again == now:
            break
        now = again
    return {**now, "snapshot": kept}


def _remember(app: App, watched: WatchedRepository, before: Watched, seen: Inspection) -> int:
    with app.database.transaction() as transaction:
        if not incidents.put_watched(transaction, place=watched.place, before=before, facts=seen.now):
            return 0  # another look was quicker: its findings are told
        for name in seen.fixed:
            incidents.resolve(transaction, id=name, how=incidents.FIXED)
        return incidents.tell(transaction, [_report(watched, before, one) for one in seen.findings])


def _report(watched: WatchedRepository, before: Watched, finding: Tampering) -> IncidentReport:
    return incidents.IncidentReport(
        mark="\0".join((watched.place, str(before.version), finding.kind, finding.subject)),
        kind=finding.kind,
        what=finding.what,
        fix=shlex.join(finding.fix),
        project=watched.name,
        session=finding.session,
        place=watched.place,
        evidence={**finding.evidence, "subject": finding.subject, "at_work": list(watched.at_work)},
        fixed=finding.fixed,
    )


# --- for people ----------------------------------------------------------------------------------------------


def listing(app: App, *, project: str = "", session: str = "", include_ended: bool = False) -> list[Incident]:
    """The incidents nobody has resolved, or all of them."""
    return incidents.listing(app.database, project=project, session=session, include_ended=include_ended)


def of_session(app: App, *, session: str) -> list[Incident]:
    """What nobody has resolved and this session did, or what happened while it was at work; what a guard refused did no harm."""
    found = incidents.listing(app.database)
    mine = [one for one in found if session == one.session or session in one.evidence.get("at_work", ())]
    return [one for one in mine if one.kind != incidents.REFUSED]


def see(app: App, *, ids: Sequence[str]) -> list[Incident]:
    """A person has taken note of these."""
    found = [incidents.find(app.database, id=one) for one in ids]
    with app.database.transaction() as transaction:
        for incident in found:
            incidents.resolve(transaction, id=incident.id, how=incidents.SEEN)
    return found


def find(app: App, *, id: str) -> Incident:
    """One incident."""
    return incidents.find(app.database, id=id)


# What guards wrote down while they refused: the lines of their guard logs become incidents, each exactly once.


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
        told += _take_log(app, path, project, session)
    return told


def _guard_logs(home: str, workspaces: Mapping[str, Sequence[Workspace]]) -> Iterator[tuple[str, str, str]]:
    """The guard log of the home, and of each clone; of a clone only what its session says about itself is believed."""
    yield os.path.join(home, "guard", GUARD_LOG), "", ""
    for folder, found in workspaces.items():
        for one in found:
            if one.kind == CLONE and one.state == READY:
                yield os.path.join(one.tree, ".git", INSIDE), os.path.basename(folder), one.session or one.name


def _take_log(app: App, path: str, project: str, session: str) -> int:
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
        report = _refusal_report(line, (place, f"{before.version}:{offset}"), project, session)
        if report is not None:
            reports.append(report)
        offset += len(line) + 1
    with app.database.transaction() as transaction:
        if not incidents.put_watched(transaction, place=place, before=before, facts={"inode": inode, "at": at + end}):
            return 0
        return incidents.tell(transaction, reports)


def _refusal_report(line: bytes, where: tuple[str, str], project: str, session: str) -> IncidentReport | None:
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

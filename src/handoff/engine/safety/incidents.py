"""Incidents as a journey: guards' refusals and the watcher's findings become events with evidence and a way to mend."""

from __future__ import annotations

import os
import shlex
from contextlib import contextmanager

from handoff.base.errors import HandoffError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.events import incidents
from handoff.engine.safety import detectors as grounds
from handoff.engine.safety.guard_log import take_spools
from handoff.git import tampering

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from handoff.board.events.incidents import Incident, Report, Watched
    from handoff.engine.app import App
    from handoff.engine.safety.detectors import Ground
    from handoff.git.tampering import Finding

_TRIES = 3


class Seen(Record):
    """One look at a ground: what it is like now, and what is wrong with it."""

    now: dict[str, Any]
    findings: list[Finding]
    mended: list[str]


def look(app: App) -> int:
    """Take the guards' spools in and look at every repository somebody works on; how many incidents are new."""
    told = take_spools(app)
    for ground in grounds.all_grounds(app):
        try:
            told += _look_at(app, ground)
        except (HandoffError, OSError):
            continue  # a repository that cannot be read at this moment is looked at in the next round
    return told


@contextmanager
def ours(app: App, *, folder: str) -> Iterator[None]:
    """Inside, handoff itself changes a repository at a person's word: that is no incident, and mends some."""
    if not has_board(app):
        yield
        return
    for ground in grounds.all_grounds(app):
        if grounds.is_of(ground, folder):
            _look_at(app, ground)
    yield
    for ground in grounds.all_grounds(app):
        if grounds.is_of(ground, folder):
            _accept(app, ground)


def accept(app: App, *, folder: str) -> None:
    """What handoff itself just did is no incident: go on from how it is now."""
    if has_board(app):
        for ground in grounds.all_grounds(app):
            if grounds.is_of(ground, folder):
                _accept(app, ground)


def _accept(app: App, ground: Ground) -> None:
    with app.database.transaction(write=False) as transaction:
        before = incidents.watched(transaction, place=ground.place)
        open_ones = incidents.of_place(transaction, place=ground.place)
    if before.version and (before.facts.get("busy") or open_ones):
        now = _with_snapshot(app, ground, before)
        mended = [one.id for one in open_ones if grounds.is_mended(ground, one.mended, now)]
        _remember(app, ground, before, Seen(now, [], mended))


def has_board(app: App) -> bool:
    """Whether the relay was ever used here: a light command opens and makes nothing."""
    if app.settings.get("HANDOFF_DATABASE_URL"):
        return True
    return os.path.exists(os.path.join(app.settings.home, "handoff.db"))


def _look_at(app: App, ground: Ground) -> int:
    with app.database.transaction(write=False) as transaction:
        before = incidents.watched(transaction, place=ground.place)
        open_ones = incidents.of_place(transaction, place=ground.place)
    if not (ground.busy or before.facts.get("busy") or open_ones):
        return 0  # the person is alone here, and may do whatever they like
    now = grounds.facts(app, ground, before.facts)
    if {**now, "snapshot": ""} == {**before.facts, "snapshot": ""}:
        return 0
    seen = _compared(app, ground, before.facts, now, open_ones)
    now = _with_snapshot(app, ground, before)
    return _remember(app, ground, before, seen._replace(now=now))


def _compared(
    app: App, ground: Ground, before: dict[str, Any], now: dict[str, Any], open_ones: Sequence[Incident]
) -> Seen:
    ours = grounds.our_moves(ground, before, now)
    mended, settled = [], set()
    for incident in open_ones:
        if grounds.is_mended(ground, incident.mended, now):
            mended.append(incident.id)
            settled.add((incident.kind, str(incident.evidence.get("subject", ""))))
            if "ref" in incident.mended:
                ours.add((incident.mended["ref"], now["refs"].get(incident.mended["ref"], "")))
    if not before.get("busy"):
        return Seen(now, [], mended)  # whatever changed, the person was alone
    findings = tampering.compare(
        ground.vault.store, ground.vault.place.source, before, now, snapshot=before.get("snapshot", ""), ours=ours
    )
    findings += grounds.strange_commits(ground, before, now)
    findings += grounds.vanished(app, ground, before, now)
    return Seen(now, [one for one in findings if (one.kind, one.subject) not in settled], mended)


def _with_snapshot(app: App, ground: Ground, before: Watched) -> dict[str, Any]:
    """The facts, and a snapshot that holds exactly these: what goes wrong next can be brought back from it."""
    now = grounds.facts(app, ground, before.facts)
    for _ in range(_TRIES):
        kept = grounds.keep(app, ground)
        again = grounds.facts(app, ground, now)
        if again == now:
            break
        now = again
    return {**now, "snapshot": kept}


def _remember(app: App, ground: Ground, before: Watched, seen: Seen) -> int:
    with app.database.transaction() as transaction:
        if not incidents.put_watched(transaction, place=ground.place, before=before, facts=seen.now):
            return 0  # another look was quicker: its findings are told
        for name in seen.mended:
            incidents.settle(transaction, id=name, how=incidents.MENDED)
        return incidents.tell(transaction, [_report(ground, before, one) for one in seen.findings])


def _report(ground: Ground, before: Watched, finding: Finding) -> Report:
    return incidents.Report(
        "\0".join((ground.place, str(before.version), finding.kind, finding.subject)), finding.kind, finding.what,
        shlex.join(finding.mend), ground.name, finding.session, ground.place,
        evidence={**finding.evidence, "subject": finding.subject, "at_work": list(ground.at_work)},
        mended=finding.mended,
    )  # fmt: skip


# --- for people ----------------------------------------------------------------------------------------------


def listing(app: App, *, project: str = "", session: str = "", every: bool = False) -> list[Incident]:
    """The incidents nobody has settled, or all of them."""
    return incidents.listing(app.database, project=project, session=session, every=every)


def see(app: App, *, ids: Sequence[str]) -> list[Incident]:
    """A person has taken note of these."""
    found = [incidents.find(app.database, id=one) for one in ids]
    with app.database.transaction() as transaction:
        for incident in found:
            incidents.settle(transaction, id=incident.id, how=incidents.SEEN)
    return found


def find(app: App, *, id: str) -> Incident:  # noqa: A002 - the word people use
    """One incident."""
    return incidents.find(app.database, id=id)

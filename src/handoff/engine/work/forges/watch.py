"""Requests under way, looked at with one question for all of a checkout, and what we say on a forge; quiet while nothing is open."""

from __future__ import annotations

import os
from itertools import groupby

from handoff.base.errors import HandoffError
from handoff.base.record import TYPE_CHECKING
from handoff.board import forges as rows
from handoff.board.events import journal
from handoff.board.tasks import states, tasks
from handoff.engine.work.forges import issues, opening, requests
from handoff.engine.work.forges.opening import alone, forge_of
from handoff.forges import contract
from handoff.forges.catalog import with_mark
from handoff.forges.contract import ForgeComment
from handoff.git.plumbing.checkout import git

if TYPE_CHECKING:
    from typing import Any

    from handoff.board.forges import Remark, TrackedRequest
    from handoff.engine.app import App
    from handoff.forges.contract import Forge, ForgeRequest

_OPENING_SECONDS = 150.0
_MOST_COMMENTS = 50
_LOG_SHOWN = 6000


def look(app: App) -> list[str]:
    """One look at every issue and request of this host, and what follows from it; what went wrong, for the person.

    May be called by whoever hears of news (a webhook): what is done twice is found done.
    """
    with alone(app):
        troubles = issues.look(app)
        live = [one for one in rows.live_requests(app.database, host=app.settings.host) if os.path.isdir(one.folder)]
        for folder, group in groupby(sorted(live, key=lambda one: (one.folder, one.key)), key=lambda one: one.folder):
            try:
                _look_at_all(app, forge_of(app, folder), list(group))
            except HandoffError as error:
                troubles.append(f"{error.message} {error.hint}")
        troubles += issues.look(app) if live else []
        return [*dict.fromkeys([*troubles, *deliver(app)])]


def note_failure(app: App, error: HandoffError, *, project: str, whose: str) -> None:
    """Tell in the journal that what a forge delivered could not be followed."""
    with app.database.transaction() as transaction:
        text = f"{error.message} {error.hint}"
        journal.append(transaction, "hook.failed", project=project, session=whose, text=text)


def _look_at_all(app: App, forge: Forge, group: list[TrackedRequest]) -> None:
    seen = {one.branch: one for one in forge.requests()}
    words = ("for-each-ref", "--format=%(refname) %(objectname)", "refs/heads/pr/")
    listed = git(group[0].folder, *words, environment=app.git_environment).text
    tips = dict(line.split(" ", 1) for line in listed.splitlines())
    troubles = []
    for request in group:
        if _is_quiet(request, seen.get(request.branch), tips.get(request.ref, "")):
            continue
        try:
            _look_at(app, forge, request, seen.get(request.branch))
        except HandoffError as error:
            troubles.append(error)
    if troubles:
        raise troubles[0]


def _is_quiet(request: TrackedRequest, seen: ForgeRequest | None, tip: str) -> bool:
    """Whether nothing has changed since the last look: most requests wait for people most of the time."""
    if seen is None or request.state != rows.OPEN or seen.conflicts or seen.checks == contract.RED:
        return False
    facts, known = request.facts, (request.checks, request.review, request.head, tip, request.facts.get("updated"))
    waits = facts.get("restack") or facts.get("answers") or facts.get("trouble")
    return not waits and known == (seen.checks, seen.review, seen.head, seen.head, seen.updated)


def _look_at(app: App, forge: Forge, request: TrackedRequest, seen: ForgeRequest | None) -> None:
    """What the forge says of one request, and the next thing to do about it."""
    if request.state == rows.OPENING:
        if seen is None:
            _open_again(app, request)
            return
        request = _known(app, request, seen)
    if seen is None:
        seen = forge.request(request.number)
    if seen.state == contract.MERGED:
        requests.land_merged(app, request, seen)
        return
    if seen.state == contract.CLOSED:
        requests.take_back(app, request)
        return
    request = _known(app, request, seen)
    if request.facts.get("restack"):
        request = _restack(app, forge, request)
    request = _in_step(app, request, seen)
    request = requests.answer(app, request)
    if seen.head == request.head and requests.is_idle(app, request) and not request.facts.get("trouble"):
        _mend(app, forge, request, seen)


def _known(app: App, request: TrackedRequest, seen: ForgeRequest) -> TrackedRequest:
    values: dict[str, Any] = {
        "number": seen.number,
        "url": seen.url,
        "state": rows.OPEN,
        "checks": seen.checks,
        "review": seen.review,
    }
    if all(getattr(request, name) == value for name, value in values.items()):
        return request
    with app.database.transaction() as transaction:
        return rows.put_request(transaction, request._replace(**values))


def _open_again(app: App, request: TrackedRequest) -> None:
    """Whoever was opening it died: it is not there, so it is opened now. Somebody may still be at it."""
    if app.clock.now() - request.made_at < _OPENING_SECONDS:
        return
    opened = opening.open_again(app, request)
    if not opened.url:
        rows.drop_request(app.database, key=request.key)
        app.notes.append(f"The request {request.branch} could not be opened: {opened.said}. {opened.line}")


def _in_step(app: App, request: TrackedRequest, seen: ForgeRequest) -> TrackedRequest:
    """The branch here and there hold the same: what was made here is pushed, what was pushed by others is followed."""
    tip = requests.tip_of(app, request)
    if tip == seen.head:
        return request if request.head == tip else requests.note_push(app, request, tip)
    if seen.head == request.head:
        return requests.push(app, request, tip) if tip else request
    if tip == request.head or not tip:
        return requests.follow(app, request, seen.head)
    return requests.push(app, request, tip)  # ours holds theirs, or the push is refused and says so


def _restack(app: App, forge: Forge, request: TrackedRequest) -> TrackedRequest:
    """The request below was merged: this one stands on its base from now on."""
    plan = request.facts["restack"]
    if not requests.is_idle(app, request):
        return request
    settled = request.facts.get("conflict", ())
    request, left = requests.bring_up(app, request, base=plan["base"], ancestor=plan["ancestor"], settled=settled)
    if left:
        return requests.mend(app, request, reason=requests.words_of_conflict(plan["base"], left), conflict=left)
    forge.retarget(request.number, plan["base"])
    with app.database.transaction() as transaction:
        return rows.put_request(transaction, request._replace(base=plan["base"]), restack=None, conflict=[])


def _mend(app: App, forge: Forge, request: TrackedRequest, seen: ForgeRequest) -> None:
    """News that ask for work: a conflict, a red check, comments. All of them at once, for one session."""
    if seen.conflicts:
        settled = request.facts.get("conflict", ())
        request, left = requests.bring_up(app, request, base=request.base, settled=settled)
        if left:
            reason = requests.words_of_conflict(request.base, left)
            requests.mend(app, request, reason=reason, conflict=left, failure=f"conflict {' '.join(left)}"[:200])
        elif requests.tip_of(app, request) != request.head:
            requests.push(app, request, requests.tip_of(app, request))
        return
    said, updated = _new_comments(app, forge, request, seen)
    red = seen.checks == contract.RED and not _was_left(app, request)
    if red:
        log = requests.log_of(app, forge, seen)
        names = [check.name for check in seen.failed]
        reason = f"The check {', '.join(names)} of {request.url} is red on {seen.head[:10]}."
        failure = requests.fingerprint(names, log)
        requests.mend(app, request, reason=reason, log=log[-_LOG_SHOWN:], failure=failure, said=said, **updated)
    elif said:
        reason = f"Reviewers of {request.url} wrote on its lines."
        requests.mend(app, request, reason=reason, said=said, **updated)
    elif updated:
        with app.database.transaction() as transaction:
            rows.put_request(transaction, request, **updated)


def _was_left(app: App, request: TrackedRequest) -> bool:
    """Whether the person ended what was to mend it."""
    task = tasks.look_up(app.database, key=request.task or 0)
    return task is not None and task.state == states.CANCELLED


def _new_comments(
    app: App, forge: Forge, request: TrackedRequest, seen: ForgeRequest
) -> tuple[list[contract.ForgeComment], dict[str, Any]]:
    """What reviewers with write access wrote since; the rest is shown. Asked for only where the forge says that something changed."""
    if seen.updated and seen.updated == request.facts.get("updated"):
        return [], {}
    known = set(request.facts.get("seen", ()))
    lines = forge.reviews(request.number)
    on_lines = {one.id for one in lines}
    below = [one for one in forge.comments(request.number, request=True) if one.id not in on_lines]
    new = [one for one in (*lines, *below) if one.id not in known and not one.is_ours][:_MOST_COMMENTS]
    writers = {name: forge.may_write(name) for name in dict.fromkeys(one.author for one in new)}
    followed = [one for one in new if one.id in on_lines and writers[one.author]]
    facts = {"seen": [*known, *(one.id for one in new)], "updated": seen.updated}
    shown = [one for one in new if one not in followed]
    if shown:
        requests.show(app, request, shown)
        with app.database.transaction() as transaction:  # shown once, whatever becomes of the rest
            rows.put_request(transaction, request, seen=[*known, *(one.id for one in shown)])
    return followed, facts


# --- what we say there, once: the row is there before the words are, and a mark in the words says that th ---


def deliver(app: App) -> list[str]:
    """Say what is to be said from this host; what went wrong, for the person."""
    troubles: dict[str, str] = {}
    for remark in rows.unsaid(app.database, host=app.settings.host):
        if remark.folder in troubles:
            continue  # in order: what comes later waits too
        try:
            _say(forge_of(app, remark.folder), app, remark)
        except HandoffError as error:
            troubles[remark.folder] = f"{error.message} {error.hint}"
    return list(troubles.values())


def _say(forge: Forge, app: App, remark: Remark) -> None:
    """Somebody may have died between the words and their row: who finds it tried looks on the forge first."""
    if remark.state == rows.TRIED and _is_there(forge, remark):
        rows.note_said(app.database, remark, state=rows.DONE)
        return
    rows.note_said(app.database, remark, state=rows.TRIED)
    text = with_mark(remark.text, remark.marker)
    if remark.verb == rows.CLOSE:
        forge.close_issue(remark.number)
    elif remark.verb == rows.REPLY:
        forge.reply(remark.number, ForgeComment(id="", author="", body="", thread=remark.thread), text)
    else:
        forge.comment(remark.number, text, request=remark.verb == rows.ON_REQUEST)
    rows.note_said(app.database, remark, state=rows.DONE)


def _is_there(forge: Forge, remark: Remark) -> bool:
    if remark.verb == rows.CLOSE:
        return not forge.issue(remark.number).open
    request = remark.verb in (rows.ON_REQUEST, rows.REPLY)
    found = forge.comments(remark.number, request=request)
    found += forge.reviews(remark.number) if remark.verb == rows.REPLY else []
    return any(f"handoff:{remark.marker} " in one.body for one in found)

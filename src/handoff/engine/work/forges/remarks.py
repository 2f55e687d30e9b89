"""What we say on a forge, once: the row is there before the words are, and a mark in the words says that they are there."""

from __future__ import annotations

from handoff.base.errors import HandoffError
from handoff.base.record import TYPE_CHECKING
from handoff.board import forges as rows
from handoff.engine.work.forges.connecting import forge_of
from handoff.forges.catalog import with_mark
from handoff.forges.contract import ForgeComment

if TYPE_CHECKING:
    from handoff.board.forges import Remark
    from handoff.engine.app import App
    from handoff.forges.contract import Forge


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

"""A person's own client, with our hooks in its settings: the task claimed in its folder is kept alive, fenced, and never lost unsaid."""

from __future__ import annotations

import os
from binascii import crc32

from handoff.agents.dialects import AFTER, EDIT, END, START, STOP, HookAnswer
from handoff.base.errors import Conflict, HandoffError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.base.settings import PROJECT_FOLDER
from handoff.board.sessions import leases
from handoff.board.tasks import states, tasks
from handoff.engine.session import claims
from handoff.engine.session.hooks import place_in, whose

if TYPE_CHECKING:
    from handoff.agents.dialects import Call
    from handoff.board.tasks.tasks import Task
    from handoff.engine.app import App
    from handoff.engine.session.claims import LocalClaim

_NOTHING = HookAnswer()
_RENEW_SECONDS = 10.0
"""A sign of life that is younger is enough: a client calls many times in a second."""
_SHOWN = 10
_MOST_MARKS = 200


class ClaimedTask(Record):
    """A claim of this folder and its task; `lost` says in words who has it instead."""

    claim: LocalClaim
    task: Task
    lost: str = ""


def answer(app: App, call: Call) -> HookAnswer:
    """The answer to one call of a client that a person started; its end is no sign of life, and before a tool was one."""
    if call.event in (AFTER, END):
        return _NOTHING
    held = [one for claim in claims.nearest(app) if (one := _alive(app, claim)) is not None]
    if not held:
        return _feature(app, call) if call.event == START else _NOTHING
    lost = [one for one in held if one.lost]
    if lost and (call.event == START or not all(one.claim.told for one in lost)):
        return _tell(app, call, lost)
    if call.event == START:
        return HookAnswer(context="\n\n".join(text for one in held if (text := _baton(app, one.task))))
    return _edit(app, call, held) if call.event == EDIT else _NOTHING


# --- whose the task is -----------------------------------------------------------------------------------


def _alive(app: App, claim: LocalClaim) -> ClaimedTask | None:
    """A sign of life for the claim. Several claims of one folder that cannot be told apart are all kept alive: an idle
    one is held too long then, which is better than that one at work is lost."""
    with app.database.transaction(write=False) as transaction:
        task, now = tasks.look_up(transaction, key=claim.key), transaction.lease_now()
    if task is None or (task.project, task.label) != (claim.project, claim.task):
        return None  # forgotten long ago, or claimed in another database than the one this client is told of
    mine = task.state == states.RUNNING and task.fence == claim.fence and task.held_by == claim.session
    if mine and (task.lease_until or 0.0) - now > task.lease_seconds - min(_RENEW_SECONDS, task.lease_seconds / 4):
        return ClaimedTask(claim, task)
    try:
        return ClaimedTask(claim, leases.heartbeat(app.database, key=claim.key, fence=claim.fence))
    except Conflict as error:
        if claim.told and task.ended:
            claims.drop(app, claim.session)
            return None
        return ClaimedTask(claim, task, error.message)


def _tell(app: App, call: Call, lost: list[ClaimedTask]) -> HookAnswer:
    """Say it once, by a refusal, because that is what a model reads; a client that stops is only let go."""
    if call.event == STOP:
        return _NOTHING
    words = []
    for one in lost:
        words.append(f"handoff: {one.lost} Stop working on it; see: {app.settings.program} show {one.task.label}.")
        if one.task.ended:
            claims.drop(app, one.claim.session)
        else:
            claims.keep(app, one.claim._replace(told=1))
    text = " ".join(words)
    return HookAnswer(context=text) if call.event == START else HookAnswer(refusal=text)


def _baton(app: App, task: Task) -> str:
    from handoff.engine.place.baton import for_holder

    return for_holder(app, task)


def _feature(app: App, call: Call) -> HookAnswer:
    """The active feature's continue prompt, with what was said in the conversation before; nothing where none is ready."""
    from handoff.engine.features import status

    try:
        if status.workspace_of(app) is None:
            return _NOTHING
        from handoff.engine.features import prompts

        return HookAnswer(
            context=prompts.build(app, kind="continue", record=True, caller=(call.client, call.talk)).text
        )
    except HandoffError:
        return _NOTHING


# --- edits -----------------------------------------------------------------------------------------------


def _edit(app: App, call: Call, held: list[ClaimedTask]) -> HookAnswer:
    """An edit nobody who works here owns is refused, then put to the person; so is one in a task lost to another session."""
    mine = [one for one in held if not one.lost]
    for path in call.paths:
        whole = os.path.join(call.folder, os.path.expanduser(path))
        if any(_may(one, whole) for one in mine):
            continue
        taken = next((one for one in held if one.lost and one.task.patterns and _may(one, whole)), None)
        if taken is not None:
            words = f"handoff: {path} belongs to another session now. {taken.lost}"
            return _refuse_first(app, call, taken.claim, whole, words)
        if mine and (words := _foreign(app, mine, whole, path)):
            return _refuse_first(app, call, mine[0].claim, whole, words)
    return _NOTHING


def _refuse_first(app: App, call: Call, claim: LocalClaim, path: str, words: str) -> HookAnswer:
    """A refusal is what a model reads and tells its person; the dialogue about an edit shows no reason, so it comes second."""
    if not call.asks:
        return HookAnswer(refusal=words)
    mark, marks = f"{crc32(os.fsencode(path)):08x}", claim.asked.split()
    if mark in marks:
        return HookAnswer(question=words)
    claims.keep(app, claim._replace(asked=" ".join([*marks, mark][-_MOST_MARKS:])))
    return HookAnswer(
        refusal=f"{words}. If your person wants it all the same, try once more: the client asks them then."
    )


def _may(held: ClaimedTask, path: str) -> bool:
    inside = place_in(held.claim.workspace, path)
    if inside is None:
        return False
    if inside.partition("/")[0] == PROJECT_FOLDER or not held.task.patterns:
        return True
    from handoff.git.ownership import Ownership

    return Ownership.parse(held.task.patterns).covers(inside)


def _foreign(app: App, mine: list[ClaimedTask], whole: str, path: str) -> str:
    """What the person is asked; nothing for a file of no checkout, such as the client's own notes."""
    from handoff.git.plumbing import find_top

    inside = place_in(mine[0].claim.workspace, whole)
    if inside is None and find_top(os.path.dirname(os.path.realpath(whole))) is None:
        return ""
    label = ", ".join(f"'{one.task.label}'" for one in mine)
    patterns = [pattern for one in mine for pattern in one.task.patterns]
    owned = ", ".join(patterns[:_SHOWN]) + (" ..." if len(patterns) > _SHOWN else "")
    keys = tuple(one.task.key for one in mine)
    owner = whose(app, mine[0].claim.project, keys, inside) if inside else "It is in another checkout."
    return (
        f"handoff: {path} is outside of what task {label} owns ({owned}). {owner} "
        f"Ask your person: they let it pass at the end, in a terminal of their own, with"
        f" {app.settings.program} task done {mine[0].task.label} --accept-outside REASON"
    )

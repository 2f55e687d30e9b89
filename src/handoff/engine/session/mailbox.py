"""What a person says to a session that runs: a line of the journal, given once by the client's next hook, with how far it got.

A file in the home says that words wait, so that a hook which finds none opens no database. It is written after the line and
kept until the line was read; whoever dies in between leaves words that come later, at the session's stop or in the next baton.
"""

from __future__ import annotations

import os
from contextlib import suppress

from handoff.agents.dialects import AFTER, COMPACT, GIVEN, OPENED, SAID, SHORTENED, START, STOP, HookAnswer
from handoff.base.files import make_folder, read_text, remove, write_atomic
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.events import journal
from handoff.board.tasks import tasks
from handoff.engine.session import claims
from handoff.engine.session.hooks import read_permissions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from handoff.agents.dialects import Call
    from handoff.board.events.journal import HeardWords
    from handoff.board.tasks.tasks import Task
    from handoff.engine.app import App


class Receipt(Record):
    """Words that stand in an answer to a session: which lines of the journal, and of what."""

    session: str
    since: int
    until: int
    key: int
    project: str


class _Box(Record):
    """A session that a call may be of; one that holds no task has a project instead."""

    session: str
    key: int = 0
    fence: int = 0
    project: str = ""


def mark(home: str, session: str, project: str) -> None:
    """Words wait for a session: its next hook looks for them."""
    folder = os.path.join(home, SAID)
    make_folder(folder, mode=0o700)
    write_atomic(os.path.join(folder, session), project, mode=0o600, sync=False)


def empty(app: App, call: Call, said: HookAnswer, waiting: Sequence[str]) -> tuple[HookAnswer, list[Receipt]]:
    """The answer to a call with what waits for its session, and what that answer gives it; earlier words are seen now."""
    words: list[str] = []
    given: list[Receipt] = []
    for box in _boxes(app, call, waiting):
        if box.session + GIVEN in waiting and call.event != START:  # before its model has answered it has seen nothing
            _note_seen(app, box.session)
        if call.event not in (AFTER, STOP):
            continue
        if call.event == AFTER and box.session + SHORTENED in waiting:
            permissions = read_permissions(app)
            baton = os.path.join(permissions.folder, "baton.md") if permissions is not None else ""
            remove(os.path.join(app.settings.home, SAID, box.session + SHORTENED))
            words += [read_text(baton)] if os.path.isfile(baton) else []
        heard = _open(app, box)
        if heard.told:
            words.append(_in_words(heard))
            given.append(Receipt(box.session, heard.since, heard.until, box.key, box.project))
    if not words:
        return said, given
    text = "\n\n".join(words)
    if call.event == STOP:  # a stop that is refused is the one way in which its answer reaches the model
        return said._replace(refusal="\n\n".join(filter(None, (text, said.refusal)))), given
    return said._replace(context=text), given


def note_shortened(app: App, call: Call, session: str) -> None:
    """A client that shortens its conversation loses the baton: it is given again at its new start, or after its next tool call."""
    place = os.path.join(app.settings.home, SAID, session + SHORTENED)
    if call.event == COMPACT:
        make_folder(os.path.dirname(place), mode=0o700)
        write_atomic(place, "", mode=0o600, sync=False)
    elif call.event == START:
        remove(place)


def leave_receipts(home: str, given: Sequence[Receipt]) -> None:
    """The client has the answer: the next thing it does shows that it went on with it."""
    make_folder(os.path.join(home, SAID), mode=0o700)
    for one in given:
        text = f"{one.since}\n{one.until}\n{one.key}\n{one.project}"
        write_atomic(os.path.join(home, SAID, one.session + GIVEN), text, mode=0o600, sync=False)


def leave_receipt_of_baton(app: App, task: Task, session: str) -> None:
    """A session begins with what its person said before: its first tool call shows that it went on with that."""
    given = [
        one.seq
        for one in journal.messages(journal.of_task(app.database, key=task.key))
        if (one.state, one.session) == (journal.DELIVERED, session)
    ]
    if given:
        leave_receipts(app.settings.home, [Receipt(session, given[0], given[-1], task.key, task.project)])


def _boxes(app: App, call: Call, waiting: Sequence[str]) -> list[_Box]:
    """Whom the call is of: our own session, or the client's and the claims of its folder, as far as words wait for them."""
    permissions = read_permissions(app)
    if permissions is not None:
        return [_Box(os.path.basename(permissions.folder), permissions.key, permissions.fence)]
    names = {name.partition(".")[0] for name in waiting}
    found = [_Box(one.session, one.key, one.fence) for one in claims.nearest(app) if one.session in names]
    if call.talk in names:
        found.append(_Box(call.talk, project=_read(app, call.talk) or _read(app, call.talk + OPENED)))
    return found


def _open(app: App, box: _Box) -> HeardWords:
    """What it has not heard. The mark is put aside first and removed last: a word that comes meanwhile makes a new one."""
    place = os.path.join(app.settings.home, SAID, box.session)
    with suppress(OSError):  # a hook that died had put it aside, or a stop looks without one
        os.rename(place, place + OPENED)
    # What is said to whoever has the task now is not for whoever had it.
    task = claims.held_task(app, key=box.key, session=box.session, fence=box.fence) if box.key else None
    heard = journal.HeardWords()
    if task is not None or box.project:
        heard = journal.hear(app.database, session=box.session, task=task, project=box.project)
    remove(place + OPENED)
    return heard


def _note_seen(app: App, session: str) -> None:
    """Whoever takes the receipt away writes the line."""
    since, until, key, project = (_read(app, session + GIVEN).split("\n") + [""] * 4)[:4]
    try:
        os.unlink(os.path.join(app.settings.home, SAID, session + GIVEN))
    except OSError:
        return
    if not (since.isdigit() and until.isdigit()):
        return
    task = tasks.look_up(app.database, key=int(key)) if key.isdigit() and int(key) else None
    with app.database.transaction() as transaction:
        said = {"since": int(since), "until": int(until)}
        journal.append(transaction, journal.SAW, task=task, project=project, session=session, **said)


def _in_words(heard: HeardWords) -> str:
    """The words as the model reads them: the person's are quoted and named as theirs, whatever they say."""
    mine = [one.removeprefix(journal.PERSON_SAYS) for one in heard.told if one.startswith(journal.PERSON_SAYS)]
    others = [f"handoff: {one}" for one in heard.told if not one.startswith(journal.PERSON_SAYS)]
    if not mine:
        return "\n".join(others)
    quoted = "\n>\n".join("\n".join(f"> {line}" for line in text.split("\n")) for text in mine)
    head = "handoff: the person you work for says this to you now, word for word:"
    tail = "Mind it from here on. Where it differs from earlier instructions, it holds."
    return "\n\n".join([head, quoted, tail, *others])


def _read(app: App, name: str) -> str:
    try:
        with open(os.path.join(app.settings.home, SAID, name), encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""

"""Take a session over that any client has written into its own store, also one that never heard of handoff."""

from __future__ import annotations

import os

from handoff.agents.by_hand import BY_HAND, start_words
from handoff.agents.history.facts import facts as facts_of
from handoff.agents.history.sessions import looked_at, stored_sessions
from handoff.agents.history.stores.table import ALIVE, COPY, STORES, StoredSession, read_entries, refuse_unfit
from handoff.base.clock import age
from handoff.base.errors import Conflict, UsageError, UserError
from handoff.base.markdown import number_of
from handoff.base.process import find
from handoff.base.record import TYPE_CHECKING, Record
from handoff.base.redaction import secret_values
from handoff.engine.work.handover import TOKENS, Origin, handover
from handoff.git.plumbing import checkout, find_top

if TYPE_CHECKING:
    from handoff.agents.history.facts import HistoryFacts
    from handoff.engine.app import App

_WORTH_READING = 10_000
"""Bytes of a record in which a person must have said something."""
_SHOWN = 30


class TakenSession(Record):
    """A session, what is known of it, and the text that hands it on."""

    session: StoredSession
    facts: HistoryFacts
    text: str
    warnings: tuple[str, ...] = ()


class Start(Record):
    """How the next agent is started."""

    agent: str
    title: str
    argv: list[str]
    native: bool
    """It goes on with its own session: nothing leaves for somebody else."""


def sessions_here(app: App, *, client: str = "", words: bool = True) -> list[StoredSession]:
    """The sessions of this folder over all clients, newest first; where it has none, those of the repository's top folder."""
    clients = (client,) if client else ()
    for folder in dict.fromkeys((app.settings.here, find_top(app.settings.here) or app.settings.here)):
        found = stored_sessions(folder, app.settings.environment, clients=clients)
        if found:
            return looked_at(found, now=app.clock.now(), words=words)
    return []


def choose(app: App, *, what: str) -> StoredSession:
    """The session that is meant: the newest here, the newest of a client, or one by its id or the beginning of it."""
    program = app.settings.program
    client = what if what in STORES else ""
    found = sessions_here(app, client=client, words=False)
    if what and not client:
        found = [one for one in found if one.id.startswith(what)]
        if len({(one.client, one.id) for one in found}) > 1:
            names = ", ".join(f"{one.client} {one.id}" for one in found[:5])
            raise UsageError(f"'{what}' is the beginning of several sessions: {names}.", "Write more of the id.")
    found = [one for one in found if one.state != COPY] or found
    if not found and what and not client:
        raise UserError(
            f"No client has a session '{what}' for this folder.",
            f"See them: {program} session list --clients. For a task of handoff's: {program} show {what}",
        )
    if not found:
        whose = BY_HAND[client].title if client else "No client"
        said = f"{whose} has no session of this folder" if client else "No client has a session of this folder"
        raise UserError(
            f"{said} ({os.path.realpath(app.settings.here)}).", "Go to the folder in which it worked, then try again."
        )
    return found[0]


def take(app: App, *, what: str = "", tokens: int = TOKENS) -> TakenSession:
    """Read a session and make the text that hands it on; the git state is asked for now."""
    session = choose(app, what=what)
    refuse_unfit(session)
    size = os.path.getsize(session.path)
    known = facts_of(read_entries(session), secrets=secret_values(app.settings.environment))
    if not (known.instructions or known.handed) and size > _WORTH_READING and session.client != "opencode":
        raise UserError(
            f"{session.path} ({size:,} bytes) holds nothing that a person said, as far as handoff can read it;"
            f" {number_of(sum(count for _, count in known.unread), 'row')} not understood.",
            f"Go on in {BY_HAND[session.client].title} itself, or take another: {app.settings.program} session list --clients",
        )
    warnings = []
    if session.state == ALIVE or os.path.getsize(session.path) != size:
        warnings.append(
            f"{BY_HAND[session.client].title} is still at work on this session: what it does from now on is not in the text."
        )
    if known.unread:
        rows = sum(count for _, count in known.unread)
        warnings.append(
            f"{number_of(rows, 'row')} of {session.path} not understood and left out: {', '.join(name for name, _ in known.unread[:5])}."
        )
    text = handover(known, _origin(app, session, known, warnings), tokens=tokens)
    return TakenSession(session, known, text, tuple(warnings))


def _origin(app: App, session: StoredSession, known: HistoryFacts, warnings: list[str]) -> Origin:
    title = BY_HAND[session.client].title
    return Origin(
        title=f"{title}, session {session.id}",
        folder=session.folder,
        home=app.settings.home,
        standing=tuple(_standing(app, session.folder, known)),
        limits=tuple(warnings[:1]) if session.state == ALIVE else (),
        more=f"{app.settings.program} take {session.id[:13]} --budget 8000" if known.instructions else "",
    )


def _standing(app: App, folder: str, known: HistoryFacts) -> list[str]:
    """Branch, commits and what is not committed, as git says at this moment."""
    found = checkout.facts(folder, environment=app.git_environment) if find_top(folder) else None
    if found is None:
        return ["The folder is no git repository: nothing but the files themselves says what has changed."]
    lines = [
        f"Branch {found.branch or '(none)'} at {found.short or '(no commit)'}"
        + (f"; the session was on {known.branch}" if known.branch not in ("", found.branch) else "")
    ]
    base = known.base or _newest_before(app, folder, known.began)
    if base and base != found.head:
        new = checkout.count(folder, f"{base}..HEAD", environment=app.git_environment)
        lines.append(
            f"The session began at {base[:10]}" + (f"; {number_of(new, 'commit')} since" if new is not None else "")
        )
    if not found.dirty:
        return [*lines, "Everything is committed."]
    rows = [f"{_how(found, path)} {path}" for path in found.dirty]
    more = f", and {len(rows) - _SHOWN} more" if len(rows) > _SHOWN else ""
    return [*lines, f"Not committed: {'; '.join(rows[:_SHOWN])}{more}"]


def _newest_before(app: App, folder: str, began: float) -> str:
    """The commit that was there when a session began of which the client kept none; empty where the record has no times."""
    words = ("rev-list", "-1", f"--min-age={int(began) - 1}", "HEAD", "--")
    answer = checkout.git(folder, *words, environment=app.git_environment) if began else None
    return answer.text.strip() if answer is not None and answer.code == 0 else ""


def _how(found: checkout.CheckoutFacts, path: str) -> str:
    if path in found.conflicted:
        return "conflict in"
    return (
        "new" if path in found.untracked else "changed" if os.path.lexists(os.path.join(found.top, path)) else "deleted"
    )


def plan_start(app: App, taken: TakenSession, *, agent: str, words: tuple[str, ...], terminal: bool) -> Start:
    """The words that start an agent with the text; the same client goes on with its own session."""
    if agent not in BY_HAND:
        raise UsageError(f"There is no client '{agent}' to hand over to.", f"Use one of: {', '.join(BY_HAND)}.")
    hand, session = BY_HAND[agent], taken.session
    if find(hand.first[0], path=app.settings.path) is None:
        raise UserError(
            f"{hand.title} is not installed: no '{hand.first[0]}' on the PATH.",
            f"Install it, or print the text: {app.settings.program} take",
        )
    if agent != session.client:
        return Start(
            agent,
            hand.title,
            start_words(hand.first if terminal else hand.alone, prompt=taken.text, more=words),
            native=False,
        )
    if session.state == ALIVE:
        raise Conflict(
            f"{hand.title} is still at work on session {session.id}: a second one would go on beside it, each blind to the other.",
            "End it there first, or hand it to another client.",
        )
    return Start(agent, hand.title, start_words(hand.again, session=session.id, more=words), native=True)


def contents(taken: TakenSession) -> str:
    """What the text holds, in one line for the person who lets it leave."""
    known = taken.facts
    counted = (
        (len(known.instructions), "instruction"), (len(known.rules), "rule"), (len(known.files), "file"), (len(known.runs), "command"),
        (len(known.red), "red result"), (len(known.dead_ends), "dead end"), (len(known.statements), "statement"),
    )  # fmt: skip
    return ", ".join(number_of(count, noun) for count, noun in counted if count)


def list_row(session: StoredSession, *, now: float) -> dict[str, object]:
    """A session as a row of the list."""
    return {"client": session.client, "id": session.id, "age": age(now - session.at), "state": session.trouble or session.state, "words": session.words,
            "folder": session.folder, "path": session.path, "at": session.at}  # fmt: skip

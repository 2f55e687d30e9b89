"""Sessions: who works, and which process on which host that is."""

from __future__ import annotations

from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.events import journal
from handoff.store.database import fetch_all, fetch_one

if TYPE_CHECKING:
    from handoff.store.database import Store, Transaction

PERSON, TAB, AGENT, SUPERVISOR = "person", "tab", "agent", "supervisor"
LIMIT = 1000


class SessionIdentity(Record):
    """How a session introduces itself. A process is (host, boot, pid, start): never a name, never a pid alone."""

    id: str
    kind: str = TAB
    project: str = ""
    agent: str = ""
    workspace: str = ""
    host: str = ""
    boot: str = ""
    pid: int = 0
    process_start: str = ""
    labels: tuple[str, ...] = ()


class Session(Record):
    """A session as the board knows it."""

    id: str
    kind: str
    project: str
    agent: str
    workspace: str
    host: str
    boot: str
    pid: int
    process_start: str
    task: int | None
    fence: int
    started_at: float
    seen_at: float
    ended_at: float | None
    ending: str


def register(store: Store, *, who: SessionIdentity, task: int | None = None, fence: int = 0) -> Session:
    """Make a session known, or bring what is known of it up to date; with the task it was just given."""
    with store.transaction(scopes=()) as transaction:
        said = who._asdict()
        del said["labels"]  # they are the host's, and only the claim asks for them
        (row,) = transaction.query("put_session", **said, task=task, fence=fence, now=transaction.now())
        session = Session(**row)
        if session.started_at == session.seen_at:
            start_line(transaction, session)
        return session


def start_line(transaction: Transaction, session: Session) -> None:
    """The line of the journal that a session has begun."""
    project, name = session.project, session.id
    journal.append(transaction, "session.started", project=project, session=name, kind=session.kind, host=session.host)


def get(store: Store, *, id: str) -> Session | None:
    """The session of that id."""
    return fetch_one(store, Session, "get_session", id=id)


def listing(store: Store, *, limit: int = LIMIT) -> list[Session]:
    """Sessions that have not ended."""
    return fetch_all(store, Session, "list_live_sessions", limit=limit)


def page(
    store: Store, *, project: str = "", include_ended: bool = False, after: str = "", limit: int = 100
) -> list[Session]:
    """Sessions by their ids: what comes after one, whatever happened to the rows before it."""
    asked = {"project": project, "ended": int(include_ended), "after": after, "limit": limit}
    return fetch_all(store, Session, "page_of_sessions", **asked)


def at_work(store: Store, *, project: str = "") -> list[Session]:
    """Sessions of a project, or of all, that hold a task or were started by us; a tab that has let its task go is none."""
    return fetch_all(store, Session, "list_sessions_at_work", project=project, limit=LIMIT)


def unread(store: Store, *, host: str, limit: int) -> list[Session]:
    """Ended sessions of a host whose words the index does not know, the newest first."""
    return fetch_all(store, Session, "list_unread_sessions", host=host, limit=limit)


def end(store: Store, *, id: str, ending: str = "ended") -> bool:
    """The session is over. A task it still holds comes back when its lease ends; release it first if it is known."""
    with store.transaction(scopes=()) as transaction:
        row = transaction.one("end_session", id=id, ending=ending, now=transaction.now())
        if row is None:
            return False
        journal.append(transaction, "session.ended", project=row["project"], session=id, ending=ending)
        return True

"""What we know of a forge: the issues tasks came from, the requests that carry work, the words that are to be written there."""

from __future__ import annotations

from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.events import texts
from handoff.store.database import fetch_all, fetch_one

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from handoff.store.database import Store, Transaction

OPENING, OPEN, MERGED, CLOSED = "opening", "open", "merged", "closed"
TRIED, DONE = "tried", "done"
COMMENT, ON_REQUEST, REPLY, CLOSE = "comment", "on request", "reply", "close"


class LinkedIssue(Record):
    """An issue and the task that was made from it, until that is over."""

    task: int
    project: str
    host: str
    folder: str
    number: int
    url: str
    state: str
    seen: str
    at: float

    @property
    def read(self) -> list[str]:
        """The comments that were looked at."""
        return list(texts.read(self.seen, []))


class TrackedRequest(Record):
    """A branch that asks to be taken in. `task` mends it when a check is red or a reviewer wants something."""

    key: int
    project: str
    host: str
    folder: str
    task: int | None
    branch: str
    base: str
    head: str
    number: int
    url: str
    state: str
    checks: str
    review: str
    body: str
    made_at: float
    ended_at: float | None

    @property
    def facts(self) -> dict[str, Any]:
        """What else is known: tasks whose work it carries, comments seen and to be answered, failures, trouble."""
        return dict(texts.read(self.body, {}))

    @property
    def ref(self) -> str:
        return f"refs/heads/{self.branch}"

    @property
    def words(self) -> str:
        """How it stands, in a line."""
        facts = self.facts
        said = [self.state, f"checks {self.checks}" if self.checks not in ("", "none") else "", self.review]
        line = f"{self.url or self.branch} into {self.base}: {', '.join(filter(None, said))}"
        return f"{line}; {facts['trouble']}" if facts.get("trouble") else line


class Remark(Record):
    """Something that is to be written on a forge, or closed there. `marker` stands in what is written."""

    key: int
    marker: str
    host: str
    folder: str
    verb: str
    number: int
    thread: str
    text: str
    state: str
    at: float


def link(transaction: Transaction, *, task: int, project: str, host: str, folder: str, number: int, url: str) -> bool:
    """Say that a task was made from an issue; False where another live one was."""
    values = {"task": task, "project": project, "host": host, "folder": folder, "number": number, "url": url}
    return transaction.one("add_issue", **values, now=transaction.now()) is not None


def issue_of(store: Store, *, task: int) -> LinkedIssue | None:
    """The issue a task was made from."""
    return fetch_one(store, LinkedIssue, "issue_of_task", task=task)


def find_issue(store: Store, *, project: str, url: str) -> LinkedIssue | None:
    """The newest task that an issue has had."""
    return fetch_one(store, LinkedIssue, "find_issue", project=project, url=url)


def live_issues(store: Store, *, host: str) -> list[LinkedIssue]:
    """The issues of a host whose tasks are not over."""
    return fetch_all(store, LinkedIssue, "list_issues", host=host)


def put_issue(transaction: Transaction, issue: LinkedIssue) -> None:
    """Write down how far an issue was read, and whether it is over."""
    transaction.execute("put_issue", task=issue.task, state=issue.state, seen=issue.seen)


def begin_request(transaction: Transaction, *, facts: dict[str, Any], **values: Any) -> TrackedRequest:
    """Write a request down before it is opened."""
    asked = {**values, "state": OPENING, "body": texts.write(facts), "now": transaction.now()}
    return TrackedRequest(**transaction.query("add_request", **asked)[0])


def put_request(transaction: Transaction, request: TrackedRequest, **facts: Any) -> TrackedRequest:
    """Write a request as it is known now, with what is new of its facts; what others wrote into these meanwhile stays."""
    known = get_request(transaction, key=request.key) or request
    body = texts.write({**known.facts, **facts}) if facts else known.body
    names = "key task base head number url state checks review ended_at".split()
    values = {name: getattr(request, name) for name in names}
    return TrackedRequest(**transaction.query("put_request", **values, body=body)[0])


def drop_request(store: Store, *, key: int) -> None:
    """Forget a request that could not be opened."""
    with store.transaction() as transaction:
        transaction.execute("drop_request", key=key)


def get_request(store: Store, *, key: int) -> TrackedRequest | None:
    """One request."""
    return fetch_one(store, TrackedRequest, "get_request", key=key)


def live_requests(store: Store, *, host: str = "", project: str = "") -> list[TrackedRequest]:
    """Requests that are not over."""
    return fetch_all(store, TrackedRequest, "list_live_requests", host=host, project=project)


def last_of_task(store: Store, *, task: int) -> TrackedRequest | None:
    """The newest request that a task mends."""
    return fetch_one(store, TrackedRequest, "last_request_of", task=task)


def of_task(store: Store, *, task: int) -> TrackedRequest | None:
    """The request that a task mends, while it is not over."""
    found = last_of_task(store, task=task)
    return found if found is not None and found.ended_at is None else None


def carrying(store: Store, *, project: str, task: int) -> TrackedRequest | None:
    """The live request that carries the work of a task."""
    found = live_requests(store, project=project)
    return next((one for one in found if task == one.task or task in one.facts.get("tasks", ())), None)


def standing_on(store: Store, *, project: str, needs: Iterable[int]) -> TrackedRequest | None:
    """The live request that what comes after these tasks stands on: of several the one that stands on the others."""
    found = [one for key in needs if (one := carrying(store, project=project, task=key)) is not None]
    bases = {one.base for one in found}
    return next((one for one in found if one.branch not in bases), None)


def say(
    transaction: Transaction,
    *,
    marker: str,
    host: str,
    folder: str,
    verb: str,
    number: int,
    text: str = "",
    thread: str = "",
) -> None:
    """Let something be written on a forge; said again it changes nothing."""
    values = {"host": host, "folder": folder, "verb": verb, "number": number, "text": text, "thread": thread}
    transaction.execute("add_remark", marker=marker, **values, now=transaction.now())


def unsaid(store: Store, *, host: str) -> list[Remark]:
    """What a host has to write on a forge and has not, in order."""
    return fetch_all(store, Remark, "list_remarks", host=host)


def note_said(store: Store, remark: Remark, *, state: str) -> None:
    """Say that a remark is being tried, or done."""
    with store.transaction() as transaction:
        transaction.execute("put_remark", marker=remark.marker, state=state)

"""What a forge is to the rest: issues, requests, their comments and checks. One file of this room holds one forge."""

from __future__ import annotations

import json

from handoff.base.errors import UserError
from handoff.base.record import TYPE_CHECKING, Record

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, Protocol

    Ask = Callable[..., str]
    """Runs the program with these words, perhaps with a text for its input; what it printed. Raises what the person should do."""

    class Forge(Protocol):
        """One forge, as its own program speaks of the repository of a checkout."""

        program: str

        def __init__(self, ask: Ask) -> None: ...

        def issue(self, number: int) -> ForgeIssue: ...
        def issues(self, label: str) -> list[ForgeIssue]: ...
        def comments(self, number: int, *, request: bool) -> list[ForgeComment]: ...
        def comment(self, number: int, text: str, *, request: bool) -> None: ...
        def close_issue(self, number: int) -> None: ...
        def may_write(self, name: str) -> bool: ...

        def requests(self) -> list[ForgeRequest]:
            """All open requests of the person, in one call."""

        def request(self, number: int) -> ForgeRequest: ...

        def reviews(self, number: int) -> list[ForgeComment]:
            """What reviewers wrote on lines, and what they asked to be changed."""

        def reply(self, number: int, comment: ForgeComment, text: str) -> None: ...
        def retarget(self, number: int, base: str) -> None: ...

        def failed_log(self, check: ForgeCheck) -> str:
            """What the failed step of a red check printed."""

        @staticmethod
        def creation(*, branch: str, base: str, title: str, body: str) -> tuple[list[str], bytes | None]:
            """The words that open a request without a question, and what is given on the input."""


OPEN, MERGED, CLOSED = "open", "merged", "closed"
GREEN, RED, RUNNING, NONE = "green", "red", "running", "none"
MARK = "<!-- handoff:"
"""How the line begins by which we know a comment of ours again; no forge shows it."""


class ForgeComment(Record):
    """What somebody wrote; with a path where it is about a line of a request."""

    id: str
    author: str
    body: str
    path: str = ""
    line: int = 0
    code: str = ""
    thread: str = ""
    """Where an answer goes, where that is not the comment itself."""

    @property
    def is_ours(self) -> bool:
        return MARK in self.body


class ForgeIssue(Record):
    """An issue with what people wrote below it."""

    number: int
    url: str
    title: str
    body: str
    author: str
    open: bool
    comments: tuple[ForgeComment, ...] = ()


class ForgeCheck(Record):
    """One check of a request that is red: its name, and by what its log is found."""

    name: str
    job: str = ""
    link: str = ""


class ForgeRequest(Record):
    """A request as its forge tells of it."""

    number: int
    url: str
    branch: str
    base: str
    head: str
    state: str = OPEN
    checks: str = NONE
    failed: tuple[ForgeCheck, ...] = ()
    conflicts: bool = False
    review: str = ""
    updated: str = ""
    """Changes with each word that is written about it."""
    merged_as: str = ""


def told(text: str, program: str, kind: type = list) -> Any:
    """The JSON a program printed."""
    try:
        found = json.loads(text or "null")
    except ValueError:
        found = None
    if not isinstance(found, kind):
        raise UserError(
            f"{program} printed no answer that handoff knows: {text[:80]!r}", f"Try it yourself: {program} --version"
        )
    return found


def login_of(value: Any, key: str = "login") -> str:
    """The name of an account; one that was deleted has none."""
    return str((value or {}).get(key) or "ghost")


def state_of(failed: Sequence[object], running: bool, found: bool) -> str:
    """What all checks of a request say together."""
    if running:
        return RUNNING
    return RED if failed else GREEN if found else NONE

"""One thing that happened in a session, the same for every client and for sessions of ours."""

from __future__ import annotations

from handoff.base.record import Record

PERSON, ASSISTANT, TOOL, CLIENT = "user", "assistant", "tool", "client"
"""Who: the person, the model, a tool that ran, the client itself."""

SAY = "say"  # words: the person's, or the model's
HANDED = "handed"  # the baton with which a session of ours, or one that took over, began
STEER = "steer"  # the person's words while the model was at work
REFUSED = "refused"  # a call that the person did not allow
DEAD = "dead"  # a way that was given up; `text` says which
SHELL = "shell"  # a command that has run
FILE = "file"  # a file that was added, changed, deleted or moved; `how` says which
PLAN = "todo"  # the whole to-do list as it stands from here on
USED = "tool"  # any other tool that has run
AGENT = "agent"  # a sub-agent was sent
ERROR = "error"  # the provider or the client failed
STOP = "stop"  # the person interrupted, or a turn ended
COMPACTION = "compaction"  # the client shortened the conversation; `text` is its summary
USAGE = "usage"  # tokens and money so far; `how` is TOTAL for a sum, else it is added
META = "meta"  # model, branch, commit, version
OPEN = "open"  # a call that has no result
UNREAD = "unread"  # a row that was not understood; `text` says of which kind

TOTAL = "total"
ADDED, CHANGED, DELETED, MOVED = "added", "changed", "deleted", "moved"
DONE, DOING, PENDING, DROPPED = "done", "doing", "open", "dropped"
"""The states of a step of a to-do list."""


class TodoItem(Record):
    """One step of a to-do list."""

    text: str
    state: str = PENDING


class HistoryEntry(Record):
    """One thing that happened; a field that a kind does not need is empty."""

    kind: str
    role: str = CLIENT
    """Whose words they are; where nothing was said it does not matter."""
    text: str = ""
    """Words, or the output of a command or tool."""
    path: str = ""
    how: str = ""
    command: str = ""
    exit: int | None = None
    """None where the client kept no code: that is not green."""
    ok: bool | None = None
    at: float = 0.0
    """Seconds since 1970; 0 where the record has no time."""
    tokens: int = 0
    cost: float = 0.0
    model: str = ""
    branch: str = ""
    commit: str = ""
    old: str = ""
    """What an edit replaced, and by what (`new`): compared, never kept."""
    new: str = ""
    todo: tuple[TodoItem, ...] = ()

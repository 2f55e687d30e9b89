"""Sentinels: what is not to be claimed for now. A stop never refuses a finished task or a new one."""

from __future__ import annotations

from handoff.base.errors import UserError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.events import journal
from handoff.store.database import fetch_all

if TYPE_CHECKING:
    from handoff.board.tasks.tasks import Task
    from handoff.store.database import Store, Transaction

ALL, PROJECT, BATCH, TASK = "all", "project", "batch", "task"
SCOPES = (ALL, PROJECT, BATCH, TASK)
IMPORT = "import"
"""Who pauses what an import takes in."""


REVIEWS = "reviews"
"""The name of a stop of a project that stands at its review limit, beside one that a person makes."""


class Pause(Record):
    """One stop. `name` is the batch's or the task's id."""

    scope: str
    project: str
    name: str
    reason: str
    paused_by: str
    at: float

    @property
    def words(self) -> str:
        return {
            ALL: "everything",
            PROJECT: f"project '{self.project}'",
            BATCH: f"batch '{self.name}'",
            TASK: f"task '{self.name}'",
        }[self.scope]

    @property
    def is_by_person(self) -> bool:
        """Whether a person made it, by a command or a file: they may still take what they name."""
        return self.paused_by not in ("", IMPORT)

    @property
    def way_back(self) -> str:
        """The command that lets claims go on."""
        if self.name == REVIEWS and self.scope == PROJECT:
            return f"handoff gate list --project {self.project}"
        what = {ALL: "--everything", PROJECT: ""}.get(self.scope, self.name)
        where = f"--project {self.project}" if self.project else ""
        return " ".join(word for word in ("handoff resume", what, where) if word)


def pause(
    store: Store, *, scope: str = ALL, project: str = "", name: str = "", reason: str = "", paused_by: str = ""
) -> bool:
    """Stop claims in a scope; False when it was stopped already."""
    _check_scope(scope, project, name)
    with store.transaction() as transaction:
        fresh = transaction.execute(
            "put_pause",
            scope=scope,
            project=project,
            name=name,
            reason=reason,
            paused_by=paused_by,
            now=transaction.now(),
        )
        if fresh:
            journal.append(transaction, "claims.stopped", project=project, scope=scope, name=name, reason=reason)
        return bool(fresh)


def resume(store: Store, *, scope: str = ALL, project: str = "", name: str = "") -> bool:
    """Let claims go on; False when nothing was stopped there."""
    _check_scope(scope, project, name)
    with store.transaction() as transaction:
        gone = transaction.execute("drop_pause", scope=scope, project=project, name=name)
        if gone:
            journal.append(transaction, "claims.resumed", project=project, scope=scope, name=name)
        return bool(gone)


def listing(store: Store) -> list[Pause]:
    """What is stopped."""
    return fetch_all(store, Pause, "list_pauses")


def pause_of(transaction: Transaction, task: Task, *, by_hand: bool = False, by_itself: bool = False) -> Pause | None:
    """The stop that keeps this task from being claimed; `by_hand` is a person who claims it by its name, `by_itself` nobody."""
    batch = transaction.one("get_batch", key=task.batch) if task.batch is not None else None
    for found in listing(transaction):
        if by_hand and found.is_by_person:
            continue
        names = {
            PROJECT: ("", REVIEWS) if by_itself else ("",),
            BATCH: (batch["id"],) if batch else (),
            TASK: (task.id, task.label),
        }
        if found.scope == ALL or (found.project == task.project and found.name in names[found.scope]):
            return found
    return None


def _check_scope(scope: str, project: str, name: str) -> None:
    if scope not in SCOPES:
        raise UserError(f"'{scope}' cannot be stopped.", f"Choose one of: {', '.join(SCOPES)}")
    if scope != ALL and not project:
        raise UserError(f"Say which project the {scope} belongs to.")
    if scope in (BATCH, TASK) and not name:
        raise UserError(f"Say which {scope}.")
    if (scope == ALL and (project or name)) or (scope == PROJECT and name not in ("", REVIEWS)):
        raise UserError(f"A stop of {scope} takes no further name.")

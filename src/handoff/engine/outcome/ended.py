"""Whose report it is, and what came of it: kept light, because a heartbeat loads it."""

from __future__ import annotations

from handoff.base.record import TYPE_CHECKING, Record

if TYPE_CHECKING:
    from handoff.board.tasks.outcomes import Outcome
    from handoff.board.tasks.tasks import Task
    from handoff.engine.place.proof.evidence import Evidence


class CurrentClaim(Record):
    """A task, with which fence the caller speaks for it (none: a person who holds nothing), and where it was claimed."""

    task: Task
    fence: int | None
    session: str
    workspace: str = ""


class Finished(Record):
    """A report that was believed, and why."""

    outcome: Outcome
    evidence: Evidence
    trouble: str = ""
    """Why the record in git could not be written; the task is done all the same."""
    waits: str = ""
    """What keeps the work from landing: it is judged and kept, and a person is asked."""
    ticked: str = ""
    """What became of the step of a plan it was made from."""

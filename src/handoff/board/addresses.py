"""What a person means by a name: a task, a batch, a flow or an incident."""

from __future__ import annotations

from handoff.base.errors import UserError
from handoff.base.record import TYPE_CHECKING
from handoff.board.events import incidents
from handoff.board.tasks import batches, flows, tasks

if TYPE_CHECKING:
    from handoff.board.events.incidents import Incident
    from handoff.board.tasks.batches import Batch
    from handoff.board.tasks.flows import Flow
    from handoff.board.tasks.tasks import Task
    from handoff.store.database import Store

    Addressed = Task | Batch | Flow | Incident

TASK, BATCH, FLOW, INCIDENT = "task", "batch", "flow", "incident"
_INCIDENT_MARK = "i-"


class Ambiguous(UserError):
    """A name that several things have."""


def find(store: Store, *, project: str, name: str) -> Addressed:
    """The one thing of that name, what is live before what has ended; `task:NAME` and the like say which of several."""
    kind, colon, rest = name.partition(":")
    if colon and kind in (TASK, BATCH, FLOW, INCIDENT):
        if kind == TASK:
            return tasks.find(store, project=project, id=rest)
        if kind == BATCH:
            return batches.find(store, project=project, id=rest)
        if kind == FLOW:
            return flows.find(store, project=project, id=rest)
        return incidents.find(store, id=rest)
    found: dict[str, Addressed] = {}
    if any(tasks.of_id(store, project=project, id=name.rpartition("/")[2])):
        try:
            found[TASK] = tasks.find(store, project=project, id=name)
        except UserError:
            if "/" not in name:
                raise
    if batches.is_known(store, project=project, id=name):
        found[BATCH] = batches.find(store, project=project, id=name)
    if flows.is_known(store, project=project, id=name):
        found[FLOW] = flows.find(store, project=project, id=name)
    live = {kind: one for kind, one in found.items() if getattr(one, "ended_at", None) is None}
    choices = live or found
    if len(choices) > 1:
        said = " and ".join(f"a {kind}" for kind in choices)
        raise Ambiguous(f"'{name}' names {said}.", f"Say which: {' or '.join(f'{kind}:{name}' for kind in choices)}")
    for one in choices.values():
        return one
    if name.startswith(_INCIDENT_MARK):
        return incidents.find(store, id=name)
    raise UserError(
        f"There is no task '{name}' in project '{project}', and no batch, flow or incident of that name.",
        "See: handoff task list --all",
    )

"""Flow: its phases across, its cycles down; each cell with what was said of it, tries and refused cheats included."""

from __future__ import annotations

from handoff.base.record import TYPE_CHECKING, Record
from handoff.engine.work.flows import flows
from handoff.engine.work.flows.state import state_of

if TYPE_CHECKING:
    from handoff.board.events.journal import Event
    from handoff.engine.app import App
    from handoff.engine.work.flows.flows import FlowView

_SHORT = 10


class PhaseCell(Record):
    """One phase in one cycle: verified, skipped, under way or not yet, and each time it was refused."""

    phase: str
    cycle: int
    look: str
    said: str = ""
    commit: str = ""
    refused: tuple[tuple[int, tuple[str, ...]], ...] = ()
    warnings: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()
    """How many questions its tests were asked of how many, with the seeds, in the newest verdict."""


class FlowPage(Record):
    """A flow as a page."""

    address: str
    path: str
    seen: FlowView
    phases: tuple[str, ...]
    rows: tuple[tuple[PhaseCell, ...], ...]
    commits: tuple[str, ...]
    events: tuple[Event, ...]
    now: float


class FlowSummary(Record):
    """One flow of the list."""

    path: str
    seen: FlowView
    now: float


def listing(app: App, *, project: str) -> list[FlowSummary]:
    """The flows there are, the newest first."""
    now = app.clock.now()
    found = flows.listing(app, project=project, include_ended=True)
    return [FlowSummary(f"{one.flow.project}/{one.flow.id}", one, now) for one in found]


def read(app: App, *, project: str, name: str) -> FlowPage:
    """The flow a name means."""
    flow = flows.find(app, name=name, project=project)
    events = flows.history(app, flow)
    phases = tuple(phase.name for phase in state_of(app, flow).workflow.phases)
    cells: dict[tuple[int, str], PhaseCell] = {}
    for event in events:
        phase, cycle = str(event.body.get("phase", "")), int(event.body.get("cycle") or 1)
        if phase in phases:
            old = cells.get((cycle, phase), PhaseCell(phase=phase, cycle=cycle, look="waiting"))
            cells[cycle, phase] = _told(old, event)
    seen = flows.look(app, flow)
    if flow.ended_at is None and flow.phase in phases:
        here = cells.get((flow.cycle, flow.phase), PhaseCell(phase=flow.phase, cycle=flow.cycle, look="waiting"))
        cells[flow.cycle, flow.phase] = here._replace(look=seen.state)
    last = max((cycle for cycle, _ in cells), default=flow.cycle)
    empty = PhaseCell(phase="", cycle=0, look="waiting")
    return FlowPage(
        address=flow.id,
        path=f"{flow.project}/{flow.id}",
        seen=seen,
        phases=phases,
        rows=tuple(
            tuple(cells.get((cycle, phase), empty._replace(phase=phase, cycle=cycle)) for phase in phases)
            for cycle in range(1, last + 1)
        ),
        commits=tuple(flows.commits(app, flow)),
        events=tuple(reversed(events)),
        now=app.clock.now(),
    )


def _told(cell: PhaseCell, event: Event) -> PhaseCell:
    body = event.body
    if event.kind in ("flow.verified", "flow.refused"):
        cell = cell._replace(asked=tuple(map(str, body.get("asked", ()))))
    if event.kind == "flow.verified":
        said = str(body.get("said", ""))
        return cell._replace(
            look="verified",
            said=said.partition(": ")[2] or said,
            commit=str(body.get("commit", ""))[:_SHORT],
            warnings=tuple(map(str, body.get("warnings", ()))),
        )
    if event.kind == "flow.skipped":
        return cell._replace(look="cancelled", said=f"skipped: {body.get('said', '')}")
    if event.kind == "flow.refused":
        tried = (int(body.get("attempt", 1)), tuple(map(str, body.get("said", ()))))
        return cell._replace(refused=(*cell.refused, tried))
    return cell

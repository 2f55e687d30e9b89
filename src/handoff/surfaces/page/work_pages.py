"""What is to be done: the board, batches, flows and the plan of a feature, each read for its page."""

from __future__ import annotations

from handoff.base.errors import HandoffError
from handoff.base.light_json import loads
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.tasks import batches as rows
from handoff.board.tasks import cards
from handoff.engine.app.home import find_project
from handoff.engine.features import lifecycle, status
from handoff.engine.place.transcripts import last_words
from handoff.engine.work import overview
from handoff.engine.work.flows import flows
from handoff.engine.work.flows.state import state_of
from handoff.engine.work.tasks import batches
from handoff.engine.work.tasks.splitting import report
from handoff.feature import plan as plans
from handoff.surfaces.vocabulary import LOOKS, bar_counts, matches

if TYPE_CHECKING:
    from handoff.board.events.journal import Event
    from handoff.board.tasks.tasks import Task
    from handoff.engine.app import App
    from handoff.engine.work.flows.flows import FlowView
    from handoff.engine.work.overview import OverviewItem
    from handoff.engine.work.tasks.splitting.report import BatchReport


MOST_LINES = 200
"""Lines of a column; words in the filter bring the others."""
_DAY_SECONDS = 86_400.0
_SPANS = {"day": 1, "week": 7, "month": 30}


class BoardLine(Record):
    """One task on the board."""

    item: OverviewItem
    path: str
    label: str
    """Its name without the project, which stands beside it where several are shown."""
    after: tuple[str, ...]
    words: str
    """What it is about; of one that runs, what its agent said last."""


class BoardColumn(Record):
    """One section with its lines, and how many there are in all."""

    title: str
    lines: tuple[BoardLine, ...]
    total: int


class BoardPage(Record):
    """What the board shows for a filter."""

    columns: tuple[BoardColumn, ...]
    words: str
    state: str
    span: str
    states: tuple[str, ...]
    now: float

    @property
    def total(self) -> int:
        return sum(column.total for column in self.columns)


def read_board(app: App, *, project: str, words: str, state: str, span: str) -> BoardPage:
    """The rows of one moment, filtered."""
    span = span if span in _SPANS else "day"
    found = overview.look(app, project=project, since=app.clock.now() - _SPANS[span] * _DAY_SECONDS)
    every = sorted({item.look for item in found.items if item.section in overview.SECTIONS})
    columns = []
    for section in overview.SECTIONS:
        items = [one for one in found.of(section) if matches(one, words) and state in ("", one.look)]
        lines = tuple(_board_line(app, item, project) for item in items[:MOST_LINES])
        columns.append(BoardColumn(section, lines, len(items)))
    return BoardPage(
        columns=tuple(columns),
        words=words,
        state=state if state in LOOKS else "",
        span=span,
        states=tuple(every),
        now=found.at,
    )


def _board_line(app: App, item: OverviewItem, project: str) -> BoardLine:
    label = item.address if project else item.address.removeprefix(f"{item.project}/")
    after = tuple(cards.after(app.database, key=item.key)) if item.look == "waiting" else ()
    words = item.words
    if item.section == overview.RUNNING and not words:
        words = last_words(app, project=item.project, session=item.session, agent=item.agent)
    return BoardLine(
        item=item, path=f"{item.project}/{label}" if item.key else "", label=label, after=after, words=words
    )


_MOST_PATHS = 400


class TreeLine(Record):
    """One line of the map: a folder, or a path with who owns it and who changed it."""

    depth: int
    name: str
    owners: tuple[str, ...] = ()
    touched: tuple[str, ...] = ()

    @property
    def crowded(self) -> bool:
        """Whether more than one had a hand in it."""
        return len({*self.owners, *self.touched}) > 1


class BatchPage(Record):
    """A batch as a page."""

    path: str
    report: BatchReport
    looks: dict[str, str]
    """How each part stands, and the fan-in."""
    counts: dict[str, int]
    tree: tuple[TreeLine, ...]
    owners: tuple[str, ...]
    now: float


class BatchSummary(Record):
    """One batch of the list."""

    path: str
    id: str
    state: str
    counts: dict[str, int]
    at: float


def list_batches(app: App, *, project: str) -> list[BatchSummary]:
    """The batches there are, the newest first."""
    return [
        BatchSummary(
            f"{one.batch.project}/{one.batch.id}",
            one.batch.id,
            one.batch.state,
            bar_counts(one.counts),
            one.batch.created_at,
        )
        for one in batches.listing(app, project=project, include_ended=True)
    ]


def read_batch(app: App, *, project: str, name: str) -> BatchPage:
    """The batch a name means."""
    batch = rows.find(app.database, project=find_project(app, name=project).name, id=name)
    found = report.write(app, report.judge(app, batch))
    parts = batches.parts_of(app, batch)
    joiner = batches.fan_in_of(app, batch)
    standing = overview.standing(app, [one.key for one in (*parts, joiner)])
    counts: dict[str, int] = {}
    for part in parts:
        counts[part.state] = counts.get(part.state, 0) + 1
    drawn = bar_counts(counts)
    landed = len(found.verdict.of(report.LANDED))
    if landed:
        drawn["landed"] = landed
        drawn["green"] = max(0, drawn.get("green", 0) - landed)
    return BatchPage(
        path=f"{batch.project}/{batch.id}",
        report=found,
        looks={one.label: standing[one.key].look for one in (*parts, joiner)},
        counts={kind: number for kind, number in drawn.items() if number},
        tree=tuple(_tree(parts)),
        owners=tuple(part.id for part in parts),
        now=app.clock.now(),
    )


def _tree(parts: list[Task]) -> list[TreeLine]:
    """Patterns and changed files of all parts, folder by folder."""
    owners: dict[str, list[str]] = {}
    touched: dict[str, list[str]] = {}
    for part in parts:
        for pattern in part.patterns:
            owners.setdefault(pattern, []).append(part.id)
        for path in (loads(part.evidence) if part.evidence else {}).get("changed", ()):
            touched.setdefault(str(path), []).append(part.id)
    lines: list[TreeLine] = []
    before: list[str] = []
    for path in sorted({*owners, *touched}, key=lambda one: one.split("/"))[:_MOST_PATHS]:
        *folders, name = path.rstrip("/").split("/")
        same = 0
        while same < min(len(folders), len(before)) and folders[same] == before[same]:
            same += 1
        lines += [TreeLine(depth, f"{folder}/") for depth, folder in enumerate(folders) if depth >= same]
        before = folders
        lines.append(TreeLine(len(folders), name, tuple(owners.get(path, ())), tuple(touched.get(path, ()))))
    return lines


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


def list_flows(app: App, *, project: str) -> list[FlowSummary]:
    """The flows there are, the newest first."""
    now = app.clock.now()
    found = flows.listing(app, project=project, include_ended=True)
    return [FlowSummary(f"{one.flow.project}/{one.flow.id}", one, now) for one in found]


def read_flow(app: App, *, project: str, name: str) -> FlowPage:
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


_LOOKS = {plans.DONE: "done", plans.CURRENT: "running", plans.STUCK: "blocked", plans.DROPPED: "cancelled"}


class FeaturePage(Record):
    """One feature, and the names of all."""

    name: str
    names: tuple[str, ...]
    steps: tuple[tuple[str, str], ...]
    """How each step of the plan stands, and its words."""
    documents: tuple[tuple[str, str, str], ...]
    """Name, readiness and text of each."""
    advice: str
    command: str
    trouble: str

    @property
    def address(self) -> str:
        return self.name or "Feature"


def read_feature(app: App, *, name: str) -> FeaturePage:
    """A feature of the checkout the page was started in; the active one unless another is named."""
    page = FeaturePage(name=name, names=(), steps=(), documents=(), advice="", command="", trouble="")
    try:
        names = tuple(one.name for one in lifecycle.listing(app))
        chosen = app.with_feature(name) if name else app
        if status.is_without_feature(chosen):
            return page._replace(names=names)
        view = status.look(chosen)
        advice = status.advise(view, app.settings.program)
    except HandoffError as error:
        return page._replace(trouble=error.message)
    ready = view.readiness()
    return FeaturePage(
        name=view.feature.name,
        names=names,
        steps=tuple((_LOOKS.get(mark, "ready"), _words(raw)) for _, mark, raw in view.plan.marks),
        documents=tuple((title, ready.get(title, ""), text) for title, text in view.texts.items() if text),
        advice=advice.focus,
        command=advice.command,
        trouble="",
    )


def _words(raw: str) -> str:
    """A step's line without its list mark and its box."""
    return raw.strip().partition("] ")[2] or raw.strip()

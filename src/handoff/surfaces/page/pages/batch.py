"""Batch: the report that `batch report` tells, and who owns and touched what, as a map of the tree."""

from __future__ import annotations

from handoff.base.light_json import loads
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.tasks import batches as rows
from handoff.engine.app.home import find_project
from handoff.engine.work import overview
from handoff.engine.work.tasks import batches
from handoff.engine.work.tasks.splitting import report, verdict
from handoff.surfaces.vocabulary import bar_counts

if TYPE_CHECKING:
    from handoff.board.tasks.tasks import Task
    from handoff.engine.app import App
    from handoff.engine.work.tasks.splitting.report import BatchReport

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


def listing(app: App, *, project: str) -> list[BatchSummary]:
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


def read(app: App, *, project: str, name: str) -> BatchPage:
    """The batch a name means."""
    batch = rows.find(app.database, project=find_project(app, name=project).name, id=name)
    found = report.write(app, verdict.judge(app, batch))
    parts = batches.parts_of(app, batch)
    joiner = batches.fan_in_of(app, batch)
    standing = overview.standing(app, [one.key for one in (*parts, joiner)])
    counts: dict[str, int] = {}
    for part in parts:
        counts[part.state] = counts.get(part.state, 0) + 1
    drawn = bar_counts(counts)
    landed = len(found.verdict.of(verdict.LANDED))
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

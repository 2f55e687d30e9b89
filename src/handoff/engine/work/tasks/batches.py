"""A batch's journey: opened whole, its parts reported, brought together, measured."""

from __future__ import annotations

import json
import os

from handoff.base.clock import age
from handoff.base.errors import Conflict, UserError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.base.settings import project_config
from handoff.board.events import journal
from handoff.board.tasks import batches, outcomes, tasks
from handoff.engine.app.home import APART, home_config, settle
from handoff.engine.outcome import whole_check
from handoff.engine.outcome.kinds import CurrentClaim
from handoff.engine.place.fanout import views
from handoff.engine.place.fanout.tabs import Job, uri_for
from handoff.engine.place.proof.evidence import take_baseline
from handoff.engine.session import current
from handoff.engine.session import report as journey
from handoff.engine.work.tasks.manifests import Fault, fault_error, read_manifest
from handoff.git.ownership import Ownership, overlaps

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from handoff.board.tasks.batches import Batch, Calibration
    from handoff.board.tasks.tasks import Task
    from handoff.engine.app import App
    from handoff.engine.app.home import Project
    from handoff.engine.outcome.kinds import Finished
    from handoff.engine.work.tasks.manifests import Manifest
    from handoff.store.database import Transaction

    AlsoWritten = Callable[[Transaction, Batch], None]

_SHOWN_OVERLAPS = 20
VERIFIED = "batch.verified"
"""In the journal: what each check said on the files as they were before the batch."""


class OpenedBatch(Record):
    """A batch that was just opened; `ready` are the parts that can begin now."""

    batch: Batch
    ready: tuple[str, ...]
    unknown_keys: tuple[str, ...]


def read_checked(path: str, text: str = "") -> Manifest:
    """A manifest whose parts own disjoint paths, judged on the patterns: also for files that do not exist yet."""
    manifest = read_manifest(path, text)
    faults: list[Fault] = []
    named: dict[str, Ownership] = {}
    places = {sub.id: index for index, sub in enumerate(manifest.sub_tasks)}
    for index, sub in enumerate(manifest.sub_tasks):
        if not sub.owns:
            continue
        try:
            named[sub.id] = Ownership.parse(sub.owns)
        except UserError as error:
            faults.append(
                Fault(
                    ("sub_tasks", index, "file_ownership"), error.message.rstrip("."), error.hint or "Fix the pattern."
                )
            )
    for overlap in [] if faults else overlaps(named, limit=_SHOWN_OVERLAPS):
        first, second = sorted((overlap.a, overlap.b), key=places.__getitem__)
        mine, other = (
            (overlap.pattern_b, overlap.pattern_a) if overlap.b == second else (overlap.pattern_a, overlap.pattern_b)
        )
        entry = manifest.sub_tasks[places[second]].owns.index(mine)
        faults.append(
            Fault(
                ("sub_tasks", places[second], "file_ownership", entry, "path"),
                f"'{second}' ({mine}) and '{first}' ({other}, sub_tasks[{places[first]}]) both own {overlap.shown}",
                "Give each path one owner, or let one part do both.",
            )
        )
    if faults:
        raise fault_error(manifest, faults)
    return manifest


def open_batch(
    app: App,
    project: Project,
    path: str,
    text: str = "",
    *,
    bound: Callable[[Manifest], None] | None = None,
    mark: Mapping[str, Any] | None = None,
    owns: tuple[str, ...] = (),
    also: AlsoWritten | None = None,
) -> OpenedBatch:
    """Write a batch, its parts and its waiting fan-in, all or nothing; nothing waits in the foreground.

    Where a session writes it, `bound` refuses what goes beyond it, each task carries its `mark`, and the fan-in `owns` no more.
    `also` writes in the same transaction.
    """
    manifest = read_checked(path, text)
    if bound is not None:
        bound(manifest)
    return open_checked(app, project, manifest, mark=mark, owns=owns, also=also)


def open_checked(
    app: App,
    project: Project,
    manifest: Manifest,
    *,
    mark: Mapping[str, Any] | None = None,
    owns: tuple[str, ...] = (),
    verified: Mapping[str, str] | None = None,
    also: AlsoWritten | None = None,
) -> OpenedBatch:
    """The same for a manifest that was read; `verified` is what its checks said before anybody began."""
    config = home_config(app)
    workspace = manifest.workspace or project.workspace
    if verified is None and not manifest.check:
        command = whole_check.found(app, workspace)
        raw = {**manifest.raw, whole_check.SUITE: command} if command else manifest.raw
        manifest = manifest._replace(check=command, raw=raw)
    project = settle(app, project)
    uri_for(config, Job(project.name, manifest.batch_id, workspace, ""))
    refuse_live_names(app, project, manifest)
    attempts = int(config.number("max_attempts"))
    agent = manifest.agent or ",".join(project_config(workspace).texts("agents"))
    parts = _parts(app, manifest._replace(agent=agent), attempts)
    fan_in = batches.SubTask(
        id=manifest.fan_in_task,
        brief=app.clean(_fan_in_brief(manifest)),
        role="fan-in",
        agent=agent,
        check_command=manifest.check,
        estimate_minutes=manifest.serial_minutes,
        max_attempts=attempts,
        labels=manifest.labels,
        owns=owns,
    )
    baseline = {**take_baseline(app, workspace, stamps=True), **(mark or {})}
    with app.database.transaction() as transaction:
        batch = batches.open_batch(
            transaction,
            project=project.name,
            id=manifest.batch_id,
            sub_tasks=parts,
            fan_in=fan_in,
            workspace=workspace,
            next_task=manifest.next_after,
            rationale=app.clean(manifest.rationale),
            estimated_speedup=manifest.estimated_speedup,
            serial_minutes=manifest.serial_minutes,
            timeout_hours=manifest.timeout_hours,
            manifest=app.clean(
                json.dumps({"timeout_hours": manifest.timeout_hours, **manifest.raw}, ensure_ascii=False)
            ),
            baseline=baseline,
        )
        if also is not None:
            also(transaction, batch)
    if verified is not None:
        note_verified(app, batch, verified)
    views.refresh_or_tell(app, project.name, f"Batch {batch.id} is recorded")
    ready = tuple(sub.id for sub in manifest.sub_tasks if not sub.depends_on)
    return OpenedBatch(batch, ready, manifest.unknown)


def _parts(app: App, manifest: Manifest, attempts: int) -> list[batches.SubTask]:
    """The parts with what the whole batch says of them."""
    return [
        sub._replace(
            brief=app.clean(sub.brief),
            agent=sub.agent or manifest.agent,
            labels=sub.labels or manifest.labels,
            max_attempts=attempts,
        )
        for sub in manifest.sub_tasks
    ]


def note_verified(app: App, batch: Batch, checks: Mapping[str, str]) -> None:
    """Write down what each check said before anybody began."""
    with app.database.transaction() as transaction:
        journal.append(transaction, VERIFIED, project=batch.project, batch=batch.key, id=batch.id, checks=dict(checks))


def refuse_live_names(app: App, project: Project, manifest: Manifest) -> None:
    """A part is also known by its own id (queue/<id>.md), so two live ones must not share it."""
    wanted = {sub.id for sub in manifest.sub_tasks} | {manifest.fan_in_task}
    for task in tasks.listing(app.database, project=project.name, limit=1_000_000):
        if task.scope == manifest.batch_id:
            raise Conflict(
                f"Batch '{manifest.batch_id}' of project '{project.name}' is still open.",
                f"Stay with it: {app.settings.program} batch run {manifest.batch_id}. Or use another id, or end it:"
                f" {app.settings.program} cancel {manifest.batch_id}",
            )
        if task.id in wanted:
            raise Conflict(
                f"Task '{task.label}' of project '{project.name}' is still {task.state}, and the batch has one of that id.",
                f"Rename it in the manifest, or end it first: {app.settings.program} show {task.label}",
            )


def _fan_in_brief(manifest: Manifest) -> str:
    several = f"Bring the parts of batch `{manifest.batch_id}` together."
    alone = f"See that the one part of batch `{manifest.batch_id}` is whole."
    lines = [several if len(manifest.sub_tasks) > 1 else alone]
    if manifest.goal:
        lines.append(f"What all of it is for: {manifest.goal}")
    if manifest.rationale:
        lines.append(f"Why it was split: {manifest.rationale}")
    if manifest.next_after:
        lines.append(f"What comes after: {manifest.next_after}")
    return "\n\n".join(lines)


def by_key(app: App, key: int) -> Batch:
    """A batch by its number."""
    return batches.get(app.database, key=key)


# --- reports of parts ------------------------------------------------------------------------------------


def find_batch(app: App, project: Project, name: str) -> Batch:
    """A batch by its id, or by the folder of its files."""
    folder, last = os.path.split(os.path.normpath(name))
    owner = project.name
    if os.path.basename(folder) == "batches":
        above = os.path.dirname(os.path.abspath(folder))
        owner = os.path.basename(os.path.dirname(above) if os.path.basename(above) == APART else above)
    return batches.find(app.database, project=owner, id=last)


def part_of(app: App, batch: Batch, name: str) -> Task:
    """The sub-task a report names: its id, or its id with `-done` or `-blocked`, as the older tool has it."""
    for candidate in dict.fromkeys((name, name.removesuffix("-done"), name.removesuffix("-blocked"))):
        try:
            found = tasks.find(app.database, project=batch.project, id=candidate, batch=batch.id)
        except UserError:
            continue
        if found.batch == batch.key:
            return found
    known = ", ".join(part.id for part in parts_of(app, batch)[:20])
    raise UserError(f"Batch '{batch.id}' has no sub-task '{name}'.", f"Its sub-tasks: {known}")


def hold_part(app: App, batch: Batch, name: str) -> CurrentClaim:
    """The part a report is about, with the caller's fence if the caller claimed it."""
    part = part_of(app, batch, name)
    held = current.find(app, task=part.label, project=batch.project)
    return held if held.task.key == part.key else CurrentClaim(part, None, "")


# --- the fan-in --------------------------------------------------------------------------------------------


def fan_in_of(app: App, batch: Batch) -> Task:
    """The task that brings the batch together."""
    if batch.fan_in is None:
        raise UserError(f"Batch '{batch.id}' has no fan-in.")
    return tasks.get(app.database, key=batch.fan_in)


def complete(app: App, batch: Batch, *, minutes: float | None, summary: str) -> Finished:
    """The fan-in is done and the batch with it; its figures are written once, however often this is said."""
    task = fan_in_of(app, batch)
    held = current.find(app, task=task.label, project=batch.project)

    return journey.finish(app, held, summary=summary, minutes=minutes)


def parts_of(app: App, batch: Batch) -> list[Task]:
    """The sub-tasks of a batch, without its fan-in."""
    return [part for part in tasks.of_batch(app.database, batch=batch.key) if part.kind == tasks.SUB_TASK]


class BatchCounts(Record):
    """A batch with how many of its parts are in each state."""

    batch: Batch
    counts: dict[str, int]


def listing(app: App, *, project: str = "", include_ended: bool = False) -> list[BatchCounts]:
    """The batches, newest first."""
    found = []
    for batch in batches.listing(app.database, project=project, include_ended=include_ended):
        counts: dict[str, int] = {}
        for part in parts_of(app, batch):
            counts[part.state] = counts.get(part.state, 0) + 1
        found.append(BatchCounts(batch, counts))
    return found


class BatchStatus(Record):
    """How far a batch is."""

    batch: Batch
    parts: tuple[Task, ...]
    fan_in: Task
    age: str

    def in_state(self, *wanted: str) -> list[str]:
        return [part.id for part in self.parts if part.state in wanted]


def status(app: App, batch: Batch) -> BatchStatus:
    """A batch with the state of each part."""
    return BatchStatus(
        batch, tuple(parts_of(app, batch)), fan_in_of(app, batch), age(app.clock.now() - batch.created_at)
    )


def calibration(app: App, project: str) -> Calibration:
    """How many minutes an estimated minute really takes in this project."""
    return batches.calibration(app.database, project=project)


def cancel(app: App, batch: Batch, *, reason: str) -> Batch:
    """Take a whole batch back; what is finished stays finished."""
    ended = outcomes.cancel_batch(app.database, key=batch.key, reason=reason)
    views.refresh_or_tell(app, batch.project, f"Batch {batch.id} is cancelled")
    return ended

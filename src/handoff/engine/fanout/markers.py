"""The text of the files that scripts of handoff-fanout read: addresses, markers, environments, measures. `views` puts them on disk."""

from __future__ import annotations

from handoff.base.clock import stamp
from handoff.base.markdown import one_line, quoted
from handoff.base.record import TYPE_CHECKING

if TYPE_CHECKING:
    from handoff.board.tasks.batches import Batch
    from handoff.board.tasks.metrics import Measure
    from handoff.board.tasks.tasks import Task

RECORDED = "recorded: yes"
"""The line that tells a file we wrote from a marker somebody touched by hand."""


def uri_file(workspace: str, uri: str) -> str:
    """Two lines, as launchers of the older tool read them."""
    return f"WORKSPACE={workspace}\nURI={uri}\n"


def blocked_file(task: Task) -> str:
    """Why the task is blocked, and how it goes on."""
    head = str(task.baseline_facts.get("head", ""))[:10]
    return (
        f"# BLOCKED: project `{task.project}` / task `{task.id}`\n\n"
        f"Generated: {stamp(task.changed_at)}\nHEAD: {head or 'unknown'}\n\n## Reason\n\n{task.reason.strip() or 'none given'}\n\n"
        f"## What next\n\nMend the cause, then: handoff retry {task.id} --project {task.project}\n\n<!-- {RECORDED} -->\n"
    )


def done_marker(task: Task, *, sub_task: bool = False) -> str:
    """The content of `.done`: the older tool's three lines, and that we wrote it."""
    key = "sub_task_id" if sub_task else "task_id"
    when = stamp(task.ended_at or task.changed_at)
    return f"{key}: {task.id}\ncompleted_at: {when}\nsummary: {one_line(task.result)}\n{RECORDED}\n"


def blocked_marker(task: Task) -> str:
    """The content of a sub-task's `.blocked`."""
    return (
        f"sub_task_id: {task.id}\nblocked_at: {stamp(task.changed_at)}\nreason: {one_line(task.reason)}\n{RECORDED}\n"
    )


def env_file(role: str, batch_id: str, sub_task: str = "", *, guard: str = "", shared: str = "") -> str:
    """What a tab sources: its role, its batch, and the guarded git first on PATH."""
    lines = [f"export HANDOFF_ROLE={role}", f"export HANDOFF_BATCH_ID={batch_id}"]
    if sub_task:
        lines.append(f"export HANDOFF_SUB_TASK_ID={sub_task}")
    if shared:
        lines.append(f"export HANDOFF_SHARED={quoted(shared)}")
    if guard:
        lines.append(f'export PATH={quoted(guard)}:"$PATH"')
    return "\n".join(lines) + "\n"


def manifest_file(batch: Batch) -> str:
    """The manifest as it was given, with what the older tool adds and the workspace it forgot."""
    import json

    added = {"created_at": stamp(batch.created_at), "workspace": batch.workspace, "project": batch.project}
    return json.dumps({**json.loads(batch.manifest), **added}, ensure_ascii=False, indent=2) + "\n"


def measure_line(measure: Measure, batch_id: str) -> str:
    """One line of metrics.jsonl, in the older tool's words."""
    import json

    line = {
        "batch_id": batch_id,
        "n_sub_tasks": measure.sub_tasks,
        "estimated_minutes_sum": round(measure.estimated_minutes, 2),
        "actual_minutes_sum": round(measure.session_minutes, 2),
        "amdahl_estimated": round(measure.estimated_speedup, 3),
        "amdahl_actual": round(measure.speedup, 3),
        "wall_minutes": round(measure.wall_minutes, 2),
        "serial_share": None if measure.serial_share is None else round(measure.serial_share, 3),
        "summary": measure.summary,
        "completed_at": stamp(measure.at),
    }
    return json.dumps(line, ensure_ascii=False) + "\n"

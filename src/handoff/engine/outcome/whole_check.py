"""What judges a batch as a whole: the project's own suite as `check` finds it, unless the manifest says otherwise in words."""

from __future__ import annotations

from handoff.base.errors import HandoffError, Refused
from handoff.base.light_json import loads
from handoff.base.process import find
from handoff.base.record import TYPE_CHECKING
from handoff.board.events import journal
from handoff.board.sessions import leases
from handoff.board.tasks import batches, states, tasks
from handoff.checks.suite import plain_command
from handoff.engine.place import arrival, task_work
from handoff.engine.place.proof import faults
from handoff.engine.place.proof.test_runs import suites_of
from handoff.git.plumbing import find_top

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from handoff.board.events.journal import Event
    from handoff.board.tasks.batches import Batch
    from handoff.board.tasks.tasks import Task
    from handoff.checks.commands import Verdict
    from handoff.engine.app import App
    from handoff.git.workspaces import Workspace

SUITE = "suite"
"""In the manifest as it is kept: the command of the project's own suite, where that judges the whole."""
_SHOWN = 20
DROPPED = "check.dropped"
"""In the journal: the suite says nothing about the batch, and why."""


def suite_command(app: App, folder: str) -> str:
    """The project's own suites as one command; nothing where there is none."""
    top = find_top(folder)
    if top is None:
        return ""
    # A Debian without more has no `python`; who has one means that, perhaps of a virtual environment.
    python = "python" if find("python", path=app.settings.path) else "python3"
    commands = [
        f"cd {suite.folder} && {line}" if suite.folder else line
        for suite in suites_of(app, folder=top, required=False)
        for line in [plain_command(suite.command, python=python)]
    ]
    return " && ".join(f"({line})" if len(commands) > 1 else line for line in commands)


def found(app: App, folder: str) -> str:
    """The same for whoever opens a batch without a look at the ground: settings that cannot be read stop nobody."""
    try:
        return suite_command(app, folder)
    except HandoffError as error:
        app.notes.append(f"The project's own suite cannot be found: {error.message}")
        return ""


def drop(app: App, task: Task, *, fence: int | None, clone: Workspace, verdict: Verdict) -> Task | None:
    """The fan-in without the suite, where that says nothing about the batch: it cannot run here, or it was red before.

    Only for the suite nobody named: what a manifest asks for is held.
    """
    if task.kind != tasks.FAN_IN or task.batch is None or fence is None:
        return None
    batch = batches.get(app.database, key=task.batch)
    if not task.check_command or loads(batch.manifest or "{}").get(SUITE) != task.check_command:
        return None
    missing = faults.missing_for(verdict, owns=task.patterns, folder=clone.tree)
    if missing is not None:
        reason = f"it cannot run here ({missing or verdict.word})"
    elif arrival.is_red_alone(app, task, onto=clone.target):
        reason = "it is red on the branch itself, without the batch"
    else:
        return None
    with app.database.transaction() as transaction:
        freed = leases.drop_check(transaction, key=task.key, fence=fence)
        if freed is None:
            return None
        journal.append(transaction, DROPPED, task=freed, command=task.check_command, reason=reason)
    app.notes.append(f"The project's own suite says nothing about the batch: {reason}.")
    return freed


def words(batch: Batch, fan_in: Task, events: Iterable[Event]) -> str:
    """By what the whole is judged, for the report: a narrower check than the suite is told as what it is."""
    kept = loads(batch.manifest or "{}")
    judged = _judged_by(kept, fan_in, events)
    if kept.get("land") == batches.LAND_IN_ORDER:
        return f"Each part landed by its own check alone; the merged result is checked once, after the last. {judged}"
    return judged


def _judged_by(kept: Mapping[str, Any], fan_in: Task, events: Iterable[Event]) -> str:
    dropped = next((event.body for event in events if event.kind == DROPPED), None)
    if dropped is not None:
        return f"The project's own suite (`{dropped['command']}`) did not check the merged result: {dropped['reason']}."
    if not fan_in.check_command:
        return "Nothing checks the merged result: the manifest names no check, and no suite of the project was found green."
    if kept.get(SUITE) == fan_in.check_command:
        return f"The merged result is checked with the project's own suite: `{fan_in.check_command}`."
    return f"The merged result is checked with what the manifest says, not by the project's own suite: `{fan_in.check_command}`."


# --- when it is whole ------------------------------------------------------------------------------------------


def refuse_unfinished(app: App, task: Task) -> None:
    """Nobody ends a batch while parts of it are still to be done, a person neither: they take them out first."""
    parts = tasks.of_batch(app.database, batch=task.batch or 0)
    missing = [
        part.label for part in parts if part.key != task.key and not (part.ended or part.state == states.BLOCKED)
    ]
    if missing:
        raise Refused(
            f"'{task.label}' is not done: its batch is not whole, {', '.join(missing[:_SHOWN])} not finished.",
            f"Wait for them, or take them out: {app.settings.program} cancel {missing[0]}",
        )


def refuse_not_landed(app: App, task: Task) -> None:
    """A batch is whole when its parts are on the branch: what they made in clones comes there by `land`."""
    names = task_work.not_landed(app, task)
    if names:
        program = app.settings.program
        if find_top(task.workspace) is None:
            raise Refused(
                f"'{task.label}' is not done: its checkout {task.workspace} is not there, and work of its parts is on branches:"
                f" {', '.join(names[:_SHOWN])}",
                f"If it was moved, report it in its new folder: {program} task done {task.label}",
            )
        raise Refused(
            f"'{task.label}' is not done: work of its parts is not on the branch yet: {', '.join(names[:_SHOWN])}",
            f"Bring it in: {program} land {' '.join(names)}. Or go without: {program} cancel {task.label}",
        )

"""What no journey may breach, after any step: each a function whose name is the sentence. They raise with the whole story."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from handoff.base.errors import Conflict, HandoffError, Refused
from hunt.record import Hold, Record, owned
from hunt.world import OTHER, PROJECT, Picture, World, blob

if TYPE_CHECKING:
    from collections.abc import Iterable

_OPEN = ("waiting", "ready", "running")
_UNDO = re.compile(r"\bundo\b", re.IGNORECASE)
_CHARGED = re.compile(r"that it does not own: (.*)$", re.MULTILINE)


class Breach(AssertionError):
    """An invariant does not hold."""


def _demand(true: object, sentence: str, *facts: object) -> None:
    if not true:
        raise Breach(f"{sentence}: {'; '.join(map(str, facts))}")


# --- contained ------------------------------------------------------------------------------------------------


def nothing_is_removed_before_its_content_is_elsewhere(world: World, before: Picture, after: Picture) -> None:
    there = {blob(data) for files in after.folders.values() for data in files.values()}
    gone = {
        blob(data): (folder, path)
        for folder, files in before.folders.items()
        for path, data in files.items()
        if after.files(folder).get(path) != data and blob(data) not in there
    }
    if gone:
        lost = [place for name, place in gone.items() if name not in world.anywhere()]
        _demand(not lost, "contained", "nowhere any more", lost)


def what_was_reported_done_is_on_a_branch_that_is_named(world: World, record: Record) -> None:
    if record.promised:
        held = world.on_branches()
        lost = [why for work in record.promised.values() for name, why in work.items() if name not in held]
        _demand(not lost, "contained", "reported done and on no branch", lost)


# --- whole ----------------------------------------------------------------------------------------------------


def a_fan_in_runs_only_when_all_parts_have_ended(now: Picture) -> None:
    for batch in now.batches.values():
        fan_in = now.rows.get(batch.fan_in or 0)
        if fan_in is None or fan_in.state not in ("ready", "running", "gated", "done"):
            continue
        late = [task.label for task in _parts(now, batch.key) if task.state in _OPEN]
        _demand(not late, "whole", f"{fan_in.label} is {fan_in.state}", f"parts not ended: {late}")


def a_batch_is_done_when_every_part_has_landed_or_a_person_agreed(world: World, record: Record, now: Picture) -> None:
    for batch in now.batches.values():
        if batch.state != "done":
            continue
        agreed = record.agreed.get(batch.key, set())
        for part in _parts(now, batch.key):
            if part.key in agreed or part.state == "cancelled":
                continue
            _demand(part.state == "done", "whole", f"batch {batch.id} is done", f"{part.label} is {part.state}")
            lost = [why for name, why in record.promised.get(part.key, {}).items() if name not in world.on_target()]
            _demand(not lost, "whole", f"batch {batch.id} is done", "not on the target", lost)


def _parts(now: Picture, batch: int) -> list:
    return [task for task in now.rows.values() if task.batch == batch and task.kind == "sub-task"]


# --- own sins only --------------------------------------------------------------------------------------------


def a_session_answers_only_for_what_it_changed(
    record: Record, hold: Hold, now: Picture, error: HandoffError | None
) -> None:
    if not isinstance(error, Refused):
        return
    said = _CHARGED.search(error.message)
    if said is None:
        return
    _demand(not _UNDO.search(error.message + error.hint), "own sins only", "told to undo", error.message, error.hint)
    for path in said[1].split(", "):
        here = now.files(hold.folder).get(path)
        _demand(hold.found.get(path) != here, "own sins only", f"{hold.session} is charged with {path}", "unchanged")
        others = [task for task in _neighbours(now, hold) if owned(path, task.patterns)]
        _demand(
            not others or hold.kind != "tab", "own sins only", f"{path} charged to {hold.session}", f"is {others}'s"
        )


def a_trespass_is_never_believed(hold: Hold, now: Picture, error: HandoffError | None) -> None:
    if error is not None or not hold.area:
        return
    here = now.files(hold.folder)
    theirs = [task.patterns for task in _neighbours(now, hold)] if hold.kind == "tab" else []
    foreign = [
        path
        for path, data in hold.wrote.items()
        if not hold.owns(path)
        and here.get(path) == data
        and hold.found.get(path) != data
        and not any(owned(path, patterns) for patterns in theirs)
    ]
    _demand(not foreign, "no commit contains what its session does not own", f"{hold.session} was believed", foreign)


def _neighbours(now: Picture, hold: Hold) -> Iterable:
    """Other tasks that may write in the same checkout: alive, or ended since the claim."""
    return [
        task
        for task in now.rows.values()
        if task.key != hold.key and task.patterns and (task.ended_at is None or task.ended_at >= hold.since)
    ]


# --- fenced ---------------------------------------------------------------------------------------------------


def only_the_session_with_the_fence_speaks(
    before: Picture, after: Picture, key: int, error: HandoffError | None
) -> None:
    """Called when somebody spoke for a task that another session holds."""
    _demand(isinstance(error, Conflict), "fenced", f"{before.rows[key].label}: a stranger was answered with {error!r}")
    _demand(before.rows[key] == after.rows[key], "fenced", "a stranger changed the row", after.rows[key])


# --- scoped ---------------------------------------------------------------------------------------------------


def a_command_touches_the_project_it_was_called_for(world: World, before: Picture, after: Picture) -> None:
    _demand(before.files(world.other) == after.files(world.other), "scoped", "files of the other project changed")
    for key, task in before.rows.items():
        if task.project == OTHER:
            _demand(after.rows.get(key) == task, "scoped", f"{task.label} of the other project changed")
    strange = [task.label for task in after.rows.values() if task.project not in (PROJECT, OTHER)]
    _demand(not strange, "scoped", f"tasks of an unknown project: {strange}")

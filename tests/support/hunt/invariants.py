"""What no journey may breach, after any step: each a function whose name is the sentence. They raise with the whole story."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from handoff.base.errors import Conflict, HandoffError, Refused
from handoff.board import gates
from hunt.killed import Killed
from hunt.record import Hold, Record, owned
from hunt.world import OTHER, PROJECT, Picture, World, blob

if TYPE_CHECKING:
    from collections.abc import Iterable

    from handoff.board.tasks.tasks import Task

_OPEN = ("waiting", "ready", "running")
_UNDO = re.compile(r"\bundo\b", re.IGNORECASE)
_CHARGED = re.compile(r"that it does not own: (.*)$", re.MULTILINE)


# What the journal said last about a task → the states it may then be in. A fan-in that waits for a part again is told by its
# batch (batch.reopened), a task that was retried while it lacks something waits.
_TOLD = {
    "": ("ready", "waiting"),  # a part: its batch was opened
    "task.added": ("ready", "waiting"),
    "task.readied": ("ready", "waiting"),
    "task.claimed": ("running",),
    "task.revived": ("running",),
    "task.released": ("ready", "waiting"),
    "task.expired": ("ready", "waiting"),
    "task.retried": ("ready", "waiting"),
    "task.blocked": ("blocked",),
    "task.cancelled": ("cancelled",),
    "task.finished": ("done", "waiting"),
    "gate.opened": ("gated", "waiting"),
    "gate.approved": ("ready", "waiting"),
    "gate.rejected": ("blocked",),
    "gate.withdrawn": ("waiting",),
}
TELLING = frozenset(_TOLD)


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


def what_was_reported_done_can_be_brought_back(world: World, record: Record) -> None:
    held = world.anywhere()
    lost = [why for work in record.promised.values() for name, why in work.items() if name not in held]
    _demand(not lost, "contained", "taken back and in no snapshot", lost)


def nobodys_document_is_overwritten(record: Record) -> None:
    for path, text in record.foreign.items():
        with open(path, encoding="utf-8") as file:
            found = file.read()
        _demand(found == text, "contained", f"{path} was somebody else's", found[:80])


# --- whole ----------------------------------------------------------------------------------------------------


def a_fan_in_runs_only_when_all_parts_have_ended(now: Picture) -> None:
    for batch in now.batches.values():
        fan_in = now.rows.get(batch.fan_in or 0)
        if fan_in is None or fan_in.state not in ("ready", "running", "gated", "done"):
            continue
        late = [task.label for task in _parts(now, batch.key) if task.state in _OPEN]
        _demand(not late, "whole", f"{fan_in.label} is {fan_in.state}", f"parts not ended: {late}")


def a_batch_becomes_done_when_every_part_has_landed_or_a_person_agreed(
    world: World, record: Record, before: Picture, now: Picture
) -> None:
    for batch in now.batches.values():
        if batch.state != "done" or (batch.key in before.batches and before.batches[batch.key].state == "done"):
            continue
        agreed = record.agreed.get(batch.key, set())
        # It lands on the branch that was checked out when its session began, or from a tab on the one that is now.
        targets = [world.on_branch(ref) for ref in {world.head(), *record.began_on.get(batch.fan_in or 0, ())}]
        for part in _parts(now, batch.key):
            if part.key in agreed or part.state == "cancelled":
                continue
            _demand(part.state == "done", "whole", f"batch {batch.id} is done", f"{part.label} is {part.state}")
            work = record.promised.get(part.key, {})
            lost = [[why for name, why in work.items() if name not in held] for held in targets]
            _demand(not all(lost), "whole", f"batch {batch.id} is done", "not on the target", lost)


def _parts(now: Picture, batch: int) -> list[Task]:
    return [task for task in now.rows.values() if task.batch == batch and task.kind == "sub-task"]


# --- own sins only --------------------------------------------------------------------------------------------


def a_session_answers_only_for_what_it_changed(hold: Hold, now: Picture, error: HandoffError | None) -> None:
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


def a_trespass_is_never_believed(hold: Hold, now: Picture) -> None:
    if not hold.area:
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


def _neighbours(now: Picture, hold: Hold) -> Iterable[Task]:
    """Other tasks that may write in the same checkout: alive, or ended since the claim."""
    return [
        task
        for task in now.rows.values()
        if task.key != hold.key
        and task.project == PROJECT
        and task.patterns
        and (task.ended_at is None or task.ended_at >= hold.since)
    ]


# --- derived --------------------------------------------------------------------------------------------------


def checked_file(task: Task) -> str:
    """The file that a task's check looks for."""
    return task.check_command.rpartition(" ")[2]


def done_is_what_its_check_says(task: Task, files: dict[str, bytes]) -> None:
    if task.check_command:
        _demand(checked_file(task) in files, "done is derived", f"{task.label} is done", f"red: {task.check_command}")


# --- fenced ---------------------------------------------------------------------------------------------------


def only_the_session_with_the_fence_speaks(
    before: Picture, after: Picture, key: int, error: HandoffError | None
) -> None:
    """Called when somebody spoke for a task that another session holds."""
    told = isinstance(error, Conflict | Killed)
    _demand(told, "fenced", f"{before.rows[key].label}: a stranger was answered with {error!r}")
    _demand(before.rows[key] == after.rows[key], "fenced", "a stranger changed the row", after.rows[key])


# --- scoped ---------------------------------------------------------------------------------------------------


def a_command_touches_the_project_it_was_called_for(world: World, before: Picture, after: Picture) -> None:
    _demand(before.files(world.other) == after.files(world.other), "scoped", "files of the other project changed")
    for key, task in before.rows.items():
        if task.project == OTHER:
            _demand(after.rows.get(key) == task, "scoped", f"{task.label} of the other project changed")
    strange = [task.label for task in after.rows.values() if task.project not in (PROJECT, OTHER)]
    _demand(not strange, "scoped", f"tasks of an unknown project: {strange}")


# --- shown ----------------------------------------------------------------------------------------------------


def no_file_contradicts_the_rows(world: World, now: Picture) -> None:
    newest: dict[str, Task] = {}
    for task in sorted(now.rows.values(), key=lambda one: (not one.ended, one.key)):
        if task.project == PROJECT:
            newest[task.id] = task
    for id, task in newest.items():
        base = os.path.join(world.home, PROJECT, "queue", id)
        with open(f"{base}.md", encoding="utf-8") as file:
            text = file.read()
        _demand(task.brief.splitlines()[0] in text, "shown", f"{base}.md is not about {task.label}", text[:200])
        for ending, state in ((".done", "done"), (".BLOCKED.md", "blocked"), (".uri", "ready")):
            there = os.path.exists(base + ending)
            if ending == ".uri" and not there:
                continue  # what is stopped is not offered
            _demand(there == (task.state == state), "shown", f"{task.label} is {task.state}", f"{ending}: {there}")


def a_gate_waits_exactly_where_a_task_is_gated(world: World, now: Picture) -> None:
    asked = sorted(one.gate.task for one in gates.listing(world.database))
    gated = sorted(task.key for task in now.rows.values() if task.state == "gated")
    _demand(asked == gated, "shown", f"open gates of {asked}", f"gated tasks {gated}")


def the_journal_tells_what_the_rows_say(now: Picture, told: dict[int, str]) -> None:
    """`told`: what the journal said last about each task's state."""
    for key, task in now.rows.items():
        states = _TOLD.get(told.get(key, ""), ())
        _demand(task.state in states, "shown", f"{task.label} is {task.state}", f"the journal: {told.get(key)}")


def a_list_shows_what_the_rows_say(now: Picture, shown: dict[str, Any]) -> None:
    """`shown`: what `queue --all --json` printed."""
    rows = {(task.label, task.state, task.held_by) for task in now.rows.values() if task.project == PROJECT}
    lines = {(one["task"], one["state"], one["held_by"]) for one in shown["tasks"]}
    _demand(rows == lines, "shown", "queue and rows differ", rows ^ lines)


# --- what was asked for ---------------------------------------------------------------------------------------


def what_is_stopped_is_not_claimed(record: Record, before: Picture, after: Picture) -> None:
    for key, task in after.rows.items():
        if task.project != PROJECT or task.state != "running" or before.rows[key].fence == task.fence:
            continue
        names = {"project": "", "batch": task.scope or task.id.removesuffix("-join"), "task": task.id}
        stops = [one for one in record.stopped if names[one[0]] == one[1] and (one[0] != "batch" or task.batch)]
        _demand(not stops, "stopped", f"{task.label} was claimed", stops)


def a_lease_is_as_long_as_was_asked(task: Task, seconds: float) -> None:
    _demand(task.lease_seconds == seconds, "fenced", f"asked for {seconds}", f"got {task.lease_seconds}")


# --- reversible -----------------------------------------------------------------------------------------------


def a_dry_run_changes_nothing(before: Picture, after: Picture) -> None:
    for name in ("folders", "refs", "head"):
        _demand(getattr(before, name) == getattr(after, name), "reversible", f"a dry run changed {name}")


def a_dry_run_tells_what_the_real_run_does(planned: Any, done: Any) -> None:
    if planned is not None and done is not None:
        one, two = ([(change.kind, change.path) for change in run.changes] for run in (planned, done))
        _demand(sorted(one) == sorted(two), "reversible", f"the dry run said {one}", f"the real one {two}")


def what_was_taken_back_at_once_is_as_it_was(
    before: Picture, after: Picture, folder: str, refused: HandoffError | None
) -> None:
    _demand(refused is None or isinstance(refused, Killed), "reversible", f"nothing came later, and yet: {refused!r}")
    if refused is None:
        _demand(before.files(folder) == after.files(folder), "reversible", "files", after.files(folder).keys())
        _demand(before.refs.get(before.head) == after.refs.get(after.head), "reversible", "the branch is elsewhere")


def taking_back_spares_what_came_later(
    world: World, record: Record, time: float, before: Picture, after: Picture
) -> None:
    old, new = before.files(world.repo), after.files(world.repo)
    taken = [
        path
        for (folder, path), (when, wrote) in record.touched.items()
        if folder == world.repo and when > time and old.get(path) == wrote and new.get(path) != wrote
    ]
    _demand(not taken, "reversible", "work that came later was taken along", taken)
    was, now = before.refs.get(before.head, ""), after.refs.get(after.head, "")
    if was != now:
        later = {commit for commit, when in record.committed.items() if when > time} & world.reached([was])
        lost = later - world.reached([now])
        _demand(not lost, "reversible", "a commit that came later was taken along", lost)

"""What ended tasks have left at the shared repository goes when it is needed no more: every ref there slows every push of every machine.

What landed goes at once, also what a person has merged, squashed or rebased. A finished branch that nobody merged stays: it is somebody's work. What belongs to
no task we know may be another relay's: it goes only if it was merged.
"""

from __future__ import annotations

from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.events import texts
from handoff.board.tasks import batches, states, tasks
from handoff.engine.workspaces.task_clones import name_of
from handoff.git.remotes import BASES, BRANCHES, PUBLISHED

if TYPE_CHECKING:
    from handoff.board.tasks.tasks import Task
    from handoff.engine.app import App
    from handoff.git.remotes import Remote

GRACE_SECONDS = 3600.0
_HOUR, _DAY = 3600.0, 86_400.0
_BASE_DAYS = 2.0  # twice as long as a machine believes that a base it has pushed is still there
_ALL = 1_000_000
_AT_ONCE = 100


class LeftRefs(Record):
    """What one task has left at the shared repository: its branch, and what each of its holders had pushed."""

    branch: dict[str, str]
    work: dict[str, str]

    @property
    def all(self) -> dict[str, str]:
        return {**self.branch, **self.work}


def retire(
    app: App, *, project: str, remote: Remote, mirror: str, days: float, grace: float = GRACE_SECONDS
) -> list[str]:
    """Take away what nobody needs there any more; the names that went."""
    refs = remote.refs(f"{BRANCHES}*", f"{PUBLISHED}*", f"{BASES}*")
    now = app.clock.now()
    over: dict[str, str] = {}
    unsure: list[tuple[Task | None, LeftRefs]] = []
    for name, left in _by_task(refs).items():
        task = tasks.look_up(app.database, key=_key_of(name))
        if task is not None and (name != name_of(task) or task.project != project):
            continue  # another relay's, whose numbers are not ours
        if task is not None and not _is_over(app, task, now - grace):
            continue
        if task is not None and texts.read(task.evidence, {}).get("landed"):
            over |= left.all
        else:
            unsure.append((task, left))
    bases, strange = _old_bases(app, project, refs, now)
    merged = remote.history(mirror) if strange or any(left.branch for _, left in unsure) else set()
    ours = {name: tip for task, left in unsure if task is not None for name, tip in left.branch.items()}
    apart = in_turn([name for name, tip in ours.items() if tip not in merged], int(now / _HOUR))
    squashed = remote.contained(mirror, {name: ours[name] for name in apart}) if merged else set()
    for task, left in unsure:
        if left.branch and all(tip in merged or name in squashed for name, tip in left.branch.items()):
            over |= left.all
        elif task is not None and (task.ended_at or now) < now - days * _DAY:
            over |= left.all if task.state == states.CANCELLED else left.work
    over |= bases | {ref: tip for ref, tip in strange.items() if tip in merged}
    return remote.delete(mirror, over) if over else []


def in_turn(names: list[str], hour: int) -> list[str]:
    """Some of the names, others in the next hour: what each takes to judge is small, and there may be thousands."""
    rows = [sorted(names)[start : start + _AT_ONCE] for start in range(0, len(names), _AT_ONCE)]
    return rows[hour % len(rows)] if rows else []


def _by_task(refs: dict[str, str]) -> dict[str, LeftRefs]:
    found: dict[str, LeftRefs] = {}
    for ref, tip in refs.items():
        if ref.startswith(BRANCHES):
            found.setdefault(ref.removeprefix(BRANCHES), LeftRefs({}, {})).branch[ref] = tip
        elif ref.startswith(PUBLISHED):
            found.setdefault(ref.removeprefix(PUBLISHED).rpartition("/")[0], LeftRefs({}, {})).work[ref] = tip
    return {name: left for name, left in found.items() if _key_of(name)}  # somebody's own branch has no number


def _key_of(name: str) -> int:
    number = name.rpartition("-")[2]
    return int(number) if number.isdecimal() else 0


def _is_over(app: App, task: Task, before: float) -> bool:
    """It has ended, and nothing that lives begins with what it left."""
    if task.ended_at is None or task.ended_at > before:
        return False
    if task.batch is not None and batches.get(app.database, key=task.batch).ended_at is None:
        return False
    return not tasks.is_needed(app.database, key=task.key)


def _old_bases(app: App, project: str, refs: dict[str, str], now: float) -> tuple[dict[str, str], dict[str, str]]:
    """Commits that tasks of ours began at and none that lives or is young: whoever writes a task down pushes its base again by then.

    And those that no task of ours names.
    """
    bases = {ref: tip for ref, tip in refs.items() if ref.startswith(BASES)}
    if not bases:
        return {}, {}
    needed: dict[str, bool] = {}
    for task in tasks.listing(app.database, project=project, include_ended=True, limit=_ALL):
        head = str(task.baseline_facts.get("head", ""))
        young = not task.ended or task.created_at > now - _BASE_DAYS * _DAY
        needed[head] = young or needed.get(head, False)
    named = {ref: ref.removeprefix(BASES) for ref in bases}
    return (
        {ref: tip for ref, tip in bases.items() if needed.get(named[ref]) is False},
        {ref: tip for ref, tip in bases.items() if named[ref] not in needed},
    )

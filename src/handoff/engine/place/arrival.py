"""A task's judged work on the person's branch: landed, or what stands in the way there, and whose it is."""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager, suppress

from handoff.base.errors import Conflict, Refused
from handoff.base.files import locked
from handoff.base.ids import on_one_line
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.tasks import tasks
from handoff.engine.place import landing, task_clones
from handoff.engine.place.landing import conflict
from handoff.engine.place.landing.members import target_of
from handoff.engine.place.landing.resolvers import check_commit
from handoff.engine.safety.snapshots import keep
from handoff.git import obeyed
from handoff.git.landing.merge import merge
from handoff.git.landing.target import InTheWay
from handoff.git.obeyed import Trust
from handoff.git.plumbing.refs import head
from handoff.git.snapshots.restore import tree_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from typing import Any

    from handoff.board.tasks.tasks import Task
    from handoff.checks.commands import Verdict
    from handoff.engine.app import App
    from handoff.engine.place.proof.evidence import Evidence
    from handoff.engine.safety.snapshots import SnapshotStore
    from handoff.git.landing.conflicts import LaidOut
    from handoff.git.landing.merge import Conflicted, Member
    from handoff.git.landing.target import Landing, Target
    from handoff.git.plumbing.snapshot_repo import SnapshotRepo

    Turn = Callable[[SnapshotStore], AbstractContextManager[None]]

_SHOWN = 20
_TURN_SECONDS, _SECONDS = 600.0, 900.0
TRAILER = "Handoff-Task"


class NotLanded(Refused):
    """Judged and kept, but something of the person's is in the way: theirs to move, and no fault of the agent's."""


class SentBack(Refused):
    """Joined, the checks are red because of some parts: they go back to their sessions with what the checks said."""

    def __init__(self, message: str, hint: str, *, culprits: dict[int, str]) -> None:
        super().__init__(message, hint)
        self.culprits = culprits


class JudgedWork(Record):
    """A session's work as it was judged: the evidence, and the commit that holds exactly what was checked."""

    evidence: Evidence
    member: Member


class _Ground(Record):
    """What a landing needs to know: whose work, where to, and what it is joined with."""

    app: App
    snapshot_store: SnapshotStore
    task: Task
    branch: str

    @property
    def short(self) -> str:
        return self.branch.removeprefix("refs/heads/")


class LandingPlan(Record):
    """Where a task's work goes: the move of the branch, if there is one, and what the task will say of it."""

    record: dict[str, Any]
    """The branch's new tip, the commits it holds then (only their clones and branches may go), the branch, how it was joined."""
    landing: Landing | None = None
    exact: bool = False
    """Whether the branch will hold exactly the tree that the task's own check saw."""
    verdict: Verdict | None = None
    """What the check said of the joined tree, where that is another."""


@contextmanager
def turn(snapshot_store: SnapshotStore) -> Iterator[None]:
    """Landings of a project take turns: a check of what was joined would be run in vain if another came first."""
    lock = os.path.join(snapshot_store.place.project, "landing.lock")
    with ExitStack() as mine:
        with suppress(Conflict):  # the check of another takes very long: both go on, and one of them begins anew
            mine.enter_context(locked(lock, what="the branch", patience=_TURN_SECONDS))
        yield


def plan(
    app: App, snapshot_store: SnapshotStore, task: Task, member: Member, *, onto: str, waited: bool = False
) -> LandingPlan:
    """All finished parts and then the task's own work, joined with the branch it began at: all of it or nothing.

    Everything is asked that can say no; nothing is moved. What has `waited` for a person may have been joined by them meanwhile.
    """
    store, trust = snapshot_store.store, Trust(snapshot_store.place.project)
    (trust.say_yes if waited else trust.forget)(member.name)  # a person may have said no to what it was before
    members = _members(app, snapshot_store, task, member)
    if not members:
        return LandingPlan({"landed": head(snapshot_store.place.source).commit, "parts": [member.commit], "onto": onto})
    ground = _ground(app, snapshot_store, task, onto, member)
    parts = [one.commit for one in (*members, member)]
    if waited:
        keep(app, snapshot_store, f"before {task.label} lands")  # the store owns all objects now
        target = target_of(app, snapshot_store)
        tip = target.tip(ground.branch)
        if _came_by_hand(store, task, member, tip) or all(is_on(store, target, one, tip) for one in members):
            return LandingPlan({"landed": tip, "parts": parts, "onto": ground.branch})
    try:
        planned, exact = _once(ground, members, member)
    except InTheWay as error:
        raise in_the_way(app, snapshot_store, task, member, error) from None
    except landing.Unseen as error:
        raise _unseen(ground, member, error) from None
    record = {"landed": planned.merged.new, "parts": parts, "onto": ground.branch, **_told(planned)}
    return LandingPlan(record, planned.landing, exact, planned.verdict)


def move(snapshot_store: SnapshotStore, target: Target, landing: Landing) -> bool:
    """Bring the branch where it was planned to go; False where it has moved on, so that it must be planned anew.

    What landed before, by this very plan, is not landed again: also where the person has taken it back since.
    """
    store, tip = snapshot_store.store, target.tip(landing.target)
    known = any(one.id == landing.id and one.state == "landed" for one in target.all())
    if known or (tip and store.git("merge-base", "--is-ancestor", landing.new, tip).code == 0):
        return True
    if tip != landing.old:
        return False
    try:
        target.move(landing)
    except InTheWay:
        raise
    except Conflict:
        return False
    return True


def _members(app: App, snapshot_store: SnapshotStore, task: Task, member: Member) -> list[Member]:
    """What lands: the finished parts, then the task's own work. The files that a person's task names are theirs to name."""
    tasks_of = {task_clones.work_name(part): part for part in task_clones.parts(app, task)}
    members = [*task_clones.kept_parts(app, snapshot_store, task), *([member] if member.touches else [])]
    owners = {one.name: tasks_of.get(one.name, task) for one in members}
    return [
        one._replace(named=() if owners[one.name].is_from_inside else tuple(owners[one.name].patterns))
        for one in members
    ]


def _told(done: landing.LandingOutcome) -> dict[str, Any]:
    """How the work was joined, for whoever reads the report: what git did not join alone, and what to look at."""
    found = {
        "joined": [one._asdict() for one in done.merged.settled[:_SHOWN]],
        "followed": [one._asdict() for one in done.merged.followed[:_SHOWN]],
        "doubts": [one._asdict() for one in done.doubts[:_SHOWN]],
    }
    return {name: values for name, values in found.items() if values}


def _came_by_hand(store: SnapshotRepo, task: Task, member: Member, tip: str) -> bool:
    """Whether a person has brought the kept commit in, also where they had to mend it: its message names the task."""
    answer = store.git("log", "--format=%B", f"{member.base}..{tip}", "--")
    return answer.code == 0 and f"{TRAILER}: {task.label}" in answer.text.splitlines()


def _ground(app: App, snapshot_store: SnapshotStore, task: Task, onto: str, member: Member) -> _Ground:
    branch = onto or head(snapshot_store.place.source).ref
    ground = _Ground(app, snapshot_store, task, branch)
    if not branch:
        raise _blocked(
            ground, member, "HEAD is detached, so there is no branch to land on", ["Check out the branch it is for."]
        )
    if not target_of(app, snapshot_store).tip(branch):
        fix = f"Bring it back: git branch {ground.short} COMMIT (git reflog shows where it was)."
        raise _blocked(ground, member, f"the branch {ground.short} it began at is gone", [fix])
    return ground


def _unseen(ground: _Ground, member: Member, error: landing.Unseen) -> NotLanded:
    """A person is shown exactly what the work changes in files that are obeyed; their yes means that and nothing else."""
    Trust(ground.snapshot_store.place.project).ask(member.name, error.found)
    program, label = ground.app.settings.program, ground.task.label
    return NotLanded(
        f"'{label}' has not landed: it changes {error.paths}, which {error.who}. See the change:"
        f" {program} show {label}\n" + "\n".join(obeyed.in_words(error.found)),
        f"It is judged and kept. Land it with this change: {program} answer {label} yes. Or refuse it: {program} answer"
        f" {label} no 'REASON'",
    )


def in_the_way(
    app: App, snapshot_store: SnapshotStore, task: Task, member: Member, error: InTheWay, *, onto: str = ""
) -> NotLanded:
    """Files of the person's are dirty where the work would land."""
    ground = _Ground(app, snapshot_store, task, onto)
    lines = [f"{path}: not committed in {error.checkout}" for path in error.paths[:_SHOWN]]
    count = len(error.paths)
    what = error.paths[0] if count == 1 else f"{count} files"
    fix = "Commit, stash or move what is yours there; nothing of it was touched."
    return _blocked(ground, member, f"your uncommitted {what} is in the way", [*lines, fix])


def _once(ground: _Ground, members: list[Member], member: Member) -> tuple[landing.LandingOutcome, bool]:
    """The landing as it is planned, and whether its tip holds exactly the tree that was checked."""
    app, snapshot_store, task = ground.app, ground.snapshot_store, ground.task
    how: dict[str, Any] = {"names": (), "prepared": members, "snapshot_store": snapshot_store, "into": ground.branch}
    how["rules"] = bool(task.check_command)  # its check has passed on what they made, or is run on it now
    planned = landing.land(app, **how, dry_run=True)
    _refuse_conflicts(ground, member, planned)
    if not planned.merged.steps:
        return planned, False  # nothing was changed, or a report that was killed had landed it
    exact = tree_of(snapshot_store.store, planned.merged.new) == tree_of(snapshot_store.store, member.commit)
    check = "" if exact else task.check_command  # the branch has moved on: what would be there now is checked anew
    done = landing.land(app, **how, check=check, needs=_needs(ground, members, member), only_plan=True)
    _refuse_conflicts(ground, member, done)
    if done.verdict is not None and not done.verdict.green:
        said = f"joined with {ground.short} as it is now, `{check}` is {done.verdict.word} ({done.blame.words if done.blame else 'all of it'})"
        if task.kind == tasks.FAN_IN:
            if (sent := _sent_back(ground, member, done, said)) is not None:
                raise sent
            raise Refused(
                f"'{task.label}' is not done: {said}.\n{done.verdict.tail}",
                "Fix it and report again; nothing was changed.",
            )
        raise _blocked(ground, member, said, done.verdict.tail.splitlines()[-_SHOWN:])
    return done, exact


def _needs(ground: _Ground, members: list[Member], member: Member) -> dict[str, frozenset[str]]:
    """Which members build on which: parts by their order in the batch, the fan-in's own work on all of them."""
    parts = task_clones.parts(ground.app, ground.task)
    names = {part.key: task_clones.work_name(part) for part in parts}
    found = {member.name: frozenset(one.name for one in members if one.name != member.name)}
    for part in parts:
        needed = tasks.needs_of(ground.app.database, key=part.key)
        found[names[part.key]] = frozenset(names[one.key] for one in needed if one.key in names)
    return found


def blame_parts(app: App, task: Task, member: Member, *, onto: str, laid: LaidOut | None = None) -> SentBack | None:
    """The checks are red on what the parts make together, and the fan-in has changed nothing of its own: whose red is it?

    `laid` is a conflict that it was to settle: then it is joined as it says.
    """
    snapshot_store = task_clones.snapshot_store_of_project(app, task)
    settled = [conflict.way_of(snapshot_store.store, laid, member.commit)] if laid is not None else []
    members = task_clones.kept_parts(app, snapshot_store, task)
    ground = _ground(app, snapshot_store, task, onto, member)
    done = landing.land(
        app,
        names=(),
        prepared=members,
        snapshot_store=snapshot_store,
        into=ground.branch,
        check=task.check_command,
        needs=_needs(ground, members, member),
        only_check=True,
        settled=settled,
    )
    said = f"joined, `{task.check_command}` is {done.verdict.word if done.verdict else 'red'}"
    return _sent_back(ground, member, done, said)


def is_red_alone(app: App, task: Task, *, onto: str) -> bool:
    """Whether a task's check is red on its branch as it is now, before anything of the batch has landed there."""
    snapshot_store = task_clones.snapshot_store_of_project(app, task)
    tip = target_of(app, snapshot_store).tip(onto or head(snapshot_store.place.source).ref)
    keep(app, snapshot_store, f"before the check of {task.label} is tried alone")  # the store owns all objects now
    return bool(tip) and not check_commit(app, snapshot_store, tip, task.check_command, (_SECONDS, True)).green


def _sent_back(ground: _Ground, member: Member, done: landing.LandingOutcome, said: str) -> SentBack | None:
    """Where parts alone are to blame, they are the ones to be mended; the fan-in waits for them."""
    culprits = done.blame.culprits if done.blame is not None else ()
    if not culprits or any(one.member == member.name for one in culprits):
        return None
    keys = {task_clones.work_name(part): part.key for part in task_clones.parts(ground.app, ground.task)}
    told = {
        keys[one.member]: "Joined with the other parts, the checks are red because of it."
        f" {one.words}: `{one.verdict.command}` is {one.verdict.word}\n{one.verdict.tail}"
        for one in culprits
        if one.member in keys
    }
    return SentBack(
        f"'{ground.task.label}' is not done: {said}. Sent back: {', '.join(one.member for one in culprits)}.",
        "It goes on by itself when they are done again; nothing was changed.",
        culprits=told,
    )


def _refuse_conflicts(ground: _Ground, member: Member, outcome: landing.LandingOutcome) -> None:
    """Parts that do not join are the fan-in's to mend; what came on the branch meanwhile is not a task's, and a lock is nobody's."""
    conflicts = outcome.merged.conflicts
    if not conflicts:
        return
    if conflict.only_locks(conflicts):
        tried = {one.path: f"the check is red with what came of {one.how}" for one in outcome.refused}
        first, *more = conflict.locks_in_words([one._replace(why=tried.get(one.path, one.why)) for one in conflicts])
        raise _blocked(ground, member, first, more)
    if ground.task.kind == tasks.FAN_IN:
        shown = "\n".join(f"  {on_one_line(one.path)}: {one.first} and {one.second}" for one in conflicts[:_SHOWN])
        raise Refused(
            f"'{ground.task.label}' cannot land: git cannot join these files:\n{shown}",
            _hint(ground),
        )
    lines = [_whose(ground, member, outcome.merged.old, one) for one in conflicts[:_SHOWN]]
    what = on_one_line(conflicts[0].path) if len(conflicts) == 1 else f"{len(conflicts)} files"
    raise _blocked(ground, member, f"git cannot join {what} with {ground.short} as it is now", lines)


def _hint(ground: _Ground) -> str:
    clone, program = task_clones.of_task(ground.app, ground.task), ground.app.settings.program
    if clone is not None and conflict.of_workspace(clone) is not None:
        return f"{ground.short} has moved meanwhile. Give the task back: {program} task release. Whoever takes it next begins there."
    return "Fix them in your workspace and report again, or block the task."


def _whose(ground: _Ground, member: Member, tip: str, one: Conflicted) -> str:
    words = ("log", "-1", "--format=%h %s (%an)", f"{member.base}..{tip}", "--", one.path)
    answer = ground.snapshot_store.store.git(*words, GIT_LITERAL_PATHSPECS="1")
    came = answer.text.strip() if answer.code == 0 else ""
    return f"{on_one_line(one.path)}: " + (
        f"changed by {came}" if came else "you had edited it without a commit when the task began"
    )


def _blocked(ground: _Ground, member: Member, what: str, lines: list[str]) -> NotLanded:
    program, label = ground.app.settings.program, ground.task.label
    branch = task_clones.branch_of_work(ground.snapshot_store, member.name)
    more = [
        f"Its work is judged and kept as {branch}. See it: git show {branch}",
        f"Then: {program} answer {label} yes, which tries again. Or bring it in by hand (git cherry-pick {branch}) and say yes.",
    ]
    return NotLanded("\n".join([f"'{label}' has not landed: {what}.", *lines]), "\n".join(more))


def is_on(store: SnapshotRepo, target: Target, member: Member, tip: str) -> bool:
    """By what came since its base, by a merge that adds nothing, or by a landing of ours: it may have been edited since."""
    came = store.ask("log", "--format=", "--raw", "-z", "--no-renames", "--no-abbrev", f"{member.base}..{tip}")
    words = [word for word in came.split("\0") if word]
    seen = {(path, *facts.split(" ")[1:4:2]) for facts, path in zip(words[::2], words[1::2], strict=True)}
    if all((one.path, one.mode, one.sha) in seen for one in member.touches):
        return True
    landings = [one.new for one in target.all() if one.state == "landed" and member.name in one.members]
    held = (new for new in landings if store.git("merge-base", "--is-ancestor", new, tip).code == 0)
    # A landing under its name may be an older one: it counts where the work, as it was reported, adds nothing to it.
    return any(_adds_nothing(store, at, member) for at in (tip, *held))


def _adds_nothing(store: SnapshotRepo, tip: str, member: Member) -> bool:
    joined = merge(store, tip, [member], moment=0)
    return not (joined.steps or joined.conflicts)

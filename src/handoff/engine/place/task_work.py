"""What a session made in its clone: judged on exactly that tree, kept on a branch of the project, landed by the fan-in."""

from __future__ import annotations

import os
from contextlib import nullcontext

from handoff.base.errors import Conflict, HandoffError, Refused
from handoff.base.ids import on_one_line
from handoff.base.light_json import loads
from handoff.base.markdown import first_line
from handoff.base.record import TYPE_CHECKING, Record
from handoff.base.redaction import without_secrets
from handoff.board import gates
from handoff.board.events import journal
from handoff.board.tasks import batches, outcomes, races, states, tasks
from handoff.checks.assertions.assertions import find_weakened, read_tests
from handoff.checks.suite import is_test
from handoff.engine.place import arrival, task_clones, workspaces
from handoff.engine.place.arrival import JudgedWork
from handoff.engine.place.landing import conflict, renewal
from handoff.engine.place.landing.members import is_stray, member_of, take_back, target_of
from handoff.engine.place.landing.members import outside as outside_of
from handoff.engine.place.proof.evidence import Evidence, run_task_check, stamps_of
from handoff.engine.safety import incidents
from handoff.engine.safety.snapshots import keep as take_snapshot
from handoff.git.landing.merge import without_drafts
from handoff.git.plumbing import find_top
from handoff.git.plumbing.objects import FILE, PROGRAM, differences
from handoff.git.plumbing.refs import KEPT, head
from handoff.git.snapshots.restore import give_objects, tree_of
from handoff.git.tampering import DIRTY_BASE
from handoff.git.workspaces import write_workspace

if TYPE_CHECKING:
    from collections.abc import Container
    from typing import Any

    from handoff.board.tasks.tasks import Task
    from handoff.checks.commands import Verdict
    from handoff.engine.app import App
    from handoff.engine.safety.snapshots import SnapshotStore
    from handoff.git.landing.merge import Member
    from handoff.git.plumbing.snapshot_repo import SnapshotRepo
    from handoff.git.workspaces import Workspace

_TRIES = 2
_LANDED = '"landed"'  # in the evidence a report left
_SHOWN, _NAMED = 20, 5
JUDGED = "check green"
"""The summary of a client that cannot report."""
_MOST = 200
_MOST_BELOW = 2000


def begin(app: App, snapshot_store: SnapshotStore, task: Task, *, session: str) -> Workspace | None:
    """The task's clone for a session, which does not answer for what earlier ones left there outside the ownership.

    That is taken back first, so that its check does not run on it either; what cannot be taken back is remembered.
    """
    task_clones.mend(app, snapshot_store, task)
    before, strays = task_clones.of_task(app, task), None
    if before is not None and before.session != session:
        laid = conflict.of_workspace(before)
        clone = before._replace(owns=conflict.patterns(laid) if laid else task.patterns)
        if outside := outside_of(_taken(app, snapshot_store, clone)):
            _take_back(app, snapshot_store, task, clone, list(outside))
            outside = outside_of(_taken(app, snapshot_store, clone))
        strays = stamps_of(before.tree, outside)
    try:
        return task_clones.ready(app, snapshot_store, task, session=session, strays=strays)
    except renewal.MadeAgain as error:
        _make_again(app, snapshot_store, task, error, session)
        raise
    except conflict.LocksLeft as error:
        gates.ask(app.database, key=task.key, question=error.question, fence=task.fence)
        raise


def _make_again(app: App, snapshot_store: SnapshotStore, task: Task, error: renewal.MadeAgain, session: str) -> None:
    """The clones of these parts go (all they hold is kept), the parts are to be done again, and their fan-in waits for them."""
    for part in task_clones.parts(app, task):
        if part.key in error.told:
            renewal.note_before(
                snapshot_store, task_clones.name_of(part), task_clones.kept_commit(snapshot_store, part)
            )
            if (clone := task_clones.of_task(app, part)) is not None:
                workspaces.remove_workspace(app, name=clone.name, snapshot_store=snapshot_store, why="new beginning")
    with app.database.transaction() as transaction:
        reason = "parts of it are made again on the branch as it is now"
        outcomes.let_go(transaction, task, state=states.READY, fence=task.fence, reason=reason)
        for key, words in error.told.items():
            outcomes.send_back(transaction, key=key, reason=words, session=session)


def _take_back(app: App, snapshot_store: SnapshotStore, task: Task, clone: Workspace, outside: list[str]) -> None:
    kept = take_back(app, snapshot_store=snapshot_store, workspace=clone, paths=outside)
    with app.database.transaction() as transaction:
        journal.append(
            transaction, "task.taken_back", task=task, session=clone.session, outside=outside[:_MOST], snapshot=kept
        )


def judge(app: App, task: Task, workspace: Workspace, *, summary: str = "") -> JudgedWork:
    """Take what the clone holds, run the task's check there inside the sandbox, and see that it still holds the same."""
    snapshot_store = task_clones.snapshot_store_of_project(app, task)
    laid = conflict.of_workspace(workspace)
    for _ in range(_TRIES):
        member = _taken(app, snapshot_store, workspace)
        outside = _own_sins(workspace, member)
        if laid is not None and not outside:
            conflict.refuse_unsettled(task, snapshot_store.store, laid, member.commit)
        verdict = None
        if task.check_command and not outside:
            verdict = run_task_check(app, task, workspace.tree, sandboxed=True, clone=workspace)
            workspace, now = _without_products(app, snapshot_store, workspace, member)
            if now.commit != member.commit:
                changed = now
                continue
        tree = tree_of(snapshot_store.store, member.commit)
        words = _message(races.part_of(app.database, task) or task, task, member, summary, verdict)
        member = member._replace(
            commit=snapshot_store.store.write_commit(tree, [member.base], words, moment=0), message=words
        )
        seen = tree if verdict is not None and verdict.green else ""
        paths = tuple(sorted(member.paths))
        return JudgedWork(
            Evidence(
                head=member.commit, changed=paths, outside=outside, verdict=verdict, workspace=task.workspace, tree=seen
            ),
            member,
        )
    moved = sorted({one.path for one in set(changed.touches) ^ set(member.touches)})
    raise Refused(
        f"'{task.label}' cannot be judged: files changed while its check ran: {', '.join(map(on_one_line, moved[:_SHOWN]))}",
        "Let nothing write while you report; let the check write only files that git ignores.",
    )


def _without_products(
    app: App, snapshot_store: SnapshotStore, workspace: Workspace, before: Member
) -> tuple[Workspace, Member]:
    """What the clone holds after its check. Where it made nothing but new files, these are not what the session did.

    They are remembered as they are now: a session that goes on and reports again is not charged with them.
    """
    now = _taken(app, snapshot_store, workspace)
    came = differences(snapshot_store.store, before.commit, now.commit)
    inside = [one.path for one in came] if all(one.letter == "A" for one in came) else []
    made = stamps_of(workspace.tree, [*outside_of(now), *inside])
    if all(workspace.strays.get(path) == stamp for path, stamp in made.items()):
        return workspace, now
    if fresh := [path for path in made if path not in workspace.strays]:
        app.notes.append(f"Left by the check, and no part of the work: {_listed(fresh)}.")
    workspace = workspace._replace(strays={**workspace.strays, **made})
    write_workspace(workspace)
    return workspace, _taken(app, snapshot_store, workspace)


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(map(on_one_line, names[:_NAMED])) + more


def _own_sins(workspace: Workspace, member: Member) -> tuple[str, ...]:
    """What this session changed of it: not what it found so."""
    return tuple(line for path, line in outside_of(member).items() if not is_stray(workspace, path))


class CloneChanges(Record):
    """What a clone holds beside its base: what would be taken in, and what would not."""

    changed: tuple[str, ...]
    outside: tuple[str, ...]


def changes(app: App, snapshot_store: SnapshotStore, workspace: Workspace) -> CloneChanges:
    """What the sessions of a task have left in its clone so far."""
    member = _taken(app, snapshot_store, workspace)
    return CloneChanges((*sorted(member.paths), *outside_of(member).values()), _own_sins(workspace, member))


def made(app: App, task: Task, workspace: Workspace) -> list[str]:
    """The files that the sessions of a task have changed in its clone so far, inside what it owns."""
    return sorted(_taken(app, task_clones.snapshot_store_of_project(app, task), workspace).paths)


def _taken(app: App, snapshot_store: SnapshotStore, workspace: Workspace) -> Member:
    return member_of(app, snapshot_store=snapshot_store, workspace=workspace)


# --- keeping and landing ------------------------------------------------------------------------------------


def keep(app: App, task: Task, workspace: Workspace, judged: JudgedWork) -> dict[str, Any]:
    """Put the judged work on its branch in the project's repository, so that nothing depends on the clone any more.

    What was done before a crash is found done.
    """
    snapshot_store = task_clones.snapshot_store_of_project(app, task)
    member = judged.member
    snapshot_store.store.point(KEPT + workspace.name, member.commit)
    found: dict[str, Any] = {"commit": member.commit, "branch": _put_branch(app, snapshot_store, workspace, member)}
    laid = conflict.of_workspace(workspace)
    if laid is not None:
        conflict.remember_settled(snapshot_store, laid, member.commit)
        said = without_secrets(conflict.decisions(workspace), app.settings.environment)
        found |= {"settled": [one.path for one in laid.files], "decisions": said}
    if task.kind == tasks.ENTRANT:
        found[races.FACTS] = gather_race_facts(snapshot_store.store, member)
    return found


def _put_branch(app: App, snapshot_store: SnapshotStore, workspace: Workspace, member: Member) -> str:
    """Let the person's git know the work, under the name that comes back; a branch never holds what they had not committed."""
    target, store = target_of(app, snapshot_store), snapshot_store.store
    shown, free = _shown(snapshot_store, member)
    store.point(task_clones.SHOWN + workspace.name, shown)
    give_objects(store, snapshot_store.place.source, [member.commit, shown], apart=os.path.dirname(workspace.branch))
    names = {workspace.branch: shown if free else "", KEPT + workspace.name: "" if free else shown}
    for name, new in names.items():
        old = target.tip(name)
        if old == new:
            continue
        # A part that is done again takes the place of what it was: nobody else has moved its branch.
        with incidents.ours(app, folder=target.source.top) if old else nullcontext():
            if new:
                moved = target.swap(name, old or "0" * len(new), new)
            else:
                moved = target.git("update-ref", "-d", name, old).code == 0
        if not moved:
            raise Conflict(f"{name.removeprefix('refs/heads/')} could not be moved.", "Look at it, then report again.")
    return workspace.branch.removeprefix("refs/heads/") if free else KEPT + workspace.name


def _shown(snapshot_store: SnapshotStore, member: Member) -> tuple[str, bool]:
    """What people see of the work: where it began with files that the person had not committed, it is shown without them."""
    store, tip = snapshot_store.store, head(snapshot_store.place.source).commit
    words = ("log", "--first-parent", f"--max-count={_MOST_BELOW}", "--format=%H %P%x00%s", member.base)
    answer = store.git(*words, "--not", tip) if tip else store.git(*words)
    listed = answer if answer.code == 0 else store.git(*words)
    for line in listed.text.splitlines():
        commits, _, subject = line.partition("\0")
        if subject.startswith(DIRTY_BASE) and " " in commits:
            dirty, clean = commits.split(" ")[:2]
            return without_drafts(store, member, dirty, clean)
    return member.commit, True


def not_landed(app: App, task: Task) -> list[str]:
    """The finished parts of a fan-in whose work, made in clones, is not on the branch the person has checked out."""
    if find_top(task.workspace) is None:  # moved or gone: then nobody can say that anything of it is on a branch
        return [task_clones.work_name(one) for one in task_clones.parts(app, task) if loads(one.evidence).get("commit")]
    snapshot_store = task_clones.snapshot_store_of_project(app, task)
    if not snapshot_store.store.exists:
        return []
    target = target_of(app, snapshot_store)
    target.finish()
    take_snapshot(app, snapshot_store, f"before {task.label} is judged")  # the store owns all objects now
    tip = head(snapshot_store.place.source).commit
    return [
        member.name
        for member in task_clones.kept_parts(app, snapshot_store, task)
        if member.touches and not arrival.is_on(snapshot_store.store, target, member, tip)
    ]


def _message(part: Task, task: Task, member: Member, summary: str, verdict: Verdict | None) -> str:
    """What was asked for, then the words of the session's own commits or of its report; the evidence is in trailers.

    Who runs in a race writes it for the part: its work may be what lands.
    """
    own, _, _ = member.message.rpartition("\n\nHandoff-Workspace:")
    said = own if own and own != f"Land {member.name}" else summary
    said = said.strip().removeprefix(f"Land {member.name}\n").strip()
    check = f"Handoff-Check: {' '.join(verdict.command.split())} ({verdict.word})\n" if verdict is not None else ""
    body = f"{said}\n\n" if said and said != JUDGED else ""
    agent = f"Handoff-Agent: {task.held_agent}\n" if task.held_agent else ""
    issue = str(part.baseline_facts.get(tasks.ISSUE, ""))
    asked, link = part.title if issue else part.brief, f"Handoff-Issue: {issue}\n" if issue else ""
    return f"{first_line(part.id, asked)}\n\n{body}{arrival.TRAILER}: {part.label}\n{link}{agent}{check}"


def tidy(app: App, task: Task, *, running: Container[int]) -> None:
    """The work of a finished task has landed: its clone, those of the parts in it and their branches are needed no more.

    Everything in them is in a snapshot first. What cannot be removed, or belongs to a session that still runs, stays.
    """
    landed = _landed_with(app, task)
    if not landed:
        return
    whole, commits = landed
    snapshot_store = task_clones.snapshot_store_of_project(app, task)
    target = target_of(app, snapshot_store)
    for part in whole:
        clone, kept = task_clones.of_task(app, part), task_clones.kept_commit(snapshot_store, part)
        lost = part.kind == tasks.ENTRANT  # what it made stays in the snapshots and under the ref of its work
        if part.key in running or (kept not in commits and not lost):
            continue  # at work, or made after the landing: nothing else holds it
        try:
            if clone is not None:
                workspaces.remove_workspace(app, name=clone.name, snapshot_store=snapshot_store, accept=False)
                conflict.write(snapshot_store, clone.name, None)
                conflict.write_doubts(snapshot_store, clone.name, ())
        except HandoffError:
            continue
        # Only what landed: a branch somebody has put more upon stays.
        name = task_clones.name_of(part)
        shown = snapshot_store.store.git("rev-parse", "-q", "--verify", task_clones.SHOWN + name).text.strip()
        for ref in (f"refs/heads/handoff/{name}", KEPT + name) if kept else ():
            target.git("update-ref", "-d", ref, shown or kept)
    # Once for all of them: a look at the repository looks at every clone in it.
    incidents.accept(app, folder=snapshot_store.place.source.top)


def _landed_with(app: App, task: Task) -> tuple[list[Task], list[str]] | None:
    """The tasks whose work may be on the branch now that `task` is over, and the commits that really are there."""
    if task.state != states.DONE:
        return None
    joiner = task if task.kind != tasks.SUB_TASK else _fan_in(app, task)
    if joiner is None or _LANDED not in joiner.evidence:
        return None
    commits = [str(commit) for commit in loads(joiner.evidence).get("parts", ())]
    if task is not joiner:
        return [task], commits
    parts = [part for part in task_clones.parts(app, task) if not races.facts_of(part)]
    raced = [one for part in task_clones.parts(app, task) for one in races.entrants_of(app.database, part)]
    return [*parts, *raced, task], commits


def _fan_in(app: App, part: Task) -> Task | None:
    batch = batches.get(app.database, key=part.batch) if part.batch is not None else None
    return tasks.look_up(app.database, key=batch.fan_in) if batch is not None and batch.fan_in is not None else None


# --- What a session that runs in a race is judged by, beside its check: the size of its change, and what became of the tests

_LARGEST = 300_000  # of bytes: longer files are no tests that somebody wrote
_RACE_SHOWN = 5


def gather_race_facts(store: SnapshotRepo, member: Member) -> dict[str, Any]:
    """From the two trees alone; nothing of the session is run or believed."""
    answer = store.ask("diff", "--numstat", "--no-renames", "--no-ext-diff", member.base, member.commit)
    counts = [line.split("\t", 2)[:2] for line in answer.splitlines() if "\t" in line]
    lines = sum(int(word) for pair in counts for word in pair if word.isdecimal())
    texts = {
        path: (_text(store, member.base, path), _text(store, member.commit, path))
        for path in sorted(member.paths)
        if is_test(path)
    }
    weakened = [f"{one.path}: {one.test}: {one.message}" for one in find_weakened(texts)]
    return {
        "tree": tree_of(store, member.commit),
        "lines": lines,
        "files": len(counts),
        "asserts": sum(_asserts(path, new) - _asserts(path, old) for path, (old, new) in texts.items()),
        "weakened": weakened[:_RACE_SHOWN],
    }


def _asserts(path: str, text: str | None) -> int:
    return sum(facts.assertions for facts in read_tests(path, text).values()) if text else 0


def _text(store: SnapshotRepo, commit: str, path: str) -> str | None:
    name = os.fsencode(path)
    entry = store.look_up(store.load(commit, [name]), name)
    if entry is None or entry.mode not in (FILE, PROGRAM):
        return None
    data = store.read(entry.sha)
    return data.decode("utf-8", "replace") if len(data) <= _LARGEST else None

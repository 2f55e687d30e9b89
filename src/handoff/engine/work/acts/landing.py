"""Landing work and what can be taken back: what moves a branch of the person, in the checkout of the project it belongs to."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import Any

from handoff.agents import folder as folders
from handoff.base.errors import Refused, UsageError, UserError
from handoff.base.ids import on_one_line
from handoff.base.markdown import number_of, shell_line
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board import forges
from handoff.board.sessions import sessions
from handoff.board.tasks import outcomes, tasks
from handoff.engine.app import App
from handoff.engine.app.home import find_project
from handoff.engine.features import lifecycle
from handoff.engine.features.lifecycle import FeatureMove
from handoff.engine.place import landing, task_clones
from handoff.engine.place.workspaces import BY_HAND, revive_workspace
from handoff.engine.safety import snapshots as restores
from handoff.engine.safety.incidents import has_board, ours
from handoff.engine.safety.snapshots import RESTORE, UNDO, RestoreReport, SnapshotStore, listing, open_snapshot_store
from handoff.engine.work.act import ActDone, refuse_sessions
from handoff.engine.work.flows.documents import commit_landed
from handoff.engine.work.forges import opening as requests
from handoff.engine.work.tasks import projects
from handoff.git.commits import merge as commits
from handoff.git.commits.merge import BranchMove
from handoff.git.landing.target import Landing
from handoff.git.ownership import Ownership
from handoff.git.plumbing import find_top
from handoff.git.plumbing.checkout import git
from handoff.git.plumbing.objects import Repository
from handoff.git.workspaces import read_workspace

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from handoff.board.tasks.tasks import Task
    from handoff.engine.place.landing import LandingOutcome
    from handoff.engine.safety.snapshots import RestoreReport
    from handoff.engine.work.forges.opening import OpenedRequest
    from handoff.git.snapshots.take import Snapshot

# A landing in words: facts for a program, lines for a person, and what to look at all the same.


def outcome_facts(outcome: LandingOutcome) -> dict[str, Any]:
    """The outcome for programs."""
    merged = outcome.merged
    return {
        "target": outcome.target,
        "old": merged.old,
        "new": merged.new if outcome.landing else merged.old,
        "landed": list(outcome.landing.members) if outcome.landing else [],
        "would_land": [step.member for step in merged.steps],
        "nothing_new": list(merged.skipped),
        "left_out": {one.name: list(one.left_out) for one in outcome.members if one.left_out},
        "conflicts": [one._asdict() for one in merged.conflicts],
        "settled": [one._asdict() for one in merged.settled],
        "followed": [one._asdict() for one in merged.followed],
        "doubts": [one._asdict() for one in outcome.doubts],
        "refused": [one._asdict() for one in outcome.refused],
        "check": outcome.verdict._asdict() if outcome.verdict else None,
        "culprit": outcome.blame.words if outcome.blame else "",
        "blame": outcome.blame._asdict() | {"culprits": [one._asdict() for one in outcome.blame.culprits]}
        if outcome.blame
        else None,
    }


def outcome_warnings(outcome: LandingOutcome) -> list[str]:
    """What is not as one would think, though it may land."""
    found = [f"{one.name}: left out {on_one_line(path)}" for one in outcome.members for path in one.left_out]
    found += [
        f"{on_one_line(doubt.path)}: {doubt.what} ({doubt.first}, {doubt.second})"
        for doubt in outcome.doubts
        if not doubt.note
    ]
    if outcome.blame and outcome.blame.flaky:
        found.append("The check was red once and green when it was run again on the same files.")
    culprits = outcome.blame.culprits if outcome.blame and outcome.landing else ()
    found += [f"{guilty.words}: not landed, the check is red with it" for guilty in culprits]
    return found + ([outcome.trouble] if outcome.trouble else [])


def outcome_lines(outcome: LandingOutcome) -> list[str]:
    """What joined the files that two changed, where that was not git's own merge, and what landed or stands in the way."""
    merged, target = outcome.merged, outcome.target.removeprefix("refs/heads/")
    said = [f"{name}: nothing new" for name in merged.skipped]
    said += [
        f"{moved.member}: {on_one_line(moved.old)} goes to {on_one_line(moved.new)}, because its folder was moved"
        for moved in merged.followed
    ]
    said += [
        f"{on_one_line(done.path)}: {done.first} and {done.second}, joined by {done.how}" for done in merged.settled
    ]
    word = outcome.verdict.word if outcome.verdict else "red"
    said += [f"{on_one_line(done.path)}: {done.how} was tried, and the check was {word}" for done in outcome.refused]
    if merged.conflicts:
        whys = (f" ({on_one_line(one.why)})" if one.why else "" for one in merged.conflicts)
        pairs = zip(merged.conflicts, whys, strict=True)
        return said + [f"  {on_one_line(one.path)}: {one.first} and {one.second}{why}" for one, why in pairs]
    if outcome.verdict and not outcome.verdict.green:
        return [*said, outcome.verdict.tail]
    verb = "Landed" if outcome.landing else "Would land"
    said += [f"{verb} {step.member} on {target} ({step.commit[:10]})" for step in merged.steps]
    return said if merged.steps else [*said, "There is nothing to land."]


# --- in words -----------------------------------------------------------------------------------------------

_SHOWN_PATHS = 40


@contextmanager
def _in_checkout(app: App, project: str) -> Iterator[App]:
    """The App of somebody who stands in the project's checkout: branches are moved and taken back there."""
    if not project or find_project(app).name == project:
        yield app
        return
    there = App(app.settings._replace(folder=projects.checkout(app, project)), app.clock)
    there.tell, there.notes = app.tell, app.notes
    try:
        yield there
    finally:
        there.close()


def land(
    app: App,
    *names: str,
    into: str = "",
    check: str = "",
    timeout: float = 900.0,
    message: str = "",
    open_check: bool = False,
    rest: bool = False,
    approve: bool = False,
    dry_run: bool = False,
    pr: bool = False,
    project: str = "",
) -> ActDone:
    """Land workspaces, branches, flows or kept work of tasks, in this order; with `pr` as a branch somebody is asked to take in."""
    refuse_sessions(app, "lands work")
    if pr and dry_run:
        raise UsageError("--pr pushes, so it cannot be a dry run.", "Leave out one of the two.")
    with _in_checkout(app, project) as there:
        top = find_top(there.settings.here) or there.settings.here
        owner = find_project(there).name
        carried = requests.carried_by(there, owner, names)
        _refuse_without_below(there, carried, top, into)
        base = requests.base_of(there, top, into or requests.stacked_on(there, owner, carried)) if pr else ""
        outcome = landing.land(
            there,
            names=names,
            into=requests.branch_for(there, top, names[0], base) if pr else into,
            check=check,
            timeout=timeout,
            message=message,
            dry_run=dry_run,
            sandboxed=not open_check,
            rest=rest,
            approve=approve,
        )
        opened = _request(there, top, base, outcome, owner, carried) if pr else None
        landed = outcome.landing.members if outcome.landing else ()
        documents = commit_landed(there, members=landed, target=outcome.target) if landed else {}
        if landed and not pr and has_board(there):
            kept = [task.key for task in requests.carried_by(there, owner, landed)]
            by = there.settings.get("HANDOFF_SESSION")
            outcomes.mark_landed(there.database, keys=kept, landed=outcome.merged.new, onto=outcome.target, session=by)
    return _landed(app, outcome, opened, documents, checked=bool(check))


def _refuse_without_below(app: App, carried: Sequence[Task], top: str, into: str) -> None:
    """Work that stands on other work which has not landed would bring that along, and nobody would know."""
    name = f"refs/heads/{into}" if into else "HEAD"
    tip = git(top, "rev-parse", "-q", "--verify", name, environment=app.git_environment).text.strip()
    own = {one.key for one in carried}
    for task in carried if tip else ():
        found = task_clones.not_landed_below(app, open_snapshot_store(app), task, tip=tip)
        missing = [one for one in found if one.key not in own]
        if below := [
            one.label for one in missing if not forges.carrying(app.database, project=one.project, task=one.key)
        ]:
            raise Refused(
                f"'{task.label}' stands on the work of {', '.join(below)}, which has not landed.",
                f"Land that first: {app.settings.program} land {shell_line(below)}",
            )


def landing_of(app: App, *, project: str, branch: str, landed: str) -> str:
    """The commit that brought the work of a branch, or that is known to have; empty where it is on no branch of the person now."""
    with _in_checkout(app, project) as there:
        for one in landing.landings(there, snapshot_store=open_snapshot_store(there)):  # the newest first
            if branch in one.members or (landed and one.new == landed):
                return one.new
            if landing.UNDONE + branch in one.members or (landed and one.old == landed):
                return ""
    return ""


def _request(
    app: App, top: str, base: str, outcome: landing.LandingOutcome, project: str, carried: list[Task]
) -> OpenedRequest | None:
    """Open a request for what landed on the branch made for it; nothing where nothing is on it."""
    if outcome.merged.conflicts or (outcome.verdict is not None and not outcome.verdict.green):
        return None
    commit, branch = outcome.merged.new if outcome.landing else outcome.merged.old, outcome.target
    title, body = requests.series(app, top, base, commit)
    branch = branch.removeprefix("refs/heads/")
    words = {"branch": branch, "commit": commit, "base": base, "title": title, "body": body}
    return requests.open_request(app, top=top, project=project, carried=carried, **words)


def _landed(
    app: App,
    outcome: landing.LandingOutcome,
    opened: OpenedRequest | None,
    documents: dict[str, str],
    *,
    checked: bool,
) -> ActDone:
    merged, program = outcome.merged, app.settings.program
    done = ActDone(
        text="\n".join([*outcome_lines(outcome), *documents.values()]),
        facts={
            **outcome_facts(outcome),
            "request": opened._asdict() if opened else None,
            "documents": list(documents),
        },
        notes=tuple(f"Warning: {line}" for line in outcome_warnings(outcome)),
    )
    if merged.conflicts:
        more = " With --check CMD rules are tried too: for edits that only add, for locks, for files that were formatted anew."
        return done._replace(
            refusal=Refused(
                f"{number_of(len(merged.conflicts), 'file')} cannot be joined; nothing was landed.",
                f"Fix one side, or land the others first.{'' if checked else more}",
            )
        )
    if outcome.verdict and not outcome.verdict.green:
        guilty = outcome.blame.words if outcome.blame else "all of it"
        return done._replace(
            refusal=UserError(
                f"The check is {outcome.verdict.word}; nothing was landed. It turns red with: {guilty}.",
                "Fix that one, or land without it: with --rest the others land if they are green.",
            )
        )
    if opened is not None:
        asked = request_done(opened)
        return done._replace(
            text=f"{done.text}\n{asked.text}", hint=asked.hint, notes=(*done.notes, *asked.notes), ok=asked.ok
        )
    ids = [*reversed(documents), merged.new[:10]] if documents else [""]
    back = "Take it back with: " + ", then ".join(f"{program} undo {name}".strip() for name in ids)
    return done._replace(notes=(*done.notes, back)) if outcome.landing else done


def request_done(opened: OpenedRequest) -> ActDone:
    """Where the request is, or the line that opens it."""
    large = f"It changes {opened.lines_changed} lines: over 400 are read badly. Parts can be asked for one by one."
    notes = (large,) if opened.large else ()
    if opened.url or opened.updated:
        what = "The request is up to date" if opened.updated else "Opened a request"
        text = f"{what} to take {opened.branch} into {opened.base}: {opened.url}".rstrip(": ")
        return ActDone(text=text, facts={}, style="good", notes=notes)
    hint = f"  Open it yourself: {opened.line}" if opened.line else ""
    return ActDone(
        text=f"Pushed {opened.branch}, but {opened.said}.", facts={}, style="warn", hint=hint, notes=notes, ok=not hint
    )


def undo(app: App, operation: str = "", *, session: str = "", dry_run: bool = False, project: str = "") -> ActDone:
    """Take back the newest operation of this checkout, the one an id means, or all a session did."""
    if not dry_run and has_board(app):
        refuse_sessions(app, "takes back what was done")
    with _in_checkout(app, project) as there:
        return _undo(there, operation, session=session, dry_run=dry_run)


def _undo(app: App, operation: str, *, session: str, dry_run: bool) -> ActDone:
    store = open_snapshot_store(app)
    if session:
        report = undo_session(app, snapshot_store=store, session=session, dry_run=dry_run)
        return restore_done(report, dry_run=dry_run)
    chosen = choose_operation(app, snapshot_store=store, name=operation)
    done = take_back(app, snapshot_store=store, operation=chosen, dry_run=dry_run)
    if done.report:
        return restore_done(done.report, dry_run=dry_run)
    named = {"kind": chosen.kind, "id": chosen.id, "what": chosen.what}
    facts = {"operation": named, "dry_run": dry_run, "lines": done.lines}
    return ActDone(text="\n".join(done.lines), facts=facts)


def restore_done(report: RestoreReport, *, dry_run: bool) -> ActDone:
    """What a restore changed or would change."""
    words = {"add": "bring back", "change": "change", "delete": "delete", "mode": "set rights"}
    lines = [f"  {words[one.kind]:<10} {on_one_line(one.path)}" for one in report.changes[:_SHOWN_PATHS]]
    if len(report.changes) > _SHOWN_PATHS:
        lines.append(f"  … and {len(report.changes) - _SHOWN_PATHS} more")
    lines += [f"  {note}" for note in report.notes]
    rights = sum(change.kind == "mode" for change in report.changes)
    count = len(report.changes) - rights
    files = number_of(count, "file") + (f" and the rights of {rights} more" if rights else "")
    lines.append(f"{'Would restore' if dry_run else 'Restored'} {files} of {report.snapshot.short} in {report.target}.")
    return ActDone(
        text="\n".join(lines),
        hint=f"Take it back with: handoff undo {report.before.short}" if report.before else "",
        facts={
            "snapshot": report.snapshot.shown(),
            "target": report.target,
            "dry_run": dry_run,
            "changes": [{"kind": change.kind, "path": change.path} for change in report.changes],
            "notes": list(report.notes),
            "before": report.before.shown() if report.before else None,
        },
    )


# --- what can be taken back here, newest first: a restore, a commit, a landing, a removal, moved features ------------

COMMIT, LAND, REMOVE, FEATURES = "commit", "land", "remove", "features"
_SHORTEST_ID = 4
_ID_LETTERS = 10


class Operation(Record):
    """One thing handoff did here that can be taken back."""

    kind: str
    id: str
    time: float
    what: str
    subject: Snapshot | Landing | BranchMove | FeatureMove

    @property
    def short(self) -> str:
        return self.id if self.id.startswith("undo-") else self.id[:_ID_LETTERS]


class TakenBack(Record):
    """What an undo did or would do: in words, and for a restore with every path."""

    operation: Operation
    lines: tuple[str, ...] = ()
    report: RestoreReport | None = None


def operations(app: App, *, snapshot_store: SnapshotStore) -> list[Operation]:
    """Everything that can be taken back in this checkout, newest first; an undo is one of them."""
    place = snapshot_store.place
    found = []
    for one in listing(app, snapshot_store=snapshot_store):
        if one.operation in (RESTORE, UNDO) and one.workspace == place.workspace:
            found.append(Operation(one.operation, one.sha, one.time, one.reason.removeprefix("before "), one))
        elif one.operation == REMOVE and one.reason.startswith(f"before the {BY_HAND} of "):
            found.append(Operation(REMOVE, one.sha, one.time, one.reason.removeprefix("before the "), one))
    repo = Repository(place.source.top, app.git_environment)
    for move in commits.moves(repo):
        back = commits.is_back(move)
        words = f"undo of safe commit {move.old[:10]}" if back else f"safe commit {move.new[:10]}"
        branch = move.ref.removeprefix("refs/heads/") or "a detached HEAD"
        name = f"undo-{move.old[:_ID_LETTERS]}" if back else move.new
        found.append(Operation(COMMIT, name, move.time, f"{words} on {branch}", move))
    for landed in landing.landings(app, snapshot_store=snapshot_store):
        words = f"landing of {', '.join(landed.members)} on {landed.target.removeprefix('refs/heads/')}"
        found.append(Operation(LAND, landed.new, landed.time, words, landed))
    found += [Operation(FEATURES, move.id, move.time, move.what, move) for move in lifecycle.made(app)]
    return sorted(found, key=lambda one: one.time, reverse=True)


def choose_operation(app: App, *, snapshot_store: SnapshotStore, name: str = "") -> Operation:
    """The newest operation, or the one an id means; a task means its latest landing."""

    def brought(members: Sequence[str]) -> bool:
        keys = _keys_of(app, snapshot_store, list(members))
        return any(tasks.get(app.database, key=key).label == name for key in keys)

    found = operations(app, snapshot_store=snapshot_store)
    if not found:
        raise UserError("There is nothing to undo here.", "See what can be restored: handoff snapshot list")
    if not name:
        return found[0]
    matching = [one for one in found if len(name) >= _SHORTEST_ID and one.id.startswith(name)]
    if not matching and has_board(app):
        matching = [one for one in found if isinstance(one.subject, Landing) and brought(one.subject.members)][:1]
    if len({one.id for one in matching}) != 1:  # the same once more is meant as it was done last
        many = "more than one operation" if matching else "no operation that can be taken back here"
        raise UserError(f"'{name}' means {many}.", "See the ids with: handoff undo --list")
    return matching[0]


def take_back(app: App, *, snapshot_store: SnapshotStore, operation: Operation, dry_run: bool = False) -> TakenBack:
    """Take back one operation and nothing else. What was built on it since is named (exit 3), and nothing is changed."""
    with ours(app, folder=snapshot_store.place.source.top):
        return _take_back(app, snapshot_store, operation, dry_run=dry_run)


def _take_back(app: App, snapshot_store: SnapshotStore, operation: Operation, *, dry_run: bool) -> TakenBack:
    one = operation.subject
    if isinstance(one, Landing):
        back = landing.undo_landing(app, landing=one, snapshot_store=snapshot_store, dry_run=dry_run)
        verb = "Would move" if dry_run else "Moved"
        words = f"{verb} {back.target} back from {back.old[:10]} to {back.new[:10]} ({', '.join(one.members)})."
        return TakenBack(operation, (words, *_tell_tasks(app, snapshot_store, one, dry_run=dry_run)))
    if isinstance(one, FeatureMove):
        return TakenBack(operation, lifecycle.take_back(app, one, dry_run=dry_run))
    if isinstance(one, BranchMove):
        return TakenBack(operation, _undo_commit(app, snapshot_store, one, dry_run=dry_run))
    if operation.kind == REMOVE:
        return TakenBack(operation, _undo_removal(app, snapshot_store, one, dry_run=dry_run))
    report = restores.undo_restore(app, snapshot_store=snapshot_store, chosen=one, dry_run=dry_run)
    return TakenBack(operation, report=report)


def _tell_tasks(app: App, snapshot_store: SnapshotStore, moved: Landing, *, dry_run: bool) -> list[str]:
    """The tasks that landed with it know that their work is gone from the branch, or there again."""
    if not has_board(app):
        return []
    again = all(name.startswith(landing.UNDONE) for name in moved.members)  # an undo is taken back
    keys = _keys_of(app, snapshot_store, [name.removeprefix(landing.UNDONE) for name in moved.members])
    landed = moved.old if again else moved.new
    if dry_run:
        found = outcomes.in_landing(app.database, keys=keys, landed=landed, undone=again)
    else:
        session = app.settings.get("HANDOFF_SESSION")
        found = outcomes.mark_landing(app.database, keys=keys, landed=landed, undone=not again, session=session)
    branch, program = moved.target.removeprefix("refs/heads/"), app.settings.program
    if again:
        return [f"{task.label} is on {branch} again." for task in found]
    return [
        f"{task.label} is not on {branch} any more."
        + (f" To let it be done again: {program} retry {task.label}" if task.kind == tasks.TASK else "")
        for task in found
    ]


def _keys_of(app: App, snapshot_store: SnapshotStore, members: list[str]) -> list[int]:
    """Which of the landed names are tasks of this project: others are workspaces, branches or flows."""
    project = os.path.basename(snapshot_store.place.project)
    found = (requests.task_of_workspace(app, project, name) for name in members)
    return [task.key for task in found if task is not None]


def undo_session(app: App, *, snapshot_store: SnapshotStore, session: str, dry_run: bool = False) -> RestoreReport:
    """Take back what a session did since it started, in the checkout it worked in: within its task's ownership."""
    patterns: tuple[str, ...] = ()
    if has_board(app):
        known = sessions.get(app.database, id=session)
        path = folders.place(app.settings.home, known.project, session) if known else ""
        key = (known.task if known else 0) or int(folders.get(path, folders.FACTS).get("key") or 0)
        patterns = tasks.get(app.database, key=key).patterns if key else ()
    owned = Ownership.parse(patterns).covers if patterns else None
    with ours(app, folder=snapshot_store.place.source.top):
        return restores.undo_session(app, snapshot_store=snapshot_store, session=session, owned=owned, dry_run=dry_run)


def _undo_commit(app: App, snapshot_store: SnapshotStore, move: BranchMove, *, dry_run: bool) -> tuple[str, ...]:
    repo = Repository(snapshot_store.place.source.top, app.git_environment)
    commits.check(repo, move)
    paths = commits.paths_of(repo, move)
    if not dry_run:
        session = app.settings.get("HANDOFF_SESSION")
        commits.take_back(repo, move, now=app.clock.now(), session=session)
    verb = "Would move" if dry_run else "Moved"
    where = move.ref.removeprefix("refs/heads/") or "HEAD"
    start, end = move.new[:10] or "nothing", move.old[:10] or "nothing"
    words = f"{verb} {where} from {start} to {end}; the files on the disk stay as they are."
    label = "committed  " if commits.is_back(move) else "uncommitted"
    return (*(f"  {label} {path}" for path in paths), words)


def _undo_removal(app: App, snapshot_store: SnapshotStore, kept: Snapshot, *, dry_run: bool) -> tuple[str, ...]:
    name = kept.workspace
    if read_workspace(os.path.join(snapshot_store.place.project, "workspaces", name)) is not None:
        raise Refused(
            f"There is a workspace '{name}' again. Nothing was changed.",
            f"Bring the removed one back beside it: handoff snapshot restore {kept.short} --into DIR",
        )
    if not dry_run:
        revive_workspace(app, name=name, snapshot_store=snapshot_store)
    return (f"{'Would make' if dry_run else 'Made'} the workspace {name} again, as it was.",)

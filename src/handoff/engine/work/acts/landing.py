"""Land work and take it back: what moves a branch of the person, in the checkout of the project it belongs to."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any

from handoff.base.errors import Refused, UsageError, UserError
from handoff.base.ids import on_one_line
from handoff.base.markdown import number_of, shell_line
from handoff.base.record import TYPE_CHECKING
from handoff.board import forges
from handoff.board.tasks import outcomes
from handoff.engine.app import App
from handoff.engine.app.home import find_project
from handoff.engine.place import landing, task_clones
from handoff.engine.safety.incidents import has_board
from handoff.engine.safety.snapshots import open_snapshot_store
from handoff.engine.work.act import ActDone, refuse_sessions
from handoff.engine.work.acts import operations
from handoff.engine.work.flows.documents import commit_landed
from handoff.engine.work.forges import opening as requests
from handoff.engine.work.tasks import projects
from handoff.git.plumbing import find_top
from handoff.git.plumbing.checkout import git

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from handoff.board.tasks.tasks import Task
    from handoff.engine.place.landing import LandingOutcome
    from handoff.engine.safety.snapshots import RestoreReport
    from handoff.engine.work.forges.opening import OpenedRequest

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
        report = operations.undo_session(app, snapshot_store=store, session=session, dry_run=dry_run)
        return restore_done(report, dry_run=dry_run)
    chosen = operations.choose_operation(app, snapshot_store=store, name=operation)
    done = operations.undo(app, snapshot_store=store, operation=chosen, dry_run=dry_run)
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
    files = f"{count} file{'' if count == 1 else 's'}" + (f" and the rights of {rights} more" if rights else "")
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

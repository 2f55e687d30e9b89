"""Land work and take it back: what moves a branch of the person, in the checkout of the project it belongs to."""

from __future__ import annotations

from contextlib import contextmanager

from handoff.base.errors import Refused, UsageError, UserError
from handoff.base.ids import on_one_line
from handoff.base.markdown import number_of
from handoff.base.record import TYPE_CHECKING
from handoff.engine.acts.act import ActDone
from handoff.engine.app import App
from handoff.engine.flows.documents import commit_landed
from handoff.engine.home import find_project
from handoff.engine.safety.snapshots import open_snapshot_store
from handoff.engine.tasks.splitting import pull_request as requests
from handoff.engine.workspaces import landing, projects
from handoff.engine.workspaces import undo as undoing
from handoff.engine.workspaces.landing import report as landing_report
from handoff.git.plumbing import find_top

if TYPE_CHECKING:
    from collections.abc import Iterator

    from handoff.engine.safety.snapshots import RestoreReport
    from handoff.engine.tasks.splitting.pull_request import OpenedRequest

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
    if pr and dry_run:
        raise UsageError("--pr pushes, so it cannot be a dry run.", "Leave out one of the two.")
    with _in_checkout(app, project) as there:
        top = find_top(there.settings.here) or there.settings.here
        base = requests.base_of(there, top, into) if pr else ""
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
        opened = _request(there, top, base, outcome) if pr else None
        landed = outcome.landing.members if outcome.landing else ()
        documents = commit_landed(there, members=landed, target=outcome.target) if landed else {}
    return _landed(app, outcome, opened, documents, checked=bool(check))


def landing_of(app: App, *, project: str, branch: str, landed: str) -> str:
    """The commit that brought the work of a branch, or that is known to have; empty where it is on no branch of the person now."""
    with _in_checkout(app, project) as there:
        for one in landing.landings(there, snapshot_store=open_snapshot_store(there)):  # the newest first
            if branch in one.members or (landed and one.new == landed):
                return one.new
            if landing.UNDONE + branch in one.members or (landed and one.old == landed):
                return ""
    return ""


def _request(app: App, top: str, base: str, outcome: landing.LandingOutcome) -> OpenedRequest | None:
    """Open a request for what landed on the branch made for it; nothing where nothing is on it."""
    if outcome.merged.conflicts or (outcome.verdict is not None and not outcome.verdict.green):
        return None
    commit, branch = outcome.merged.new if outcome.landing else outcome.merged.old, outcome.target
    title, body = requests.series(app, top, base, commit)
    branch = branch.removeprefix("refs/heads/")
    return requests.open_request(app, top=top, branch=branch, commit=commit, base=base, title=title, body=body)


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
        text="\n".join([*landing_report.lines(outcome), *documents.values()]),
        facts={
            **landing_report.facts(outcome),
            "request": opened._asdict() if opened else None,
            "documents": list(documents),
        },
        notes=tuple(f"Warning: {line}" for line in landing_report.warnings(outcome)),
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
    with _in_checkout(app, project) as there:
        return _undo(there, operation, session=session, dry_run=dry_run)


def _undo(app: App, operation: str, *, session: str, dry_run: bool) -> ActDone:
    store = open_snapshot_store(app)
    if session:
        report = undoing.undo_session(app, snapshot_store=store, session=session, dry_run=dry_run)
        return restore_done(report, dry_run=dry_run)
    chosen = undoing.choose_operation(app, snapshot_store=store, name=operation)
    done = undoing.undo(app, snapshot_store=store, operation=chosen, dry_run=dry_run)
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

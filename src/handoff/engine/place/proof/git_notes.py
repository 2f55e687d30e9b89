"""The record in git: a note on the commit after each verified phase or finished task, shown, compared and exchanged."""

from __future__ import annotations

import os

from handoff.agents.sandbox.sandbox import NOTHING
from handoff.base.clock import stamp
from handoff.base.errors import HandoffError, Refused, UserError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.checks.suite import EXIT, Suite
from handoff.engine.place.proof import sandboxes, test_runs
from handoff.git.notes import GREEN, HIDDEN, MOST_NAMES, MUTANTS, QUESTIONS, RED, Check, Note, Notebook
from handoff.git.plumbing import find_top

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from handoff.board.tasks.tasks import Task
    from handoff.checks.commands import Verdict
    from handoff.checks.results import Report
    from handoff.engine.app import App
    from handoff.git.notes import Annotated, Synced

TRAILER = "Handoff-Task"
"""In a commit's message: whose work it is."""
_BESIDE = 50  # commits of others that may stand among those that landed


class RecordedWork(Record):
    """Whose work a record tells of; what does not apply stays empty."""

    project: str
    task: str
    flow: str = ""
    workflow: str = ""
    phase: str = ""
    role: str = ""
    cycle: int = 0
    attempt: int = 1
    agent: str = ""
    session: str = ""
    next: str = ""


def put(app: App, note: Mapping[str, Any]) -> str:
    """Put the record on its commit, before the row that follows from it; again after a crash it changes nothing.

    What went wrong, or nothing: that is no reason to do the work again.
    """
    ran = note["checks"] if "checks" in note else [note["check"]]
    moment = note.get("ended") or app.clock.now()
    made = Note(
        ended=stamp(moment),
        began=stamp(note["began"]),
        commit=note["commit"],
        tree=note["tree"],
        judged=note.get("judged", "command"),
        checks=tuple(Check(**{**one, "failing": tuple(one["failing"])}) for one in ran),
        **RecordedWork(**note["work"])._asdict(),
    )
    try:
        book(app, note["repository"]).add(note["commit"], [made], moment=moment)
    except HandoffError as error:
        return f"The note on {note['commit'][:10]} could not be written: {error.message}"
    return ""


def note_of(
    repository: str, commit: str, tree: str, work: RecordedWork, verdict: Verdict, began: float
) -> dict[str, Any]:
    """The record of one green check that was run on exactly this commit, to be put there."""
    check = Check(command=verdict.command, verdict=GREEN, code=verdict.code, seconds=round(verdict.seconds, 3))
    said = {"work": work._asdict(), "check": check._asdict(), "began": began}
    return {"repository": repository, "commit": commit, "tree": tree, **said}


def work_of(task: Task, *, session: str) -> RecordedWork:
    """Whose work a record on a finished task's commit tells of."""
    return RecordedWork(
        project=task.project,
        task=task.label,
        role=task.role,
        attempt=task.attempt,
        agent=task.held_agent,
        session=session,
        next="done",
    )


def carry(app: App, repository: str, kept: Sequence[str], *, landed: str) -> str:
    """What was recorded on commits before they landed is on the commits they became; what went wrong, or nothing.

    A part's commit is known by the task in its trailers; its record goes on telling the commit and the tree it was made on.
    """
    notes = book(app, repository)
    try:
        words = (
            "log",
            f"-{len(kept) + _BESIDE}",
            f"--format=%H%x00%(trailers:key={TRAILER},valueonly,separator=%x20)%x01",
        )
        answer = notes.git(*words, landed, "--")
        pairs = (line.strip().split("\0") for line in answer.text.split("\x01") if "\0" in line)
        became = {task: commit for commit, task in reversed(list(pairs)) if task}
        for one in notes.read(*kept, walk=False) if kept else ():
            for record in one.noted.records:
                target = became.get(record.task)
                if target is not None and target != one.commit:
                    notes.add(target, [record], moment=app.clock.now())
    except HandoffError as error:
        return f"The notes of what landed could not be written: {error.message}"
    return ""


def book(app: App, repository: str = "") -> Notebook:
    """The notes of the repository around a folder; a bare one is named by its own folder."""
    return Notebook(repository or os.getcwd(), app.git_environment)


def listing(app: App, *, repository: str = "", revisions: str = "HEAD", limit: int = 0) -> list[Annotated]:
    """Commits with their records, newest first; commits nobody verified are among them."""
    return book(app, repository).read(*revisions.split(), limit=limit)


def follow(app: App, *, repository: str = "") -> bool:
    """Let notes survive rebase and amend in this repository; False when they did already."""
    return book(app, repository).follow_rewrites()


def unfollow(app: App, *, repository: str = "") -> bool:
    """Take that setting back; False when it was not ours."""
    return book(app, repository).stop_following()


def sync(app: App, *, repository: str = "", remote: str = "") -> Synced:
    """Exchange notes with a remote: what both have is merged, nothing is overwritten."""
    notes = book(app, repository)
    return notes.sync(remote or _remote(notes))


def _remote(notes: Notebook) -> str:
    """The remote of the present branch, else the only one, else `origin`."""
    branch = notes.git("symbolic-ref", "-q", "--short", "HEAD").text.strip()
    chosen = notes.git("config", "--get", f"branch.{branch}.remote").text.strip() if branch else ""
    names = notes.git("remote").text.split()
    if chosen and chosen != ".":
        return chosen
    if len(names) == 1:
        return names[0]
    if "origin" in names:
        return "origin"
    raise UserError(
        "This repository has no remote to exchange notes with." if not names else "There are several remotes.",
        "Name one: handoff record sync REMOTE",
    )


# Believe no record: its checks are run again on that exact tree, in a clean folder inside the sandbox, and compared.


SAME, DIFFERS, NO_CHECK, NOT_RECORDED = "same", "differs", "no check", "not recorded"
_BORROWED = (".venv", "venv", "node_modules")
_MOST = 1000


class Recheck(Record):
    """One recorded check and what it says now."""

    recorded: Check
    now: Check
    differences: tuple[str, ...]


class Compared(Record):
    """One commit: whether its record holds. `why` tells why there is nothing to compare."""

    commit: Annotated
    outcome: str
    checks: tuple[Recheck, ...] = ()
    why: str = ""


def verify(
    app: App, *, revisions: str, repository: str = "", timeout: float = 0.0, sandboxed: bool = True
) -> list[Compared]:
    """Compare each commit's records with the present; a single name means that commit, a range all in it.

    A recorded command may come from another clone. It runs inside the sandbox; without one only by the person's own word.
    """
    top = find_top(repository or ".")
    if top is None:
        raise UserError("Checks are run from a checkout.", "Clone the repository; a bare one can only show: log --git")
    many = any(mark in revisions for mark in ("..", "^", " "))
    found = book(app, top).read(*revisions.split(), limit=_MOST, walk=many)
    today = _suites_today(app, top)
    if sandboxed and sandboxes.present_layer(app) == NOTHING:
        strange = {check.command for one in found for check in _checks(one)} - {suite.command for suite in today}
        if strange:
            raise Refused(
                f"There is no sandbox on this machine, and a record may come from anywhere. It would run: {min(strange)}",
                "Look at the commands (log --git). To run them as yourself: --no-sandbox",
            )
    return [_compare(app, top, one, today, timeout=timeout, sandboxed=sandboxed) for one in found]


def _suites_today(app: App, top: str) -> tuple[Suite, ...]:
    try:
        return test_runs.suites_of(app, folder=top)
    except HandoffError:
        return ()  # recorded commands are run by their exit codes alone


def _checks(one: Annotated) -> tuple[Check, ...]:
    """What was run on exactly this commit's tree, each once; the latest record counts."""
    exact = [note for note in one.noted.records if note.tree == one.tree]
    run = (check for note in exact for check in note.checks if check.suite not in (MUTANTS, HIDDEN, QUESTIONS))
    latest = {(check.suite, check.command, check.folder): check for check in run}
    return tuple(latest.values())


def _compare(
    app: App, top: str, one: Annotated, today: Sequence[Suite], *, timeout: float, sandboxed: bool
) -> Compared:
    checks = _checks(one)
    if not checks:
        if any(note.tree == one.tree for note in one.noted.records):
            return Compared(one, NO_CHECK, why="nothing was run for it")
        why = "its record is for another tree: the commit was rewritten" if one.noted.records else "no record"
        return Compared(one, NOT_RECORDED, why=why)
    wanted = [_suite(check, today) for check in checks]
    reports = test_runs.verdict(
        app, repository=top, tree=one.commit, suites=wanted, timeout=timeout, sandboxed=sandboxed, dependencies=top
    )
    again = tuple(_again(check, report, suite) for check, report, suite in zip(checks, reports, wanted, strict=True))
    return Compared(one, DIFFERS if any(check.differences for check in again) else SAME, again)


def _suite(check: Check, today: Sequence[Suite]) -> Suite:
    """Today's suite if it is the recorded one, because it can read results; else the recorded line by its exit code."""
    for suite in today:
        if (suite.name, suite.command, suite.folder) == (check.suite, check.command, check.folder):
            return suite
    return Suite(
        name=check.suite or "recorded",
        framework="command",
        folder=check.folder,
        command=check.command,
        results=EXIT,
        links=_BORROWED,
    )


def _again(recorded: Check, report: Report, suite: Suite) -> Recheck:
    now = Check(
        command=recorded.command,
        verdict=RED if report.trouble else GREEN,
        code=report.code,
        folder=recorded.folder,
        suite=recorded.suite,
        seconds=report.seconds,
    )
    if suite.results == EXIT:
        words = f"it was {recorded.verdict} and is {now.verdict} (exit {report.code})"
        return Recheck(recorded, now, () if now.verdict == recorded.verdict else (words,))
    counts = report.counts()
    failing = tuple(sorted(case.id for case in report.cases if case.bad))
    now = now._replace(
        verdict=GREEN if report.green else RED,
        passed=counts["passed"],
        failed=len(failing),
        skipped=counts["skipped"],
        known=recorded.known,
        failing=failing[:MOST_NAMES],
        seconds=round(report.seconds, 3),
    )
    found = tuple(_differences(recorded, now, report.trouble))
    if not found:
        now = now._replace(verdict=recorded.verdict)  # the same failures, known then and now
    return Recheck(recorded, now, found)


def _differences(recorded: Check, now: Check, trouble: str) -> list[str]:
    found = [f"no results to trust: {trouble}"] if trouble else []
    for name in ("passed", "failed", "skipped"):
        before, after = getattr(recorded, name), getattr(now, name)
        if before is not None and before != after:
            found.append(f"{before} {name} then, {after} now")
    if len(recorded.failing) < MOST_NAMES:
        new, gone = set(now.failing) - set(recorded.failing), set(recorded.failing) - set(now.failing)
        found += [f"fails now: {name}" for name in sorted(new)] + [f"failed then: {name}" for name in sorted(gone)]
    return found

"""What was verified of an exact tree: `check`, the record in git (install|uninstall|sync|status|verify), and what `log --git` shows."""

from __future__ import annotations

import json
import os

from handoff import __version__
from handoff.agents.sandbox.sandbox import NOTHING
from handoff.base.clock import stamp
from handoff.base.errors import UserError
from handoff.base.files import write_atomic
from handoff.base.markdown import number_of
from handoff.base.record import TYPE_CHECKING
from handoff.checks.suite import plain_command
from handoff.engine.place.proof import git_notes
from handoff.git.plumbing import find_top
from handoff.surfaces.cli.command import Command, flag, option, optional_word, pick

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence
    from typing import Any

    from handoff.checks.results import Report
    from handoff.checks.suite import Suite
    from handoff.engine.app import App
    from handoff.engine.outcome.reviews import DoubtfulTest
    from handoff.engine.place.proof.git_notes import Compared
    from handoff.git.notes import Annotated, Check, Note
    from handoff.surfaces.cli.command import Context, Parser

_EPILOG = """\
examples:
  handoff record sync                exchange records with the remote of this branch
  handoff log --git main..topic      what was verified for each commit
  git log --notes=handoff            the same, as git shows it
"""


def _arguments(parser: Parser) -> None:
    parser.verb(
        "install",
        "let records follow their commits through rebase and amend",
        "Set notes.rewriteRef and notes.handoff.mergeStrategy in this repository's own settings.",
    )
    parser.verb(
        "uninstall",
        "take those settings back; the records stay",
        "Take back what `record install` set; the records stay.",
    )
    sync = parser.verb(
        "sync",
        "fetch, merge and push the records of a remote",
        "Exchange records with a remote: both sides' records are kept, nothing is forced.",
    )
    optional_word(sync, "remote", "REMOTE", "remote or address (default: the one of this branch)")
    parser.verb(
        "status",
        "show how many commits have records, and whether records follow",
        "Show how many of the latest commits have records, and whether records follow a rebase.",
    )


def _notes(ctx: Context, arguments: argparse.Namespace) -> None:
    app, out = ctx.app, ctx.out
    if arguments.verb == "install":
        changed = _at_a_persons_word(ctx, git_notes.follow)
        out.data({"changed": changed})
        out.line(
            "Records follow their commits through rebase and amend now (notes.rewriteRef in this repository's settings)."
            if changed
            else "Records followed already."
        )
        out.line(f"To take it back: {ctx.settings.program} record uninstall")
    elif arguments.verb == "uninstall":
        changed = _at_a_persons_word(ctx, git_notes.unfollow)
        out.data({"changed": changed})
        out.line("The settings are as they were; the records stay." if changed else "There was nothing of ours.")
    elif arguments.verb == "sync":
        synced = git_notes.sync(app, remote=arguments.remote)
        out.data(synced._asdict())
        said = [word for word, true in (("taken", synced.taken), ("given", synced.given)) if true]
        out.line(
            f"{synced.remote}: " + (f"records {' and '.join(said)}." if said else "both sides had the same records.")
        )
    else:
        _status(ctx)


def _at_a_persons_word(ctx: Context, change: Callable[..., bool]) -> bool:
    """Change the repository's settings so that the watcher of incidents knows who it was."""
    from handoff.engine.safety import incidents

    folder = find_top(os.getcwd()) or os.getcwd()
    with incidents.ours(ctx.app, folder=folder):
        return change(ctx.app, repository=folder)


def _status(ctx: Context) -> None:
    found = git_notes.listing(ctx.app, limit=1000)
    recorded = sum(1 for one in found if one.noted.records)
    follows = git_notes.book(ctx.app).follows()
    ctx.out.data({"commits": len(found), "recorded": recorded, "follows": follows})
    ctx.out.line(f"{recorded} of the latest {len(found)} commits have records.")
    ctx.out.line(
        "Records follow a rebase."
        if follows
        else f"Records do not follow a rebase: {ctx.settings.program} record install"
    )


# --- log --git ---------------------------------------------------------------------------------------------------


def show_log(ctx: Context, revisions: str, *, limit: int) -> None:
    """Commits with what was verified for each, newest first."""
    found = git_notes.listing(ctx.app, revisions=revisions or "HEAD", limit=limit)
    ctx.out.data([commit_data(one) for one in found])
    for one in found:
        ctx.out.line(f"{one.commit[:10]}  {stamp(one.time)}  {one.subject}", "strong")
        for note in one.noted.records:
            _tell(ctx, one, note)
        for line in one.noted.foreign:
            ctx.out.line(f"    {line[:200]}", "dim")
        if not one.noted.records:
            ctx.out.line("    not recorded", "dim")


def commit_data(one: Annotated) -> dict[str, Any]:
    """A commit with its records, for programs."""
    return {
        **pick(one, "commit tree"),
        "time": stamp(one.time),
        "subject": one.subject,
        "records": [note_data(note, one.tree) for note in one.noted.records],
        "foreign": list(one.noted.foreign),
    }


def note_data(note: Note, tree: str) -> dict[str, Any]:
    """A record for programs; `exact` says whether it was verified on the tree this commit has."""
    return {
        **note._asdict(),
        "id": note.id,
        "checks": [check._asdict() for check in note.checks],
        "exact": note.tree == tree,
    }


def _tell(ctx: Context, one: Annotated, note: Note) -> None:
    work = note.task if not note.flow else f"{note.flow} {note.phase}, cycle {note.cycle}"
    who = f" by {note.agent}" if note.agent else ""
    tries = f", attempt {note.attempt}" if note.attempt > 1 else ""
    ctx.out.line(f"    {note.ended}  {work}{who}{tries}" + (f" -> {note.next}" if note.next else ""))
    for check in note.checks:
        ctx.out.line(f"      {in_words(check)}", "good" if check.verdict == "green" else "")
    if note.tree != one.tree:
        ctx.out.line(f"      verified on another tree ({note.tree[:10]}), before this commit was rewritten", "warn")


def in_words(check: Check) -> str:
    """One check as a line: what was run and what it said."""
    counts = [
        f"{count} {word}"
        for count, word in (
            (check.passed, "passed"),
            (check.failed, "failed"),
            (check.skipped, "skipped"),
            (check.known, "known"),
        )
        if count
    ]
    where = f" in {check.folder}" if check.folder else ""
    return f"{check.verdict}: {plain_command(check.command)}{where}" + (f" ({', '.join(counts)})" if counts else "")


def check_words(arguments: argparse.Namespace) -> None:
    """`--git` shows commits: what belongs to the journal does not go with it."""
    if arguments.follow or arguments.all_projects or arguments.project:
        raise UserError("--git shows the records of this repository's commits.", "Leave -f and the project out.")


# --- verify -------------------------------------------------------------------------------------------------------

_VERIFY_EPILOG = """\
exit codes: 0 every record holds, 1 one differs, 3 none differs but a commit has no record
examples:
  handoff record verify HEAD
  handoff record verify main..topic --json
"""
_STYLES = {"same": "good", "differs": "bad", "no check": "dim", "not recorded": "warn"}
_NOT_RECORDED = 3


def _verify_arguments(parser: Parser) -> None:
    parser.add_argument("revisions", metavar="COMMIT", help="a commit, or a range such as main..topic")
    option(parser, "--timeout SECONDS", "how long a check may take (default: check_timeout)", 0.0)
    flag(parser, "--no-sandbox", "run the recorded commands as yourself, without the sandbox")
    option(parser, "--sarif FILE", "also write what was found, and weakened tests, as SARIF")
    option(parser, "--summary FILE", "also append a table in Markdown")


def _verify(ctx: Context, arguments: argparse.Namespace) -> int:
    found = git_notes.verify(
        ctx.app, revisions=arguments.revisions, timeout=arguments.timeout, sandboxed=not arguments.no_sandbox
    )
    if arguments.sarif or arguments.summary:
        write_verified(ctx.app, found, sarif=arguments.sarif, summary=arguments.summary)
    ctx.out.data([_compared_data(one) for one in found])
    for one in found:
        why = f" ({one.why})" if one.why else ""
        ctx.out.line(
            f"{one.commit.commit[:10]}  {ctx.out.style(one.outcome, _STYLES[one.outcome])}{why}  {one.commit.subject}"
        )
        for check in one.checks:
            ctx.out.line(f"    {in_words(check.recorded)}")
            for words in check.differences:
                ctx.out.line(f"      {words}", "bad")
    outcomes = {one.outcome for one in found}
    if git_notes.DIFFERS in outcomes:
        return 1
    return _NOT_RECORDED if git_notes.NOT_RECORDED in outcomes else 0


def _compared_data(one: Compared) -> dict[str, Any]:
    return {
        **pick(one.commit, "commit tree subject"),
        **pick(one, "outcome why"),
        "checks": [
            {"recorded": check.recorded._asdict(), "now": check.now._asdict(), "differences": list(check.differences)}
            for check in one.checks
        ],
    }


_RULES = {
    "record-differs": "A recorded check says something else when it is run again on the exact tree.",
    "not-recorded": "Nobody has recorded a check of this commit.",
    "weak-test": "A test was weakened, or asks nothing.",
}
_MARKS = {git_notes.SAME: "✅", git_notes.DIFFERS: "❌", git_notes.NOT_RECORDED: "⚠️", git_notes.NO_CHECK: "·"}


def write_verified(app: App, found: list[Compared], *, sarif: str, summary: str) -> None:
    """Write one of the files, or both."""
    from handoff.engine.outcome import reviews

    doubts = [doubt for one in found for doubt in reviews.doubts_of(app, commit=one.commit.commit)]
    if sarif:
        write_atomic(sarif, json.dumps(_sarif(found, doubts), indent=2) + "\n")
    if summary:
        with open(summary, "a", encoding="utf-8") as file:  # a job's summary may have words of others already
            file.write(_summary(found, doubts))


def _summary(found: list[Compared], doubts: list[DoubtfulTest]) -> str:
    lines = ["## Records of handoff, verified again", "", "| | commit | record | why |", "|---|---|---|---|"]
    for one in found:
        said = [one.why] if one.why else []
        said += [
            f"`{plain_command(check.recorded.command)}`: {'; '.join(check.differences) or 'the same again'}"
            for check in one.checks
        ]
        cells = (_MARKS[one.outcome], f"`{one.commit.commit[:10]}` {one.commit.subject}", one.outcome, "; ".join(said))
        lines.append("| " + " | ".join(map(_cell, cells)) + " |")
    if doubts:
        lines += ["", "Tests to look at:", ""]
        lines += [_cell(f"- `{one.path}:{one.line}` {one.message}") for one in doubts]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    """Words of commits are text here, whatever they hold."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def _sarif(found: list[Compared], doubts: list[DoubtfulTest]) -> dict[str, Any]:
    results = [
        _result(
            "record-differs", "error", f"{one.commit.commit[:10]}: {plain_command(check.recorded.command)}: {words}"
        )
        for one in found
        for check in one.checks
        for words in check.differences
    ]
    results += [
        _result("not-recorded", "warning", f"{one.commit.commit[:10]} {one.commit.subject}: {one.why}")
        for one in found
        if one.outcome == git_notes.NOT_RECORDED
    ]
    results += [_result("weak-test", "warning", one.message, path=one.path, line=one.line) for one in doubts]
    rules = [{"id": name, "shortDescription": {"text": text}} for name, text in _RULES.items()]
    driver = {"name": "handoff", "version": __version__, "rules": rules}
    return {"version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}


def _result(rule: str, level: str, text: str, *, path: str = ".", line: int = 1) -> dict[str, Any]:
    place = {"artifactLocation": {"uri": path, "uriBaseId": "%SRCROOT%"}, "region": {"startLine": line}}
    return {"ruleId": rule, "level": level, "message": {"text": text}, "locations": [{"physicalLocation": place}]}


_SHOWN = 50


CHECK_EPILOG = """Suites are found by the files of your project, or named in .handoff/config.toml:

  [checks.unit]
  command = "pytest --junitxml={results}"
  tests = ["tests/"]

The tests run in a clean folder that holds exactly the tree, inside the sandbox; your checkout is not touched."""


def _check_arguments(parser: Parser) -> None:
    option(parser, "--suite NAME", "run this suite only (may be repeated)", [])
    option(parser, "--tree COMMIT", "run on this commit or tree instead of the files as they are now")
    flag(parser, "--list", "only show which suites there are and how they are run")
    flag(parser, "--all", "show every test, not only those that are not green")
    option(parser, "--timeout SECONDS", "how long a suite may take (default: check_timeout)", 0.0)
    flag(parser, "--no-sandbox", "run them without the sandbox that keeps their code inside its folder")


def _check(ctx: Context, arguments: argparse.Namespace) -> int:
    from handoff.engine.place.proof import test_runs
    from handoff.engine.place.proof.sandboxes import present_layer

    if arguments.list:
        found = test_runs.chosen(test_runs.suites_here(ctx.app), arguments.suite)
        ctx.out.data([suite.record() for suite in found])
        _list(ctx, found)
        return 0
    tree, reports = test_runs.check(
        ctx.app,
        names=arguments.suite,
        tree=arguments.tree,
        timeout=arguments.timeout,
        sandboxed=not arguments.no_sandbox,
    )
    if arguments.no_sandbox or present_layer(ctx.app) == NOTHING:
        ctx.out.warning("the tests ran with all your rights: no sandbox kept them inside their folder.")
    green = all(report.green for report in reports)
    ctx.out.data({"green": green, "tree": tree, "suites": [report.record() for report in reports]})
    for report in reports:
        _show(ctx, report, everything=arguments.all)
    total = sum(len(report.cases) for report in reports)
    if green:
        ctx.out.line(
            f"Green: {number_of(total, 'test')}" + (f" in {len(reports)} suites." if len(reports) > 1 else "."), "good"
        )
    else:
        bad = sum(case.bad for report in reports for case in report.cases)
        ctx.out.line(f"Red: {bad} of {number_of(total, 'test')}." if bad else "Red.", "bad")
    return 0 if green else 1


def _list(ctx: Context, suites: Sequence[Suite]) -> None:
    for suite in suites:
        ctx.out.line(suite.name, "strong")
        ctx.out.line(f"  in {suite.folder or '.'}: {plain_command(suite.command)}")
        how = "its exit code alone" if suite.results == "exit" else f"the reader '{suite.results}'"
        ctx.out.line(f"  judged by {how}; tests: {' '.join(suite.tests) or 'not known'}")


def _show(ctx: Context, report: Report, *, everything: bool) -> None:
    counts = ", ".join(f"{number} {status}" for status, number in report.counts().items() if number)
    ctx.out.line(f"{report.suite}: {counts or 'no tests by name'} in {report.seconds:.1f} s", "strong")
    styles = {"passed": "good", "failed": "bad", "error": "bad", "skipped": "dim"}
    shown = [case for case in report.cases if everything or case.bad]
    for case in shown[: None if everything else _SHOWN]:
        why = f" ({case.reason})" if case.reason else ""
        ctx.out.line(f"  {ctx.out.style(case.status, styles[case.status])}{why} {case.id.partition(':')[2]}")
        for line in case.message.splitlines()[:3] if case.bad else ():
            ctx.out.line(f"      {line}", "dim")
    if len(shown) > _SHOWN and not everything:
        ctx.out.line(f"  and {len(shown) - _SHOWN} more; --all shows them")
    if report.trouble:
        ctx.out.line(f"  {report.trouble}", "bad")
        for line in report.tail.splitlines()[-15:]:
            ctx.out.line(f"      {line}", "dim")


COMMANDS = {
    "record": Command(_arguments, _notes, epilog=_EPILOG),
    "record verify": Command(_verify_arguments, _verify, epilog=_VERIFY_EPILOG),
    "check": Command(_check_arguments, _check, epilog=CHECK_EPILOG),
}

"""The record in git: record install|uninstall|sync|status|verify, and what `log --git` shows."""

from __future__ import annotations

import os

from handoff.base.clock import stamp
from handoff.base.errors import UserError
from handoff.base.record import TYPE_CHECKING
from handoff.checks.suite import plain_command
from handoff.git.plumbing import find_top
from handoff.surfaces.cli.command import Command, flag, option, optional_word, pick

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from typing import Any

    from handoff.engine.place.proof.git_notes import Compared
    from handoff.git.notes.record import Check, Note
    from handoff.git.notes.store import Annotated
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
    from handoff.engine.place.proof import git_notes

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
    from handoff.engine.place.proof import git_notes

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
    from handoff.engine.place.proof import git_notes

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
    from handoff.engine.place.proof import git_notes

    found = git_notes.verify(
        ctx.app, revisions=arguments.revisions, timeout=arguments.timeout, sandboxed=not arguments.no_sandbox
    )
    if arguments.sarif or arguments.summary:
        from handoff.surfaces.cli.commands.git import verified

        verified.write(ctx.app, found, sarif=arguments.sarif, summary=arguments.summary)
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


COMMANDS = {
    "record": Command(_arguments, _notes, epilog=_EPILOG),
    "record verify": Command(_verify_arguments, _verify, epilog=_VERIFY_EPILOG),
}

"""`handoff land` and `handoff batch collisions`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from handoff.base.errors import Refused, UsageError
from handoff.base.ids import on_one_line
from handoff.engine.flows.documents import commit_landed
from handoff.engine.tasks.splitting import pull_request as requests
from handoff.engine.workspaces import landing as engine
from handoff.git.plumbing import find_top
from handoff.surfaces.cli.command import Command, flag, no_arguments, number_of, option

if TYPE_CHECKING:
    import argparse

    from handoff.engine.tasks.splitting.pull_request import OpenedRequest
    from handoff.surfaces.cli.command import Context, Parser

RED = 1


def _land_arguments(parser: Parser) -> None:
    text = "workspaces or branches, in the order they land; without any a landing that was cut short is finished"
    parser.add_argument("names", nargs="*", metavar="NAME", help=text)
    option(parser, "--into BRANCH", "where to (default: the branch checked out here)")
    option(parser, "--check CMD", "a command that must succeed on the merged files first")
    option(parser, "--timeout S", "seconds the check may take (default 900)", 900, type=float)
    option(parser, "-m --message TEXT", "the commit message (default: the session's own)")
    flag(parser, "--open-check", "run the check without the sandbox")
    flag(parser, "--rest", "if the check is red because of some, land the others that are green without them")
    flag(
        parser, "--approve", "also land what sessions changed in files that git, a hook or handoff obeys (.gitignore …)"
    )
    flag(parser, "--dry-run", "merge in memory and say what would happen")
    flag(
        parser,
        "--pr",
        "push it as a branch and open a request for it with your gh or glab, instead of moving your branch",
    )


def _finish(ctx: Context) -> int:
    done = engine.finish_landings(ctx.app)
    if not done:
        raise UsageError(
            "No landing was cut short: there is nothing to finish.", "Name what to land: handoff land NAME"
        )
    ctx.out.data({"finished": [one._asdict() for one in done]})
    for one in done:
        ctx.out.line(f"Finished the landing of {', '.join(one.members)} on {one.target}.")
    return 0


def _facts(outcome: engine.LandingOutcome) -> dict[str, Any]:
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


def _tell_how(ctx: Context, outcome: engine.LandingOutcome) -> None:
    """What joined the files that two changed, where that was not git's own merge, and what to look at all the same."""
    for moved in outcome.merged.followed:
        ctx.out.line(
            f"{moved.member}: {on_one_line(moved.old)} goes to {on_one_line(moved.new)}, because its folder was moved"
        )
    for done in outcome.merged.settled:
        ctx.out.line(f"{on_one_line(done.path)}: {done.first} and {done.second}, joined by {done.how}")
    for doubt in outcome.doubts:
        if not doubt.note:
            ctx.out.warning(f"{on_one_line(doubt.path)}: {doubt.what} ({doubt.first}, {doubt.second})")
    if outcome.blame and outcome.blame.flaky:
        ctx.out.warning("The check was red once and green when it was run again on the same files.")
    for guilty in outcome.blame.culprits if outcome.blame and outcome.landing else ():
        ctx.out.warning(f"{guilty.words}: not landed, the check is red with it")
    for done in outcome.refused:
        word = outcome.verdict.word if outcome.verdict else "red"
        ctx.out.line(f"{on_one_line(done.path)}: {done.how} was tried, and the check was {word}")


def _land(ctx: Context, arguments: argparse.Namespace) -> int:
    if not arguments.names:
        return _finish(ctx)
    if arguments.pr and arguments.dry_run:
        raise UsageError("--pr pushes, so it cannot be a dry run.", "Leave out one of the two.")
    top = find_top(".") or "."
    base = requests.base_of(ctx.app, top, arguments.into) if arguments.pr else ""
    into = requests.branch_for(ctx.app, top, arguments.names[0], base) if arguments.pr else arguments.into
    outcome = engine.land(
        ctx.app,
        names=arguments.names,
        into=into,
        check=arguments.check,
        timeout=arguments.timeout,
        message=arguments.message,
        dry_run=arguments.dry_run,
        sandboxed=not arguments.open_check,
        rest=arguments.rest,
        approve=arguments.approve,
    )
    opened = _request(ctx, top, into, base, outcome) if base else None
    landed = outcome.landing.members if outcome.landing else ()
    documents = commit_landed(ctx.app, members=landed, target=outcome.target) if landed else {}
    return _show(ctx, outcome, opened, documents, checked=bool(arguments.check))


def _request(ctx: Context, top: str, branch: str, base: str, outcome: engine.LandingOutcome) -> OpenedRequest | None:
    """Open a request for what landed on the branch made for it; nothing where nothing is on it."""
    if outcome.merged.conflicts or (outcome.verdict is not None and not outcome.verdict.green):
        return None
    commit = outcome.merged.new if outcome.landing else outcome.merged.old
    title, body = requests.series(ctx.app, top, base, commit)
    return requests.open_request(ctx.app, top=top, branch=branch, commit=commit, base=base, title=title, body=body)


def _show(
    ctx: Context,
    outcome: engine.LandingOutcome,
    opened: OpenedRequest | None,
    documents: dict[str, str],
    *,
    checked: bool,
) -> int:
    merged = outcome.merged
    ctx.out.data({**_facts(outcome), "request": opened._asdict() if opened else None, "documents": list(documents)})
    for member in outcome.members:
        for path in member.left_out:
            ctx.out.warning(f"{member.name}: left out {on_one_line(path)}")
    for name in merged.skipped:
        ctx.out.line(f"{name}: nothing new")
    _tell_how(ctx, outcome)
    if merged.conflicts:
        for one in merged.conflicts:
            why = f" ({on_one_line(one.why)})" if one.why else ""
            ctx.out.line(f"  {on_one_line(one.path)}: {one.first} and {one.second}{why}")
        hint = (
            ""
            if checked
            else " With --check CMD rules are tried too: for edits that only add, for locks, for files that were formatted anew."
        )
        raise Refused(
            f"{number_of(len(merged.conflicts), 'file')} cannot be joined; nothing was landed.",
            f"Fix one side, or land the others first.{hint}",
        )
    if outcome.verdict and not outcome.verdict.green:
        ctx.out.line(outcome.verdict.tail)
        ctx.out.error(
            f"The check is {outcome.verdict.word}; nothing was landed. It turns red with:"
            f" {outcome.blame.words if outcome.blame else 'all of it'}.",
            "Fix that one, or land without it: with --rest the others land if they are green.",
        )
        return RED
    verb = "Landed" if outcome.landing else "Would land"
    for step in merged.steps:
        ctx.out.line(f"{verb} {step.member} on {outcome.target.removeprefix('refs/heads/')} ({step.commit[:10]})")
    if outcome.trouble:
        ctx.out.warning(outcome.trouble)
    if opened is not None:
        return tell_request(ctx, opened)
    for line in documents.values():
        ctx.out.line(line)
    if outcome.landing:
        ids = [*reversed(documents), merged.new[:10]] if documents else [""]
        ctx.out.note("Take it back with: " + ", then ".join(f"handoff undo {name}".strip() for name in ids))
    elif not merged.steps:
        ctx.out.line("There is nothing to land.")
    return 0


def tell_request(ctx: Context, opened: OpenedRequest) -> int:
    """Where the request is, or the line that opens it; 1 where it is still to be opened."""
    if opened.large:
        text = f"It changes {opened.lines_changed} lines: over 400 are read badly. Parts can be asked for one by one."
        ctx.out.note(text)
    if opened.url or opened.updated:
        what = "The request is up to date" if opened.updated else "Opened a request"
        ctx.out.line(f"{what} to take {opened.branch} into {opened.base}: {opened.url}".rstrip(": "), "good")
        return 0
    ctx.out.line(f"Pushed {opened.branch}, but {opened.said}.", "warn")
    if opened.line:
        ctx.out.line(f"  Open it yourself: {opened.line}")
        return RED
    return 0


def _collisions(ctx: Context, arguments: argparse.Namespace) -> int:
    del arguments
    found = engine.find_collisions(ctx.app)
    ctx.out.data(
        {
            "workspaces": [one.name for one in found.members],
            "conflicts": [one._asdict() for one in found.hard],
            "both_changed": [one._asdict() for one in found.soft],
        }
    )
    for one in found.hard:
        ctx.out.line(f"conflict  {on_one_line(one.path)}: {one.first} and {one.second}")
    for one in found.soft:
        how, why = ("made anew", f" ({one.why})") if one.why else ("joins    ", "")
        ctx.out.line(f"{how} {on_one_line(one.path)}: {one.first} and {one.second}{why}")
    if not found.hard and not found.soft:
        ctx.out.line(f"{number_of(len(found.members), 'workspace')}, no file changed by two.")
    return RED if found.hard else 0


COMMANDS = {
    "land": Command(_land_arguments, _land),
    "batch collisions": Command(no_arguments, _collisions),
}

"""`handoff batch example|run|report`: work split over agents that own different files, from the manifest to the verdict."""

from __future__ import annotations

import os

from handoff.base.clock import stamp, time_of_day
from handoff.base.errors import UserError
from handoff.base.markdown import number_of
from handoff.base.record import TYPE_CHECKING
from handoff.board.tasks import batches as rows
from handoff.board.tasks.batches import LAND_ALL, LAND_IN_ORDER
from handoff.engine.home import find_project
from handoff.engine.supervisor import process
from handoff.engine.tasks import batches
from handoff.engine.tasks.manifests.reading import EXAMPLE
from handoff.engine.tasks.splitting import pull_request
from handoff.engine.tasks.splitting import report as reports
from handoff.engine.tasks.splitting import verdict as verdicts
from handoff.engine.tasks.splitting.verify import verify
from handoff.surfaces.cli.command import Command, flag, no_arguments, option, optional_word, project_option
from handoff.surfaces.cli.commands.batches.watching import as_data, watch
from handoff.surfaces.cli.commands.git.landing import tell_request

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence
    from typing import Any

    from handoff.board.tasks.batches import Batch
    from handoff.engine.home import Project
    from handoff.engine.tasks.splitting.report import BatchReport, PartReport
    from handoff.engine.tasks.splitting.verify import VerifiedManifest
    from handoff.surfaces.cli.command import Context, Parser

EXAMPLES = """examples:
  handoff batch example > split.toml         a manifest with a word on every key
  handoff batch run split.toml --agents claude=2,codex
  handoff batch run split.toml --check       verify it and start nothing
  handoff batch run shop                     stay with a batch that runs, from any terminal
  handoff batch report shop --markdown       what came of it, as a page
"""


def _run_arguments(parser: Parser) -> None:
    text = "the manifest, TOML or JSON; or a batch that was started, to stay with it again"
    parser.add_argument("manifest", metavar="MANIFEST|BATCH", help=text)
    flag(parser, "--check", "verify the manifest and start nothing", dest="only_check")
    text = (
        "all: nothing lands until everything is green; in-order: each part as soon as it is green (default: as it says)"
    )
    option(parser, "--land", text, choices=(LAND_ALL, LAND_IN_ORDER))
    flag(parser, "--pr", "when everything has landed, push it and open a request with your gh or glab")
    serving_arguments(parser)


def _report_arguments(parser: Parser) -> None:
    optional_word(parser, "batch", "BATCH", "which batch; the latest one without it")
    flag(parser, "--markdown", "as a page for a request or a chat")
    project_option(parser)


def serving_arguments(parser: Parser) -> None:
    """Who works for a batch, and how that is shown."""
    text = "agents that work, with how many at once: claude=2,codex (default: those the manifest names)"
    option(parser, "--agents NAME,…", text)
    flag(parser, "--plain", "one line for each thing that happens, also where the board could be shown")
    project_option(parser)
    text = "one more word for every agent (may be repeated); {task} is the task, a part as BATCH/PART"
    option(parser, "--with WORD", text, [], dest="words")


def _example(ctx: Context, arguments: Namespace) -> int:
    del arguments
    ctx.out.data({"manifest": EXAMPLE})
    if not ctx.out.json_wanted:
        ctx.out.raw(EXAMPLE)
    return 0


def _run(ctx: Context, arguments: Namespace) -> int:
    project = find_project(ctx.app, name=arguments.project)
    if not arguments.only_check and (os.path.isdir(arguments.manifest) or not os.path.exists(arguments.manifest)):
        batch = _known(ctx, project, arguments.manifest)
        if batch is not None:
            if arguments.agents and batch.ended_at is None:
                _serve(ctx, arguments, batch, _agents(ctx, arguments, ()))
            return stay_with(ctx, arguments, batch)
    if arguments.agents:  # a wrong name, before checks are tried that may take minutes
        process.worker_settings(
            ctx.app, agents=_agents(ctx, arguments, ()), words=arguments.words, project=project.name
        )
    verified = verify(ctx.app, project, arguments.manifest, tell=ctx.out.note)
    tell_verified(ctx, verified)
    if arguments.only_check:
        ctx.out.data({"batch": verified.manifest.batch_id, "sound": True, **shown_checks(verified)})
        ctx.out.line(
            f"The manifest is sound; nothing was started. To start it: {ctx.settings.program} batch run {arguments.manifest}",
            "good",
        )
        return 0
    return go(ctx, arguments, project, verified)


def _known(ctx: Context, project: Project, name: str) -> Batch | None:
    """A batch that was started; nothing where the name can only mean a manifest."""
    try:
        return batches.find_batch(ctx.app, project, name)
    except UserError:
        if os.path.splitext(name)[1]:
            return None
        raise


def tell_verified(ctx: Context, verified: VerifiedManifest) -> None:
    """What was found before the start: what each check says now, and what a person should know."""
    for command, word in verified.checks.items():
        ctx.out.line(f"  check {word} before: {command}", "dim")
    for remark in verified.remarks:
        ctx.out.note(remark)
    for key in verified.manifest.unknown:
        ctx.out.warning(f"{verified.manifest.source}: {key} means nothing to handoff; it is kept as it is.")


def shown_checks(verified: VerifiedManifest) -> dict[str, object]:
    """The same for programs."""
    return {"checks_before": verified.checks, "remarks": list(verified.remarks)}


def go(ctx: Context, arguments: Namespace, project: Project, verified: VerifiedManifest, *, land: str = "") -> int:
    """Open the verified batch, see that somebody works for it, and stay."""
    manifest = verified.manifest
    how = land or getattr(arguments, "land", "") or manifest.land
    manifest = manifest._replace(land=how, raw={**manifest.raw, "land": how})
    named = (name for sub in manifest.sub_tasks for name in (sub.agent, *sub.race))
    agents = _agents(ctx, arguments, [manifest.agent, *named])
    process.worker_settings(
        ctx.app, agents=agents, words=arguments.words, project=project.name
    )  # a wrong name, at once
    batch = batches.open_checked(ctx.app, project, manifest, verified=verified.checks).batch
    ctx.out.line(
        f"Batch {batch.id} of project {batch.project}: {number_of(batch.total, 'part')} for {', '.join(agents)}. "
        + ("Each part lands as soon as it is green." if how == LAND_IN_ORDER else "Nothing lands until all is green."),
        "strong",
    )
    _serve(ctx, arguments, batch, agents)
    return stay_with(ctx, arguments, batch)


def stay_with(ctx: Context, arguments: Namespace, batch: Batch) -> int:
    """Stay until the verdict; then ask for it to be taken in, if that is wished and everything has landed."""
    code = watch(ctx, batch, plain=arguments.plain)
    return ask_for(ctx, batch) if code == 0 and arguments.pr else code


def _agents(ctx: Context, arguments: Namespace, named: Sequence[str]) -> list[str]:
    said = [name.strip() for name in arguments.agents.split(",") if name.strip()]
    found = said or list(dict.fromkeys(name for name in named if name))
    if not found:
        raise UserError(
            "Neither you nor the manifest says which agent works.",
            f"For example: --agents claude=2,codex. Which there are: {ctx.settings.program} agent list",
        )
    return found


def serve(ctx: Context, arguments: Namespace, batch: Batch, named: Sequence[str]) -> None:
    """See that somebody works for an open batch: those that were said, else those its manifest names."""
    _serve(ctx, arguments, batch, _agents(ctx, arguments, named))


def _serve(ctx: Context, arguments: Namespace, batch: Batch, agents: Sequence[str]) -> None:
    settings = process.worker_settings(
        ctx.app, agents=agents, words=arguments.words, project=batch.project, until=batch.id
    )
    started = process.serve(ctx.app, settings, until=batch.id)
    if started is None:
        ctx.out.note("A supervisor that works here already takes the parts.")
    else:
        ctx.out.note(f"Supervisor {started.id} works in the background until the batch is over; its log: {started.log}")


# --- the report --------------------------------------------------------------------------------------------------


def report(ctx: Context, arguments: Namespace) -> int:
    """Show the report of a batch: for a person, as a page, or for a program."""
    project = find_project(ctx.app, name=arguments.project)
    batch = (
        batches.find_batch(ctx.app, project, arguments.batch)
        if arguments.batch
        else rows.latest(ctx.app.database, project=project.name)
    )
    if batch is None:
        raise UserError(
            f"Project {project.name} has no batch yet.",
            f"Begin with: {ctx.settings.program} batch example > split.toml",
        )
    found = reports.write(ctx.app, verdicts.judge(ctx.app, batch))
    ctx.out.data(_data(found))
    text = reports.as_markdown(found, moment=time_of_day)
    if arguments.markdown and not ctx.out.json_wanted:
        ctx.out.raw(text)
    elif not ctx.out.json_wanted:
        _show(ctx, found)
    return 0


def _data(found: BatchReport) -> dict[str, Any]:
    def part(one: PartReport) -> dict[str, Any]:
        return {**one._asdict(), "sessions": [{**run._asdict(), "began": stamp(run.began)} for run in one.sessions]}

    return {
        **as_data(found.verdict, found.cost),
        "parts": [part(one) for one in found.parts],
        "fan_in": part(found.fan_in),
        "timeline": [
            {"at": stamp(at), "task": task, "what": what, "words": words} for at, task, what, words in found.timeline
        ],
        **found.joining.as_data(),
        "judged_by": found.judged_by,
        "races": [one._asdict() for one in found.races],
        "speedup": round(found.speedup, 2),
        "estimated_speedup": found.estimated_speedup,
        "amdahl_bound": round(found.bound, 2),
        "serial_share": found.serial_share,
        "at_once": found.at_once,
        "calibration": round(found.factor, 3),
    }


def _show(ctx: Context, found: BatchReport) -> None:
    """The same page as a person reads it on a terminal."""
    lines = reports.as_markdown(found, moment=time_of_day).splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]
    wide = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    rows_left = iter(cells)
    for line in lines:
        if line.startswith("| "):
            row = next(rows_left)
            ctx.out.line("  ".join(cell.ljust(width) for cell, width in zip(row, wide, strict=True)).rstrip())
        elif line.startswith("#"):
            ctx.out.line(line.lstrip("# "), "title")
        elif not line.startswith("|---"):
            ctx.out.line(line.removeprefix("> ").replace("**", "").replace("`", ""))


def ask_for(ctx: Context, batch: Batch) -> int:
    """Push what landed as a branch of its own and open a request for it; the report is its text."""
    app = ctx.app
    found = verdicts.judge(app, batch)
    base = found.onto or pull_request.base_of(app, batch.workspace, "")
    body = reports.as_markdown(reports.write(app, found), moment=time_of_day)
    _, series = pull_request.series(
        app, batch.workspace, f"{found.landed}~{len(found.of(verdicts.LANDED))}", found.landed
    )
    opened = pull_request.open_request(
        app,
        top=batch.workspace,
        branch=f"pr/{batch.id}",
        commit=found.landed,
        base=base,
        title=batch.rationale.partition("\n")[0].strip() or f"Batch {batch.id}",
        body=f"{body}\n## Commits\n\n{series}",
    )
    return tell_request(ctx, opened)


COMMANDS = {
    "batch example": Command(no_arguments, _example),
    "batch run": Command(_run_arguments, _run, epilog=EXAMPLES),
    "batch watch": Command(_run_arguments, _run),
    "batch report": Command(_report_arguments, report),
}

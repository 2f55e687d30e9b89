"""`handoff batch example|run|report`: work split over agents that own different files, from the manifest to the verdict."""

from __future__ import annotations

import os
import signal
import threading

from handoff.base.clock import age, stamp, time_of_day
from handoff.base.errors import INTERRUPTED, HandoffError, UserError
from handoff.base.markdown import number_of
from handoff.base.record import TYPE_CHECKING
from handoff.board.sessions.expenses import cost_words
from handoff.board.tasks import batches as rows
from handoff.board.tasks import tasks
from handoff.board.tasks.batches import LAND_ALL, LAND_IN_ORDER
from handoff.engine.app import App
from handoff.engine.app.home import find_project
from handoff.engine.supervisor.news import News
from handoff.engine.work import workers
from handoff.engine.work.acts.landing import request_done
from handoff.engine.work.forges import opening
from handoff.engine.work.tasks import batches
from handoff.engine.work.tasks import batches as engine
from handoff.engine.work.tasks.manifests import example
from handoff.engine.work.tasks.splitting import report as reports
from handoff.engine.work.tasks.splitting import report as verdicts
from handoff.engine.work.tasks.splitting.planner import verify
from handoff.surfaces.cli.command import Command, flag, no_arguments, option, optional_word, project_option
from handoff.surfaces.cli.commands.board.board import can_show, made
from handoff.surfaces.cli.commands.tasks.board import chosen_project
from handoff.surfaces.cli.commands.tasks.dump import open_batch

if TYPE_CHECKING:
    import argparse
    from argparse import Namespace
    from collections.abc import Sequence
    from typing import Any

    from handoff.board.sessions.expenses import Expense
    from handoff.board.tasks.batches import Batch
    from handoff.engine.app.home import Project
    from handoff.engine.work.tasks.splitting.planner import VerifiedManifest
    from handoff.engine.work.tasks.splitting.report import BatchReport, BatchVerdict, PartReport, PartVerdict
    from handoff.surfaces.cli.command import Context, Parser
    from handoff.surfaces.cli.commands.board.view import BoardApp

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
    ctx.out.data({"manifest": example()})
    if not ctx.out.json_wanted:
        ctx.out.raw(example())
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
        workers.worker_settings(
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
    workers.worker_settings(
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
    settings = workers.worker_settings(
        ctx.app, agents=agents, words=arguments.words, project=batch.project, until=batch.id
    )
    started = workers.serve(ctx.app, settings, until=batch.id)
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
    base = found.onto or opening.base_of(app, batch.workspace, "")
    body = reports.as_markdown(reports.write(app, found), moment=time_of_day)
    _, series = opening.series(app, batch.workspace, f"{found.landed}~{len(found.of(verdicts.LANDED))}", found.landed)
    opened = opening.open_request(
        app,
        top=batch.workspace,
        branch=f"pr/{batch.id}",
        commit=found.landed,
        base=base,
        title=batch.rationale.partition("\n")[0].strip() or f"Batch {batch.id}",
        body=f"{body}\n## Commits\n\n{series}",
        project=batch.project,
        carried=[tasks.get(app.database, key=batch.fan_in)] if batch.fan_in is not None else [],
    )
    return ctx.out.done(request_done(opened), data=False)


# --- Staying with a batch: the board on a terminal, plain lines elsewhere, and at the end the verdict and its exit code

NOT_WHOLE = 1
_EVERY_SECONDS, _SHARE = 1.0, 20
_UNSERVED_SECONDS = 15.0
_ENDING_SECONDS, _LOOK_SECONDS = 10.0, 0.2
_SHORT = 120.0  # two minutes are easier read in seconds
_MARKS = {"landed": "good", "green": "good", "blocked": "bad", "asks you": "warn", "cancelled": "dim"}


def watch(ctx: Context, batch: Batch, *, plain: bool) -> int:
    """Stay until the batch is over, or cannot go on without a person and none is there; leaving it stops nothing."""
    left = True
    try:
        if can_show(ctx) and not plain:
            _on_board(ctx, batch)
        else:
            _in_lines(ctx, batch)
            left = False
            # what a session has cost is known when it has ended, a moment after its report
            deadline = ctx.app.clock.monotonic() + _ENDING_SECONDS
            while verdicts.has_live_sessions(ctx.app, batch) and ctx.app.clock.monotonic() < deadline:
                ctx.app.database.wait_for_change(_LOOK_SECONDS)
    except KeyboardInterrupt:
        ctx.out.line()
    found = verdicts.judge(ctx.app, batch)
    tell(ctx, found)
    if found.word == verdicts.RUNS and left:
        program, running = ctx.settings.program, found.of("running")
        names = f" ({', '.join(running)})" if running else ""
        ctx.out.line(f"You left; nothing was stopped: {number_of(len(running), 'part')} at work{names}.")
        ctx.out.line(
            f"Come back: {program} batch run {found.batch.id}. Hold it: {program} pause {found.batch.id}."
            f" End it: {program} cancel {found.batch.id}"
        )
        return INTERRUPTED
    return 0 if found.word == verdicts.LANDED else NOT_WHOLE


def _in_lines(ctx: Context, batch: Batch) -> None:
    # Raised in the middle of anything, an interrupt may be swallowed; noted, it is heard at the next look.
    leaving = threading.Event()
    before = signal.signal(signal.SIGINT, lambda *_: leaving.set())
    try:
        _follow(ctx, batch, leaving)
    finally:
        signal.signal(signal.SIGINT, before)
    if leaving.is_set():
        raise KeyboardInterrupt


def _follow(ctx: Context, batch: Batch, leaving: threading.Event) -> None:
    news = News(
        ctx.app,
        project=batch.project,
        batch=batch.key,
        concerns=lambda held: workers.is_served(ctx.app, batch.project, by=held.name, on=held.host),
    )
    clock, unserved, asked = ctx.app.clock, 0.0, False
    while not leaving.is_set():
        began = clock.monotonic()
        for line in news.lines():
            if not ctx.out.json_wanted:
                ctx.out.line(f"{time_of_day(clock.now())} {line}")
        word = verdicts.glance(ctx.app, batch)
        if word not in (verdicts.RUNS, verdicts.WAITS):
            return
        if word == verdicts.WAITS and not asked:
            if not ctx.out.can_ask:
                return  # nobody is there who could answer
            _tell_waiting(ctx, verdicts.judge(ctx.app, batch))
        asked = word == verdicts.WAITS
        if word == verdicts.RUNS and not workers.is_served(ctx.app, batch.project):
            unserved = unserved or clock.monotonic()
            if clock.monotonic() - unserved > _UNSERVED_SECONDS:
                ctx.out.warning(_unserved(ctx, batch))
                return
        else:
            unserved = 0.0
        # A look at a large batch is dear, and its rows change all the time: a twentieth of it is for looking.
        leaving.wait(min(_EVERY_SECONDS, _SHARE * (clock.monotonic() - began)))
        ctx.app.database.wait_for_change(_EVERY_SECONDS)


def _unserved(ctx: Context, batch: Batch) -> str:
    found = verdicts.judge(ctx.app, batch)
    known = ",".join(sorted({part.agent for part in (*found.parts, found.fan_in)} - {""}))
    return (
        f"no supervisor works for project {batch.project}. Let one work: "
        f"{ctx.settings.program} batch run {batch.id} --agents {known or 'NAME'}"
    )


def _on_board(ctx: Context, batch: Batch) -> None:
    """The board until the person leaves it or the batch is over."""
    board = made(ctx, batch.project)
    left = threading.Event()
    looker = threading.Thread(target=_look, args=(ctx, batch, board, left), daemon=True)
    looker.start()
    board.run()
    left.set()
    looker.join()


def _look(ctx: Context, batch: Batch, board: BoardApp, left: threading.Event) -> None:
    """On a thread of its own with rows of its own: a database belongs to the thread that opened it."""
    app = App(ctx.settings)
    try:
        while not left.wait(_EVERY_SECONDS):
            try:
                if verdicts.glance(app, batch) not in (verdicts.RUNS, verdicts.WAITS):
                    board.over = True
                    return
            except HandoffError:
                continue  # the board says that the database is away
    finally:
        app.close()


# --- the verdict ------------------------------------------------------------------------------------------------


def tell(ctx: Context, found: BatchVerdict) -> None:
    """What came of it: what landed, what is missing, what is red, cost and time; and what goes on."""
    money = verdicts.costs(ctx.app, found.batch)
    ctx.out.data(as_data(found, money))
    total, landed, green = len(found.parts), len(found.of(verdicts.LANDED)), len(found.of("green"))
    took = f"{duration(found.seconds)}, {cost_words(money) or 'cost unknown'}"
    where = f" on {found.onto}" if found.onto else ""
    if landed:
        said = f"{landed} of {number_of(total, 'part')} landed{where}" + (
            f" as {found.landed[:10]}" if found.landed else ""
        )
    else:
        said = "nothing landed" if found.word != verdicts.UNDONE else f"nothing of it is{where} any more"
    style = {verdicts.LANDED: "good", verdicts.RUNS: "strong"}.get(found.word, "bad")
    more = f", {green} green" if green else ""
    ctx.out.line(f"Batch {found.batch.id} {_IS.get(found.word, found.word)}: {said}{more}; {took}.", style)
    for part in (*found.parts, *([] if found.fan_in.word == verdicts.LANDED else [found.fan_in])):
        ctx.out.line(_line(part), _MARKS.get(part.word, ""))
    if found.word == verdicts.WAITS:
        _tell_waiting(ctx, found)
    elif found.word == verdicts.PARTLY:
        _tell_blocked(ctx, found)


_IS = {
    verdicts.LANDED: "has landed",
    verdicts.PARTLY: "has landed in part",
    verdicts.UNDONE: "was taken back",
    verdicts.CANCELLED: "was cancelled",
    verdicts.WAITS: "waits for you",
    verdicts.RUNS: "goes on",
}


def _line(part: PartVerdict) -> str:
    tries = f", {part.attempts} sessions" if part.attempts > 1 else ""
    who = f" ({part.agent}{tries})" if part.agent else ""
    red = "red check, " if part.red and "red" not in part.why else ""
    why = f": {red}{part.why}" if part.why else f"; {part.race}" if part.race else ""
    return f"  {part.id:<20} {part.word}{who}{why}"


def _tell_waiting(ctx: Context, found: BatchVerdict) -> None:
    program = ctx.settings.program
    for label, question in found.questions:
        ctx.out.line(f"{label} asks: {question}", "warn")
        ctx.out.line(f"  {program} answer {label} yes, or {program} answer {label} no REASON")
    _tell_blocked(ctx, found)
    if found.fan_in.word == "blocked":
        ctx.out.line(f"  Let it try again: {program} retry {found.fan_in.id}")
    ctx.out.line(f"Follow it again: {program} batch run {found.batch.id}")


def _tell_blocked(ctx: Context, found: BatchVerdict) -> None:
    for part in found.missing:
        if part.word == "blocked" and not part.behind:
            ctx.out.line(f"  Let it try again: {ctx.settings.program} retry {found.batch.id}/{part.id}")


def as_data(found: BatchVerdict, money: Sequence[Expense]) -> dict[str, Any]:
    """The verdict for programs."""
    return {
        "batch": found.batch.id,
        "project": found.batch.project,
        "verdict": found.word,
        "over": found.over,
        "landed": found.of(verdicts.LANDED),
        "green": found.of("green"),
        "missing": {part.id: {"state": part.word, "why": part.why} for part in found.missing},
        "red": [part.id for part in (*found.parts, found.fan_in) if part.red],
        "parts": [part._asdict() for part in found.parts],
        "fan_in": found.fan_in._asdict(),
        "questions": [{"task": label, "question": question} for label, question in found.questions],
        "commit": found.landed,
        "onto": found.onto,
        "cost": {one.agent: one.money for one in money if one.money or not one.unknown},
        "unknown_cost": [one.agent for one in money if one.unknown],
        "tokens": {one.agent: one.tokens for one in money},
        "seconds": round(found.seconds, 1),
        "began": stamp(found.batch.created_at),
    }


def duration(seconds: float) -> str:
    """`41 s`, `12 min`, `3 h 5 min`."""
    if seconds < _SHORT:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


# --- `batch list` and `batch open`: work split over sessions that own different files

_EPILOG = """examples:
  handoff batch open split.json
  handoff show login            the batch with its parts
  handoff retry login           let its blocked parts try again
"""


def _open_arguments(parser: Parser) -> None:
    parser.add_argument("open_batch", metavar="FILE", help="the manifest: JSON or TOML, schema 2")
    project_option(parser)
    option(parser, "--workspace DIR", "checkout to work in (default: this one)")
    flag(parser, "--dry-run", "check the manifest; write nothing")
    flag(parser, "--open", "open every ready part in a tab at once (see: handoff task open --help)", dest="open_now")


def _list_arguments(parser: Parser) -> None:
    project_option(parser, every=True)
    flag(parser, "--all", "also batches that have ended", dest="include_ended")


def _list(ctx: Context, arguments: argparse.Namespace) -> None:
    project = chosen_project(ctx, arguments)
    found = engine.listing(ctx.app, project=project, include_ended=arguments.include_ended)
    ctx.out.data(
        [
            {"batch": one.batch.id, "project": one.batch.project, "state": one.batch.state, "parts": one.counts}
            for one in found
        ]
    )
    now = ctx.app.clock.now()
    for one in found:
        where = f"{one.batch.project}  " if not project else ""
        said = ", ".join(f"{count} {state}" for state, count in one.counts.items())
        ctx.out.line(f"{where}{one.batch.id:<24} {age(now - one.batch.created_at):>7}  {said} of {one.batch.total}")
    if not found:
        program = ctx.settings.program
        ctx.out.line(f"No batch is open. Open one: {program} batch open FILE. How: {program} help split-a-task")


COMMANDS = {
    "batch example": Command(no_arguments, _example),
    "batch run": Command(_run_arguments, _run, epilog=EXAMPLES),
    "batch watch": Command(_run_arguments, _run),
    "batch report": Command(_report_arguments, report),
    "batch list": Command(_list_arguments, _list),
    "batch open": Command(_open_arguments, open_batch, epilog=_EPILOG),
}

"""`handoff split`: an agent proposes how work is split, the proposal is judged, and you say go, edit or plan again."""

from __future__ import annotations

import json
import os

from handoff.base.errors import UsageError, UserError
from handoff.base.files import make_folder, read_text, write_atomic
from handoff.base.ids import slug
from handoff.base.markdown import number_of
from handoff.base.process import pass_through
from handoff.base.record import TYPE_CHECKING
from handoff.board.tasks import batches as rows
from handoff.board.tasks import states
from handoff.engine.app.home import find_project
from handoff.engine.session import start as session_start
from handoff.engine.work.tasks import admin, batches
from handoff.engine.work.tasks.splitting import coupling, planner
from handoff.engine.work.tasks.splitting.planner import verify
from handoff.git.ownership.patterns import EXACT, GLOB, PREFIX
from handoff.git.plumbing import find_top
from handoff.surfaces.cli.command import Command, flag, option, optional_word
from handoff.surfaces.cli.commands.tasks.batch import (
    go,
    serve,
    serving_arguments,
    shown_checks,
    stay_with,
    tell_verified,
)

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator, Mapping
    from typing import Any

    from handoff.board.tasks.batches import SubTask
    from handoff.board.tasks.tasks import Task
    from handoff.engine.app.home import Project
    from handoff.engine.work.tasks.manifests import Manifest
    from handoff.engine.work.tasks.splitting.coupling import Coupling, Forecast
    from handoff.engine.work.tasks.splitting.planner import VerifiedManifest
    from handoff.surfaces.cli.command import Context, Parser

EXAMPLES = """examples:
  handoff split 'Add a dark theme to every page' --agents claude=2,codex
  handoff split --step 3 --agents claude=3 --parts 3     one step of the active feature's plan
  handoff split --agents claude=2                        all that is left of the active feature's plan
  handoff split split.toml                               judge a manifest you wrote yourself
  handoff split 'Add a dark theme' --agents claude=3 --go    plan it, and go if the plan is sound
"""
_GO, _EDIT, _AGAIN, _LEAVE = "g", "e", "a", "l"


def _arguments(parser: Parser) -> None:
    optional_word(
        parser, "request", "REQUEST", "what is to be done, or a manifest; left out: the active feature's plan"
    )
    option(parser, "--step N", "split this step of the active feature's plan", 0)
    option(parser, "--parts N", "how many parts (default: as many as can run side by side)", 0)
    option(parser, "--planner NAME", "the agent that plans (default: the first of --agents)")
    flag(parser, "--go", "start at once if the plan is sound")
    flag(parser, "--pr", "when everything has landed, push it and open a request with your gh or glab")
    serving_arguments(parser)


class _Proposal:
    """A manifest on its way: where it came from, what was found, and what a person says to it."""

    def __init__(self, ctx: Context, arguments: Namespace, project: Project) -> None:
        self.ctx, self.arguments, self.project = ctx, arguments, project
        self.task: Task | None = None
        self.path, self.text = "", ""
        self.verified: VerifiedManifest
        self.coupling: Coupling
        self.forecast: Forecast

    def judge(self) -> None:
        """Everything a person wants to know before they say go."""
        app = self.ctx.app
        self.verified = verify(app, self.project, self.path, self.text, tell=self.ctx.out.note)
        manifest = self.verified.manifest
        top = find_top(manifest.workspace or self.project.workspace) or self.project.workspace
        self.coupling = coupling.judge(app, top, {sub.id: sub.owns for sub in manifest.sub_tasks})
        self.forecast = coupling.forecast(
            app, self.project.name, manifest, self.coupling, at_once=_at_once(self.arguments.agents)
        )

    def show(self) -> None:
        out, manifest = self.ctx.out, self.verified.manifest
        out.line(f"Batch {manifest.batch_id}: {number_of(len(manifest.sub_tasks), 'part')}", "title")
        out.lines(*table(manifest, self.verified.checks))
        out.line()
        out.lines(*graph(manifest))
        out.line()
        tell_verified(self.ctx, self.verified._replace(checks={}))
        _tell_coupling(self.ctx, self.coupling)
        _tell_forecast(self.ctx, self.forecast)

    def data(self) -> dict[str, Any]:
        manifest = self.verified.manifest
        return {
            "batch": manifest.batch_id,
            "manifest": self.path,
            "task": self.task.label if self.task else "",
            "parts": [{**sub._asdict(), "owns": list(sub.owns)} for sub in manifest.sub_tasks],
            **shown_checks(self.verified),
            "coupling": {**self.coupling._asdict(), "pairs": [pair._asdict() for pair in self.coupling.pairs]},
            "forecast": self.forecast._asdict(),
        }

    def start(self) -> int:
        """Yes: the batch is opened and stayed with."""
        ctx, arguments = self.ctx, self.arguments
        if self.task is None:
            return go(ctx, arguments, self.project, self.verified)
        admin.approve(ctx.app, self.task, answer=self.text if self.text != planner.proposal(ctx.app, self.task) else "")
        batch = planner.batch_of(ctx.app, self.task)
        if batch is None:
            raise UserError("The batch was not opened.", f"See: {ctx.settings.program} show {self.task.label}")
        batches.note_verified(ctx.app, batch, self.verified.checks)
        serve(ctx, arguments, batch, [sub.agent for sub in self.verified.manifest.sub_tasks])
        return stay_with(ctx, arguments, batch)


def _split(ctx: Context, arguments: Namespace) -> int:
    project = find_project(ctx.app, name=arguments.project)
    proposal = _Proposal(ctx, arguments, project)
    if arguments.request and os.path.isfile(arguments.request):
        if arguments.step or arguments.parts:
            raise UsageError("A manifest says itself what its parts are.", "Leave out --step and --parts.")
        proposal.path = arguments.request
    else:
        if arguments.request and arguments.step:
            raise UsageError(
                "Say what is to be split, or --step, not both.", f"See: {ctx.settings.program} split --help"
            )
        request = arguments.request or planner.request_of_feature(ctx.app, step=arguments.step)
        agent = _planner(ctx, arguments)
        proposal.task = planner.write_down(ctx.app, project, request, agent=agent, parts=arguments.parts)
        if not _plan(proposal, agent):
            return 1
    proposal.judge()
    proposal.show()
    if arguments.go:
        return proposal.start()
    if not ctx.out.can_ask or ctx.out.json_wanted:
        ctx.out.data(proposal.data())
        _tell_next(proposal)
        return 0
    return _ask(proposal)


def _planner(ctx: Context, arguments: Namespace) -> str:
    first = arguments.planner or arguments.agents.split(",")[0].partition("=")[0].strip()
    if not first:
        raise UserError("Say which agent plans.", f"For example: {ctx.settings.program} split … --agents claude=2")
    return str(first)


def _plan(proposal: _Proposal, agent: str) -> bool:
    """Sessions of the planner until one has proposed a sound manifest, or its attempts are used up."""
    ctx, task = proposal.ctx, proposal.task
    assert task is not None, "a planner has a task"  # noqa: S101 - said by whoever calls

    def began(started: session_start.RunningSession) -> None:
        if started.words:
            ctx.out.warning(started.words)
        name = started.claim.task.label
        ctx.out.note(f"{agent} plans the split as task {name} (session {started.session.name}) …")

    while True:
        request = session_start.StartRequest(
            agent=agent, task=task.label, project=task.project, words=tuple(_filled(proposal.arguments.words, task))
        )
        concluded = session_start.run(ctx.app, request=request, began=began, tell=ctx.out.note)
        task = proposal.task = concluded.task
        if task.state == states.GATED:
            break
        ctx.out.note(f"No plan yet: {task.reason or concluded.outcome.reason}")
        if task.state != states.READY or concluded.outcome.reason == session_start.INTERRUPTED:
            ctx.out.data({"task": task.label, "state": task.state, "reason": task.reason})
            ctx.out.line(
                f"No plan was made: {task.label} is {task.state}. See: {ctx.settings.program} show {task.label}", "bad"
            )
            return False
    proposal.text = planner.proposal(ctx.app, task)
    if not proposal.text:  # it asks something before it can plan
        program, label = ctx.settings.program, task.label
        ctx.out.data({"task": label, "state": task.state, "reason": task.reason})
        ctx.out.line(f"{label} asks: {admin.gate_of(ctx.app, task).question}", "title")
        ctx.out.line(f"Answer it: {program} answer {label}. Then: {program} session start {label} --agent {agent}")
        return False
    folder = os.path.join(ctx.settings.home, task.project, "splits")
    make_folder(folder)
    proposal.path = os.path.join(folder, f"{task.id}.toml")
    write_atomic(proposal.path, proposal.text)
    return True


def _filled(words: list[str], task: Task) -> list[str]:
    return [word.replace("{task}", task.id).replace("{attempt}", str(task.attempt)) for word in words]


def _ask(proposal: _Proposal) -> int:
    """Go, edit, plan again with words, or leave it as a gate that waits."""
    ctx = proposal.ctx
    while True:
        said = ctx.out.choose("Go, edit it, plan again, or leave it? [g/e/a/l]", _GO + _EDIT + _AGAIN + _LEAVE)
        if said == _GO:
            return proposal.start()
        if said == _LEAVE:
            _tell_next(proposal)
            return 0
        if said == _AGAIN and proposal.task is not None:
            words = ctx.out.answer("How instead?")
            if not words:
                continue
            admin.reject(ctx.app, proposal.task, reason=words)
            proposal.task = admin.retry(ctx.app, proposal.task).task
            if not _plan(proposal, proposal.task.agent):
                return 1
        elif said == _AGAIN:
            ctx.out.note("You wrote this manifest yourself: edit it.")
            continue
        else:
            editor = ctx.settings.get("VISUAL") or ctx.settings.get("EDITOR") or "vi"
            pass_through(
                ["/bin/sh", "-c", f'{editor} "$1"', "edit", proposal.path], environment=ctx.settings.environment
            )
            proposal.text = read_text(proposal.path)
        try:
            proposal.judge()
            proposal.show()
        except UserError as error:
            ctx.out.error(error.message, error.hint)


def _tell_next(proposal: _Proposal) -> None:
    ctx, program = proposal.ctx, proposal.ctx.settings.program
    if proposal.task is None:
        ctx.out.line(f"Nothing was started. To start it: {program} batch run {proposal.path}")
        return
    name, batch = proposal.task.label, proposal.verified.manifest.batch_id
    ctx.out.line(f"It waits for your word. The manifest: {proposal.path}")
    ctx.out.line(
        f"  Go: {program} answer {name} yes && {program} batch run {batch} --agents {proposal.arguments.agents}"
    )
    ctx.out.line(f"  Change it: {program} answer {name} yes --edit")
    ctx.out.line(f"  Plan again: {program} answer {name} no 'how instead' && {program} retry {name}")


def _at_once(agents: str) -> int:
    """How many sessions `claude=2,codex` means; 0 where somebody is not counted."""
    counts = [one.partition("=")[2] for one in agents.split(",") if one.strip()]
    return sum(int(count) for count in counts) if counts and all(count.isdecimal() for count in counts) else 0


def _tell_coupling(ctx: Context, found: Coupling) -> None:
    if found.word == coupling.UNKNOWN:
        ctx.out.line(
            f"History: not known, only {number_of(found.commits, 'commit')} say something about these paths.", "dim"
        )
    else:
        style = {coupling.APART: "good", coupling.NAMED: "warn"}.get(found.word, "bad")
        ctx.out.line(
            f"History: {found.cross:.0%} of {found.commits} commits touch more than one part ({found.word}).", style
        )
    for pair in found.pairs:
        imports = f", {number_of(pair.imports, 'import')} between them" if pair.imports else ""
        ctx.out.line(
            f"  {pair.first} and {pair.second} changed together in {number_of(pair.commits, 'commit')} ({pair.share:.0%}){imports}",
            "warn",
        )
    if found.hubs:
        ctx.out.line(
            f"  Changed with everything, best left to one part or the fan-in: {', '.join(found.hubs[:5])}", "dim"
        )


def _tell_forecast(ctx: Context, found: Forecast) -> None:
    by = (
        f"the estimates times {found.factor:.2f}, as {found.samples} measured before"
        if found.samples
        else "the estimates; none was measured here yet"
    )
    by = "15 minutes a part, because nothing is estimated" if found.guessed else by
    ctx.out.line(
        f"Time: {found.one_by_one:.0f} min one after the other, {found.side_by_side:.0f} side by side: {found.speedup:.1f} times faster"
        f" (at most {found.bound:.1f} by Amdahl's law). By {by}."
    )
    advice = {
        coupling.SPLIT: "Advice: split",
        coupling.FEWER: "Advice: fewer parts",
        coupling.SERIAL: "Advice: do not split",
        coupling.UNSURE: "Advice: nothing speaks against a split",
    }[found.word]
    style = {coupling.SPLIT: "good", coupling.UNSURE: ""}.get(found.word, "warn")
    ctx.out.line(f"{advice}: {'; '.join(found.reasons)}." if found.reasons else f"{advice}.", style)


# --- the picture of a plan ---------------------------------------------------------------------------------------


_WIDEST = 44


def table(manifest: Manifest, checks: Mapping[str, str]) -> list[str]:
    """One line for each part: how long, whose, what it owns, how it is checked and what that said before."""
    rows = [
        ("part", "min", "agent", "owns", "check, and what it says now"),
        *(_row(sub, checks) for sub in manifest.sub_tasks),
    ]
    whole = (
        f"{manifest.check} ({checks.get(manifest.check, 'not tried')})"
        if manifest.check
        else "no check of the merged result"
    )
    rows.append(
        (
            manifest.fan_in_task,
            f"{manifest.serial_minutes:g}" if manifest.serial_minutes else "-",
            "any",
            "what no part owns",
            whole,
        )
    )
    wide = [min(_WIDEST, max(len(row[column]) for row in rows)) for column in range(len(rows[0]))]
    return [
        "  " + "  ".join(_cell(word, width) for word, width in zip(row, wide, strict=True)).rstrip() for row in rows
    ]


def _row(sub: SubTask, checks: Mapping[str, str]) -> tuple[str, ...]:
    minutes = f"{sub.estimate_minutes:g}" if sub.estimate_minutes else "?"
    check = f"{sub.check_command} ({checks.get(sub.check_command, 'not tried')})" if sub.check_command else "none"
    agent = (
        f"race of {len(sub.race)}" + (f": {', '.join(sub.race)}" if any(sub.race) else "") if sub.race else sub.agent
    )
    return (sub.id, minutes, agent or "any", " ".join(sub.owns) or "nothing", check)


def _cell(word: str, width: int) -> str:
    return (word if len(word) <= width else word[: width - 1] + "…").ljust(width)


def graph(manifest: Manifest) -> list[str]:
    """Waves from left to right: what stands in one begins when all that it names in the waves before is done."""
    return list(_lines(manifest))


def _lines(manifest: Manifest) -> Iterator[str]:
    needs = {sub.id: sub.depends_on for sub in manifest.sub_tasks}
    wave: dict[str, int] = {}
    while len(wave) < len(needs):
        for name, before in needs.items():
            if name not in wave and all(one in wave for one in before):
                wave[name] = 1 + max((wave[one] for one in before), default=-1)
    columns = [[name for name in needs if wave[name] == number] for number in range(max(wave.values(), default=0) + 1)]
    wide = [max(len(name) for name in names) for names in columns]
    for line in range(max(len(names) for names in columns)):
        cells = [_node(names, line, width) for names, width in zip(columns, wide, strict=True)]
        yield ("  " + "".join(cells) + (manifest.fan_in_task if line == 0 else "")).rstrip()
    for name, before in needs.items():
        if before:
            yield f"  {name} waits for {', '.join(before)}"


def _node(names: list[str], line: int, width: int) -> str:
    """A part of a wave and the lines behind it: those of a wave meet before the next one begins."""
    if line >= len(names):
        return " " * (width + 6)
    ends = ("───▶ " if len(names) == 1 else "─┬─▶ ") if line == 0 else "─┘   " if line == len(names) - 1 else "─┤   "
    return f"{names[line]} {'─' * (width - len(names[line]))}{ends}"


RACE_EXAMPLES = """examples:
  handoff race 'Make the search twice as fast' --agents claude,codex --check 'pytest tests/search'
  handoff race 'Write the parser' --agents claude=3 --owns src/parser/ --owns tests/parser/
"""
_LONGEST = 40


def _race_arguments(parser: Parser) -> None:
    parser.add_argument("brief", metavar="BRIEF", help="what each of them is to do")
    option(parser, "--check COMMAND", "exit 0 means done; it judges each of them (default: the project's own suite)")
    text = "what they may change: a file, a folder with its '/', or a pattern (may be repeated; default: everything)"
    option(parser, "--owns PATH", text, [])
    option(parser, "--id NAME", "what it is called (default: from the brief)")
    flag(parser, "--pr", "when it has landed, push it and open a request with your gh or glab")
    serving_arguments(parser)


def _race(ctx: Context, arguments: Namespace) -> int:
    project = find_project(ctx.app, name=arguments.project)
    text = json.dumps(_manifest(ctx, arguments, project), indent=1, ensure_ascii=False)
    verified = verify(ctx.app, project, "race.json", text, tell=ctx.out.note)
    if not arguments.check and verified.manifest.check:  # each is held against what the whole is held against
        parts = tuple(part._replace(check_command=verified.manifest.check) for part in verified.manifest.sub_tasks)
        verified = verified._replace(manifest=verified.manifest._replace(sub_tasks=parts))
    tell_verified(ctx, verified)
    return go(ctx, arguments, project, verified)


def _manifest(ctx: Context, arguments: Namespace, project: Project) -> dict[str, Any]:
    """The batch of one part that a race is."""
    agents = _runners(ctx, arguments.agents)
    name = arguments.id or _free_name(ctx, project, slug(arguments.brief)[:_LONGEST].strip("-") or "race")
    part: dict[str, Any] = {"id": "work", "brief": arguments.brief, "race": agents}
    part["file_ownership"] = [_owned(path) for path in arguments.owns] or [{"type": GLOB, "path": "**"}]
    whole = {"check": arguments.check} if arguments.check else {}
    part.update(whole)
    return {
        "schema_version": 2,
        "batch_id": name,
        "fan_in_task": f"{name}-join",
        "split_rationale": arguments.brief,
        "sub_tasks": [part],
        **whole,
    }


def _free_name(ctx: Context, project: Project, name: str) -> str:
    known = (name, *(f"{name}-{number}" for number in range(2, 1000)))
    return next(one for one in known if not rows.is_known(ctx.app.database, project=project.name, id=one))


def _runners(ctx: Context, said: str) -> list[str]:
    """`claude=2,codex` is three that run."""
    found: list[str] = []
    for word in said.split(","):
        name, _, count = word.strip().partition("=")
        if name:
            found += [name] * (int(count) if count.isdecimal() else 1)
    if len(found) < 2:  # noqa: PLR2004 - one alone runs no race
        raise UserError(
            "A race needs at least two that run.",
            f"For example: --agents claude,codex or --agents claude=3. Which there are: {ctx.settings.program} agent list",
        )
    return found


def _owned(path: str) -> dict[str, str]:
    kind = PREFIX if path.endswith("/") else GLOB if "*" in path else EXACT
    return {"type": kind, "path": path}


COMMANDS = {
    "split": Command(_arguments, _split, epilog=EXAMPLES),
    "race": Command(_race_arguments, _race, epilog=RACE_EXAMPLES),
}

"""`handoff flow start|adopt|list|step`: a workflow that runs; and how `show` and `log` treat a flow."""

from __future__ import annotations

from handoff.base.clock import age, span, stamp
from handoff.base.errors import INTERRUPTED, Refused, UsageError, UserError
from handoff.base.files import read_text, write_atomic
from handoff.base.markdown import end_sentence, number_of
from handoff.base.record import TYPE_CHECKING
from handoff.engine.app.home import find_project
from handoff.engine.work import acts
from handoff.engine.work.flows import admin, evidence, flows
from handoff.engine.work.tasks.admin import holds_of
from handoff.surfaces.cli.command import Command, flag, option, optional_word, pick
from handoff.workflows import library
from handoff.workflows.model import CHECKS_MEANING, as_svg, as_text

if TYPE_CHECKING:
    from argparse import Namespace

    from handoff.board.events.journal import Event
    from handoff.board.tasks.flows import Flow
    from handoff.engine.work.flows.flows import StepResult
    from handoff.surfaces.cli.command import Context, Parser
    from handoff.workflows.model import Phase

_DONE, _RUNNING, _BLOCKED, _GATED = "done", "running", "blocked", "gated"
_RECENT, _SHOWN_COMMITS = 3, 12
_EPILOG = "Workflows: handoff flow kinds. How it works: handoff help docs/howto/workflows.md"


def _arguments(parser: Parser) -> None:
    start = parser.verb("start", "begin a workflow", "Begin a workflow in a workspace of its own.")
    start.add_argument("workflow", metavar="WORKFLOW", help="which one: see `handoff flow kinds`")
    option(start, "--request TEXT", "what is to be done")
    option(start, "--from FILE", "read that from a file", dest="source")
    option(start, "--id NAME", "what the flow is called (default: a free name)")
    option(
        start,
        "--agent [ROLE=]NAME",
        "which agent works, for all roles or for one (may be repeated); with commas the next goes on after the one before",
        [],
    )
    text = "which model its client uses, for all roles or for one: a strong one to plan, a cheap one to work (may be repeated)"
    option(start, "--model [ROLE=]NAME", text, [])
    text = "ask a person after this phase (may be repeated), perhaps for so long, and what counts then: plan=2h,no"
    option(start, "--gate PHASE[=TIME[,yes|no]]", text, [])
    option(start, "--max-cycles N", "how often it may go back (default: as the workflow says)", 0)
    option(start, "--base COMMIT", "where it begins (default: the branch checked out here)")
    adopted = parser.verb(
        "adopt",
        "go on with a flow from its branch alone",
        "Go on with a flow from its branch, without the database it ran with.",
    )
    adopted.add_argument("branch", metavar="BRANCH", help="the branch of the flow, for example origin/handoff/calc")
    option(adopted, "--workflow NAME", "which workflow it is, where its commits do not say so")
    option(adopted, "--request TEXT", "what is to be done, where its commits do not say so")
    option(
        adopted,
        "--agent [ROLE=]NAME",
        "which agent works, for all roles or for one (may be repeated); with commas the next goes on after the one before",
        [],
    )
    listed = parser.verb(
        "list", "list the flows and where they stand", "List the flows under way and where they stand."
    )
    flag(listed, "--all", "also flows that have ended", dest="include_ended")
    step = parser.verb("step", "do one phase now, by hand", "Do one phase now, without a supervisor.")
    option(step, "--agent NAME", "which agent does it (`person` opens a shell)")
    option(step, "--model NAME", "the model its client is to use")
    text = "one more word for the client; {phase}, {cycle}, {attempt}, {task}, {flow} are filled in"
    option(step, "--with WORD", text, [], dest="words")
    flag(step, "--all", "go on until it ends or needs a person", dest="include_ended")
    option(step, "--skip REASON", "pass this phase over instead")
    option(step, "--prompt FILE", "give the session this text instead of the workflow's")
    optional_word(step, "flow", "FLOW", "which flow (default: the only one)")
    for verb in parser.nested:
        option(verb, "--project NAME", "project (default: the name of this checkout)")


def _flow(ctx: Context, arguments: Namespace) -> int:
    if arguments.verb == "start":
        return _start(ctx, arguments)
    if arguments.verb == "adopt":
        return _adopt(ctx, arguments)
    if arguments.verb == "list":
        return _list(ctx, arguments)
    return _step(ctx, arguments, flows.find(ctx.app, name=arguments.flow, project=arguments.project))


def _follow(ctx: Context, repository: str) -> bool:
    """Let the records of the flow's commits survive a rebase; False when they did already."""
    from handoff.engine.place.proof import git_notes
    from handoff.engine.safety import incidents

    if git_notes.book(ctx.app, repository).follows():
        return False
    with incidents.ours(ctx.app, folder=repository):
        return git_notes.follow(ctx.app, repository=repository)


def _gate_limits(words: list[str]) -> dict[str, tuple[float, str]]:
    """What stands behind the name of a gate: how long it waits, and what counts then."""
    limits: dict[str, tuple[float, str]] = {}
    for phase, equals, limit in (word.partition("=") for word in words):
        within, comma, default = limit.partition(",")
        if (comma and default not in ("yes", "no")) or (equals and not within):
            raise UsageError(f"'{phase}={limit}' is no gate.", "Write --gate PHASE, PHASE=2h or PHASE=2h,no.")
        if within:
            limits[phase] = (span(within), default)
    return limits


def _by_role(words: list[str], what: str = "agent") -> dict[str, str]:
    """Agents or models by role; the empty role is for all others."""
    found: dict[str, str] = {}
    for said in words:
        role, equals, name = said.rpartition("=")
        if (equals and not role) or not name:
            raise UsageError(f"'{said}' is no {what}.", f"Write --{what} NAME or --{what} ROLE=NAME.")
        found[role] = name
    return found


def _start(ctx: Context, arguments: Namespace) -> int:
    if arguments.request and arguments.source:
        raise UsageError("Give --request or --from, not both.")
    request = flows.FlowRequest(
        workflow=arguments.workflow,
        text=arguments.request or (read_text(arguments.source) if arguments.source else ""),
        feature=getattr(arguments, "feature", "") or "",
        agents=_by_role(arguments.agent),
        models=_by_role(arguments.model, "model"),
        gates=tuple(dict.fromkeys(said.partition("=")[0] for said in arguments.gate)),
        gate_limits=_gate_limits(arguments.gate),
        **pick(arguments, "id max_cycles base"),
    )
    seen = flows.look_again(ctx.app, flows.start(ctx.app, request=request, tell=ctx.out.note))
    ctx.out.data(seen.shown())
    for event in flows.history(ctx.app, seen.flow):
        for warning in event.body.get("warnings", ()):
            ctx.out.warning(str(warning))
    program = ctx.settings.program
    if _follow(ctx, seen.flow.repository):
        ctx.out.note(
            f"Records in git notes follow rebase and amend now (notes.rewriteRef). To take it back: {program} record uninstall"
        )
    ctx.out.line(f"The flow '{seen.flow.id}' has begun: {seen.where}.", "good")
    ctx.out.line(f"  workspace  {seen.flow.workspace}")
    ctx.out.line(f"One phase by hand: {program} flow step {seen.flow.id}. By itself: {program} work --agent NAME")
    return 1 if seen.state == _BLOCKED else 0


def _adopt(ctx: Context, arguments: Namespace) -> int:
    from handoff.engine.work.flows import admin

    request = admin.AdoptRequest(
        branch=arguments.branch,
        workflow=arguments.workflow,
        text=arguments.request,
        agents=_by_role(arguments.agent),
    )
    flow, unknown = admin.adopt(ctx.app, request=request, tell=ctx.out.note)
    seen = flows.look_again(ctx.app, flow)
    ctx.out.data({**seen.shown(), "unknown": list(unknown)})
    ctx.out.line(f"The flow '{flow.id}' goes on: {seen.where}.", "good")
    ctx.out.lines("The branch does not hold:", *(f"  - {one}" for one in unknown))
    program = ctx.settings.program
    ctx.out.line(f"One phase by hand: {program} flow step {flow.id}. By itself: {program} work --agent NAME")
    return 1 if seen.state == _BLOCKED else 0


def _list(ctx: Context, arguments: Namespace) -> int:
    project = find_project(ctx.app, name=arguments.project).name
    found = flows.listing(ctx.app, project=project, include_ended=arguments.include_ended)
    resting = not found and not arguments.include_ended
    if resting:  # what ended last is what one wants to know then
        found = flows.listing(ctx.app, project=project, include_ended=True)[:_RECENT]
    ctx.out.data([seen.shown() for seen in found])
    now = ctx.app.clock.now()
    for seen in found:
        ctx.out.line(
            f"{seen.flow.id:<20} {seen.flow.workflow:<9} {age(now - seen.flow.created_at):>7}  {seen.where}",
            acts.FLOW_STYLES.get(seen.state, ""),
        )
    if resting:
        ctx.out.line(f"No flow is under way. Begin one: {ctx.settings.program} flow start tdd --request TEXT")
    return 0


def show(ctx: Context, flow: Flow) -> None:
    """Where a flow stands, with its commits and what comes next."""
    seen = flows.look(ctx.app, flow)
    commits = flows.commits(ctx.app, flow)
    ctx.out.data({**seen.shown(), "commits": commits, "failures": flow.facts.get("failures", [])})
    ctx.out.line(f"{flow.id}: {seen.where}", acts.FLOW_STYLES.get(seen.state, "strong"))
    ctx.out.line(f"  asked for  {' '.join(flow.request.split())[:90]}")
    if flow.facts.get("test") and seen.state not in (_DONE, "cancelled"):
        ctx.out.line(f"  the test   {flow.facts['test']}")
    if seen.task is not None and seen.task.held_by and seen.task.state == _RUNNING:
        ctx.out.line(f"  session    {seen.task.held_by} ({seen.task.held_agent})")
    for held in holds_of(ctx.app, seen.task) if seen.task is not None else ():
        ctx.out.line(f"  held       {held.kind} {held.name} on {held.host} {held.words}", "warn")
    ctx.out.line(f"  workspace  {flow.workspace}")
    ctx.out.line(f"  branch     {flow.branch.removeprefix('refs/heads/')}, {number_of(len(commits), 'commit')}")
    if len(commits) > _SHOWN_COMMITS:
        ctx.out.line(f"    … {len(commits) - _SHOWN_COMMITS} earlier")
    for line in commits[-_SHOWN_COMMITS:]:
        ctx.out.line(f"    {line}")
    for line in flow.facts.get("tested") or () if seen.state not in (_DONE, _GATED) else ():  # those say it themselves
        ctx.out.line(f"  tests      {line}")
    ctx.out.lines(*seen.next_steps(ctx.settings.program))


def log(ctx: Context, flow: Flow) -> None:
    """What happened in a flow, phase by phase."""
    events = [
        event for event in flows.history(ctx.app, flow) if event.kind.startswith(("flow.", "gate.", "task.blocked"))
    ]
    ctx.out.data([{**event._asdict(), "at": stamp(event.at)} for event in events])
    for event in events:
        for line in _told(event):
            ctx.out.line(line)


def _told(event: Event) -> list[str]:
    body, when = event.body, stamp(event.at)[11:19]
    what = event.kind.partition(".")[2].replace("_", " ")
    what = what if body.get("tested", True) else evidence.NOT_TESTED
    phase = f"{body.get('cycle')}-{body.get('phase')}" if "cycle" in body else str(body.get("phase", ""))
    head = f"{when}  {what:<11} {phase:<12}"
    more = [*body.get("asked", ()), *(f"warning: {one}" for one in body.get("warnings", ()))]
    below = [f"{'':<23} {line}" for line in more]
    if event.kind == "flow.verified":
        return [f"{head} {body['said'].partition(': ')[2]} {body.get('commit', '')[:10]}".rstrip(), *below]
    if event.kind == "flow.refused":
        first, *more = body["said"]
        return [f"{head} attempt {body['attempt']}: {first}", *(f"{'':<34} {line}" for line in more), *below]
    said = next((body[key] for key in ("said", "reason", "question", "note", "request", "branch") if body.get(key)), "")
    return [f"{head} {str(said).partition(chr(10))[0]}".rstrip()]


def _step(ctx: Context, arguments: Namespace, flow: Flow) -> int:
    if arguments.skip:
        ctx.out.done(acts.flow_done(ctx.app, admin.skip(ctx.app, flow=flow, reason=arguments.skip)))
        return 0
    if arguments.prompt:
        admin.reword(ctx.app, flow=flow, text=read_text(arguments.prompt))
    while True:
        done = flows.step(
            ctx.app, flow=flow, agent=arguments.agent, words=arguments.words, model=arguments.model, tell=ctx.out.note
        )
        code = _show_step(ctx, done)
        if code == INTERRUPTED:
            return ctx.out.done(acts.flow_done(ctx.app, done.seen.flow)) or code
        refused = done.concluded is not None and done.concluded.outcome.kind != "ok"
        if refused and ctx.out.person and ctx.out.can_ask and _wants_more(ctx, arguments, done):
            continue
        if not arguments.include_ended or done.seen.state != _RUNNING:
            return ctx.out.done(acts.flow_done(ctx.app, done.seen.flow)) or code


def _show_step(ctx: Context, done: StepResult) -> int:
    if done.concluded is None:
        return 0
    outcome = done.concluded.outcome
    if outcome.kind == "ok":
        unseen = done.phase in done.seen.flow.facts.get("untested", ())
        word, style = ("done, " + evidence.NOT_TESTED, "warn") if unseen else ("verified", "good")
        ctx.out.note(f"{done.phase}: {word} ({outcome.reason.partition(': ')[2] or outcome.reason})", style)
        # what is to be known about a phase that was let pass: tests it weakened, a check that was green before
        events = [event for event in flows.history(ctx.app, done.seen.flow) if event.kind == "flow.verified"]
        last = next((event for event in reversed(events) if event.body.get("phase") == done.phase), None)
        for warning in last.body.get("warnings", ()) if last is not None else ():
            ctx.out.warning(str(warning).partition(": ")[2] or str(warning))
        return 0
    if outcome.kind == "stopped":
        ctx.out.note(f"{done.phase}: stopped, {outcome.reason}. It can be taken again; no attempt is used up.")
        return INTERRUPTED
    if outcome.kind != "failed":
        ctx.out.note(f"{done.phase}: {end_sentence(outcome.why)} No attempt is used up. {outcome.fix}", "warn")
        return 1
    ctx.out.note(f"{done.phase}: refused", "bad")
    for line in outcome.reason.split("; "):
        ctx.out.note(f"  {line}")
    return 1


def _wants_more(ctx: Context, arguments: Namespace, done: StepResult) -> bool:
    """A person at the terminal decides what comes of a refused phase; True to take it once more."""
    seen = done.seen
    while True:
        answer = ctx.out.choose("[r]etry, [s]kip, [e]dit the prompt, open a s[h]ell, [q]uit?", "rsehq")
        if answer == "q":
            return False
        try:
            if answer == "s":
                admin.skip(ctx.app, flow=seen.flow, reason="a person skipped it")
                return False
            if seen.state == _BLOCKED:
                admin.retry(ctx.app, flow=seen.flow)
            if answer == "e":
                admin.edit(ctx.app, flow=seen.flow)
            if answer == "h":
                arguments.agent = flows.PERSON
        except (Refused, UserError) as error:
            ctx.out.error(error.message, error.hint)
            continue
        return True


# --- `handoff flow kinds`: workflows as data, listed, shown, checked and drawn

_KINDS_EPILOG = "Your own workflows are .handoff/workflows/NAME.toml: handoff help docs/howto/workflows.md"


def _kinds_arguments(parser: Parser) -> None:
    parser.add_argument(
        "names", nargs="*", metavar="WORKFLOW", help="a workflow by its name or file (default: list them)"
    )
    group = parser.add_mutually_exclusive_group()
    flag(group, "--check", "check it, or all; exit 1 and name every wrong line")
    flag(group, "--graph", "draw it as text")
    flag(group, "--toml", "print its file as it is, to copy and change")
    option(group, "--prompt PHASE", "print the words one phase is given")
    flag(parser, "--svg", "with --graph: print SVG")
    option(parser, "--output FILE", "with --graph: write the SVG to a file")


def _workflow(ctx: Context, arguments: Namespace) -> int:
    root = find_project(ctx.app).workspace
    if arguments.check:
        return _check(ctx, arguments, root)
    if (arguments.svg or arguments.output) and not arguments.graph:
        raise UsageError("--svg and --output go with --graph.", "Add --graph.")
    if not arguments.names and not (arguments.graph or arguments.toml or arguments.prompt):
        return _kinds_list(ctx, root)
    if len(arguments.names) != 1:
        raise UsageError("Name one workflow.", f"See the names: {ctx.settings.program} flow kinds")
    name = arguments.names[0]
    return _graph(ctx, arguments, name, root) if arguments.graph else _show(ctx, arguments, name, root)


def _kinds_list(ctx: Context, root: str) -> int:
    rows = []
    for place in library.listing(root):
        workflow, problems = library.inspect(root, place.name)
        rows.append(
            {
                "name": place.name,
                "title": workflow.title,
                "path": place.path,
                "packaged": place.packaged,
                "phases": [phase.name for phase in workflow.phases],
                "problems": len(problems),
            }
        )
    ctx.out.data(rows)
    for row in rows:
        said = (
            number_of(int(str(row["problems"])), "problem")
            if row["problems"]
            else "packaged"
            if row["packaged"]
            else "yours"
        )
        ctx.out.line(f"{row['name']:<16} {said:<11} {row['title']}", "warn" if row["problems"] else "")
    return 0


def _show(ctx: Context, arguments: Namespace, name: str, root: str) -> int:
    workflow = library.load(root, name)
    if arguments.toml:
        ctx.out.data({"name": workflow.name, "path": workflow.path, "text": workflow.text})
        ctx.out.line(workflow.text.rstrip("\n"))
        return 0
    if arguments.prompt:
        known = [phase.name for phase in workflow.phases]
        if arguments.prompt not in known:
            raise UsageError(f"'{workflow.name}' has no phase '{arguments.prompt}'.", f"It has: {', '.join(known)}.")
        phase = workflow.phase(arguments.prompt)
        ctx.out.data({"phase": phase.name, "told": list(phase.told), "prompt": phase.prompt, "file": phase.prompt_file})
        ctx.out.line(phase.prompt.rstrip("\n"))
        return 0
    values = workflow._asdict()
    ctx.out.data({**values, "phases": [phase._asdict() for phase in workflow.phases]})
    ctx.out.line(f"{workflow.name}: {workflow.title}", "title")
    ctx.out.line(f"  {workflow.path}; at most {number_of(workflow.max_cycles, 'cycle')}")
    for phase in workflow.phases:
        ctx.out.line()
        ctx.out.line(f"{phase.name}" + (f": {phase.title}" if phase.title else ""), "strong")
        for line in _facts(phase):
            ctx.out.line(f"  {line}")
    return 0


def _facts(phase: Phase) -> list[str]:
    lines = [f"role      {phase.role}" if phase.role else "role      none: the orchestrator does it"]
    lines.append(f"writes    {', '.join(phase.may_write)}")
    if phase.told:
        lines.append(f"facts     {', '.join(phase.told)}")
    lines.append(f"check     {phase.check}: {phase.command or CHECKS_MEANING[phase.check]}")
    if phase.commit:
        lines.append(f"commit    {phase.commit}: …")
    said = phase.next.items()
    lines.append("next      " + ", ".join(target if len(said) == 1 else f"{word} → {target}" for word, target in said))
    if phase.role:
        pauses = ", ".join(f"{one:g} s" for one in phase.back_off_seconds)
        lines.append(f"attempts  {phase.retries}, then {phase.when_used_up}" + (f"; pauses {pauses}" if pauses else ""))
    limits = [(phase.minutes, "minutes"), (phase.turns, "turns"), (phase.money, "USD")]
    if any(number for number, _ in limits):
        lines.append("limits    " + ", ".join(f"{number:g} {unit}" for number, unit in limits if number))
    if phase.gate:
        limit = f", within {age(phase.gate_within)}" if phase.gate_within else ""
        limit += f", else {phase.gate_default}" if phase.gate_default else ""
        lines.append(f"gate      a person says yes before it goes on{limit}")
    return lines


def _check(ctx: Context, arguments: Namespace, root: str) -> int:
    names = arguments.names or [place.name for place in library.listing(root)]
    found = {name: library.inspect(root, name) for name in names}
    ctx.out.data(
        {
            name: [{"path": p.path, "line": p.line, "fault": p.fault, "fix": p.fix} for p in problems]
            for name, (_, problems) in found.items()
        }
    )
    for name, (workflow, problems) in found.items():
        for problem in problems:
            ctx.out.line(f"{problem.path}:{problem.line}: {problem.fault} {problem.fix}".rstrip(), "bad")
        if not problems:
            ctx.out.line(f"{name}: {number_of(len(workflow.phases), 'phase')}, nothing wrong", "good")
    return 1 if any(problems for _, problems in found.values()) else 0


def _graph(ctx: Context, arguments: Namespace, name: str, root: str) -> int:
    workflow = library.load(root, name)
    if arguments.output:
        write_atomic(arguments.output, as_svg(workflow))
        ctx.out.data({"name": workflow.name, "file": arguments.output})
        ctx.out.line(f"Wrote {arguments.output}")
        return 0
    ctx.out.data({"name": workflow.name, "text": as_text(workflow), "svg": as_svg(workflow)})
    if arguments.svg:
        ctx.out.line(as_svg(workflow).rstrip("\n"))
    else:
        ctx.out.lines(*as_text(workflow))
    return 0


COMMANDS = {
    "flow": Command(_arguments, _flow, epilog=_EPILOG),
    "flow kinds": Command(_kinds_arguments, _workflow, epilog=_KINDS_EPILOG),
}

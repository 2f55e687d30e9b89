"""`handoff session start|list|attach|stop|resume|log` and `handoff task ask`."""

from __future__ import annotations

from handoff.agents import folder as folders
from handoff.agents.contract import OK, SessionLimits
from handoff.agents.monitor import ERRORS, EVENTS
from handoff.base.clock import age, span
from handoff.base.errors import INTERRUPTED, UsageError, UserError
from handoff.base.record import TYPE_CHECKING
from handoff.board.events import journal
from handoff.engine.app.home import find_project
from handoff.engine.place import pulse, transcripts
from handoff.engine.safety import incidents
from handoff.engine.session import current, placement
from handoff.engine.session import start as session_start
from handoff.engine.work import acts
from handoff.engine.work.act import refuse_sessions
from handoff.engine.work.tasks import requests
from handoff.surfaces.cli.command import Command, flag, option, optional_word, pick, project_option, read_source
from handoff.surfaces.cli.commands.agents.take import PLACES, TERMINAL, TMUX, own_terminal
from handoff.surfaces.vocabulary import said_line

if TYPE_CHECKING:
    from argparse import Namespace

    from handoff.engine.session.conclude import ConcludedSession
    from handoff.engine.session.start import StartRequest
    from handoff.surfaces.cli.command import Context, Parser

_SHOWN_PATHS = 20


def _session_arguments(parser: Parser) -> None:
    start = parser.verb(
        "start",
        "start an agent on a task and stay with it",
        "Start an agent on a task and stay with it until it is over.",
    )
    optional_word(start, "task", "TASK", "which task; the next ready one without it")
    option(start, "--agent NAME", "which agent: see `handoff agent list`", None, required=True)
    option(start, "--project NAME", "project (default: the name of this checkout)")
    option(start, "--model NAME", "the model its client is to use")
    text = "terminal: the client in this terminal, for you to work with; tmux: the same in a window of its own"
    option(start, "--in PLACE", text, dest="place", choices=PLACES)
    _limit_arguments(start)
    resume = parser.verb(
        "resume",
        "go on with a session's conversation",
        "Start the same agent on the same task again, with its old conversation.",
    )
    resume.add_argument("session", metavar="SESSION", help="which session")
    option(resume, "--say TEXT", "the first words of the resumed session")
    _limit_arguments(resume)
    attach = parser.verb(
        "attach",
        "take up a session whose supervisor is gone",
        "Stay with a running session whose supervisor is gone, until it is over.",
    )
    attach.add_argument("session", metavar="SESSION", help="which session")
    stop = parser.verb(
        "stop",
        "end a session; its task is free again",
        "End a session and everything it started, and see what comes of its task. That uses up no attempt.",
    )
    stop.add_argument("session", metavar="SESSION", help="which session")
    flag(stop, "--hold", "keep its task for a person: no agent starts it until you claim it or give it back")
    option(stop, "--reason TEXT", "why, for the journal")
    project_option(stop)
    log = parser.verb("log", "show what a session said", "Show what a session said and how it ended.")
    log.add_argument("session", metavar="SESSION", help="which session")
    flag(log, "--raw", "the client's own lines, as they came")
    text = "List the sessions at work in this project: those that hold a task, and those handoff has started."
    shown = parser.verb("list", "list the sessions that run", text)
    project_option(shown, every=True)
    text = "the sessions of this folder in the clients' own stores instead, also those that never heard of handoff"
    flag(shown, "--clients", text)


def _limit_arguments(parser: Parser) -> None:
    text = "keep the client inside its workspace, or inside what the task owns (default: the setting session_sandbox)"
    option(parser, "--sandbox", text, choices=placement.KINDS)
    text = "a clone of its own, or your checkout (default: the setting session_workspace)"
    option(parser, "--workspace", text, choices=(placement.CLONE, placement.SHARED))
    text = "one more word for the client (may be repeated); for the scripted agent its script"
    option(parser, "--with WORD", text, [], dest="words")
    option(parser, "--minutes N", "end it after so many minutes", 0.0)
    option(parser, "--turns N", "end it after so many turns", 0)
    option(parser, "--money USD", "end it when it has cost so much", 0.0)


def _session(ctx: Context, arguments: Namespace) -> int:
    verbs = {
        "start": _start,
        "resume": _resume,
        "attach": _attach,
        "stop": _stop,
        "log": _log,
        "list": _list,
    }
    return verbs[arguments.verb](ctx, arguments)


def _limits(arguments: Namespace) -> SessionLimits:
    for name in ("minutes", "turns", "money"):
        if getattr(arguments, name) < 0:
            raise UserError(f"--{name} cannot be below 0.", "Leave it out for no limit.")
    return SessionLimits(arguments.minutes, arguments.turns, arguments.money)


def _start(ctx: Context, arguments: Namespace) -> int:
    request = session_start.StartRequest(
        limits=_limits(arguments),
        words=tuple(arguments.words),
        terminal=bool(arguments.place),
        **pick(arguments, "agent task project model sandbox workspace"),
    )
    if request.terminal:
        if request.sandbox not in ("", placement.NONE):
            raise UsageError("A session in a terminal has no sandbox.", "Leave out --sandbox or --in.")
        request = request._replace(sandbox=placement.NONE)
    if arguments.place == TMUX:
        return _window(ctx, request)
    if not request.terminal:
        return _run(ctx, request)
    with own_terminal():
        return _run(ctx, request)


def _window(ctx: Context, request: StartRequest) -> int:
    """The same command in a window of its own: the session lives and dies with the window."""
    from handoff.engine.session.agents import client_of, own_words
    from handoff.engine.work.tasks.open_tab import open_window

    client_of(ctx.app, agent=request.agent)
    place = find_project(ctx.app, name=request.project)
    limits = [f"--{name}={value:g}" for name, value in request.limits._asdict().items() if value]
    words = ["session", "start", *([request.task] if request.task else []), f"--agent={request.agent}"]
    words += [f"--project={place.name}", f"--in={TERMINAL}", *([f"--model={request.model}"] if request.model else [])]
    words += [*limits, *(f"--with={word}" for word in request.words)]
    said = open_window(
        ctx.app,
        name=request.task or request.agent,
        folder=place.workspace,
        project=place.name,
        command=[f"HANDOFF_HOME={ctx.settings.home}", *own_words(), *words],
    )
    ctx.out.data({"task": request.task, "agent": request.agent, "said": said})
    ctx.out.line(said)
    ctx.out.note(f"How it goes: {ctx.settings.program} session list, session log ID")
    return 0


def _resume(ctx: Context, arguments: Namespace) -> int:
    if arguments.say:
        refuse_sessions(ctx.app, "says something to a session")
    request = session_start.resume_request(ctx.app, session=arguments.session, reason=arguments.say)
    request = request._replace(
        sandbox=arguments.sandbox or request.sandbox, workspace=arguments.workspace or request.workspace
    )
    return _run(ctx, request._replace(limits=_limits(arguments), words=tuple(arguments.words)))


def _run(ctx: Context, request: StartRequest) -> int:
    def began(started: session_start.RunningSession) -> None:
        if started.words:
            ctx.out.warning(started.words)
        ctx.out.note(
            f"Session {started.session.name} works on '{started.claim.task.label}'{transcripts.fence_in(started.folder)}. Its folder: {started.folder}"
        )

    return _tell(ctx, session_start.run(ctx.app, request=request, began=began, tell=ctx.out.note))


def _attach(ctx: Context, arguments: Namespace) -> int:
    started = session_start.attach(ctx.app, session=arguments.session)
    return _tell(ctx, session_start.watch(ctx.app, started, tell=ctx.out.note))


def _tell(ctx: Context, concluded: ConcludedSession) -> int:
    ctx.out.data(
        {
            "session": concluded.session,
            "outcome": concluded.outcome.kind,
            **pick(concluded.outcome, "reason until fix"),
            "task": concluded.task.label,
            "state": concluded.task.state,
            "outside": list(concluded.outside),
        }
    )
    ctx.out.line(concluded.words)
    if concluded.outcome.fix:
        ctx.out.line(concluded.outcome.fix, "warn")
    for path in concluded.outside[:_SHOWN_PATHS]:
        ctx.out.warning(f"changed outside of what the task owns: {path}")
    if len(concluded.outside) > _SHOWN_PATHS:
        ctx.out.warning(f"… and {len(concluded.outside) - _SHOWN_PATHS} more, all with --json")
    for one in incidents.of_session(ctx.app, session=concluded.session):
        ctx.out.warning(f"{one.what} To bring it back: {one.fix}" if one.fix else one.what)
    if concluded.outcome.reason == session_start.INTERRUPTED:
        return INTERRUPTED
    return 0 if concluded.outcome.kind == OK else 1


def _stop(ctx: Context, arguments: Namespace) -> int:
    return ctx.out.done(acts.stop(ctx.app, **pick(arguments, "session reason hold project")))


def _log(ctx: Context, arguments: Namespace) -> int:
    known, path = pulse.known_session(ctx.app, arguments.session)
    outcome = folders.get(path, folders.OUTCOME)
    lines = transcripts.transcript(ctx.app, session=arguments.session, raw=arguments.raw)
    key = folders.get(path, folders.FACTS).get("key", known.task)
    said = journal.said_to(known.id, journal.of_task(ctx.app.database, key=key) if key else [])
    told = {"lines": lines, "folder": path, "messages": [one._asdict() for one in said]}
    ctx.out.data({"session": known.id, "agent": known.agent, "outcome": outcome, **told})
    ctx.out.lines(*lines, *(said_line(one) for one in said))
    if outcome:
        why = f" ({outcome['reason']})" if outcome.get("reason") else ""
        ctx.out.line(f"It ended: {outcome['kind']}{why}.", "strong")
    ctx.out.note(f"Whole: {path}/{EVENTS}, {path}/{ERRORS}")
    return 0


def _list_clients(ctx: Context) -> int:
    """What `take` can take: client, id, age, state and how the person began."""
    from handoff.engine.work import take

    now = ctx.app.clock.now()
    found = take.sessions_here(ctx.app)
    project = find_project(ctx.app).name
    said = {
        one.id: journal.messages(journal.of_client(ctx.app.database, project=project, session=one.id)) for one in found
    }
    ctx.out.data(
        [{**take.list_row(one, now=now), "messages": [word._asdict() for word in said[one.id]]} for one in found]
    )
    for session in found:
        words = f"  {session.words[:80]}" if session.words else ""
        ctx.out.line(
            f"{session.client:<9} {session.id}  {age(now - session.at)} ago, {session.trouble or session.state}{words}"
        )
        ctx.out.lines(*(f"    {said_line(one)}" for one in said[session.id]))
    if not found:
        ctx.out.line("No client has a session of this folder.")
    return 0


def _list(ctx: Context, arguments: Namespace) -> int:
    if arguments.clients:
        return _list_clients(ctx)
    now = ctx.app.clock.now()
    project = "" if arguments.all_projects else find_project(ctx.app, name=arguments.project).name
    rows = transcripts.running(ctx.app, project=project)
    store = ctx.app.database
    said = {
        row.id: journal.said_to(row.id, journal.of_task(store, key=row.task) if row.task is not None else [])
        for row, _, _ in rows
    }
    ctx.out.data(
        [
            {**row._asdict(), "label": label, "alive": not ending, "messages": [one._asdict() for one in said[row.id]]}
            for row, label, ending in rows
        ]
    )
    for row, label, ending in rows:
        work = f" works on '{label}'" if label else ""
        seen = f"seen {age(now - row.seen_at)} ago{transcripts.fence_of(ctx.app, row)}"
        if ending:
            work = f" worked on '{label}'" if label else ""
            seen = "has ended, " + (
                f"and nobody looks after it: {ctx.settings.program} session stop {row.id}"
                if ending == pulse.LEFT
                else "its work is being judged"
            )
        ctx.out.line(
            f"{row.id}  {row.agent or row.kind}{work} in {row.project}, {age(now - row.started_at)} old, {seen}"
        )
        ctx.out.lines(*(f"    {said_line(one)}" for one in said[row.id]))
    if not rows:
        ctx.out.line(f"No session runs in project {project}." if project else "No session runs.")
    return 0


def _ask_arguments(parser: Parser) -> None:
    parser.add_argument(
        "question", metavar="QUESTION", help="what a person is to decide; they answer in their own words"
    )
    option(
        parser,
        "--choice TEXT",
        "an answer to choose from (may be repeated); any other text answers too",
        [],
        dest="choices",
    )
    option(parser, "--path PATH", "ask for a file that you do not own instead; QUESTION says why you need it")
    option(parser, "--from FILE", "a text they may change (- is standard input)", dest="source")
    option(parser, "--within TIME", "how long to wait: 30m, 2h, 1d (default: for ever)")
    option(parser, "--default ANSWER", "what counts when that time is up: yes, no or a choice", dest="fallback")
    option(parser, "--task TASK", "which task, when several are claimed here")
    option(parser, "--project NAME", "project (default: the name of this checkout)")
    option(parser, "--session ID", "your session (env: HANDOFF_SESSION)")
    option(parser, "--fence N", "your fence (env: HANDOFF_FENCE)", None, type=int)


def _ask(ctx: Context, arguments: Namespace) -> int:
    current_claim = current.find(ctx.app, **pick(arguments, "task project session fence"))
    if arguments.path:
        said = requests.request_path(ctx.app, current_claim, path=arguments.path, reason=arguments.question)
        ctx.out.data({"task": current_claim.task.label, "path": arguments.path, "said": said})
        ctx.out.line(said)
        return 0
    gate = requests.ask_human(
        ctx.app,
        current_claim,
        question=arguments.question,
        subject=read_source(arguments.source),
        choices=arguments.choices,
        within=span(arguments.within) if arguments.within else None,
        fallback=arguments.fallback,
    )
    ctx.out.data({"task": current_claim.task.label, "gate": gate.key, "question": gate.question})
    ctx.out.line(f"Task '{current_claim.task.label}' waits for a person. You hold it no longer: end your session here.")
    commands = gate.commands(current_claim.task.label)
    ctx.out.note("They answer with: " + ", or ".join(f"{ctx.settings.program} {one}" for one in commands))
    return 0


COMMANDS = {"session": Command(_session_arguments, _session), "task ask": Command(_ask_arguments, _ask)}

"""`handoff session start|list|attach|stop|resume|log` and `handoff ask`."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress

from handoff.agents import folder as folders
from handoff.agents.contract import OK, SessionLimits
from handoff.agents.monitor import ERRORS, EVENTS
from handoff.base.clock import age, span
from handoff.base.errors import UsageError, UserError
from handoff.base.record import TYPE_CHECKING
from handoff.engine.sessions import placement, policy, requests
from handoff.engine.sessions import start as session_start
from handoff.engine.tasks import current
from handoff.engine.workspaces import running, transcripts
from handoff.surfaces.cli.command import Command, common_options, read_source

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from handoff.engine.sessions.conclude import ConcludedSession
    from handoff.engine.sessions.start import StartRequest
    from handoff.surfaces.cli.command import Context, Parser

PLACES = TERMINAL, TMUX = ("terminal", "tmux")


def _session_arguments(parser: Parser) -> None:
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    start = verbs.add_parser(
        "start",
        help="start an agent on a task and stay with it",
        description="Start an agent on a task and stay with it until it is over.",
    )
    start.add_argument("task", nargs="?", default="", metavar="TASK", help="which task; the next ready one without it")
    start.add_argument("--agent", required=True, metavar="NAME", help="which agent: see `handoff agents`")
    start.add_argument("--project", default="", metavar="NAME", help="another project than the one of this folder")
    start.add_argument("--model", default="", metavar="NAME", help="the model the client is to use")
    start.add_argument(
        "--in",
        dest="place",
        choices=PLACES,
        default="",
        metavar="PLACE",
        help="terminal: the client in this terminal, for you to work with; tmux: the same in a window of its own",
    )
    _limit_arguments(start)
    resume = verbs.add_parser(
        "resume",
        help="go on with a session's conversation",
        description="Start the same agent on the same task again, with its old conversation.",
    )
    resume.add_argument("session", metavar="SESSION", help="which session")
    resume.add_argument("--say", default="", metavar="TEXT", help="what it is told first")
    _limit_arguments(resume)
    attach = verbs.add_parser(
        "attach",
        help="take up a session whose supervisor is gone",
        description="Stay with a running session whose supervisor is gone, until it is over.",
    )
    attach.add_argument("session", metavar="SESSION", help="which session")
    stop = verbs.add_parser(
        "stop", help="end a session; its task is free again", description="End a session and everything it started."
    )
    stop.add_argument("session", metavar="SESSION", help="which session")
    stop.add_argument("--reason", default="a person stopped it", metavar="TEXT", help="why, for the journal")
    log = verbs.add_parser(
        "log", help="show what a session said", description="Show what a session said and how it came out."
    )
    log.add_argument("session", metavar="SESSION", help="which session")
    log.add_argument("--raw", action="store_true", help="the client's own lines, as they came")
    listing = verbs.add_parser(
        "list", help="list the sessions that run", description="List the sessions that have not ended."
    )
    for verb in (start, resume, attach, stop, log, listing):
        common_options(verb, shows=True)


def _limit_arguments(parser: Parser) -> None:
    parser.add_argument(
        "--sandbox",
        choices=policy.KINDS,
        default="",
        help="keep the client inside its workspace, or inside what the task owns (default: the setting session_sandbox)",
    )
    parser.add_argument(
        "--workspace",
        choices=(placement.CLONE, placement.SHARED),
        default="",
        help="a clone of its own, or your checkout (default: the setting session_workspace)",
    )
    parser.add_argument(
        "--with",
        dest="words",
        action="append",
        default=[],
        metavar="WORD",
        help="one more word for the client (may be repeated); for the scripted agent its script",
    )
    parser.add_argument("--minutes", type=float, default=0.0, metavar="N", help="end it after so many minutes")
    parser.add_argument("--turns", type=int, default=0, metavar="N", help="end it after so many turns")
    parser.add_argument("--money", type=float, default=0.0, metavar="USD", help="end it when it has cost so much")


def _session(ctx: Context, arguments: Namespace) -> int:
    verbs = {"start": _start, "resume": _resume, "attach": _attach, "stop": _stop, "log": _log, "list": _list}
    return verbs[arguments.verb](ctx, arguments)


def _limits(arguments: Namespace) -> SessionLimits:
    for name in ("minutes", "turns", "money"):
        if getattr(arguments, name) < 0:
            raise UserError(f"--{name} cannot be below 0.", "Leave it out for no limit.")
    return SessionLimits(arguments.minutes, arguments.turns, arguments.money)


def _start(ctx: Context, arguments: Namespace) -> int:
    request = session_start.StartRequest(
        agent=arguments.agent,
        task=arguments.task,
        project=arguments.project,
        model=arguments.model,
        limits=_limits(arguments),
        words=tuple(arguments.words),
        sandbox=arguments.sandbox,
        workspace=arguments.workspace,
        terminal=bool(arguments.place),
    )
    if request.terminal:
        if request.sandbox not in ("", policy.NONE):
            raise UsageError("A session in a terminal has no sandbox.", "Leave out --sandbox or --in.")
        request = request._replace(sandbox=policy.NONE)
    if arguments.place == TMUX:
        return _window(ctx, request)
    if not request.terminal:
        return _run(ctx, request)
    with _own_terminal():
        return _run(ctx, request)


def _window(ctx: Context, request: StartRequest) -> int:
    """The same command in a window of its own: the session lives and dies with the window."""
    from handoff.engine.home import find_project
    from handoff.engine.sessions.agent_programs import client_of, own_words
    from handoff.engine.tasks.open_tab import open_window

    client_of(ctx.app, agent=request.agent)
    place = find_project(ctx.app, name=request.project)
    limits = [f"--{name}={value:g}" for name, value in request.limits._asdict().items() if value]
    words = [
        "session", "start", *([request.task] if request.task else []), "--agent", request.agent, "--project", place.name, "--in",
        TERMINAL, *(["--model", request.model] if request.model else []), *limits, *(f"--with={word}" for word in request.words),
    ]  # fmt: skip
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


@contextmanager
def _own_terminal() -> Iterator[None]:
    """The client has the terminal: what is typed is for it alone, a closed window still concludes the task, and the terminal
    is left as it was found."""
    import signal
    import termios

    if not (os.isatty(0) and os.isatty(1)):
        raise UserError(
            "A session in a terminal needs one.", "Start it in a terminal, use --in tmux, or leave out --in."
        )

    def closed(*_: object) -> None:
        signal.signal(signal.SIGHUP, lambda *_: None)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nowhere, stream)
        raise KeyboardInterrupt

    was = termios.tcgetattr(0)
    for number in (signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, lambda *_: None)
    signal.signal(signal.SIGHUP, closed)
    try:
        yield
    finally:
        with suppress(termios.error):
            termios.tcsetattr(0, termios.TCSADRAIN, was)


def _resume(ctx: Context, arguments: Namespace) -> int:
    request = session_start.resume_request(ctx.app, session=arguments.session, reason=arguments.say)
    request = request._replace(
        sandbox=arguments.sandbox or request.sandbox, workspace=arguments.workspace or request.workspace
    )
    return _run(ctx, request._replace(limits=_limits(arguments), words=tuple(arguments.words)))


def _run(ctx: Context, request: StartRequest) -> int:
    started = session_start.start(ctx.app, request=request)
    if started.words:
        ctx.out.warning(started.words)
    ctx.out.note(
        f"Session {started.session.name} works on '{started.claim.task.label}'{transcripts.fence_in(started.folder)}. Its folder: {started.folder}"
    )
    return _until_over(ctx, started)


def _attach(ctx: Context, arguments: Namespace) -> int:
    return _until_over(ctx, session_start.attach(ctx.app, session=arguments.session))


def _until_over(ctx: Context, started: session_start.RunningSession) -> int:
    try:
        concluded = session_start.watch(ctx.app, started)
    except KeyboardInterrupt:
        if started.session.rules.attended:
            running.stop(ctx.app, session=started.session.name, reason="the terminal was closed")
        else:
            started.session.stop("interrupted")
        concluded = session_start.watch(ctx.app, started)
    return _tell(ctx, concluded)


def _tell(ctx: Context, concluded: ConcludedSession) -> int:
    ctx.out.data(
        {
            "session": concluded.session,
            "outcome": concluded.outcome.kind,
            "reason": concluded.outcome.reason,
            "until": concluded.outcome.until,
            "task": concluded.task.label,
            "state": concluded.task.state,
            "outside": list(concluded.outside),
        }
    )
    ctx.out.line(concluded.words)
    for path in concluded.outside[:20]:
        ctx.out.warning(f"changed outside of what the task owns: {path}")
    return 0 if concluded.outcome.kind == OK else 1


def _stop(ctx: Context, arguments: Namespace) -> int:
    stopped = running.stop(ctx.app, session=arguments.session, reason=arguments.reason)
    ctx.out.data({"session": arguments.session, "stopped": stopped})
    ctx.out.line("It is being ended." if stopped else "It was over already.")
    return 0


def _log(ctx: Context, arguments: Namespace) -> int:
    known, path = transcripts.known_session(ctx.app, arguments.session)
    outcome = folders.get(path, folders.OUTCOME)
    lines = transcripts.transcript(ctx.app, session=arguments.session, raw=arguments.raw)
    ctx.out.data({"session": known.id, "agent": known.agent, "outcome": outcome, "lines": lines, "folder": path})
    ctx.out.lines(*lines)
    if outcome:
        why = f" ({outcome['reason']})" if outcome.get("reason") else ""
        ctx.out.line(f"It came out {outcome['kind']}{why}.", "strong")
    ctx.out.note(f"Whole: {path}/{EVENTS}, {path}/{ERRORS}")
    return 0


def _list(ctx: Context, arguments: Namespace) -> int:
    del arguments
    now = ctx.app.clock.now()
    rows = transcripts.running(ctx.app)
    ctx.out.data([row._asdict() for row in rows])
    for row in rows:
        what = row.agent or row.kind
        ctx.out.line(
            f"{row.id}  {what} in {row.project}, {age(now - row.started_at)} old, seen {age(now - row.seen_at)} ago"
            f"{transcripts.fence_of(ctx.app, row)}"
        )
    if not rows:
        ctx.out.line("No session runs.")
    return 0


def _ask_arguments(parser: Parser) -> None:
    parser.add_argument("question", metavar="QUESTION", help="what a person is to decide; they say yes, no or edit")
    parser.add_argument(
        "--from", dest="source", metavar="FILE", default="", help="a text they may change (- is standard input)"
    )
    parser.add_argument(
        "--within", metavar="TIME", default="", help="how long to wait: 30m, 2h, 1d (default: for ever)"
    )
    parser.add_argument(
        "--default", dest="fallback", choices=("yes", "no"), default="", help="what counts when that time is up"
    )
    parser.add_argument("--task", default="", metavar="TASK", help="which task, when several are claimed here")
    parser.add_argument("--project", default="", metavar="NAME", help="another project than the one of this folder")
    parser.add_argument("--session", default="", metavar="ID", help="your session (env: HANDOFF_SESSION)")
    parser.add_argument("--fence", type=int, default=None, metavar="N", help="your fence (env: HANDOFF_FENCE)")


def _ask(ctx: Context, arguments: Namespace) -> int:
    current_claim = current.find(
        ctx.app, task=arguments.task, project=arguments.project, session=arguments.session, fence=arguments.fence
    )
    gate = requests.ask_human(
        ctx.app,
        current_claim,
        question=arguments.question,
        subject=read_source(arguments.source),
        within=span(arguments.within) if arguments.within else None,
        fallback=arguments.fallback,
    )
    ctx.out.data({"task": current_claim.task.label, "gate": gate.key, "question": gate.question})
    ctx.out.line(f"Task '{current_claim.task.label}' waits for a person. You hold it no longer: end your session here.")
    ctx.out.note(
        f"They answer with: {ctx.settings.program} approve {current_claim.task.label} [--edit], or reject {current_claim.task.label} REASON"
    )
    return 0


COMMANDS = {"session": Command(_session_arguments, _session), "ask": Command(_ask_arguments, _ask)}

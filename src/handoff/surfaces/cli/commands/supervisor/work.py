"""`work`: the supervisor in the foreground, in the background, asked how it is, or told to stop."""

from __future__ import annotations

import signal
import threading

from handoff.base.clock import stamp
from handoff.base.errors import UsageError, UserError
from handoff.base.record import TYPE_CHECKING
from handoff.board.tasks.tasks import LANDING
from handoff.engine.app import App
from handoff.engine.app.home import find_project, home_config, set_in_home
from handoff.engine.supervisor import service, watchdog
from handoff.engine.supervisor.news import calls
from handoff.engine.work import workers
from handoff.surfaces.cli.command import Command, flag, option, pick
from handoff.surfaces.cli.commands.board.board import made

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from typing import Any, NoReturn

    from handoff.engine.supervisor.service import ServiceStep
    from handoff.engine.work.workers import WorkerSettings
    from handoff.surfaces.cli.command import Context, Parser
    from handoff.surfaces.cli.commands.board.view import BoardApp

    Work = Callable[[Callable[[str], None], Callable[[Any], None], App], str]

EXAMPLES = """examples:
  handoff work --agent claude            claim what is ready in this project and run it, until Ctrl-C
  handoff work --agent claude --until-done    the same until nothing is left to do, for scripts and nights
  handoff work --agent claude --all-projects    the same for every project of this machine
  handoff work --agent claude --detach   the same in the background
  handoff work --agent claude --in-checkout    in your own checkout instead of clones behind the sandbox
  handoff work --agent codex --labels gpu    also take tasks that demand a host with the label gpu
  handoff work --status                  who works, on what
  handoff work --stop                    end the supervisors of this machine; agents go on
  handoff work --stop --drain            the same, after what runs has ended
"""


def _arguments(parser: Parser) -> None:
    what = parser.add_mutually_exclusive_group()
    flag(what, "--detach", "work in the background; the log is in the home")
    flag(what, "--stop", "end the supervisors of this machine; their agents go on")
    flag(what, "--status", "show the supervisors and what runs")
    flag(parser, "--plain", "one line for each thing that happens, also where the board could be shown")
    flag(parser, "--drain", "start nothing more and end when what runs has ended")
    option(parser, "--until BATCH", "end when this batch is over")
    flag(
        parser,
        "--until-done",
        "end when nothing runs and nothing more can start by itself; exit 1 where something waits for you",
    )
    worker_arguments(parser)


def worker_arguments(parser: Parser) -> None:
    """What a supervisor starts sessions with; `install` writes the same down for a service."""
    text = "agent to start sessions with (may be repeated); NAME=2 for at most two of them at once"
    option(parser, "--agent NAME", text, [])
    option(parser, "--max N", "most sessions at once on this machine", 0)
    option(parser, "--project NAME", "serve this project alone (default: the one this checkout belongs to)")
    flag(parser, "--all-projects", "serve every project of this machine")
    flag(parser, "--in-checkout", "let sessions work in your own checkout instead of clones behind the sandbox")
    option(parser, "--labels NAME,…", "what this machine has besides, for tasks that demand it: gpu,macos")
    parser.add_argument(
        "words", nargs="*", metavar="-- WORD", help="words for every agent; {task} is the task, a part as BATCH/PART"
    )


def check_words(ctx: Context, arguments: argparse.Namespace) -> None:
    """What can be said to be wrong before anything is imported that takes long."""
    if arguments.max < 0:
        raise UserError(f"--max must be at least 1, not {arguments.max}.", "Leave it out for the configured limit.")
    if not arguments.agent:
        raise UserError("Say which agent works.", f"For example: {ctx.settings.program} work --agent claude")
    if arguments.project and arguments.all_projects:
        raise UsageError("Say --project or --all-projects, not both.", f"See: {ctx.settings.program} work --help")


def worker_settings_of(
    ctx: Context, arguments: argparse.Namespace, *, project: str, until: str = "", until_done: bool = False
) -> WorkerSettings:
    """The workers the options name, checked before anything is started or written."""
    from handoff.engine.work import workers

    check_words(ctx, arguments)
    said = {"agents": arguments.agent, "words": arguments.words, "labels": arguments.labels, "until_done": until_done}
    return workers.worker_settings(ctx.app, **said, project=project, in_checkout=arguments.in_checkout, until=until)


def _work(ctx: Context, arguments: argparse.Namespace) -> int:
    if arguments.status:
        return _status(ctx, arguments.project)
    if arguments.stop:
        return _stop(ctx, drain=arguments.drain)
    check_words(ctx, arguments)
    if arguments.until and arguments.all_projects:
        raise UsageError("--until names a batch of one project.", "Leave out --all-projects.")
    project = "" if arguments.all_projects else find_project(ctx.app, name=arguments.project).name
    if arguments.detach:
        from handoff.engine.work import acts

        _warn_of_listeners(ctx)
        asked = pick(arguments, "agent labels in_checkout until until_done drain")
        return ctx.out.done(acts.work(ctx.app, *arguments.words, limit=arguments.max, **asked, project=project))
    _announce(ctx, arguments, project)
    worker_settings = worker_settings_of(
        ctx, arguments, project=project, until=arguments.until, until_done=arguments.until_done
    )
    _warn_of_listeners(ctx)
    return _run(ctx, arguments, worker_settings)


def _ask_once(ctx: Context, project: str) -> None:
    """Before anything lands for the first time: whether the person wants to look at it before."""
    config = home_config(ctx.app)
    if ctx.out.json_wanted or not ctx.out.can_ask or LANDING in config.said:
        return
    if project not in config.values["landing_project"]:
        from handoff.surfaces.cli.commands.agents.setup import ask_landing

        ctx.out.line(set_in_home(ctx.app, LANDING, ask_landing(ctx)))


def _announce(ctx: Context, arguments: argparse.Namespace, project: str) -> None:
    """At once, because what follows takes a moment to load: what is going to happen, and how it ends; nothing where it cannot begin."""
    from handoff.engine.work import workers

    workers.name_workers(ctx.app, arguments.agent, project=project, until=arguments.until)
    if not arguments.drain:
        _ask_once(ctx, project)
    scope = f"project {project}" if project else "every project of this machine"
    what = "Seeing off what runs" if arguments.drain else "Working"
    text = f"{what} for {scope} with {', '.join(arguments.agent)}. Ctrl-C ends this supervisor; its agents go on."
    ctx.out.data({"at": stamp(ctx.app.clock.now()), "text": text})
    ctx.out.line(text)


def _warn_of_listeners(ctx: Context) -> None:
    from handoff.engine.supervisor import database
    from handoff.surfaces.cli.commands.supervisor.database import tell_weakness

    weakness = database.look(ctx.app).weakness
    if weakness:
        tell_weakness(ctx, weakness)


def _run(ctx: Context, arguments: argparse.Namespace, worker_settings: WorkerSettings) -> NoReturn:
    from handoff.engine.supervisor.supervisor import leave_on_signals, leave_process, run_supervisor
    from handoff.engine.work import workers
    from handoff.surfaces.cli.commands.board.board import can_show
    from handoff.surfaces.mcp import http
    from handoff.surfaces.page import serving

    def work(tell: Callable[[str], None], begin: Callable[[Any], None], app: App) -> str:
        http.start_beside(ctx.settings, tell=tell)
        serving.start_beside(ctx.settings, project=worker_settings.project, tell=tell)
        return run_supervisor(app, worker_settings, limit=arguments.max, drain=arguments.drain, tell=tell, begin=begin)

    if can_show(ctx) and not arguments.plain:
        last = on_board(ctx, worker_settings.project, work)
    else:
        last = work(teller(ctx), leave_on_signals, ctx.app)
    teller(ctx)(last)
    if arguments.until_done or arguments.until:
        ctx.out.ring(ctx.app, last)
    leave_process(int(arguments.until_done and workers.is_stuck(ctx.app, worker_settings.project)))


def _stop(ctx: Context, *, drain: bool) -> int:
    from handoff.engine.work import workers

    stopped = workers.stop(ctx.app, drain=drain)
    going = [] if drain else workers.conclude_left(ctx.app, tell=ctx.out.note)
    ctx.out.data({"stopped": stopped, "going_on": going})
    for name in stopped:
        ctx.out.line(f"Supervisor {name} {'ends when what runs has ended' if drain else 'has ended'}.")
    if not stopped:
        ctx.out.line("No supervisor works on this machine.")
    for name in going:
        ctx.out.line(f"{name} goes on; end it: {ctx.settings.program} session stop {name}")
    return 0


def _status(ctx: Context, project: str) -> int:
    from handoff.engine.work import overview, workers
    from handoff.surfaces.cli.commands.tasks.board import AGENT, hold_data, tell_agents, words_of

    project = find_project(ctx.app, name=project).name if project else ""
    found = workers.status(ctx.app, project=project)
    ctx.out.data(
        found._asdict()
        | {"running": [task._asdict() for task in found.running], "unserved": [one._asdict() for one in found.unserved]}
        | {"holds": [hold_data(one) for one in found.holds]}
    )
    for one in found.supervisors:
        has = ", ".join([*one["agents"], *(f"label {name}" for name in one["labels"])])
        scope = f"project {one['project']}" if one["project"] else "every project"
        ctx.out.line(f"{one['id']}  {one['state']}, since {one['age']}, for {scope}" + (f"; has {has}" if has else ""))
    if not found.supervisors:
        ctx.out.line(f"No supervisor works. Start one: {ctx.settings.program} work --agent NAME")
    standing = overview.standing(ctx.app, [task.key for task in found.running])
    over = [key for key, item in standing.items() if item.look == overview.ENDED]
    for task in found.running:
        who = f"{task.held_agent or 'a session'} on {task.held_host}, fence {task.fence}"
        who = words_of(standing[task.key]) if task.key in over else who
        ctx.out.line(f"  {task.project}/{task.label}: {who}")
    running, where = len(found.running) - len(over), f" in project {project}" if project else ""
    ctx.out.line(f"{found.ready} ready, {running} running, {found.gates} waiting for your answer{where}.")
    if found.plan:
        ctx.out.line(f"Plan of {found.plan['feature']}: {found.plan['done']} of {found.plan['total']} steps done.")
    for stop in found.stops:
        ctx.out.line(f"Paused: {stop}")
    tell_agents(ctx, found.holds)
    waiting = sum(held.kind != AGENT for held in found.holds)
    if waiting:
        ctx.out.line(f"{waiting} of the ready cannot begin here yet, see why: {ctx.settings.program} task list", "warn")
    for trouble in found.unpublished:
        ctx.out.line(f"Not pushed yet: {trouble}", "warn")
    if found.spent_up:
        ctx.out.line(f"Nothing is started: {found.spent_up}.", "warn")
    for lacking in found.unserved:
        ctx.out.line(
            f"Nobody can take {lacking.project}/{lacking.task} yet: no supervisor runs with {lacking.words}.", "warn"
        )
    return 0


# --- `setup service install|remove`: the supervisor or the watchdog, run by the person's own system

_EPILOG = """examples:
  handoff setup service install                              the watchdog, every minute
  handoff setup service install work --agent claude --max 4  a supervisor, from log-in on and again after a fault
  handoff work --status                                      what it does
  handoff work --stop                                        end it until the next log-in; agents go on
  handoff setup service remove work                          remove what install wrote
"""


def _service_arguments(parser: Parser) -> None:
    install = parser.verb("install", "write the service's files and switch it on", "Let your system run it.")
    remove = parser.verb("remove", "switch it off and remove its files", "Let your system run it no longer.")
    text = "what it is about: the watchdog's timer (default) or the supervisor"
    for verb in (install, remove):
        verb.add_argument("what", nargs="?", choices=(service.WATCHDOG, service.WORK), default="watchdog", help=text)
    text = "the watchdog also opens a tab by itself when a task becomes ready (it asks if you leave it out)"
    flag(install, "--auto-open", text)
    worker_arguments(install)


def _service(ctx: Context, arguments: argparse.Namespace) -> int:
    steps = _install(ctx, arguments) if arguments.verb == "install" else _remove(ctx, arguments)
    ctx.out.data([step._asdict() for step in steps])
    for step in steps:
        ctx.out.line(step.words, "" if step.done else "warn")
    return 0 if all(step.done for step in steps) else 1


def _install(ctx: Context, arguments: argparse.Namespace) -> list[ServiceStep]:
    if arguments.what == service.WATCHDOG:
        if arguments.agent or arguments.max or arguments.labels or arguments.words:
            fix = f"{ctx.settings.program} setup service install work …"
            raise UsageError("The watchdog has no agents.", f"Did you mean: {fix}?")
        return service.install_watchdog(ctx.app, opening=_choose_auto_open(ctx, arguments))
    # A machine has one such service, so it serves every project unless one is named.
    words = workers.words_of(worker_settings_of(ctx, arguments, project=arguments.project), limit=arguments.max)
    return service.install(ctx.app, service.supervisor(words))


def _remove(ctx: Context, arguments: argparse.Namespace) -> list[ServiceStep]:
    if arguments.what == service.WATCHDOG:
        return service.uninstall_watchdog(ctx.app)
    return service.uninstall(ctx.app, service.supervisor())


def _choose_auto_open(ctx: Context, arguments: argparse.Namespace) -> bool:
    """Whether tabs open by themselves: as it is set, else as the person says; asked once."""
    if watchdog.tabs_are_wanted(ctx.app):
        return True
    question = "Open a tab by itself when a task becomes ready (editor, tmux or terminal)?"
    if not (arguments.auto_open or ctx.out.ask(question)):
        return False
    ctx.out.line(service.set_auto_open(ctx.app))
    return True


COMMANDS = {
    "work": Command(_arguments, _work, epilog=EXAMPLES),
    "setup service": Command(_service_arguments, _service, epilog=_EPILOG),
}


# --- What a person sees while the supervisor works: the board on a terminal, plain lines everywhere else

_NOBODY = "The supervisor ended before it began."


def teller(ctx: Context) -> Callable[[str], None]:
    """One plain line for each thing; one object for each under --json."""

    def line(text: str) -> None:
        if ctx.out.json_wanted:
            ctx.out.data({"at": stamp(ctx.app.clock.now()), "text": text})
        else:
            ctx.out.line(f"{stamp(ctx.app.clock.now())} {text}")
            if calls(text):
                ctx.out.ring(ctx.app, text)

    return line


def on_board(ctx: Context, project: str, work: Work) -> str:
    """The supervisor in a thread of its own and the board before it; what was told last is the answer.

    Whoever leaves the board lets the supervisor leave too, and the board stays until it has; agents go on.
    """
    board = made(ctx, project)
    supervisor = _Worker(ctx, board, work)
    board.leaving = supervisor.leave
    signal.signal(signal.SIGUSR1, lambda *_: supervisor.drain())
    supervisor.start()
    board.run()
    supervisor.leave()
    supervisor.join()
    if supervisor.fault is not None:
        raise supervisor.fault
    return supervisor.last


class _Worker(threading.Thread):
    """The supervisor behind the board. Its rows are its own: a database belongs to the thread that opened it."""

    def __init__(self, ctx: Context, board: BoardApp, work: Work) -> None:
        super().__init__(name="supervisor", daemon=True)
        self._settings, self._board, self._work = ctx.settings, board, work
        self._supervisor: Any = None
        self._left = threading.Event()
        self.last = _NOBODY
        self.fault: BaseException | None = None

    def run(self) -> None:
        try:
            self.last = self._work(self._tell, self._begin, App(self._settings))
        except BaseException as fault:  # noqa: BLE001 - told by the thread that speaks to the person
            self.fault = fault
        finally:
            self._board.leaving = None
            self._board.over = True

    def _begin(self, supervisor: Any) -> None:
        self._supervisor = supervisor
        if self._left.is_set():
            supervisor.leave()

    def _tell(self, text: str) -> None:
        self._board.state.tell(text)

    def leave(self) -> None:
        self._left.set()
        if self._supervisor is not None:
            self._supervisor.leave()

    def drain(self) -> None:
        if self._supervisor is not None:
            self._supervisor.drain()

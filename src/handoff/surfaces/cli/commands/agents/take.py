"""`handoff take`: a task that agents work on, or the newest session of this folder in any client's own store, taken over."""

from __future__ import annotations

import os
import signal
import termios
from contextlib import contextmanager, suppress

from handoff.agents.catalog import BY_HAND
from handoff.agents.history.stores.table import STORES
from handoff.base.errors import UsageError, UserError
from handoff.base.markdown import number_of, shell_line
from handoff.base.process import pass_through
from handoff.base.record import TYPE_CHECKING
from handoff.engine.work import take
from handoff.surfaces.cli.command import Command, flag, option, optional_word, project_option

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from handoff.board.tasks.tasks import Task
    from handoff.engine.work.act import ActDone
    from handoff.engine.work.take import Start, TakenSession
    from handoff.surfaces.cli.command import Context, Parser

PLACES = TERMINAL, TMUX = ("terminal", "tmux")
"""Where a client that a person works with opens: this terminal, which it has for itself meanwhile, or a window of tmux."""
_EPILOG = (
    "Of a client's session nothing is written, unless --feature NAME or --task ID keeps it: neither to the repository nor to the client's store."
    " Which sessions there are: handoff session list --clients. A task that you took goes back to the agents with `task release` or `retry`."
)


def _arguments(parser: Parser) -> None:
    optional_word(
        parser,
        "what",
        "WHAT",
        "a task or session of handoff's: it is stopped, and yours; else a client, or the id of one of its sessions (the beginning"
        " is enough); default: the newest session of this folder",
    )
    option(
        parser,
        "--to AGENT",
        "a task: this agent goes on with the work so far; else start this client with the text as its first prompt, or let the"
        " same client continue its own session",
    )
    option(parser, "--budget TOKENS", "estimated tokens that the text may have (default: 2000)", None, type=int)
    option(parser, "--task ID", "keep it as a task with the text as its brief")
    flag(parser, "--copy", "also put the text on the clipboard; it is printed in any case")
    flag(parser, "--raw", "print the text alone on standard output")
    flag(parser, "--yes", "do not ask before the text leaves for another vendor")
    option(
        parser,
        "--in PLACE",
        "where the client, or the conversation of a task, opens: terminal (this one, the default) or tmux",
        dest="place",
        choices=PLACES,
    )
    option(parser, "--with WORD", "one more word for the client (may be repeated)", [], dest="words")
    project_option(parser)


def _take(ctx: Context, arguments: Namespace) -> int:
    if arguments.what and arguments.what not in STORES:
        from handoff.engine.work import stopping

        task = stopping.task_meant(ctx.app, arguments.what, project=arguments.project)
        if task is not None:
            return _take_task(ctx, arguments, task)
    if arguments.budget is not None and arguments.budget <= 0:
        raise UsageError("--budget takes a number above 0.", "For example: --budget 4000")
    taken = take.take(ctx.app, what=arguments.what, tokens=arguments.budget or take.TOKENS)
    for warning in taken.warnings:
        ctx.out.warning(warning)
    if arguments.to:
        return _hand_to(ctx, arguments, taken)
    ctx.out.data(_facts(taken))
    if _feature(arguments) or arguments.task:
        return _keep(ctx, arguments, taken)
    _show(ctx, taken, raw=arguments.raw)
    if arguments.copy:
        from handoff.engine.work.tasks import open_tab

        way = open_tab.to_clipboard(ctx.app, taken.text)
        if way:
            ctx.out.note(way, "good")
        else:
            ctx.out.warning("the text was not copied: no clipboard was found. It is printed above.")
    return 0


def _feature(arguments: Namespace) -> str:
    """The option of every command names the feature to use; here it is the one that keeps the session."""
    return str(getattr(arguments, "feature", ""))


def _facts(taken: TakenSession) -> dict[str, object]:
    session, known = taken.session, taken.facts
    return {"client": session.client, "session": session.id, "state": session.state, "path": session.path, "text": taken.text, "facts": known._asdict(),
            "warnings": list(taken.warnings)}  # fmt: skip


def _show(ctx: Context, taken: TakenSession, *, raw: bool) -> None:
    if ctx.out.json_wanted:
        return
    if not raw:
        session = taken.session
        ctx.out.line(f"{BY_HAND[session.client].title}, session {session.id} ({session.state})", "title")
        ctx.out.line(f"- {take.contents(taken) or 'nobody wrote in it'}")
        ctx.out.line("- paste everything below into a new session of another assistant, or use --to AGENT")
        ctx.out.line()
    ctx.out.raw(taken.text)


def _hand_to(ctx: Context, arguments: Namespace, taken: TakenSession) -> int:
    terminal = arguments.place == TMUX or (os.isatty(0) and os.isatty(1))
    start = take.plan_start(ctx.app, taken, agent=arguments.to, words=tuple(arguments.words), terminal=terminal)
    if not start.native and not _may_leave(ctx, arguments, taken, start):
        ctx.out.note("Nothing was sent.")
        return 1
    ctx.out.data({**_facts(taken), "to": start.agent, "command": start.argv, "native": start.native})
    if arguments.place == TMUX:
        from handoff.engine.work.tasks.open_tab import open_window

        folder = taken.session.folder
        ctx.out.line(
            open_window(ctx.app, name=start.agent, folder=folder, project=os.path.basename(folder), command=start.argv)
        )
        return 0
    if start.native and not terminal:
        ctx.out.line(f"It goes on where it stopped, in a terminal: {shell_line(start.argv)}")
        return 0
    return pass_through(start.argv, environment=ctx.settings.environment)


def _may_leave(ctx: Context, arguments: Namespace, taken: TakenSession, start: Start) -> bool:
    """What leaves is shown, and one question is asked: it is one vendor's conversation that goes to another."""
    from_whom = BY_HAND[taken.session.client].title
    ctx.out.note(
        f"From {from_whom} to {start.title}: {take.contents(taken)}; {number_of(len(taken.text), 'character')}. Secrets were taken out."
    )
    if arguments.yes:
        return True
    if not ctx.out.can_ask:
        raise UsageError(
            "Nobody is there to be asked whether this may leave.", "Read it first (handoff take), then add --yes."
        )
    ctx.out.note(taken.text)
    return ctx.out.ask(f"Send this to {start.title}?")


def _keep(ctx: Context, arguments: Namespace, taken: TakenSession) -> int:
    for line in take.keep(
        ctx.app,
        taken.facts,
        taken.text,
        feature=_feature(arguments),
        task=arguments.task,
        ask=ctx.out.ask,
        warn=ctx.out.warning,
    ):
        ctx.out.line(line)
    return 0


# --- the terminal, for a client that a person works with


@contextmanager
def own_terminal() -> Iterator[None]:
    """The client has the terminal: what is typed is for it alone, a closed window still concludes the task, and the terminal
    is left as it was found."""
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


# --- a task: its agent is stopped, and it is the person's or another agent's


def _take_task(ctx: Context, arguments: Namespace, task: Task) -> int:
    """The agent's session is stopped, and its task is the person's or another agent's."""
    for name in ("budget", "task", "copy", "raw"):
        if getattr(arguments, name):
            raise UsageError(
                f"--{name} is for the text of a client's session.", f"Leave it out to take '{task.label}'."
            )
    from handoff.engine.work import acts
    from handoff.engine.work.act import refuse_sessions

    refuse_sessions(ctx.app, "takes a task over")
    if arguments.place == TMUX and not arguments.to:
        return _in_window(ctx, task)
    if arguments.to:
        return ctx.out.done(acts.hand_on(ctx.app, task, agent=arguments.to))
    done = acts.take(ctx.app, task)
    code = ctx.out.done(done)
    return _drive(ctx, done) if os.isatty(0) and os.isatty(1) and not ctx.out.json_wanted else code


def _in_window(ctx: Context, task: Task) -> int:
    """The same command in a window of its own: there the conversation opens, and the task goes back when it is left."""
    from handoff.engine.session.agents import own_words
    from handoff.engine.work import stopping
    from handoff.engine.work.tasks.open_tab import open_window

    stopping.refuse_untakable(ctx.app, task)
    again = [f"HANDOFF_HOME={ctx.settings.home}", *own_words(), "take", task.label, f"--project={task.project}"]
    said = open_window(ctx.app, name=task.label, folder=task.workspace, project=task.project, command=again)
    ctx.out.data({"task": task.label, "project": task.project, "said": said})
    ctx.out.line(said)
    return 0


def _drive(ctx: Context, done: ActDone) -> int:
    """The client's own conversation, or a shell, where the work lies; when the person leaves it, the task goes back."""
    from handoff.engine.work import stopping

    (task,) = done.tasks
    argv = done.facts["command"] or [ctx.settings.get("SHELL") or "/bin/sh"]
    ours = {"HANDOFF_SESSION": task.held_by or "", "HANDOFF_FENCE": str(task.fence), "HANDOFF_PROJECT": task.project}
    name = next(word for word in argv if word != "env" and "=" not in word)
    ctx.out.note(f"{os.path.basename(name)} opens there. When you leave it, the task goes back to the agents.")
    with own_terminal(), suppress(KeyboardInterrupt):
        pass_through(argv, environment={**ctx.settings.environment, **ours}, cwd=done.facts["folder"])
    task = stopping.give_back(ctx.app, task)
    ctx.out.line(f"Task '{task.label}' is {task.state}.")
    return 0


COMMANDS = {"take": Command(_arguments, _take, epilog=_EPILOG)}

"""The half of `handoff take` that is about a task: its agent is stopped, and the task is the person's or another agent's."""

from __future__ import annotations

import os
from contextlib import suppress

from handoff.base.errors import UsageError
from handoff.base.process import pass_through
from handoff.base.record import TYPE_CHECKING
from handoff.engine.session.agent_programs import own_words
from handoff.engine.work import acts, stopping
from handoff.engine.work.act import refuse_sessions
from handoff.engine.work.tasks.open_tab import open_window
from handoff.surfaces.cli.commands.agents.terminal import TMUX, own_terminal

if TYPE_CHECKING:
    from argparse import Namespace

    from handoff.board.tasks.tasks import Task
    from handoff.engine.work.act import ActDone
    from handoff.surfaces.cli.command import Context


def take_meant(ctx: Context, arguments: Namespace) -> int | None:
    """Take the task that was named; None where the name is no task of handoff's."""
    task = stopping.task_meant(ctx.app, arguments.what, project=arguments.project)
    return None if task is None else _take_task(ctx, arguments, task)


def _take_task(ctx: Context, arguments: Namespace, task: Task) -> int:
    """The agent's session is stopped, and its task is the person's or another agent's."""
    for name in ("budget", "task", "copy", "raw"):
        if getattr(arguments, name):
            raise UsageError(
                f"--{name} is for the text of a client's session.", f"Leave it out to take '{task.label}'."
            )
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
    stopping.refuse_untakable(ctx.app, task)
    again = [f"HANDOFF_HOME={ctx.settings.home}", *own_words(), "take", task.label, f"--project={task.project}"]
    said = open_window(ctx.app, name=task.label, folder=task.workspace, project=task.project, command=again)
    ctx.out.data({"task": task.label, "project": task.project, "said": said})
    ctx.out.line(said)
    return 0


def _drive(ctx: Context, done: ActDone) -> int:
    """The client's own conversation, or a shell, where the work lies; when the person leaves it, the task goes back."""
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

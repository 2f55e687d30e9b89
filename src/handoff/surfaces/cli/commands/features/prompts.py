"""The prompts: `run`, `generate`, `start`, `continue`, `spec`, `design`, `tasks`, `prompt`."""

from __future__ import annotations

from handoff.base.errors import UsageError
from handoff.base.record import TYPE_CHECKING
from handoff.engine.features import prompts
from handoff.feature.templates import KINDS
from handoff.surfaces.cli.command import Command, flag, option

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable

    from handoff.engine.features.prompts import Prompt
    from handoff.surfaces.cli.command import Context, Parser

_EPILOG = "The prompt carries the state of the feature; it works in an assistant that cannot read your files."


def _prompt_options(parser: Parser) -> None:
    flag(parser, "--copy", "also put the prompt on the clipboard; it is printed in any case")
    flag(parser, "--raw", "print the prompt alone on standard output")


def _state_options(parser: Parser) -> None:
    _prompt_options(parser)
    option(parser, "--budget TOKENS", "estimated tokens the prompt may have (default: 8000)", None, type=int)
    flag(parser, "--no-embed", "the short form: name the documents, do not quote them")
    flag(parser, "--no-record", "do not remember this as a hand-off")
    flag(
        parser, "--chat", "for a chat window, which cannot run handoff: the prompt asks it to edit the documents itself"
    )


def _kind(kind: str) -> Callable[[Context, Namespace], None]:
    def run(ctx: Context, arguments: Namespace) -> None:
        _build(ctx, arguments, kind)

    return run


def _tasks_arguments(parser: Parser) -> None:
    from handoff.surfaces.cli.commands.tasks.board import COMMANDS as QUEUE

    _state_options(parser)
    flag(parser, "--list", "list the relay's tasks instead, as the queue command does")
    QUEUE["task list"].arguments(parser)


def _tasks(ctx: Context, arguments: Namespace) -> int | None:
    """The planning prompt, as users of the continuity tool know it; with a word about tasks, the relay's list."""
    if arguments.list or arguments.state or arguments.include_ended or arguments.project or arguments.all_projects:
        from handoff.surfaces.cli.commands.tasks.board import COMMANDS as QUEUE

        return QUEUE["task list"].run(ctx, arguments)
    _build(ctx, arguments, "tasks")
    return None


def _run(ctx: Context, arguments: Namespace) -> None:
    _build(ctx, arguments, prompts.for_run(ctx.app))


def _build(ctx: Context, arguments: Namespace, kind: str) -> None:
    if arguments.budget is not None and arguments.budget <= 0:
        raise UsageError("--budget takes a number above 0.", "For example: --budget 4000")
    prompt = prompts.build(
        ctx.app,
        kind=kind,
        tokens=arguments.budget,
        embed=not arguments.no_embed,
        record=not arguments.no_record,
        chat=arguments.chat,
    )
    _show(ctx, arguments, prompt)


def _prompt_arguments(parser: Parser) -> None:
    parser.add_argument("kind", nargs="?", choices=KINDS, default="continue", help="which prompt (default: continue)")
    _prompt_options(parser)


def _prompt(ctx: Context, arguments: Namespace) -> None:
    from handoff.engine.features.prompts import plain

    _show(ctx, arguments, plain(ctx.app, kind=arguments.kind))


def _show(ctx: Context, arguments: Namespace, prompt: Prompt) -> None:
    out = ctx.out
    for warning in prompt.warnings:
        out.warning(warning)
    out.data(prompt._asdict())
    if not arguments.raw and not out.json_wanted:
        out.line(prompt.title, "title")
        if prompt.focus:
            out.line(f"- about: {prompt.focus}")
        size = f"- about {prompt.tokens} tokens"
        out.line(
            size + (f"; {len(prompt.left_out)} part(s) cut, named at the end of the prompt" if prompt.left_out else "")
        )
        out.line("- paste everything below into a new session of your assistant")
        out.line()
    if not out.json_wanted:
        out.raw(prompt.text)
    if arguments.copy:
        from handoff.engine.work.tasks import open_tab

        way = open_tab.to_clipboard(ctx.app, prompt.text)
        if way:
            out.note(way, "good")
        else:
            out.warning("the prompt was not copied: no clipboard was found. It is printed above.")


COMMANDS = {
    "run": Command(_state_options, _run, epilog=_EPILOG),
    **{kind: Command(_state_options, _kind(kind), epilog=_EPILOG) for kind in KINDS if kind != "context"},
    "tasks": Command(_tasks_arguments, _tasks, epilog=_EPILOG + " The relay's own list: tasks --list."),
    "prompt": Command(_prompt_arguments, _prompt),
}

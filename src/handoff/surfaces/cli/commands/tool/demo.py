"""`demo`: a real feature in a scratch repository, carried over three sessions by the scripted agent."""

from __future__ import annotations

import os
import sys

from handoff.agents.scripted.player import SCRIPTS
from handoff.base import files
from handoff.base.errors import UserError
from handoff.base.process import Completed, run
from handoff.base.record import TYPE_CHECKING
from handoff.surfaces.cli.command import Command, flag, number_of, option
from handoff.surfaces.cli.commands.board.board import can_show
from handoff.surfaces.cli.commands.tool import board_demo, demo_flow, fan_out_demo
from handoff.surfaces.vocabulary import wants_ascii

if TYPE_CHECKING:
    from argparse import Namespace

    from handoff.surfaces.cli.command import Context, Parser

_REQUEST = "Count the words of a text file, so that an editor knows how long a text is."


def _arguments(parser: Parser) -> None:
    flag(
        parser, "--board", "play a batch of scripted agents on the board instead: three at once, one red, one that asks"
    )
    option(parser, "--keep DIR", "make the scratch repository in DIR (new or empty) and leave it there", None)


class _Scratch:
    """A repository of its own, with a home of its own; every command is a real process."""

    def __init__(self, ctx: Context, folder: str) -> None:
        self.out, self.folder = ctx.out, folder
        bin_folder = os.path.join(folder, ".bin")
        self.repo = os.path.join(folder, "words")
        for path in (bin_folder, self.repo):
            files.make_folder(path)
        launcher = f'#!/bin/sh\nexec "{sys.executable}" -m handoff.surfaces.cli.main "$@"\n'
        files.write_atomic(os.path.join(bin_folder, "handoff"), launcher, mode=0o755)
        settings = {
            name: value
            for name, value in ctx.settings.environment.items()
            if not name.startswith(("HANDOFF_", "GIT_")) and name != "PYTHONDONTWRITEBYTECODE"
        }
        self.environment = {
            **settings,
            "PATH": bin_folder + os.pathsep + ctx.settings.path,
            "HOME": folder,
            "HANDOFF_HOME": os.path.join(folder, ".handoff-home"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "GIT_CONFIG_GLOBAL": os.path.join(folder, ".gitconfig"),
            "GIT_CONFIG_NOSYSTEM": "1",
        }
        files.write_atomic(
            os.path.join(folder, ".gitconfig"),
            "[user]\n\tname = A person\n\temail = person@example.invalid\n[init]\n\tdefaultBranch = main\n",
        )

    def do(self, command: str, *, show: bool = True, limit: int = 0) -> Completed:
        if show:
            self.out.line(f"$ {command}", "strong")
        done = run(["/bin/sh", "-c", command], environment=self.environment, cwd=self.repo, merge=True, timeout=120)
        lines = done.text.rstrip().splitlines()
        if show:
            for line in lines[:limit] if limit else lines:
                self.out.line(f"  {line}")
            if limit and len(lines) > limit:
                self.out.line(f"  ... {len(lines) - limit} more lines", "dim")
        return done


def _demo(ctx: Context, arguments: Namespace) -> int:
    import tempfile

    play = _play_board if arguments.board else _play
    if arguments.board and not can_show(ctx):
        raise UserError("The board needs a terminal.", f"In lines: {ctx.settings.program} demo")
    if arguments.keep:
        files.make_folder(arguments.keep)
        return play(ctx, os.path.abspath(arguments.keep))
    with tempfile.TemporaryDirectory(prefix="handoff-demo-") as folder:
        return play(ctx, folder)


def _play_board(ctx: Context, folder: str) -> int:
    scratch = _Scratch(ctx, folder)
    scratch.repo = os.path.join(folder, "shop")
    ctx.out.leave_screen()
    return board_demo.play(ctx.out, scratch.repo, scratch.do, scratch.environment)


def _play(ctx: Context, folder: str) -> int:
    scratch, out, began = _Scratch(ctx, folder), ctx.out, ctx.app.clock.monotonic()
    scratch.do("git init -q && echo 'A small project' > README.md && git add . && git commit -q -m first", show=False)
    out.line("1. A person says what they want", "title")
    scratch.do("handoff init word-count", limit=1)
    request = os.path.join(scratch.repo, ".handoff/current/FEATURE.md")
    files.write_atomic(request, f"# Feature: word-count\n\n## Goal\n{_REQUEST}\n")
    out.line(f"  (the person writes the goal: {_REQUEST})", "dim")
    scratch.do("handoff ignore", show=False)
    scenes = (
        ("2. Session one plans and does the first step", "generate", ("Goal", "Git")),
        ("3. Session two is told no, and then dies", "continue", ("Plan", "Last session", "Decisions")),
        ("4. Session three knows what happened, and finishes", "continue", ("Plan", "Git", "Last checks")),
    )
    for number, (title, kind, wanted) in enumerate(scenes, 1):
        out.line()
        out.line(title, "title")
        prompt = os.path.join(folder, f"prompt-{number}.md")
        scratch.do(f"handoff {kind} --raw > {prompt!r}", show=False)
        _show_prompt(ctx, kind, files.read_text(prompt), wanted)
        script = os.path.join(SCRIPTS, f"session-{number}.toml")
        ended = scratch.do(f"handoff scripted {script!r} --prompt {prompt!r}", show=False)
        for line in ended.text.rstrip().splitlines():
            out.line(f"  agent | {line}", _style_of(line))
        if ended.code < 0 or ended.code > 128:  # noqa: PLR2004 - ended by a signal
            out.line("  agent | killed", "bad")
        elif ended.code:
            out.error(f"The scripted session {number} failed.", f"Look in {folder} (use --keep DIR).")
            return 1
    out.line()
    out.line("5. Where things stand", "title")
    status = scratch.do("handoff status")
    scratch.do("git log --oneline")
    scratch.do("cat .handoff/current/STATE.md | grep '\\[x\\]'", limit=3)
    complete = "plan: complete" in status.text
    out.line()
    scratch.repo = os.path.join(folder, "calculator")
    complete = demo_flow.play(out, scratch.repo, scratch.do) and complete
    out.line()
    calculator, scratch.repo = scratch.repo, os.path.join(folder, "greetings")
    complete = fan_out_demo.play(out, scratch.repo, scratch.do) and complete
    scratch.repo = calculator
    out.line()
    return _sum_up(ctx, scratch, complete, began)


def _sum_up(ctx: Context, scratch: _Scratch, complete: bool, began: float) -> int:
    """What was seen, and how long it took."""
    out = ctx.out
    seconds = round(ctx.app.clock.monotonic() - began)
    if not complete:
        out.line(f"The demo did not finish ({seconds} s).", "bad")
        return 1
    commits = len(scratch.do("git log --format=%h main..handoff/calculator", show=False).text.split())
    out.line("What you have seen", "title")
    for words, style in (
        ("✓ one feature over three sessions: the one that was killed cost nothing", "good"),
        ("⊘ one step that was only claimed: its check was red, and it stayed open", "warn"),
        ("⊘ three cheats in test-driven work: refused by name", "warn"),
        (
            "✓ a batch of three agents: one died, one trespassed, one asked, a fourth settled a conflict; one verified series landed",
            "good",
        ),
        (f"✓ {number_of(commits, 'commit')}, each with the record of what was checked", "good"),
    ):
        out.line(f"  {words if not wants_ascii(ctx.settings) else words[2:]}", style)
    out.line(
        f"Two sessions were killed and three cheated: nothing was lost, and every tick was earned by a check ({seconds} s)."
    )
    out.line(
        f"Next: {ctx.settings.program} setup in a project of yours; {ctx.settings.program} demo --board shows the board.",
        "dim",
    )
    return 0


_STYLES = {"Error": "bad", "Hint": "dim", "Step": "good", "Committed": "good"}


def _style_of(line: str) -> str:
    """The colour of what an agent heard: red for a no, green for what was proven."""
    return next((style for word, style in _STYLES.items() if line.lstrip("$ ").startswith(word)), "")


def _show_prompt(ctx: Context, kind: str, text: str, wanted: tuple[str, ...]) -> None:
    """The parts of the prompt that this scene is about."""
    ctx.out.line(f"$ handoff {kind}", "strong")
    ctx.out.line(f"  (a prompt of {len(text.split())} words; a part of it:)", "dim")
    for part in text.partition("# Where things stand")[2].split("\n## ")[1:]:
        if part.startswith(wanted):
            for line in f"## {part}".splitlines():
                if line.strip():
                    ctx.out.line(f"  prompt | {line}")


COMMANDS = {"demo": Command(_arguments, _demo, shows=False)}

"""`demo`: a real feature in a scratch repository, carried over three sessions by the scripted agent."""

from __future__ import annotations

import os
import sys

from handoff.agents.scripted.player import SCRIPTS
from handoff.base import files
from handoff.base.errors import UserError
from handoff.base.markdown import quoted
from handoff.base.process import Completed, pass_through, run
from handoff.base.record import TYPE_CHECKING, Record
from handoff.surfaces.cli.command import Command, flag, number_of, option
from handoff.surfaces.cli.commands.board.board import can_show
from handoff.surfaces.cli.commands.tool import demo_flow
from handoff.surfaces.vocabulary import wants_ascii

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Mapping

    from handoff.base.process import Completed
    from handoff.surfaces.cli.command import Context, Parser
    from handoff.surfaces.cli.output import Output

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
    return play_board(ctx.out, scratch.repo, scratch.do, scratch.environment)


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
    complete = play_fan_out(out, scratch.repo, scratch.do) and complete
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


# --- the board ---------------------------------------------------------------------------------------------------


AT_ONCE = 3
RED = "mail"  # its check is never green


class DemoTask(Record):
    """One task of the story: what it is told, what must come first, and what its agent says and does."""

    name: str
    brief: str
    says: tuple[str, ...]
    after: str = ""
    asks: str = ""


STORY = (
    DemoTask("api", "Serve the routes.", ("The routes need a schema first.", "Writing api.py", "Running its check")),
    DemoTask("db", "Store the orders.", ("Adding the table of orders", "Writing db.py")),
    DemoTask("mail", "Send the mail.", ("Looking at mail.py", "The test is red and I cannot see why")),
    DemoTask("cart", "Fill the cart.", ("Writing cart.py", "One old test contradicts the brief"), asks="Drop test_empty?"),
    DemoTask("ui", "Draw the page.", ("Reading what the api gives", "Writing ui.py"), after="api"),
    DemoTask("docs", "Write the manual.", ("Reading the code", "Writing docs.py"), after="ui"),
)  # fmt: skip


def play_board(out: Output, repo: str, do: Callable[..., Completed], environment: Mapping[str, str]) -> int:
    """Write the tasks down, let scripted agents work on them, and show it on the board until the person leaves."""
    files.make_folder(repo)
    scripts = os.path.join(os.path.dirname(repo), "scripts")
    files.make_folder(scripts)
    home = environment["HANDOFF_HOME"]
    files.make_folder(home, mode=0o700)
    files.write_atomic(os.path.join(home, "config.toml"), "max_attempts = 1\n")  # what is red is seen at once
    do("git init -q && echo 'A shop' > README.md && git add . && git commit -q -m first", show=False)
    for task in STORY:
        files.write_atomic(os.path.join(scripts, f"{task.name}.toml"), script(task))
        after = f" --after {task.after}" if task.after else ""
        check = "false" if task.name == RED else f"test -s {task.name}.py"
        line = f"handoff dump --task {task.name} --next '{task.brief}' --owns {task.name}.py --check '{check}'{after}"
        done = do(line, show=False)
        if done.code:
            out.error(f"{line} failed: {done.text}")
            return 1
    out.line(
        "Six tasks, three scripted agents at once. On the board: a answers, l reads along, ? shows the keys, q leaves."
    )
    program = os.path.join(os.path.dirname(repo), ".bin", "handoff")
    words = [program, "-C", repo, "work", "--agent", "scripted", "--max", str(AT_ONCE), "--"]
    code = pass_through([*words, os.path.join(scripts, "{task}.toml")], environment=environment)
    out.line()
    do("handoff work --stop", show=False)
    do("handoff")
    return code


def script(task: DemoTask) -> str:
    """What the agent of a task does: it takes its time, so that there is something to see."""
    acts = [f"[[act]]\nsay = {_text(line)}\n\n[[act]]\nsleep = 2\n" for line in task.says]
    acts.append(f"[[act]]\nwrite = {_text(task.name + '.py')}\ntext = {_text(task.brief)}\n")
    if task.asks:
        acts.append(f"[[act]]\nrun = {_text(f'handoff task ask {chr(39)}{task.asks}{chr(39)}')}\nmay_fail = true\n")
    return "\n".join(acts)


def _text(words: str) -> str:
    return '"' + words.replace("\\", "\\\\").replace('"', '\\"') + '"'


# --- the fan-out -------------------------------------------------------------------------------------------------


_MANIFEST = """schema_version = 2
batch_id = "greeter"
fan_in_task = "greeter-join"
split_rationale = "Greet people, also loudly"
check = '''{python} -c "from greeter.shout import shout; assert shout('you') == 'HELLO, YOU!'"'''

[amdahl_estimate]
estimated_speedup = 2.0
serial_minutes = 2

[[sub_tasks]]
id = "words"
brief = "In greeter/words.py let greet(name) return 'Hello, NAME'."
estimated_minutes = 5
file_ownership = [{{ type = "exact", path = "greeter/words.py" }}]
check = '''{python} -c "from greeter.words import greet; assert greet('you').startswith('Hello, you')"'''

[[sub_tasks]]
id = "shout"
brief = "Write greeter/shout.py: shout(name) greets in capitals, with the words of greeter.words."
estimated_minutes = 5
file_ownership = [{{ type = "exact", path = "greeter/shout.py" }}]
check = "{python} -m py_compile greeter/shout.py"

[[sub_tasks]]
id = "guide"
brief = "Write docs/guide.md: how to greet."
estimated_minutes = 5
file_ownership = [{{ type = "prefix", path = "docs/" }}]
check = "test -s docs/guide.md"
"""

_GREET = 'def greet(name):\n    return "Hello"\n'


def play_fan_out(out: Output, repo: str, do: Callable[..., Completed]) -> bool:
    """One batch from its manifest to its verdict; whether everything landed."""
    files.make_folder(os.path.join(repo, "greeter"))
    files.write_atomic(os.path.join(repo, "greeter", "__init__.py"), '"""Greetings."""\n')
    words = os.path.join(repo, "greeter", "words.py")
    files.write_atomic(words, _GREET)
    files.write_atomic(os.path.join(repo, ".gitignore"), "__pycache__/\n")
    files.write_atomic(os.path.join(repo, "split.toml"), _MANIFEST.format(python=sys.executable))
    do("git init -q && git add . && git commit -q -m 'a curt greeter'", show=False)
    out.line("7. A batch: three agents side by side, one verified series of commits", "title")
    scripts = os.path.join(SCRIPTS, "greeter", "{task}-{attempt}.toml").replace("{task}", "{part}")
    do(f"handoff batch run split.toml --agents scripted=3 --with {quoted(scripts)} 2>/dev/null")
    out.line("  (the person changes the very line that an agent has changed, commits it, answers, and stays)", "dim")
    files.write_atomic(words, _GREET.replace('"Hello"', '"Hello!"'))
    do("git commit -q -a -m 'Greet with an exclamation mark'")
    do("handoff answer greeter/guide yes")
    do("handoff batch run greeter 2>/dev/null")
    out.line()
    do("git log --reverse --format='%h %s'")
    do("handoff batch report", limit=11)
    do("handoff batch report | grep -A 6 '^Conflicts'")
    verdict = do("handoff batch run greeter --json", show=False)
    do("handoff work --stop", show=False)
    return '"verdict": "landed"' in verdict.text


COMMANDS = {"demo": Command(_arguments, _demo, shows=False)}

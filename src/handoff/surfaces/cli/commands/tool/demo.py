"""`demo`: four stories in scratch repositories, played by the scripted agent with real commands.

A feature over three sessions; a calculator by test-driven development, with sessions that try to cheat; a batch of three agents of
which one dies, one trespasses and one asks; and, with `--board`, a small shop built before the person's eyes on the real board.
"""

from __future__ import annotations

import os
import sys

from handoff.agents.adapters import scripted
from handoff.agents.adapters.scripted import SCRIPTS
from handoff.base import files
from handoff.base.errors import UserError, need
from handoff.base.light_json import loads
from handoff.base.markdown import number_of, quoted, shell_line
from handoff.base.process import Completed, own_argv, pass_through, run
from handoff.base.record import TYPE_CHECKING, Record
from handoff.surfaces.cli.command import Command, flag, option
from handoff.surfaces.cli.commands.board.board import can_show
from handoff.surfaces.vocabulary import wants_ascii

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

    from handoff.surfaces.cli.command import Context, Parser

_MOST_SECONDS = 1200
"""For one command of the demo: the workflow takes 20 seconds, and 130 where a dozen other programs want the same processor."""
_GOAL = "Count the words of a text file, so that an editor knows how long a text is."


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
        self.repo = ""
        files.make_folder(bin_folder)
        launcher = f'#!/bin/sh\nexec {shell_line(own_argv())} "$@"\n'
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

    def begin(self, name: str, contents: Mapping[str, str], message: str = "first") -> None:
        """Go on in a new repository with one commit of these files."""
        self.repo = os.path.join(self.folder, name)
        write_files(self.repo, contents)
        self.do(f"git init -q && git add . && git commit -q -m '{message}'", show=False)

    def do(self, command: str, *, show: bool = True, limit: int = 0) -> Completed:
        if show:
            self.out.line(f"$ {command}", "strong")
        done = run(
            ["/bin/sh", "-c", command], environment=self.environment, cwd=self.repo, merge=True, timeout=_MOST_SECONDS
        )
        if done.timed_out:
            self.out.line(f"This did not end within {_MOST_SECONDS // 60} minutes: {command}", "bad")
        lines = done.text.rstrip().splitlines()
        if show:
            for line in lines[:limit] if limit else lines:
                self.out.line(f"  {line}")
            if limit and len(lines) > limit:
                self.out.line(f"  ... {len(lines) - limit} more lines", "dim")
        return done


def write_files(folder: str, contents: Mapping[str, str]) -> None:
    """Files by their paths in a folder, as a project has them before anybody works on it."""
    for name, text in contents.items():
        path = os.path.join(folder, name)
        files.make_folder(os.path.dirname(path))
        files.write_atomic(path, text)


def _demo(ctx: Context, arguments: Namespace) -> int:
    import tempfile

    play = _play_board if arguments.board else _play
    if arguments.board and not can_show(ctx):
        raise UserError("The board needs a terminal.", f"In lines: {ctx.settings.program} demo")
    if arguments.board:
        need("textual", "The board")
    if arguments.keep:
        files.make_folder(arguments.keep)
        return play(ctx, os.path.abspath(arguments.keep))
    with tempfile.TemporaryDirectory(prefix="handoff-demo-") as folder:
        return play(ctx, folder)


def _play(ctx: Context, folder: str) -> int:
    scratch, out, began = _Scratch(ctx, folder), ctx.out, ctx.app.clock.monotonic()
    scratch.begin("words", {"README.md": "A small project\n"})
    out.line("1. A person says what they want", "title")
    scratch.do("handoff init word-count", limit=1)
    request = os.path.join(scratch.repo, ".handoff/current/FEATURE.md")
    files.write_atomic(request, f"# Feature: word-count\n\n## Goal\n{_GOAL}\n")
    out.line(f"  (the person writes the goal: {_GOAL})", "dim")
    scratch.do("handoff ignore", show=False)
    scenes = (
        ("2. Session one plans and does the first step", "generate", ("Goal", "Git")),
        ("3. Session two hears no, and then dies", "continue", ("Plan", "Last session", "Decisions")),
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
    complete = _play_flow(scratch) and complete
    calculator = scratch.repo
    out.line()
    complete = _play_batch(scratch) and complete
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
            "✓ a batch of three agents: one died, one left its files, one asked, a fourth settled a conflict; one verified series landed",
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


# --- the calculator, by test-driven development

_REQUEST = "A calculator that adds, subtracts and divides two numbers."
_START = """import unittest

import calculator


class Start(unittest.TestCase):
    def test_it_says_what_it_is(self):
        self.assertTrue(calculator.__doc__)
"""
CALCULATOR = {
    "calculator.py": '"""A calculator."""\n',
    "tests/__init__.py": "",
    "tests/test_start.py": _START,
    ".gitignore": "__pycache__/\n",
}
"""The project before anybody works on it."""


def _play_flow(scratch: _Scratch) -> bool:
    """Four cycles; whether the flow came to its end."""
    out, do = scratch.out, scratch.do
    scratch.begin("calculator", CALCULATOR, "an empty calculator")
    out.line("6. A workflow: test-driven, each phase a fresh session that cannot do the others' work", "title")
    do(f"handoff flow start tdd --id calculator --agent scripted --request '{_REQUEST}' 2>/dev/null", limit=1)
    word = os.path.join(SCRIPTS, "tdd", "{task}-{attempt}.toml")
    out.line("  (the scripted sessions work, and three of them cheat; this takes some seconds)", "dim")
    do(f"handoff flow step calculator --all --with {word!r}", show=False)
    log = do("handoff log calculator")
    out.line()
    do("git log --reverse --format='%h %s' main..handoff/calculator")
    do("git show handoff/calculator:test-list.md | tail -4")
    do("handoff log --git handoff/calculator", limit=6)
    state = do("handoff show calculator --json", show=False)
    return '"state": "done"' in state.text and log.text.count("refused") >= 3  # noqa: PLR2004 - three cheats


# --- three agents side by side

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


def _play_batch(scratch: _Scratch) -> bool:
    """One batch from its manifest to its verdict; whether everything landed."""
    out, do = scratch.out, scratch.do
    contents = {
        "greeter/__init__.py": '"""Greetings."""\n',
        "greeter/words.py": _GREET,
        ".gitignore": "__pycache__/\n",
        "split.toml": _MANIFEST.format(python=sys.executable),
    }
    scratch.begin("greetings", contents, "a curt greeter")
    out.line("7. A batch: three agents side by side, one verified series of commits", "title")
    scripts = os.path.join(SCRIPTS, "greeter", "{task}-{attempt}.toml").replace("{task}", "{part}")
    do(f"handoff batch run split.toml --agents scripted=3 --with {quoted(scripts)} 2>/dev/null")
    out.line("  (the person changes the very line that an agent has changed, commits it, answers, and stays)", "dim")
    files.write_atomic(os.path.join(scratch.repo, "greeter", "words.py"), _GREET.replace('"Hello"', '"Hello!"'))
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


# --- the shop, on the board

_AT_ONCE = 3
_RED = "mail"  # its check is never green


class _DemoTask(Record):
    """One task of the story: what it is told, what must come first, and what its agent says and does."""

    name: str
    brief: str
    says: tuple[str, ...]
    after: str = ""
    asks: str = ""


_STORY = (
    _DemoTask("api", "Serve the routes.", ("The routes need a schema first.", "Writing api.py", "Running its check")),
    _DemoTask("db", "Store the orders.", ("Adding the table of orders", "Writing db.py")),
    _DemoTask("mail", "Send the mail.", ("Looking at mail.py", "The test is red and I cannot see why")),
    _DemoTask("cart", "Fill the cart.", ("Writing cart.py", "One old test contradicts the brief"), asks="Drop test_empty?"),
    _DemoTask("ui", "Draw the page.", ("Reading what the api gives", "Writing ui.py"), after="api"),
    _DemoTask("docs", "Write the manual.", ("Reading the code", "Writing docs.py"), after="ui"),
)  # fmt: skip


def _play_board(ctx: Context, folder: str) -> int:
    """Write the tasks down, let scripted agents work on them, and show it on the board until the person leaves."""
    scratch, scripts = _Scratch(ctx, folder), os.path.join(folder, "scripts")
    out, do, home = ctx.out, scratch.do, scratch.environment["HANDOFF_HOME"]
    out.leave_screen()
    files.make_folder(home, mode=0o700)
    settings = 'max_attempts = 1\nlanding = "auto"\n'  # what is red is seen at once, and nobody is asked
    files.write_atomic(os.path.join(home, "config.toml"), settings)
    scratch.begin("shop", {"README.md": "A shop\n"})
    write_files(scripts, {f"{task.name}.toml": _script(task) for task in _STORY})
    for task in _STORY:
        after = f" --after {task.after}" if task.after else ""
        check = "false" if task.name == _RED else f"test -s {task.name}.py"
        line = f"handoff dump --task {task.name} --next '{task.brief}' --owns {task.name}.py --check '{check}'{after}"
        done = do(line, show=False)
        if done.code:
            out.error(f"{line} failed: {done.text}")
            return 1
    out.line(
        "Six tasks, three scripted agents at once. On the board: a answers, l reads along, ? shows the keys, q leaves."
    )
    program = os.path.join(folder, ".bin", "handoff")
    words = [program, "-C", scratch.repo, "work", "--agent", "scripted", "--max", str(_AT_ONCE), "--"]
    code = pass_through([*words, os.path.join(scripts, "{task}.toml")], environment=scratch.environment)
    out.line()
    do("handoff work --stop", show=False)
    listed = do("handoff session list --json 2>/dev/null", show=False)
    for session in loads(listed.text) if listed.code == 0 else ():  # who leaves the board leaves agents at work
        do(f"handoff session stop {session['id']}", show=False)
    do("handoff")
    return code


def _script(task: _DemoTask) -> str:
    """What the agent of a task does: it takes its time, so that there is something to see."""
    acts = [f"[[act]]\nsay = {_text(line)}\n\n[[act]]\nsleep = 2\n" for line in task.says]
    acts.append(f"[[act]]\nwrite = {_text(task.name + '.py')}\ntext = {_text(task.brief)}\n")
    if task.asks:
        acts.append(f"[[act]]\nrun = {_text(f'handoff task ask {chr(39)}{task.asks}{chr(39)}')}\nmay_fail = true\n")
    return "\n".join(acts)


def _text(words: str) -> str:
    return '"' + words.replace("\\", "\\\\").replace('"', '\\"') + '"'


# --- `scripted`: run the scripted agent in this folder, with a prompt as a real agent would get it


def _scripted_arguments(parser: Parser) -> None:
    parser.add_argument("script", help="the script: a TOML file with [[act]] tables")
    option(parser, "--prompt FILE", "the prompt the agent is given, for 'expect'", None)


def _scripted(ctx: Context, arguments: Namespace) -> int:
    if not os.path.isfile(arguments.script):
        raise UserError(f"There is no script {arguments.script}.", "The format: handoff help docs/howto/agents.md")
    acts = scripted.read_script(arguments.script)
    prompt = files.read_text(arguments.prompt) if arguments.prompt else ""
    stage = scripted.Stage(os.getcwd(), prompt, ctx.settings.environment, ctx.app.clock)
    ended = scripted.perform(acts, stage, ctx.out.line)
    if ended.words:
        ctx.out.error(ended.words)
    return ended.code


COMMANDS = {
    "demo": Command(_arguments, _demo, shows=False),
    "scripted": Command(_scripted_arguments, _scripted, shows=False),
}

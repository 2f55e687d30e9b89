"""What handoff is on this machine: `completion` with its scripts for five shells, `upgrade`, `version`, `doctor`."""

from __future__ import annotations

import argparse

from handoff import __version__
from handoff.base.errors import UsageError
from handoff.base.markdown import number_of
from handoff.base.record import TYPE_CHECKING, Record
from handoff.surfaces.cli.catalog import CATALOG, NOUNS, SHOWN
from handoff.surfaces.cli.command import Command, flag, no_arguments, option
from handoff.surfaces.cli.dispatch import load
from handoff.surfaces.vocabulary import LOOKS, wants_ascii

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterable

    from handoff.surfaces.cli.command import Context, Parser

_COMPLETION_EPILOG = """For example:
  bash        source <(handoff completion bash)
  zsh         source <(handoff completion zsh)
  fish        handoff completion fish > ~/.config/fish/completions/handoff.fish
  powershell  handoff completion powershell | Out-String | Invoke-Expression
  elvish      eval (handoff completion elvish | slurp)"""


def _completion_arguments(parser: Parser) -> None:
    parser.add_argument("shell", nargs="?", choices=SHELLS, help="your shell")
    option(
        parser,
        "--values",
        "print the values a script asks for, one a line",
        None,
        choices=("features", "answers", "sessions"),
    )


def _completion(ctx: Context, arguments: Namespace) -> None:
    if arguments.values == "answers":
        from handoff.engine.work.tasks import admin

        found = admin.waiting(ctx.app) if ctx.app.has_rows else []
        words = [word for item in found for word in (item.task, *item.gate.offered)]
        # Shells expand these words, and sessions wrote some of them.
        safe = [word for word in words if word[0] != "-" and all(c.isalnum() or c in "-_./:@+," for c in word)]
        ctx.out.raw("".join(f"{word}\n" for word in dict.fromkeys(["yes", "no", "edit", *safe])))
        return
    if arguments.values == "sessions":
        from handoff.board.sessions import sessions

        ctx.out.raw("".join(f"{one.id}\n" for one in sessions.at_work(ctx.app.database)))
        return
    if arguments.values:
        from handoff.engine.features import lifecycle

        ctx.out.raw("".join(f"{item.name}\n" for item in lifecycle.listing(ctx.app)))
        return
    if not arguments.shell:
        raise UsageError("Say which shell.", f"One of: {', '.join(SHELLS)}")
    ctx.out.raw(completion_script(arguments.shell, ctx.settings.program))


def _upgrade_arguments(parser: Parser) -> None:
    flag(parser, "--dry-run", "only print the command")


def _upgrade(ctx: Context, arguments: Namespace) -> int:
    from handoff.engine.setup import doctor

    found = doctor.installation(ctx.app)
    ctx.out.data({"installed_by": found.by, "command": list(found.command), "note": found.why, "version": __version__})
    if not found.command:
        ctx.out.line(f"Installed by: {found.by}. {found.why}")
        return 0
    ctx.out.line(f"Installed by: {found.by}. The command: {' '.join(found.command)}")
    if arguments.dry_run or ctx.out.json_wanted:
        return 0
    return doctor.upgrade(ctx.app, found)


def _version(ctx: Context, arguments: Namespace) -> None:
    del arguments
    ctx.out.data({"version": __version__})
    ctx.out.line(__version__)


# --- `handoff doctor`: what is wrong, and the command that fixes it

_SHOWN = {"ok": "green", "warning": "held", "fault": "blocked"}


def _doctor(ctx: Context, arguments: Namespace) -> int:
    del arguments
    from handoff.engine.setup import doctor
    from handoff.engine.setup.doctor import FAULT, WARNING

    found = []
    plain = wants_ascii(ctx.settings)
    for one in doctor.examine(ctx.app):
        found.append(one)
        look = LOOKS[_SHOWN[one.state]]
        mark = ctx.out.style(look.mark(ascii_only=plain), look.style)
        ctx.out.line(f"{mark} {one.name:<11} {one.words}")
        if one.fix:
            ctx.out.line(f"              {'Fix' if one.state == FAULT else 'Better'}: {one.fix}", "dim")
    faults = sum(one.state == FAULT for one in found)
    warnings = sum(one.state == WARNING for one in found)
    ctx.out.data({"faults": faults, "warnings": warnings, "findings": [one._asdict() for one in found]})
    said = f"{number_of(faults, 'fault')}, {number_of(warnings, 'warning')}." if faults or warnings else "All is well."
    ctx.out.line(said, "bad" if faults else "warn" if warnings else "good")
    return 1 if faults else 0


VALUES = {"answer": "answers", "session": "sessions", **dict.fromkeys(("switch", "archive", "unarchive"), "features")}
"""Commands after which names fit that only the project knows, and what they are."""


class _CompletedWords(Record):
    """What may follow one command: its options, fixed words, and what else is asked for when it is needed."""

    name: str
    help: str
    options: tuple[str, ...]
    choices: tuple[str, ...]
    values: str


def _completed(program: str) -> list[_CompletedWords]:
    """Every command with what may follow it."""
    found: dict[str, _CompletedWords] = {}
    for name, entry in CATALOG.items():
        if name not in SHOWN and not (" " in name and name.partition(" ")[0] in NOUNS):
            continue
        _, parser = load(name, program)
        options: list[str] = []
        choices: list[str] = []
        for action in parser._actions:  # noqa: SLF001 - argparse offers no other way to list them
            options += action.option_strings
            if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - argparse shows its parsers no other way
                choices += list(action.choices)
                for verb in action.choices.values():
                    options += [word for sub in verb._actions for word in sub.option_strings]  # noqa: SLF001 - argparse shows its parsers no other way
            elif action.choices and not action.option_strings:
                choices += [str(choice) for choice in action.choices]
        noun, _, verb_word = name.partition(" ")
        known = found.get(
            noun, _CompletedWords(noun, entry.help if not verb_word else "", (), (), VALUES.get(noun, ""))
        )
        found[noun] = known._replace(
            options=tuple(sorted({*known.options, *options})),
            choices=(*known.choices, *([verb_word] if verb_word else choices)),
        )
    verbs = {row.name: ", ".join(row.choices) for row in found.values()}
    return [row if row.help else row._replace(help=verbs[row.name]) for row in found.values()]


def completion_script(shell: str, program: str) -> str:
    """The completion script of one shell."""
    rows = _completed(program)
    names = " ".join(row.name for row in rows)
    return _WRITERS[shell](program, rows, names)


def _identifier(program: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in program)


def _cases(rows: Iterable[_CompletedWords], ask: Callable[[str], str]) -> list[tuple[str, str]]:
    """(command, words that may follow), what only the project knows asked for when it is needed."""
    return [
        (row.name, " ".join([*row.choices, *row.options, *([ask(row.values)] if row.values else [])])) for row in rows
    ]


def _bash(program: str, rows: list[_CompletedWords], names: str) -> str:
    def ask(values: str) -> str:
        return f"$({program} completion --values {values} 2>/dev/null)"

    cases = "\n".join(f'    {name}) words="{words}" ;;' for name, words in _cases(rows, ask))
    me = _identifier(program)
    return f"""# bash completion for {program}
_{me}() {{
  local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}} words="" cmd="" i
  if [[ $prev == --feature ]]; then
    COMPREPLY=($(compgen -W "{ask("features")}" -- "$cur")); return
  fi
  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${{COMP_WORDS[i]}} in
      -C|--feature) ((i++)) ;;
      -*) ;;
      *) cmd=${{COMP_WORDS[i]}}; break ;;
    esac
  done
  case $cmd in
    "") words="{names} -C --feature --version --help" ;;
{cases}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}}
complete -o default -F _{me} {program}
"""


def _zsh(program: str, rows: list[_CompletedWords], names: str) -> str:
    del names
    me = _identifier(program)
    listed = "\n".join(f"    '{row.name}:{_quoted(row.help)}'" for row in rows)
    cases = "\n".join(
        f"      {row.name}) compadd -- {' '.join([*row.choices, *row.options])}"
        + (f' ${{(f)"$({program} completion --values {row.values} 2>/dev/null)"}}' if row.values else "")
        + " ;;"
        for row in rows
    )
    return f"""#compdef {program}
_{me}() {{
  local -a commands
  commands=(
{listed}
  )
  if [[ ${{words[CURRENT-1]}} == --feature ]]; then
    compadd -- ${{(f)"$({program} completion --values features 2>/dev/null)"}}
  elif (( CURRENT == 2 )); then
    _describe 'command' commands
  else
    case ${{words[2]}} in
{cases}
      *) _files ;;
    esac
  fi
}}
if [[ $funcstack[1] == _{me} ]]; then _{me} "$@"; else compdef _{me} {program}; fi
"""


def _fish(program: str, rows: list[_CompletedWords], names: str) -> str:
    lines = [f"# fish completion for {program}", f"complete -c {program} -f"]
    lines.append(f"complete -c {program} -l feature -x -a '({program} completion --values features 2>/dev/null)'")
    for row in rows:
        lines.append(
            f"complete -c {program} -n 'not __fish_seen_subcommand_from {names}' -a {row.name} -d '{_quoted(row.help)}'"
        )
        seen = f"complete -c {program} -n '__fish_seen_subcommand_from {row.name}'"
        if row.choices:
            lines.append(f"{seen} -a '{' '.join(row.choices)}'")
        if row.values:
            lines.append(f"{seen} -a '({program} completion --values {row.values} 2>/dev/null)'")
        lines += [f"{seen} -l {word[2:]}" for word in row.options if word.startswith("--")]
    return "\n".join(lines) + "\n"


def _powershell(program: str, rows: list[_CompletedWords], names: str) -> str:
    cases = "\n".join(
        f"    '{row.name}' {{ @({', '.join(repr(word) for word in (*row.choices, *row.options))})"
        + (f" + @({program} completion --values {row.values} 2>$null)" if row.values else "")
        + " }"
        for row in rows
    )
    listed = ", ".join(f"'{name}'" for name in names.split())
    return f"""# PowerShell completion for {program}
Register-ArgumentCompleter -Native -CommandName '{program}' -ScriptBlock {{
  param($wordToComplete, $commandAst, $cursorPosition)
  $said = @($commandAst.CommandElements | ForEach-Object {{ $_.ToString() }})
  $command = $said | Select-Object -Skip 1 | Where-Object {{ $_ -notlike '-*' }} | Select-Object -First 1
  if ($command -eq $wordToComplete) {{ $command = $null }}
  $words = switch ($command) {{
{cases}
    default {{ @({listed}) }}
  }}
  $words | Where-Object {{ $_ -like "$wordToComplete*" }} |
    ForEach-Object {{ [System.Management.Automation.CompletionResult]::new($_, $_, 'ParameterValue', $_) }}
}}
"""


def _elvish(program: str, rows: list[_CompletedWords], names: str) -> str:
    cases = "\n".join(
        f"    &{row.name}={{ put {' '.join([*row.choices, *row.options])}"
        + (f"; e:{program} completion --values {row.values} | from-lines" if row.values else "")
        + " }"
        for row in rows
    )
    return f"""# elvish completion for {program}
set edit:completion:arg-completer[{program}] = {{|@words|
  var after = [
{cases}
  ]
  if (== (count $words) 2) {{
    put {names}
  }} elif (has-key $after $words[1]) {{
    $after[$words[1]]
  }}
}}
"""


def _quoted(text: str) -> str:
    return text.replace("'", "").replace(":", " -")


_WRITERS = {
    "bash": _bash,
    "zsh": _zsh,
    "fish": _fish,
    "powershell": _powershell,
    "power-shell": _powershell,
    "elvish": _elvish,
}
SHELLS = tuple(_WRITERS)


COMMANDS = {
    "completion": Command(_completion_arguments, _completion, shows=False, epilog=_COMPLETION_EPILOG),
    "upgrade": Command(_upgrade_arguments, _upgrade),
    "version": Command(no_arguments, _version),
    "doctor": Command(no_arguments, _doctor),
}

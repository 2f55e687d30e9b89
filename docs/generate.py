"""Write what the code can say better than a person: the reference pages and the pictures."""

from __future__ import annotations

import argparse
import ast
import os
import re
import sys
from collections import Counter
from typing import TYPE_CHECKING

import handoff
from handoff.base import settings
from handoff.base.errors import INTERRUPTED
from handoff.surfaces.acting import Bug
from handoff.surfaces.cli import main
from handoff.surfaces.cli.catalog import CATALOG, HIDDEN, SHOWN
from handoff.surfaces.cli.dispatch import load
from handoff.surfaces.cli.manual import FIRST

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCS = os.path.dirname(os.path.abspath(__file__))
PROGRAM = "handoff"
NOTE = "<!-- Written by `make docs` from the code. Please do not edit by hand. -->\n"


def commands_page() -> str:
    """docs/reference/commands.md: every command with its words; what several share stands once, at the top."""
    loaded = {name: load(name, PROGRAM) for name in CATALOG}
    common = _common([parser for _, parser in loaded.values()])
    lines = [
        "# Commands", "", NOTE,
        "Every command takes `-C DIR` (work as if started there), `--feature NAME` (instead of the active one, also by",
        "`HANDOFF_FEATURE`) and `--help`. Every command that shows something takes `--json`: then standard output holds JSON",
        "alone. `--help` shows examples too. Exit codes: [exit-codes.md](exit-codes.md).", "",
        "Options after *also* mean what they mean here, or with an earlier command of the same first word:", "",
        "```text", *_aligned(sorted(common.items())), "```", "",
    ]  # fmt: skip
    said: set[str] = set()
    earlier: dict[str, dict[str, str]] = {}
    for section in dict.fromkeys(entry.section for entry in CATALOG.values()):
        lines += [f"## {section}", ""]
        lines += (
            ["*Also* names here what the command that does the same today explains above.", ""]
            if section == HIDDEN
            else []
        )
        for name, entry in CATALOG.items():
            if entry.section == section:
                command, parser = loaded[name]
                twin = _twin(parser, {other: loaded[other][1] for other in SHOWN}) if entry.section == HIDDEN else {}
                epilog = EXAMPLES.sub("", command.epilog) if command.epilog not in said else ""
                said.add(command.epilog)
                noun = earlier.setdefault(name.partition(" ")[0], {})
                known = {**noun, **common, **twin}
                lines += _command(parser, f"{PROGRAM} {name}", entry.help, epilog, known, depth=3)
                noun.update(_options(parser))
    return "\n".join(lines).rstrip() + "\n"


SHARED = 3
"""An option that so many commands explain in the same way is explained once."""
EXAMPLES = re.compile(r"^examples:\n(?:  .*(?:\n|\Z))*\n?", re.MULTILINE)
"""What --help shows too, and the how-tos type in."""
WIDEST = 24


def _common(parsers: list[argparse.ArgumentParser]) -> dict[str, str]:
    """The options that several commands share, each with the meaning that most of them give it."""
    found = Counter(
        (_shown(action), _help(inner, action))
        for parser in parsers
        for inner in _every(parser)
        for action in _words(inner)[1]
    )
    meanings: dict[str, str] = {}
    for (shown, meaning), count in found.most_common():
        if count >= SHARED:
            meanings.setdefault(shown, meaning)
    return meanings


def _twin(parser: argparse.ArgumentParser, others: dict[str, argparse.ArgumentParser]) -> dict[str, str]:
    """The options that an older command shares with the one that took its place."""
    mine = {(_shown(action), _help(parser, action)) for action in _words(parser)[1]}
    theirs = [{(_shown(action), _help(other, action)) for action in _words(other)[1]} for other in others.values()]
    return dict(max((mine & options for options in theirs), key=len))


def _every(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for inner, _ in _words(parser)[2].values():
        yield from _every(inner)


def _command(
    parser: argparse.ArgumentParser, name: str, meaning: str, epilog: str, common: dict[str, str], *, depth: int
) -> Iterator[str]:
    positional, options, nested = _words(parser)
    yield f"{'#' * depth} {name}"
    yield ""
    yield _sentence(meaning)
    yield ""
    words = [action for action in (*positional, *options) if common.get(_shown(action)) != _help(parser, action)]
    block = _aligned(
        [
            (_usage(action) if action in positional else _shown(action), _help(parser, action) + _needed(action))
            for action in words
        ]
    )
    shared = [action.option_strings[-1] for action in options if action not in words]
    if shared:
        block.append(f"also: {', '.join(shared)}")
    if epilog:
        block += ["", *epilog.strip("\n").splitlines()] if block else epilog.strip("\n").splitlines()
    if block:
        yield from ("```text", *block, "```", "")
    for word, (inner, words) in nested.items():
        text = EXAMPLES.sub("", inner.epilog or "")
        yield from _command(inner, f"{name} {word}", words, text, common, depth=depth + 1)
        common = {**_options(inner), **common}


def _options(parser: argparse.ArgumentParser) -> dict[str, str]:
    return {_shown(one): _help(parser, one) for one in _words(parser)[1]}


def _aligned(rows: list[tuple[str, str]]) -> list[str]:
    width = max((len(word) for word, _ in rows if len(word) <= WIDEST), default=0)
    return [f"{word:<{width}}  {meaning}" for word, meaning in rows]


def _needed(action: argparse.Action) -> str:
    return " (required)" if action.option_strings and action.required else ""


Nested = dict[str, tuple[argparse.ArgumentParser, str]]


def _words(parser: argparse.ArgumentParser) -> tuple[list[argparse.Action], list[argparse.Action], Nested]:
    """Positional words, options (without those every command has) and nested commands."""
    positional: list[argparse.Action] = []
    options: list[argparse.Action] = []
    nested: Nested = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            told = {choice.dest: choice.help or "" for choice in action._choices_actions}
            nested = {word: (inner, told.get(word, "")) for word, inner in action.choices.items()}
        elif action.help == argparse.SUPPRESS or action.dest in ("help", "directory", "feature", "json"):
            continue
        elif action.option_strings:
            options.append(action)
        else:
            positional.append(action)
    return positional, options, nested


def _value(action: argparse.Action) -> str:
    if isinstance(action.metavar, tuple):
        return " ".join(action.metavar)
    if action.choices is not None and action.metavar is None:
        return "|".join(str(choice) for choice in action.choices)
    return action.metavar or (action.dest.upper() if action.option_strings else action.dest)


def _shown(action: argparse.Action) -> str:
    value = _value(action)
    if not action.option_strings:
        return value
    return ", ".join(action.option_strings) + ("" if action.nargs == 0 else f" {value}")


def _usage(action: argparse.Action) -> str:
    value = _value(action)
    if not action.option_strings:
        many = action.nargs in ("*", "+", argparse.REMAINDER)
        value += " …" if many else ""
        return f"[{value}]" if action.nargs in ("?", "*", argparse.REMAINDER) else value
    word = action.option_strings[-1] + ("" if action.nargs == 0 else f" {value}")
    return word if action.required else f"[{word}]"


def _help(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    return parser._get_formatter()._expand_help(action).replace("\n", " ")


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


def settings_page() -> str:
    """docs/reference/settings.md: every key of every settings file, and every variable."""
    lines = ["# Settings", "", NOTE]
    for name, (keys, where) in key_tables().items():
        lines += [f"## {name}", "", where, "", "|key|kind|meaning|default|", "|---|---|---|---|"]
        lines += [f"|`{key}`|{told.kind}|{told.meaning}|{_default(told.default)}|" for key, told in keys.items()]
        lines.append("")
    lines += [
        "An unknown key, a value of the wrong kind or a file that is not TOML is an error that names file, line and key.", "",
        "## Environment", "", "|variable|meaning|", "|---|---|",
    ]  # fmt: skip
    lines += [f"|`{name}`|{meaning}|" for name, meaning in sorted(settings.VARIABLES.items())]
    return "\n".join(lines).rstrip() + "\n"


def key_tables() -> dict[str, tuple[dict[str, settings.Key], str]]:
    """Every table of keys in base/settings.py, with the file it describes."""
    places = {
        "PROJECT_KEYS": ("Project", "`.handoff/config.toml` in the repository."),
        "HOME_KEYS": ("Machine", "`config.toml` in `$HANDOFF_HOME`."),
    }
    tables = {}
    for name, value in vars(settings).items():
        if name.endswith("_KEYS") and isinstance(value, dict):
            title, where = places[name]
            tables[title] = (value, where)
    return tables


def _default(value: object) -> str:
    return "" if value in (None, "", [], {}) else f"`{value}`"


def exit_codes_page() -> str:
    """docs/reference/exit-codes.md: what a script can rely on."""
    codes = {0: "Done. For `status` and other questions: answered, whatever the answer is."}
    for code, name, meaning in error_kinds():
        told = f"`{name}`: {' '.join(meaning.split())}"
        codes[code] = f"{codes[code]} {told}" if code in codes else told
    codes[Bug.exit_code] = (
        "A fault of handoff's own. A log that can be pasted into a report was written, and its path shown."
    )
    codes[INTERRUPTED] = "Interrupted with Ctrl-C."
    codes[main.PIPE_CLOSED] = "The reader of our output has gone (`handoff list` into `head`)."
    lines = ["# Exit codes", "", NOTE, "| code | meaning |", "|--:|---|"]
    lines += [f"| {code} | {meaning} |" for code, meaning in sorted(codes.items())]
    lines += [
        "", "Errors are two lines on standard error, `Error:` and `Hint:`. With `--json` the same is on standard output as",
        '`{"error": …, "hint": …, "exit_code": …}`.',
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def error_kinds() -> list[tuple[int, str, str]]:
    """Exit code, name and meaning of the kinds of errors: those of base/errors.py, and those that have a code of their own."""
    found = []
    for module, tree in _sources():
        kinds = {node.name: _kind(node) for node in tree.body if isinstance(node, ast.ClassDef)}
        for name, (_, own, meaning) in kinds.items():
            code = _exit_code(name, kinds) if module == "base.errors" else own
            if code is not None and name != "HandoffError":
                found.append((code, name, meaning))
    return sorted(found)


def _sources() -> Iterator[tuple[str, ast.Module]]:
    """Every module of the package by its dotted name, in the same order on every disk: the pages are the same bytes."""
    top = os.path.dirname(handoff.__file__)
    for at, folders, names in os.walk(top):
        folders.sort()
        for name in sorted(names):
            if name.endswith(".py"):
                with open(os.path.join(at, name), encoding="utf-8") as file:
                    place = os.path.relpath(os.path.join(at, name), top).removesuffix(".py")
                    yield place.replace(os.sep, "."), ast.parse(file.read())


def _kind(node: ast.ClassDef) -> tuple[list[str], int | None, str]:
    code = None
    for line in node.body:
        if isinstance(line, ast.Assign) and ast.unparse(line.targets[0]) == "exit_code":
            code = int(ast.unparse(line.value))
    return [ast.unparse(base) for base in node.bases], code, ast.get_docstring(node) or ""


def _exit_code(name: str, kinds: dict[str, tuple[list[str], int | None, str]]) -> int | None:
    bases, code, _ = kinds.get(name, ([], None, ""))
    if code is not None:
        return code
    return next((found for base in bases if (found := _exit_code(base, kinds)) is not None), None)


CHINESE = {
    "Look": "查看", "Decide": "决定", "Hand over": "交接", "Let agents work": "让智能体工作", "Keep in order": "保持有序",
}  # fmt: skip
TABLE = re.compile(r"(?<=<!-- commands, written by make docs -->\n).*?(?=<!-- end -->)", re.DOTALL)


def readme_with_table(name: str) -> str:
    """A README whose table has the commands of the first page of help."""
    with open(os.path.join(os.path.dirname(DOCS), name), encoding="utf-8") as file:
        text = file.read()
    chinese = name.endswith(".zh.md")
    lines = ["| 用途 | 命令 |" if chinese else "| for | commands |", "|---|---|"]
    for group, commands in FIRST.items():
        words = " ".join(f"`{command}`" for command in commands)
        lines.append(f"| {CHINESE[group] if chinese else group} | {words} |")
    return TABLE.sub(lambda _: "\n" + "\n".join(lines) + "\n\n", text)


READMES = ("README.md", "README.zh.md")
PAGES = {
    "reference/commands.md": commands_page,
    "reference/settings.md": settings_page,
    "reference/exit-codes.md": exit_codes_page,
}


def write(name: str, text: str) -> None:
    """Put one page in its place."""
    path = os.path.normpath(os.path.join(DOCS, name))
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    print(f"wrote {os.path.relpath(path, os.path.dirname(DOCS))}")


def run() -> int:
    """`python docs/generate.py [reference|picture|stories|page]`; the first two when nothing is said: stories take their
    time, and the page needs a browser."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="?", choices=("reference", "picture", "stories", "page", "all"), default="all")
    what = parser.parse_args().what
    if what in ("reference", "all"):
        for name, page in PAGES.items():
            write(name, page())
        for name in READMES:
            write(os.path.join(os.pardir, name), readme_with_table(name))
    if what in ("picture", "all"):
        sys.path.insert(0, DOCS)
        import board_picture
        import picture

        write("picture.svg", picture.draw())
        write("board.svg", board_picture.draw())
    if what == "stories":
        sys.path.insert(0, DOCS)
        import story_pictures

        write("cheats.svg", story_pictures.cheats())
        write("fan-in.svg", story_pictures.fan_in())
    if what == "page":
        sys.path.insert(0, DOCS)
        import page_pictures

        for name, taken in page_pictures.draw():
            os.makedirs(os.path.join(DOCS, os.path.dirname(name)), exist_ok=True)
            with open(os.path.join(DOCS, name), "wb") as file:
                file.write(taken)
            print(f"wrote docs/{name}")
    return 0


if __name__ == "__main__":
    sys.exit(run())

"""What the pages show is what happens: every `console` block is typed in, in order, in an empty folder."""

from __future__ import annotations

import argparse
import ast
import re
from difflib import get_close_matches
from functools import cache
from typing import TYPE_CHECKING

import pytest

from examples import Shell, examples, missing
from handoff.base.errors import UsageError
from handoff.surfaces.cli.catalog import CATALOG, NOUNS
from handoff.surfaces.cli.dispatch import load, resolve
from handoff.surfaces.cli.manual import RENAMED
from source import PROGRAM, literals, package_modules, project_files, read

if TYPE_CHECKING:
    from handoff.surfaces.cli.command import Parser

PAGES = tuple(
    name
    for name in project_files()
    if name.endswith(".md") and (name == "README.md" or name.startswith("docs/")) and "```console" in read(name)
)


@pytest.mark.parametrize("name", PAGES)
def test_what_the_page_shows_is_what_happens(name, tmp_path):
    shell = Shell(str(tmp_path))
    for example in examples(read(name)):
        code, output = shell.run(example.line)
        assert "/handoff/surfaces/" not in output, f"a traceback of ours: $ {example.line}\n{output}"
        assert code == example.code, f"$ {example.line}\nexit {code}\n{output}"
        lost = missing(example.shown, output)
        assert not lost, f"$ {example.line}\npromised: {lost}\nsaid:\n{output}"


def test_every_how_to_is_typed_in():
    silent = {name for name in project_files() if name.startswith("docs/howto/") and name.endswith(".md")} - set(PAGES)
    assert silent == set()


def test_the_newcomer_has_no_pytest_and_no_name_for_a_first_branch(tmp_path):
    shell = Shell(str(tmp_path))
    assert shell.run("pytest --version")[0] == 127
    assert "No module named pytest" in shell.run("python3 -m pytest")[1]
    assert shell.run("git config init.defaultBranch")[0] == 1
    assert shell.run("handoff --version")[0] == 0


NAMED = re.compile(r"(?<![\w./-])handoff ((?:-C \S+ )?[a-z][a-z-]*(?: [^`\n]*)?)")
CODE = re.compile(r"^```(?:sh|console|bash)\n(.*?)^```|`([^`\n]+)`", re.DOTALL | re.MULTILINE)


def _named(text: str) -> list[str]:
    """What a page says about our commands, in its blocks and in the middle of its sentences."""
    pieces = [block or inline for block, inline in CODE.findall(text)]
    return [found for piece in pieces for found in NAMED.findall(piece)]


@pytest.mark.parametrize(
    "name",
    [name for name in project_files() if name.endswith(".md") and name != "CHANGELOG.md"],
)
def test_every_command_a_page_names_is_there_with_its_options(name):
    lost = [said for said in _named(read(name)) if not _can_be_typed(said)]
    assert not lost, f"{name} names what is not there: {lost}"


@cache
def _parser(name: str) -> Parser:
    return load(name, "handoff")[1]


def _can_be_typed(said: str) -> bool:
    """Whether a command is there with its verb and every option that is named."""
    words = re.split(r"\s+", re.split(r" [|&#<>]|[;)]|&&|\$\(", said)[0].strip())
    words = words[2:] if words[0] in ("-C", "--feature") else words
    chosen, rest = resolve(words[0].rstrip(".,:'\""), words[1:])
    if chosen in ("hook", "help", "docs"):
        return True
    if chosen not in CATALOG:
        return chosen in NOUNS and not any(re.match("[a-z]", word) for word in rest)
    parser = _parser(chosen)
    verbs = {
        word: inner
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
        for word, inner in action.choices.items()
    }
    own = rest[: rest.index("--")] if "--" in rest else rest
    if verbs and own and re.fullmatch("[a-z]+", own[0]) and own[0] not in verbs:
        return False
    parsers = (parser, verbs[own[0]]) if own and own[0] in verbs else (parser, *parser.nested)
    known = {option for inner in parsers for action in inner._actions for option in action.option_strings}
    return not any((flag := re.match(r"--[a-z][a-z-]+", word)) and flag[0] not in known for word in own)


OURS = sorted({name.partition(" ")[0] for name in (*CATALOG, *NOUNS)})
# What follows our name in a sentence, up to the end of the sentence or of the quotation.
ADVICE = re.compile(rf"(?:{PROGRAM}|(?<![\w./-])handoff) ((?:(?:-C|--feature) \S+ )?([a-z][a-z-]*)[^`'\"\n,;()\0]*)")


QUOTED = re.compile(rf"""(?<=[\w-]) (['"])(?!{PROGRAM}|handoff)[^'"\n]*\1""")
MENTIONED = ("setup service", "git-guard")
"""Named as the author of a file or a message: nobody is to type it."""


def _advice(text: str) -> list[str]:
    """The commands a text names: it speaks of one where the word is one of ours, was one, or is written almost like one."""
    return [
        re.split(r"\.(?:\s|$)|  |: | or ", said)[0].strip()
        for said, first in ADVICE.findall(QUOTED.sub(" X", text))
        if first in OURS or first in RENAMED or (first[:-1] not in OURS and get_close_matches(first, OURS, cutoff=0.8))
    ]


def _parses(said: str) -> bool:
    """Whether the real parser takes the command, or the beginning of it that has all its options: words may follow it."""
    words = [re.sub(r"\b[A-Z]+\b", "1", word.partition("|")[0]) for word in said.split()]
    words = words[2:] if words[0] in ("-C", "--feature") else words
    chosen, rest = resolve(words[0], words[1:])
    if chosen not in CATALOG:
        return True
    options = max((at + 1 for at, word in enumerate(rest) if word.startswith("--")), default=0)
    for end in range(len(rest), options - 1, -1):
        try:
            _parser(chosen).parse_args(rest[:end])
        except SystemExit:  # --help
            return True
        except UsageError as error:
            if "invalid choice: '1'" in error.message:  # put in when it is said
                return True
        else:
            return True
    return False


@pytest.mark.parametrize("room", sorted({module.name.split("/")[0] for module in package_modules()}))
def test_every_command_a_message_names_is_there_with_its_options(room):
    lost = [
        f"{module.name}:{line} handoff {said}"
        for module in package_modules()
        if module.name.split("/")[0] == room
        for line, text in literals(module.tree)
        for said in _advice(text)
        if said not in MENTIONED and not (_can_be_typed(said) and _parses(said))
    ]
    assert not lost, "advice that cannot be typed:\n" + "\n".join(lost)


def test_advice_that_cannot_be_typed_is_found():
    source = (
        'raise Wrong(f"No {x}.", f"Run: {app.settings.program} stauts --json, or {program} step done --chekc CMD.")'
    )
    [(_, text)] = [one for one in literals(ast.parse(source)) if PROGRAM in one[1]]
    assert _advice(text) == ["stauts --json", "step done --chekc CMD"]
    assert [_can_be_typed(said) for said in (*_advice(text), "step done --check CMD", "step")] == [
        False,
        False,
        True,
        True,
    ]
    assert [_parses(said) for said in ("step done 2 --unchecked", "step done --step N", "task block", "task block WHY")] == [
        False, True, False, True,
    ]  # fmt: skip
    assert _advice("handoff stumbled over it") == []


def test_the_harness_notices_a_broken_promise(tmp_path):
    page = "```console\n$ mkdir a && cd a\n$ export X=1\n$ echo one two; pwd\none …\n$ echo $X three; false  # exit 1\nfour\n```\n"
    found = list(examples(page))
    assert [example.line for example in found][2] == "echo one two; pwd"
    shell = Shell(str(tmp_path))
    answers = [shell.run(example.line) for example in found]
    assert [code for code, _ in answers] == [0, 0, 0, 1]
    assert answers[2][1].endswith("/a\n")
    assert missing(found[2].shown, answers[2][1]) == []
    assert missing(found[3].shown, answers[3][1]) == ["four"]
    assert answers[3][1] == "1 three\n"

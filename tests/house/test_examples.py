"""What the pages show is what happens: every `console` block is typed in, in order, in an empty folder."""

from __future__ import annotations

import argparse
import re

import pytest

from examples import Shell, examples, missing
from handoff.surfaces.cli.catalog import CATALOG, NOUNS
from handoff.surfaces.cli.dispatch import load, resolve
from source import project_files, read

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
    """Pages for people who change handoff itself need its checkout; every other one shows commands that are run."""
    silent = {name for name in project_files() if name.startswith("docs/howto/") and name.endswith(".md")} - set(PAGES)
    assert silent == {f"docs/howto/add-{what}.md" for what in ("a-command", "a-framework", "an-agent")}


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
    [
        name
        for name in project_files()
        if name.endswith(".md") and name not in ("CHANGELOG.md", "docs/howto/add-a-command.md")
    ],
)
def test_every_command_a_page_names_is_there_with_its_options(name):
    lost = []
    for said in _named(read(name)):
        words = re.split(r"\s+", re.split(r" [|&#<>]|[;)]|&&|\$\(", said)[0].strip())
        words = words[2:] if words[0] == "-C" else words
        chosen, rest = resolve(words[0].rstrip(".,:'\""), words[1:])
        if chosen == "hook" or chosen in ("help", "docs"):
            continue
        if chosen not in CATALOG:
            lost += [] if chosen in NOUNS and not any(re.match("[a-z]", word) for word in rest) else [said]
            continue
        parser = load(chosen, "handoff")[1]
        known = {
            option
            for inner in (parser, *parser.nested)
            for action in inner._actions
            for option in action.option_strings
        }
        verbs = {
            word
            for action in parser._actions
            if isinstance(action, argparse._SubParsersAction)
            for word in action.choices
        }
        own = rest[: rest.index("--")] if "--" in rest else rest
        lost += [said for word in own if (flag := re.match(r"--[a-z][a-z-]+", word)) and flag[0] not in known]
        if verbs and own and re.fullmatch("[a-z]+", own[0]) and own[0] not in verbs:
            lost.append(said)
    assert not lost, f"{name} names what is not there: {lost}"


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

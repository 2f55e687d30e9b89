"""What the pages show is what happens: every `console` block is typed in, in order, in an empty folder."""

from __future__ import annotations

import pytest

from examples import Shell, examples, missing
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

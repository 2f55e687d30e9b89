"""Run the `console` blocks of a Markdown page as a newcomer would, and compare what the page promises."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import venv
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_BLOCK = re.compile(r"^```console\n(.*?)^```", re.DOTALL | re.MULTILINE)
_EXIT = re.compile(r"\s+# exit (\d+)$")
_SECONDS = 200


class Example(NamedTuple):
    """One command line of a page, the exit code it promises, and the lines it shows (`…` stands for anything)."""

    line: str
    code: int
    shown: tuple[str, ...]


def examples(text: str) -> Iterator[Example]:
    """Every `$ ` line with its `> ` continuation lines and the output below it; `# exit N` promises another code."""
    for block in _BLOCK.findall(text):
        words: list[str] = []
        shown: list[str] = []
        for line in [*block.splitlines(), "$ "]:
            if line.startswith("$ "):
                if words:
                    yield _example("\n".join(words), shown)
                words, shown = [line[2:]], []
            elif (line == ">" or line.startswith("> ")) and not shown:
                words.append(line[2:])
            else:
                shown.append(line)


def _example(line: str, shown: list[str]) -> Example:
    match = _EXIT.search(line)
    return Example(_EXIT.sub("", line), int(match[1]) if match else 0, tuple(text for text in shown if text.strip()))


def _machine_of_a_newcomer(home: str) -> dict[str, str]:
    """`handoff` and a plain Python are found, pytest is nowhere, and git has not been told how a first branch is called."""
    folder = os.path.join(home, "machine")
    venv.create(folder, symlinks=True, with_pip=False)
    launcher = os.path.join(folder, "bin", "handoff")
    with open(launcher, "w", encoding="utf-8") as file:
        file.write(f'#!/bin/sh\nexec "{sys.executable}" -m handoff.surfaces.cli.main "$@"\n')
    os.chmod(launcher, 0o755)
    config = os.path.join(home, "gitconfig-of-a-newcomer")
    with open(config, "w", encoding="utf-8") as file:
        file.write("[user]\n\tname = New Comer\n\temail = new@example.invalid\n")
    others = [one for one in os.environ["PATH"].split(os.pathsep) if not os.path.exists(os.path.join(one, "pytest"))]
    return {"PATH": os.pathsep.join([os.path.join(folder, "bin"), *others]), "GIT_CONFIG_GLOBAL": config}


class Shell:
    """A person's shell in one folder: it remembers the folder and what was exported."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.environment = {**os.environ, **_machine_of_a_newcomer(os.environ["HOME"])}
        self._memory = os.path.join(os.environ["HOME"], "shell-memory")

    def run(self, line: str) -> tuple[int, str]:
        """Exit code and both streams, in order."""
        script = f"{line}\ncode=$?\n{{ pwd; env -0; }} >'{self._memory}'\nexit $code\n"
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", script], cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=_SECONDS, check=False,
        )  # fmt: skip
        if os.path.exists(self._memory):
            with open(self._memory, encoding="utf-8") as file:
                self.folder, _, rest = file.read().partition("\n")
            self.environment = dict(pair.split("=", 1) for pair in rest.split("\0") if "=" in pair)
            os.unlink(self._memory)
        return done.returncode, done.stdout.decode("utf-8", "replace")


def missing(shown: tuple[str, ...], output: str) -> list[str]:
    """The promised lines that the output does not hold, in their order."""
    lost = []
    lines = iter(output.splitlines())
    for promise in shown:
        if promise.strip() == "…":
            continue
        pattern = re.compile(".*".join(re.escape(part) for part in promise.rstrip().split("…")))
        if not any(pattern.search(line) for line in lines):
            lost.append(promise)
    return lost

"""The commands of a session: the last run of each line, the tests that failed in it, and what is red now."""

from __future__ import annotations

import os
import re

from handoff.base.record import TYPE_CHECKING, Record

if TYPE_CHECKING:
    from collections.abc import Callable

    from handoff.agents.history.entries import HistoryEntry

LINES, FAILING, TAIL, RAW = 300, 20, 1_200, 8_000
_FAILING = (
    r"(?m)^(?:FAILED (\S+::\S+).*|ERROR (\S+(?:::\S+|\.py)).*|(?:FAIL|ERROR): (.+)|FAIL\s+(\S+)|\s*--- FAIL: (\S+).*|\s*not ok \d+ -? ?(.+)"
    r"|test (\S+) \.\.\. FAILED|(error\[E\d+\]: .+)|\s*[✖✕×✗] (.+?)(?: \(?\d[\d.]* ?m?s\)?)?|\s+● (.+))\s*$"
)
_WRAPPED = r"""(?s)^(?:/\S*/)?(?:ba|z|da)?sh\s+-\w*c\s+(['"]?)(.+)\1\s*$"""
_BEFORE = "env time timeout nice uv uvx poetry pipenv run npx pnpx bunx exec sudo command".split()
_RUNNERS = "npm pnpm yarn bun go cargo make just dotnet mvn gradle gradlew tox nox rake mix".split()
_PYTHON = r"python[\d.]*"


class CommandRun(Record):
    """The last run of one command line."""

    command: str
    exit: int | None = None
    ok: bool | None = None
    """None where nobody knows: it may still run."""
    tail: str = ""
    failing: tuple[str, ...] = ()
    at: float = 0.0
    times: int = 1
    reds: int = 0
    """How often it was red since it was last green."""

    @property
    def verdict(self) -> str:
        """How it came out, in words."""
        if self.ok is None:
            return "no result"
        return "green" if self.ok else f"red (exit {self.exit})" if self.exit else "red"


def failing_tests(output: str) -> tuple[str, ...]:
    """The tests that an output names as failed, in the runners' own words; each once."""
    found: dict[str, None] = {}
    for match in re.finditer(_FAILING, output):
        name = next(group for group in match.groups() if group).strip()
        found.setdefault(name.partition(" - ")[0][:200])
    return tuple(found)[:FAILING]


def program_of(command: str) -> tuple[str, tuple[str, ...]]:
    """The program that a line really runs, and what it is pointed at: `cd x && python3 -m pytest -q a.py` is pytest at a.py."""
    if wrapped := re.match(_WRAPPED, command.strip()):
        command = wrapped[2]
    line = re.split(r"&&|\|\||[;\n]", command.partition("|")[0] if "||" not in command else command)[-1]
    words = [word.strip("'\"") for word in line.split() if not re.match(r"\d?>", word)]
    while words and (re.fullmatch(r"\w+=.*", words[0]) or os.path.basename(words[0]) in _BEFORE or words[0].isdigit()):
        words.pop(0)
    if not words:
        return "", ()
    name, rest = os.path.basename(words[0]), words[1:]
    if re.fullmatch(_PYTHON, name):
        while rest and rest[0].startswith("-") and rest[0] != "-m":
            rest.pop(0)
        if rest[:1] == ["-m"] and len(rest) > 1:
            name, rest = rest[1], rest[2:]
        elif rest:
            name, rest = rest[0], rest[1:]
    elif name in _RUNNERS:
        subs = [word for word in rest if not word.startswith("-") and word != "run"]
        if subs:
            name = f"{name} {subs[0]}"
            rest = rest[rest.index(subs[0]) + 1 :]
    return name, tuple(word for word in rest if not word.startswith("-"))


def _covers(later: tuple[str, ...], red: CommandRun, red_at: tuple[str, ...]) -> bool:
    """Whether a later run of the same program looked at all that was red: then its result counts."""
    if not later or later == red_at:
        return True
    wanted = red_at or red.failing
    return bool(wanted) and all(any(one.startswith(at) or (at in one) for at in later) for one in wanted)


class RunLog:
    """Runs in, the last of each line out."""

    def __init__(self) -> None:
        self._runs: dict[str, CommandRun] = {}

    def add(self, command: str, entry: HistoryEntry) -> None:
        """One run more, as it was."""
        before = self._runs.pop(command, None)
        ok = entry.ok if entry.exit is None else entry.exit == 0
        if ok is None and failing_tests(entry.text):  # nobody kept the code; the runner's own words say it
            ok = False
        reds = 0 if ok or not before else before.reds
        self._runs[command] = CommandRun(
            command=command,
            exit=entry.exit,
            ok=ok,
            tail=entry.text[-RAW:],
            at=entry.at,
            times=before.times + 1 if before else 1,
            reds=reds + 1 if ok is False else reds,
        )
        while len(self._runs) > LINES:
            del self._runs[next(iter(self._runs))]

    def result(self, cleaned: Callable[..., str]) -> tuple[tuple[CommandRun, ...], tuple[CommandRun, ...]]:
        """All runs without secrets, and those of them that are red now."""
        runs = tuple(
            run._replace(
                command=cleaned(run.command, 1_000),
                tail=cleaned(run.tail, TAIL, end=True),
                failing=failing_tests(cleaned(run.tail, RAW)) if run.ok is False else (),
            )
            for run in self._runs.values()
        )
        pointed = [program_of(run.command) for run in runs]
        red = tuple(
            run
            for index, run in enumerate(runs)
            if run.ok is False
            and not any(
                later.ok is not None
                and pointed[at][0] == pointed[index][0]
                and _covers(pointed[at][1], run, pointed[index][1])
                for at, later in enumerate(runs)
                if at > index
            )
        )
        return runs, red

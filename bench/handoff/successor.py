"""A scripted successor: whatever its text does not tell it must find out again, with real commands and real reads."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, NamedTuple

from bench.handoff import scoring

if TYPE_CHECKING:
    from bench.handoff.journey import Fact
    from bench.handoff.play import Played

_PAGE = 4000
"""Characters of a transcript that it reads at once, from the end."""


class Effort(NamedTuple):
    """What was done again."""

    commands: int = 0
    reads: int = 0
    size: int = 0
    """Bytes that came back."""
    questions: int = 0
    """What stands nowhere: a person must be asked."""

    def __add__(self, other: Effort) -> Effort:  # type: ignore[override]
        return Effort(*(one + two for one, two in zip(self, other, strict=True)))


def rediscover(played: Played, missing: tuple[Fact, ...]) -> Effort:
    """What it costs to find out what the text does not tell."""
    done = Effort()
    outputs = {run["command"].lower(): run["output"] for run in played.trace.runs}
    for fact in missing:
        if fact.kind == "file":
            done += _git(played, "diff", played.trace.base, "--", fact.words[0][0])
        elif fact.kind == "base":
            done += _git(played, "log", "--oneline", "-20")
        elif fact.kind == "result":
            done += Effort(commands=1, size=len(outputs.get(fact.words[0][0], "").encode()))
        elif fact.kind == "dead end":  # tried again: an edit, and a run that shows it once more
            done += Effort(commands=2, size=max((len(text.encode()) for text in outputs.values()), default=0))
    return done + _read_back(
        played, [fact for fact in missing if fact.kind not in ("file", "base", "result", "dead end")]
    )


def _git(played: Played, *words: str) -> Effort:
    said = subprocess.run(["git", *words], cwd=played.folder, capture_output=True, check=False).stdout
    return Effort(commands=1, size=len(said))


def _read_back(played: Played, wanted: list[Fact]) -> Effort:
    """Page by page from the end of the transcript until all is found; what is not in it is asked."""
    done, text = Effort(), ""
    left = played.transcript
    while wanted and left:
        page, left = left[-_PAGE:], left[:-_PAGE]
        text = page + text
        done += Effort(reads=1, size=len(page.encode()))
        wanted = [fact for fact in wanted if not scoring.tells(text[: _PAGE * 2], fact)]
    return done + Effort(questions=len(wanted))

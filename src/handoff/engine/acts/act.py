"""An act as a button, a key or a request asks for it, and what came of it."""

from __future__ import annotations

import shlex

from handoff.base.record import TYPE_CHECKING, Record

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from handoff.base.errors import HandoffError
    from handoff.board.tasks.tasks import Task


class ActDone(Record):
    """What came of an act: lines for a person, facts for a program."""

    text: str
    facts: dict[str, Any]
    style: str = ""
    hint: str = ""
    """Lines that say what comes next."""
    tasks: tuple[Task, ...] = ()
    notes: tuple[str, ...] = ()
    ok: bool = True
    """False where the flow is stuck all the same: its command ends with 1."""
    refusal: HandoffError | None = None
    """Why nothing was done, where there is more to tell of it than an error can."""


class Act(Record):
    """An act that a button, a key or a request asks for, in the words of its command."""

    verb: str
    words: tuple[str, ...] = ()
    options: Mapping[str, Any] = {}
    project: str = ""

    def line(self, program: str) -> str:
        """The command line that does the same."""
        given = {f"--{name.replace('_', '-')}": value for name, value in self.options.items() if value}
        named = [name if value is True else f"{name}={value}" for name, value in given.items()]
        named += ["--project", self.project] if self.project else []
        dashed = any(word.startswith("-") for word in self.words)
        rest = [*named, "--", *self.words] if dashed else [*self.words, *named]
        return shlex.join([program, *self.verb.split(), *rest])

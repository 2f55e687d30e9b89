"""What a sandboxed session may have done for it outside: these commands, these options, in its own name and no other."""

from __future__ import annotations

import os

from handoff.base.errors import Refused
from handoff.base.record import TYPE_CHECKING, Record

if TYPE_CHECKING:
    from argparse import Namespace

    from handoff.surfaces.cli.command import Parser

_NAMES = ("task", "project", "session", "fence", "name")
_HELD = ("task", "project", "session", "fence")

# Commands and the options a session may give; an option that is not here must be left alone. None of these reads or
# writes a file the caller names.
PASSED: dict[str, tuple[str, ...]] = {
    "heartbeat": (*_HELD, "words"),  # how long silence is believed is not for the silent to say
    "task done": (*_HELD, "name", "summary"),
    "task block": (*_HELD, "reason"),
    "task release": (*_HELD, "name", "reason"),
    "task ask": (*_HELD, "question", "choices", "path"),  # what counts without an answer is not for it to say
    "task note": (*_HELD, "text"),
    "task list": ("project", "state", "include_ended", "limit"),
    "show": ("project", "address"),
    "log": ("project", "address", "lines"),
    "gate list": ("project",),
    "snapshot take": ("message", "session", "ignored"),
    "mcp": (),
}
_ANY_TASK = ("show", "log")  # reading: every task of the project, and nothing else that has an address
_IN_WORKSPACE = ("snapshot take",)


class Caller(Record):
    """Whose broker it is, from the monitor's own facts."""

    session: str
    project: str
    task: str
    fence: int
    workspace: str
    checkout: str


class AllowList:
    """The rules of one session's broker."""

    def __init__(self, caller: Caller) -> None:
        self.caller = caller

    def command(self, name: str, directory: str) -> None:
        """Refuse a command that is not for sessions, and a folder that is not the session's."""
        if name not in PASSED:
            known = ", ".join(("hook", *PASSED))
            raise Refused(
                f"A sandboxed session may not use '{name}'.",
                f"From inside there are: {known}; documents and commits are done in the workspace itself.",
            )
        self.folder(directory)

    def folder(self, directory: str) -> None:
        """Refuse a folder outside the session's workspace."""
        if directory:
            top = os.path.realpath(self.caller.workspace)
            real = os.path.realpath(os.path.join(top, directory))
            if real != top and not real.startswith(top + "/"):
                raise Refused(f"{directory} is not in your workspace.", "Leave -C out.")

    def arguments(self, name: str, given: Namespace, parser: Parser) -> None:
        """Refuse an option that is not for sessions, and every name but the session's own."""
        self.folder(str(getattr(given, "directory", "") or ""))
        for option, value in vars(given).items():
            if option in ("json", "directory") or value == parser.get_default(option):
                continue
            if option not in PASSED[name]:
                raise Refused(f"A sandboxed session may not use that option of '{name}' ({option}).", "Leave it out.")
            self._own_name(option, value)
        given.only_tasks = name in _ANY_TASK

    def _own_name(self, option: str, value: object) -> None:
        mine = {
            "session": (self.caller.session,),
            "project": (self.caller.project,),
            "fence": (self.caller.fence,),
            "task": (self.caller.task, self.caller.task.rpartition("/")[2]),
        }
        mine["name"] = mine["task"]
        if option in _NAMES and value not in mine[option]:
            raise Refused(
                f"You speak for {self.caller.session} and task '{self.caller.task}' alone, not for {value!r}.",
                "Leave the option out: who you are is known.",
            )
        if option == "words" and isinstance(value, list) and value and value[0] != "status":
            raise Refused("A sandboxed session shows signs of life for its own task alone.", "Use: handoff heartbeat")

    def place(self, name: str) -> str:
        """Where the command is carried out: never where the caller says."""
        return self.caller.workspace if name in _IN_WORKSPACE else self.caller.checkout

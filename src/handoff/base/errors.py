"""What can go wrong, said to people: a message, and a hint that tells what to do next."""

from __future__ import annotations

INTERRUPTED = 130
"""The exit code of a command that a person interrupted."""


class HandoffError(Exception):
    """Every failure a person can meet. The surface prints message and hint and exits with `exit_code`."""

    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UserError(HandoffError):
    """Something is missing or wrong in what we were given: a file, a name, a value."""


class ConfigError(UserError):
    """A settings file cannot be used; the message names file, line and key."""


class Away(UserError):
    """The database or the room on a disk is away for now: the same request will be granted later."""


class UsageError(HandoffError):
    """The command line itself is wrong."""

    exit_code = 2


class Refused(HandoffError):
    """A guard said no: the request was understood and must not be done."""

    exit_code = 3


class Conflict(HandoffError):
    """Somebody else holds it, or the caller's fence is old."""

    exit_code = 4

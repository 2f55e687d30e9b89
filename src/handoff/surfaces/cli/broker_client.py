"""The broker of a sandboxed session, seen from inside: a command that needs the relay is carried out by the monitor outside.

Only what is needed to knock is imported: every hook of every sandboxed agent comes this way.
"""

from __future__ import annotations

import _socket as socket  # without the enums of `socket`: they would be a third of our time
import os
import sys
import time

MARK = b"handoff-broker-1 "
LARGEST = 256 * 1024
GONE = 1
HOOK_REFUSED = 2
_STREAMS = 3
_TRIES, _PAUSE = 1000, 0.01
# What works on the files of the workspace alone is done right here, inside the sandbox: outside, a link that the session
# planted in its workspace would be followed with the person's rights. The empty word is no command at all.
INSIDE = frozenset(
    " -h --help help -V --version version init switch list run generate start continue spec design prompt status next validate "
    "step note decide safe-commit scripted completions".split(" ")
)


def command_of(words: list[str]) -> str:
    """The command among the words; global options may stand before it."""
    at = 0
    while at < len(words):
        word = words[at]
        if word in ("-C", "--feature"):
            at += 2
        elif word == "--json" or word.startswith("--feature="):
            at += 1
        else:
            return word
    return ""


def pass_on(words: list[str], place: str) -> int:
    """Let the words be carried out outside, on our own three streams; the exit code is theirs."""
    body = b"\0".join(os.fsencode(word) for word in words)
    try:
        with _knock(place) as talk:
            talk.sendmsg([MARK + str(len(body)).encode() + b"\n"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, _streams())])
            talk.sendall(body)
            answer = talk.recv(1)
    except OSError as error:
        return _gone(words, error.strerror or "no answer")
    return answer[0] if answer else _gone(words, "it ended before it answered")


class _knock:  # noqa: N801 - reads as a word at its place of use
    """A connection to the broker. Sockets have short names, so we go to its folder for a moment."""

    def __init__(self, place: str) -> None:
        self.talk = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        here = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.chdir(os.path.dirname(place))
            self._connect(os.path.basename(place))
        finally:
            os.fchdir(here)
            os.close(here)

    def _connect(self, name: str) -> None:
        """The client is started together with its broker and may be the quicker one; or too many stand in line."""
        for _ in range(_TRIES):
            try:
                return self.talk.connect(name)
            except (FileNotFoundError, BlockingIOError):
                time.sleep(_PAUSE)
        return self.talk.connect(name)

    def __enter__(self) -> socket.socket:
        return self.talk

    def __exit__(self, *_: object) -> None:
        self.talk.close()


def _streams() -> bytes:
    """The numbers of our three streams; one that is closed is replaced by nothing."""
    found = b""
    for number in range(_STREAMS):
        try:
            os.fstat(number)
        except OSError:
            number = os.open(os.devnull, os.O_RDWR)  # noqa: PLW2901 - it lives as long as we do
        found += number.to_bytes(4, sys.byteorder)
    return found


def _gone(words: list[str], why: str) -> int:
    hook = words[:1] == ["hook"]
    text = f"handoff: the relay outside this session's sandbox does not answer ({why})."
    more = " Nothing is allowed until it does." if hook else " The session is over or was stopped: end here."
    code = HOOK_REFUSED if hook else GONE
    try:
        os.write(2, f"{text}{more}\n".encode("utf-8", "replace"))
    except OSError:
        return code  # nobody listens
    return code

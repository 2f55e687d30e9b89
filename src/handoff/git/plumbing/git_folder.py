"""What else a git folder holds: reflogs, settings, hooks, unfinished operations. Read by hand, so nothing planted can run."""

from __future__ import annotations

import os
import stat

from handoff.base.files import FileMemory
from handoff.base.record import TYPE_CHECKING
from handoff.git.plumbing import is_sha
from handoff.git.plumbing.beneath import Beneath
from handoff.git.plumbing.objects import FILE, LINK, PROGRAM
from handoff.git.plumbing.refs import walk

if TYPE_CHECKING:
    from handoff.git.plumbing import Source

_LOG_TAIL_BYTES = 256 * 1024
_KEPT_BYTES = 1024 * 1024
# What git remembers about an unfinished merge, pick, rebase or bisect, and what a person may have set up.
_STATE_FILES = (
    "MERGE_HEAD MERGE_MSG MERGE_MODE CHERRY_PICK_HEAD REVERT_HEAD ORIG_HEAD REBASE_HEAD SQUASH_MSG"
    " BISECT_LOG BISECT_START BISECT_TERMS BISECT_NAMES AUTO_MERGE"
).split()
_STATE_FOLDERS = ("rebase-merge", "rebase-apply", "sequencer")
_remembered = FileMemory()
_SHARED_FILES = ("config", "info/exclude", "info/attributes", "info/sparse-checkout")


def logs(source: Source) -> dict[str, bytes]:
    """The newest part of every reflog by its name under `logs/`; HEAD's is this worktree's own."""
    found = {}
    for base in dict.fromkeys((source.common, source.folder)):
        with Beneath(base) as files:
            found.update({name[5:]: _log(files, name, path) for name, path in walk(base, "logs/refs")})
            if base == source.folder and (own := files.read("logs/HEAD")):
                found["HEAD"] = _tail(own)
    return found


def _log(files: Beneath, name: str, path: str) -> bytes:
    """The newest part of one reflog; one that rests is not opened again."""
    try:
        facts = files.facts(name)
    except OSError:
        return b""
    return _remembered.get(path, facts, lambda: _tail(files.read(name)))


def join_logs(logs: dict[str, bytes]) -> bytes:
    """Many reflogs as one text: name, length, lines."""
    return b"".join(os.fsencode(name) + b"\0%d\n" % len(data) + data for name, data in sorted(logs.items()))


def split_logs(data: bytes) -> dict[str, bytes]:
    """The reflogs `join_logs` put together."""
    found = {}
    while data:
        header, _, rest = data.partition(b"\n")
        name, _, length = header.partition(b"\0")
        found[os.fsdecode(name)] = rest[: int(length)]
        data = rest[int(length) :]
    return found


def log_commits(log: bytes) -> list[str]:
    """The commits a reflog names, newest first, each once."""
    found: dict[str, None] = {}
    for line in reversed(log.split(b"\n")):
        for word in reversed(line.split(b" ", 2)[:2]):
            value = word.decode("ascii", "replace")
            if is_sha(value) and value.strip("0"):
                found[value] = None
    return list(found)


def stashes(source: Source) -> list[str]:
    """The stash entries of a checkout, oldest first: a stash is its reflog."""
    with Beneath(source.common) as files:
        lines = _tail(files.read("logs/refs/stash")).decode("utf-8", "surrogateescape").split("\n")
    words = (line.partition("\t")[0].split(" ", 2) for line in lines)
    return [two[1] for two in words if len(two) > 1 and is_sha(two[1])]


def settings_files(source: Source) -> dict[str, tuple[bytes, str]]:
    """Configuration, hooks and unfinished operations: name in the git folder -> bytes and mode.

    A link is its text: what it leads to is not of this folder, and in a session's clone may be anything of the person's.
    """
    shared = [*_SHARED_FILES, *(name for name, _ in walk(source.common, "hooks") if not name.endswith(".sample"))]
    own = [name for folder in _STATE_FOLDERS for name, _ in walk(source.folder, folder)]
    found: dict[str, tuple[bytes, str]] = {}
    with Beneath(source.common) as files:
        found.update(_kept(files, {name: name for name in shared}))
    with Beneath(source.folder) as files:
        if source.folder != source.common:
            found.update(_kept(files, {"config.worktree": "config.worktree"}))
        found.update(_kept(files, {name: f"state/{name}" for name in (*_STATE_FILES, *own)}))
    return found


def _kept(files: Beneath, names: dict[str, str]) -> dict[str, tuple[bytes, str]]:
    """Those of the files that are there, each under the name it is kept by."""
    found = {}
    for name, kept in names.items():
        try:
            facts = files.facts(name)
            if stat.S_ISLNK(facts.st_mode):
                found[kept] = (files.link(name), LINK)
            elif stat.S_ISREG(facts.st_mode) and facts.st_size <= _KEPT_BYTES:
                found[kept] = (files.read(name), PROGRAM if facts.st_mode & stat.S_IXUSR else FILE)
        except OSError:
            continue
    return found


def _tail(data: bytes) -> bytes:
    if len(data) <= _LOG_TAIL_BYTES:
        return data
    return data[-_LOG_TAIL_BYTES:].partition(b"\n")[2]

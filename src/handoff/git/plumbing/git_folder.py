"""What else a git folder holds: reflogs, settings, hooks, unfinished operations. Read by hand, so nothing planted can run."""

from __future__ import annotations

import os

from handoff.base.record import TYPE_CHECKING
from handoff.git.plumbing import is_sha, read_plain
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
_SHARED_FILES = ("config", "info/exclude", "info/attributes", "info/sparse-checkout")


def logs(source: Source) -> dict[str, bytes]:
    """The newest part of every reflog by its name under `logs/`; HEAD's is this worktree's own."""
    found = {}
    for base in dict.fromkeys((source.common, source.folder)):
        found.update({name[5:]: _tail(path) for name, path in walk(base, "logs/refs")})
    own = os.path.join(source.folder, "logs", "HEAD")
    if os.path.isfile(own):
        found["HEAD"] = _tail(own)
    return found


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
    lines = logs(source).get("refs/stash", b"").decode("utf-8", "surrogateescape").split("\n")
    words = (line.partition("\t")[0].split(" ", 2) for line in lines)
    return [two[1] for two in words if len(two) > 1 and is_sha(two[1])]


def settings_files(source: Source) -> dict[str, tuple[bytes, bool]]:
    """Configuration, hooks and unfinished operations: name in the git folder -> bytes and whether it may be executed."""
    files = [(name, os.path.join(source.common, name)) for name in _SHARED_FILES]
    if source.folder != source.common:
        files.append(("config.worktree", os.path.join(source.folder, "config.worktree")))
    files += [(name, path) for name, path in walk(source.common, "hooks") if not name.endswith(".sample")]
    files += [(f"state/{name}", os.path.join(source.folder, name)) for name in _STATE_FILES]
    for folder in _STATE_FOLDERS:
        files += [(f"state/{name}", path) for name, path in walk(source.folder, folder)]
    return {
        name: (read_plain(path), os.access(path, os.X_OK))
        for name, path in files
        if os.path.isfile(path) and os.path.getsize(path) <= _KEPT_BYTES
    }


def _tail(path: str) -> bytes:
    data = read_plain(path)
    if len(data) <= _LOG_TAIL_BYTES:
        return data
    return data[-_LOG_TAIL_BYTES:].partition(b"\n")[2]

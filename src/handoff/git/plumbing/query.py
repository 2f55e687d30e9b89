"""Read a checkout's git folder by hand: HEAD, refs, reflogs, settings. No process, so nothing planted there can run."""

from __future__ import annotations

import os
import stat
from typing import NamedTuple

from handoff.base.errors import Refused, UserError

_HEX = frozenset("0123456789abcdef")
_SHA_LENGTHS = (40, 64)
_LOG_TAIL_BYTES = 256 * 1024
_KEPT_BYTES = 1024 * 1024
# What git remembers about an unfinished merge, pick, rebase or bisect, and what a person may have set up.
_STATE_FILES = (
    "MERGE_HEAD", "MERGE_MSG", "MERGE_MODE", "CHERRY_PICK_HEAD", "REVERT_HEAD", "ORIG_HEAD", "REBASE_HEAD", "SQUASH_MSG",
    "BISECT_LOG", "BISECT_START", "BISECT_TERMS", "BISECT_NAMES", "AUTO_MERGE",
)  # fmt: skip
_STATE_FOLDERS = ("rebase-merge", "rebase-apply", "sequencer")
_PLAIN_FILES = (
    "HEAD",
    "config",
    "config.worktree",
    "index",
    "packed-refs",
    "commondir",
    "shallow",
    "info/exclude",
    "info/attributes",
    "info/grafts",
    "objects/info/alternates",
)
_SHARED_FILES = ("config", "info/exclude", "info/attributes", "info/sparse-checkout")


class Source(NamedTuple):
    """One checkout and where git keeps its things. A linked worktree shares `common` with its siblings."""

    top: str
    folder: str
    common: str

    @property
    def objects(self) -> str:
        return os.path.join(self.common, "objects")

    @property
    def index_file(self) -> str:
        return os.path.join(self.folder, "index")


class Head(NamedTuple):
    """What HEAD says: the branch it follows (or nothing) and the commit (or nothing, when unborn)."""

    branch: str
    commit: str


def open_source(top: str) -> Source:
    """The git folders behind the checkout at `top`."""
    link = os.path.join(top, ".git")
    folder = link
    if os.path.isfile(link):
        text = _read(link).decode("utf-8", "surrogateescape")
        if not text.startswith("gitdir:"):
            raise UserError(f"{link} is not a git folder.", "Run the command inside a git checkout.")
        folder = os.path.normpath(os.path.join(top, text[7:].strip()))
    if not os.path.isfile(os.path.join(folder, "HEAD")) and not os.path.islink(os.path.join(folder, "HEAD")):
        raise UserError(f"{top} has no git repository.", "Run the command inside a git checkout, or: git init")
    common = folder
    _check_plain(folder)
    shared = os.path.join(folder, "commondir")
    if os.path.isfile(shared):
        common = os.path.normpath(os.path.join(folder, os.fsdecode(_read(shared)).strip()))
    return Source(top, folder, common)


def _check_plain(folder: str) -> None:
    """Refuse a git folder in which a pipe or a device stands for one of git's files: git would wait at it for ever."""
    for name in _PLAIN_FILES:
        path = os.path.join(folder, name)
        try:
            mode = os.stat(path).st_mode
        except OSError:
            continue
        if not stat.S_ISREG(mode):
            raise Refused(
                f"{path} is not a plain file.", "Somebody put something else there; look at it, then remove it."
            )


def head(source: Source) -> Head:
    """HEAD without asking git."""
    text = os.fsdecode(_read(os.path.join(source.folder, "HEAD"))).strip()
    if not text.startswith("ref:"):
        return Head("", text if is_sha(text) else "")
    branch = text[4:].strip()
    for base in (source.folder, source.common):
        value = os.fsdecode(_read(os.path.join(base, branch))).strip()
        if is_sha(value):
            return Head(branch, value)
    return Head(branch, _packed(source.common).get(branch, ""))


def refs(source: Source) -> dict[str, str]:
    """Every ref by its full name: packed, loose, and those only this worktree has. Symbolic refs keep their text."""
    found = _packed(source.common)
    for base in dict.fromkeys((source.common, source.folder)):
        for name, path in _walk(base, "refs"):
            value = os.fsdecode(_read(path)).strip()
            if is_sha(value) or value.startswith("ref:"):
                found[name] = value
    return found


def logs(source: Source) -> dict[str, bytes]:
    """The newest part of every reflog by its name under `logs/`; HEAD's is this worktree's own."""
    found = {name[5:]: _tail(path) for name, path in _walk(source.common, "logs/refs")}
    if source.folder != source.common:
        found.update({name[5:]: _tail(path) for name, path in _walk(source.folder, "logs/refs")})
    own = os.path.join(source.folder, "logs", "HEAD")
    if os.path.isfile(own):
        found["HEAD"] = _tail(own)
    return found


def join_logs(logs: dict[str, bytes]) -> bytes:
    """Many reflogs as one text: name, length, lines."""
    parts = [os.fsencode(name) + b"\0" + str(len(data)).encode() + b"\n" + data for name, data in sorted(logs.items())]
    return b"".join(parts)


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


def settings_files(source: Source) -> dict[str, tuple[bytes, bool]]:
    """Configuration, hooks and unfinished operations: name in the git folder -> bytes and whether it may be executed."""
    found: dict[str, tuple[bytes, bool]] = {}
    for name in _SHARED_FILES:
        _keep(found, name, os.path.join(source.common, name))
    if source.folder != source.common:
        _keep(found, "config.worktree", os.path.join(source.folder, "config.worktree"))
    for name, path in _walk(source.common, "hooks"):
        if not name.endswith(".sample"):
            _keep(found, name, path)
    for name in _STATE_FILES:
        _keep(found, "state/" + name, os.path.join(source.folder, name))
    for folder in _STATE_FOLDERS:
        for name, path in _walk(source.folder, folder):
            _keep(found, "state/" + name, path)
    return found


def excludes(source: Source) -> str:
    """The checkout's private list of ignored files, if it has one."""
    path = os.path.join(source.common, "info", "exclude")
    return path if os.path.isfile(path) else ""


def is_sha(text: str) -> bool:
    """Whether the text is a full object name."""
    return len(text) in _SHA_LENGTHS and _HEX.issuperset(text)


def stashes(log: bytes) -> list[tuple[str, str]]:
    """Stash entries of a stash reflog, oldest first: commit and message."""
    found = []
    for line in log.decode("utf-8", "surrogateescape").split("\n"):
        facts, _, message = line.partition("\t")
        words = facts.split(" ", 2)
        if len(words) > 1 and is_sha(words[1]):
            found.append((words[1], message))
    return found


def _packed(common: str) -> dict[str, str]:
    found = {}
    for line in os.fsdecode(_read(os.path.join(common, "packed-refs"))).split("\n"):
        value, _, name = line.partition(" ")
        if name and is_sha(value):
            found[name] = value
    return found


def _walk(base: str, folder: str) -> list[tuple[str, str]]:
    """Files under base/folder as (name relative to base, path); links to folders are not entered."""
    found = []
    waiting = [folder]
    while waiting:
        at = waiting.pop()
        try:
            entries = sorted(os.scandir(os.path.join(base, at)), key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            name = f"{at}/{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                waiting.append(name)
            elif entry.is_file():
                found.append((name, entry.path))
    return found


def _keep(found: dict[str, tuple[bytes, bool]], name: str, path: str) -> None:
    if os.path.isfile(path) and os.path.getsize(path) <= _KEPT_BYTES:
        found[name] = (_read(path), os.access(path, os.X_OK))


def _tail(path: str) -> bytes:
    data = _read(path)
    if len(data) <= _LOG_TAIL_BYTES:
        return data
    return data[-_LOG_TAIL_BYTES:].partition(b"\n")[2]


def read_plain(path: str) -> bytes:
    """The bytes of a plain file, nothing of anything else: a pipe somebody put there would keep us waiting for ever."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return b""
        return file.read()


_read = read_plain

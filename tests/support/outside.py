"""A watch over what the process of a test changes: only what lies in temp folders of this run, in caches of this clone, and devices.

The interpreter itself tells before each act (`sys.addaudithook`), so a breach is stopped, not only noticed. A folder or file that
`tempfile` is about to make is ours from then on; what else lies in /tmp is somebody's. What a program does that a test starts is
not seen here; what it is told about its home is, and whether it left something in the person's own (`PersonsHome`).
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, Any

from source import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
# Where an act's arguments name what is changed, and where the folder its path is relative to.
_ACTS: dict[str, tuple[tuple[int, int], ...]] = {
    "os.chflags": ((0, -1),),
    "os.chmod": ((0, 2),),
    "os.chown": ((0, 3),),
    "os.link": ((1, 3),),
    "os.mkdir": ((0, 2),),
    "os.remove": ((0, 1),),
    "os.removexattr": ((0, -1),),
    "os.rename": ((0, 2), (1, 3)),
    "os.rmdir": ((0, 1),),
    "os.setxattr": ((0, -1),),
    "os.symlink": ((1, 2),),
    "os.truncate": ((0, -1),),
    "os.utime": ((0, 3),),
    "shutil.rmtree": ((0, 1),),
    "sqlite3.connect": ((0, -1),),
}
_FOLLOWED = frozenset({"open", "os.chflags", "os.chmod", "os.chown", "os.setxattr", "os.removexattr", "os.truncate", "os.utime", "sqlite3.connect"})  # fmt: skip
_STARTS = {"subprocess.Popen": 3, "os.posix_spawn": 2, "os.exec": 2}
_HOMES = ("HOME", "HANDOFF_HOME", "GIT_CONFIG_GLOBAL")
_CACHES = (".pytest_cache", ".hypothesis")
_LEFT_BEHIND = (
    ".gitconfig",
    ".config/git/config",
    ".git-credentials",
    ".handoff",
    ".config/handoff",
    ".claude.json",
    ".codex",
)
_OURS_TO_MAKE = frozenset({"tempfile.mkdtemp", "tempfile.mkstemp"})


class Watch:
    """Sees what happens while a test runs; `roots` are the folders that may be changed."""

    def __init__(self) -> None:
        self.roots = [os.path.join(ROOT, name) for name in _CACHES]
        self.made: set[str] = set()
        """What `tempfile` has made, whoever asked for it."""
        self.found: list[str] = []
        self.on = False
        self._also: list[str] = []

    def install(self, temp: str) -> None:
        """Hear from now on; `temp` is the folder of this run."""
        self.roots.append(os.path.realpath(temp))
        sys.addaudithook(self._hear)

    @contextlib.contextmanager
    def watching(self, *also: str) -> Iterator[None]:
        """Stop every breach inside, and fail at the end if there was one that somebody caught."""
        self.found.clear()
        self._also = [os.path.realpath(root) for root in also]
        self.on = True
        try:
            yield
        finally:
            self.on = False
        assert not self.found, "outside of this test's folders:\n" + "\n".join(self.found)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in _OURS_TO_MAKE:
            self.made.add(os.path.realpath(os.fsdecode(arguments[0])))
        if not self.on:
            return
        told = ""
        if event == "open":
            path, mode, flags = arguments
            writes = flags & _WRITING if isinstance(flags, int) else bool(set(mode or "") & set("wax+"))
            told = self.outside(event, path, None, flags if isinstance(flags, int) else 0) if writes else ""
        elif event in _ACTS and not _only_reads(event, arguments):
            for path, folder in _ACTS[event]:
                told = told or self.outside(event, arguments[path], arguments[folder] if folder >= 0 else None)
            if event == "os.symlink" and not told:
                told = self._leads_outside(*arguments)
        elif event == "socket.bind":
            told = self.outside(event, arguments[1], None) if _is_path(arguments[1]) else ""
        elif event in _STARTS:
            told = self._stranger(event, arguments)
        if told:
            self.found.append(told)
            raise AssertionError(told)

    def outside(self, event: str, path: Any, folder: Any, flags: int = 0) -> str:
        """What is wrong with this act on this path; nothing if it is ours to change."""
        if isinstance(path, int) and event == "open":
            return ""  # a descriptor that somebody has opened already
        if event == "open" and os.path.isdir(path):
            return ""  # `tempfile` names the folder of a file that gets its name later, or never
        if event == "open" and flags & os.O_NOFOLLOW and not os.path.isabs(os.fsdecode(path)):
            return ""  # beneath an open folder, which this event does not name; the renaming that follows does
        place = self._place(path, folder, follow=event in _FOLLOWED)
        return "" if not place or self.ours(place) else f"{event}: {place}"

    def _place(self, path: Any, folder: Any, *, follow: bool) -> str:
        if isinstance(path, int):
            name = f"/proc/self/fd/{path}"
        else:
            name = os.fsdecode(path)
            if name in (":memory:", ""):
                return ""
            if isinstance(folder, int) and folder >= 0:
                name = os.path.join(f"/proc/self/fd/{folder}", name)
        if follow:
            return os.path.realpath(name)
        return os.path.join(os.path.realpath(os.path.dirname(os.path.abspath(name))), os.path.basename(name))

    def ours(self, place: str) -> bool:
        """Whether a real path lies where a test may change something."""
        if "__pycache__" in place or (place.startswith("/dev/") and not place.startswith("/dev/shm/")):
            return True
        if any(place == root or place.startswith(root + os.sep) for root in (*self.roots, *self._also)):
            return True
        while not (made := place in self.made) and place != os.sep:
            place = os.path.dirname(place)
        return made

    def _leads_outside(self, source: Any, target: Any, folder: Any = None) -> str:
        """A link out of our folders is allowed to a program and to nothing: whoever follows it could change what is there."""
        beside = os.path.dirname(self._place(target, folder, follow=False))
        place = os.path.realpath(os.path.join(beside, os.fsdecode(source)))
        program = os.path.isfile(place) and os.access(place, os.X_OK)
        return "" if self.ours(place) or program or not os.path.lexists(place) else f"os.symlink to {place}"

    def _stranger(self, event: str, arguments: tuple[Any, ...]) -> str:
        """A program that is started with the home of the person who runs the tests."""
        given: Mapping[Any, Any] | None = arguments[_STARTS[event]]
        environment = os.environ if given is None else {os.fsdecode(name): os.fsdecode(given[name]) for name in given}
        for name in _HOMES:
            value = environment.get(name, "")
            if value and not self.ours(place := os.path.realpath(value)) and not place.startswith("/proc/"):
                return f"{event}: {arguments[0]} is told {name}={value}"
        return "" if environment.get("HOME") else f"{event}: {arguments[0]} is told no HOME"


def _only_reads(event: str, arguments: tuple[Any, ...]) -> bool:
    """Whether a database is opened by an address that forbids every change."""
    return event == "sqlite3.connect" and str(arguments[0]).startswith("file:") and "?mode=ro" in str(arguments[0])


def _is_path(address: Any) -> bool:
    """Whether a socket gets a name in the file system by this; one that begins with a zero does not."""
    return isinstance(address, str | bytes) and os.fsencode(address)[:1] not in (b"", b"\0")


class PersonsHome:
    """What a program told of a wrong home would change in the person's own, as it is now."""

    def __init__(self) -> None:
        home = os.path.expanduser("~")
        self._seen = {path: self._look(path) for path in (os.path.join(home, name) for name in _LEFT_BEHIND)}

    def changed(self) -> list[str]:
        """What is new or other since."""
        return [path for path, seen in self._seen.items() if self._look(path) != seen]

    @staticmethod
    def _look(path: str) -> object:
        """A file by its identity and time; of a folder, which the person may be using, whether it is there."""
        try:
            found = os.stat(path)
        except OSError:
            return None
        return "there" if os.path.isdir(path) else (found.st_ino, found.st_mtime_ns, found.st_size)

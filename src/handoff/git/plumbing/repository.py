"""A person's repository as committing needs it: its objects, and its settings, read once while their files stay the same."""

from __future__ import annotations

import os

from handoff.base.record import TYPE_CHECKING, Record
from handoff.git.plumbing import open_source
from handoff.git.plumbing.objects import Entry, Objects

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import ClassVar

MANY_NAMES = 500
_OFF = ("false", "no", "off", "0", "")


class FileStamp(Record):
    """A file as it was when it was looked at; if this is still so, its content still is."""

    mode: int
    size: int
    mtime: int
    ctime: int
    inode: int

    @classmethod
    def of(cls, found: os.stat_result) -> FileStamp:
        return cls(found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)


def look(path: str | bytes, *, follow: bool = False) -> FileStamp | None:
    """How a file is now; None if there is none. What may not be looked at is an error, unless links are followed."""
    try:
        return FileStamp.of(os.stat(path, follow_symlinks=follow))
    except OSError as error:
        if follow or isinstance(error, FileNotFoundError | NotADirectoryError):
            return None
        raise


class GitSettings(Record):
    """git's settings, with the files they came from, so that a change is noticed without asking git again."""

    values: dict[str, str]
    stamps: dict[str, FileStamp | None]
    lasting: bool  # whether they depend on their files alone

    def get(self, key: str, default: str = "") -> str:
        return self.values.get(key, default)

    def yes(self, key: str, *, default: bool = False) -> bool:
        value = self.values.get(key)
        return default if value is None else value.lower() not in _OFF

    def are_current(self) -> bool:
        """Whether no file of theirs has changed."""
        return self.lasting and all(look(path, follow=True) == was for path, was in self.stamps.items())


class Repository(Objects):
    """One checkout. Keep it for several commits. Names are literal, no daemon is left behind, the person's hooks run."""

    always: ClassVar = {"GIT_LITERAL_PATHSPECS": "1"}

    def __init__(self, top: str, environment: Mapping[str, str]) -> None:
        self.source = open_source(os.path.abspath(top))
        self.folder, self.common = self.source.folder, self.source.common
        self.turn = -1  # the lock of the line while it is held
        self._settings: GitSettings | None = None
        super().__init__(self.source.objects, self.source.top, environment, settings=("core.fsmonitor=false",))

    def forget(self) -> None:
        """Drop what was kept for one commit."""
        super().forget()
        self._settings_checked = False

    @property
    def settings(self) -> GitSettings:
        """git's settings; looked at again once for each commit."""
        known = self._settings
        if known is None or not (self._settings_checked or known.are_current()):
            known = self._settings = self._read_settings()
        self._settings_checked = True
        return known

    def _read_settings(self) -> GitSettings:
        home = self.environment.get("HOME", "")
        candidates = {
            os.path.join(self.common, "config"),
            os.path.join(self.folder, "config.worktree"),
            os.path.join(home, ".gitconfig"),
            os.path.join(self.environment.get("XDG_CONFIG_HOME") or os.path.join(home, ".config"), "git", "config"),
        }
        fields = iter(self.ask_bytes("config", "--list", "--show-origin", "-z").split(b"\0"))
        values: dict[str, str] = {}
        for origin, pair in zip(fields, fields, strict=False):
            key, found, value = pair.decode("utf-8", "surrogateescape").partition("\n")
            values[key] = value if found else "true"
            if origin.startswith(b"file:"):
                candidates.add(os.path.join(self.top, os.fsdecode(origin[5:])))
        by_branch = any(key.startswith("includeif.") for key in values)
        return GitSettings(values, {path: look(path, follow=True) for path in candidates}, lasting=not by_branch)

    @property
    def id_bytes(self) -> int:
        return 20 if self.algorithm == "sha1" else 32

    @property
    def durable(self) -> bool:
        """Whether the person asked git to make objects survive a power cut."""
        parts = self.settings.get("core.fsync").split(",")
        wanted = {"all", "added", "committed", "objects", "loose-object"} & set(parts) and "-loose-object" not in parts
        return bool(wanted) or self.settings.yes("core.fsyncobjectfiles")

    def listed(self, paths: Sequence[bytes], *flags: str, index: str = "") -> list[bytes]:
        """What `git ls-files` says about the paths; of very many it is asked at once, not by name."""
        wanted = set(paths)
        names = [os.fsdecode(path) for path in paths] if len(paths) <= MANY_NAMES else []
        out = self.ask_bytes("ls-files", "-z", *flags, "--", *names, index=index).split(b"\0")
        return [line for line in out if line and (names or line.partition(b"\t")[2] in wanted or line[2:] in wanted)]

    def staged(self, paths: Sequence[bytes] = (), *, index: str = "") -> Iterator[tuple[bytes, str, Entry]]:
        """What an index holds for the paths, or for all there are: path, stage, entry."""
        lines = self.listed(paths, "-s", index=index) if paths else self.ask_bytes("ls-files", "-s", "-z").split(b"\0")
        for line in filter(None, lines):
            facts, _, path = line.partition(b"\t")
            mode, sha, stage = facts.decode().split(" ")
            yield path, stage, Entry(mode, sha)

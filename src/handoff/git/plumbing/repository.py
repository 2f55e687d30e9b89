"""A person's repository as committing needs it: its settings, read once as long as their files stay the same, and its objects."""

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


class GitSettings(Record):
    """git's settings, with the files they came from, so that a change is noticed without asking git again."""

    values: dict[str, str]
    stamps: tuple[tuple[str, tuple[int, int, int]], ...]

    def get(self, key: str, default: str = "") -> str:
        return self.values.get(key, default)

    def yes(self, key: str, *, default: bool = False) -> bool:
        value = self.values.get(key)
        return default if value is None else value.lower() not in _OFF


class Repository(Objects):
    """One checkout. Keep it for several commits. Names are literal, no daemon is left behind, the person's hooks run."""

    always: ClassVar = {"GIT_LITERAL_PATHSPECS": "1"}

    def __init__(self, top: str, environment: Mapping[str, str]) -> None:
        self.source = open_source(os.path.abspath(top))
        self.folder, self.common = self.source.folder, self.source.common
        self.turn = -1  # the lock of the line while it is held
        self._settings: GitSettings | None = None
        super().__init__(self.source.top, environment, ("core.fsmonitor=false",), objects=self.source.objects)

    def forget(self) -> None:
        """Drop what was kept for one commit."""
        super().forget()
        self._settings_checked = False

    @property
    def settings(self) -> GitSettings:
        """git's settings; looked at again once for each commit."""
        if self._settings is not None and self._settings_checked:
            return self._settings
        if self._settings is None or any(_stamp(path) != stamp for path, stamp in self._settings.stamps):
            self._settings = self._read_settings()
        self._settings_checked = True
        return self._settings

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
        stamps = [(path, _stamp(path)) for path in sorted(candidates)]
        if any(key.startswith("includeif.") for key in values):
            stamps.append(("", (-1, -1, -1)))  # depends on the branch: always read anew
        return GitSettings(values, tuple(stamps))

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


def _stamp(path: str) -> tuple[int, int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return (0, 0, 0)
    return (found.st_mtime_ns, found.st_size, found.st_ino)

"""Reach the files of a folder without ever following a link, whoever swaps a folder for a link meanwhile.

A session writes in its workspace while we look at it from outside, with the person's rights. A path is looked up anew by
every call that takes one; so each folder on the way is opened once, as itself, and the next name is looked up inside it.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType


_ONLY_PASS = getattr(os, "O_PATH", os.O_RDONLY)  # as a name does, it asks for no right to list a folder
_FOLDER = _ONLY_PASS | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MOST_OPEN = 32


class Beneath:
    """The folder `top` and what lies in it as itself. A link on the way is an OSError, as if nothing were there."""

    def __init__(self, top: str) -> None:
        self._top = top
        self._open: dict[str, int] = {}

    def __enter__(self) -> Self:
        self._open[""] = os.open(
            self._top, _FOLDER & ~os.O_NOFOLLOW
        )  # how `top` itself is reached is the person's word
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for fd in self._open.values():
            os.close(fd)
        self._open.clear()

    def place(self, name: str) -> tuple[int, str]:
        """The open folder that holds a name, and its last part."""
        folder, _, last = name.rpartition("/")
        return self._folder(folder), last

    def _folder(self, name: str) -> int:
        fd = self._open.get(name)
        if fd is None:
            above, last = self.place(name)
            fd = os.open(last, _FOLDER, dir_fd=above)
            if len(self._open) >= _MOST_OPEN:
                self._close_others(name)
            self._open[name] = fd
        return fd

    def _close_others(self, name: str) -> None:
        """Keep the way to this folder; names come in order, so the others are done."""
        for other in [one for one in self._open if one and not name.startswith(one + "/")]:
            os.close(self._open.pop(other))

    def facts(self, name: str) -> os.stat_result:
        """What the name is, as itself."""
        folder, last = self.place(name)
        return os.stat(last, dir_fd=folder, follow_symlinks=False)

    def link(self, name: str) -> bytes:
        """Where a link points to."""
        folder, last = self.place(name)
        return os.readlink(os.fsencode(last), dir_fd=folder)

    def file(self, name: str) -> int:
        """A plain file, open for reading; neither a pipe is waited for nor anything else opened."""
        folder, last = self.place(name)
        fd = os.open(last, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=folder)
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise IsADirectoryError(f"{name} is no plain file")
        return fd

    def read(self, name: str, *, most: int = -1) -> bytes:
        """The bytes of a plain file; nothing where there is none, or one larger than `most`."""
        try:
            fd = self.file(name)
        except OSError:
            return b""
        with os.fdopen(fd, "rb") as file:
            return b"" if 0 <= most < os.fstat(fd).st_size else file.read()

    # --- changing it ------------------------------------------------------------------------------

    def is_folder(self, name: str) -> bool:
        """Whether the name is a folder, as itself."""
        try:
            return stat.S_ISDIR(self.facts(name).st_mode)
        except OSError:
            return False

    def make_folder(self, name: str) -> None:
        """One folder; the one above it is there."""
        folder, last = self.place(name)
        os.mkdir(last, dir_fd=folder)

    def make_folders(self, name: str) -> None:
        """The folder and those above it; what stands in their place and is none, gives way."""
        missing = []
        while name and not self.is_folder(name):
            missing.append(name)
            name = name.rpartition("/")[0]
        for one in reversed(missing):
            self.remove(one)
            self.make_folder(one)

    def make_link(self, words: str, name: str) -> None:
        """A link that says `words`."""
        folder, last = self.place(name)
        os.symlink(words, last, dir_fd=folder)

    def unlink(self, name: str) -> None:
        """Remove what is no folder."""
        folder, last = self.place(name)
        os.unlink(last, dir_fd=folder)

    def remove(self, name: str) -> None:
        """The same, at peace when nothing is there."""
        with suppress(FileNotFoundError):
            self.unlink(name)

    def remove_folder(self, name: str) -> None:
        """Remove an empty folder."""
        folder, last = self.place(name)
        os.rmdir(last, dir_fd=folder)
        self._forget(name)

    def remove_empty(self, name: str) -> None:
        """Remove every folder in it, and it, that holds nothing but such folders."""
        with suppress(OSError):
            for entry in self.names(name):
                if self.is_folder(f"{name}/{entry}"):
                    self.remove_empty(f"{name}/{entry}")
            self.remove_folder(name)

    def names(self, name: str) -> list[str]:
        """What lies in a folder."""
        folder, last = self.place(name)
        fd = os.open(last, _FOLDER & ~_ONLY_PASS | os.O_RDONLY, dir_fd=folder)
        try:
            return os.listdir(fd)
        finally:
            os.close(fd)

    def write(self, name: str, data: bytes) -> None:
        """A plain file with these bytes, whole or not at all, in the place of what stood there."""
        folder, last = self.place(name)
        temp = f"{last}.{os.getpid()}-{os.urandom(3).hex()}.handoff"
        fd = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644, dir_fd=folder)
        with os.fdopen(fd, "wb") as file:
            file.write(data)
        os.replace(temp, last, src_dir_fd=folder, dst_dir_fd=folder)

    def chmod(self, name: str, mode: int) -> None:
        """Set the permission bits of a file or folder; those of a link are nobody's."""
        folder, last = self.place(name)
        if _ONLY_PASS == os.O_RDONLY:
            os.chmod(last, mode, dir_fd=folder, follow_symlinks=False)
            return
        fd = os.open(last, _ONLY_PASS | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        try:
            if not stat.S_ISLNK(os.fstat(fd).st_mode):
                os.chmod(f"/proc/self/fd/{fd}", mode)
        finally:
            os.close(fd)

    def rename(self, old: str, new: str) -> None:
        """Another name for it."""
        (old_folder, old_last), (new_folder, new_last) = self.place(old), self.place(new)
        os.rename(old_last, new_last, src_dir_fd=old_folder, dst_dir_fd=new_folder)
        self._forget(old)

    def _forget(self, name: str) -> None:
        for one in [one for one in self._open if one == name or one.startswith(name + "/")]:
            os.close(self._open.pop(one))


_GIT = ".git"
# What macOS leaves out when it compares two names.
_IGNORED = dict.fromkeys((*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF))
# Files git obeys, and how Windows shortens their names when the first four short forms are taken.
_OBEYED = {".gitmodules": "gi7eba", ".gitattributes": "gi7d29", ".gitignore": "gi250a"}
_SHORT = 6


def is_reserved(path: str) -> bool:
    """Whether a part of the path is `.git` or a file git obeys, under a name that some disk takes for it."""
    return any(_is_twin(part) for part in path.replace("\\", "/").split("/"))


def _is_twin(part: str) -> bool:
    if part in _OBEYED:
        return False  # as itself it may be there
    mac = part.translate(_IGNORED).casefold()
    windows = part.partition(":")[0].rstrip(". ").lower()
    if _GIT in (mac, windows) or windows == "git~1":
        return True
    start, tilde, number = windows.partition("~")
    short = bool(tilde) and number.isdigit() and len(start) > 1
    return any(
        name in (mac, windows) or (short and (name[1 : _SHORT + 1] == start or other.startswith(start)))
        for name, other in _OBEYED.items()
    )

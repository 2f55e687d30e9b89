"""Names that git keeps for itself: on another disk or system, a file of such a name is a file of git's own."""

from __future__ import annotations

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

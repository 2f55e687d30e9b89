"""Which checkout a linked worktree belongs to, read from git's own files: no git is started for it."""

from __future__ import annotations

import os

_POINTER_BYTES = 4096


def main_checkout(at: str) -> str | None:
    """For a linked worktree, the folder of the main checkout; None for any other folder, a submodule too."""
    try:
        with open(os.path.join(at, ".git"), encoding="utf-8", errors="surrogateescape") as file:
            words = file.read(_POINTER_BYTES)
        if not words.startswith("gitdir:"):
            return None
        git_dir = os.path.normpath(os.path.join(at, words[7:].strip()))
        with open(os.path.join(git_dir, "commondir"), encoding="utf-8", errors="surrogateescape") as file:
            common = os.path.normpath(os.path.join(git_dir, file.read(_POINTER_BYTES).strip()))
    except OSError:
        return None
    return os.path.dirname(common) if os.path.basename(common) == ".git" else None

"""From the words a session gives to the paths they name: relative, absolute, folders, deletions, odd bytes."""

from __future__ import annotations

import os
import stat

from handoff.base.errors import UserError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.git.commits.index import copy
from handoff.git.plumbing import read_plain
from handoff.git.plumbing.objects import FILE, LINK, POINTER, PROGRAM, TREE, Entry
from handoff.git.plumbing.queue import unlink
from handoff.git.plumbing.repository import FileStamp, look

if TYPE_CHECKING:
    from collections.abc import Iterable

    from handoff.git.plumbing.repository import Repository

# Larger files are hashed by git, which streams them.
IN_MEMORY_BYTES = 32 << 20
# Attributes that let git store other bytes than lie on the disk.
_CHANGING = ("text", "eol", "crlf", "filter", "ident", "working-tree-encoding")


class PathContents(Record):
    """What is on the disk for our paths: the entries to commit (None is a deletion), and how each file was seen."""

    entries: dict[bytes, Entry | None]
    seen: dict[bytes, FileStamp | None]


def locate(repo: Repository, words: Iterable[str], cwd: str) -> list[bytes]:
    """The paths (from the top, as bytes) that words mean in `cwd`; each once, in their order. A folder keeps a slash."""
    found: dict[bytes, None] = {}
    real_top = os.path.realpath(repo.top)
    real_cwd = os.path.relpath(os.path.realpath(cwd), real_top)
    parents: dict[str, str] = {}
    for word in words:
        if not word:
            raise UserError("An empty path was given.", "Name the files to commit after --.")
        whole = os.path.join(cwd, word)
        parent, name = os.path.split(whole.rstrip("/") or "/")
        if name in (".", ".."):
            place = os.path.realpath(whole)
        else:
            if parent not in parents:
                parents[parent] = os.path.realpath(parent)
            place = os.path.join(parents[parent], name)
        inside = os.path.relpath(place, real_top)
        if inside == ".." or inside.startswith("../"):
            raise UserError(f"'{word}' is outside the checkout {repo.top}.", "Name paths of this repository only.")
        raw = b"" if inside == "." else os.fsencode(inside)
        if raw.split(b"/", 1)[0].lower() == b".git":
            raise UserError(f"'{word}' is git's own; it cannot be committed.")
        _refuse_through_link(real_cwd, word, raw)
        full = os.path.join(os.fsencode(real_top), raw)
        folder = os.path.isdir(full) and not os.path.islink(full)
        found[raw + b"/" if folder and raw and not _is_repository(full) else raw or b"/"] = None
    return list(found)


def _refuse_through_link(cwd: str, word: str, raw: bytes) -> None:
    """`owned/link/x` is a file somewhere else: it must be named by its own name."""
    if os.path.isabs(word):
        return
    shown = os.path.normpath(os.path.join(cwd, word))
    if ".." not in word.split("/") and os.fsencode(shown) != (raw or b"."):
        raise UserError(
            f"'{word}' lies beyond a symbolic link; the file itself is '{os.fsdecode(raw)}'.", "Name it by that path."
        )


def _is_repository(full: bytes) -> bool:
    return os.path.lexists(os.path.join(full, b".git"))


def expand(repo: Repository, folders: Iterable[bytes]) -> list[bytes]:
    """The changed files below the folders, ignored ones left out."""
    specs = [os.fsdecode(path.rstrip(b"/")) or "." for path in folders]
    out = repo.ask_bytes(
        "status", "--porcelain=v1", "-z", "--no-renames", "-uall", "--ignore-submodules=dirty", "--", *specs
    )
    # Two letters and a space come before each name.
    return list(dict.fromkeys(line[3:].rstrip(b"/") for line in out.split(b"\0") if line))


def take(repo: Repository, paths: Iterable[bytes], tree: str) -> PathContents:
    """Read each path from the disk and write its object; a path that is gone is a deletion."""
    entries: dict[bytes, Entry | None] = {}
    seen: dict[bytes, FileStamp | None] = {}
    by_git: list[bytes] = []
    top = os.fsencode(repo.top)
    paths = list(paths)
    careful = _converted(repo, paths)
    for path in paths:
        full = os.path.join(top, path)
        state = look(full)
        seen[path] = state
        if state is None:
            entries[path] = None
            continue
        _refuse_reserved(path)
        kind = stat.S_IFMT(state.mode)
        if kind == stat.S_IFLNK and repo.settings.yes("core.symlinks", default=True):
            entries[path] = Entry(LINK, repo.write("blob", os.readlink(full)))
        elif kind == stat.S_IFDIR and _is_repository(full):
            entries[path] = _pointer(repo, path, tree)
        elif kind == stat.S_IFDIR:
            entries[path] = None  # a folder stands where the file was
        elif kind != stat.S_IFREG:
            raise UserError(f"'{os.fsdecode(path)}' is neither a file nor a link; git cannot keep it.")
        elif path in careful or state.size > IN_MEMORY_BYTES:
            by_git.append(path)
        else:
            with open(full, "rb") as file:
                entries[path] = Entry(_mode(repo, path, state, tree), repo.write("blob", file.read()))
    if by_git:
        shas = _hash_with_git(repo, by_git)
        for path, sha in zip(by_git, shas, strict=True):
            state = seen[path]
            entries[path] = Entry(_mode(repo, path, state, tree), sha) if state else None
    return PathContents(entries, seen)


def _refuse_reserved(path: bytes) -> None:
    """What some disk takes for `.git` would be git's own folder in the checkout of whoever has such a disk."""
    if path.isascii() and b"git" not in path.lower() and b"~" not in path:
        return
    from handoff.git.plumbing.beneath import is_reserved

    if is_reserved(os.fsdecode(path)):
        raise UserError(
            f"'{os.fsdecode(path)}' is a name that git keeps for itself; it cannot be committed.", "Rename it."
        )


def _hash_with_git(repo: Repository, paths: list[bytes]) -> list[str]:
    """Let git read files whose stored bytes differ from those on the disk: filters, line ends, encodings, LFS.

    Through a private index, because git's answer for line ends depends on what it stored before.
    """
    index, _ = copy(repo, f"index-{os.getpid()}-{os.urandom(4).hex()}")
    try:
        repo.ask("update-index", "-z", "--add", "--replace", "--stdin", stdin=b"\0".join(paths) + b"\0", index=index)
        found = {path: entry.sha for path, _, entry in repo.staged(paths, index=index)}
    finally:
        unlink(index)
    return [found[path] for path in paths]


def _converted(repo: Repository, paths: list[bytes]) -> set[bytes]:
    """The paths whose stored bytes may differ from the disk's."""
    settings = repo.settings
    if settings.get("core.autocrlf", "false").lower() not in ("false", "no", "off", "0"):
        return set(paths)
    if settings.get("core.ignorecase") == "true" or settings.get("core.symlinks") == "false":
        return set(paths)
    if not paths or not _has_attributes(repo, paths):
        return set()
    out = repo.ask_bytes("check-attr", "-z", "--stdin", *_CHANGING, stdin=b"\0".join(paths) + b"\0")
    fields = out.split(b"\0")
    return {fields[at] for at in range(0, len(fields) - 2, 3) if fields[at + 2] not in (b"unspecified", b"unset")}


def _has_attributes(repo: Repository, paths: list[bytes]) -> bool:
    places = {
        os.path.join(repo.common, "info", "attributes"),
        os.path.expanduser(repo.settings.get("core.attributesfile"))
        or os.path.join(repo.environment.get("HOME", ""), ".config", "git", "attributes"),
        "/etc/gitattributes",
    }
    for path in paths:
        places.update(_above(repo, path, ".gitattributes"))
    return any(os.path.exists(place) for place in places)


def _above(repo: Repository, path: bytes, name: str) -> list[str]:
    """Where a file of that name could speak for the path: its folder, and every one above it."""
    folder = os.path.dirname(os.fsdecode(path))
    found = [os.path.join(repo.top, folder, name)]
    while folder:
        folder = os.path.dirname(folder)
        found.append(os.path.join(repo.top, folder, name))
    return found


def _mode(repo: Repository, path: bytes, state: FileStamp, tree: str) -> str:
    if repo.settings.yes("core.filemode", default=True):
        return PROGRAM if state.mode & 0o100 else FILE
    old = repo.look_up(tree, path)
    return old.mode if old is not None and old.mode in (FILE, PROGRAM) else FILE


def _pointer(repo: Repository, path: bytes, tree: str) -> Entry:
    """A submodule: what is committed is the commit it stands at."""
    shown = os.fsdecode(path)
    old = repo.look_up(tree, path)
    if (old is None or old.mode != POINTER) and repo.git(
        "config", "-f", ".gitmodules", "--get-regexp", "path"
    ).text.find(f" {shown}\n") < 0:
        raise UserError(
            f"'{shown}' is a repository of its own and not a submodule of this one.",
            "Add it with git submodule add, or name the files elsewhere.",
        )
    answer = repo.git("-C", shown, "rev-parse", "-q", "--verify", "HEAD^{commit}")
    if answer.code:
        raise UserError(
            f"The submodule '{shown}' has no commit yet.", f"Commit inside it first: git -C '{shown}' commit"
        )
    return Entry(POINTER, answer.text.strip())


def ignored_paths(repo: Repository, paths: Iterable[bytes]) -> list[bytes]:
    """Those of the new paths that git is told to ignore."""
    asked = [path for path in paths if _has_ignores(repo, path)]
    if not asked:
        return []
    out = repo.git("check-ignore", "-z", "--stdin", stdin=b"\0".join(asked) + b"\0", GIT_LITERAL_PATHSPECS="0").out
    return [path for path in out.split(b"\0") if path]


def _has_ignores(repo: Repository, path: bytes) -> bool:
    home = repo.environment.get("HOME", "")
    own = os.path.expanduser(repo.settings.get("core.excludesfile")) or os.path.join(home, ".config", "git", "ignore")
    if any(os.path.exists(place) for place in (own, *_above(repo, path, ".gitignore"))):
        return True
    lines = read_plain(os.path.join(repo.common, "info", "exclude")).splitlines()
    return any(line.strip() and not line.startswith(b"#") for line in lines)


def is_tree(entry: Entry | None) -> bool:
    return entry is not None and entry.mode == TREE

"""Files that several parts are tempted to change: each group of them goes to one part, or to the fan-in."""

from __future__ import annotations

import posixpath

from handoff.base.record import TYPE_CHECKING, Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_LOCKS = {
    "package-lock.json": "package.json",
    "npm-shrinkwrap.json": "package.json",
    "yarn.lock": "package.json",
    "pnpm-lock.yaml": "package.json",
    "bun.lock": "package.json",
    "poetry.lock": "pyproject.toml",
    "uv.lock": "pyproject.toml",
    "pdm.lock": "pyproject.toml",
    "Pipfile.lock": "Pipfile",
    "Cargo.lock": "Cargo.toml",
    "go.sum": "go.mod",
    "Gemfile.lock": "Gemfile",
    "composer.lock": "composer.json",
    "mix.lock": "mix.exs",
    "flake.lock": "flake.nix",
}
_REGISTRIES = ("__init__.py", "index.ts", "index.js", "mod.rs", "lib.rs")
_LOGS = ("changelog", "changes", "history", "news", "release_notes", "releasenotes")
_NUMBERED = ("migrations", "db/migrate", "alembic/versions", "migrate")


class SharedGroup(Record):
    """Files that change together: what they are, and their paths, or the folder they stand in."""

    what: str
    paths: tuple[str, ...]
    folder: str = ""

    @property
    def name(self) -> str:
        return self.folder or " and ".join(self.paths)


def groups(tracked: Iterable[str]) -> list[SharedGroup]:
    """The shared files of a repository, each with what changes along with it."""
    paths = sorted(tracked)
    return [*_locks(set(paths)), *_single(paths), *_numbered(paths)]


def _locks(paths: set[str]) -> Iterator[SharedGroup]:
    for path in sorted(paths):
        folder, name = posixpath.split(path)
        if name in _LOCKS:
            beside = posixpath.join(folder, _LOCKS[name])
            yield SharedGroup("a lock file and what it locks", (path, *([beside] if beside in paths else ())))


def _single(paths: list[str]) -> Iterator[SharedGroup]:
    for path in paths:
        name = posixpath.basename(path)
        if posixpath.splitext(name)[0].lower() in _LOGS:
            yield SharedGroup("a changelog", (path,))
        elif name in _REGISTRIES:
            yield SharedGroup("a registry of its folder", (path,))


def _numbered(paths: list[str]) -> Iterator[SharedGroup]:
    found: dict[str, list[str]] = {}
    for path in paths:
        folder = posixpath.dirname(path)
        if any(folder == name or folder.endswith("/" + name) for name in _NUMBERED):
            found.setdefault(folder + "/", []).append(path)
    for folder, inside in found.items():
        yield SharedGroup("numbered migrations", tuple(inside), folder)


def is_lock_or_log(path: str) -> bool:
    """Whether a file is one that many changes touch: a lock file or a changelog."""
    name = posixpath.basename(path)
    return name in _LOCKS or posixpath.splitext(name)[0].lower() in _LOGS

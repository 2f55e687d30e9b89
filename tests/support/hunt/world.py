"""Where one journey happens: a tiny repository, a home, a database, a clock that is moved, and eyes that look from outside.

What is told here is read from files and git alone, never from the code that is hunted: only the rows come through the board.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from typing import TYPE_CHECKING, Any, NamedTuple

from databases import MovableClock, empty, quick_folder
from handoff.base.settings import from_environment
from handoff.board.tasks import batches, tasks
from handoff.engine.app import App
from handoff.store import open_database

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PROJECT, OTHER = "repo", "other"
AREAS = ("a", "b", "c", "d")
Files = dict[str, bytes]
_TEMPLATES: dict[str, str] = {}


def blob(data: bytes) -> str:
    """The name git gives a content."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Picture(NamedTuple):
    """Everything at one moment: files of every folder, branches, rows."""

    folders: dict[str, Files]
    refs: dict[str, str]
    head: str
    rows: dict[int, tasks.Task]
    batches: dict[int, batches.Batch]

    def files(self, folder: str) -> Files:
        return self.folders.get(folder, {})


class SharedApp(App):
    """A composition whose database is the world's: sessions are told apart by their ids, not by their connections."""

    def __init__(self, settings: Any, world: World) -> None:
        super().__init__(settings, world.clock)
        self._world = world

    @property
    def database(self) -> Any:
        return self._world.database


class World:
    """One repository with its neighbour, one home, one database."""

    def __init__(self, url: str = "") -> None:
        self.folder = tempfile.mkdtemp(prefix="ho-", dir=quick_folder())
        self.repo = os.path.join(self.folder, PROJECT)
        self.other = os.path.join(self.folder, OTHER)
        self.home = os.path.join(self.folder, "home")
        self.clock = MovableClock()
        for path in (self.repo, self.other):
            shutil.copytree(_template(), path, symlinks=True)
        self._url = url or f"sqlite:///{self.home}/handoff.db"
        self._settings = from_environment()._replace(home=self.home, folder=self.repo)
        if url:
            self._settings = self._settings._replace(
                environment={**self._settings.environment, "HANDOFF_DATABASE_URL": url}
            )
        self._database: Any = None
        if url:
            empty(url)
        self._reached: dict[tuple[str, ...], set[str]] = {}
        self._number = 0

    def close(self) -> None:
        self.forget_database()
        shutil.rmtree(self.folder, ignore_errors=True)

    # --- the code that is hunted ------------------------------------------------------------------------------

    @property
    def database(self) -> Any:
        if self._database is None:
            self._database = open_database(self._url, clock=self.clock)
        return self._database

    def forget_database(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None

    def app(self, folder: str = "", **environment: str) -> App:
        """The composition a command has that is started in a folder."""
        settings = self._settings._replace(
            folder=folder or self.repo, environment={**self._settings.environment, **environment}
        )
        return SharedApp(settings, self)

    # --- a person's hands -------------------------------------------------------------------------------------

    def git(self, *words: str, folder: str = "", check: bool = True) -> str:
        done = subprocess.run(
            ["git", *words], cwd=folder or self.repo, capture_output=True, check=False, stdin=subprocess.DEVNULL
        )
        if check and done.returncode:
            raise AssertionError(f"git {words}: {done.stderr.decode('utf-8', 'replace')}")
        return done.stdout.decode("utf-8", "surrogateescape")

    def token(self, who: str, path: str) -> bytes:
        """A content nobody has written before, so that it can be told where it went."""
        self._number += 1
        return f"{self._number} by {who} in {path}\n".encode()

    def write(self, folder: str, path: str, data: bytes) -> None:
        full = os.path.join(folder, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "wb") as file:
            file.write(data)

    def move(self) -> tuple[str, str]:
        """The person gives the folder of the project another name, or its old one again."""
        old = self.repo
        self.repo = os.path.join(self.folder, PROJECT if os.path.basename(old) != PROJECT else "moved")
        os.rename(old, self.repo)
        self._reached.clear()
        return old, self.repo

    def manifest(self, name: str, parts: dict[str, tuple[str, tuple[str, ...]]]) -> str:
        """A manifest of parts: id → (area it owns, parts it comes after)."""
        value = {
            "schema_version": 2,
            "batch_id": name,
            "fan_in_task": f"{name}-join",
            "sub_tasks": [
                {
                    "id": part,
                    "brief": f"Build {part}.",
                    "estimated_minutes": 1,
                    "file_ownership": [{"type": "prefix", "path": f"{area}/"}],
                    "depends_on": list(after),
                }
                for part, (area, after) in parts.items()
            ],
        }
        path = os.path.join(self.folder, f"{name}.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(value, file)
        return path

    # --- eyes -------------------------------------------------------------------------------------------------

    def look(self) -> Picture:
        with self.database.transaction(write=False) as transaction:
            rows = {task.key: task for task in tasks.listing(transaction, include_ended=True)}
            all_batches = {one.key: one for one in batches.listing(transaction, include_ended=True)}
        folders = {folder: read_files(folder) for folder in self.places()}
        return Picture(folders, self.refs(), self.head(), rows, all_batches)

    def places(self) -> list[str]:
        """The checkouts there are: the person's two, and every clone of ours."""
        found = [self.repo, self.other]
        base = os.path.join(self.home, PROJECT, "workspaces")
        with contextlib.suppress(FileNotFoundError):
            found += [os.path.join(base, name, "tree") for name in sorted(os.listdir(base))]
        return [path for path in found if os.path.isdir(path)]

    def head(self, folder: str = "") -> str:
        with open(os.path.join(folder or self.repo, ".git", "HEAD"), encoding="utf-8") as file:
            return file.read().strip().removeprefix("ref: ")

    def refs(self, folder: str = "") -> dict[str, str]:
        """Branches, tags, stash: read as files."""
        git = os.path.join(folder or self.repo, ".git")
        return {**_packed(git), **dict(_loose(git))}

    def reached(self, refs: Iterable[str], git: str = "") -> set[str]:
        """Every object these commits lead to, in the person's repository or another git folder."""
        tips = tuple(sorted(set(refs)))
        if not tips:
            return set()
        key = (git, *tips)
        if key not in self._reached:
            listed = self.git("--git-dir", git or os.path.join(self.repo, ".git"), "rev-list", "--objects", *tips)
            self._reached[key] = {line.split(" ", 1)[0] for line in listed.splitlines()}
        return self._reached[key]

    def on_branches(self) -> set[str]:
        """What the person's branches hold, ours among them."""
        return self.reached(sha for name, sha in self.refs().items() if name.startswith("refs/heads/"))

    def on_branch(self, head: str) -> set[str]:
        """What a branch holds, or a commit that HEAD named itself; a branch that is gone holds nothing."""
        tip = self.refs().get(head, "" if head.startswith("refs/") else head)
        return self.reached([tip]) if tip else set()

    def anywhere(self) -> set[str]:
        """Everything that can be brought back: refs of the person's repository, and every snapshot."""
        found = set(self.reached(self.refs().values()))
        store = os.path.join(self.home, PROJECT, "snapshots.git")
        if os.path.isdir(store):
            tips = [*_packed(store).values(), *(sha for _, sha in _loose(store))]
            found |= self.reached(tips, store)
        return found


def _template() -> str:
    """A repository with one commit, made once in a process and copied."""
    if "repo" not in _TEMPLATES or not os.path.isdir(_TEMPLATES["repo"]):
        folder = tempfile.mkdtemp(prefix="ho-", dir=quick_folder())
        path = os.path.join(folder, "repo")
        os.makedirs(path)
        with open(os.path.join(path, "README.md"), "w", encoding="utf-8") as file:
            file.write("# A project\n")
        for words in (("init", "-q", "-b", "main", "--template="), ("add", "-A"), ("commit", "-q", "-m", "first")):
            subprocess.run(["git", *words], cwd=path, check=True, stdin=subprocess.DEVNULL)
        _TEMPLATES["repo"] = path
    return _TEMPLATES["repo"]


def forget_template() -> None:
    """Remove what was made once."""
    if "repo" in _TEMPLATES:
        shutil.rmtree(os.path.dirname(_TEMPLATES.pop("repo")), ignore_errors=True)


def read_files(folder: str) -> Files:
    """Every file of a checkout with its content, git's own left out."""
    found: Files = {}
    for place, folders, names in os.walk(folder):
        if ".git" in folders:
            folders.remove(".git")
        for name in names:
            path = os.path.join(place, name)
            with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
                found[os.path.relpath(path, folder)] = file.read()
    return found


def _packed(git: str) -> dict[str, str]:
    found = {}
    with contextlib.suppress(FileNotFoundError), open(os.path.join(git, "packed-refs"), encoding="utf-8") as file:
        for line in file:
            if line[:1] not in "#^":
                sha, name = line.split()
                found[name] = sha
    return found


def _loose(git: str) -> Iterator[tuple[str, str]]:
    for place, _, names in os.walk(os.path.join(git, "refs")):
        for name in names:
            path = os.path.join(place, name)
            if not name.endswith(".lock"):
                with open(path, encoding="utf-8") as file:
                    yield os.path.relpath(path, git), file.read().strip()

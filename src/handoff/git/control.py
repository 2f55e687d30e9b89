"""Control files: what git, its hooks and handoff itself obey. They count as the person last wrote or approved them.

A session lands such a change only where its task names the file, or after a person has seen exactly that change and said yes.
Where a file decides which of the person's own files reach a clone, its name in a task is not enough: what sessions made of it is
remembered, with what the person had there before, and that goes on to count beside it.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import tempfile
from typing import TYPE_CHECKING, Any, NamedTuple

from handoff.base.errors import HandoffError
from handoff.base.files import locked, make_folder, write_atomic
from handoff.base.ids import on_one_line
from handoff.base.settings import PROJECT_FOLDER
from handoff.git.ownership.patterns import EXACT, written
from handoff.git.plumbing import git_failure
from handoff.git.plumbing.objects import LINK, differences
from handoff.git.plumbing.untrusted import distrusting

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from handoff.git.plumbing import Source
    from handoff.git.plumbing.snapshot_repo import SnapshotRepo

IGNORE, INCLUDE = ".gitignore", ".worktreeinclude"
_ANYWHERE = frozenset(
    f"{IGNORE} {INCLUDE} .gitattributes .gitmodules .lfsconfig .envrc .pre-commit-config.yaml lefthook.yml".split()
)
_HOOKS = frozenset((".husky", ".githooks"))
_DOCUMENTS = frozenset(("features", "current", "trash", "conflict"))
"""What of `.handoff/` nobody obeys: every session may write it."""
_CARRYING = frozenset((IGNORE, INCLUDE))
_RECORD = "trust.json"
_MOST_LINES = 200


def is_control(path: str, *, hooks: str = "") -> bool:
    """Whether somebody obeys the file at `path` of a repository; `hooks` is the folder of the person's own hooks there."""
    *folders, name = path.casefold().split("/")
    if name in _ANYWHERE or not _HOOKS.isdisjoint(folders):
        return True
    if hooks and path.startswith(f"{hooks}/"):
        return True
    return len(folders) > 0 and folders[0] == PROJECT_FOLDER and (*folders, name)[1] not in _DOCUMENTS


class ControlChange(NamedTuple):
    """What becomes of one control file; None where there is none."""

    path: str
    mode: str
    before: bytes | None
    after: bytes | None

    @property
    def mark(self) -> str:
        """By which exactly this change is known again."""
        return f"{self.mode} {_print(self.after)}"

    def lines(self) -> Iterator[str]:
        """The change as a diff, without signs that a terminal would obey."""
        old, new = (text.decode("utf-8", "replace").splitlines() if text else [] for text in (self.before, self.after))
        was, now = (self.path if text is not None else os.devnull for text in (self.before, self.after))
        yield from (on_one_line(line) for line in difflib.unified_diff(old, new, was, now, lineterm=""))
        if self.mode == LINK:
            yield f"{on_one_line(self.path)} becomes a link"


def changes(store: SnapshotRepo, old: str, new: str, *, hooks: str = "") -> list[ControlChange]:
    """The control files that differ between two commits."""
    found = [one for one in differences(store, old, new) if is_control(one.path, hooks=hooks)]
    return [ControlChange(one.path, one.mode, _blob(store, one.old), _blob(store, one.sha)) for one in found]


def _blob(store: SnapshotRepo, sha: str) -> bytes | None:
    if not sha.strip("0"):
        return None
    try:
        return store.read(sha)
    except HandoffError:
        return sha.encode()  # a pointer to a commit of a submodule


def is_named_by(path: str, patterns: Sequence[str]) -> bool:
    """Whether one of the patterns of a task is the name of this very file."""
    return path in patterns or written(EXACT, path) in patterns


def in_words(found: Sequence[ControlChange]) -> list[str]:
    """Exactly what would change, for a person to look at."""
    lines = [line for one in found for line in one.lines()]
    more = [f"… and {len(lines) - _MOST_LINES} lines more"] if len(lines) > _MOST_LINES else []
    return [*lines[:_MOST_LINES], *more]


def _print(data: bytes | None) -> str:
    """Bytes as they are known again, however their lines end."""
    return "" if data is None else hashlib.sha256(b"\n".join(data.splitlines())).hexdigest()


class Trust:
    """What of a project's control files a person has approved, and what sessions made without that."""

    def __init__(self, project: str) -> None:
        self.path = os.path.join(project, _RECORD)

    def ask(self, name: str, found: Sequence[ControlChange]) -> None:
        """A person is shown these changes of the work `name`; their yes will mean exactly these."""
        self._write("asked", name, {one.path: one.mark for one in found})

    def forget(self, name: str) -> None:
        """The work `name` is judged anew: what a person was shown of it before is no longer asked."""
        if name in self._read().get("asked", {}):
            self._write("asked", name, {})

    def say_yes(self, name: str) -> None:
        """The person has said yes to what they were shown of the work `name`."""
        known = self._read()
        for path, mark in known.get("asked", {}).get(name, {}).items():
            self._write("approved", path, [*known.get("approved", {}).get(path, ()), mark])

    def is_approved(self, one: ControlChange) -> bool:
        return one.mark in self._read().get("approved", {}).get(one.path, ())

    def note(self, one: ControlChange) -> None:
        """A session's change lands unseen because its task names the file: remember what the person had there."""
        if os.path.basename(one.path) not in _CARRYING:
            return
        known = self._read().get("made", {}).get(one.path, {"prints": []})
        theirs = known["theirs"] if _print(one.before) in known["prints"] else _text(one.before)
        self._write("made", one.path, {"prints": [*known["prints"], _print(one.after)], "theirs": theirs})

    def differing(self, top: str) -> dict[str, bytes | None]:
        """The files of the checkout at `top` that are as a session made them, each as the person last had it."""
        found: dict[str, bytes | None] = {}
        for path, known in self._read().get("made", {}).items():
            if _print(_file(top, path)) in known["prints"]:
                found[path] = None if known["theirs"] is None else known["theirs"].encode("utf-8", "surrogateescape")
        return found

    def read(self, top: str, path: str) -> bytes:
        """A file of the checkout as the person last wrote or approved it; nothing where they have none."""
        differing = self.differing(top)
        return (differing[path] if path in differing else _file(top, path)) or b""

    def _read(self) -> dict[str, Any]:
        try:
            with open(self.path, encoding="utf-8") as file:
                found: dict[str, Any] = json.load(file)
        except FileNotFoundError:
            return {}
        return found

    def _write(self, part: str, name: str, value: Any) -> None:
        make_folder(os.path.dirname(self.path), mode=0o700)
        with locked(f"{self.path}.lock", what="what was approved", patience=60.0):
            known = self._read()
            known.setdefault(part, {})[name] = value
            write_atomic(self.path, json.dumps(known, indent=1) + "\n", mode=0o600)


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "surrogateescape")


def _file(top: str, path: str) -> bytes | None:
    full = os.path.join(top, path)
    if os.path.islink(full) or not os.path.isfile(full):
        return None
    with open(full, "rb") as file:
        return file.read()


def kept_back(store: SnapshotRepo, source: Source, trust: Trust) -> list[str]:
    """Files of the person's that git does not track and their own rules ignore, whatever the rules of sessions say today."""
    theirs = {path: data for path, data in trust.differing(source.top).items() if os.path.basename(path) == IGNORE}
    if not theirs:
        return []
    untracked = store.look(source, "ls-files", "-z", "-o", "--exclude-standard").out.split(b"\0")
    listed = os.fsdecode(store.look(source, "ls-files", "-z", "-c", "-o").out).split("\0")
    rules: Mapping[str, bytes | None] = {
        **{path: _file(source.top, path) for path in listed if os.path.basename(path) == IGNORE},
        **theirs,
    }
    with tempfile.TemporaryDirectory(prefix="handoff-rules-") as top:
        for path, data in rules.items():
            if data is not None:
                make_folder(os.path.dirname(os.path.join(top, path)))
                write_atomic(os.path.join(top, path), data, sync=False)
        asked = distrusting(source.folder, store.environment, top)
        names = b"".join(b"./" + name + b"\0" for name in untracked if name)  # a name may begin like a word of git's
        answer = asked.git("check-ignore", "--no-index", "-z", "--stdin", stdin=names, GIT_LITERAL_PATHSPECS="0")
    if answer.code not in (0, 1):  # 1 is none of them
        raise git_failure(
            "git cannot say what your own rules ignore", answer, f"Look at the .gitignore of {source.top}."
        )
    return [path.removeprefix("./") for path in os.fsdecode(answer.out).split("\0") if path]

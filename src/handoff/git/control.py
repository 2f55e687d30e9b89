"""Control files (`obeyed`) count as the person last wrote or approved them.

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
from typing import Any

from handoff.base.errors import HandoffError
from handoff.base.files import locked, make_folder, write_atomic
from handoff.base.ids import on_one_line
from handoff.base.record import TYPE_CHECKING, Record
from handoff.git.obeyed import IGNORE, INCLUDE, Named, reader_of, who_obeys
from handoff.git.ownership.patterns import EXACT, written
from handoff.git.plumbing import git_failure, looks_like_git_folder
from handoff.git.plumbing.objects import LINK, TREE
from handoff.git.plumbing.untrusted import distrusting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from handoff.git.plumbing import Source
    from handoff.git.plumbing.objects import Difference
    from handoff.git.plumbing.snapshot_repo import SnapshotRepo

_CARRYING = frozenset((IGNORE, INCLUDE))
_OF_REPOSITORY = frozenset(("head", "objects", "refs", "commondir"))
_UNTRACKED = ("ls-files", "-z", "-o", "--exclude-standard")
_RECORD = "trust.json"
_MOST_LINES = 200


class ControlChange(Record):
    """What becomes of one control file, or of the part of it that is obeyed; None where there is none."""

    path: str
    mode: str
    before: bytes | None
    after: bytes | None
    who: str = "git"
    """Who obeys it, in words."""

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


def repositories(store: SnapshotRepo, commit: str, paths: Iterable[str]) -> list[str]:
    """The folders around these paths that git takes for a repository, under whatever name, as the commit has them."""
    folders = set()
    for path in paths:
        parts = path.split("/")
        folders |= {"/".join(parts[:at]) for at, part in enumerate(parts) if part.casefold() in _OF_REPOSITORY}
    inside = {folder: os.fsencode(f"{folder}/HEAD") for folder in sorted(folders - {""})}
    if not inside:
        return []
    tree, found = store.load(commit, inside.values()), []
    for folder in inside:
        entry = store.look_up(tree, os.fsencode(folder))
        names = store.tree(entry.sha) if entry is not None and entry.mode == TREE else ()
        if looks_like_git_folder([os.fsdecode(name).casefold() for name in names]):
            found.append(folder)
    return found


def changes(
    store: SnapshotRepo,
    differing: Sequence[Difference],
    *,
    named: Named,
    rules: Callable[[str], list[str]] | None = None,
) -> list[ControlChange]:
    """The control files among what differs between two commits, and those of which the obeyed part does."""
    found = []
    for one in differing:
        who, part = who_obeys(one.path, named), None
        if not who and (reader := reader_of(one.path, named, rules)):
            who, part = reader
        if not who:
            continue
        before, after = (_blob(store, sha) for sha in (one.old, one.sha))
        if part is not None and one.mode != LINK:
            texts = (None if data is None else data.decode("utf-8", "replace") for data in (before, after))
            before, after = (part(text).encode() if text else None for text in texts)
            if (before or b"") == (after or b""):
                continue
        found.append(ControlChange(one.path, one.mode, before, after, who))
    return found


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


def kept_back(store: SnapshotRepo, source: Source, trust: Trust, *, tracked: bool = False) -> list[str]:
    """Files that git does not track and the person's own rules ignore, whatever the rules of sessions say today; if so, all it does not track."""
    theirs = {path: data for path, data in trust.differing(source.top).items() if os.path.basename(path) == IGNORE}
    if not (theirs or tracked):
        return []
    untracked = [name for name in store.look(source, *_UNTRACKED).out.split(b"\0") if name]
    if tracked:
        return [os.fsdecode(name) for name in untracked]
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
        names = b"".join(b"./" + name + b"\0" for name in untracked)  # a name may begin like a word of git's
        answer = asked.git("check-ignore", "--no-index", "-z", "--stdin", stdin=names, GIT_LITERAL_PATHSPECS="0")
    if answer.code not in (0, 1):  # 1 is none of them
        raise git_failure(
            "git cannot say what your own rules ignore", answer, f"Look at the .gitignore of {source.top}."
        )
    return [path.removeprefix("./") for path in os.fsdecode(answer.out).split("\0") if path]

"""On which tree a check ran, and what has changed since: a verdict counts for the files it saw."""

from __future__ import annotations

import os
import stat
from zlib import crc32

from handoff.base.files import make_folder, remove
from handoff.base.record import TYPE_CHECKING
from handoff.git.plumbing import Git, checkout, open_source, read_plain

if TYPE_CHECKING:
    from handoff.engine.app import App
    from handoff.engine.features.status import View
    from handoff.feature.folder import LogEntry
    from handoff.git.plumbing.checkout import CheckoutFacts

UNCHANGED = "no file changed since"
_MOST_FILES = 200
_MOST_BYTES = 20_000_000
_SHOWN = 8


def take(app: App, view: View, facts: CheckoutFacts | None) -> LogEntry:
    """What is kept with a verdict: the tree's id, and a mark for each file that no commit holds."""
    if facts is None or not facts.head:
        return {}
    return {"tree": _tree_id(app, facts), "files": _marks(view, facts)}


def _tree_id(app: App, facts: CheckoutFacts) -> str:
    """The id git would give to all that lies here, ignored files aside; nothing is left in the repository."""
    if not facts.dirty:
        return checkout.git(facts.top, "rev-parse", "HEAD^{tree}", environment=app.git_environment).text.strip()
    source = open_source(facts.top)
    index = os.path.join(source.folder, f"handoff-check.{os.getpid()}.index")
    objects = index + ".objects"
    make_folder(objects)
    asked = Git(facts.top, app.git_environment)
    try:
        for words in (("read-tree", "HEAD"), ("add", "-A", "--", ".")):
            if asked.git(*words, index=index, objects=objects, borrow=source.objects).code:
                return ""  # a file nobody may read; the verdict stands, its tree has no name
        return asked.git("write-tree", index=index, objects=objects, borrow=source.objects).text.strip()
    finally:
        from shutil import rmtree

        remove(index)
        rmtree(objects, ignore_errors=True)


def verdict_lines(app: App, view: View, entries: list[LogEntry], facts: CheckoutFacts | None) -> list[str]:
    """Verdicts, oldest first, each with the tree it is about; of the newest also what has changed since."""
    lines = []
    for entry in entries:
        where = f"commit {str(entry['head'])[:10]}" if entry.get("head") else "no commit"
        if entry.get("dirty"):
            where += f" and {entry['dirty']} uncommitted"
        if entry.get("tree"):
            where = f"tree {str(entry['tree'])[:10]} ({where})"
        lines.append(f"{entry.get('time', '?')} `{entry.get('command', '')}`: {entry.get('verdict', '?')} on {where}")
    lines[-1] += f"; {since(app, view, entries[-1], facts)}"
    return lines


def since(app: App, view: View, entry: LogEntry, facts: CheckoutFacts | None) -> str:
    """Whether the files are still what the check saw, in words for the next session."""
    old = entry.get("files")
    marks = _marks(view, facts) if facts is not None and isinstance(old, dict) else None
    if facts is None or marks is None or not isinstance(old, dict):
        return "whether files changed since is not known: run it again"
    moved: set[str] = set()
    if entry.get("head") != facts.head:
        words = ("diff", "--name-only", "-z", "--no-renames", str(entry.get("head")), "HEAD", "--")
        answer = checkout.git(facts.top, *words, environment=app.git_environment)
        if answer.code:
            return "its commit is no longer in this history: run it again"
        moved = {path for path in answer.text.split("\0") if path and not path.startswith(_documents(view, facts))}
    changed = moved - old.keys() | {path for path in marks if path not in old}
    changed |= {path for path, mark in old.items() if _mark(os.path.join(facts.top, path)) != mark}
    if not changed:
        return UNCHANGED
    names = sorted(changed)
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"CHANGED since, so it says nothing about the files now: {', '.join(names[:_SHOWN])}{more}"


def _documents(view: View, facts: CheckoutFacts) -> str:
    return os.path.relpath(view.workspace.path, facts.top) + "/"


def _marks(view: View, facts: CheckoutFacts) -> dict[str, str] | None:
    """A mark for each uncommitted file but the feature's documents; None where there is too much to read."""
    own = _documents(view, facts)
    found: dict[str, str] = {}
    left = _MOST_BYTES
    for path in _each_file(facts):
        if path.startswith(own):
            continue
        full = os.path.join(facts.top, path)
        left -= os.lstat(full).st_size if os.path.lexists(full) else 0
        if left < 0 or len(found) >= _MOST_FILES:
            return None
        found[path] = _mark(full)
    return found


def _each_file(facts: CheckoutFacts) -> list[str]:
    found: list[str] = []
    for path in facts.dirty:
        if not path.endswith("/"):
            found.append(path)
            continue
        for place, _, names in os.walk(os.path.join(facts.top, path)):
            found += [os.path.relpath(os.path.join(place, name), facts.top) for name in names]
            if len(found) > _MOST_FILES:
                return found
    return found


def _mark(path: str) -> str:
    """A word that changes when the file does."""
    try:
        info = os.lstat(path)
    except OSError:
        return "gone"
    if stat.S_ISLNK(info.st_mode):
        return "link " + os.readlink(path)
    data = read_plain(path)
    return f"{info.st_mode & 0o111:o}-{len(data):x}-{crc32(data):08x}"

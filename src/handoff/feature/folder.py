"""The `.handoff/` folder: where it is, which feature is active, what its documents say about themselves, and its log."""

from __future__ import annotations

import os

from handoff.base import files
from handoff.base.errors import Refused, UserError
from handoff.base.files import main_checkout
from handoff.base.ids import check_feature_name
from handoff.base.light_json import dumps, loads
from handoff.base.record import TYPE_CHECKING, Record
from handoff.base.settings import PROJECT_FOLDER
from handoff.feature.plan.lines import split

if TYPE_CHECKING:
    from typing import Any

    LogEntry = dict[str, Any]


DOCUMENTS = ("FEATURE.md", "SPEC.md", "DESIGN.md", "STATE.md", "SESSION.md")
REQUIRED = ("FEATURE.md", "STATE.md", "SESSION.md")
ARCHIVED = ".archived"
_POINTER_BYTES = 4096


class HandoffFolder(Record):
    """One `.handoff/` folder; `root` is the project it belongs to."""

    root: str

    @property
    def path(self) -> str:
        return os.path.join(self.root, PROJECT_FOLDER)

    @property
    def features(self) -> str:
        return os.path.join(self.path, "features")

    @property
    def current(self) -> str:
        return os.path.join(self.path, "current")

    @property
    def templates(self) -> str:
        return os.path.join(self.path, "templates")

    @property
    def trash(self) -> str:
        return os.path.join(self.path, "trash")

    @property
    def config(self) -> str:
        return os.path.join(self.path, "config.toml")

    @property
    def lock(self) -> str:
        return os.path.join(self.path, ".lock")


class Feature(Record):
    """One feature's folder."""

    name: str
    path: str

    def file(self, name: str) -> str:
        return os.path.join(self.path, name)

    def locked(self) -> files.locked:
        """One edit of its documents at a time."""
        return files.locked(self.file(".lock"), what=f"feature '{self.name}'")

    def has(self, name: str) -> bool:
        return os.path.isfile(self.file(name))


def find(start: str, *, home: str) -> HandoffFolder | None:
    """The workspace of the project `start` lies in: upward to the top of its checkout, and past a submodule's top.

    A linked worktree without a workspace of its own uses the one of the main checkout.
    """
    at = os.path.abspath(start)
    while True:
        if _is_workspace(at, home):
            return HandoffFolder(at)
        mark = os.path.join(at, ".git")
        if os.path.isdir(mark):
            return None
        if os.path.isfile(mark):
            main = main_checkout(at)
            if main is None or main == at:
                pass  # a submodule: the project around it is the next place to look
            else:
                return HandoffFolder(main) if _is_workspace(main, home) else None
        above = os.path.dirname(at)
        if above == at:
            return None
        at = above


def _is_workspace(root: str, home: str) -> bool:
    path = os.path.join(root, PROJECT_FOLDER)
    return os.path.isdir(path) and os.path.realpath(path) != os.path.realpath(home)


def active(workspace: HandoffFolder | None, *, chosen: str, program: str) -> Feature:
    """The feature to work on: the one named by flag or environment, else the one `current` points at."""
    none = f"No active feature found. Run: {program.partition(' --feature ')[0]} init"
    if workspace is None:
        raise UserError(none, f"No {PROJECT_FOLDER}/ folder was found from here up to the top of the repository.")
    if chosen:
        return existing(workspace, chosen, program=program)
    target = link_target(workspace)
    if target is None:
        names = live_names(workspace)
        raise UserError(none, f"Or choose one: {program} switch {names[0]}" if names else "")
    if not os.path.isdir(target):
        raise UserError(none, f"{PROJECT_FOLDER}/current points at {target}, which is not there. See: {program} list")
    return Feature(os.path.basename(target), target)


def existing(workspace: HandoffFolder, name: str, *, program: str, begin: bool = False) -> Feature:
    """A feature by its name, which may not be a path; an archived one may be named in full. With `begin` a new one is offered."""
    check_feature_name(name.removesuffix(ARCHIVED))
    path = os.path.join(workspace.features, name)
    if not os.path.isdir(path):
        from difflib import get_close_matches

        close = get_close_matches(name, all_names(workspace), n=1)
        plain = program.partition(" --feature ")[0]
        hint = f"Did you mean '{close[0]}'?" if close else f"See: {plain} list"
        if os.path.isdir(path + ARCHIVED):
            hint = f"It is archived. Bring it back: {plain} unarchive {name}"
        raise UserError(f"Feature '{name}' not found." + (f" Run: {plain} init {name}" if begin else ""), hint)
    return Feature(name, path)


def link_target(workspace: HandoffFolder) -> str | None:
    """What `current` says: a link, a pointer file (where links do not exist), or a real folder with documents."""
    current = workspace.current
    try:
        target = os.readlink(current)
    except FileNotFoundError:
        return None
    except OSError:
        return _pointer(workspace)
    return os.path.normpath(os.path.join(workspace.path, target))


def _pointer(workspace: HandoffFolder) -> str | None:
    current = workspace.current
    if os.path.isdir(current):
        return current if os.path.isfile(os.path.join(current, "FEATURE.md")) else None
    try:
        with open(current, encoding="utf-8") as file:
            words = file.read(_POINTER_BYTES).strip()
    except (OSError, UnicodeDecodeError):
        return None
    if not words or "\n" in words:
        return None
    relative = words if "/" in words or "\\" in words else f"features/{words}"
    return os.path.normpath(os.path.join(workspace.path, relative.replace("\\", "/")))


def set_current(workspace: HandoffFolder, name: str) -> None:
    """Point `current` at a feature in one rename; a reader sees the old one or the new one, never nothing."""
    current = workspace.current
    if os.path.isdir(current) and not os.path.islink(current):
        raise Refused(
            f"{current} is a real folder, not a link; it is left as it is.",
            f"Move it first, for example: mv {PROJECT_FOLDER}/current {PROJECT_FOLDER}/features/recovered",
        )
    relative = f"features/{name}"
    temp = f"{current}.{os.getpid()}-{os.urandom(4).hex()}.tmp"
    try:
        os.symlink(relative, temp)
    except OSError:  # a disk without links: the pointer file says the same
        files.write_atomic(current, relative + "\n")
        return
    try:
        os.replace(temp, current)
    except OSError as error:
        os.unlink(temp)
        raise UserError(f"Cannot switch to '{name}': {error.strerror}.", f"Look at {current}.") from error
    files.sync_folder(workspace.path)


def clear_current(workspace: HandoffFolder) -> None:
    """Leave no feature active."""
    if os.path.islink(workspace.current) or os.path.isfile(workspace.current):
        os.unlink(workspace.current)


def all_names(workspace: HandoffFolder) -> list[str]:
    """Every feature folder, archived ones too, sorted; hidden folders and links are not features."""
    try:
        entries = list(os.scandir(workspace.features))
    except OSError:
        return []
    return sorted(e.name for e in entries if e.is_dir(follow_symlinks=False) and not e.name.startswith("."))


def live_names(workspace: HandoffFolder) -> list[str]:
    return [name for name in all_names(workspace) if not name.endswith(ARCHIVED)]


def read_document(feature: Feature, name: str, *, program: str) -> str:
    """A required document, or an error that tells how to get it back."""
    if not feature.has(name):
        raise UserError(
            f"Missing required file: {name}",
            f"Write a fresh one (nothing else is touched): {program} init {feature.name}",
        )
    return files.read_text(feature.file(name))


def optional_document(feature: Feature, name: str) -> str | None:
    """A document that may be absent."""
    return files.read_text(feature.file(name)) if feature.has(name) else None


FEATURE_SENTINEL = "Describe the concrete objective of this feature."
UNWRITTEN_SENTINEL = "Not yet generated."
SESSION_SENTINEL = "None yet."
_TITLES = ("spec", "design", "session", "state", "decisions")
READY, REVIEW, SCAFFOLD, MISSING = "ready", "needs review", "scaffolded", "missing"


class Section(Record):
    """A heading with the text below it."""

    title: str
    level: int
    text: str


def readiness(name: str, text: str | None) -> str:
    """Whether a document (not STATE.md) still is the scaffold."""
    if text is None:
        return MISSING
    if name == "FEATURE.md":
        return REVIEW if _stands(text, FEATURE_SENTINEL) else READY
    if name == "SESSION.md":
        # `None yet.` counts below 'What Was Implemented'; under other headings it may be the truth.
        parts = (part.text for part in sections(text) if part.title.casefold() == "what was implemented")
        return REVIEW if _stands(next(parts, text), SESSION_SENTINEL) else READY
    return SCAFFOLD if _stands(text, UNWRITTEN_SENTINEL) else READY


def _stands(text: str, sentinel: str) -> bool:
    """The scaffold's sentence on a line of its own; a sentence that quotes it does not count."""
    if sentinel not in text:
        return False
    return any(line.strip().lstrip("-*>0123456789.R ").rstrip() == sentinel for line in split(text) if sentinel in line)


def sections(text: str) -> list[Section]:
    """Cut a document at its headings; what stands above the first one has no title. Fences are respected."""
    found: list[Section] = []
    title, level = "", 0
    body: list[str] = []
    fence = ""
    for line in split(text):
        stripped = line.lstrip()
        if stripped.startswith(("```", "~~~")):
            mark = stripped[:3]
            fence = "" if fence == mark else fence or mark
        hashes = len(stripped) - len(stripped.lstrip("#"))
        if not fence and 0 < hashes < 7 and stripped[hashes : hashes + 1] in (" ", "\t"):  # noqa: PLR2004 - six levels
            found.append(Section(title, level, "\n".join(body).strip("\n")))
            title, level, body = stripped[hashes:].strip().rstrip("#").strip(), hashes, []
        else:
            body.append(line)
    found.append(Section(title, level, "\n".join(body).strip("\n")))
    return [section for section in found if section.title or section.text.strip()]


def nested(text: str) -> str:
    """A document to stand inside another: its own title dropped, its headings below ours."""
    shown = []
    for part in sections(text):
        title = "" if part.level == 1 and part.title.casefold() in _TITLES else part.title
        if part.text.strip():
            shown.append(f"### {title}\n{part.text}" if title else part.text)
    return "\n\n".join(part.strip("\n") for part in shown).strip()


def body_of(text: str, title: str) -> str:
    """The text below the first heading of that name, sub-headings included."""
    parts: list[str] = []
    inside = 0
    for section in sections(text):
        if inside and section.level <= inside:
            break
        if inside:
            parts.append(f"{'#' * section.level} {section.title}\n{section.text}".rstrip())
        elif section.title.casefold() == title.casefold():
            inside = section.level
            parts.append(section.text)
    return "\n\n".join(part for part in parts if part.strip()).strip()


LOG_FILE = "history.jsonl"
_IGNORED = "# written by handoff: what only concerns this machine\nhistory.jsonl\n.lock\ntrash/\n"
_TAIL_BYTES = 256 * 1024


def append_log(feature: Feature, entry: LogEntry) -> None:
    """Add one line; the file is opened for appending and synced."""
    line = (dumps(entry, ascii_only=False) + "\n").encode("utf-8", "replace")
    path = feature.file(LOG_FILE)
    with feature.locked():
        _keep_out_of_git(feature)
        try:
            with open(path, "ab", buffering=0) as file:
                file.write(line)
                os.fsync(file.fileno())
        except OSError as error:
            raise UserError(f"Cannot write {path}: {error.strerror}.") from error


def _keep_out_of_git(feature: Feature) -> None:
    """What only concerns this machine (this log, locks, the trash) is not committed with the documents."""
    folder = os.path.dirname(os.path.dirname(feature.path))
    path = os.path.join(folder, ".gitignore")
    if os.path.basename(folder) == PROJECT_FOLDER and not os.path.lexists(path):
        files.create_exclusive(path, _IGNORED)


def read_log(feature: Feature) -> list[LogEntry]:
    """The last entries, oldest first. A line cut short by a crash is passed over."""
    try:
        with open(feature.file(LOG_FILE), "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL_BYTES))
            data = file.read()
    except OSError:
        return []
    entries: list[LogEntry] = []
    for line in data.splitlines():
        try:
            entry = loads(line.decode("utf-8"))
        except ValueError:
            continue
        if isinstance(entry, dict) and isinstance(entry.get("kind"), str):
            entries.append(entry)
    return entries


def last_logged(entries: list[LogEntry], *kinds: str) -> LogEntry | None:
    """The newest entry of these kinds."""
    return next((entry for entry in reversed(entries) if entry["kind"] in kinds), None)


def digest(text: str | None) -> str:
    """A short mark that changes when the text does; for noticing edits, not for security."""
    from zlib import crc32

    data = (text or "").encode("utf-8", "surrogatepass")
    return f"{len(data):x}-{crc32(data):08x}"

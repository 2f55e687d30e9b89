"""What was verified, written on the commit itself."""

from __future__ import annotations

import os

from handoff.base.errors import Conflict, UserError
from handoff.base.files import locked, make_folder
from handoff.base.light_json import dumps, loads
from handoff.base.record import TYPE_CHECKING, Record
from handoff.git.plumbing import Git, open_source
from handoff.git.plumbing.objects import FILE, TREE, Entry, Repository, commit_bytes, fetch

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from handoff.base.process import Completed

SCHEMA = 1
GREEN, RED = "green", "red"
MOST_NAMES = 50
_ID_CHARS = 16


MUTANTS, HIDDEN, QUESTIONS = "mutants", "hidden tests", "questions"
"""Suites that are no command: nobody can run them again from the record alone."""


class Check(Record):
    """One command the orchestrator ran on the tree, and what it said. Counts are None where only the exit code is known."""

    command: str
    verdict: str
    code: int = 0
    folder: str = ""
    suite: str = ""
    passed: int | None = None
    failed: int | None = None
    skipped: int | None = None
    known: int | None = None
    """Failures that were there before and are known."""
    failing: tuple[str, ...] = ()
    """Names of what failed, at most fifty."""
    seconds: float = 0.0


class Note(Record):
    """What was verified for one commit: which work, by whom, on which tree, with which checks, and what came next."""

    ended: str
    began: str
    commit: str
    tree: str
    project: str
    task: str
    flow: str = ""
    workflow: str = ""
    phase: str = ""
    role: str = ""
    cycle: int = 0
    attempt: int = 1
    agent: str = ""
    session: str = ""
    judged: str = "command"
    """By which rule: command, suite, red, green, refactor or none."""
    checks: tuple[Check, ...] = ()
    next: str = ""
    schema: int = SCHEMA

    @property
    def id(self) -> str:
        """The same work on the same tree has the same id, so that writing it again after a crash adds nothing."""
        said = "\0".join(
            (self.project, self.task, self.flow, self.phase, str(self.cycle), str(self.attempt), self.commit, self.tree)
        )
        from hashlib import sha256

        return sha256(said.encode("utf-8", "surrogateescape")).hexdigest()[:_ID_CHARS]


class NoteContent(Record):
    """What a commit's note holds: our records, and lines that are not ours or not of a schema we know."""

    records: tuple[Note, ...] = ()
    foreign: tuple[str, ...] = ()


def encode(note: Note) -> str:
    """The record as one line of JSON without its line end. Fields that say nothing are left out."""
    value: dict[str, Any] = {"schema": note.schema, "ended": note.ended, "id": note.id}
    for name, field in note._asdict().items():
        if name == "checks":
            value[name] = [_plain(check) for check in note.checks]
        elif name not in value and field != "":
            value[name] = field
    return dumps(value)


def _plain(check: Check) -> dict[str, Any]:
    found = {name: field for name, field in check._asdict().items() if field is not None and field not in ("", ())}
    found["failing"] = list(check.failing[:MOST_NAMES])
    return found if check.failing else {name: field for name, field in found.items() if name != "failing"}


def decode(line: str) -> Note | None:
    """The record a line holds; None when it is not one, or of a schema this program does not know."""
    if not line.startswith("{"):
        return None
    try:
        value = loads(line)
    except ValueError:
        return None
    if not isinstance(value, dict) or value.get("schema") != SCHEMA:
        return None
    checks = value.get("checks", [])
    if not isinstance(checks, list) or not all(isinstance(check, dict) for check in checks):
        return None
    try:
        read = tuple(Check(**_known(Check, check)) for check in checks)
        return Note(**{**_known(Note, value), "checks": read})
    except (TypeError, ValueError):
        return None


_NUMBERS = frozenset({"schema", "cycle", "attempt", "code", "passed", "failed", "skipped", "known", "seconds"})


def _known(kind: Any, value: dict[str, Any]) -> dict[str, Any]:
    """The fields of this schema with the right kind of value; a field added later is passed over."""
    found: dict[str, Any] = {}
    for name in kind._fields:
        if name not in value or name == "checks":
            continue
        field = value[name]
        if name == "failing":
            right = isinstance(field, list) and all(isinstance(item, str) for item in field)
            field = tuple(field) if right else field
        elif name in _NUMBERS:
            right = isinstance(field, int | float) and not isinstance(field, bool)
        else:
            right = isinstance(field, str)
        if not right:
            raise ValueError(name)
        found[name] = field
    return found


def parse(text: str) -> NoteContent:
    """Every record of a note, each once, and what else stands there."""
    records: dict[str, Note] = {}
    foreign: dict[str, None] = {}
    for line in text.splitlines():
        bare = line.strip()
        if not bare:
            continue
        note = decode(bare)
        if note is None:
            foreign[bare] = None
        else:
            records.setdefault(note.id, note)
    return NoteContent(tuple(records.values()), tuple(foreign))


def with_records(text: str, notes: Iterable[Note]) -> str:
    """The note's text with records added; those it has already are not added again, and nothing is taken away."""
    known = {note.id for note in parse(text).records}
    added = [encode(note) for note in notes if note.id not in known]
    if not added:
        return text
    body = text.rstrip("\n")
    return "\n".join([body, *added] if body else added) + "\n"


REF = "refs/notes/handoff"
_FETCHED = "refs/notes/handoff-fetched/"
_MERGING = "refs/notes/handoff-merging/"
_LEVELS = 3
_MANY = 256
_TRIES = 50
_PUSHES = 8
_FIELD, _END = "\x1f", "\x1e"
_WHO = "handoff <handoff@localhost>"
_REWRITE, _SAVED = "notes.rewriteRef", "handoff.notesrewrite"
_FOLDER = TREE.encode()
_STRATEGY = "notes.handoff.mergeStrategy"


class Annotated(Record):
    """A commit with what its note says."""

    commit: str
    tree: str
    time: float
    subject: str
    noted: NoteContent


class Synced(Record):
    """What an exchange with a remote did."""

    remote: str
    taken: bool
    given: bool
    tip: str


class Present(Record):
    """The notes as they are: their tip and its tree, one commit's note, and under which names it lies there."""

    tip: str
    tree: str
    text: str
    paths: tuple[str, ...]


class Notebook(Git):
    """The notes of one repository, bare or not."""

    def __init__(self, folder: str, environment: Mapping[str, str]) -> None:
        super().__init__(os.path.abspath(folder), environment)
        self._bare = not os.path.lexists(os.path.join(self.top, ".git"))
        self._common = ""

    def _turn(self) -> locked:
        """Whoever writes notes takes turns: the lock lies in the git folder all worktrees share."""
        if not self._common and self._bare:
            self._common = os.path.join(self.top, self.ask("rev-parse", "--git-common-dir").rstrip("\n"))
        elif not self._common:
            self._common = open_source(self.top).common
        folder = os.path.join(self._common, "handoff")
        make_folder(folder)
        return locked(os.path.join(folder, "notes.lock"), what="the notes", patience=60.0)

    # --- reading ---------------------------------------------------------------------------------------------

    def tip(self, ref: str = REF) -> str:
        answer = self.git("rev-parse", "-q", "--verify", ref)
        return answer.text.strip() if answer.code == 0 else ""

    def read(self, *revisions: str, limit: int = 0, walk: bool = True) -> list[Annotated]:
        """The commits a range names with their notes, newest first; one git process, also in a bare clone."""
        form = _FIELD.join(("%H", "%T", "%ct", "%s", "%N")) + _END
        words = ["log", f"--notes={REF}", "--no-show-signature", "--encoding=UTF-8", f"--format={form}"]
        words += [f"--max-count={limit}"] if limit else []
        words += [] if walk else ["--no-walk=unsorted"]  # last: a count would make git walk again
        answer = self.git(*words, *revisions, "--")
        if answer.code and revisions == ("HEAD",) and not self.tip("HEAD"):
            raise UserError("The repository has no commit yet.", "Commit something first.")
        if answer.code:
            raise UserError(
                f"git does not know {' '.join(revisions)}: {answer.error_text}",
                "Name a commit, a branch or a range such as main..topic.",
            )
        found = []
        for part in answer.text.split(_END)[:-1]:
            sha, tree, moment, subject, text = part.lstrip("\n").split(_FIELD, 4)
            found.append(Annotated(sha, tree, float(moment), subject, parse(text)))
        return found

    # --- adding ----------------------------------------------------------------------------------------------

    def add(self, commit: str, records: Sequence[Note], *, moment: float) -> bool:
        """Add records to a commit's note; False when it had them. Whoever else writes at that moment loses nothing."""
        for _ in range(_TRIES):
            with self._turn():
                there = self.present(commit)
                wanted = with_records(there.text, records)
                if wanted == there.text:
                    return False
                if self.write(commit, wanted, there, moment):
                    return True
        raise Conflict(f"Somebody else keeps changing {REF}.", "Run the command again.")

    def present(self, commit: str) -> Present:
        """The tip of the notes and one note, in one process: the note lies under one of a few names."""
        names = [f"{REF}:{_path(commit, level)}" for level in range(_LEVELS + 1)]
        tip, *notes = fetch(self, [REF, *names])
        texts = [one.data.decode("utf-8", "surrogateescape") for one in notes if one.data]
        paths = tuple(_path(commit, level) for level, one in enumerate(notes) if one.sha)
        head = tip.data.partition(b"\n")[0]
        tree = head[5:].decode() if head.startswith(b"tree ") else ""
        return Present(tip.sha, tree, "\n".join(texts), paths)

    def write(self, commit: str, text: str, there: Present, moment: float) -> bool:
        """One commit on the notes, if they still are where they were; False when they are not."""
        if self._bare:
            return self._import(commit, text, there.tip, moment)
        repo = Repository(self.top, self.environment)
        blob = repo.write("blob", text.encode("utf-8", "surrogateescape"))
        place, *others = there.paths or (_place(repo, there.tree, commit),)
        changes: dict[bytes, Entry | None] = {place.encode(): Entry(FILE, blob)}
        changes.update((other.encode(), None) for other in others)
        parents = [there.tip] if there.tip else []
        words = f"Notes added for {commit}\n"
        author = f"{_WHO} {int(moment)} +0000"
        new = repo.write("commit", commit_bytes(repo.graft(there.tree, changes), parents, words, author=author))
        answer = self.git("update-ref", "-m", "handoff: notes", REF, new, there.tip or "0" * len(new))
        return self._has_moved(answer, there.tip)

    def _has_moved(self, answer: Completed, before: str) -> bool:
        """Whether the notes moved on; False when somebody else was quicker or is at it."""
        if answer.code == 0:
            return True
        if self.tip() != before or ".lock" in answer.error_text:
            return False
        raise UserError(f"The note could not be written: {answer.error_text}", f"In {self.top}.")

    def _import(self, commit: str, text: str, tip: str, moment: float) -> bool:
        """The same in a bare repository, by git alone: fast-import moves a ref only forward from where it was."""
        data = text.encode("utf-8", "surrogateescape")
        words = f"Notes added for {commit}\n".encode()
        head = b"feature done\nblob\nmark :1\ndata %d\n%s\n" % (len(data), data)
        head += f"commit {REF}\ncommitter {_WHO} {int(moment)} +0000\ndata {len(words)}\n".encode() + words
        head += f"from {tip}\n".encode() if tip else b""
        head += f"N :1 {commit}\ndone\n".encode()
        return self._has_moved(self.git("fast-import", "--quiet", "--date-format=raw", stdin=head), tip)

    # --- other clones ----------------------------------------------------------------------------------------

    def merge(self, other: str) -> bool:
        """Take in the notes at another ref; False when that changes nothing. Records of both sides stay."""
        for _ in range(_TRIES):
            with self._turn():
                mine, theirs = self.tip(), self.tip(other)
                if not theirs or theirs == mine:
                    return False
                new = self._merged(mine, other) if mine else theirs
                if new == mine:
                    return False
                if self.git("update-ref", "-m", "handoff: notes merged", REF, new, mine or "0" * len(new)).code == 0:
                    return True
        raise Conflict(f"Somebody else keeps changing {REF}.", "Run the command again.")

    def _merged(self, mine: str, other: str) -> str:
        """The merge is made at a ref of its own: git's notes commands move refs without comparing."""
        place = f"{_MERGING}{os.getpid()}-{os.urandom(3).hex()}"
        self.ask("update-ref", place, mine)
        try:
            self.ask("notes", f"--ref={place}", "merge", "-q", "-s", "cat_sort_uniq", other)
            return self.tip(place)
        finally:
            self.git("update-ref", "-d", place)

    def sync(self, remote: str) -> Synced:
        """Fetch, merge, push, and again if somebody pushed in between. Nothing is forced, so nothing is lost."""
        place = _FETCHED + "".join(letter if letter.isalnum() else "-" for letter in remote).strip("-")
        taken = False
        for _ in range(_PUSHES):
            theirs = self._fetch(remote, place)
            taken = self.merge(place) or taken
            mine = self.tip()
            if mine == theirs or not mine:
                return Synced(remote, taken, given=False, tip=mine)
            answer = self.git("push", "-q", remote, f"{mine}:{REF}")
            if answer.code == 0:
                self.git("update-ref", place, mine)
                return Synced(remote, taken, given=True, tip=mine)
            if not any(word in answer.error_text for word in ("non-fast-forward", "fetch first", "rejected", "lock")):
                raise UserError(f"The notes could not be pushed to {remote}: {answer.error_text}")
        raise Conflict(f"{remote} changed each time the notes were pushed.", "Run the command again.")

    def _fetch(self, remote: str, place: str) -> str:
        listed = self.git("ls-remote", "--refs", remote, REF)
        if listed.code:
            raise UserError(f"'{remote}' cannot be asked: {listed.error_text}", "Name a remote or an address.")
        if not listed.text.strip():
            return ""
        self.ask("fetch", "-q", "--no-tags", "--no-write-fetch-head", remote, f"+{REF}:{place}")
        return self.tip(place)

    # --- settings --------------------------------------------------------------------------------------------

    def follow_rewrites(self) -> bool:
        """Let notes follow their commits through rebase and amend, by settings of this repository; False when they do."""
        if REF in self._values(_REWRITE) or "refs/notes/*" in self._values(_REWRITE):
            return False
        self.ask("config", "--local", "--add", _REWRITE, REF)
        self.ask("config", "--local", _STRATEGY, "cat_sort_uniq")
        self.ask("config", "--local", _SAVED, "true")
        return True

    def stop_following(self) -> bool:
        """Take those settings back, and only those; False when they were not ours."""
        if not self._values(_SAVED):
            return False
        self.git("config", "--local", "--unset-all", "--fixed-value", _REWRITE, REF)
        for name in (_STRATEGY, _SAVED):
            self.git("config", "--local", "--unset-all", name)
        for section, pattern in (
            ("notes.handoff", r"^notes\.handoff\."),
            ("notes", r"^notes\."),
            ("handoff", r"^handoff\."),
        ):
            if not self.git("config", "--local", "--get-regexp", pattern).out:
                self.git("config", "--local", "--remove-section", section)
        return True

    def follows(self) -> bool:
        return REF in self._values(_REWRITE)

    def _values(self, name: str) -> list[str]:
        return self.git("config", "--get-all", name).text.split("\n")[:-1]


def _place(repo: Repository, tree: str, commit: str) -> str:
    """Where a new note goes: as deep as git has spread the others, and one deeper when a folder gets long."""
    level, at = 0, tree
    while at and level < _LEVELS:
        names = repo.tree(at)
        inner = repo.look_up(at, commit[2 * level : 2 * level + 2].encode())
        spread = inner is not None or any(mode == _FOLDER for mode, _ in names.values())
        if not spread and len(names) < _MANY:
            break
        level += 1
        at = inner.sha if inner is not None and inner.mode == TREE else ""
    return _path(commit, level)


def _path(commit: str, level: int) -> str:
    parts = [commit[2 * at : 2 * at + 2] for at in range(level)]
    return "/".join([*parts, commit[2 * level :]])

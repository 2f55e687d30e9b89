"""Where HEAD stands, and moving a branch only if it still stands there."""

from __future__ import annotations

import os

from handoff.base.errors import UserError
from handoff.base.record import TYPE_CHECKING, Record

if TYPE_CHECKING:
    from handoff.git.plumbing.repository import Repository

_HEADS = "refs/heads/"
_LOCK_PREFIX = "ref-"
_ID_CHARS = frozenset("0123456789abcdef")


class Head(Record):
    """HEAD: the branch it is on (empty when detached) and the commit (empty before the first)."""

    ref: str
    commit: str

    @property
    def branch(self) -> str:
        return self.ref.removeprefix(_HEADS)


class Log(Record):
    """A line for the reflog: who, with moment and zone, and what."""

    who: str
    message: str


def head(repo: Repository) -> Head:
    """Read HEAD; git is only asked where refs are not plain files."""
    return _read(repo)[0]


def _read(repo: Repository) -> tuple[Head, bool]:
    """HEAD, and whether we may read and write it as a file."""
    text = _text(os.path.join(repo.folder, "HEAD"))
    plain = repo.settings.get("extensions.refstorage", "files") == "files"
    if plain and _is_id(text.strip()):
        return Head("", text.strip()), True
    ref = text[5:].strip() if text.startswith("ref: ") else ""
    loose = _text(os.path.join(repo.common, ref)).strip() if ref else ""
    plain = plain and ref.startswith(_HEADS) and (not loose or _is_id(loose))
    if plain and not os.path.islink(os.path.join(repo.folder, "HEAD")):
        return Head(ref, loose or _packed(repo, ref)), True
    ref = repo.git("symbolic-ref", "-q", "HEAD").text.strip()
    return Head(ref, repo.git("rev-parse", "-q", "--verify", "HEAD^{commit}").text.strip()), False


def _packed(repo: Repository, ref: str) -> str:
    wanted = " " + ref
    for line in _text(os.path.join(repo.common, "packed-refs")).splitlines():
        if line.endswith(wanted) and _is_id(line[: -len(wanted)]):
            return line[: -len(wanted)]
    return ""


def move(repo: Repository, old: Head, new: str, log: Log, *, ask_git: bool) -> bool:
    """Compare and swap: True if HEAD's branch stood at `old` and now stands at `new`."""
    if ask_git or not old.commit:
        return _move_with_git(repo, old, new, log)
    path = _file(repo, old.ref)
    # The lock is a second name of a file in our folder: after a `kill -9` it can be told from another git's.
    own = os.path.join(repo.common, "handoff", f"{_LOCK_PREFIX}{os.getpid()}-{os.urandom(4).hex()}")
    with open(own, "x", encoding="ascii") as file:
        file.write(new + "\n")
        if repo.sync:
            file.flush()
            os.fsync(file.fileno())
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        try:
            os.link(own, path + ".lock")
        except OSError:  # locked, or a disk without second names
            return _move_with_git(repo, old, new, log)  # git waits a moment for the other one, and says who it was
        now, plain = _read(repo)
        if now != old or not plain:
            os.unlink(path + ".lock")
            return False if plain else _move_with_git(repo, old, new, log)
        _write_logs(repo, old, new, log)
        os.rename(path + ".lock", path)
        return True
    finally:
        os.unlink(own)


def fix(repo: Repository) -> None:
    """Free the branch a killed process had locked. Only for who holds the turn."""
    folder = os.path.join(repo.common, "handoff")
    left = [os.path.join(folder, name) for name in os.listdir(folder) if name.startswith(_LOCK_PREFIX)]
    if not left:
        return
    text = _text(os.path.join(repo.folder, "HEAD"))
    for ref in ("", text[5:].strip() if text.startswith("ref: ") else ""):
        lock = _file(repo, ref) + ".lock"
        if any(_same(lock, own) for own in left):
            os.unlink(lock)
    for own in left:
        os.unlink(own)


def _file(repo: Repository, ref: str) -> str:
    return os.path.join(repo.common, ref) if ref else os.path.join(repo.folder, "HEAD")


def _same(one: str, two: str) -> bool:
    try:
        return os.path.samefile(one, two)
    except OSError:
        return False


def _move_with_git(repo: Repository, old: Head, new: str, log: Log) -> bool:
    name, email, moment = _split(log.who)
    try:
        # If we are killed now, git goes on alone: it keeps our place in line until it has ended.
        if repo.turn >= 0:
            os.set_inheritable(repo.turn, True)
        answer = repo.git(
            "update-ref",
            "-m",
            log.message,
            "HEAD",
            new,
            old.commit or "0" * len(new),
            GIT_COMMITTER_NAME=name,
            GIT_COMMITTER_EMAIL=email,
            GIT_COMMITTER_DATE=moment,
        )
    finally:
        if repo.turn >= 0:
            os.set_inheritable(repo.turn, False)
    if answer.code == 0:
        return True
    if head(repo) != old:
        return False
    raise UserError(
        f"The branch could not be moved: {answer.error_text}",
        "If no git is running, remove the .lock file named above; your files and the index are as they were.",
    )


def _write_logs(repo: Repository, old: Head, new: str, log: Log) -> None:
    wanted = repo.settings.get("core.logallrefupdates", "true").lower() not in ("false", "no", "off", "0")
    line = f"{old.commit} {new} {log.who}\t{log.message}\n".encode("utf-8", "surrogateescape")
    places = [os.path.join(repo.folder, "logs", "HEAD")]
    if old.ref:
        places.append(os.path.join(repo.common, "logs", old.ref))
    for place in places:
        if not wanted and not os.path.exists(place):
            continue
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        try:
            fd = os.open(place, flags, 0o644)
        except FileNotFoundError:
            os.makedirs(os.path.dirname(place), exist_ok=True)
            fd = os.open(place, flags, 0o644)
        os.write(fd, line)
        os.close(fd)


def _split(who: str) -> tuple[str, str, str]:
    name, _, rest = who.partition(" <")
    email, _, moment = rest.partition("> ")
    return name, email, moment


def _is_id(text: str) -> bool:
    return len(text) in (40, 64) and _ID_CHARS.issuperset(text)


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except OSError:
        return ""

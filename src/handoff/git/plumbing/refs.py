"""Where HEAD and the branches stand, read from git's own files, and moving a branch only if it still stands there."""

from __future__ import annotations

import os

from handoff.base.errors import UserError
from handoff.base.files import FileMemory
from handoff.base.record import TYPE_CHECKING, Record
from handoff.git.plumbing import is_sha, read_text

if TYPE_CHECKING:
    from handoff.git.plumbing import Source
    from handoff.git.plumbing.objects import Repository

KEPT = "refs/handoff/work/"
"""In a store: the work of tasks that was judged and kept, one commit each."""
_HEADS = "refs/heads/"
_OWN = ("refs/bisect/", "refs/worktree/", "refs/rewritten/")  # each linked worktree has these for itself
_LOCK_PREFIX = "ref-"
_remembered = FileMemory()


class Head(Record):
    """HEAD: the ref it follows (empty when detached) and the commit (empty before the first)."""

    ref: str
    commit: str

    @property
    def branch(self) -> str:
        return self.ref.removeprefix(_HEADS)


def head(source: Source) -> Head:
    """HEAD as its files say: no process is started, so nothing planted there can run."""
    return _read(source)[0]


def _read(source: Source) -> tuple[Head, bool]:
    """HEAD, and whether it and its branch are of the usual kind."""
    text = read_text(os.path.join(source.folder, "HEAD")).strip()
    if not text.startswith("ref:"):
        return Head("", text if is_sha(text) else ""), is_sha(text)
    ref = text[4:].strip()
    value = read_text(_file(source, ref)).strip()
    usual = ref.startswith(_HEADS) and (not value or is_sha(value))
    return Head(ref, value if is_sha(value) else packed_value(source.common, ref)), usual


def packed_value(common: str, ref: str) -> str:
    """What a ref is that has no file of its own any more; empty when there is none."""
    text = read_text(os.path.join(common, "packed-refs")) + "\n"
    at = text.find(f" {ref}\n")
    value = text[text.rfind("\n", 0, at) + 1 : at] if at > 0 else ""
    return value if is_sha(value) else ""


def refs(source: Source) -> dict[str, str]:
    """Every ref by its full name: packed, loose, and those only this worktree has. Symbolic refs keep their text."""
    packed = (line.partition(" ") for line in read_text(os.path.join(source.common, "packed-refs")).split("\n"))
    found = {name: value for value, _, name in packed if name and is_sha(value)}
    for base in dict.fromkeys((source.common, source.folder)):
        for name, path in walk(base, "refs"):
            value = _value(path)
            if is_sha(value) or value.startswith("ref:"):
                found[name] = value
    return found


def _value(path: str) -> str:
    """What one file of a ref says; of a large batch there are many, and most say what they said before."""
    try:
        facts = os.stat(path)
    except OSError:
        return ""
    return _remembered.get(path, facts, lambda: read_text(path).strip())


def walk(base: str, folder: str) -> list[tuple[str, str]]:
    """Files under base/folder as (name relative to base, path); links to folders are not entered."""
    found = []
    waiting = [folder]
    while waiting:
        at = waiting.pop()
        try:
            entries = sorted(os.scandir(os.path.join(base, at)), key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            name = f"{at}/{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                waiting.append(name)
            elif entry.is_file():
                found.append((name, entry.path))
    return found


# --- moving a branch ------------------------------------------------------------------------------


def current(repo: Repository) -> Head:
    """HEAD of any repository; git is only asked where refs are not plain files."""
    return _current(repo)[0]


def _current(repo: Repository) -> tuple[Head, bool]:
    """HEAD, and whether we may write it as a file."""
    found, usual = _read(repo.source)
    plain = repo.settings.get("extensions.refstorage", "files") == "files"
    if usual and plain and not os.path.islink(os.path.join(repo.folder, "HEAD")):
        return found, True
    ref = repo.git("symbolic-ref", "-q", "HEAD").text.strip()
    return Head(ref, repo.git("rev-parse", "-q", "--verify", "HEAD^{commit}").text.strip()), False


def move(repo: Repository, old: Head, new: str, who: str, message: str, *, ask_git: bool) -> bool:
    """Compare and swap: True if HEAD's branch stood at `old` and now stands at `new`; the reflog says who did what."""
    if ask_git or not old.commit:
        return _move_with_git(repo, old, new, who, message)
    path = _file(repo.source, old.ref)
    # The lock is a second name of a file in our folder: after a `kill -9` it can be told from another git's.
    own = os.path.join(repo.common, "handoff", f"{_LOCK_PREFIX}{os.getpid()}-{os.urandom(4).hex()}")
    with open(own, "x", encoding="ascii") as file:
        file.write(new + "\n")
        if repo.durable:
            file.flush()
            os.fsync(file.fileno())
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        try:
            os.link(own, path + ".lock")
        except OSError:  # locked, or a disk without second names
            return _move_with_git(
                repo, old, new, who, message
            )  # git waits a moment for the other one, and says who it was
        now, plain = _current(repo)
        if now != old or not plain:
            os.unlink(path + ".lock")
            return False if plain else _move_with_git(repo, old, new, who, message)
        _write_logs(repo, old, new, f"{who}\t{message}")
        os.rename(path + ".lock", path)
        return True
    finally:
        os.unlink(own)


def fix(repo: Repository) -> None:
    """Free the branch a killed process had locked. Only for who holds the turn."""
    folder = os.path.join(repo.common, "handoff")
    left = [os.path.join(folder, name) for name in os.listdir(folder) if name.startswith(_LOCK_PREFIX)]
    for ref in ("", head(repo.source).ref) if left else ():
        lock = _file(repo.source, ref) + ".lock"
        if any(_same(lock, own) for own in left):
            os.unlink(lock)
    for own in left:
        os.unlink(own)


def _file(source: Source, ref: str) -> str:
    """Where a ref lies; HEAD for none."""
    base = source.folder if not ref or ref.startswith(_OWN) else source.common
    return os.path.join(base, ref or "HEAD")


def _same(one: str, two: str) -> bool:
    try:
        return os.path.samefile(one, two)
    except OSError:
        return False


def _move_with_git(repo: Repository, old: Head, new: str, who: str, message: str) -> bool:
    try:
        # If we are killed now, git goes on alone: it keeps our place in line until it has ended.
        if repo.turn >= 0:
            os.set_inheritable(repo.turn, True)
        words = ("update-ref", "-m", message, "HEAD", new, old.commit or "0" * len(new))
        answer = repo.git(*words, stdin=None, **ident_variables("COMMITTER", who))
    finally:
        if repo.turn >= 0:
            os.set_inheritable(repo.turn, False)
    if answer.code == 0:
        return True
    if current(repo) != old:
        return False
    raise UserError(
        f"The branch could not be moved: {answer.error_text}",
        "If no git is running, remove the .lock file named above; your files and the index are as they were.",
    )


def ident_variables(role: str, who: str) -> dict[str, str]:
    """Somebody, with moment and zone, as git takes it from the environment."""
    name, _, rest = who.partition(" <")
    email, _, moment = rest.partition("> ")
    return {f"GIT_{role}_NAME": name, f"GIT_{role}_EMAIL": email, f"GIT_{role}_DATE": moment}


def _write_logs(repo: Repository, old: Head, new: str, words: str) -> None:
    wanted = repo.settings.get("core.logallrefupdates", "true").lower() not in ("false", "no", "off", "0")
    line = f"{old.commit} {new} {words}\n".encode("utf-8", "surrogateescape")
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

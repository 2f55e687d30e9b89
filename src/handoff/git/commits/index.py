"""The shared index: brought up to date for our own paths alone, in the same breath as the branch moves.

What holds at every moment, also after a `kill -9`:
- The shared index is only ever replaced whole, by renaming a private one over it while `index.lock` is in our hand.
- `index.lock` is ours as long as it holds our mark, which appears with the file; any other content is some other git's.
- Before the branch moves, the note says which commit is about to land and which private index belongs to it. So who comes next
  can tell a commit that landed (its index is put in place) from one that did not (the lock is freed): `fix`.
- Entries of other people's paths come from the shared index itself: a private index begins as its copy, and is made anew
  when the shared one was replaced meanwhile.
"""

from __future__ import annotations

import os
import stat
import time
from contextlib import contextmanager

from handoff.base.errors import UserError
from handoff.base.process import start_of
from handoff.base.record import TYPE_CHECKING, Record
from handoff.git.plumbing import read_plain, read_text
from handoff.git.plumbing.objects import FILE, LINK, POINTER, PROGRAM, TREE, Entry, FileStamp, look
from handoff.git.plumbing.queue import unlink

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from handoff.git.plumbing.objects import Repository

PATIENCE_SECONDS = 15.0
_PAUSE_SECONDS = 0.004
LANDING = b"handoff land "  # what the lock holds while a landing moves branch, index and files
_JOURNAL = "landing"
_INSTALLED = "installed"


class Busy(UserError):
    """Another git has held the index for too long."""


def place(repo: Repository) -> str:
    """The folder for what belongs to one commit in the making."""
    folder = os.path.join(repo.folder, "handoff")
    if not os.path.isdir(folder):
        os.makedirs(folder, exist_ok=True)
    return folder


def copy(repo: Repository, name: str) -> tuple[str, FileStamp | None]:
    """A private copy of the shared index. Its time is kept: git tells by it which entries it must look at again."""
    target = os.path.join(place(repo), name)
    try:
        source = os.open(repo.source.index_file, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        unlink(target)
        return target, None
    with open(source, "rb") as old:
        found = os.fstat(source)
        fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, found.st_mode & 0o777)
        with open(fd, "wb") as new:
            while chunk := old.read(1 << 20):
                new.write(chunk)
    os.utime(target, ns=(found.st_atime_ns, found.st_mtime_ns))
    return target, FileStamp.of(found)


def put(repo: Repository, index: str, changes: Mapping[bytes, Entry | None], *, unchanged: set[bytes]) -> None:
    """Write `changes` into a private index. For files still as committed git notes their times, too."""
    fresh = [path for path in changes if path in unchanged]
    rest = {path: entry for path, entry in changes.items() if path not in unchanged}
    if fresh:
        words = ("update-index", "-z", "--add", "--remove", "--replace", "--stdin")
        repo.ask(*words, stdin=b"".join(path + b"\0" for path in fresh), index=index)
    if rest:
        repo.ask("update-index", "-z", "--index-info", stdin=index_info(rest, repo.id_bytes), index=index)


def index_info(changes: Mapping[bytes, Entry | None], id_bytes: int) -> bytes:
    """Changes in the form `git update-index --index-info` reads; removals first, so that a file may become a folder."""
    gone = [b"0 %s\t%s\0" % (b"0" * id_bytes * 2, path) for path, entry in changes.items() if entry is None]
    kept = [f"{entry.mode} {entry.sha}\t".encode() + path + b"\0" for path, entry in changes.items() if entry]
    return b"".join(gone + kept)


@contextmanager
def hold(repo: Repository, *, patience: float = PATIENCE_SECONDS) -> Iterator[str]:
    """Hold index.lock, as git itself does while it commits.

    Before the lock exists a note says that it is ours: whoever comes next after a `kill -9` finishes or undoes it.
    """
    lock = repo.source.index_file + ".lock"
    mark = os.path.join(place(repo), f"index-{os.getpid()}-{os.urandom(4).hex()}.mark")
    with open(mark, "xb") as file:
        file.write(_mark(repo))
    try:
        announce(repo, "", "")
        deadline = time.monotonic() + patience
        while not link(mark, lock):  # appears with its content: an empty lock is some other git's
            if time.monotonic() > deadline:
                hint = f"If no git is running in this repository, it was killed: remove the file with  rm '{lock}'"
                if read_plain(lock).startswith(LANDING):
                    hint = "A landing was cut short there. Finish it with  handoff land"
                raise Busy(
                    f"Another git has held {lock} for {patience:.0f} s; nothing was committed.",
                    f"{hint}  and try again.",
                )
            time.sleep(_PAUSE_SECONDS)
        try:
            yield lock
        finally:
            if read_plain(lock) == _mark(repo):
                unlink(lock)
    finally:
        unlink(_note(repo))
        unlink(mark)


def announce(repo: Repository, new: str, private: str) -> None:
    """Say which commit is about to land and which index belongs to it."""
    temp = f"{_note(repo)}.{os.getpid()}"
    with open(temp, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(f"{new}\n{private}\n{_identity(private) if private else ''}\n")
    os.rename(temp, _note(repo))


def install(repo: Repository, private: str) -> None:
    """Make the private index the shared one; the lock in our hand stays until whoever read the old one has met it."""
    if not os.path.exists(private):
        return
    shared = repo.source.index_file
    foreign = _identity(shared) != read_text(_installed(repo)).strip()
    os.rename(private, shared)
    fd = os.open(_installed(repo), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
    os.pwrite(fd, f"{_identity(shared):<79}\n".encode(), 0)  # always as long: a file cut first would wait for the disk
    os.close(fd)
    if foreign:  # bare git writes here, too
        outwait(os.path.realpath(repo.top))


def fix(repo: Repository) -> str:
    """After a `kill -9` between lock and index: finish what landed, undo what did not. Only for who holds the turn."""
    if not os.path.exists(_note(repo)):
        return ""
    new, private, identity = (*read_text(_note(repo)).split("\n"), "", "", "")[:3]
    lock = repo.source.index_file + ".lock"
    landed = bool(new) and repo.git("merge-base", "--is-ancestor", new, "HEAD").code == 0
    done = ""
    if read_plain(lock) == _mark(repo):
        done = "Freed the index lock of a process that had been killed."
        if landed and private and _identity(private) == identity:
            install(repo, private)
            done = "Finished the index of a commit whose process had been killed."
        unlink(lock)
    if private:
        unlink(private)
    unlink(_note(repo))
    return done


def _installed(repo: Repository) -> str:
    return os.path.join(repo.folder, "handoff", _INSTALLED)


def _note(repo: Repository) -> str:
    return os.path.join(repo.folder, "handoff", _JOURNAL)


def _identity(path: str) -> str:
    """What tells a file from every other that had its name: a rename does not change it."""
    try:
        found = os.stat(path)
    except OSError:
        return "none"
    return f"{found.st_ino} {found.st_mtime_ns} {found.st_size}"


def link(source: str, target: str) -> bool:
    """Give a file a second name that appears with its content; False if the name is taken."""
    try:
        os.link(source, target)
    except FileExistsError:
        return False
    except OSError:  # a disk without second names
        try:
            with open(target, "xb") as file:
                file.write(read_plain(source))
        except FileExistsError:
            return False
    return True


def _mark(repo: Repository) -> bytes:
    """What our lock holds until the new index takes its place: no index begins like this."""
    return b"handoff safe-commit " + os.fsencode(repo.folder) + b"\n"


def sweep(repo: Repository, older_than: float) -> None:
    """Remove what killed processes left in our folder."""
    folder = os.path.join(repo.folder, "handoff")
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        path = os.path.join(folder, name)
        if name.startswith(("index-", "message-", "expected-")):
            try:
                if os.stat(path).st_mtime < older_than:
                    os.unlink(path)
            except OSError:
                continue


_GLANCE_SECONDS = 0.001
_LONGEST_SECONDS = 2.0
_YOUNG = 4000  # so many processes are not started while one git is between its reading and its locking


def outwait(top: str) -> int:
    """Wait until every git that may have read this checkout's index before now has ended; how many there were.

    Called with git's own index.lock in hand: whoever read the index before we replaced it fails at the lock, as git means it
    to, instead of writing the old one over ours. A git that runs for long is past that point: it is not waited for.
    """
    waiting = _gits(top)
    found, deadline = len(waiting), time.monotonic() + _LONGEST_SECONDS
    while waiting and time.monotonic() < deadline:
        time.sleep(_GLANCE_SECONDS)
        waiting = {pid: start for pid, start in waiting.items() if start_of(int(pid)) == start}
    return found


def _gits(top: str) -> dict[str, str]:
    """The young gits in a checkout, with the moment each was started. Where there is no /proc, none is seen."""
    found = {}
    own = str(os.getpid())
    try:
        with open("/proc/uptime", encoding="ascii") as file:
            oldest = (float(file.read().split()[0]) - _LONGEST_SECONDS) * os.sysconf("SC_CLK_TCK")
        with open("/proc/loadavg", encoding="ascii") as file:
            newest = int(file.read().split()[-1])
        with open("/proc/sys/kernel/pid_max", encoding="ascii") as file:
            numbers = int(file.read())
        names = os.listdir("/proc")
    except (OSError, ValueError):
        return {}
    for pid in names:  # numbers are given in their order, and begin anew at the end
        if pid.isdigit() and (newest - int(pid)) % numbers < _YOUNG and pid != own and _is_git(pid):
            try:
                place = os.readlink(f"/proc/{pid}/cwd")
            except OSError:  # gone, or somebody else's
                continue
            start = start_of(int(pid))
            if start and int(start) >= oldest and (place == top or place.startswith(top + os.sep)):
                found[pid] = start
    return found


def _is_git(pid: str) -> bool:
    try:
        with open(f"/proc/{pid}/comm", "rb", buffering=0) as file:
            return file.read(16).startswith(b"git")
    except OSError:
        return False


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

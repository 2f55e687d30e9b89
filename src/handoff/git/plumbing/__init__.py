"""git from below: the one way to start it, and where a checkout keeps its things.

It stands in the package itself: every command that touches git loads this much, and not one file more.
"""

from __future__ import annotations

import os
import stat

from handoff.base.errors import Away, Refused, UserError
from handoff.base.record import TYPE_CHECKING, Record

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from typing import ClassVar

    from handoff.base.process import Completed

# What we do in a person's repository on our own account: their settings count, but no hook runs and nothing stays behind.
QUIET = (
    f"core.hooksPath={os.devnull}",
    "core.fsmonitor=false",
    "gc.auto=0",
    "advice.detachedHead=false",
    "log.showSignature=false",
)
_FULL = ("No space left on device", "Disk quota exceeded")
_GIT_FOLDER = ("HEAD", "objects", "refs", "commondir")
# git's files that must be plain: a pipe or a device in their place would keep it waiting for ever.
_PLAIN_FILES = (
    "HEAD config config.worktree index packed-refs commondir shallow info/exclude info/attributes info/grafts"
    " objects/info/alternates"
).split()


def git_failure(what: str, answer: Completed, hint: str) -> UserError:
    """git's own words as an error; where only room on a disk is missing, that is the hint."""
    text = f"{what}: {answer.error_text or f'exit {answer.code}'}"
    if any(words in text for words in _FULL):
        return Away(text, "The disk is full: free some space and run the command again.")
    return UserError(text, hint)


class Git:
    """git in one place, and whose word counts there: the person's, less what `settings` overrides.

    Where nobody's word counts (a session's clone, our own stores) it is made by `untrusted.distrusting`.
    """

    always: ClassVar[Mapping[str, str]] = {}  # what its every call finds in the environment

    def __init__(
        self,
        top: str,
        environment: Mapping[str, str],
        settings: Sequence[str] = QUIET,
        *,
        folder: str = "",
        seconds: float = 0.0,
    ) -> None:
        self.top = top
        self.environment = dict(environment)
        self._folder = folder
        self._options = [word for setting in settings for word in ("-c", setting)]
        self._seconds = seconds

    def git(
        self,
        *words: str,
        stdin: bytes | None = None,
        top: str = "",
        index: str = "",
        objects: str = "",
        borrow: str | Sequence[str] = "",
        **more: str,
    ) -> Completed:
        """One git call; at will in another checkout (`top`), with another index or place for objects, or one more to `borrow` from."""
        from handoff.base.process import capture, run

        argv, environment = self._call(words, top, index, more)
        if objects:
            environment["GIT_OBJECT_DIRECTORY"] = objects
        if borrow:
            several = (borrow,) if isinstance(borrow, str) else borrow
            environment["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = ":".join(_quote_alternate(one) for one in several)
        if self._seconds:
            return run(argv, environment=environment, stdin=stdin, timeout=self._seconds)
        return capture(argv, environment=environment, stdin=stdin)

    def begin(self, *words: str, top: str = "", index: str = "") -> Callable[[], Completed]:
        """A git call that runs beside us; the function that comes back waits for its answer."""
        from handoff.base.process import begin

        argv, environment = self._call(words, top, index, {})
        return begin(argv, environment=environment)

    def _call(
        self, words: Sequence[str], top: str, index: str, more: Mapping[str, str]
    ) -> tuple[list[str], dict[str, str]]:
        """The words and the environment of one call."""
        top = top or self.top
        place = ["-C", top] if top else []
        if self._folder:
            place += [f"--git-dir={self._folder}", *([f"--work-tree={top}"] if top else [])]
        own = {"GIT_INDEX_FILE": index} if index else {}
        return ["git", *place, *self._options, *words], {**self.environment, **self.always, **more, **own}

    def ask_bytes(self, *words: str, stdin: bytes | None = None, **more: str) -> bytes:
        """Like `git`, but a failure is an error with git's own words."""
        answer = self.git(*words, stdin=stdin, **more)
        if answer.code:
            place = more.get("top") or self.top or self._folder
            raise git_failure(f"git {words[0]} failed", answer, f"In {place}.")
        return answer.out

    def ask(self, *words: str, stdin: bytes | None = None, **more: str) -> str:
        """The same as text; bytes that are not UTF-8 survive a round trip."""
        return self.ask_bytes(*words, stdin=stdin, **more).decode("utf-8", "surrogateescape")


class Source(Record):
    """One checkout and where git keeps its things. A linked worktree shares `common` with its siblings."""

    top: str
    folder: str
    common: str

    @property
    def objects(self) -> str:
        return os.path.join(self.common, "objects")

    @property
    def index_file(self) -> str:
        return os.path.join(self.folder, "index")


def open_source(top: str) -> Source:
    """The git folders behind the checkout at `top`, found without a process."""
    link = os.path.join(top, ".git")
    folder = link
    if os.path.isfile(link):
        text = read_text(link)
        if not text.startswith("gitdir:"):
            raise UserError(f"{link} is not a git folder.", "Run the command inside a git checkout.")
        folder = os.path.normpath(os.path.join(top, text[7:].strip()))
    if not os.path.isfile(os.path.join(folder, "HEAD")) and not os.path.islink(os.path.join(folder, "HEAD")):
        raise UserError(f"{top} has no git repository.", "Run the command inside a git checkout, or: git init")
    for name in _PLAIN_FILES:
        path = os.path.join(folder, name)
        if os.path.exists(path) and not os.path.isfile(path):
            raise Refused(
                f"{path} is not a plain file.", "Somebody put something else there; look at it, then remove it."
            )
    shared = read_text(os.path.join(folder, "commondir")).strip()
    return Source(top, folder, os.path.normpath(os.path.join(folder, shared)) if shared else folder)


def find_top(folder: str) -> str | None:
    """The top of the checkout that holds `folder`: worktrees and submodules have their own. No process is started."""
    at = os.path.abspath(folder)
    while not os.path.lexists(os.path.join(at, ".git")):
        above = os.path.dirname(at)
        if above == at:
            return None
        at = above
    return at


def no_checkout(folder: str, hint: str = "Go to your project, or use: handoff -C DIR …") -> UserError:
    """Why nothing can be done where `find_top` finds nothing."""
    if is_bare(folder):
        what = "This is a bare repository: it has no files anybody could work on."
        return UserError(what, "Clone it and go there: git clone THIS_FOLDER DIR")
    return UserError("This is not a git repository.", hint)


def is_bare(folder: str) -> bool:
    """Whether a folder lies in a git folder that has no checkout around it."""
    at, above = "", os.path.abspath(folder)
    while at != above:
        at, above = above, os.path.dirname(above)
        if is_git_folder(at):
            return True
    return False


def is_git_folder(folder: str) -> bool:
    """Whether git takes a folder for a repository, by what is in it and whatever it is called."""
    return looks_like_git_folder(
        [name.casefold() for name in _GIT_FOLDER if os.path.lexists(os.path.join(folder, name))]
    )


def looks_like_git_folder(names: Collection[str]) -> bool:
    """Whether these names, in small letters, are those of a repository; a linked worktree names another."""
    return "head" in names and (("objects" in names and "refs" in names) or "commondir" in names)


def algorithm_of(folder: str) -> str:
    """By which sum the objects of a git folder are named."""
    settings = b"".join(read_plain(os.path.join(folder, "config")).lower().split())
    return "sha256" if b"objectformat=sha256" in settings else "sha1"


def is_sha(text: str) -> bool:
    """Whether the text is a full object name."""
    return len(text) in (40, 64) and not text.strip("0123456789abcdef")


def read_plain(path: str) -> bytes:
    """The bytes of a plain file, nothing of anything else: a pipe somebody put there would keep us waiting for ever."""
    try:
        with open(path, "rb", opener=_open_at_once) as file:
            return file.read() if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else b""
    except OSError:
        return b""


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def read_text(path: str) -> str:
    """The same as text; bytes that are not UTF-8 survive a round trip."""
    return read_plain(path).decode("utf-8", "surrogateescape")


def _quote_alternate(path: str) -> str:
    if ":" not in path and not path.startswith('"'):
        return path
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"'

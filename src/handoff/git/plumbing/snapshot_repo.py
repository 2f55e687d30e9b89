"""The snapshot store: a bare repository outside every session's reach that owns every object it refers to."""

from __future__ import annotations

import os
import zlib
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from handoff.base.errors import UserError
from handoff.base.files import make_folder, write_atomic
from handoff.base.process import Completed, capture
from handoff.base.settings import without_guard
from handoff.git.plumbing.pack import pack

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from handoff.git.plumbing.query import Source

SNAP = "refs/handoff/snap/"
_FEW = 10
FILE, PROGRAM, LINK, FOLDER, POINTER = "100644", "100755", "120000", "40000", "160000"
_PERSON = "handoff <snapshots@handoff.invalid>"
_CONFIG = """[core]
\trepositoryformatversion = {version}
\tbare = true
\tlogAllRefUpdates = false
\tfsync = pack,pack-metadata
\tuntrackedCache = false
[gc]
\tauto = 0
[pack]
\twriteReverseIndex = false
[uploadpack]
\tallowAnySHA1InWant = true
"""
# Whatever .gitattributes say: a snapshot holds the bytes that lie on the disk, and no filter program is started.
_ATTRIBUTES = "* -text -eol -crlf -ident -filter -working-tree-encoding\n"
# Nothing that a session could have planted runs when the coordinator's git looks at its folder.
_OVERRIDES = {
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "core.attributesFile": os.devnull,
    "core.excludesFile": os.devnull,
    "core.alternateRefsCommand": "true",
    "core.untrackedCache": "false",
    "core.quotePath": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "commit.gpgSign": "false",
    "protocol.ext.allow": "never",
    "log.showSignature": "false",
    "submodule.recurse": "false",
    "advice.detachedHead": "false",
}


def trusted_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment for the coordinator's git in folders it does not trust: no hooks, no drivers, nobody's settings."""
    kept = {key: value for key, value in environment.items() if not key.startswith("GIT_") or key == "GIT_EXEC_PATH"}
    kept.update(
        LC_ALL="C",
        GIT_TERMINAL_PROMPT="0",
        GIT_OPTIONAL_LOCKS="0",
        GIT_CONFIG_GLOBAL=os.devnull,
        GIT_CONFIG_SYSTEM=os.devnull,
        GIT_CONFIG_NOSYSTEM="1",
        GIT_ATTR_NOSYSTEM="1",
        GIT_NO_REPLACE_OBJECTS="1",
        GIT_LITERAL_PATHSPECS="1",
        GIT_ALLOW_PROTOCOL="none",  # a missing object is missing: a clone's settings may name a program to fetch it with
        GIT_NO_LAZY_FETCH="1",
        GIT_CONFIG_COUNT=str(len(_OVERRIDES)),
    )
    for number, (key, value) in enumerate(_OVERRIDES.items()):
        kept[f"GIT_CONFIG_KEY_{number}"] = key
        kept[f"GIT_CONFIG_VALUE_{number}"] = value
    if "PATH" in kept:
        kept["PATH"] = without_guard(kept["PATH"])
    return kept


class TreeEntry(NamedTuple):
    """One name in a tree."""

    mode: str
    name: str
    sha: str


class SnapshotRepo:
    """Objects and snapshot refs of one project. Objects are written by us or packed from a session's, never borrowed."""

    def __init__(self, path: str, environment: Mapping[str, str]) -> None:
        self.path = path
        self.environment = trusted_environment(environment)
        self._algorithm = ""
        self.held: dict[str, tuple[str, bytes]] | None = None  # written, but not on the disk yet
        self.packs: list[bytes] = []  # what was written together, for a checkout that needs the same objects

    @property
    def objects(self) -> str:
        return os.path.join(self.path, "objects")

    @property
    def exists(self) -> bool:
        return os.path.isfile(os.path.join(self.path, "HEAD"))

    def create(self, common: str) -> None:
        """Make the store for the repository whose shared git folder is `common`, if there is none."""
        if self.exists:
            return
        make_folder(os.path.dirname(self.path), mode=0o700)
        temp = f"{self.path}.{os.getpid()}-{os.urandom(4).hex()}.tmp"
        wide = "sha256" in _text(os.path.join(common, "config"))
        answer = capture(
            ["git", "init", "-q", "--bare", "--template=", f"--object-format={'sha256' if wide else 'sha1'}", temp],
            environment=self.environment,
        )
        if answer.code:
            raise UserError(f"Cannot make the snapshot store: {answer.error_text}", "handoff needs git 2.38 or newer.")
        config = _CONFIG.format(version=1 if wide else 0)
        if wide:
            config += "[extensions]\n\tobjectFormat = sha256\n"
        write_atomic(os.path.join(temp, "config"), config)
        make_folder(os.path.join(temp, "info"))
        write_atomic(os.path.join(temp, "info", "attributes"), _ATTRIBUTES)
        write_atomic(os.path.join(temp, "project"), common + "\n")
        try:
            os.rename(temp, self.path)
        except OSError:
            if not self.exists:  # somebody else was quicker: theirs is as good as ours
                raise
        os.chmod(self.path, 0o700)

    # --- git, always with this folder as its repository ------------------------------------------

    def git(
        self,
        *words: str,
        stdin: bytes | None = None,
        index: str = "",
        top: str = "",
        borrow: str = "",
        objects: str = "",
    ) -> Completed:
        """One git call on the store. `top` is the work tree, `borrow` another object folder to read from."""
        if self.held:
            self._flush()
        environment = dict(self.environment)
        if index:
            environment["GIT_INDEX_FILE"] = index
        if borrow:
            environment["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = _quote_alternate(borrow)
        if objects:
            environment["GIT_OBJECT_DIRECTORY"] = objects
        place = ["-C", top, f"--git-dir={self.path}", f"--work-tree={top}"] if top else [f"--git-dir={self.path}"]
        return capture(["git", *place, *words], environment=environment, stdin=stdin)

    def look(self, source: Source, *words: str, stdin: bytes | None = None) -> Completed:
        """One git question to a session's own repository, with everything that could run there switched off."""
        place = ["-C", source.top, f"--git-dir={source.folder}", f"--work-tree={source.top}"]
        return capture(["git", *place, *words], environment=self.environment, stdin=stdin)

    def ask(self, *words: str, **options: str) -> str:
        """Like `git`, but a failure is an error with git's words."""
        answer = self.git(*words, **options)  # type: ignore[arg-type]
        if answer.code:
            raise UserError(
                f"git {words[0]} failed in the snapshot store: {answer.error_text}", f"Look at {self.path}."
            )
        return answer.text

    # --- objects ----------------------------------------------------------------------------------

    def write(self, kind: str, data: bytes) -> str:
        """Put one object into the store (once) and return its name."""
        import hashlib

        content = f"{kind} {len(data)}\0".encode() + data
        sha = hashlib.new(self.algorithm, content, usedforsecurity=False).hexdigest()
        if self.held is not None:
            self.held.setdefault(sha, (kind, data))
            return sha
        folder = os.path.join(self.objects, sha[:2])
        path = os.path.join(folder, sha[2:])
        if os.path.exists(path):
            return sha
        temp = os.path.join(folder, f"tmp_obj_{os.getpid()}{os.urandom(3).hex()}")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            fd = os.open(temp, flags, 0o444)
        except FileNotFoundError:
            os.makedirs(folder, exist_ok=True)
            fd = os.open(temp, flags, 0o444)
        try:
            view = memoryview(zlib.compress(content, 1))
            while view:
                view = view[os.write(fd, view) :]
        finally:
            os.close(fd)
        os.rename(temp, path)
        return sha

    @contextmanager
    def gathered(self) -> Iterator[None]:
        """Inside, new objects are kept in memory until git or the end needs them, and are written together."""
        self.held = {}
        try:
            yield
            self._flush()
        finally:
            self.held = None

    def _flush(self) -> None:
        waiting, self.held = self.held or {}, None
        try:
            if len(waiting) <= _FEW:
                for kind, data in waiting.values():
                    self.write(kind, data)
                return
            self.packs.append(pack(waiting.values(), self.algorithm))
            if self.git("index-pack", "--stdin", stdin=self.packs[-1]).code:
                raise UserError("The snapshot store cannot be written.", f"Look at {self.path}: is the disk full?")
        finally:
            self.held = {}

    @property
    def algorithm(self) -> str:
        if not self._algorithm:
            self._algorithm = "sha256" if "sha256" in _text(os.path.join(self.path, "config")) else "sha1"
        return self._algorithm

    def write_tree(self, entries: Iterable[TreeEntry]) -> str:
        """A tree object from its entries."""
        ordered = sorted(entries, key=lambda entry: os.fsencode(entry.name + ("/" if entry.mode == FOLDER else "")))
        data = b"".join(
            f"{entry.mode} ".encode() + os.fsencode(entry.name) + b"\0" + bytes.fromhex(entry.sha) for entry in ordered
        )
        return self.write("tree", data)

    def write_files(self, files: Mapping[str, tuple[bytes, bool]]) -> str:
        """A tree of nested names from small files kept in memory."""
        folders: dict[str, dict[str, tuple[bytes, bool]]] = {}
        entries = []
        for name, value in files.items():
            first, slash, rest = name.partition("/")
            if slash:
                folders.setdefault(first, {})[rest] = value
            else:
                entries.append(TreeEntry(PROGRAM if value[1] else FILE, first, self.write("blob", value[0])))
        entries += [TreeEntry(FOLDER, name, self.write_files(inside)) for name, inside in folders.items()]
        return self.write_tree(entries)

    def write_commit(self, tree: str, parents: Sequence[str], message: str, *, moment: int) -> str:
        """A commit object; the same words at the same moment give the same commit."""
        lines = [f"tree {tree}", *(f"parent {parent}" for parent in parents)]
        lines += [f"author {_PERSON} {moment} +0000", f"committer {_PERSON} {moment} +0000", "", message]
        return self.write("commit", "\n".join(lines).encode("utf-8", "surrogateescape"))

    def own(self, wanted: Sequence[str], known: Sequence[str], *, borrow: str) -> bool:
        """Copy everything `wanted` needs and `known` does not already hold into the store; False if git cannot read it."""
        if not wanted:
            return True
        lines = [*wanted, *(f"^{sha}" for sha in known)]
        answer = self.git(
            "pack-objects",
            "-q",
            "--revs",
            "--non-empty",
            "--delta-base-offset",
            "--window=0",
            os.path.join(self.objects, "pack", "pack"),
            stdin=("\n".join(lines) + "\n").encode(),
            borrow=borrow,
        )
        return answer.code == 0

    def readable(self, shas: Sequence[str], *, borrow: str = "") -> dict[str, str]:
        """Which of the objects can be read, and what kind each is."""
        if not shas:
            return {}
        answer = self.git("cat-file", "--batch-check", stdin=("\n".join(shas) + "\n").encode(), borrow=borrow)
        found = {}
        for line in answer.text.splitlines():
            words = line.split(" ")
            if words[-1] != "missing" and len(words) > 1:
                found[words[0]] = words[1]
        return found

    def read(self, sha: str, *, borrow: str = "") -> bytes:
        """One object's bytes."""
        if self.held and sha in self.held:
            return self.held[sha][1]
        try:
            with open(os.path.join(self.objects, sha[:2], sha[2:]), "rb") as file:
                return zlib.decompress(file.read()).partition(b"\0")[2]
        except (OSError, zlib.error):
            pass  # packed, or not ours: git knows
        answer = self.git("cat-file", "--batch", stdin=f"{sha}\n".encode(), borrow=borrow)
        first, _, rest = answer.out.partition(b"\n")
        words = first.split(b" ")
        if answer.code or len(words) < 3:  # noqa: PLR2004 - name, kind, size
            raise UserError(f"The snapshot store lacks {sha}.", f"Check it: git --git-dir {self.path} fsck")
        return rest[: int(words[2])]

    # --- refs -------------------------------------------------------------------------------------

    def point(self, ref: str, sha: str) -> None:
        """Create or move one of our refs."""
        path = os.path.join(self.path, ref)
        make_folder(os.path.dirname(path))
        temp = os.path.join(self.path, f"ref.{os.getpid()}-{os.urandom(3).hex()}.tmp")
        with open(temp, "x", encoding="ascii") as file:
            file.write(sha + "\n")
        os.rename(temp, path)

    def sync(self) -> None:
        """Make everything written so far survive a power cut: one flush instead of one for each object."""
        import ctypes

        fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            syncfs = getattr(ctypes.CDLL(None), "syncfs", None)
            if syncfs is None or syncfs(fd) != 0:
                os.sync()
        finally:
            os.close(fd)

    def fix(self) -> int:
        """After the machine went down: remove loose objects that did not reach the disk whole, so that they are written anew."""
        boot = _text("/proc/sys/kernel/random/boot_id").strip()
        mark = os.path.join(self.path, "boot")
        if not boot or _text(mark).strip() == boot:
            return 0
        removed = 0
        for folder in os.listdir(self.objects):
            if len(folder) != 2:  # noqa: PLR2004 - the first byte of a name
                continue
            for name in os.listdir(os.path.join(self.objects, folder)):
                path = os.path.join(self.objects, folder, name)
                try:
                    with open(path, "rb") as file:
                        zlib.decompress(file.read())
                except (OSError, zlib.error):
                    os.unlink(path)
                    removed += 1
        if removed:
            self._forget()
        write_atomic(mark, boot + "\n")
        return removed

    def _forget(self) -> None:
        """Let every workspace's next snapshot read all files again."""
        for folder, _, files in os.walk(os.path.join(self.path, "handoff")):
            for name in files:
                if name in ("index", "state", "pending", "modes"):
                    os.unlink(os.path.join(folder, name))
        last = os.path.join(self.path, "refs", "handoff", "last")
        for name in os.listdir(last) if os.path.isdir(last) else ():
            os.unlink(os.path.join(last, name))


def _quote_alternate(path: str) -> str:
    if ":" not in path and not path.startswith('"'):
        return path
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""

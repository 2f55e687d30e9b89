"""The snapshot store: a bare repository outside every session's reach that owns every object it refers to; and where a checkout's is."""

from __future__ import annotations

import os
import zlib
from contextlib import suppress

from handoff.base.errors import Conflict
from handoff.base.files import kept_project, locked, make_folder, remove, write_atomic
from handoff.base.ids import check_id, slug
from handoff.base.record import TYPE_CHECKING, Record
from handoff.git.plumbing import Source, algorithm_of, is_sha, open_source, read_plain, read_text
from handoff.git.plumbing.objects import Objects, commit_bytes, digest
from handoff.git.plumbing.untrusted import distrusting, make_git_folder, strict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from handoff.base.process import Completed

SNAP = "refs/handoff/snap/"
LENT = "refs/handoff/lent/"
_SHALLOW = "shallow"
_FEW_OBJECTS = 100  # as git does when it fetches: so few need no pack of their own
_FEW_BYTES = 8 * 1024 * 1024
_GIVE_SECONDS = 300.0
_MANY_PACKS = 32
_PERSON = "handoff <snapshots@handoff.invalid>"
_SETTINGS = """\tbare = true
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
_INDEX_START, _INDEX_NAMES = (
    b"\xfftOc\0\0\0\2",
    8 + 256 * 4,
)  # how many begin with each byte or a smaller one, then the names
_PACK_HEAD = 12  # a word, the version, and how many objects
_SYNCED = ("-c", "core.fsync=loose-object", "-c", "core.fsyncMethod=batch")
# Whatever .gitattributes say: a snapshot holds the bytes that lie on the disk, and no filter program is started.
_ATTRIBUTES = "* -text -eol -crlf -ident -filter -working-tree-encoding\n"


class SnapshotRepo(Objects):
    """Objects and snapshot refs of one project. Objects are written by us or packed from a session's, never borrowed."""

    def __init__(self, path: str, environment: Mapping[str, str]) -> None:
        self.path = path
        super().__init__(os.path.join(path, "objects"), "", strict(environment), settings=(), folder=path)

    @property
    def exists(self) -> bool:
        return os.path.isfile(os.path.join(self.path, "HEAD"))

    def create(self, common: str) -> None:
        """Make the store for the repository whose shared git folder is `common`, if there is none."""
        if self.exists:
            return
        make_folder(os.path.dirname(self.path), mode=0o700)
        temp = f"{self.path}.{os.getpid()}-{os.urandom(4).hex()}.tmp"
        make_git_folder(temp, algorithm_of(common), _SETTINGS, head="ref: refs/heads/main")
        write_atomic(os.path.join(temp, "info", "attributes"), _ATTRIBUTES)
        write_atomic(os.path.join(temp, "project"), common + "\n")
        try:
            os.rename(temp, self.path)
        except OSError:
            if not self.exists:  # somebody else was quicker: theirs is as good as ours
                raise
        os.chmod(self.path, 0o700)

    def look(self, source: Source, *words: str, stdin: bytes | None = None) -> Completed:
        """One git question to a session's own repository, with everything that could run there switched off."""
        return distrusting(source.folder, self.environment, source.top).git(*words, stdin=stdin)

    # --- objects ----------------------------------------------------------------------------------

    def write_commit(self, tree: str, parents: Sequence[str], message: str, *, moment: int, person: str = "") -> str:
        """A commit of ours, or in a person's name; the same words at the same moment give the same commit."""
        author = f"{person or _PERSON} {moment} +0000"
        return self.write("commit", commit_bytes(tree, parents, message, author=author))

    def own(self, wanted: Sequence[str], known: Sequence[str], *, borrow: str, **more: str) -> bool:
        """Copy everything `wanted` needs and `known` does not already hold into the store; False if git cannot read it."""
        return not wanted or self.pack_into(self.objects, wanted, known, borrow=borrow, **more).code == 0

    def pack_into(
        self,
        objects: str,
        wanted: Sequence[str],
        known: Sequence[str],
        *,
        borrow: str | Sequence[str] = "",
        **more: str,
    ) -> Completed:
        """Put what `wanted` needs and `known` does not hold as one pack into an object folder."""
        target = os.path.join(objects, "pack", "pack")
        words = ("pack-objects", "-q", "--revs", "--non-empty", "--delta-base-offset", "--window=0", target)
        lines = [*wanted, *(f"^{sha}" for sha in known)]
        return self.git(*words, stdin=("\n".join(lines) + "\n").encode(), borrow=borrow, **more)

    def give(self, objects: str, wanted: Sequence[str], known: Sequence[str]) -> Completed:
        """The same into an object folder of a person: few objects lie there loose. Every git of theirs asks each pack.

        One at a time: who finds the pack of another there must not rely on it while it is being taken apart.
        """
        folder = os.path.join(objects, "pack")
        make_folder(folder)
        lock = os.path.join(self.path, "handoff", "give.lock")
        with locked(lock, what="the objects of the checkout", patience=_GIVE_SECONDS):
            before = set(os.listdir(folder))
            answer = self.pack_into(objects, wanted, known)
            name = f"pack-{answer.text.strip()}"
            data = _read_few(os.path.join(folder, f"{name}.pack")) if f"{name}.pack" not in before else b""
            if answer.code or not data or self._any_loose(objects, os.path.join(folder, f"{name}.idx")):
                return answer
            for ending in (".idx", ".rev", ".pack"):  # git does not unpack what it finds in a pack
                remove(os.path.join(folder, name + ending))
            return self.git(*_SYNCED, "unpack-objects", "-q", stdin=data, objects=objects)

    def _any_loose(self, objects: str, index: str) -> bool:
        """Whether one of a pack's objects has a file already: git would not write it again even if it is spoiled."""
        data, width = read_plain(index), 32 if self.algorithm == "sha256" else 20
        if not data.startswith(_INDEX_START):
            return True  # an index of another kind: the pack stays
        count = int.from_bytes(data[_INDEX_NAMES - 4 : _INDEX_NAMES], "big")
        starts = range(_INDEX_NAMES, _INDEX_NAMES + count * width, width)
        names = [data[at : at + width].hex() for at in starts]
        return any(os.path.lexists(os.path.join(objects, one[:2], one[2:])) for one in names)

    def join_packs(self) -> bool:
        """Let many packs be few: each snapshot may bring one, and every git asks them all. Whether there was anything to do.

        Nothing is left out, whether anybody refers to it or not; small packs are joined when they are worth it together.
        """
        names = os.listdir(os.path.join(self.objects, "pack"))
        if sum(name.endswith(".pack") for name in names) - sum(name.endswith(".keep") for name in names) < _MANY_PACKS:
            return False
        with suppress(Conflict), locked(self.housekeeping, what="the snapshot store", patience=0.0):
            return self.git("repack", "-q", "-d", "--geometric=2").code == 0
        return False

    @property
    def housekeeping(self) -> str:
        """The lock of whoever packs or removes objects."""
        return os.path.join(self.path, "handoff", "gc.lock")

    def readable(self, shas: Sequence[str], *, borrow: str = "", objects: str = "") -> dict[str, str]:
        """Which of the objects can be read, here or in another object folder, and what kind each is."""
        if not shas:
            return {}
        asked = ("\n".join(shas) + "\n").encode()
        answer = self.git("cat-file", "--batch-check", stdin=asked, borrow=borrow, objects=objects)
        lines = (line.split(" ") for line in answer.text.splitlines())
        return {words[0]: words[1] for words in lines if words[-1] != "missing" and len(words) > 1}

    def peeled(self, tags: Sequence[str], *, objects: str) -> dict[str, str]:
        """What tag objects of another object folder mean in the end, through tags of tags; without those whose end is not there."""
        if not tags:
            return {}
        asked = "".join(f"{tag}^{{}}\n" for tag in tags).encode()
        ends = self.git("cat-file", "--batch-check=%(objectname)", stdin=asked, objects=objects).text.splitlines()
        return {tag: end for tag, end in zip(tags, ends, strict=True) if is_sha(end)}

    # --- whole histories --------------------------------------------------------------------------

    def adopt(self, tip: str, objects: str, *, cut: str) -> None:
        """Own a history that lies whole beside the store, without a second copy of it on the disk."""
        under = read_text(os.path.join(objects, "info", "alternates")).splitlines()
        tips = [os.path.basename(os.path.dirname(place)) for place in under]
        if any(self.git("rev-parse", "-q", "--verify", LENT + one).code for one in tips):
            return
        folder = os.path.join(objects, "pack")
        try:
            for name in sorted(os.listdir(folder), key=lambda one: one.endswith(".idx")):  # git looks for these
                with suppress(FileExistsError):
                    os.link(os.path.join(folder, name), os.path.join(self.objects, "pack", name))
                if name.endswith(".pack"):
                    write_atomic(os.path.join(self.objects, "pack", f"{name[:-5]}.keep"), f"{tip}\n")
        except OSError:
            return  # a disk without second names: the next snapshot takes its own copy
        self.cut(cut)
        self.point(LENT + tip, tip)

    def release(self, tip: str, objects: str) -> None:
        """Hold a history no longer for its own sake: what snapshots need of it stays."""
        self.git("update-ref", "-d", LENT + tip)
        for name in os.listdir(os.path.join(objects, "pack")):
            if name.endswith(".pack"):
                remove(os.path.join(self.objects, "pack", f"{name[:-5]}.keep"))

    def cut(self, commits: str) -> None:
        """Let history end at these commits, a line for each, unless the store knows what came before them."""
        path = os.path.join(self.path, _SHALLOW)
        ends = read_text(path).split()
        new = [sha for sha in commits.split() if sha not in ends]
        if new:
            asked = "".join(f"{sha}^1^{{commit}}\n" for sha in new).encode()
            told = self.git("cat-file", "--batch-check", stdin=asked).text.splitlines()
            new = [sha for sha, line in zip(new, told, strict=False) if line.endswith("missing")]
        if new:
            write_atomic(path, "".join(f"{sha}\n" for sha in (*ends, *new)))

    def follow(self, source: Source) -> None:
        """Know where the history of a shallow checkout ends; when it has been deepened, have the rest too."""
        theirs, seen = read_text(os.path.join(source.common, _SHALLOW)), os.path.join(self.path, "shallow-of-checkout")
        if theirs == read_text(seen):
            return
        self.cut(theirs)
        path = os.path.join(self.path, _SHALLOW)
        ends, open_ends = read_text(path).split(), set(theirs.split())
        deeper = [sha for sha in ends if sha not in open_ends]
        if deeper:
            where = {"GIT_SHALLOW_FILE": os.path.join(source.common, _SHALLOW) if theirs else ""}
            if self.own(deeper, [], borrow=source.objects, **where):
                write_atomic(path, "".join(f"{sha}\n" for sha in ends if sha in open_ends)) if open_ends else remove(
                    path
                )
        write_atomic(seen, theirs)

    # --- refs and the disk ------------------------------------------------------------------------

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
        boot = read_text("/proc/sys/kernel/random/boot_id").strip()
        mark = os.path.join(self.path, "boot")
        if not boot or read_text(mark).strip() == boot:
            return 0
        removed = 0
        for folder, folders, files in os.walk(self.objects):
            folders[:] = [name for name in folders if name not in ("pack", "info")]
            for name in files:
                path = os.path.join(folder, name)
                try:
                    with open(path, "rb") as file:
                        zlib.decompress(file.read())
                except (OSError, zlib.error):
                    os.unlink(path)
                    removed += 1
        if removed:
            self._forget_indexes()
        write_atomic(mark, boot + "\n")
        return removed

    def _forget_indexes(self) -> None:
        """Let every workspace's next snapshot read all files again."""
        for folder, _, files in os.walk(os.path.join(self.path, "handoff")):
            for name in files:
                if name in ("index", "state", "pending", "modes"):
                    os.unlink(os.path.join(folder, name))
        last = os.path.join(self.path, "refs", "handoff", "last")
        for name in os.listdir(last) if os.path.isdir(last) else ():
            os.unlink(os.path.join(last, name))


def _read_few(pack: str) -> bytes:
    """A pack of few and small objects; nothing for any other, or where there is none."""
    with suppress(OSError), open(pack, "rb") as file:
        if os.fstat(file.fileno()).st_size > _FEW_BYTES:
            return b""
        data = file.read()
        return data if int.from_bytes(data[:_PACK_HEAD][-4:], "big") < _FEW_OBJECTS else b""
    return b""


MAIN = "main"
STORE = "snapshots.git"
WORKSPACES = "workspaces"
CHECKOUTS = "checkouts"  # of tasks whose own checkout is on another machine
TREE = "tree"


class Location(Record):
    """One checkout, its project's folder under $HANDOFF_HOME, and the name its snapshots go by."""

    source: Source
    project: str
    workspace: str

    @property
    def store(self) -> str:
        return os.path.join(self.project, STORE)

    @property
    def workspaces(self) -> str:
        return os.path.join(self.project, WORKSPACES)


def find_place(top: str, *, home: str, project: str = "") -> Location:
    """The place of the checkout at `top`. A workspace of ours belongs to the project it was made for."""
    source = open_source(top)
    inside = os.path.realpath(top)
    root = os.path.realpath(home) + os.sep
    if inside.startswith(root):
        project, kind, name, *rest = [*inside[len(root) :].split(os.sep), "", ""]
        if kind in (WORKSPACES, CHECKOUTS) and rest[:-2] == [TREE]:
            return Location(source, os.path.join(home, project), name)
    name = MAIN if source.folder == source.common else slug(os.path.basename(source.folder)) or "worktree"
    return Location(source, project_folder(source.common, home=home, project=project), name)


def project_folder(common: str, *, home: str, project: str = "") -> str:
    """The project's folder: named after its checkout; a namesake elsewhere on the disk gets a longer name."""
    if project:
        return os.path.join(home, check_id(project, "project"))
    real = os.path.realpath(common)
    known = kept_project(real, home)
    if known and _may_keep(os.path.join(home, known), real):
        return os.path.join(home, known)
    base = os.path.dirname(real) if os.path.basename(real) == ".git" else real
    name = slug(os.path.basename(base)) or "project"
    folder = os.path.join(home, name if len(name) > 1 else f"{name}-project")
    if _may_keep(folder, real):
        return folder
    return f"{folder}-{digest(os.fsencode(real))[:6]}"


def _may_keep(folder: str, real: str) -> bool:
    """Whether the store in a project's folder is of this repository, or of one that is gone because it has moved here."""
    owner = read_text(os.path.join(folder, STORE, "project")).rstrip("\n")
    return os.path.realpath(owner) == real or not os.path.isdir(owner)

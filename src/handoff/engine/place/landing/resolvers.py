"""What settles a conflict that git leaves: the person's own merge driver and the project's own programs, run inside the sandbox, then the rules."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress

from handoff.agents.sandbox.home import of_program
from handoff.agents.sandbox.sandbox import NOTHING
from handoff.base.errors import HandoffError
from handoff.base.files import make_folder, read_bytes, remove_tree
from handoff.base.markdown import quoted
from handoff.base.process import find
from handoff.base.record import TYPE_CHECKING, Record
from handoff.checks.commands import NOT_STARTED, Verdict, check_environment
from handoff.engine.place.landing.members import target_of
from handoff.engine.place.proof.evidence import check_bounded
from handoff.engine.place.proof.sandboxes import sandbox_of_workspace, with_dependencies
from handoff.git.landing.conflicts import key_of, memory_way, remember
from handoff.git.landing.rules import formatters_for, rules_way, tool_of
from handoff.git.landing.target import UNION, MergeDriver, driver_of, words_of
from handoff.git.landing.three_way import BY_PROGRAM, Left, Proposal, has_marks
from handoff.git.plumbing import read_plain
from handoff.git.plumbing.beneath import Beneath
from handoff.git.plumbing.objects import FILE, Entry, differences
from handoff.git.workspaces import CLONE, Workspace
from handoff.git.workspaces.dependencies import copy_included
from handoff.git.workspaces.kinds import isolation
from handoff.git.workspaces.scratch import Scratch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from handoff.checks.commands import Wrap
    from handoff.engine.app import App
    from handoff.engine.safety.snapshots import SnapshotStore
    from handoff.git.landing.rules import Formatter, LockTool
    from handoff.git.landing.target import Target
    from handoff.git.landing.three_way import FileSides, Way

_SECONDS = 20.0


def resolvers_of(app: App, snapshot_store: SnapshotStore, tip: str, *, rules: bool) -> list[Way]:
    """The ways, in the order they are asked; rules only where checks will say whether their proposals hold."""
    target = target_of(app, snapshot_store)
    sure = [memory_way(memory_folder(snapshot_store)), driver_way(app, snapshot_store, target, tip)]
    if not rules:
        return sure
    remake, reformat = remake_way(app, snapshot_store), reformat_way(app, snapshot_store)
    return [*sure, rules_way(snapshot_store.store, remake=remake, reformat=reformat)]


def memory_folder(snapshot_store: SnapshotStore) -> str:
    """Where it is kept how sessions settled conflicts."""
    return os.path.join(snapshot_store.place.project, "settled")


def driver_way(app: App, snapshot_store: SnapshotStore, target: Target, tip: str) -> Way:
    """Ask the person's driver for a file; what their attributes want joined by hand stays a conflict."""

    def way(sides: FileSides) -> Proposal | Left | None:
        driver = None if sides.new else driver_of(target, tip, sides.path)
        if driver is None:
            return None
        if driver.by_hand:
            return Left("its attributes say that people join it")
        if driver.by_lines:
            return Proposal(sides.clean, "git, as its attributes say") if sides.clean is not None else None
        data = _run_driver(app, snapshot_store, driver, sides)
        # Lines of both sides, one after the other, are no more than a proposal.
        how = f"your merge driver '{driver.name}'"
        return Proposal(data, how, proven=driver.name != UNION) if data is not None else None

    return way


def _run_driver(app: App, snapshot_store: SnapshotStore, driver: MergeDriver, sides: FileSides) -> bytes | None:
    """What the driver made of three scratch files; None if it gave up, took too long, or left marks."""
    folder = os.path.join(snapshot_store.place.project, "checks", f"merge-{os.urandom(3).hex()}")
    tree = os.path.join(folder, "tree")
    ending = os.path.splitext(sides.path)[1]
    names = {name: name + ending for name in ("base", "ours", "theirs")}
    try:
        make_folder(tree, mode=0o700)
        for name, data in zip(names, sides.texts, strict=True):
            with open(os.path.join(tree, names[name]), "wb") as file:
                file.write(data)
        command = words_of(driver, names["base"], names["ours"], names["theirs"], sides.path)
        workspace = Workspace(
            name=os.path.basename(folder), kind=CLONE, project=snapshot_store.place.project, tree=tree
        )
        environment = check_environment(app.settings.environment)
        wrap = sandbox_of_workspace(app, workspace=workspace, network=False).wrap
        done = check_bounded(app, command, folder=tree, environment=environment, timeout=_SECONDS, wrap=wrap)
        path = os.path.join(tree, names["ours"])
        if not done.green or os.path.islink(path):
            return None
        made = read_bytes(path)
        return None if has_marks(made) else made
    except OSError:
        return None
    finally:
        with suppress(OSError):
            remove_tree(folder)


_LOCK_SECONDS = 180.0
_FORMAT_SECONDS = 20.0
_ALL_FORMAT_SECONDS = 120.0
"""What all files of one landing may take: a whole project that was formatted anew is for people."""
_FRESH_SECONDS = 3600.0
"""So long a lock that was made for the same files is taken again: one landing asks for it several times."""
_LARGEST = 20_000_000
_PLACES = (".venv", "venv", "node_modules")
_BINS = (".venv/bin", "venv/bin", "node_modules/.bin")


class _Desk(Record):
    """An exact tree in a folder of its own, and what puts a command inside the sandbox around it."""

    app: App
    tree: str
    environment: dict[str, str]
    wrap: Wrap

    def run(self, command: str, *, folder: str = "", seconds: float) -> Verdict:
        """Run it in a folder of the tree; a sandbox begins at its top, whatever folder it is started in."""
        words = f"cd {quoted(f'./{folder}')} && {{ {command}\n}}" if folder else command
        how = {"folder": self.tree, "environment": self.environment, "timeout": seconds, "wrap": self.wrap}
        return check_bounded(self.app, words, **how)

    def read(self, path: str) -> bytes:
        """Nothing where a link or anything else stands in its place."""
        with Beneath(self.tree) as inside:
            return inside.read(path, most=_LARGEST)

    def write(self, path: str, data: bytes) -> None:
        with Beneath(self.tree) as inside:
            inside.remove(path)
            inside.write(path, data)


class _NoDesk(Exception):
    """Nothing may run here, and why."""


def _environment(app: App, top: str) -> dict[str, str]:
    """As for a check, and the checkout's own programs come first: no session can write them."""
    environment = check_environment(app.settings.environment)
    bins = [path for name in _BINS if os.path.isdir(path := os.path.join(top, name))]
    return {**environment, "PATH": os.pathsep.join([*bins, environment["PATH"]])}


def _found(app: App, snapshot_store: SnapshotStore, program: str) -> str:
    """Where a program of the person lies; empty where it is not installed."""
    return find(program, path=_environment(app, snapshot_store.place.source.top)["PATH"]) or ""


@contextmanager
def _laid_out(app: App, snapshot_store: SnapshotStore, tree: str, programs: Sequence[str]) -> Iterator[_Desk]:
    """What runs there reads files of sessions: never outside of a sandbox, with the network that the settings allow."""
    place, store = snapshot_store.place, snapshot_store.store
    store.flush()
    slots = os.path.join(place.project, "checks")
    with Scratch(slots, place.source.top, app.settings.environment, store=place.store) as scratch:
        scratch.lay_out(tree)
        copy_included(place, store, scratch.tree)
        name = os.path.basename(scratch.folder)
        workspace = Workspace(name=name, kind=CLONE, project=place.project, tree=scratch.tree)
        sandbox = sandbox_of_workspace(app, workspace=workspace)
        if sandbox.layer == NOTHING:
            raise _NoDesk("this machine has no sandbox to run it in")
        lent = [path for name in _PLACES if os.path.isdir(path := os.path.join(place.source.top, name))]
        lent += [path for program in programs for path in of_program(program)]  # also where a link leads to it
        policy = sandbox.policy._replace(visible=(*sandbox.policy.visible, *lent))
        environment = _environment(app, place.source.top)
        yield _Desk(app, scratch.tree, environment, sandbox._replace(policy=policy).wrap)


# --- what programs make ----------------------------------------------------------------------------------------


def remake_way(app: App, snapshot_store: SnapshotStore) -> Way:
    """A lock that two changed is made again from the joined manifests; what cannot be made is for people, with the command."""

    def way(sides: FileSides) -> Proposal | Left | None:
        tool = tool_of(sides.path)
        if tool is None:
            return Left(BY_PROGRAM)
        tree = _to_begin_with(snapshot_store, sides, tool)
        if not tree:
            return Left(_by_hand(tool, "both sides changed it, and no manifest says why"))
        data, trouble = _made(app, snapshot_store, sides.path, tool, tree)
        if trouble:
            return Left(_by_hand(tool, trouble))
        return Proposal(data, f"`{tool.words}`, run on the joined manifests", proven=False)

    return way


def _by_hand(tool: LockTool, why: str) -> str:
    return f"only `{tool.words}` may make it again, and {why}"


def _to_begin_with(snapshot_store: SnapshotStore, sides: FileSides, tool: LockTool) -> str:
    """The joined tree with the lock that the program begins with; empty where nobody can say which.

    A side that changed the lock and no manifest has chosen versions, which stand in its lock alone: it is begun with. Else the
    target's is, because the program adds to it what the other side's manifests ask for.
    """
    store, trees = snapshot_store.store, sides.trees
    if trees is None:
        return ""
    folder = sides.path.rpartition("/")[0]
    above = f"{folder}/" if folder else ""

    def asked(side: str) -> bool:
        changed = differences(store, trees.base, side)
        return any(one.path.startswith(above) and os.path.basename(one.path) in tool.manifests for one in changed)

    mine, yours = asked(trees.ours), asked(trees.theirs)
    if not mine and not yours:
        return ""
    data = sides.ours if yours else sides.theirs
    name = os.fsencode(sides.path)
    return store.graft(store.load(trees.joined, [name]), {name: Entry(FILE, store.write("blob", data))})


def _made(app: App, snapshot_store: SnapshotStore, path: str, tool: LockTool, tree: str) -> tuple[bytes, str]:
    """What the program made of the lock in this tree, or why there is nothing."""
    folder = os.path.join(snapshot_store.place.project, "settled")
    key = key_of(tool.command.encode(), tree.encode(), os.fsencode(path))
    known = os.path.join(folder, key)
    if os.path.isfile(known) and app.clock.now() - os.path.getmtime(known) < _FRESH_SECONDS:
        return read_plain(known), ""
    program = _found(app, snapshot_store, tool.program)
    if not program:
        return b"", "it is not installed here"
    app.tell(f"Making {path} again: {tool.words}", 0, 0)
    try:
        with _laid_out(app, snapshot_store, tree, [program]) as desk:
            done = desk.run(tool.command, folder=os.path.dirname(path), seconds=_LOCK_SECONDS)
            data = desk.read(path) if done.green else b""
    except (_NoDesk, HandoffError, OSError) as error:
        return b"", str(error).rstrip(".")
    if not done.green:
        return b"", _said(done)
    if not data or has_marks(data):
        return b"", "it left no such file"
    remember(folder, key, data)
    return data, ""


def _said(done: Verdict) -> str:
    if done.over:
        return done.over
    if done.timed_out:
        return f"it took more than {_LOCK_SECONDS:.0f} seconds"
    if done.code in NOT_STARTED:
        return "it cannot be started inside the sandbox"
    last = next((line.strip() for line in reversed(done.tail.splitlines()) if line.strip()), "")
    return f"it ended with exit {done.code}{f': {last[:200]}' if last else ''}"


# --- what a formatter did ----------------------------------------------------------------------------------------


def reformat_way(app: App, snapshot_store: SnapshotStore) -> Way:
    """Where the project's formatter makes one side of the base, byte by byte, the other side formatted is what both wanted."""
    spent = 0.0

    def way(sides: FileSides) -> Proposal | None:
        nonlocal spent
        began = app.clock.monotonic()
        if sides.new or sides.trees is None or spent > _ALL_FORMAT_SECONDS or any(map(has_marks, sides.texts)):
            return None
        named = formatters_for(sides.path, _reader(snapshot_store, sides.trees.joined))
        found = {one: place for one in named if (place := _found(app, snapshot_store, one.program))}
        if not found:
            return None
        try:
            with _laid_out(app, snapshot_store, sides.trees.joined, list(found.values())) as desk:
                made = ((_formatted(desk, one, sides), one) for one in found)
                return next((_proposal(data, one) for data, one in made if data is not None), None)
        except (_NoDesk, HandoffError, OSError):
            return None
        finally:
            spent += app.clock.monotonic() - began

    return way


def _reader(snapshot_store: SnapshotStore, tree: str) -> Callable[[str], bytes | None]:
    store = snapshot_store.store

    def read(path: str) -> bytes | None:
        entry = store.look_up(tree, os.fsencode(path))
        return store.read(entry.sha) if entry is not None and entry.mode == FILE else None

    return read


def _proposal(data: bytes, one: Formatter) -> Proposal:
    return Proposal(data, f"a rule: `{one.name}` is all that one side did, and was run on the other", proven=False)


def _formatted(desk: _Desk, formatter: Formatter, sides: FileSides) -> bytes | None:
    """The side that was edited, formatted as the other is; None where no side is the formatted base."""
    before = _run(desk, formatter, sides.path, sides.base)
    if before is None or before == sides.base or before not in (sides.ours, sides.theirs):
        return None
    return _run(desk, formatter, sides.path, sides.theirs if before == sides.ours else sides.ours)


def _run(desk: _Desk, formatter: Formatter, path: str, data: bytes) -> bytes | None:
    desk.write(path, data)
    done = desk.run(f"{formatter.command} {quoted(f'./{path}')}", seconds=_FORMAT_SECONDS)
    made = desk.read(path) if done.green else b""
    return made or None


# --- Checks on what a landing would make: in a clean checkout of exactly that tree


def check_commit(
    app: App, snapshot_store: SnapshotStore, commit: str, command: str, how: tuple[float, bool]
) -> Verdict:
    """Run the check on a clean checkout of the commit, inside the sandbox where there is one."""
    timeout, sandboxed = how
    name = f"check-{os.urandom(3).hex()}"
    folder = os.path.join(snapshot_store.place.project, "checks", name)
    tree = os.path.join(folder, "tree")
    workspace = Workspace(
        name=name,
        kind=CLONE,
        project=snapshot_store.place.project,
        tree=tree,
        base=commit,
        branch=f"refs/heads/{name}",
        port=59990,
    )
    way = isolation(CLONE, app.git_environment)
    app.tell(f"Checking {commit[:8]}: {command}", 0, 0)
    try:
        way.make(snapshot_store.place, snapshot_store.store, workspace)
        copy_included(snapshot_store.place, snapshot_store.store, tree)
        top = snapshot_store.place.source.top
        wrap = with_dependencies(app, workspace=workspace, checkout=top).sandbox.wrap if sandboxed else None
        environment = {**check_environment(app.settings.environment), **workspace.environment()}
        return check_bounded(app, command, folder=tree, environment=environment, timeout=timeout, wrap=wrap)
    finally:
        way.discard(snapshot_store.place, snapshot_store.store, workspace)
        with suppress(OSError):
            remove_tree(folder)

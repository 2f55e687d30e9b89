"""Workspaces, snapshots and landing beside plain git on the same repository in the same run. Ratios count.

An ext4 without a journal looks at every inode that was freed in the last five minutes before it gives out a new one: there, rest before it.
"""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

FILES = 2_000 if os.environ.get("HANDOFF_BENCH_QUICK") else 10_000
BRANCHES = 50
_TURNS = 5
MEMBERS = (3, 10, 50) if os.environ.get("HANDOFF_BENCH_QUICK") else (3, 10, 50, 200)
_PERSON = "[user]\n\tname = B\n\temail = b@example.invalid\n[init]\n\tdefaultBranch = main\n[gc]\n\tauto = 0\n"


def _git(top: str, *words: str, **options) -> str:
    return subprocess.run(["git", *words], cwd=top, check=True, capture_output=True, text=True, **options).stdout


def _repository(folder: str) -> str:
    top = os.path.join(folder, "repo")
    for number in range(FILES):
        path = os.path.join(top, f"d{number % 100}", f"f{number}.txt")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"{number}\n" * 100)
        os.utime(path, (1_700_000_000, 1_700_000_000))
    _git(top, "init", "-q")
    _git(top, "add", "-A")
    _git(top, "commit", "-qm", "all")
    _git(top, "repack", "-adq")
    return top


def _another_tree(top: str, path: str) -> str:
    """A commit beside the branch with one more file."""
    environment = {**os.environ, "GIT_INDEX_FILE": os.path.join(top, ".git", "index-bench")}
    _git(top, "read-tree", "HEAD", env=environment)
    blob = _git(top, "hash-object", "-w", "--stdin", input=path).strip()
    _git(top, "update-index", "--add", "--cacheinfo", f"100644,{blob},{path}", env=environment)
    tree = _git(top, "write-tree", env=environment).strip()
    commit = _git(top, "commit-tree", tree, "-p", "HEAD", "-m", path).strip()
    _git(top, "branch", f"b{path.replace('/', '-')}", commit)
    return commit


@contextlib.contextmanager
def _home(folder: str):
    kept = dict(os.environ)
    config = os.path.join(folder, "gitconfig")
    with open(config, "w", encoding="utf-8") as file:
        file.write(_PERSON)
    os.environ.update(HANDOFF_HOME=os.path.join(folder, "home"), GIT_CONFIG_GLOBAL=config, GIT_CONFIG_NOSYSTEM="1")
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(kept)


def _times(*works, turns: int = 7, pick=statistics.median, settle=None) -> list[float]:
    """The median (or what is picked) of each work, taken in turns and in changing order so that a busy moment hits all of them.

    `settle` is done before each, outside of its time: what one leaves for the disk to do must not be in the next one's way.
    """
    taken: list[list[float]] = [[] for _ in works]
    for turn in range(turns):
        for number, work in sorted(enumerate(works), reverse=bool(turn % 2)):
            if settle is not None:
                settle()
            begin = time.perf_counter()
            work(turn)
            taken[number].append(time.perf_counter() - begin)
    return [pick(one) for one in taken]


def rows() -> list[tuple[str, str, str]]:
    """Each promise of the plan, measured."""
    with tempfile.TemporaryDirectory(prefix="handoff-bench-") as folder, _home(folder):
        top = _repository(folder)
        return [*_workspaces(folder, top), *_snapshots(top), *_landing(top), *_growth(top)]


def _app():
    from handoff.base.settings import from_environment
    from handoff.engine.app import App

    return App(from_environment())


def _workspaces(folder: str, top: str) -> list[tuple[str, str, str]]:
    from handoff.engine.place import workspaces
    from handoff.engine.safety import snapshots
    from handoff.git.snapshots.take import SnapshotRequest
    from handoff.git.workspaces import WorkspaceRequest

    app = _app()
    snapshot_store = snapshots.open_snapshot_store(app, folder=top)
    begin = time.perf_counter()
    snapshots.snapshot(app, snapshot_store=snapshot_store, request=SnapshotRequest(reason="first"))
    first = time.perf_counter() - begin

    def ours(turn: int) -> None:
        workspaces.add_workspace(app, order=WorkspaceRequest(name=f"w{turn}"), snapshot_store=snapshot_store)

    def fresh(turn: int) -> None:
        order = WorkspaceRequest(name=f"n{turn}", base=bases[turn])
        workspaces.add_workspace(app, order=order, snapshot_store=snapshot_store)

    def sparse(turn: int) -> None:
        workspaces.add_workspace(
            app, order=WorkspaceRequest(name=f"s{turn}", sparse=("d1",)), snapshot_store=snapshot_store
        )

    def theirs(turn: int) -> None:
        _git(top, "worktree", "add", "-q", "-b", f"t{turn}", os.path.join(folder, f"t{turn}"))

    bases = [_another_tree(top, f"d7/{turn}.txt") for turn in range(_TURNS)]
    snapshots.snapshot(app, snapshot_store=snapshot_store, request=SnapshotRequest(reason="bases"))
    works = (ours, fresh, sparse, theirs)
    mine, first_of, small, git = _times(
        *works, turns=_TURNS, pick=min, settle=os.sync
    )  # what the disk does besides only adds
    _git(top, "worktree", "list")
    for turn in range(_TURNS):
        _git(top, "worktree", "remove", "--force", os.path.join(folder, f"t{turn}"))
        _git(top, "branch", "-q", "-D", f"t{turn}")
        for name in (f"w{turn}", f"n{turn}", f"s{turn}"):
            shutil.rmtree(os.path.join(os.environ["HANDOFF_HOME"], "repo", "workspaces", name))
    return [
        (
            f"workspace (clone) of {FILES:,} files",
            _ratio(mine, git, "git worktree add, best of five"),
            "1.3x",
        ),
        ("the first one of another commit", _ratio(first_of, git, "git worktree add"), ""),
        ("the same, one folder of it (sparse)", _ratio(small, git, "git worktree add"), ""),
        (f"first snapshot of a project, {FILES:,} files", f"{first * 1000:.0f} ms, once", ""),
    ]


def _snapshots(top: str) -> list[tuple[str, str, str]]:
    from handoff.engine.safety import snapshots
    from handoff.git.snapshots.take import SnapshotRequest

    app = _app()
    snapshot_store = snapshots.open_snapshot_store(app, folder=top)

    def change(turn: int) -> None:
        with open(os.path.join(top, "d7", "f7.txt"), "w", encoding="utf-8") as file:
            file.write(f"{turn} {time.perf_counter_ns()}\n")

    def found(turn: int) -> None:
        change(turn)
        snapshots.snapshot(app, snapshot_store=snapshot_store, request=SnapshotRequest(reason="found"))

    def named(turn: int) -> None:
        change(turn)
        snapshots.snapshot(
            app, snapshot_store=snapshot_store, request=SnapshotRequest(reason="named", paths=["d7/f7.txt"])
        )

    def idle(_turn: int) -> None:
        snapshots.snapshot(app, snapshot_store=snapshot_store, request=SnapshotRequest(reason="idle"))

    def status(turn: int) -> None:
        change(turn)
        _git(top, "status", "--porcelain")

    found(0)
    scan, hook, still, git = _times(found, named, idle, status)
    _git(top, "checkout", "-q", "--", ".")
    return [
        (f"snapshot, 1 of {FILES:,} files changed, found by a scan", _ratio(scan, git, "git status"), "3x"),
        ("snapshot, the changed file named by the caller", _ratio(hook, git, "git status"), ""),
        ("snapshot, nothing changed", _ratio(still, git, "git status"), ""),
    ]


def _landing(top: str) -> list[tuple[str, str, str]]:
    from handoff.engine.place import landing

    names = []
    for number in range(BRANCHES):
        name = f"b{number}"
        names.append(name)
        blob = _git(top, "hash-object", "-w", "--stdin", input=f"{name}\n").strip()
        index = os.path.join(top, ".git", "bench-index")
        environment = {**os.environ, "GIT_INDEX_FILE": index}
        _git(top, "read-tree", "main", env=environment)
        _git(top, "update-index", "--add", "--cacheinfo", f"100644,{blob},d{number}/new.txt", env=environment)
        tree = _git(top, "write-tree", env=environment).strip()
        commit = _git(top, "commit-tree", "-p", "main", "-m", name, tree).strip()
        _git(top, "branch", name, commit)
    app = _app()
    begin = time.perf_counter()
    for name in names:
        _git(top, "merge-tree", "--write-tree", "main", name)
    git = time.perf_counter() - begin
    from handoff.engine.safety import snapshots

    begin = time.perf_counter()
    outcome = landing.land(app, names=names, snapshot_store=snapshots.open_snapshot_store(app, folder=top))
    mine = time.perf_counter() - begin
    assert outcome.landing is not None
    assert len(outcome.merged.steps) == BRANCHES
    return [
        (f"landing {BRANCHES} branches, checkout included", _ratio(mine, git, f"{BRANCHES} x git merge-tree"), "3x")
    ]


def _growth(top: str) -> list[tuple[str, str, str]]:
    """Members that all meet in one file, merged in memory: what one more costs, beside git's own merge of the same commits.

    Counted are merges, in processor time: the first member meets nobody, so that three members are two merges, not three.
    """
    from handoff.engine.safety import snapshots
    from handoff.git.landing import merge as parts
    from handoff.git.landing.merge import merge

    store = snapshots.open_snapshot_store(_app(), folder=top).store
    path, lines, rows, each = "d0/f0.txt", [f"line {number}\n\n\n\n" for number in range(max(MEMBERS))], [], {}
    main = _git(top, "rev-parse", "main").strip()
    for count in MEMBERS:
        mine = theirs = merges = 0.0
        for turn in range(max(MEMBERS) // count):  # as many members in all, so that chance weighs the same
            base, found = _commit(store, main, path, "".join(lines)), []
            for number in range(count):
                text = "".join([*lines[:number], f"{number} of {count}, {turn}\n\n\n\n", *lines[number + 1 :]])
                commit = _commit(store, base, path, text)
                found.append(parts.member(f"m{number}", base, commit, tuple(parts.touches(store, base, commit)), "x\n"))
            begin = _cpu()
            merged = merge(store, base, found, moment=1)
            mine, merges = mine + _cpu() - begin, merges + count - 1
            assert len(merged.steps) == count
            begin = _cpu()
            for step, one in zip(merged.steps, found[1:], strict=False):
                store.ask("merge-tree", "--write-tree", step.commit, one.commit)
            theirs += _cpu() - begin
        each[count] = mine / merges
        told = f"{each[count] * 1000:.1f} ms of CPU, {mine / theirs:.2f}x git merge-tree"
        rows.append((f"a merge of {count} members that meet in one file", told, ""))
    least, most = min(MEMBERS), max(MEMBERS)
    rows.append((f"a merge of {most} members against one of {least}", f"{each[most] / each[least]:.2f}x", "1.3x"))
    return rows


def _cpu() -> float:
    """Processor time of this process and of those it waited for: what others do on the machine does not count."""
    used = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def _commit(store, base: str, path: str, text: str) -> str:
    from handoff.git.plumbing.objects import FILE, Entry

    name = os.fsencode(path)
    tree = store.graft(store.load(base, [name]), {name: Entry(FILE, store.write("blob", text.encode()))})
    return store.write_commit(tree, [base], "x\n", moment=1)


def _ratio(mine: float, theirs: float, what: str) -> str:
    return f"{mine / theirs:.2f}x {what} ({mine * 1000:.0f} ms)"


if __name__ == "__main__":
    for row in rows():
        print(" | ".join(row))
    sys.exit(0)

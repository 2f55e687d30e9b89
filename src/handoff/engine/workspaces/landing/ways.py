"""What settles a conflict that git leaves: the person's own merge driver, run inside the sandbox, then the rules."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from handoff.base.files import make_folder, read_bytes
from handoff.checks.commands import check_environment, run_check
from handoff.engine.proof.sandboxes import sandbox_of_workspace
from handoff.engine.workspaces.landing.members import target_of
from handoff.engine.workspaces.landing.programs import reformat_way, remake_way
from handoff.git.landing.conflicts import memory_way
from handoff.git.landing.drivers import UNION, MergeDriver, driver_of, words_of
from handoff.git.landing.rules import rules_way
from handoff.git.landing.settle import Left, Proposal, has_marks
from handoff.git.workspaces.workspaces import CLONE, Workspace

if TYPE_CHECKING:
    from handoff.engine.app import App
    from handoff.engine.safety.snapshots import SnapshotStore
    from handoff.git.landing.settle import FileSides, Way
    from handoff.git.landing.target import Target

_SECONDS = 20.0


def ways_of(app: App, snapshot_store: SnapshotStore, tip: str, *, rules: bool) -> list[Way]:
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
        data = _run(app, snapshot_store, driver, sides)
        # Lines of both sides, one after the other, are no more than a proposal.
        how = f"your merge driver '{driver.name}'"
        return Proposal(data, how, proven=driver.name != UNION) if data is not None else None

    return way


def _run(app: App, snapshot_store: SnapshotStore, driver: MergeDriver, sides: FileSides) -> bytes | None:
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
        done = run_check(command, folder=tree, environment=environment, timeout=_SECONDS, clock=app.clock, wrap=wrap)
        path = os.path.join(tree, names["ours"])
        if not done.green or os.path.islink(path):
            return None
        made = read_bytes(path)
        return None if has_marks(made) else made
    except OSError:
        return None
    finally:
        shutil.rmtree(folder, ignore_errors=True)

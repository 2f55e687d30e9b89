"""`handoff snapshot take|list|diff|restore` and `undo`: see and bring back what sessions had on the disk."""

from __future__ import annotations

import os

from handoff.base.clock import age, stamp
from handoff.base.errors import UsageError
from handoff.base.markdown import number_of
from handoff.base.record import TYPE_CHECKING
from handoff.engine.safety import snapshots as engine
from handoff.git.snapshots.take import SnapshotRequest
from handoff.surfaces.cli.command import Command, flag, option, optional_word, pick, project_option

if TYPE_CHECKING:
    import argparse

    from handoff.engine.safety.snapshots import SnapshotStore
    from handoff.engine.work.acts.landing import Operation
    from handoff.surfaces.cli.command import Context, Parser


def _snapshot_arguments(parser: Parser) -> None:
    option(parser, "-m --message WHY", "why it is taken, shown in the list")
    option(parser, "--session ID", "the session it belongs to (env: HANDOFF_SESSION)")
    flag(parser, "--ignored", "hold ignored files too")
    option(parser, "--path PATH", "look only at this path (may be repeated): no scan", [])


def _snapshot(ctx: Context, arguments: argparse.Namespace) -> int:
    snapshot_store = engine.open_snapshot_store(ctx.app)
    paths = _inside(snapshot_store, arguments.path) if arguments.path else None
    request = SnapshotRequest(
        reason=arguments.message or "by hand",
        session=arguments.session,
        paths=paths,
        ignored=arguments.ignored,
        force=bool(arguments.message),
    )
    taken = engine.snapshot(ctx.app, snapshot_store=snapshot_store, request=request)
    ctx.out.data(taken.shown())
    ctx.out.line(f"{taken.short}  {taken.reason}" if taken.fresh else f"{taken.short}  nothing has changed since")
    for name in taken.unread:
        ctx.out.warning(f"{name} could not be read and is not in the snapshot.")
    for part in taken.incomplete:
        ctx.out.warning(f"The repository's {part} could not be read in full; the earlier one is kept.")
    return 0


def _snapshots_arguments(parser: Parser) -> None:
    option(parser, "--session NAME", "only of this session or workspace")
    option(parser, "-n --number N", "how many to show (default 20, 0 all)", 20)
    flag(parser, "--verify", "read every object of the store and say whether it is sound")


def _snapshots(ctx: Context, arguments: argparse.Namespace) -> int:
    snapshot_store = engine.open_snapshot_store(ctx.app)
    found = engine.listing(ctx.app, snapshot_store=snapshot_store, session=arguments.session)
    shown = found[: arguments.number] if arguments.number > 0 else found
    faults = engine.verify(ctx.app, snapshot_store=snapshot_store) if arguments.verify else []
    ctx.out.data({"snapshots": [one.shown() for one in shown], "count": len(found), "faults": faults})
    now = ctx.app.clock.now()
    for one in shown:
        who = one.workspace + (f" · {one.session}" if one.session and one.session != one.workspace else "")
        ctx.out.line(f"{one.short}  {age(now - one.time):>8} ago  {who}  {one.reason}")
    if not found:
        ctx.out.line("No snapshot yet. Take one: handoff snapshot")
    if len(shown) < len(found):
        ctx.out.note(f"{len(found) - len(shown)} older ones: handoff snapshot list -n 0")
    if arguments.verify:
        for fault in faults:
            ctx.out.warning(fault)
        ctx.out.line("The store is sound." if not faults else f"The store has {number_of(len(faults), 'fault')}.")
    return 1 if faults else 0


def _choice_arguments(parser: Parser) -> None:
    option(parser, "--session NAME", "the newest of this session or workspace")
    option(parser, "--at TIME", "the newest not after TIME: 10m, 2h, 08:30, 2026-11-15 08:30")


def _diff_arguments(parser: Parser) -> None:
    optional_word(parser, "snapshot", "ID", "a snapshot; without it the newest here")
    optional_word(parser, "other", "ID2", "another snapshot; without it what is there now")
    _choice_arguments(parser)
    option(parser, "--path PATH", "only this path (may be repeated)", [])
    flag(parser, "--stat", "only the files and how much changed in each")


def _diff(ctx: Context, arguments: argparse.Namespace) -> int:
    snapshot_store = engine.open_snapshot_store(ctx.app)
    old = engine.choose(
        ctx.app, snapshot_store=snapshot_store, name=arguments.snapshot, session=arguments.session, at=arguments.at
    )
    if arguments.other:
        new = engine.choose(ctx.app, snapshot_store=snapshot_store, name=arguments.other)
    else:
        there = engine.home_of(ctx.app, snapshot_store=snapshot_store, chosen=old)
        new = engine.snapshot(ctx.app, snapshot_store=there, request=SnapshotRequest(reason="to compare"))
    paths = _inside(snapshot_store, arguments.path)
    text = engine.compare(
        ctx.app,
        snapshot_store=snapshot_store,
        old=old.sha,
        new=new.sha,
        paths=paths,
        form="--stat" if arguments.stat else "",
    )
    ctx.out.data({"old": old.shown(), "new": new.shown(), "diff": text})
    if not ctx.out.json_wanted:
        ctx.out.raw(text)
    if not text:
        other = f"{new.short} ({new.reason})" if arguments.other else "what is there now"
        ctx.out.note(f"Nothing differs between {old.short} ({old.reason}) and {other}.")
    return 0


def _restore_arguments(parser: Parser) -> None:
    optional_word(parser, "snapshot", "ID", "a snapshot; without it the newest here")
    _choice_arguments(parser)
    option(parser, "--path PATH", "only this path (may be repeated)", [])
    flag(parser, "--exact", "also delete files the snapshot does not have")
    flag(parser, "--index", "the index too: what was staged is staged again")
    flag(parser, "--refs", "branches, tags, stash and reflogs too")
    option(parser, "--ref REF", "only this branch, tag or refs/stash, by its full name", [])
    option(parser, "--setting FILE", "only this file of .git: config, hooks/NAME", [])
    flag(parser, "--all", "files, index, refs, git's settings and hooks")
    option(parser, "--into DIR", "write the files into a new folder instead")
    flag(parser, "--here", "into this checkout, whoever's snapshot it is")
    flag(parser, "--dry-run", "say what would change, and change nothing")


def _restore(ctx: Context, arguments: argparse.Namespace) -> int:
    from handoff.engine.work.acts import landing as acts

    if arguments.into and (
        arguments.ref
        or arguments.setting
        or arguments.index
        or arguments.refs
        or arguments.all
        or arguments.exact
        or arguments.here
    ):
        raise UsageError("--into writes files only.", "Leave out --index, --refs, --all, --exact and --here.")
    snapshot_store = engine.open_snapshot_store(ctx.app)
    chosen = engine.choose(
        ctx.app, snapshot_store=snapshot_store, name=arguments.snapshot, session=arguments.session, at=arguments.at
    )
    if arguments.into:
        report = engine.restore_into(
            ctx.app, snapshot_store=snapshot_store, chosen=chosen, folder=arguments.into, paths=tuple(arguments.path)
        )
        return ctx.out.done(acts.restore_done(report, dry_run=False))
    there = snapshot_store if arguments.here else engine.home_of(ctx.app, snapshot_store=snapshot_store, chosen=chosen)
    part = bool(arguments.ref or arguments.setting)
    if part and (arguments.path or arguments.exact or arguments.index or arguments.refs or arguments.all):
        raise UsageError("--ref and --setting bring back nothing else.", "Leave out the other options.")
    want = engine.RestoreRequest(
        paths=tuple(_inside(there, arguments.path)),
        exact=arguments.exact or arguments.all,
        files=not part,
        staged=arguments.index or arguments.all,
        refs=arguments.refs or arguments.all or bool(arguments.ref),
        settings=arguments.all or bool(arguments.setting),
        only_refs=tuple(arguments.ref),
        only_settings=tuple(arguments.setting),
    )
    from handoff.engine.safety.incidents import ours

    with ours(ctx.app, folder=there.place.source.top):
        report = engine.restore(ctx.app, snapshot_store=there, chosen=chosen, want=want, dry_run=arguments.dry_run)
    return ctx.out.done(acts.restore_done(report, dry_run=arguments.dry_run))


def _undo_arguments(parser: Parser) -> None:
    optional_word(parser, "operation", "ID", "what to take back, as --list names it; without it the newest")
    option(parser, "--session NAME", "take back all this session did since it started")
    flag(parser, "--list", "say what can be taken back here, and change nothing")
    flag(parser, "--dry-run", "say what would change, and change nothing")
    project_option(parser)


def _undo(ctx: Context, arguments: argparse.Namespace) -> int:
    from handoff.engine.work.acts import landing as acts
    from handoff.engine.work.acts.landing import operations

    if arguments.list:
        return _operations(ctx, operations(ctx.app, snapshot_store=engine.open_snapshot_store(ctx.app)))
    return ctx.out.done(acts.undo(ctx.app, **pick(arguments, "operation session dry_run project")))


def _operations(ctx: Context, found: list[Operation]) -> int:
    now = ctx.app.clock.now()
    ctx.out.data({"operations": [{**pick(one, "kind id what"), "time": stamp(one.time)} for one in found]})
    for one in found:
        ctx.out.line(f"{one.short}  {age(now - one.time):>8} ago  {one.what}")
    if not found:
        ctx.out.line("There is nothing to undo here.")
    return 0


def _inside(snapshot_store: SnapshotStore, paths: list[str]) -> list[str]:
    """Paths as a person types them, from where they stand, relative to the checkout's top."""
    top = os.path.realpath(snapshot_store.place.source.top)
    here = os.path.realpath(os.getcwd())
    base = here if here == top or here.startswith(top + os.sep) else top
    found = []
    for path in paths:
        name = os.path.relpath(os.path.normpath(os.path.join(base, path)), top)
        if name == ".." or name.startswith("../"):
            raise UsageError(f"{path} is outside {top}.", "Name paths of the checkout.")
        found.append(name)
    return [] if "." in found else found


COMMANDS = {
    "snapshot take": Command(_snapshot_arguments, _snapshot),
    "snapshot list": Command(_snapshots_arguments, _snapshots),
    "snapshot diff": Command(_diff_arguments, _diff),
    "snapshot restore": Command(_restore_arguments, _restore),
    "undo": Command(_undo_arguments, _undo),
}

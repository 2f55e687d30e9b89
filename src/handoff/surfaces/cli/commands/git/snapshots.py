"""`handoff snapshot`, `snapshots`, `diff`, `restore`, `undo`: see and bring back what sessions had on the disk."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from handoff.base.clock import age, stamp
from handoff.base.errors import UsageError
from handoff.engine.safety import snapshots as engine
from handoff.git.snapshots.take import SnapshotRequest
from handoff.surfaces.cli.command import Command

if TYPE_CHECKING:
    import argparse

    from handoff.engine.safety.snapshots import RestoreReport, SnapshotStore
    from handoff.git.landing.target import Landing
    from handoff.git.snapshots.take import Snapshot
    from handoff.surfaces.cli.command import Context, Parser

_SHOWN_PATHS = 40


def _snapshot_arguments(parser: Parser) -> None:
    parser.add_argument("-m", "--message", default="", metavar="WHY", help="why it is taken, shown in the list")
    parser.add_argument("--session", default="", metavar="ID", help="the session it belongs to (env: HANDOFF_SESSION)")
    parser.add_argument("--ignored", action="store_true", help="hold ignored files too")
    parser.add_argument(
        "--path", action="append", default=[], metavar="PATH", help="look only at this path (may be repeated): no scan"
    )


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
    ctx.out.data(_record(taken))
    ctx.out.line(f"{taken.short}  {taken.reason}" if taken.fresh else f"{taken.short}  nothing has changed since")
    _warn(ctx, taken)
    return 0


def _snapshots_arguments(parser: Parser) -> None:
    parser.add_argument("--session", default="", metavar="NAME", help="only of this session or workspace")
    parser.add_argument(
        "-n", "--number", type=int, default=20, metavar="N", help="how many to show (default 20, 0 all)"
    )
    parser.add_argument("--verify", action="store_true", help="read the whole store and say whether it is sound")


def _snapshots(ctx: Context, arguments: argparse.Namespace) -> int:
    snapshot_store = engine.open_snapshot_store(ctx.app)
    found = engine.listing(ctx.app, snapshot_store=snapshot_store, session=arguments.session)
    shown = found[: arguments.number] if arguments.number > 0 else found
    faults = engine.verify(ctx.app, snapshot_store=snapshot_store) if arguments.verify else []
    ctx.out.data({"snapshots": [_record(one) for one in shown], "count": len(found), "faults": faults})
    now = ctx.app.clock.now()
    for one in shown:
        who = one.workspace + (f" · {one.session}" if one.session and one.session != one.workspace else "")
        ctx.out.line(f"{one.short}  {age(now - one.time):>8} ago  {who}  {one.reason}")
    if not found:
        ctx.out.line("No snapshot yet. Take one: handoff snapshot")
    if len(shown) < len(found):
        ctx.out.note(f"{len(found) - len(shown)} older ones: handoff snapshots -n 0")
    if arguments.verify:
        for fault in faults:
            ctx.out.warning(fault)
        ctx.out.line("The store is sound." if not faults else f"The store has {len(faults)} faults.")
    return 1 if faults else 0


def _choice_arguments(parser: Parser) -> None:
    parser.add_argument("--session", default="", metavar="NAME", help="the newest of this session or workspace")
    parser.add_argument(
        "--at", default="", metavar="TIME", help="the newest not after TIME: 10m, 2h, 08:30, 2026-11-15 08:30"
    )


def _diff_arguments(parser: Parser) -> None:
    parser.add_argument("snapshot", nargs="?", default="", metavar="ID", help="a snapshot; without it the newest here")
    parser.add_argument(
        "other", nargs="?", default="", metavar="ID2", help="another snapshot; without it what is there now"
    )
    _choice_arguments(parser)
    parser.add_argument("--path", action="append", default=[], metavar="PATH", help="only this path (may be repeated)")
    parser.add_argument("--stat", action="store_true", help="only the files and how much changed in each")


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
    ctx.out.data({"old": _record(old), "new": _record(new), "diff": text})
    if not ctx.out.json_wanted:
        ctx.out.raw(text)
    return 0


def _restore_arguments(parser: Parser) -> None:
    parser.add_argument("snapshot", nargs="?", default="", metavar="ID", help="a snapshot; without it the newest here")
    _choice_arguments(parser)
    parser.add_argument("--path", action="append", default=[], metavar="PATH", help="only this path (may be repeated)")
    parser.add_argument("--exact", action="store_true", help="also delete files the snapshot does not have")
    parser.add_argument("--index", action="store_true", help="the index too: what was staged is staged again")
    parser.add_argument("--refs", action="store_true", help="branches, tags, stash and reflogs too")
    parser.add_argument(
        "--ref",
        action="append",
        default=[],
        metavar="REF",
        help="only this branch, tag or refs/stash, by its full name",
    )
    parser.add_argument(
        "--setting", action="append", default=[], metavar="FILE", help="only this file of .git: config, hooks/NAME"
    )
    parser.add_argument("--all", action="store_true", help="files, index, refs, git's settings and hooks")
    parser.add_argument("--into", default="", metavar="DIR", help="write the files into a new folder instead")
    parser.add_argument("--here", action="store_true", help="into this checkout, whoever's snapshot it is")
    parser.add_argument("--dry-run", action="store_true", help="say what would change, and change nothing")


def _restore(ctx: Context, arguments: argparse.Namespace) -> int:
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
        return _tell(ctx, report, dry_run=False)
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
    return _tell(ctx, report, dry_run=arguments.dry_run)


def _undo_arguments(parser: Parser) -> None:
    parser.add_argument("--session", default="", metavar="NAME", help="take back all this session did since it started")
    parser.add_argument("--dry-run", action="store_true", help="say what would change, and change nothing")


def _undo(ctx: Context, arguments: argparse.Namespace) -> int:
    snapshot_store = engine.open_snapshot_store(ctx.app)
    if not arguments.session and (back := _landing_to_undo(ctx, snapshot_store)):
        return _undo_landing(ctx, snapshot_store, back, dry_run=arguments.dry_run)
    from handoff.engine.safety.incidents import ours

    with ours(ctx.app, folder=snapshot_store.place.source.top):
        report = engine.undo(
            ctx.app, snapshot_store=snapshot_store, session=arguments.session, dry_run=arguments.dry_run
        )
    return _tell(ctx, report, dry_run=arguments.dry_run)


def _landing_to_undo(ctx: Context, snapshot_store: SnapshotStore) -> Landing | None:
    """The last landing, if it is younger than every other operation here."""
    from handoff.engine.workspaces.landing import last_landing

    landing = last_landing(ctx.app, snapshot_store=snapshot_store)
    if landing is None:
        return None
    others = [
        one.time
        for one in engine.listing(ctx.app, snapshot_store=snapshot_store, workspace=snapshot_store.place.workspace)
        if one.operation
    ]
    return landing if landing.time >= max(others, default=0.0) else None


def _undo_landing(ctx: Context, snapshot_store: SnapshotStore, landing: Landing, *, dry_run: bool) -> int:
    from handoff.engine.workspaces.landing import undo_landing

    if not dry_run:
        undo_landing(ctx.app, landing=landing, snapshot_store=snapshot_store)
    ctx.out.data({"landing": landing._asdict(), "dry_run": dry_run})
    verb = "Would move" if dry_run else "Moved"
    ctx.out.line(
        f"{verb} {landing.target} back from {landing.new[:10]} to {landing.old[:10]} ({', '.join(landing.members)})."
    )
    return 0


def _tell(ctx: Context, report: RestoreReport, *, dry_run: bool) -> int:
    ctx.out.data(
        {
            "snapshot": _record(report.snapshot),
            "target": report.target,
            "dry_run": dry_run,
            "changes": [{"kind": change.kind, "path": change.path} for change in report.changes],
            "notes": list(report.notes),
            "before": _record(report.before) if report.before else None,
        }
    )
    words = {"add": "bring back", "change": "change", "delete": "delete", "mode": "set rights"}
    for change in report.changes[:_SHOWN_PATHS]:
        ctx.out.line(f"  {words[change.kind]:<10} {change.path}")
    if len(report.changes) > _SHOWN_PATHS:
        ctx.out.line(f"  … and {len(report.changes) - _SHOWN_PATHS} more")
    for note in report.notes:
        ctx.out.line(f"  {note}")
    verb = "Would restore" if dry_run else "Restored"
    rights = sum(change.kind == "mode" for change in report.changes)
    count = len(report.changes) - rights
    more = f" and the rights of {rights} more" if rights else ""
    ctx.out.line(f"{verb} {count} file{'' if count == 1 else 's'}{more} of {report.snapshot.short} in {report.target}.")
    if report.before:
        ctx.out.note(f"Take it back with: handoff undo (snapshot {report.before.short})")
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


def _warn(ctx: Context, taken: Snapshot) -> None:
    for name in taken.unread:
        ctx.out.warning(f"{name} could not be read and is not in the snapshot.")
    for part in taken.incomplete:
        ctx.out.warning(f"The repository's {part} could not be read in full; the earlier one is kept.")


def _record(one: Snapshot) -> dict[str, Any]:
    return {
        "id": one.sha,
        "workspace": one.workspace,
        "session": one.session,
        "time": stamp(one.time),
        "reason": one.reason,
        "operation": one.operation,
        "head": one.head,
        "branch": one.branch,
        "top": one.top,
        "fresh": one.fresh,
        "unread": list(one.unread),
        "incomplete": list(one.incomplete),
    }


COMMANDS = {
    "snapshot": Command(_snapshot_arguments, _snapshot),
    "snapshots": Command(_snapshots_arguments, _snapshots),
    "diff": Command(_diff_arguments, _diff),
    "restore": Command(_restore_arguments, _restore),
    "undo": Command(_undo_arguments, _undo),
}

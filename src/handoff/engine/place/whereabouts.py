"""Where a session stands: HEAD, branch, what is changed there and how, asked when its baton is written."""

from __future__ import annotations

from handoff.base.clock import stamp
from handoff.base.ids import on_one_line
from handoff.base.markdown import bullets, fenced
from handoff.base.record import TYPE_CHECKING
from handoff.engine.place.landing.members import member_of
from handoff.feature.baton import PromptPart, block, head, pin
from handoff.git.plumbing.checkout import begin_commits, begin_facts, git
from handoff.git.plumbing.objects import differences

if TYPE_CHECKING:
    from collections.abc import Sequence

    from handoff.engine.app import App
    from handoff.engine.safety.snapshots import SnapshotStore
    from handoff.git.workspaces import Workspace

_SHOWN, _FILES, _COMMITS = 10, 60, 3
_HOW = {"A": "new", "M": "changed", "D": "deleted", "T": "changed"}


def look(
    app: App, *, folder: str, clone: Workspace | None, snapshot_store: SnapshotStore | None, base: str
) -> list[PromptPart]:
    """The state of the folder; `base` is the commit since which the changes of a shared checkout are told."""
    asked = begin_facts(folder, environment=app.git_environment)
    last = begin_commits(folder, "HEAD", environment=app.git_environment, limit=_COMMITS)
    state, commits = asked(), last() or ()
    lines = [f"Folder: `{folder}`" + (", a clone of your own" if clone is not None else "")]
    if state is None:
        return [pin(bullets([*lines, "It is not in a git repository."]))]
    branch = f"branch `{state.branch}`" if state.branch else "no branch (detached)"
    lines.append(f"HEAD: `{state.short or 'no commit yet'}` on {branch}, looked at {stamp(app.clock.now())}")
    if commits:
        lines.append("Last commits:\n" + "\n".join(f"  - `{one.sha[:10]} {one.subject}`" for one in commits))
    if clone is not None and snapshot_store is not None:
        line, work = _work(app, clone, snapshot_store)
        return [pin(bullets([*lines, *line])), *work]
    lines.append(_dirty(state.dirty))
    return [pin(bullets(lines)), *(_since(app, folder, base, state.untracked) if base else [])]


def _dirty(paths: Sequence[str]) -> str:
    if not paths:
        return "Everything is committed."
    shown = ", ".join(f"`{on_one_line(path)}`" for path in paths[:_SHOWN])
    more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    return f"Changed and not committed ({len(paths)}): {shown}{more}. Leave what is not yours alone."


def _work(app: App, clone: Workspace, snapshot_store: SnapshotStore) -> tuple[list[str], list[PromptPart]]:
    """What the clone holds beside its base, file by file with how, and the diff."""
    store = snapshot_store.store
    member = member_of(app, snapshot_store=snapshot_store, workspace=clone)
    base = f"`{clone.base[:10]}`"
    changed = differences(store, member.base, member.commit)
    outside = [line for line in member.left_out if not line.startswith(".handoff/")]
    if not changed and not outside:
        return [f"Work so far: none; the files are those of {base}."], []
    lines = [f"`{on_one_line(one.path)}` ({_HOW.get(one.letter, 'changed')})" for one in changed]
    lines += [f"{on_one_line(line)}, which does not count" for line in outside]
    listed = pin(bullets(lines, limit=_FILES), f"Work so far, since {base}")
    diff = store.ask_bytes("diff", "--no-color", "--no-ext-diff", member.base, member.commit).decode("utf-8", "replace")
    shown = block("The diff of it", fenced(diff.rstrip(), "diff"), 5, f"git diff {clone.base[:10]}", 0.3)
    return [], [listed, shown._replace(shrink=lambda room: fenced(head(diff, room - 5, shown.path), "diff"))]


def _since(app: App, folder: str, base: str, untracked: Sequence[str]) -> list[PromptPart]:
    """What differs in a shared checkout from the commit the task was written at, with how; whoever changed it."""
    words = ("diff", "--name-status", "-z", "--no-renames", "--no-ext-diff", base, "--")
    answer = git(folder, *words, environment=app.git_environment)
    told = answer.text.split("\0") if answer.code == 0 else []
    lines = [
        f"`{on_one_line(path)}` ({_HOW.get(how, 'changed')})" for how, path in zip(told[::2], told[1::2], strict=False)
    ]
    lines += [f"`{on_one_line(path)}` (new)" for path in untracked]
    return [
        block(
            f"Changed since the task was written (`git diff {base[:10]}`), by whomever", bullets(lines, limit=_FILES), 2
        )
    ]

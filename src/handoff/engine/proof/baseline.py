"""What a task starts from: commit, branch, dirty paths, last commits, and the tests' verdict if they were run."""

from __future__ import annotations

from handoff.base.record import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from handoff.engine.app import App

_LAST_COMMITS = 3
_SHOWN_DIRTY = 200


def take_baseline(
    app: App, workspace: str, *, tests: str = "", stamps: bool = False, timeout: float = 900.0
) -> dict[str, Any]:
    """The facts of the checkout now; `tests` are run here, and their verdict is part of the baseline.

    `stamps` also notes every file that is changed already, so that it is not held against the session later.
    """
    from handoff.git.plumbing.checkout import begin_commits, begin_facts

    state_of = begin_facts(workspace, environment=app.git_environment)
    commits_of = begin_commits(workspace, "HEAD", environment=app.git_environment, limit=_LAST_COMMITS)
    state, last = state_of(), commits_of() or ()  # both were asked before the first was waited for
    found: dict[str, Any] = {"at": app.clock.now(), "workspace": workspace, "host": app.settings.host}
    if state is not None:
        found.update(
            head=state.head, branch=state.branch, dirty=list(state.dirty[:_SHOWN_DIRTY]), dirty_count=len(state.dirty)
        )
        if state.head:
            found["commits"] = [f"{commit.sha[:10]} {commit.subject}" for commit in last]
        if stamps and state.dirty:
            from handoff.engine.proof.evidence import already_changed

            found["stamps"] = already_changed(app, workspace, state.head)
    if tests:
        from handoff.checks.commands import run_check

        app.tell(f"Running the tests for the baseline: {tests}", 0, 0)
        verdict = run_check(
            tests, folder=workspace, environment=app.settings.environment, timeout=timeout, clock=app.clock
        )
        word = verdict.word
        if not verdict.green:
            from handoff.engine.proof.faults import missing_for

            lacks = missing_for(verdict, owns=(), folder=workspace)
            word = word if lacks is None else f"not run: {lacks or verdict.command} is missing (exit {verdict.code})"
        found["tests"] = {"command": tests, "verdict": word, "green": verdict.green, "tail": verdict.tail}
    return found

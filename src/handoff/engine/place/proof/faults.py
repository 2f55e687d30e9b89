"""What an ending costs: the agent's own fault an attempt; all others cost none and are waited for."""

from __future__ import annotations

import os
import re

from handoff.agents.contract import CLIENT, DOWN, ENVIRONMENT, FAILED, KILLED, LIMIT, LOGIN, OK, UNKNOWN, AgentOutcome
from handoff.base.errors import Refused
from handoff.base.markdown import end_sentence
from handoff.base.process import find
from handoff.base.record import TYPE_CHECKING
from handoff.checks.commands import NOT_STARTED, Verdict
from handoff.git.ownership import Ownership

if TYPE_CHECKING:
    from collections.abc import Iterable

    from handoff.board.tasks.flows import Flow
    from handoff.board.tasks.tasks import Task
    from handoff.checks.results import Report
    from handoff.engine.app import App

_DEPENDENCIES = (".venv", "venv", "node_modules", ".tox")  # folders no session makes
_RUNNERS = frozenset("pytest tox nox coverage mypy ruff flake8 pylint black build pip nose2".split())
_SHELL = re.compile(
    r"^(?:\S*/)?(?P<who>(?:ba|da|z|k)?sh|g?make(?:\[\d+\])?): (?:line )?(?:\d+: )?(?P<name>[^:\n]+): "
    r"(?P<why>not found|command not found|No such file or directory|[Pp]ermission denied|cannot execute\b.*)\s*$",
    re.MULTILINE,
)
_ENV = re.compile(r"^(?:\S*/)?env: \W?(?P<name>[\w./+-]+)\W?: No such file or directory\s*$", re.MULTILINE)
_MODULE = re.compile(r"^(?P<python>\S*python\S*): No module named '?(?P<name>\w+)'?\s*$", re.MULTILINE)
_MAKE = re.compile(r"^\S*make\S*: \*\*\* .*\bError 12[67]\s*$", re.MULTILINE)


HOLDS_AGENT = (LIMIT, DOWN, LOGIN, CLIENT)
"""What every session of the agent would meet on this machine."""
HOLDS_TASK = (ENVIRONMENT, KILLED, UNKNOWN)
UNEXPLAINED = (KILLED, UNKNOWN)
"""What may pass by itself. When it does not, a person is asked."""
ASK_AFTER = 5
"""So many sessions in a row that ended and nobody can say why."""


class GroundFault(Refused):
    """The check cannot run where it must: neither a yes nor a no of the work, and nothing its session can mend."""


def is_attempt(outcome: AgentOutcome) -> bool:
    """Whether a session that came out like this has used up one of its task's attempts."""
    return outcome.kind in (OK, FAILED)


def fix_for(outcome: AgentOutcome, *, agent: str, task: str, program: str) -> str:
    """What a person may do about it."""
    fixes = {
        LIMIT: f"It goes on by itself; sooner, if you know better: {program} agent retry {agent}",
        DOWN: "Your log-in is not the cause.",
        LOGIN: f"Log in to {agent}, or pay its provider.",
        CLIENT: f"Install or repair {agent}.",
    }
    fix = outcome.fix or fixes.get(outcome.kind, "")
    if outcome.kind in (ENVIRONMENT, LIMIT):
        return fix
    again = f"agent retry {agent}" if outcome.kind in HOLDS_AGENT else f"retry {task}"
    return f"{end_sentence(fix) if fix else ''} It is tried again by itself, at once with: {program} {again}".strip()


def question(outcome: AgentOutcome, *, task: str, count: int) -> str:
    """What a person is asked when nobody can say why sessions end."""
    return (
        f"{count} sessions of '{task}' in a row ended, and not by the agent's fault. Try again?\n"
        f"The last one {outcome.why}\nYes tries again, no blocks the task. No attempt was used up."
    )


def refuse_unready(app: App, task: Task, verdict: Verdict, *, folder: str) -> None:
    """Stop where a task's check did not run at all; a check that ran, red or green, passes."""
    _refuse(
        app, verdict, owns=task.patterns, folder=folder, checkout=task.workspace, what=f"retry {task.label}", task=task
    )


def refuse_unready_flow(app: App, flow: Flow, reports: Iterable[Report]) -> None:
    """The same for what a flow runs on the exact tree of a phase."""
    for report in reports:
        if report.trouble:
            verdict = Verdict(
                command=report.command,
                code=report.code,
                seconds=report.seconds,
                tail=report.tail,
                timed_out=report.timed_out,
            )
            _refuse(app, verdict, owns=(), folder=flow.workspace, checkout=flow.repository, what=f"retry {flow.id}")


def _refuse(
    app: App,
    verdict: Verdict,
    *,
    owns: tuple[str, ...],
    folder: str,
    checkout: str,
    what: str,
    task: Task | None = None,
) -> None:
    missing = missing_for(verdict, owns=owns, folder=folder)
    if missing is None:
        return
    tail = next((line.strip() for line in reversed(verdict.tail.splitlines()) if line.strip()), f"exit {verdict.code}")
    raise GroundFault(
        f"The check cannot run: `{verdict.command}`: {tail}",
        f"{_fix(app, missing, folder=folder, checkout=checkout, task=task)} Then: {app.settings.program} {what}",
    )


def missing_for(verdict: Verdict, *, owns: tuple[str, ...], folder: str) -> str | None:
    """What a check needs and has not, empty where nobody says; None when it ran, or when its task is to make that."""
    if verdict.green or verdict.timed_out or verdict.over:
        return None
    module = _MODULE.search(verdict.tail)
    if module is not None and module["name"] in _RUNNERS:
        return f"{module['python']} -m {module['name']}"
    if verdict.code not in NOT_STARTED and _MAKE.search(verdict.tail) is None:
        return None
    said = _SHELL.search(verdict.tail)
    if said is not None:
        is_path = "/" in said["name"] or (said["why"].startswith("No such") and "make" not in said["who"])
        return None if is_path and _may_make(said["name"], owns=owns, folder=folder) else str(said["name"])
    found = _ENV.search(verdict.tail)
    return str(found["name"]) if found is not None else ""


def _may_make(path: str, *, owns: tuple[str, ...], folder: str) -> bool:
    """Whether a session of the task can make that file: then its absence is red, not a fault of the ground."""
    inside = os.path.relpath(os.path.join(folder, path), folder)
    first = inside.partition("/")[0]
    if first == os.pardir or first in _DEPENDENCIES:
        return False
    return not owns or Ownership.parse(owns).covers(inside)


def _fix_dependencies(name: str, *, checkout: str) -> str:
    """A clone is lent what the checkout has of dependencies, if git ignores it and a sandbox keeps it from being written."""
    if os.path.lexists(os.path.join(checkout, name)):
        return (
            f"Your checkout has {name}, the clone of this task has not: only inside a sandbox a clone gets a link to it."
            f" Install bubblewrap, put the line '{name}' into .worktreeinclude, or let HANDOFF_WORKSPACE_SETUP name a command that makes it."
        )
    how = "npm install" if name == "node_modules" else f"python3 -m venv {name} && {name}/bin/pip install -e ."
    return f"Make {name} in your checkout, where .gitignore names it; the check uses it from then on: {how}"


def _fix(app: App, missing: str, *, folder: str, checkout: str, task: Task | None) -> str:
    other = f", or give it another check: {app.settings.program} task edit {task.label} --check CMD" if task else ""
    first = missing.removeprefix("./").partition("/")[0]
    if first in _DEPENDENCIES and folder != checkout and not os.path.lexists(os.path.join(folder, first)):
        return _fix_dependencies(first, checkout=checkout)
    if missing == "python" and find("python3", path=app.settings.path):
        return f"There is no 'python' on the PATH, only python3. Install python-is-python3{other}."
    if " -m " in missing:
        python, _, module = missing.partition(" -m ")
        return f"Install {module} for {python}: {python} -m pip install {module}"
    what = f"'{missing}'" if missing else "what it needs"
    return f"Put {what} where the check looks for it{other}."

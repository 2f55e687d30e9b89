"""Before the first session of a task: whether its check can run where it works. Red is expected; not to be started is not."""

from __future__ import annotations

import re
import shlex
import threading

from handoff.base.clock import stamp
from handoff.base.errors import Refused
from handoff.base.process import run
from handoff.base.record import TYPE_CHECKING
from handoff.board.sessions import holds, leases
from handoff.board.tasks import tasks
from handoff.checks.commands import NOT_STARTED, Verdict
from handoff.engine.app.home import home_config
from handoff.engine.outcome import kinds
from handoff.engine.place import task_clones, task_work, workspaces
from handoff.engine.place.landing import conflict
from handoff.engine.place.proof import evidence, faults
from handoff.engine.session.placement import NONE, place

if TYPE_CHECKING:
    from handoff.board.sessions.leases import Claim
    from handoff.board.tasks.tasks import Task
    from handoff.engine.app import App
    from handoff.engine.session.placement import Placement

_PLAIN = re.compile(r"[\w./+-]+")
_WORDS = re.compile(r"""'[^']*'|"(?:\\.|[^"\\])*"|\\.|&&|[(){}`\n<;|&]""", re.DOTALL)
_HARD = frozenset("(){}`\n<;|&")
_RED = "(this piece is red; the next one is tried all the same)"
_SECONDS = 20.0
_NO_MODULE = 66
_HAS_MODULE = (
    "import sys, importlib.util as u; sys.path.insert(0, sys.argv[1]);"
    f" sys.exit({_NO_MODULE} if u.find_spec(sys.argv[2].split('.')[0]) is None else 0)"
)
_LOCKS: dict[str, threading.Lock] = {}


def leaves_ready(app: App, claim: Claim, placement: Placement, ran: dict[str, str]) -> bool:
    """Refuse to begin where the check cannot run, before anybody is paid; False when the workspace must be made anew.

    Of every check its program is looked for. For a batch each check runs once on the untouched clone; `ran` remembers which did.
    """
    task = claim.task
    first = claim.fence <= 1 or holds.of_task(app.database, key=task.key, host=app.settings.host) is not None
    if not task.check_command or not first or task.kind == tasks.PHASE:
        return True
    try:
        _look_for_program(app, task, placement.folder)
        if task.batch is None:
            return True
        return _try_once(app, claim, placement, ran)
    except faults.GroundFault:
        if not _changes(app, placement):
            _drop(app, placement)  # the next one is made of what the person has mended by then
        raise


def _look_for_program(app: App, task: Task, folder: str) -> None:
    try:
        word, *rest = shlex.split(task.check_command) or [""]
    except ValueError:
        return  # the shell will say what is wrong with it
    if not _PLAIN.fullmatch(word):
        return
    environment = app.settings.environment
    asked = ["/bin/sh", "-c", 'command -v -- "$1"', "handoff", word]
    if run(asked, environment=environment, cwd=folder, timeout=_SECONDS).code:
        tail = f"sh: 1: {word}: not found"
        missing = Verdict(command=task.check_command, code=NOT_STARTED[-1], seconds=0.0, tail=tail)
        faults.refuse_unready(app, task, missing, folder=folder)
    elif word.startswith("python") and "/" not in word and len(rest) > 1 and rest[0] == "-m":
        # Found, not imported, and asked elsewhere: nothing of the folder runs here.
        done = run([word, "-c", _HAS_MODULE, folder, rest[1]], environment=environment, cwd="/", timeout=_SECONDS)
        if done.code == _NO_MODULE:
            tail = f"{word}: No module named {rest[1]}"
            missing = Verdict(command=task.check_command, code=1, seconds=0.0, tail=tail)
            faults.refuse_unready(app, task, missing, folder=folder)


def _try_once(app: App, claim: Claim, placement: Placement, ran: dict[str, str]) -> bool:
    task, clone = claim.task, placement.clone
    key = f"check of {task.project} {task.batch} in a {placement.kind}: {task.check_command}"
    with _LOCKS.setdefault(key, threading.Lock()):  # the parts of a batch begin together
        if key in ran:
            return True
        touched, sandboxed = _changes(app, placement), clone is not None or placement.sandbox != NONE
        trial = task._replace(check_command=each_piece(task.check_command))
        verdict = evidence.run_task_check(app, trial, placement.folder, sandboxed=sandboxed, clone=clone)
        later = _RED in verdict.tail  # what a red piece was to make, no later one can miss
        faults.refuse_unready(
            app,
            task._replace(owns="[]") if later else task,
            verdict._replace(command=task.check_command),
            folder=placement.folder,
        )
        ran[key] = verdict.word
    leases.heartbeat(app.database, key=task.key, fence=claim.fence)  # it may have taken long
    if touched or not _changes(app, placement):
        return True
    _drop(app, placement)  # what the check left there is nobody's work
    return False


def each_piece(command: str) -> str:
    """A check to try: in `A && B` B is tried though A is red, as it is before the work. Of anything harder to read all is tried as it is."""
    ends = [found.span() for found in _WORDS.finditer(command) if found[0] == "&&"]
    if not ends or any(found[0] in _HARD for found in _WORDS.finditer(command)):
        return command
    begins = [0, *(end for _, end in ends)]
    pieces = [command[at:end].strip() for at, end in zip(begins, [*(at for at, _ in ends), len(command)], strict=True)]
    go_on = f"\nhandoff_code=$?\ncase $handoff_code in 0) ;; 126|127) exit $handoff_code ;; *) echo '{_RED}' ;; esac\n"
    return go_on.join(pieces) if all(pieces) else command


def _changes(app: App, placement: Placement) -> bool:
    if placement.clone is None or placement.snapshot_store is None:
        return False
    return bool(task_work.changes(app, placement.snapshot_store, placement.clone).changed)


def _drop(app: App, placement: Placement) -> None:
    if placement.clone is not None:
        workspaces.remove_workspace(app, name=placement.clone.name, snapshot_store=placement.snapshot_store)


def _joins_nothing(app: App, claim: Claim) -> bool:
    """Whether a fan-in is new and has one part, which fits the branch as it is: the part's own work is what lands."""
    task = claim.task
    if task.kind != tasks.FAN_IN or task.attempt > 1 or len(task_clones.parts(app, task)) != 1:
        return False
    placement = place(app, home_config(app), task=task, session=claim.session.id)
    if (
        placement.clone is None
        or placement.snapshot_store is None
        or conflict.of_workspace(placement.clone) is not None
    ):
        return False
    return bool(task_clones.kept_parts(app, placement.snapshot_store, task))  # what was done by hand may be uncommitted


def refuse_held(app: App, agent: str) -> None:
    """Its provider has just refused another session: nobody pays to hear that again, unless a person says that it is over."""
    held = holds.of_agent(app.database, agent=agent, host=app.settings.host)
    if held is not None and held.until > app.clock.now():
        raise Refused(
            f"Agent {agent} is to start later, after {stamp(held.until)}: {held.reason}",
            f"Wait, or if that is over: {app.settings.program} agent retry {agent}",
        )


def is_only_to_judge(app: App, claim: Claim) -> bool:
    """Whether nothing is left to do but to check and land: then no session is paid for that.

    A session made the work and only its check could not run, or it is the fan-in of a single part.
    """
    task, held = claim.task, holds.of_task(app.database, key=claim.task.key, host=app.settings.host)
    if _joins_nothing(app, claim):
        return True
    if held is None or not held.session:
        return False
    # What a sandboxed session wrote is judged inside a sandbox, and only its own clone or its flow's says that it must be.
    apart = kinds.is_judged_later(task) or task_clones.of_task(app, task) is not None
    return apart or not task_clones.is_sandboxed(app, project=task.project, session=held.session)

"""How work is to be split: a manifest is held against the repository before anything starts, and a planner is a session that proposes one."""

from __future__ import annotations

import os
import re
import shlex
from contextlib import suppress
from itertools import pairwise

from handoff.agents.contract import FAILED, OK, AgentOutcome
from handoff.base.errors import HandoffError, UserError
from handoff.base.files import as_text
from handoff.base.ids import slug
from handoff.base.markdown import first_sentence, number_of, render
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board import gates
from handoff.board.events import journal
from handoff.board.sessions import leases
from handoff.board.tasks import outcomes, states, tasks
from handoff.engine.app.home import find_project, home_config, settle
from handoff.engine.features.status import look
from handoff.engine.outcome import kinds, whole_check
from handoff.engine.place import task_clones
from handoff.engine.place.fanout import views
from handoff.engine.place.proof import evidence, faults
from handoff.engine.place.proof.evidence import take_baseline
from handoff.engine.place.workspaces import abandoned_workspaces, add_workspace, remove_workspace, session_of_command
from handoff.engine.safety.snapshots import open_snapshot_store
from handoff.engine.work.tasks import batches
from handoff.engine.work.tasks.batches import read_checked, refuse_live_names
from handoff.engine.work.tasks.manifests import Fault, example, fault_error, plain_path
from handoff.engine.work.tasks.splitting import coupling
from handoff.engine.work.tasks.splitting.coupling import shared_groups
from handoff.git.ownership import Ownership
from handoff.git.plumbing import find_top
from handoff.git.plumbing.beneath import Beneath
from handoff.git.plumbing.checkout import facts, git
from handoff.git.workspaces import DIRTY, WorkspaceRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from handoff.board.tasks.batches import Batch, SubTask
    from handoff.board.tasks.outcomes import Outcome
    from handoff.board.tasks.tasks import Task
    from handoff.engine.app import App
    from handoff.engine.app.home import Project
    from handoff.engine.outcome.kinds import EndedSession
    from handoff.engine.work.tasks.manifests import Manifest
    from handoff.engine.work.tasks.splitting.coupling import SharedGroup
    from handoff.store.database import Transaction

_FILES = re.compile(
    r"\.(?:py|js|jsx|ts|tsx|go|rs|rb|java|kt|c|h|cc|cpp|cs|php|sh|sql|md|rst|txt|toml|json|ya?ml|html|css)$"
)
_PLAIN = re.compile(r"[\w./@+-]+")
_REDIRECTED = re.compile(r">>?\|?\s*([^\s;&|<>()]+)")
_SHOWN = 6


class VerifiedManifest(Record):
    """A manifest that may start: what each check said on the files as they are, and what a person should know."""

    manifest: Manifest
    checks: dict[str, str]
    remarks: tuple[str, ...]


def verify_words(app: App, project: Project, path: str, text: str = "") -> Manifest:
    """The manifest, sound by itself and against the files of the repository; no check is run."""
    manifest = read_checked(path, text)
    top = find_top(manifest.workspace or project.workspace)
    if top is not None:
        ground = _Ground(app, manifest, top)
        found = [*ground.shared_faults(), *ground.needed_faults()]
        if found:
            raise fault_error(manifest, found)
    return manifest


def verify(
    app: App, project: Project, path: str, text: str = "", *, tell: Callable[[str], None] | None = None
) -> VerifiedManifest:
    """Every fault of the manifest in one error, before anything starts; what is no fault but worth a word is a remark."""
    manifest = verify_words(app, project, path, text)
    refuse_live_names(app, project, manifest)
    checkout = manifest.workspace or project.workspace
    top = find_top(checkout)
    state = facts(top, environment=app.git_environment) if top is not None else None
    if top is None or state is None or not state.head:
        raise UserError(
            f"{checkout} has no commit yet: the parts of a batch work in clones.",
            "Begin with: git init && git commit --allow-empty -m start",
        )
    ground = _Ground(app, manifest, top)
    manifest, remarks = _whole_suite(app, manifest, top)
    checks, told = _preflight(app, project, manifest, top, dirty=bool(state.dirty), tell=tell or (lambda _: None))
    return VerifiedManifest(_settled(manifest, checks), checks, (*ground.remarks(), *remarks, *told))


class _Ground:
    """The parts of a manifest over the files of a repository."""

    def __init__(self, app: App, manifest: Manifest, top: str) -> None:
        self.manifest, self.top, self.app = manifest, top, app
        answer = git(
            top, "ls-files", "-z", "--cached", "--others", "--exclude-standard", environment=app.git_environment
        )
        self.paths = [path for path in answer.text.split("\0") if path]
        self.owners = {sub.id: Ownership.parse(sub.owns) for sub in manifest.sub_tasks}
        self.before = {sub.id: _before(manifest, sub.id) for sub in manifest.sub_tasks}

    def owner(self, path: str) -> str:
        return next((id for id, owned in self.owners.items() if owned.covers(path)), "")

    def shared_faults(self) -> Iterator[Fault]:
        """A group of shared files has one owner, or owners of which each waits for the one before."""
        places = {sub.id: index for index, sub in enumerate(self.manifest.sub_tasks)}
        for group in shared_groups(self.paths):
            owners = [sub.id for sub in self.manifest.sub_tasks if self._reaches(sub, group)]
            for first, second in pairwise(owners):
                if first in self.before[second] or second in self.before[first]:
                    continue
                yield Fault(
                    ("sub_tasks", places[second], "file_ownership"),
                    f"'{first}' and '{second}' both own files of {group.name}: {group.what}",
                    f"Give all of it to one of them, let '{second}' depend on '{first}', or leave it to the fan-in.",
                )

    def _reaches(self, sub: SubTask, group: SharedGroup) -> bool:
        if any(self.owners[sub.id].covers(path) for path in group.paths):
            return True
        return bool(group.folder) and any(one.startswith(group.folder) for one in sub.owns)

    def needed_faults(self) -> Iterator[Fault]:
        """What a part says it needs is its own; what its check reads is there, or made by it or by a part before it."""
        for index, sub in enumerate(self.manifest.sub_tasks):
            needs = self.manifest.needs[index] if index < len(self.manifest.needs) else ()
            for path in needs:
                if not self.owners[sub.id].covers(plain_path(path)):
                    owner = self.owner(plain_path(path))
                    whose = f"belongs to '{owner}'" if owner else "belongs to nobody"
                    fix = f"Give it to '{sub.id}', or take it out of its needs."
                    yield Fault(("sub_tasks", index, "needs"), f"'{sub.id}' needs {path}, which {whose}", fix)
            made = {plain_path(word.strip("'\"")) for word in _REDIRECTED.findall(sub.check_command)}
            for path in _paths_in(sub.check_command):
                if (
                    path in made
                    or any(self.owners[id].covers(path) for id in (sub.id, *self.before[sub.id]))
                    or self._is_there(path)  # last: it may ask git, and there may be a thousand parts
                ):
                    continue
                owner = self.owner(path)
                fix = f"Let '{sub.id}' depend on '{owner}'." if owner else f"Let '{sub.id}' own it, or fix the check."
                whose = f"it is for '{owner}' to make" if owner else "nobody owns it"
                said = f"the check needs {path}, which is not there, and {whose}"
                yield Fault(("sub_tasks", index, "check"), said, fix)

    def _is_there(self, path: str) -> bool:
        if os.path.lexists(os.path.join(self.top, path)):
            return True
        return git(self.top, "check-ignore", "-q", "--", path, environment=self.app.git_environment).code == 0

    def remarks(self) -> Iterator[str]:
        free = [path for group in shared_groups(self.paths) for path in group.paths[:1] if not self.owner(path)]
        free = [path for path in free if os.path.basename(path) != "__init__.py" or self._is_between(path)]
        if free:
            more = f" and {len(free) - _SHOWN} more" if len(free) > _SHOWN else ""
            yield f"Shared files that no part owns are the fan-in's: {', '.join(free[:_SHOWN])}{more}"
        for sub in self.manifest.sub_tasks:
            strange = [path for path in _paths_in(sub.brief) if not self.owners[sub.id].covers(path)]
            named = [path for path in strange if not self._is_there(path) and not self.owner(path)]
            if named:
                yield f"{sub.id}: its brief names {', '.join(named[:_SHOWN])}, which is not there and which no part owns"

    def _is_between(self, path: str) -> bool:
        """Whether two parts work in the folder of a registry: then both may want a line in it."""
        beside = os.path.dirname(path)
        return len({self.owner(one) for one in self.paths if os.path.dirname(one) == beside} - {""}) > 1


def _before(manifest: Manifest, id: str) -> set[str]:
    """Whom a part waits for, and whom those wait for."""
    needs = {sub.id: sub.depends_on for sub in manifest.sub_tasks}
    found: set[str] = set()
    edge = list(needs[id])
    while edge:
        name = edge.pop()
        if name not in found:
            found.add(name)
            edge += needs[name]
    return found


def _paths_in(text: str) -> list[str]:
    """The words of a command or a brief that can only be paths of the repository."""
    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()
    found = []
    for word in words:
        bare = word.strip("`'\"(),;:.").partition("::")[0]
        if not _PLAIN.fullmatch(bare) or bare.startswith(("/", "-", "..")) or not _FILES.search(bare):
            continue
        found.append(plain_path(bare))
    return list(dict.fromkeys(found))


# --- checks -----------------------------------------------------------------------------------------------------


def _whole_suite(app: App, manifest: Manifest, top: str) -> tuple[Manifest, list[str]]:
    """Without words of its own the fan-in is held against the project's whole suite, as `check` finds it."""
    if manifest.check:
        return manifest, [
            f"The merged result is checked with what the manifest says, not by the project's own suite: {manifest.check}"
        ]
    try:
        command = whole_check.suite_command(app, top)
    except HandoffError as error:
        return manifest, [f"The project's own suite cannot be found: {error.message}"]
    if not command:
        return manifest, [
            "No test suite was found: the merged result is checked with its parts' checks alone. The key `check` names one."
        ]
    return manifest._replace(check=command), []


def _preflight(
    app: App, project: Project, manifest: Manifest, top: str, *, dirty: bool, tell: Callable[[str], None]
) -> tuple[dict[str, str], list[str]]:
    """Each check once in an untouched clone: red is expected, not to be started is a fault."""
    uses: dict[str, list[int]] = {}
    for index, sub in enumerate(manifest.sub_tasks):
        if sub.check_command:
            uses.setdefault(sub.check_command, []).append(index)
    if manifest.check:
        uses.setdefault(manifest.check, [])
    if not uses:
        return {}, ["No part has a check: what a session reports done is believed."]
    tell(f"Trying {number_of(len(uses), 'check')} on the files as they are …")
    store = open_snapshot_store(app, folder=top, project=project.name)
    for name in abandoned_workspaces(app, store.place.project):  # somebody was killed here
        remove_workspace(app, name=name, snapshot_store=store, force=True)
    order = WorkspaceRequest(
        name=f"preflight-{manifest.batch_id}"[:40].strip("-"),
        base=DIRTY if dirty else "",
        session=session_of_command(app),
    )
    clone = add_workspace(app, order=order, snapshot_store=store).workspace
    found: dict[str, str] = {}
    wrong: list[Fault] = []
    remarks: list[str] = []
    try:
        for command, indices in uses.items():
            verdict = evidence.run_command(app, command, clone.tree, checkout=top, sandboxed=True, clone=clone)
            owns = tuple(pattern for index in indices for pattern in manifest.sub_tasks[index].owns)
            missing = faults.missing_for(verdict, owns=owns, folder=clone.tree)
            if missing is not None and command == manifest.check and "check" not in manifest.raw:
                remarks.append(
                    f"The project's own suite cannot run here ({missing or verdict.word}): the fan-in is judged without it."
                )
            elif missing is not None:
                place = ("sub_tasks", indices[0], "check") if indices else ("check",)
                last = next((line for line in reversed(verdict.tail.splitlines()) if line.strip()), verdict.word)
                wrong.append(
                    Fault(
                        place,
                        f"`{command}` cannot run: {last.strip()}",
                        "Install what it needs, or name another check.",
                    )
                )
            found[command] = verdict.word if missing is None else "could not run"
    finally:
        remove_workspace(app, name=clone.name, snapshot_store=store, force=True)
    if wrong:
        raise fault_error(manifest, wrong)
    return found, remarks


def _settled(manifest: Manifest, checks: dict[str, str]) -> Manifest:
    """The project's own suite judges the whole only if it is green before: what is red already says nothing of the batch."""
    if "check" in manifest.raw or not manifest.check:
        return manifest
    if checks.get(manifest.check) != "green":
        return manifest._replace(check="")
    return manifest._replace(raw={**manifest.raw, whole_check.SUITE: manifest.check})


# --- the planner: what it writes is verified, then a person says yes, no, or how instead -----------------------------

FILE = "handoff-split.toml"
"""What a planner writes, at the top of its clone."""
_MOST_BYTES = 200_000
OPENED = "split.opened"
_SHOWN_HUBS = 8
_LONGEST_ID = 40


def request_of_feature(app: App, *, step: int = 0) -> str:
    """What is to be split: one step of the active feature's plan, or all that is left of it."""
    view = look(app)
    name = os.path.basename(view.feature.path)
    steps = [view.plan.step(index) for index in range(len(view.plan.marks))]
    if step:
        if not 1 <= step <= len(steps):
            raise UserError(
                f"The plan of {name} has no step {step}.", f"It has {len(steps)}: {app.settings.program} status"
            )
        wanted = [steps[step - 1]]
    else:
        wanted = [one for one in steps if one.mark in (" ", ">")]
    if not wanted:
        raise UserError(f"The plan of {name} has no open step.", f"See: {app.settings.program} status")
    lines = [f"{one.number}. {one.text}" for one in wanted]
    return f"Of the feature `{name}` (its documents are in `{view.folder}/`; read them first):\n\n" + "\n".join(lines)


def write_down(app: App, project: Project, request: str, *, agent: str = "", parts: int = 0) -> Task:
    """Record the planner's task: any session start takes it like every other."""
    project = settle(app, project)
    top = find_top(project.workspace)
    if top is None:
        raise UserError(f"{project.workspace} is not a git repository.", "Parts work in clones: git init")
    hubs = coupling.hubs_here(app, top)[:_SHOWN_HUBS]
    with open(os.path.join(os.path.dirname(__file__), "planner.md"), encoding="utf-8") as file:
        text = file.read()
    values = {
        "request": request.strip(),
        "file": FILE,
        "example": example().strip(),
        "count": f"Make {parts} parts."
        if parts
        else "Make as many parts as really can run side by side, two at least.",
        "hubs": f": here for example {', '.join(f'`{path}`' for path in hubs)}." if hubs else ".",
        "program": app.settings.program,
    }
    id = slug(f"split-{_first_words(request)}")[:_LONGEST_ID].strip("-")
    task = tasks.add(
        app.database,
        project=project.name,
        id=_free(app, project.name, id),
        kind=tasks.PLAN,
        brief=render(text, values),
        title=f"Plan a split: {_first_words(request)}",
        agent=agent,
        workspace=project.workspace,
        owns=(FILE,),
        max_attempts=int(home_config(app).number("max_attempts")),
        baseline=take_baseline(app, project.workspace, stamps=True),
    )
    views.refresh_or_tell(app, project.name, f"Task {task.label} is recorded")
    return task


def _first_words(request: str) -> str:
    line = next((line for line in request.splitlines() if line.strip()), "work")
    return " ".join(line.split()[:8])


def _free(app: App, project: str, id: str) -> str:
    live = {task.id for task in tasks.listing(app.database, project=project, limit=1_000_000)}
    return next(name for name in (id, *(f"{id}-{number}" for number in range(2, 1000))) if name not in live)


# --- what comes of it: see engine/outcome/kinds.py --------------------------------------------------------------------


def decide(app: App, ended: EndedSession) -> AgentOutcome | None:
    """A planner that ended well has written a sound manifest, which a person is asked about; anything else is an attempt."""
    if not ended.holds or not faults.is_attempt(ended.outcome) or ended.outcome.kind != OK:
        return None
    try:
        with Beneath(ended.workspace) as inside:  # a link would be read with the person's rights
            text = as_text(FILE, inside.read(FILE, most=_MOST_BYTES))
        if not text:
            return _again(app, ended, f"it wrote no {FILE}, or no plain file below {_MOST_BYTES:,} bytes")
        found = verify_words(app, find_project(app, name=ended.task.project), FILE, text)
    except HandoffError as error:
        return _again(app, ended, f"{error.message} {error.hint}".strip())
    except OSError as error:
        return _again(app, ended, f"its {FILE} cannot be read: {error.strerror}")
    names = ", ".join(sub.id for sub in found.sub_tasks)
    question = (
        f"Split into {len(found.sub_tasks)} parts ({names})? Yes starts them; change the manifest, or say how instead."
    )
    gates.ask(app.database, key=ended.task.key, question=question, fence=ended.fence, on_yes=states.DONE, subject=text)
    return AgentOutcome(OK, question)


def _again(app: App, ended: EndedSession, reason: str) -> AgentOutcome:
    outcome = AgentOutcome(FAILED, first_sentence(reason))
    with app.database.transaction() as transaction:
        leases.hand_back(transaction, task=tasks.get(transaction, key=ended.task.key), reason=reason)
        kinds.tell_concluded(transaction, ended.task, ended.session, outcome)
    return outcome


def proposal(app: App, task: Task) -> str:
    """The manifest a person was asked about, as they changed it, if they did; nothing where it was not proposed, or something else is asked."""
    gate = gates.of_task(app.database, key=task.key)
    return (gate.answer or gate.subject) if gate is not None and gate.on_yes == states.DONE else ""


def check_answer(app: App, task: Task, answer: str) -> None:
    """Before a yes counts: the manifest, perhaps changed, must still be sound."""
    proposed = proposal(app, task)
    if proposed:
        verify_words(app, find_project(app, name=task.project), FILE, answer or proposed)


def approve(app: App, task: Task, *, by: str, reason: str, answer: str) -> Outcome:
    """A person said yes: the batch is open and the task is done, in one transaction. What the session asked is only answered."""
    outcome: Outcome | None = None
    proposed = proposal(app, task)
    if not proposed:
        return gates.approve(app.database, key=task.key, answered_by=by, reason=reason, answer=answer)

    def also(transaction: Transaction, made: Batch) -> None:
        nonlocal outcome
        journal.append(transaction, OPENED, task=task, batch_key=made.key, id=made.id)
        outcome = gates.approve(transaction, key=task.key, answered_by=by, reason=reason, answer=answer)

    project = find_project(app, name=task.project)._replace(workspace=task.workspace)
    batches.open_batch(app, project, FILE, answer or proposed, also=also)
    clone = task_clones.of_task(app, task)
    if clone is not None:
        with suppress(HandoffError):  # what cannot be removed now is found by gc
            remove_workspace(app, name=clone.name, snapshot_store=task_clones.snapshot_store_of_project(app, task))
    return outcome or outcomes.Outcome(tasks.get(app.database, key=task.key))


def batch_of(app: App, task: Task) -> Batch | None:
    """The batch that came of a planner's task."""
    keys = [event.body["batch_key"] for event in journal.of_task(app.database, key=task.key) if event.kind == OPENED]
    return batches.by_key(app, keys[-1]) if keys else None

"""A phase: ensure its session, wait, save, conclude. Every part may be repeated after a crash and does nothing twice."""

from __future__ import annotations

from handoff.agents.contract import FAILED, GROUND, LOST, OK, SERVICE, AgentOutcome
from handoff.base.errors import Away, Conflict, HandoffError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.sessions import leases
from handoff.board.sessions import sessions as rows
from handoff.board.tasks import states, tasks
from handoff.engine.app import App
from handoff.engine.flows.agent_args import fill_in
from handoff.engine.proof.faults import GroundFault
from handoff.engine.sessions import conclude, preflight, start
from handoff.engine.sessions.agent_programs import NotInstalled
from handoff.engine.supervisor import durable
from handoff.engine.workspaces import running

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from handoff.base.settings import Settings
    from handoff.board.sessions.leases import Claim
    from handoff.board.tasks.tasks import Task

NAME = "run_phase"
PHASE = "work"
_AWAY_PAUSE = 0.5


class WorkerSettings(Record):
    """Which agents a supervisor starts, with which extra arguments; `{task}` in a word is the task's id: see agent_args."""

    agents: tuple[str, ...]
    words: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    project: str = ""
    """The only project it serves; empty: all of the machine."""
    workspace: str = ""
    """Where its sessions work; empty: as the settings say."""
    most: tuple[tuple[str, int], ...] = ()
    """How many sessions of an agent may run at once, where that is not as the settings say."""
    until: int = 0
    """The batch it ends with, by its key; 0: it works until it is told to end."""


def id_of(task: Task) -> str:
    """The name of a run: task, phase, fence. The fence grows with every hand-over, so a repeat is harmless."""
    return f"{task.key}:{task.role or PHASE}:{task.fence}"


def runner(settings: Settings, worker_settings: WorkerSettings) -> Callable[..., Any]:
    """The durable run of one phase. It composes its own App: a database belongs to a thread."""
    versions: dict[str, str] = {}

    def run_phase(
        key: int, fence: int, session: str, agent: str, words: Sequence[str] | None = None, workspace: str | None = None
    ) -> str:
        # Who claimed it said with which words, and where: supervisors of one machine share what is enqueued.
        mine = worker_settings if words is None else worker_settings._replace(words=tuple(words))
        mine = mine if workspace is None else mine._replace(workspace=workspace)
        app = App(settings)
        try:
            run = Run(app, mine, versions, key, fence, session, agent)
            ended = durable.step("session", lambda: _patiently(app, run.session_step))
            durable.step("save", lambda: _patiently(app, run.save_step))
            return str(durable.step("conclude", lambda: _patiently(app, lambda: run.conclude_step(ended))))
        finally:
            app.close()

    return run_phase


def _patiently(app: App, function: Callable[[], Any]) -> Any:
    """While the database is away or a disk is full nothing is decided: the step is done when they are back."""
    while True:
        try:
            return function()
        except Away:
            app.clock.sleep(_AWAY_PAUSE)


def _not_started(error: HandoffError | OSError) -> AgentOutcome:
    """Nothing of the agent ran, so it is not its fault; that the task went on without us is nobody's."""
    words = f"the session could not be started: {error}"
    if isinstance(error, GroundFault):
        return AgentOutcome(GROUND, error.message, fix=error.hint)
    if isinstance(error, Conflict):
        return AgentOutcome(FAILED, words)
    kind = SERVICE if isinstance(error, NotInstalled) else GROUND
    return AgentOutcome(kind, words, fix=getattr(error, "hint", ""))


class Run:
    """One phase of one task in the hands of one session."""

    def __init__(
        self,
        app: App,
        worker_settings: WorkerSettings,
        versions: dict[str, str],
        key: int,
        fence: int,
        session: str,
        agent: str,
    ) -> None:
        self.app, self.worker_settings, self.versions = app, worker_settings, versions
        self.key, self.fence, self.session, self.agent = key, fence, session, agent

    def session_step(self) -> dict[str, Any]:
        """Ensure, then wait: attach to a living session, never start a second one, never leave a superseded one alive."""
        claim = self._claim()
        task = claim.task
        mine = task.fence == self.fence and task.held_by == self.session and task.state == states.RUNNING
        if not mine and not start.has_started(self.app, claim):
            return AgentOutcome(LOST, "the task went on without this session")._asdict()
        if mine and not start.has_started(self.app, claim) and preflight.is_only_to_judge(self.app, claim):
            return AgentOutcome(OK, "judged when its check could run")._asdict()
        try:
            started = start.start(self.app, request=self._request(task), claim=claim, versions=self.versions)
        except Away:
            raise
        except (HandoffError, OSError) as error:
            return _not_started(error)._asdict()
        return start.wait(self.app, started)._asdict()

    def save_step(self) -> str:
        """Keep the whole working tree as the session left it, whatever it did."""
        return start.save(self.app, self._claim())

    def conclude_step(self, ended: dict[str, Any]) -> str:
        """Move the task on by what the evidence says. A task that has moved on already is left as it is."""
        concluded = conclude.conclude(self.app, claim=self._claim(), outcome=AgentOutcome(**ended))
        running.forget(self.app, self.session)
        return concluded.words

    def _claim(self) -> Claim:
        """What the supervisor claimed when it asked for this run, from the rows as they are now."""
        task = tasks.get(self.app.database, key=self.key)
        session = rows.get(self.app.database, id=self.session)
        assert session is not None, "it was made known together with this run"  # noqa: S101 - one transaction
        return leases.Claim(task, session, self.fence, task.lease_seconds)

    def _request(self, task: Task) -> start.StartRequest:
        return start.StartRequest(
            agent=self.agent,
            task=task.label,
            project=task.project,
            words=fill_in(self.worker_settings.words, task),
            workspace=self.worker_settings.workspace,
        )

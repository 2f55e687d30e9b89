"""A session's journey: an agent is given a task, watched while it works, and its end is turned into the task's next state."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from uuid import uuid4

from handoff.agents import catalog
from handoff.agents import folder as folders
from handoff.agents.adapters.acp import NAME as ACP
from handoff.agents.catalog import PERSON
from handoff.agents.contract import LaunchRequest, SessionLimits
from handoff.agents.monitor import LAUNCH
from handoff.agents.records import places
from handoff.agents.session import AgentSession, SupervisionRules, supervise
from handoff.base.bounds import bounds_of
from handoff.base.clock import boot_id, stamp
from handoff.base.errors import Away, Conflict, HandoffError, Refused, UserError
from handoff.base.ids import new_id
from handoff.base.light_json import dumps
from handoff.base.markdown import shell_line
from handoff.base.process import start_of
from handoff.base.record import TYPE_CHECKING, Record
from handoff.base.redaction import without_secrets
from handoff.board.events import journal
from handoff.board.sessions import holds, leases, sessions
from handoff.board.tasks import tasks
from handoff.engine.app.home import find_project, home_config, labels_of
from handoff.engine.outcome import kinds
from handoff.engine.place import baton as batons
from handoff.engine.place import publish, running
from handoff.engine.place.fanout import views
from handoff.engine.place.proof import evidence
from handoff.engine.place.proof.faults import GroundFault
from handoff.engine.place.pulse import known_session
from handoff.engine.safety import incidents, snapshots
from handoff.engine.session import conclude, endpoints, hooks, mailbox, spending
from handoff.engine.session.agents import Client, client_of
from handoff.engine.session.placement import (
    SHARED,
    Placement,
    check_sandbox,
    client_command,
    is_ready_to_work,
    place,
    refuse_held,
)
from handoff.engine.session.report import claim_as
from handoff.feature.baton import between_marks

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Self

    from handoff.agents.contract import Abilities, Adapter, AgentOutcome, Launch, Start
    from handoff.base.settings import Config
    from handoff.board.sessions.leases import Claim
    from handoff.board.tasks.tasks import Task
    from handoff.engine.app import App
    from handoff.engine.session.conclude import ConcludedSession

INTERRUPTED = "a person interrupted it"


class StartRequest(Record):
    """What a session is to be started with."""

    agent: str
    task: str = ""
    project: str = ""
    model: str = ""
    limits: SessionLimits = SessionLimits()
    words: tuple[str, ...] = ()
    resume: str = ""
    state: str = ""
    reason: str = ""
    sandbox: str = ""
    """Which sandbox, and in which kind of workspace; empty: as the settings say."""
    workspace: str = ""
    terminal: bool = False
    """In the terminal of whoever asks, instead of by itself."""


class RunningSession(Record):
    """A session that runs."""

    session: AgentSession
    claim: Claim
    folder: str
    words: str = ""
    """What a person should be told: that no sandbox stands around it, for example."""


def run(
    app: App, *, request: StartRequest, began: Callable[[RunningSession], None], tell: Callable[[str], None]
) -> ConcludedSession:
    """Start a session and stay with it until it is over. Who interrupts us at any moment ends the session too.

    `began` is called as soon as it runs.
    """
    with _Interruptions() as interruptions:
        started = start(app, request=request, before_launch=interruptions.hold)

        def first() -> None:
            interruptions.release()
            began(started)

        return watch(app, started, tell=tell, first=first)


class _Interruptions:
    """Ctrl-C and a closed terminal, held back while a client has been launched and nobody watches it yet."""

    def __init__(self) -> None:
        self._handlers: dict[int, Any] = {}
        self._came = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def hold(self) -> None:
        for number in (signal.SIGINT, signal.SIGHUP):
            self._handlers[number] = signal.signal(number, self._note)

    def _note(self, number: int, _: object) -> None:
        self._came = number

    def release(self) -> None:
        """From now on they interrupt as before; one that came meanwhile does so at once."""
        while self._handlers:
            signal.signal(*self._handlers.popitem())
        came, self._came = self._came, 0
        if came:
            signal.raise_signal(came)


def start(
    app: App,
    *,
    request: StartRequest,
    claim: Claim | None = None,
    versions: dict[str, str] | None = None,
    before_launch: Callable[[], None] = lambda: None,
) -> RunningSession:
    """Start a session of the agent; without `claim` it takes its task first. Everything is checked before anything is written.

    With a claim (the supervisor makes it together with the durable run) a session that has begun is attached to, living or
    over: there is never a second one.
    """
    if claim is not None and has_started(app, claim):
        return attach_to(app, claim)
    config = home_config(app)
    client = client_of(app, agent=request.agent, config=config, versions=versions)
    if request.agent == PERSON:
        raise UserError(
            "A person is not started.", f"Open the task instead: {app.settings.program} task open {request.task}"
        )
    if request.terminal and client.adapter.interactive is None:
        raise UserError(
            f"{client.adapter.title} is not started in a terminal by handoff.",
            f"Claim the task and start it yourself: {app.settings.program} task claim {request.task}".rstrip(),
        )
    if claim is not None:
        started = _begin(app, config, request, client, claim, before_launch, known={} if versions is None else versions)
    else:
        started = _claim_and_begin(app, config, request, client, before_launch)
    views.refresh_or_tell(app, started.claim.task.project, f"Session {started.session.name} runs")
    return started


def _claim_and_begin(
    app: App, config: Config, request: StartRequest, client: Client, before_launch: Callable[[], None]
) -> RunningSession:
    project = find_project(app, name=request.project)
    if request.sandbox:
        check_sandbox(app, sandbox=request.sandbox)
    spending.refuse_spent_up(app, config)
    refuse_held(app, request.agent)
    who = sessions.SessionIdentity(
        id=new_id("session"),
        kind=sessions.AGENT,
        project=project.name,
        agent=request.agent,
        workspace=project.workspace,
        host=app.settings.host,
        boot=boot_id(),
        pid=os.getpid(),
        process_start=start_of(os.getpid()),
        labels=labels_of(app),
    )
    task = tasks.find(app.database, project=project.name, id=request.task) if request.task else None
    claim = claim_as(app, config, who, task=task)
    try:
        started = _begin(app, config, request, client, claim, before_launch)
    except BaseException as error:
        with suppress(Conflict):  # it may have been let go: parts of its batch are made again
            leases.release(app.database, key=claim.task.key, fence=claim.fence, reason="it could not be started")
        sessions.end(app.database, id=who.id, ending="not started")
        if isinstance(error, GroundFault):  # it is ready again: there is nothing to retry
            label = claim.task.label
            error.hint = error.hint.replace(f"retry {label}", f"session start {label} --agent {request.agent}")
        raise
    monitor = started.session.monitor  # the watchdog frees the task when neither we nor it lives
    sessions.register(app.database, who=who._replace(pid=monitor.pid, process_start=monitor.start))
    return started


def _begin(
    app: App,
    config: Config,
    request: StartRequest,
    client: Client,
    claim: Claim,
    before_launch: Callable[[], None],
    *,
    known: dict[str, str] | None = None,
) -> RunningSession:
    """The client of a claimed task, started: what can refuse comes first, the trace that outlives us just before it runs.

    `known` is what a supervisor remembers of its programs and checks.
    """
    name, task = claim.session.id, publish.adopt(app, config, task=claim.task, fence=claim.fence)
    task = task._replace(workspace=task.workspace or claim.session.workspace)
    claim = claim._replace(task=task)
    if not os.path.isdir(task.workspace):
        raise UserError(
            f"The folder of '{task.label}' is gone: {task.workspace}.",
            f"If you moved it, say {app.settings.program} status once in its new place; else bring it back, or cancel the task.",
        )
    spending.refuse_spent_up_task(app, config, task)
    running.end_superseded(app, task, except_=name)
    incidents.look(app)  # how everything is before it begins
    prepared = kinds.prepare(app, task)
    wished: dict[str, Any] = {"workspace": request.workspace, "sandbox": request.sandbox, "attended": request.terminal}
    placement = place(app, config, task=task, session=name, **wished)
    if not is_ready_to_work(app, claim, placement, {} if known is None else known):
        placement = place(app, config, task=task, session=name, **wished)
    if placement.kind == SHARED:
        evidence.note_claim(app, task, workspace=task.workspace)
        _keep_start(app, task.workspace, name)
    journal.hear(app.database, session=name, task=task)  # what was said since the claim stands in the baton too
    baton = without_secrets(prepared or _baton(app, config, task, client, placement), app.settings.environment)
    folder, token = folders.make(app.settings.home, task.project, name)
    folders.put(folder, folders.BATON, baton)  # first: a sandbox shows only what is there when it is made
    order = _order(app, request, client, task, placement, folder, baton)._replace(token=token)
    launch = _starter(request, client.adapter)(order)
    command = client_command(
        app, placement=placement, task=task, client=client, launch=launch, request=order, folder=folder
    )
    facts = _facts(app, config, request, client, claim, placement, order, folder)
    facts["records"] = _records(app, client, order, launch)
    files = {
        folders.FACTS: dumps(facts),
        folders.TOKEN: token,
        folders.PERMISSIONS: hooks.permissions_text(task, placement),
        LAUNCH: dumps(
            {
                "cwd": placement.folder,
                **command.order,
                "terminal": request.terminal,
                "most": int(config.number("session_output") * (1 << 20)),
                "bounds": bounds_of(config)._asdict(),
            }
        ),
    }
    folders.write(folder, files, launch.files, state=request.state)
    running.leave(app, claim, folder, supervised=known is not None)
    session = _session(app, config, claim, folder, client.adapter, client.abilities, facts)
    before_launch()
    session.start(command.environment)
    mailbox.leave_receipt_of_baton(app, task, name)
    holds.release_task(app.database, key=task.key, since=claim.session.started_at)
    return RunningSession(session, claim, folder, placement.words)


def _baton(app: App, config: Config, task: Task, client: Client, placement: Placement) -> str:
    """The document of an ordinary task, with what came before; its commands are short, because the session's PATH finds us."""
    name = os.path.basename(client.own[0])
    program = name if name == "handoff" else shell_line(client.own)
    calls = type(app)(app.settings._replace(program=program), app.clock)
    place = batons.Place(placement.folder, placement.clone, placement.snapshot_store, client.abilities.mcp)
    return batons.for_session(calls, config, task, place)


def _keep_start(app: App, workspace: str, session: str) -> None:
    """What the shared checkout is like before the session begins: `undo --session` goes back to it."""
    if os.path.lexists(os.path.join(workspace, ".git")):
        with suppress(HandoffError):  # a checkout that cannot be kept is no reason not to work in it
            here = snapshots.open_snapshot_store(app, folder=workspace)
            snapshots.keep(app, here, "start", session=session, operation="start")


def _starter(request: StartRequest, adapter: Adapter) -> Start:
    if request.terminal and adapter.interactive:
        return adapter.interactive
    return adapter.resume if request.resume and adapter.resume else adapter.launch


def _order(
    app: App, request: StartRequest, client: Client, task: Task, placement: Placement, folder: str, baton: str
) -> LaunchRequest:
    able, own, sandboxed = client.abilities, client.own, placement.policy is not None
    file = os.path.join(folder, folders.BATON)
    if request.resume:
        prompt = request.reason or between_marks(f"Go on with task '{task.label}'. Your baton is {file}.")
    elif able.start_context:
        prompt = between_marks(
            f"Do task '{task.label}' as the baton says that you were given at the start. It is also in {file}."
        )
    else:
        prompt = baton
    return LaunchRequest(
        program=client.program,
        prompt=prompt,
        workspace=placement.folder,
        folder=os.path.join(folder, folders.CLIENT) if sandboxed else folder,
        session=os.path.basename(folder),
        client_id=request.resume or (str(uuid4()) if able.choose_id else ""),
        state=os.path.join(request.state, folders.CLIENT) if sandboxed and request.state else request.state,
        hook=(*own, "hook") if client.adapter.dialect else (),
        mcp=(*own, "mcp") if able.mcp else (),
        endpoint=endpoints.awake(app) if able.mcp and not sandboxed else "",  # a sandbox has one broker
        owned=placement.owned,
        writable=(app.settings.home, app.settings.get("TMPDIR") or "/tmp"),  # noqa: S108 - where programs put scratch files
        sandboxed=sandboxed,
        model=request.model or str(task.baseline_facts.get(tasks.MODEL, "")),
        version=client.version,
        limits=request.limits,
        settings=_settings(app, client.adapter),
        words=(*client.arguments, *request.words),
    )


def _settings(app: App, adapter: Adapter) -> str:
    """The settings of the client that are the person's own, if there are any."""
    below, variable = adapter.settings
    moved = app.settings.get(variable) if variable else ""
    home = app.settings.get("HOME") or os.path.expanduser("~")
    path = os.path.join(moved, os.path.basename(below)) if moved else os.path.join(home, below)
    return path if below and os.path.isfile(path) else ""


def _facts(
    app: App,
    config: Config,
    request: StartRequest,
    client: Client,
    claim: Claim,
    placement: Placement,
    order: LaunchRequest,
    folder: str,
) -> dict[str, Any]:
    """What everybody reads who meets the session later: its watcher, the broker, a person who lists it."""
    task, now = claim.task, app.clock.now()
    limits = request.limits if any(request.limits) else SessionLimits(**task.baseline_facts.get("limits", {}))
    limits = limits if limits.minutes or request.terminal else limits._replace(minutes=config.number("session_minutes"))
    return {
        "session": claim.session.id,
        "project": task.project,
        "task": task.label,
        "key": task.key,
        "fence": claim.fence,
        "agent": request.agent,
        "client": _client_names(client, order)[-1],
        "version": client.version,
        "workspace": placement.folder,
        "started": stamp(now),
        "client_id": order.client_id,
        "model": order.model,
        "state": request.state or folder,
        "began": now,
        "limits": limits._asdict(),
        "tools": order.endpoint or shell_line(order.mcp),
        "sandbox": placement.sandbox,
        "layer": placement.layer,
        "kind": placement.kind,
        "checkout": task.workspace,
        "terminal": request.terminal,
    }


def _records(app: App, client: Client, order: LaunchRequest, launch: Launch) -> list[str]:
    """Where the client keeps its own record of the conversation: what a killed one has used stands there alone."""
    environment = {**app.settings.environment, **launch.environment}
    return next((found for name in _client_names(client, order) if (found := places(name, environment))), [])


def _client_names(client: Client, order: LaunchRequest) -> tuple[str, ...]:
    """The adapter, and over ACP the client whose command the words are."""
    name = client.adapter.name
    return (name, os.path.basename("".join(order.words[:1]))) if name == ACP else (name,)


def _session(
    app: App, config: Config, claim: Claim, folder: str, adapter: Adapter, able: Abilities, facts: dict[str, Any]
) -> AgentSession:
    """The session as its folder tells of it: whoever takes it up after a crash has the same rules and the same clock."""
    rules = SupervisionRules(
        limits=SessionLimits(**facts.get("limits", {})),
        silence_seconds=config.number("lease_seconds"),
        attended=bool(facts.get("terminal")),
        prices=spending.prices_of(config),
        records=tuple(facts.get("records", ())),
    )
    ago = max(0.0, app.clock.now() - float(facts.get("began", app.clock.now())))
    return AgentSession(folder, claim.session.id, adapter, able, rules, app.clock, ago=ago)


def watch(
    app: App, started: RunningSession, *, tell: Callable[[str], None], first: Callable[[], None] = lambda: None
) -> ConcludedSession:
    """Do what comes `first`, stay with the session until it is over, keep its tree, and conclude what comes of the task.

    Who interrupts us means the session: it is ended, and its task is free again without an attempt used up.
    """
    running.leave(app, started.claim, started.folder, supervised=False)  # also where another one had left it
    try:
        first()
        outcome = wait(app, started)
    except KeyboardInterrupt:
        reason = "the terminal was closed" if started.session.rules.attended else INTERRUPTED
        if not started.session.rules.attended:
            tell(f"Interrupted: session {started.session.name} is being ended.")
        running.stop(app, session=started.session.name, reason=reason)
        outcome = wait(app, started)
    conclude.patiently(app, lambda: save(app, started.claim), tell)
    concluded = conclude.patiently(app, lambda: conclude.conclude(app, claim=started.claim, outcome=outcome), tell)
    running.forget(app, started.claim.session.id)
    return concluded


def wait(app: App, started: RunningSession, *, host: running.HostWatch | None = None) -> AgentOutcome:
    """Stay until nothing of the session runs any more; signs of life renew the lease, with those of its `host`."""
    look = running.SessionWatch(app, started.claim, started.session, host or running.HostWatch())
    with look.host.watching(look):
        outcome = supervise(started.session, look=look)
    conclude.patiently(app, look.note_refused)
    conclude.patiently(app, look.note_bill)  # most clients tell what they used with their last word
    return outcome


def save(app: App, claim: Claim) -> str:
    """Keep the whole working tree as the session left it, whatever it did."""
    if kinds.is_judged_later(claim.task):
        return ""  # who decides keeps what it does not commit
    path = folders.place(app.settings.home, claim.task.project, claim.session.id)
    workspace = str(folders.get(path, folders.FACTS).get("workspace") or claim.task.workspace)
    if not os.path.lexists(os.path.join(workspace, ".git")):
        return ""
    try:
        snapshot_store = snapshots.open_snapshot_store(app, folder=workspace)
        taken = snapshots.keep(app, snapshot_store, "phase", session=claim.session.id)
        publish.publish_patiently(app, task=claim.task, fence=claim.fence, folder=workspace, session=claim.session.id)
        return str(taken.sha)
    except Away:
        raise
    except HandoffError as error:
        return f"not saved: {error.message}"


def attach(app: App, *, session: str) -> RunningSession:
    """Take up the supervision of a session whose supervisor is gone."""
    known, path = known_session(app, session)
    facts = folders.get(path, folders.FACTS)
    if not facts or known.ended_at is not None:
        raise UserError(f"Session {session} is over.", f"See: {app.settings.program} session log {session}")
    task = tasks.get(app.database, key=int(facts["key"]))
    return attach_to(app, leases.Claim(task, known, int(facts["fence"]), task.lease_seconds, repeated=True))


def has_started(app: App, claim: Claim) -> bool:
    """Whether the session of a claim was ever started."""
    return folders.has_started(folders.place(app.settings.home, claim.task.project, claim.session.id))


def attach_to(app: App, claim: Claim) -> RunningSession:
    """The session of a claim that has begun, living or over."""
    config = home_config(app)
    adapter = catalog.adapter(claim.session.agent, commands=config.values["agents"], where=config.path)
    folder = folders.place(app.settings.home, claim.task.project, claim.session.id)
    facts = folders.get(folder, folders.FACTS)
    able = adapter.abilities(str(facts.get("version", "")))._replace(mcp=bool(facts.get("tools")))
    session = _session(app, config, claim, folder, adapter, able, facts)
    return RunningSession(session, claim._replace(repeated=True), folder)


def resume_request(app: App, *, session: str, reason: str = "") -> StartRequest:
    """The wish that continues a session's conversation, with the same agent and the same task."""
    known, path = known_session(app, session)
    facts, outcome = folders.get(path, folders.FACTS), folders.get(path, folders.OUTCOME)
    client_id = str(outcome.get("client_id") or facts.get("client_id") or "")
    if not client_id:
        raise Refused(
            f"Session {known.id} left no conversation to resume.",
            f"Start a fresh one: {app.settings.program} session start {facts.get('task', '')} --agent {known.agent}",
        )
    return StartRequest(
        agent=known.agent,
        task=str(facts.get("task", "")),
        project=known.project,
        model=str(facts.get("model", "")),
        resume=client_id,
        state=str(facts.get("state") or path),
        reason=reason,
        sandbox=str(facts.get("sandbox", "")),
        workspace=str(facts.get("kind", "")),
    )

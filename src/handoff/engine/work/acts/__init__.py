"""What a person does to anything that has an address: one function for each act, whoever asks for it and wherever."""

from __future__ import annotations

from handoff.agents import catalog
from handoff.base.errors import UsageError, UserError
from handoff.base.ids import on_one_line
from handoff.base.markdown import number_of, shell_line
from handoff.base.record import TYPE_CHECKING
from handoff.board import gates
from handoff.board.addresses import Ambiguous
from handoff.board.events import texts
from handoff.board.events.incidents import Incident
from handoff.board.sessions import holds
from handoff.board.tasks import states, tasks
from handoff.board.tasks.batches import Batch
from handoff.board.tasks.flows import BLOCKED, Flow
from handoff.board.tasks.tasks import Task
from handoff.engine.app.home import find_project, home_config, person
from handoff.engine.place.fanout import files, views
from handoff.engine.place.pulse import known_session
from handoff.engine.safety import incidents
from handoff.engine.session import claims, current, report
from handoff.engine.work import saying, stopping, workers
from handoff.engine.work.act import Act, ActDone, refuse_sessions
from handoff.engine.work.acts.landing import land, undo
from handoff.engine.work.flows import admin as flow_admin
from handoff.engine.work.flows.flows import look
from handoff.engine.work.tasks import admin, batches, create, projects
from handoff.engine.work.workers import is_served

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from handoff.engine.app import App

_ANSWERED = {"yes": "Approved", "no": "Rejected", "edit": "Approved with your text", "": "Answered"}
FLOW_STYLES = {"done": "good", "blocked": "bad", "gated": "warn", "paused": "warn", "cancelled": "dim"}


def perform(app: App, act: Act) -> ActDone:
    """Do it; the App belongs to the thread that calls this."""
    where = {"project": act.project} if act.project else {}
    return _VERBS[act.verb](app, *act.words, **act.options, **where)


def _no_incident(app: App, address: str, project: str, what: str) -> Task | Batch | Flow:
    found = admin.find_address(app, address, project=project)
    if isinstance(found, Incident):
        program = app.settings.program
        raise UserError(
            f"An incident cannot be {what}.",
            f"See it: {program} show {found.id}. Settle it: {program} incident seen {found.id}",
        )
    return found


def _flows_only(**given: Any) -> None:
    for name, value in given.items():
        if value:
            raise UsageError(f"--{name.replace('_', '-')} is for flows.", "Leave it out, or name a flow.")


def flow_done(app: App, flow: Flow, *notes: str) -> ActDone:
    """Where a flow stands after an act."""
    seen = look(app, flow)
    return ActDone(
        text=f"{flow.id}: {seen.where}",
        facts=seen.shown(),
        style=FLOW_STYLES.get(seen.state, ""),
        hint="\n".join(seen.next_steps(app.settings.program)),
        notes=notes,
        ok=seen.state != BLOCKED,
    )


# --- answer ----------------------------------------------------------------------------------------------------


def gate_behind(app: App, code: str) -> gates.Waiting:
    """The open gate a one-time code answers, with the name of its task."""
    gate = gates.by_code(app.database, code=code.strip().lower())
    if gate is None:
        raise UserError("This code answers no gate.", "Copy it whole from the notification, or see: handoff gate list")
    task = tasks.get(app.database, key=gate.task)
    return gates.Waiting(gate, task.project, task.label)


def find_asking(app: App, address: str, *, project: str = "") -> tuple[Task, bool]:
    """The task whose gate is meant by a one-time code or an address, and whether it was the code."""
    gate = gates.by_code(app.database, code=address.strip().lower())
    if gate is not None:
        return tasks.get(app.database, key=gate.task), True
    try:
        found = admin.find_address(app, address, project=project)
    except Ambiguous:
        raise
    except UserError as error:
        hint = "Copy a code whole from the notification, or see: handoff gate list"
        raise UserError(f"{error.message} It is no code of a gate either.", hint) from error
    if isinstance(found, Task):
        return found, False
    key = found.task if isinstance(found, Flow) else found.fan_in if isinstance(found, Batch) else None
    if key is None:
        raise UserError(f"'{address}' asks nothing.", f"See: {app.settings.program} gate list")
    return tasks.get(app.database, key=key), False


def answer_code(app: App, code: str, word: str, *, text: str = "", by: str = "") -> ActDone:
    """Answer by a one-time code alone: yes, no with a reason, edit with the text as it is to be, or in other words."""
    gate_behind(app, code)
    return answer(app, code, word, **{"text" if word == "edit" else "reason": text}, by=by)


def answer(
    app: App, address: str, word: str, *, text: str = "", reason: str = "", by: str = "", project: str = ""
) -> ActDone:
    """Answer the gate of a task, batch, flow or one-time code.

    `word` is yes, no, edit, or the answer itself where a session asked. `text` is the text as the next session is to have it.
    """
    refuse_sessions(app, "answers")
    task, by_code = find_asking(app, address, project=project)
    by, program = by or ("a code" if by_code else ""), app.settings.program
    word = word.strip().lower() if word.strip().lower() in ("yes", "no", "edit") else word.strip()
    if word not in _ANSWERED or not word:
        gate = admin.gate_of(app, task)
        if not word or (gate.state == gates.OPEN and not gate.open_ended):
            raise UserError(
                f"'{on_one_line(word)}' does not answer this: it is a question for yes or no.",
                f"See it: {program} answer {task.label}. Then: {program} answer {task.label} yes, or no WHY",
            )
        outcome = admin.approve(app, task, reason=reason, answer=word, by=by)
        word = ""
    elif word == "no":
        found = gates.of_task(app.database, key=task.key)
        capped = found is not None and found.cap
        if not (reason or text or by_code or capped):
            raise UsageError("Say why: REASON is missing.", f"For example: {program} answer {task.label} no WHY")
        outcome = admin.reject(
            app, task, reason=reason or text or ("no more money" if capped else "no reason was given"), by=by
        )
    else:
        if word == "edit" and not text.strip():
            raise UserError("An edit needs the text as it is to be.", "Nothing was answered.")
        word = "edit" if text else "yes"
        outcome = admin.approve(app, task, reason=reason, answer=text, by=by)
    task = outcome.task
    stuck = task.state == BLOCKED
    again = f"To let it try again: {program} retry {task.scope if task.kind == tasks.PHASE else task.label}"
    return ActDone(
        text=f"{_ANSWERED[word]}: {task.label} {_now(task)}.",
        facts={"task": task.label, "project": task.project, "state": task.state, "reason": task.reason},
        style="" if stuck else "good",
        hint=again if stuck else "",
        tasks=(task,),
    )


def _now(task: Task) -> str:
    """How a task stands, with the commit where it has one."""
    landed = str(texts.read(task.evidence, {}).get("landed") or "") if task.state == states.DONE else ""
    if landed:
        return f"is done and landed as {landed[:10]}"
    return "waits for your answer" if task.state == states.GATED else f"is {task.state}"


# --- retry and cancel --------------------------------------------------------------------------------------------


def retry(
    app: App,
    address: str,
    *,
    note: str = "",
    agent: str | None = None,
    model: str | None = None,
    check: str | None = None,
    phase: str = "",
    max_cycles: int = 0,
    project: str = "",
) -> ActDone:
    """Let what is blocked try again, perhaps differently: a task, every blocked part of a batch, or a flow."""
    refuse_sessions(app, "lets work try again")
    found = _no_incident(app, address, project, "tried again")
    if isinstance(found, Flow):
        for name, value in (("agent", agent), ("model", model), ("check", check)):
            if value is not None:
                raise UsageError(f"--{name} is for tasks and batches.", "Leave it out, or name a task.")
        return flow_done(app, flow_admin.retry(app, flow=found, note=note, phase=phase, max_cycles=max_cycles))
    _flows_only(phase=phase, max_cycles=max_cycles)
    change = admin.TaskChange(agent=agent, model=model, check=check, note=note)
    if isinstance(found, Batch):
        blocked = [one for one in tasks.of_batch(app.database, batch=found.key) if one.kind == tasks.SUB_TASK]
        blocked = [part for part in blocked if part.state == BLOCKED]
        if not blocked:
            raise UserError(
                f"No part of batch '{found.id}' is blocked.", f"See: {app.settings.program} show {found.id}"
            )
        done = [admin.retry(app, part, change).task for part in blocked]
        facts: dict[str, Any] = {"batch": found.id, "parts": [task.shown() for task in done]}
    else:
        outcome = admin.retry(app, found, change)
        done = [outcome.task]
        facts = {**outcome.task.shown(), "ready_now": [task.label for task in outcome.woken]}
    return ActDone(
        text="\n".join(f"{task.label} is {task.state} again." for task in done),
        facts=facts,
        style="good",
        tasks=tuple(done),
    )


def edit(
    app: App,
    address: str,
    *,
    brief: str | None = None,
    agent: str | None = None,
    model: str | None = None,
    check: str | None = None,
    owns: Sequence[str] | None = None,
    landing: str | None = None,
    note: str = "",
    project: str = "",
) -> ActDone:
    """Change what a task asks for, who works on it and how it is checked, while nobody works on it."""
    refuse_sessions(app, "changes a task")
    change = admin.TaskChange(
        brief=brief,
        agent=agent,
        model=model,
        check=check,
        owns=tuple(owns) if owns is not None else None,
        landing=landing,
        note=note,
    )
    task = admin.edit(app, admin.find_task(app, address, project=project), change)
    said = {
        "brief": brief,
        "agent": agent,
        "model": model,
        "check": check,
        "owns": owns,
        "landing": landing,
        "note": note or None,
    }
    text = ", ".join(name for name, value in said.items() if value is not None)
    return ActDone(
        text=f"{task.label}: {text} changed. It is {task.state}.", facts=task.shown(), style="good", tasks=(task,)
    )


def cancel(app: App, address: str, *, reason: str = "", project: str = "") -> ActDone:
    """Take a task, a batch or a flow back; what was finished stays finished."""
    refuse_sessions(app, "cancels work")
    found = _no_incident(app, address, project, "cancelled")
    if isinstance(found, Flow):
        flow = flow_admin.cancel(app, flow=found, reason=reason)
        return flow_done(app, flow, f"Its workspace is still there: {app.settings.program} workspace remove {flow.id}")
    if isinstance(found, Batch):
        batch = batches.cancel(app, found, reason=reason)
        text = f"Batch {batch.id} is {batch.state}; what was finished stays finished."
        return ActDone(text=text, facts={"batch": batch.id, "state": batch.state})
    outcome = admin.cancel(app, found, reason=reason)
    stranded = [task.label for task in outcome.stranded]
    return ActDone(
        text="\n".join([f"{outcome.task.label} is cancelled.", *(f"Blocked with it: {one}" for one in stranded)]),
        facts={**outcome.task.shown(), "stranded": stranded},
        tasks=(outcome.task, *outcome.stranded),
    )


# --- pause and resume --------------------------------------------------------------------------------------------


def pause(app: App, address: str = "", *, everything: bool = False, reason: str = "", project: str = "") -> ActDone:
    """Let nothing new be taken of a task, a batch, a flow, the project or everything."""
    scope = _scope(app, address, everything, project, "paused")
    if isinstance(scope, Flow):
        return flow_done(app, flow_admin.pause(app, flow=scope))
    fresh = files.pause_with_file(app, **scope, reason=reason, by=person(app))
    said = "is stopped" if fresh else "was stopped already"
    text = f"{said}: nothing new is taken. What runs may finish; new tasks and reports are kept."
    return _scope_done(app, scope, text, fresh=fresh)


def resume(app: App, address: str = "", *, everything: bool = False, max_cycles: int = 0, project: str = "") -> ActDone:
    """Let it be taken again."""
    if incidents.has_board(app):
        refuse_sessions(app, "lets go on what a person stopped")
    scope = _scope(app, address, everything, project, "resumed")
    if isinstance(scope, Flow):
        return flow_done(app, flow_admin.resume(app, flow=scope, max_cycles=max_cycles))
    _flows_only(max_cycles=max_cycles)
    gone = files.resume_with_file(app, **scope)
    return _scope_done(app, scope, "goes on." if gone else "was not stopped.", resumed=gone)


def _scope(app: App, address: str, everything: bool, project: str, said: str) -> Flow | dict[str, str]:
    """What is stopped: a flow, or whose tasks are not to be taken."""
    if everything and address:
        raise UsageError(f"Choose one of {address} and --everything.")
    if everything:
        return {"scope": "all", "project": "", "name": ""}
    found = _no_incident(app, address, project, said) if address else None
    if isinstance(found, Flow):
        return found
    where = {"project": find_project(app, name=project).name}
    if found is None:
        return {"scope": "project", **where, "name": ""}
    if isinstance(found, Batch):
        return {"scope": "batch", **where, "name": found.id}
    return {"scope": "task", **where, "name": address.removeprefix("task:")}


def _scope_done(app: App, scope: dict[str, str], said: str, **facts: bool) -> ActDone:
    """What is stopped has no address in its files, and has it again when it goes on."""
    for name in [scope["project"]] if scope["project"] else admin.known_projects(app):
        views.mend_or_tell(app, name, [])
    names = {"all": "Everything", "project": f"Project {scope['project']}"}
    what = names.get(scope["scope"], f"{scope['scope'].capitalize()} {scope['name']}")
    return ActDone(text=f"{what} {said}", facts={**scope, **facts})


# --- release, comment, seen, agents --------------------------------------------------------------------------------


def release(
    app: App, name: str = "", *, session: str = "", fence: int | None = None, reason: str = "", project: str = ""
) -> ActDone:
    """Give a task back as it is, in the name of the session that holds it."""
    held = current.find(app, task=name, project=project, session=session, fence=fence)
    task = report.release(app, held, reason=reason)
    text = f"{task.label} is free; the next session gets it as it is."
    facts = {"task": task.label, "project": task.project, "state": task.state}
    return ActDone(text=text, facts=facts, tasks=(task,))


def comment(app: App, address: str, place: str, text: str, *, quote: str = "", project: str = "") -> ActDone:
    """Write on a line of a task's work, named as FILE:LINE; the next session reads it."""
    refuse_sessions(app, "writes on the lines of a task's work")
    path, _, number = place.rpartition(":")
    if not path or not number.isdecimal() or not int(number):
        raise UsageError(f"'{place}' names no line.", "For example: cart.py:12")
    if not text.strip():
        raise UsageError("The comment is empty.", "Say what the next session is to mind.")
    task = admin.find_task(app, address, project=project)
    admin.comment(app, task, path=path, line=int(number), text=text, code=quote)
    facts = {"task": task.label, "project": task.project, "path": path, "line": int(number)}
    return ActDone(text=f"The next session of {task.label} reads it.", facts=facts, style="good", tasks=(task,))


def seen(app: App, *ids: str) -> ActDone:
    """A person has taken note of these incidents."""
    refuse_sessions(app, "takes note of incidents")
    incidents.look(app)
    found = [one.id for one in incidents.see(app, ids=ids)]
    return ActDone(text=f"{number_of(len(found), 'incident')} seen.", facts={"seen": found})


def retry_agent(app: App, name: str) -> ActDone:
    """Start a held agent again on every machine."""
    refuse_sessions(app, "starts a held agent again")
    config = home_config(app)
    catalog.adapter(name, commands=config.values["agents"], where=config.path)
    released = holds.release_agent(app.database, agent=name)
    text = f"Agent {name} is started again from now on." if released else f"Agent {name} was not held."
    return ActDone(text=text, facts={"agent": name, "released": released})


# --- say -------------------------------------------------------------------------------------------------------------


def say(app: App, session: str, text: str, *, now: bool = False, project: str = "") -> ActDone:
    """Say something to a session that runs: the next hook of its client gives it the words, or its turn is ended for them."""
    said, program = saying.keep(app, session=session, text=text, now=now, project=project), app.settings.program
    if not now or said.task is None:
        return saying.as_act(said)
    ended = stopping.stop(app, session=said.session, reason="a person said something to it")
    task = ended.task or said.task
    facts = said.facts() | {"stopped": ended.ran, "task_state": task.state}
    goes_on = task.state == states.RUNNING and task.held_by not in ("", said.session)
    if task.state != states.READY and not goes_on:
        words = f"Session {said.session} has ended before it heard you: '{task.label}' {_now(task)}."
        return ActDone(text=words, hint=f"See: {program} show {task.label}", facts=facts, style="warn", tasks=(task,))
    words = f"Session {said.session} has ended; its work is kept. The next session of '{task.label}' begins with your words."
    hint = "" if goes_on else _unless_served(app, task, said.agent)
    return ActDone(text=words, hint=hint, facts=facts, style="good", tasks=(task,))


# --- add, work, stop -----------------------------------------------------------------------------------------------


def add(app: App, brief: str, *, agent: str = "", check: str = "", landing: str = "", project: str = "") -> ActDone:
    """Write a task down in one sentence; its first words name it."""
    if len(brief.split()) < 2:  # noqa: PLR2004 - a word alone is an id
        raise UsageError("Say in a sentence what is to be done.", "For example: fix the login test")
    place = create.project_of_caller(app, name=project, workspace=projects.checkout(app, project) if project else "")
    create.check_agents(app, agent)
    name = create.new_id(app, place.name, brief)
    request = create.Request(task=name, brief=brief, agent=agent, check=check, landing=landing)
    task = create.write_down(app, place, request)
    stops = files.read_stop_files(app, task.project) if create.may_be_stopped(app, place) else []
    return ActDone(
        text=f"Task {task.label} of project {task.project} is {task.state}.",
        facts=task.shown(),
        style="good",
        hint="\n".join(f"It is kept, but {one.words} is stopped. Go on: {one.way_back}" for one in stops),
        tasks=(task,),
    )


def work(
    app: App,
    *words: str,
    agent: Sequence[str] | str,
    limit: int = 0,
    labels: str = "",
    in_checkout: bool = False,
    until: str = "",
    until_done: bool = False,
    drain: bool = False,
    detach: bool = True,
    all_projects: bool = False,
    project: str = "",
) -> ActDone:
    """Let a supervisor work in the background: for a project, or for all of them."""
    del detach, all_projects  # the words of the command for what this does
    agents = [agent] if isinstance(agent, str) else agent
    settings = workers.worker_settings(
        app,
        agents=agents,
        words=words,
        labels=labels,
        project=project,
        in_checkout=in_checkout,
        until=until,
        until_done=until_done,
    )
    started = workers.detach(app, settings, limit=limit, drain=drain, until=until)
    scope = f"project {project}" if project else "every project of this machine"
    return ActDone(
        text=f"Supervisor {started.id} works in the background for {scope}.",
        facts={"pid": started.pid, "supervisor": started.id, "log": started.log},
        style="good",
        hint=f"  log: {started.log}\nStop it with: {app.settings.program} work --stop",
    )


def stop(app: App, session: str, *, reason: str = "", hold: bool = False, project: str = "") -> ActDone:
    """End a session and see what comes of its task; that uses up no attempt."""
    refuse_sessions(app, "stops a session")
    if project and known_session(app, session)[0].project != project:
        raise UserError(f"There is no session '{session}' in project {project}.", "All of them: handoff session list")
    found = stopping.stop(app, session=session, reason=reason or stopping.STOPPED, hold=hold)
    task, program = found.task, app.settings.program
    state = task.state if task is not None else ""
    lines = [f"Session {found.session} has ended." if found.ran else f"Session {found.session} was over already."]
    if task is not None and not found.concluded:
        lines.append(f"What it made of '{task.label}' is still being judged: {program} show {task.label}")
    elif task is not None and hold and state == "ready":
        lines.append(f"Task '{task.label}' is kept for you. Take it: {program} task claim {task.label}")
        lines.append(f"Give it back to the agents: {program} retry {task.label}")
    elif task is not None:
        lines.append(f"Task '{task.label}' {_now(task)}.")
    facts = {"session": found.session, "stopped": found.ran, "concluded": found.concluded, "state": state}
    return ActDone(text="\n".join(lines), facts=facts, tasks=(task,) if task is not None else ())


def _unless_served(app: App, task: Task, agent: str) -> str:
    """How a task goes on that no supervisor starts."""
    go_on = f"Nobody starts it by itself. Go on: {app.settings.program} session start {task.label} --agent {agent}"
    return "" if is_served(app, task.project, by=agent) else go_on


def take(app: App, task: Task) -> ActDone:
    """Take a task from the agents, with their work so far: it is the caller's, in the folder where that lies."""
    taken = stopping.take(app, task)
    claim = stopping.claim_taken(app, taken)
    facts = {**claim.task.shown(), "session": claim.session.id, "folder": taken.folder, "stopped": taken.ended}
    facts["command"] = command = stopping.conversation_of(app, taken)
    lines = [f"Session {taken.ended} has ended; no attempt is used."] if taken.ended else []
    where = "Its work so far is in" if taken.session else "Nobody has worked on it yet. Its folder is"
    lines += [f"You hold {claim.task.label} with fence {claim.fence}. {where} {taken.folder}"]
    done, back = (f"{app.settings.program} task {verb} --session {claim.session.id}" for verb in ("done", "release"))
    hint = f"When it is done: {done}\nTo give it back to the agents: {back}"
    hint += f"\nIts conversation: cd {shell_line([taken.folder])} && {shell_line(command)}" if command else ""
    return ActDone(text="\n".join(lines), facts=facts, style="good", hint=hint, tasks=(claim.task,))


def hand_on(app: App, task: Task, *, agent: str) -> ActDone:
    """Stop whoever works on a task and let another agent go on with the work so far; that uses up no attempt."""
    create.check_agents(app, agent)
    taken = stopping.take(app, task)
    if taken.task.state == states.RUNNING:  # the person had taken it before
        stopping.let_go(app, taken.task)
    task = admin.retry(app, taken.task, admin.TaskChange(agent=agent)).task
    lines = [f"Session {taken.ended} has ended; no attempt is used."] if taken.ended else []
    lines += [f"{agent} goes on with '{task.label}', from the work in {taken.folder}"]
    hint = _unless_served(app, task, agent)
    facts = {**task.shown(), "folder": taken.folder, "stopped": taken.ended}
    return ActDone(text="\n".join(lines), facts=facts, style="good", hint=hint, tasks=(task,))


def take_from_afar(app: App, address: str, *, to: str = "", project: str = "") -> ActDone:
    """Take a task, or hand it on, from where no terminal is: its conversation opens in one, with the same command."""
    refuse_sessions(app, "takes a task over")
    task = admin.find_task(app, address, project=project)
    if to:
        return hand_on(app, task, agent=to)
    done = take(app, task)
    claims.leave_open(app, done.facts["session"])
    command = Act("take", (task.label,), {}, task.project).line(app.settings.program)
    return done._replace(hint=f"Open its conversation in a terminal: {command}\n{done.hint}")


_VERBS: dict[str, Callable[..., ActDone]] = {
    "answer": answer,
    "retry": retry,
    "task add": add,
    "task edit": edit,
    "cancel": cancel,
    "pause": pause,
    "resume": resume,
    "task release": release,
    "task comment": comment,
    "incident seen": seen,
    "agent retry": retry_agent,
    "session say": say,
    "session stop": stop,
    "take": take_from_afar,
    "work": work,
    "land": land,
    "undo": undo,
}
"""What `perform` knows, by the words of its command."""

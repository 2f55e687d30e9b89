"""Tasks: one durable unit of work for exactly one session at a time; and the projects that they belong to."""

from __future__ import annotations

from handoff.base.clock import stamp
from handoff.base.errors import Conflict, UserError
from handoff.base.ids import check_id
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.events import journal, texts
from handoff.board.tasks import requirements, states
from handoff.store.database import beside_others, fetch_all, fetch_one

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from handoff.store.database import Row, Store, Transaction

WRITTEN_INSIDE, MODEL, LANDING = "written_inside", "model", "landing"  # in a baseline
AGENTS, TRIED = "agents", "tried"
"""In a baseline too: the agents in their order where there are several, and what each has tried that is not the present one."""
ISSUE = "issue"
"""In a baseline too: the address of the issue that asked for it."""
ISSUE_LABEL = "agent"
"""With which an issue is to become a task."""
LANDINGS = AUTO, REVIEW, BRANCH = "auto", "review", "branch"
"""What becomes of finished work: it lands, it lands after a person's yes, or it stays on its own branch."""
TASK, SUB_TASK, FAN_IN, PHASE, PLAN, ENTRANT = "task", "sub-task", "fan-in", "phase", "plan", "entrant"
BY_CHECK = (TASK, SUB_TASK, FAN_IN, ENTRANT)
"""Judged by their check, and so anybody's to work on; all others are for agents, and a module judges them (`engine/outcome/kinds.py`)."""
PARTS = (SUB_TASK, ENTRANT)  # what a session works on inside a batch; of a raced part that is an entrant
MAX_ATTEMPTS = 3
LIMIT = 1000


class Task(Record):
    """A task as it was at one moment. `key` is its number for ever; `id` is what people say."""

    key: int
    project: str
    scope: str
    id: str
    generation: int
    kind: str
    batch: int | None
    title: str
    brief: str
    role: str
    agent: str
    workspace: str
    owns: str
    check_command: str
    baseline: str
    state: str
    reason: str
    blocked_by: int | None
    open_needs: int
    counted: int
    attempt: int
    max_attempts: int
    priority: int
    not_before: float
    estimate_minutes: float
    result: str
    evidence: str
    fence: int
    held_by: str | None
    held_host: str
    held_agent: str
    held_since: float | None
    lease_seconds: float
    lease_until: float | None
    busy_seconds: float
    seen_at: float | None
    created_at: float
    changed_at: float
    started_at: float | None
    ended_at: float | None

    @property
    def label(self) -> str:
        """How a person names it: a sub-task with its batch."""
        return f"{self.scope}/{self.id}" if self.scope else self.id

    @property
    def patterns(self) -> tuple[str, ...]:
        """Which paths its session may change."""
        return tuple(texts.read(self.owns, []))

    @property
    def baseline_facts(self) -> dict[str, Any]:
        """What was true of the checkout when the task was written."""
        return dict(texts.read(self.baseline, {}))

    @property
    def is_from_inside(self) -> bool:
        """Whether a sandboxed session wrote it: then it is worked on and checked inside a sandbox, whoever takes it."""
        return WRITTEN_INSIDE in self.baseline_facts

    @property
    def ended(self) -> bool:
        return self.ended_at is not None

    def shown(self) -> dict[str, Any]:
        """The task as a list shows it to programs."""
        names = "project kind state reason agent role attempt fence held_by priority".split()
        return {
            "task": self.label,
            **{name: getattr(self, name) for name in names},
            "changed_at": stamp(self.changed_at),
            "result": self.result,
        }


@beside_others
def add(
    store: Store,
    *,
    project: str,
    id: str,
    brief: str,
    title: str = "",
    role: str = "",
    agent: str = "",
    workspace: str = "",
    owns: Sequence[str] = (),
    check_command: str = "",
    after: Sequence[str] = (),
    baseline: Mapping[str, Any] | None = None,
    priority: int = 0,
    not_before: float = 0.0,
    estimate_minutes: float = 0.0,
    max_attempts: int = MAX_ATTEMPTS,
    labels: Sequence[str] = (),
    session: str = "",
    gated: bool = False,
    kind: str = TASK,
) -> Task:
    """Write a task. It is ready at once unless it comes `after` tasks that are not done.

    `gated` is for whoever asks a person about it in the same transaction.
    """
    check_id(project, "project")
    check_id(id, "task")
    check_fields(id=id, brief=brief, title=title, max_attempts=max_attempts, estimate_minutes=estimate_minutes)
    labels, scopes = requirements.check_labels(labels), (f"task:{project}/{id}",)
    values = new_values(
        project=project, id=id, kind=kind, brief=brief, title=title, role=role, agent=agent, workspace=workspace,
        owns=owns, check_command=check_command, baseline=baseline, priority=priority, not_before=float(not_before),
        estimate_minutes=float(estimate_minutes), max_attempts=max_attempts,
        state=states.GATED if gated else states.READY, open_needs=0,
    )  # fmt: skip
    if not after and not labels:
        told = texts.write({"state": values["state"]})
        rows = store.at_once("add_at_once", lambda: {**values, "session": session, "body": told}, scopes=scopes)
        if rows:
            return Task(**rows[0])
    with store.transaction(scopes=scopes) as transaction:
        refuse_live(transaction, project=project, id=id)
        needs = sorted((find(transaction, project=project, id=name) for name in set(after)), key=lambda need: need.key)
        needs = [need._replace(**_only(transaction.query("lock_need", key=need.key))) for need in needs]
        for need in needs:
            if need.state == states.CANCELLED:
                raise UserError(
                    f"'{id}' cannot come after '{need.label}': that task was cancelled.",
                    f"Leave out --after {need.label}, or name another task: handoff task list --all",
                )
        unmet = [need for need in needs if need.state != states.DONE]
        if unmet:
            values.update(state=states.GATED if gated else states.WAITING, open_needs=len(unmet))
        generation = next_generation(transaction, project=project, id=id)
        task = Task(**_only(transaction.query("add_task", **values, generation=generation, now=transaction.now())))
        for need in needs:
            transaction.execute("add_need", task=task.key, needs=need.key, met=int(need.state == states.DONE))
        requirements.add(transaction, {task.key: labels})
        journal.append(transaction, "task.added", task=task, session=session, state=task.state)
        return task


def find(store: Store, *, project: str, id: str, batch: str = "") -> Task:
    """The task people mean by `id` (or `batch/id`): the live one, else the latest."""
    if not batch and "/" in id:
        batch, _, id = id.partition("/")
    found = [task for task in of_id(store, project=project, id=id) if not batch or task.scope == batch]
    choices = (
        [task for task in found if not task.ended and not task.scope] or [t for t in found if not t.ended] or found
    )
    if not choices:
        name = f"{batch}/{id}" if batch else id
        raise UserError(f"There is no task '{name}' in project '{project}'.", "See: handoff task list --all")
    if len(choices) > 1 and not choices[0].ended:
        names = ", ".join(task.label for task in choices)
        raise UserError(f"'{id}' names several tasks: {names}.", f"Say which: {choices[0].label}")
    return choices[0]


def of_id(store: Store, *, project: str, id: str) -> list[Task]:
    """Every task that has or had that id, newest first."""
    return fetch_all(store, Task, "find_task", project=project, id=id)


def get(store: Store, *, key: int) -> Task:
    """The task with that key."""
    if (found := look_up(store, key=key)) is None:
        raise UserError(f"There is no task number {key}.", "See: handoff task list --all")
    return found


def look_up(store: Store, *, key: int) -> Task | None:
    """The task with that key, if it was not pruned."""
    return fetch_one(store, Task, "get_task", key=key)


def count_ready(store: Store, *, project: str = "") -> dict[str, int]:
    """How many tasks are ready, and how many of them may start by now (`due`)."""
    with store.transaction(write=False) as transaction:
        return transaction.one("count_ready", project=project, now=transaction.now()) or {"ready": 0, "due": 0}


def counts(store: Store, *, project: str) -> dict[str, int]:
    """How much a project has under way: tasks by state, `gates`, `flows`, `batches`, `incidents` and `stops`."""
    with store.transaction(write=False) as transaction:
        return {
            row["what"]: row["count"]
            for row in transaction.query("count_project", project=project, now=transaction.now())
        }


def open_batches(store: Store, *, project: str) -> list[str]:
    """The names of the batches a project has under way."""
    with store.transaction(write=False) as transaction:
        return [row["id"] for row in transaction.query("list_open_batches", project=project)]


def is_any_paused(store: Store) -> bool:
    """Whether claims are paused anywhere; `sessions.pauses` says which. Light: every new task asks."""
    with store.transaction(write=False) as transaction:
        return bool(transaction.query("list_pauses"))


def listing(
    store: Store, *, project: str = "", state: str = "", include_ended: bool = False, limit: int = LIMIT
) -> list[Task]:
    """Live tasks in the order they were written; with `state` or `include_ended`, those, newest first."""
    if state:
        return fetch_all(store, Task, "list_tasks_in_state", project=project, state=state, limit=limit)
    return fetch_all(store, Task, "list_tasks" if include_ended else "list_live_tasks", project=project, limit=limit)


def page(
    store: Store,
    *,
    project: str = "",
    state: str = "",
    id: str = "",
    include_ended: bool = False,
    after: int = 0,
    limit: int = 100,
) -> list[Task]:
    """Tasks by their keys: what comes after one, whatever happened to the rows before it."""
    asked = {"project": project, "state": state, "id": id, "ended": int(include_ended), "after": after, "limit": limit}
    return fetch_all(store, Task, "page_of_tasks", **asked)


def count(store: Store, *, project: str = "", state: str = "", include_ended: bool = False) -> int:
    """How many tasks `listing` would give without its limit."""
    with store.transaction(write=False) as transaction:
        row = transaction.one("count_tasks", project=project, state=state, ended=int(include_ended or bool(state)))
        return int(row["count"]) if row else 0


def of_batch(store: Store, *, batch: int) -> list[Task]:
    """The sub-tasks of a batch, then its fan-in."""
    found = fetch_all(store, Task, "list_batch_tasks", batch=batch)
    return sorted(found, key=lambda task: (task.kind == FAN_IN, task.key))


class Need(Record):
    """Something a task waits for."""

    key: int
    id: str
    scope: str
    state: str
    met: int


def is_needed(store: Store, *, key: int) -> bool:
    """Whether a task that lives comes after this one."""
    with store.transaction(write=False) as transaction:
        return transaction.one("find_needing", key=key) is not None


def needs_of(store: Store, *, key: int) -> list[Need]:
    """What a task comes after, met or not."""
    return fetch_all(store, Need, "list_needs", task=key)


def running_on(store: Store, *, host: str, project: str = "") -> list[Task]:
    """What runs on a host, newest first."""
    return fetch_all(store, Task, "list_running_on", host=host, project=project)


def project_names(store: Store) -> list[str]:
    """The projects that have tasks, without a look at these."""
    with store.transaction(write=False) as transaction:
        return [str(row["project"]) for row in transaction.query("list_project_names")]


def projects(store: Store) -> list[Row]:
    """Each project with how many tasks it has and how many of them live."""
    with store.transaction(write=False) as transaction:
        return transaction.query("list_projects")


def _freeing(transaction: Transaction, task: Task) -> str:
    """What sets a task free that somebody works on: a session of handoff's is stopped, a person gives it back."""
    if task.state != states.RUNNING:
        return f"See: handoff show {task.label}"
    session = transaction.one("get_session", id=task.held_by)
    if session is not None and session["kind"] == "agent":
        return f"Stop its session first: handoff session stop {task.held_by} --hold"
    return f"Give it back first: handoff task release --session {task.held_by}"


def edit(
    store: Store,
    *,
    key: int,
    brief: str | None = None,
    priority: int | None = None,
    not_before: float | None = None,
    agent: str | None = None,
    facts: Mapping[str, str] | None = None,
    owns: Sequence[str] | None = None,
    check_command: str | None = None,
    session: str = "",
) -> Task:
    """Change what a task asks for and who works on it, while nobody does; `facts` are `MODEL` and `LANDING`."""
    listed: dict[str, Any] = {}
    if agent is not None:
        names = agent_names(agent)
        agent, listed = names[0] if names else "", {AGENTS: names if len(names) > 1 else [], TRIED: {}}
    given = {
        "brief": brief,
        "priority": priority,
        "not_before": not_before,
        "agent": agent,
        "check_command": check_command,
    }
    changed: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if owns is not None:
        changed["owns"] = texts.write(list(owns))
    for name in ("brief", "check_command"):
        texts.check(changed.get(name, ""), name)
    with store.transaction() as transaction:
        task = get(transaction, key=key)
        if facts or listed:
            changed["baseline"] = texts.write({**task.baseline_facts, **(facts or {}), **listed})
        said = {name: changed.get(name, getattr(task, name)) for name in (*given, "owns", "baseline")}
        row = transaction.one("edit_task", key=key, now=transaction.now(), title=task.title, **said)
        if row is None:
            raise Conflict(
                f"Task '{task.label}' is {task.state}: it cannot be changed now.", _freeing(transaction, task)
            )
        task = Task(**row)
        told: dict[str, Any] = {name: changed[name] for name in ("agent", "check_command", "owns") if name in changed}
        journal.append(transaction, "task.edited", task=task, session=session, **told | dict(facts or {}))
        return task


def place(store: Store, *, key: int, fence: int, workspace: str, baseline: Mapping[str, Any]) -> Task:
    """The task's work goes on in another folder, by the session that holds the fence."""
    with store.transaction(scopes=()) as transaction:
        said = {"key": key, "fence": fence, "workspace": workspace, "baseline": texts.write(dict(baseline))}
        row = transaction.one("place_task", **said, now=transaction.now())
        if row is None:
            raise stale(get(transaction, key=key), fence)
        task = Task(**row)
        journal.append(transaction, "task.placed", task=task, workspace=workspace)
        return task


def note_claim(store: Store, *, key: int, fence: int, baseline: Mapping[str, Any]) -> Task | None:
    """Write down what a session found when it began; None when the task is not its any more."""
    with store.transaction(scopes=()) as transaction:
        row = transaction.one("note_claim", key=key, fence=fence, baseline=texts.write(dict(baseline)))
    return Task(**row) if row else None


def ended_since(store: Store, *, project: str, since: float) -> list[Task]:
    """The tasks of a project that ended after a moment."""
    return fetch_all(store, Task, "list_ended_since", project=project, since=since)


def is_known(store: Store, *, project: str, id: str) -> bool:
    """Whether a task of that id was ever written down, live or ended."""
    with store.transaction(write=False) as transaction:
        return bool(of_id(transaction, project=project, id=id))


def refuse_live(transaction: Transaction, *, project: str, id: str, scope: str = "") -> None:
    """An id names one live task at a time, parts of batches too: their documents lie side by side. Phases have none."""
    for task in of_id(transaction, project=project, id=id):
        if not task.ended and (task.scope == scope or (not scope and task.kind != PHASE)):
            raise Conflict(
                f"Task '{task.label}' of project '{project}' is still {task.state}.",
                f"Use another id, or take that one back: handoff cancel {task.label}",
            )


def next_generation(transaction: Transaction, *, project: str, id: str, scope: str = "") -> int:
    """The number of this use of the id."""
    row = transaction.one("last_generation", project=project, scope=scope, id=id)
    return int(row["generation"]) + 1 if row else 1


def new_values(
    *,
    owns: Sequence[str],
    baseline: Mapping[str, Any] | None,
    agent: str,
    scope: str = "",
    kind: str = TASK,
    batch: int | None = None,
    **rest: Any,
) -> dict[str, Any]:
    """The values of a new row; `agent` may be several names with commas between them."""
    names = agent_names(agent)
    listed = {AGENTS: names} if len(names) > 1 else {}
    return {
        **rest,
        "agent": names[0] if names else "",
        "scope": scope,
        "kind": kind,
        "batch": batch,
        "owns": texts.write(list(owns)),
        "baseline": texts.write({**(baseline or {}), **listed}),
    }


def agent_names(text: str) -> list[str]:
    """The agents of `claude,codex`, in their order."""
    return list(dict.fromkeys(name for part in text.split(",") if (name := part.strip())))


def stale(task: Task, fence: int | None) -> Conflict:
    """Why a write was refused: who has the task now."""
    if task.state == states.RUNNING:
        where = f" on {task.held_host}" if task.held_host else ""
        who = f"session {task.held_by}{where} holds it with fence {task.fence}"
    else:
        who = f"it is {task.state}" + (f" ({task.reason})" if task.reason else "")
    yours = "" if fence is None else f" Your fence {fence} is old."
    if fence is not None and fence == task.fence:
        yours = "" if task.state == states.RUNNING else f" Your fence {fence} has been given back."
    return Conflict(f"Task '{task.label}' is not yours: {who}.{yours}", holder_hint(task))


def holder_hint(task: Task) -> str:
    """What a person can do about a task somebody else holds."""
    return f"Stop working on it; see: handoff show {task.label}"


def check_fields(*, id: str, brief: str, title: str, max_attempts: int, estimate_minutes: float) -> None:
    """Refuse what no row can hold, before anything is written."""
    texts.check(brief, f"brief of '{id}'")
    texts.check(title, f"title of '{id}'")
    if max_attempts < 1:
        raise UserError(f"max_attempts of '{id}' must be at least 1, not {max_attempts}.")
    if not 0 <= estimate_minutes < float("inf"):
        raise UserError(f"The estimate of '{id}' must be minutes, not {estimate_minutes}.")


def _only(rows: list[Row]) -> Row:
    (row,) = rows
    return row


# --- projects ----------------------------------------------------------------------------------------------------

_RENAMES = (
    "rename_project_in_task",
    "rename_project_in_batch",
    "rename_project_in_session",
    "rename_project_in_pause",
    "rename_project_in_inbox",
    "rename_project_in_measure",
    "rename_project_in_flow",
    "rename_project_in_decision",
    "rename_project_in_incident",
    "rename_project_in_expense",
    "rename_project_in_token",
    "rename_project_in_transcript",
)


def project_workspaces(store: Store, *, project: str) -> list[str]:
    """The folders that tasks of a project were written in."""
    with store.transaction(write=False) as transaction:
        return [row["workspace"] for row in transaction.query("list_workspaces", project=project) if row["workspace"]]


def move_project(store: Store, *, project: str, old: Sequence[str], new: str) -> int:
    """Live tasks, batches and flows of a project whose checkout was at `old` are at `new` now; how many rows changed."""
    count = 0
    with store.transaction() as transaction:
        for place in old:
            values = {"project": project, "old": place, "new": new}
            for task in fetch_all(transaction, Task, "move_tasks_of_project", **values):
                journal.append(transaction, "task.moved", task=task, workspace=new)
                count += 1
            count += transaction.execute("move_batches_of_project", **values)
            count += transaction.execute("move_flows_of_project", **values)
        if count:
            journal.append(transaction, "project.moved", project=project, old=list(old), new=new)
    return count


def rename_project(store: Store, *, old: str, new: str) -> None:
    """Every row of a project goes by another name; what the journal said before stays as it was said."""
    with store.transaction() as transaction:
        for query in _RENAMES:
            transaction.execute(query, old=old, new=new)
        journal.append(transaction, "project.renamed", project=new, old=old)

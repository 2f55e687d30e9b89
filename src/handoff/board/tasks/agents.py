"""The agents of a task in their order: who works on it now, and who goes on when that one has used up its attempts or is held."""

from __future__ import annotations

from handoff.base.record import TYPE_CHECKING
from handoff.board.events import journal, texts
from handoff.board.tasks import states, tasks
from handoff.board.tasks.tasks import AGENTS, MODEL, TRIED, Task

if TYPE_CHECKING:
    from collections.abc import Container, Sequence
    from typing import Any

    from handoff.store.database import Store, Transaction

_ATTEMPT = "attempt"


def words(task: Task) -> str:
    """Who works on it and who would go on, for people; empty where it may be anybody."""
    facts = task.baseline_facts
    tried = facts.get(TRIED, {})
    rest = [name for name in _order(task, facts) if not _is_used_up(task, tried, name)]
    used = [name for name in tried if _is_used_up(task, tried, name)]
    found = [task.agent, *(f"then {name}" for name in rest), *(f"{name} has used up its attempts" for name in used)]
    return ", ".join(filter(None, found))


def begin_anew(task: Task) -> dict[str, Any]:
    """A person lets a task try again: it begins with the first agent, and nobody has tried it yet."""
    facts = task.baseline_facts
    first = (facts.get(AGENTS) or [task.agent])[0]
    model = facts.get(TRIED, {}).get(first, facts).get(MODEL, "")
    if TRIED not in facts:
        return {"agent": task.agent, "baseline": task.baseline}
    fresh = {name: value for name, value in facts.items() if name not in (TRIED, MODEL)}
    return {"agent": first, "baseline": texts.write(fresh | ({MODEL: model} if model else {}))}


def next_agent(transaction: Transaction, task: Task) -> str:
    """Who goes on when the attempts of the present agent are used up: one that can start now before one that is held or works nowhere."""
    facts = task.baseline_facts
    left = [name for name in _order(task, facts) if not _is_used_up(task, facts.get(TRIED, {}), name)]
    if not left:
        return ""
    held = {
        row["name"] for row in transaction.query("list_holds", now=transaction.now()) if row["host"] == task.held_host
    }
    served = {row["name"] for row in transaction.query("list_offers") if row["kind"] == "agent"}
    return min(left, key=lambda name: (name in held, name not in served))


def pass_on(transaction: Transaction, task: Task, agent: str, *, spent: bool) -> Task | None:
    """Let `agent` go on, with its own count of attempts and its own model; None when the task has moved meanwhile."""
    facts = task.baseline_facts
    tried = dict(facts.get(TRIED, {}))
    tried[task.agent] = {_ATTEMPT: task.attempt + spent, MODEL: facts.get(MODEL, "")}
    before = tried.pop(agent, {})
    facts |= {TRIED: tried, MODEL: before.get(MODEL, "")}
    row = transaction.one(
        "pass_on_task",
        key=task.key,
        fence=task.fence,
        seen=task.state,
        lease_until=task.lease_until or 0.0,
        before=task.agent,
        agent=agent,
        attempt=before.get(_ATTEMPT, 1),
        baseline=texts.write(facts),
        now=transaction.now(),
        lease_now=transaction.lease_now(),
    )
    return Task(**row) if row else None


def leave_held(store: Store, *, held: Container[str], able: Sequence[str], project: str = "") -> list[Task]:
    """Ready tasks whose agent is held go on with the next one that can start; where there is none they wait."""
    found = []
    for task in tasks.listing(store, project=project, state=states.READY):
        facts = task.baseline_facts if task.agent in held else {}
        tried = facts.get(TRIED, {})
        free = [name for name in _order(task, facts) if name in able and name not in held]
        agent = next((name for name in free if not _is_used_up(task, tried, name)), "")
        if not agent:
            continue
        with store.transaction() as transaction:
            passed = pass_on(transaction, task, agent, spent=False)
            if passed is not None:
                why = f"{task.agent} is held"
                journal.append(transaction, "task.edited", task=passed, agent=agent, reason=why)
                found.append(passed)
    return found


def _order(task: Task, facts: dict[str, Any]) -> list[str]:
    """The others of its list, those behind the present one first."""
    names: list[str] = facts.get(AGENTS) or []
    here = names.index(task.agent) if task.agent in names else -1
    return [name for name in (*names[here + 1 :], *names[: max(here, 0)]) if name != task.agent]


def _is_used_up(task: Task, tried: dict[str, Any], name: str) -> bool:
    return bool(tried.get(name, {}).get(_ATTEMPT, 0) > task.max_attempts)

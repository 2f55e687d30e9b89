"""What a day, a batch and a task may cost: sessions that run go on, no new one begins, and a person is asked for more."""

from __future__ import annotations

import re

from handoff.agents.endings import Prices
from handoff.base.errors import Refused, UserError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board import gates
from handoff.board.events import journal
from handoff.board.sessions import expenses, holds, leases
from handoff.board.tasks import outcomes, states, tasks
from handoff.engine.app.home import home_config
from handoff.engine.place.proof.faults import GroundFault

if TYPE_CHECKING:
    from handoff.base.settings import Config
    from handoff.board.gates import Gate
    from handoff.board.sessions.leases import Claim
    from handoff.board.tasks.tasks import Task
    from handoff.engine.app import App
    from handoff.store.database import Store, Transaction

DAY, TASK, BATCH = "max_cost_per_day", "max_cost_per_task", "max_cost_per_batch"
_BATCH_WAITS = "it waits for your answer about the money of its batch"
_AMOUNT = re.compile(r"(?:yes\b)?[\s,:]*\$?\s*(\d+(?:\.\d+)?)\s*(?:\$|usd|dollars?)?(?:\s+more)?\.?", re.IGNORECASE)


class Cap(Record):
    """How a cap stands: what it is about, what that cost, what the setting allows and by how much a person raised it."""

    setting: str
    what: str
    spent: float
    limit: float
    raised: float

    @property
    def is_reached(self) -> bool:
        return self.limit > 0 and self.limit + self.raised <= self.spent

    @property
    def words(self) -> str:
        """Why nothing may start, or nothing."""
        more = f", raised by {self.raised:g}" if self.raised else ""
        found = f"{self.what} cost {self.spent:.2f} USD, and {self.setting} is {self.limit:g}{more}"
        return found if self.is_reached else ""


def prices_of(config: Config) -> Prices:
    """What tokens cost: the person's own prices first."""
    return Prices(config.values["price"], where=config.path)


def _cap(store: Store, config: Config, setting: str, task: Task | None = None) -> Cap:
    limit, now = config.number(setting), 0.0
    key = task.key if task and setting == TASK else 0
    batch = task.batch or 0 if task and setting == BATCH else 0
    if not limit or (setting != DAY and not key and not batch):
        return Cap(setting, "", 0.0, 0.0, 0.0)
    if setting == DAY:
        with store.transaction(write=False) as transaction:
            now = transaction.now()
        what, spent = "the sessions of the last 24 hours", expenses.of_a_day(store)
    else:
        what = f"the sessions of '{task.label}'" if task and key else "the sessions of its batch"
        spent = sum(one.money for one in expenses.by_agent(store, task=key, batch=batch))
    since = now - expenses.DAY_SECONDS if setting == DAY else 0.0
    found = gates.about_cap(store, cap=setting, task=key, batch=batch)
    said = [one.answer for one in found if one.state == gates.APPROVED and (one.answered_at or 0.0) >= since]
    return Cap(setting, what, spent, limit, sum(float(amount) for amount in said if amount))


def _reached(store: Store, config: Config, task: Task) -> Cap | None:
    """The cap of the task or of its batch that is reached."""
    return next((cap for one in (TASK, BATCH) if (cap := _cap(store, config, one, task)).is_reached), None)


def is_capped(app: App, task: Task) -> bool:
    """Whether the money of the task or of its batch is spent: a session that claimed it does not begin."""
    return _reached(app.database, home_config(app), task) is not None


def spent_up(app: App, config: Config | None = None) -> str:
    """Why nothing may start now, or nothing."""
    return _cap(app.database, config or home_config(app), DAY).words


def refuse_spent_up(app: App, config: Config) -> None:
    """For a person who starts a session by hand."""
    why = spent_up(app, config)
    if why:
        raise Refused(f"No session may start: {why}.", "Wait, or raise max_cost_per_day in config.toml of the home.")


def refuse_spent_up_task(app: App, config: Config, task: Task) -> None:
    """Before each session of a task: what its earlier ones have cost, however they ended, and what its batch has."""
    cap = _reached(app.database, config, task)
    if cap is not None:
        raise GroundFault(
            f"'{task.label}' may not start: {cap.words}.",
            f"Raise {cap.setting} in {config.path}, then: {app.settings.program} retry {task.label}",
        )


# --- a person is asked for more ------------------------------------------------------------------------------------


def ask(app: App, transaction: Transaction, claim: Claim) -> bool:
    """Where a cap kept the task from starting, a person is asked instead: once for a batch, and the answer is for all its parts."""
    task = claim.task
    cap = _reached(transaction, home_config(app), task)
    if cap is None:
        return False
    if cap.setting == TASK:
        _ask(transaction, cap, task, fence=claim.fence, no="blocks the task")
        return True
    before = next(iter(gates.about_cap(transaction, cap=BATCH, batch=task.batch or 0)), None)
    if before is not None and before.state == gates.OPEN:
        leases.release(transaction, key=task.key, fence=claim.fence, reason=_BATCH_WAITS)
        asked = tasks.get(transaction, key=before.task).label
        fix = f"Answer it: {app.settings.program} answer {asked} yes 5, or no"
        holds.hold_for_person(transaction, task, reason=_BATCH_WAITS, fix=fix)
    elif before is not None and before.state == gates.REJECTED and not _is_retried(transaction, task, before):
        outcomes.block(transaction, key=task.key, reason=f"{gates.SAID_NO}{before.reason}", fence=claim.fence)
    else:
        _ask(transaction, cap, task, fence=claim.fence, no="blocks the parts of the batch that are not done")
    return True


def _is_retried(transaction: Transaction, task: Task, gate: Gate) -> bool:
    """Whether a person let the task try again after their no."""
    events = journal.of_task(transaction, key=task.key)
    return any(one.kind == "task.retried" and one.at >= (gate.answered_at or 0.0) for one in events)


def _ask(transaction: Transaction, cap: Cap, task: Task, *, fence: int | None, no: str) -> None:
    what = f"{cap.words[:1].upper()}{cap.words[1:]}"
    question = (
        f"{what}. Go on with more money?\n"
        f"`yes 5` allows 5 USD more than was spent, `yes` alone {cap.limit:g}. No raises nothing and {no}."
    )
    offered = (f"yes {cap.limit:g}", "no")
    gates.ask(transaction, key=task.key, question=question, fence=fence, choices=offered, cap=cap.setting)


def raised_by(app: App, task: Task, gate: Gate, words: str) -> str:
    """By how much a person's yes raises the cap: what they allow comes on top of what was spent."""
    cap, said = _cap(app.database, home_config(app), gate.cap, task), _AMOUNT.fullmatch(words.strip())
    if said is None and words.strip().lower() not in ("", "yes"):
        hint = f"For example: {app.settings.program} answer {task.label} yes 5"
        raise UserError(f"'{words.strip()}' names no amount in US dollars. Nothing was raised.", hint)
    amount = float(said[1]) if said else cap.limit
    return f"{max(0.0, cap.spent - cap.limit - cap.raised) + amount:.6f}"


def let_go_on(app: App) -> None:
    """The parts that waited for the answer about their batch wait no longer when it was given, or its task is over."""
    store = app.database
    for held in holds.listing(store):
        if held.reason == _BATCH_WAITS:
            batch = tasks.get(store, key=int(held.name)).batch or 0
            if not any(one.state == gates.OPEN for one in gates.about_cap(store, cap=BATCH, batch=batch)):
                holds.release_task(store, key=int(held.name))


def block_parts(transaction: Transaction, task: Task, *, session: str) -> None:
    """A no to more money for a batch is one for each of its parts that could begin."""
    for one in tasks.of_batch(transaction, batch=task.batch or 0):
        if one.state == states.READY and one.kind in tasks.PARTS:
            outcomes.block(transaction, key=one.key, reason=task.reason, session=session)


def look(app: App, *, project: str = "") -> None:
    """Ask once for the money of a day, where work is ready; a question that answered itself is closed."""
    config, store = home_config(app), app.database
    for one in gates.listing(store):
        if one.gate.cap and not _cap(store, config, one.gate.cap, tasks.get(store, key=one.gate.task)).is_reached:
            gates.approve(
                store, key=one.gate.task, answered_by="the settings", reason="the cap is not reached any more"
            )
    let_go_on(app)
    ready = tasks.listing(store, project=project, state=states.READY) if spent_up(app, config) else []
    if not ready:
        return
    with store.transaction() as transaction:
        cap = _cap(transaction, config, DAY)  # once more: a person may just have raised it
        before = next(iter(gates.about_cap(transaction, cap=DAY)), None)
        since = transaction.now() - expenses.DAY_SECONDS
        is_refused = before is not None and before.state == gates.REJECTED and (before.answered_at or 0.0) >= since
        if cap.is_reached and not is_refused and (before is None or before.state != gates.OPEN):
            first = min(ready, key=lambda task: (-task.priority, task.attempt, task.key))
            if tasks.get(transaction, key=first.key).state == states.READY:
                _ask(transaction, cap, first, fence=None, no="lets all tasks wait until the 24 hours are over")

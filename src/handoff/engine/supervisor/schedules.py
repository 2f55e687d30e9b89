"""Work that recurs: whichever host looks first makes what is due, once; old times are tidied away."""

from __future__ import annotations

from contextlib import suppress

from handoff.base import cron
from handoff.base.errors import Away, Conflict, HandoffError
from handoff.base.files import remove
from handoff.base.record import TYPE_CHECKING
from handoff.board import forgetting, schedules
from handoff.board.tasks import states, tasks
from handoff.engine.app.home import settle
from handoff.engine.place import task_clones
from handoff.engine.place.fanout.files import leftovers
from handoff.engine.place.workspaces import remove_workspace
from handoff.engine.work import orders
from handoff.engine.work.tasks import projects

if TYPE_CHECKING:
    from handoff.board.schedules import Schedule, ScheduleRun
    from handoff.engine.app import App
    from handoff.engine.work.orders import Made, Order
    from handoff.store.database import Transaction

_FLOW_SECONDS = 300.0
"""A flow has its workspace made and its tests found before its row is written."""


def add(
    app: App,
    *,
    name: str,
    line: str,
    zone: str,
    order: Order,
    overlap: str = schedules.SKIP,
    keep: int = schedules.KEEP,
    by: str,
) -> Schedule:
    """Write a schedule of this checkout's project down; what would fail each time is refused now."""
    place = orders.place_of(app, "")
    cron.zone_of(zone)
    orders.check(app, place, order)
    place = settle(app, place)  # supervisors of this machine know the checkout by it
    order = order._replace(words=app.clean(order.words), manifest=app.clean(order.manifest))
    return schedules.add(
        app.database,
        project=place.name,
        name=name,
        line=line,
        zone=zone,
        order=order.said(),
        overlap=overlap,
        keep=keep,
        by=by,
    )


def look(app: App, *, project: str = "") -> list[str]:
    """Make what is due, as far as this machine has the checkouts for it; what was made, in words."""
    told = []
    for one in schedules.due(app.database, project=project):
        if projects.known_checkout(app, one.project):
            with suppress(Conflict):  # another host was faster
                told += _take(app, one)
    return told


def _take(app: App, one: Schedule) -> list[str]:
    store, name = app.database, f"{one.project}/{one.name}"
    if last := live_run(app, one):
        if one.overlap == schedules.QUEUE:
            return []  # it stays due
        schedules.pass_over(store, one, reason=f"'{last.id}' goes on", trouble=False)
        return [f"{name}: passed over, '{last.id}' goes on"]
    slow = one.order.get("kind") == orders.FLOW
    if not schedules.prepare(store, one, seconds=_FLOW_SECONDS if slow else schedules.PREPARING_SECONDS):
        return []
    try:
        made = run(app, one, at=one.next_at)
    except Away:
        raise
    except HandoffError as error:
        schedules.pass_over(store, one, reason=error.message, trouble=True)  # refused where another host has made it
        return [f"{name}: not made: {error.message}"]
    tidy(app, one)
    return [f"{name}: made {made.kind} {made.id}"]


def live_run(app: App, one: Schedule) -> ScheduleRun | None:
    """What was made last, while it goes on; what is stuck stands in nobody's way."""
    last = next(iter(schedules.runs(app.database, one, limit=1)), None)
    return last if last and last.ended_at is None and last.state not in ("", states.BLOCKED) else None


def run(app: App, one: Schedule, *, at: float) -> Made:
    """Make its work for a moment: when it was due, or now because a person says so."""
    order = orders.read(one.order)._replace(id=schedules.name_of(one, at, exact=at != one.next_at))

    def note(transaction: Transaction, made: Made) -> None:
        schedules.ran(transaction, one, kind=made.kind, work=made.key, id=made.id, host=app.settings.host, at=at)

    return orders.make(app, orders.place_of(app, one.project), order, also=note)


def run_now(app: App, one: Schedule) -> Made:
    """A person wants it now, beside its times."""
    with app.database.transaction(write=False) as transaction:
        now = transaction.now()
    made = run(app, one, at=now)
    tidy(app, one)
    return made


def tidy(app: App, one: Schedule) -> None:
    """Only the newest times are kept of what has ended: their tasks and clones go; a snapshot has what was in a clone."""
    over = [old for old in schedules.runs(app.database, one)[one.keep :] if old.ended_at is not None or not old.state]
    for old in over:
        gone = _tasks_of(app, old)
        for task in gone:
            if task_clones.of_task(app, task) is not None:
                with suppress(HandoffError):  # it stays where it cannot be kept whole
                    store = task_clones.snapshot_store_of_project(app, task)
                    remove_workspace(app, name=task_clones.name_of(task), snapshot_store=store, accept=False)
        forgetting.forget(app.database, gone)
        for path in (path for task in gone for path in leftovers(app, task.project, task.id, forgotten=True)):
            remove(path)
    schedules.forget_runs(app.database, one, over=over)


def _tasks_of(app: App, old: ScheduleRun) -> list[tasks.Task]:
    if old.kind == orders.BATCH:
        return tasks.of_batch(app.database, batch=old.work)
    found = tasks.look_up(app.database, key=old.work) if old.kind == orders.TASK else None
    return [found] if found else []

"""One journey: how a step is done, looked at before and after, and killed in its middle if the journey says so."""

from __future__ import annotations

import collections
import typing
from typing import TYPE_CHECKING, Any

from hypothesis.stateful import RuleBasedStateMachine

from handoff.base.errors import HandoffError
from handoff.board.events import journal
from handoff.engine.app.home import find_project
from hunt import invariants as inv
from hunt.killed import Killed, run_killed
from hunt.record import Hold, Record
from hunt.world import PROJECT, Picture, World

if TYPE_CHECKING:
    from collections.abc import Callable

    from handoff.board.tasks import tasks

REPLACED = 9


class Counter:
    """Steps done in this process, and what the journeys reached."""

    steps = 0
    journeys = 0
    seen: typing.ClassVar[collections.Counter[str]] = collections.Counter()


class Journey(RuleBasedStateMachine):
    """The books, the world and the eyes of one journey; the rules are in the classes below it."""

    url = ""

    def __init__(self) -> None:
        super().__init__()
        Counter.journeys += 1
        self.world = World(self.url)
        self.record = Record()
        self.kill_at = -1
        self.behind = False
        """A verb was killed: files about tasks may be behind their rows until the watchdog's next round."""
        self.now: Picture = self.world.look()
        self.told: dict[int, str] = {}
        """What the journal said last about the state of each task."""
        self._read = 0

    def teardown(self) -> None:
        self.world.close()

    def act(self, verb: Callable[[], Any]) -> tuple[Any, HandoffError | None]:
        """One verb of ours: what it may never do is looked for here, whatever it answers, and wherever it is killed."""
        Counter.steps += 1
        self.world.clock.advance(1.0)
        before, point, self.kill_at = self.now, self.kill_at, -1
        result, error = self._run_killed(verb, point) if point >= 0 else self._run(verb)
        self.behind = self.behind or isinstance(error, Killed)
        self.now = self.world.look()
        self._count(before, error)
        inv.nothing_is_removed_before_its_content_is_elsewhere(self.world, before, self.now)
        inv.a_command_touches_the_project_it_was_called_for(self.world, before, self.now)
        inv.a_batch_becomes_done_when_every_part_has_landed_or_a_person_agreed(
            self.world, self.record, before, self.now
        )
        for key, hold in list(self.record.holder.items()):
            if self.now.rows[key].fence != hold.fence:  # whoever was killed while it claimed has it now
                self.record.over(key)
        return result, error

    def _run(self, verb: Callable[[], Any]) -> tuple[Any, HandoffError | None]:
        try:
            return verb(), None
        except HandoffError as error:
            return None, error

    def _run_killed(self, verb: Callable[[], Any], point: int) -> tuple[Any, HandoffError | None]:
        self.world.forget_database()
        error = run_killed(lambda: self._run(verb), point)
        Counter.seen[error.message] += 1
        return None, error

    def _count(self, before: Picture, error: HandoffError | None) -> None:
        """What the journeys really reach: a hunt that never comes to a fan-in proves nothing about it."""
        if error is not None:
            Counter.seen[f"exit {error.exit_code}"] += 1
        for key, task in self.now.rows.items():
            was = before.rows.get(key)
            if was is None or was.state != task.state:
                Counter.seen[f"{task.kind} {task.state}"] += 1
        for key, batch in self.now.batches.items():
            if key not in before.batches or before.batches[key].state != batch.state:
                Counter.seen[f"batch {batch.state}"] += 1
        if before.refs.get(before.head) != self.now.refs.get(self.now.head):
            Counter.seen["landed or taken back"] += 1

    def read_journal(self) -> dict[int, str]:
        """The journal read on from where it was read last."""
        for event in journal.since(self.world.database, seq=self._read):
            self._read = event.seq
            if event.task is not None and event.kind in inv.TELLING:
                self.told[event.task] = event.kind
        return self.told

    def person(self) -> None:
        """The person did something by hand: what they took away themselves is not charged to anybody."""
        Counter.steps += 1
        self.world.clock.advance(1.0)
        self.now = self.world.look()
        held = self.world.on_branches()
        for work in self.record.promised.values():
            for name in [name for name in work if name not in held]:
                del work[name]

    # --- what rules choose from ---------------------------------------------------------------------------------

    @property
    def app(self) -> Any:
        return self.world.app()

    def project(self) -> Any:
        return find_project(self.app)

    def of(self, number: int, choices: list[Any]) -> Any:
        return choices[number % len(choices)]

    def live(self, *states: str) -> list[tasks.Task]:
        return [
            task
            for task in sorted(self.now.rows.values(), key=lambda one: one.key)
            if task.project == PROJECT and not task.ended and (not states or task.state in states)
        ]

    def a_hold(self, number: int) -> Hold:
        """Mostly one that holds its task; the highest numbers mean those that were replaced or have reported."""
        holding = list(self.record.holder.values())
        left = [hold for hold in self.record.holds if not self.record.holds_now(hold)]
        return self.of(number, left if (number >= REPLACED and left) or not holding else holding)

    def wanted(self, number: int) -> tasks.Task:
        """Mostly one that can be had."""
        ready = self.live("ready")
        return self.of(number, ready if ready and number < REPLACED else self.live())

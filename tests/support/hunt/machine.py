"""The machine: rules that drive the real verbs in this process, in any order, and the invariants after each."""

from __future__ import annotations

import collections
import os
import typing
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from handoff.agents.contract import OK, AgentOutcome
from handoff.base.errors import Conflict, HandoffError
from handoff.board.sessions import sessions, watchdog
from handoff.engine.home import find_project, home_config, labels_of
from handoff.engine.proof import evidence
from handoff.engine.sessions import conclude, placement
from handoff.engine.tasks import admin, batches, create, current, report
from handoff.engine.workspaces import running
from hunt import invariants as inv
from hunt.record import TAB, WORKER, Hold, Record
from hunt.world import AREAS, PROJECT, Picture, World, blob

if TYPE_CHECKING:
    from collections.abc import Callable

    from handoff.board.tasks import tasks

NAMES = ("t0", "t1", "t2")
PARTS = ("p0", "p1", "p2")
LEASE = 900.0
MANY = 7
REPLACED = 9
pick = st.integers(min_value=0, max_value=11)
area = st.sampled_from(AREAS)


class Counter:
    """Steps done in this process, for who wants the figures."""

    steps = 0
    journeys = 0
    seen: typing.ClassVar[collections.Counter[str]] = collections.Counter()


class Machine(RuleBasedStateMachine):
    """One journey."""

    url = ""

    def __init__(self) -> None:
        super().__init__()
        Counter.journeys += 1
        self.world = World(self.url)
        self.record = Record()
        self.now: Picture = self.world.look()

    def teardown(self) -> None:
        self.world.close()

    # --- steps -------------------------------------------------------------------------------------------------

    def act(self, verb: Callable[[], Any]) -> tuple[Any, HandoffError | None]:
        """One verb of ours: what it may never do is looked for here, whatever it answers."""
        Counter.steps += 1
        self.world.clock.advance(1.0)
        before, result, error = self.now, None, None
        try:
            result = verb()
        except HandoffError as found:
            error = found
        self.now = self.world.look()
        self._count(before, error)
        inv.nothing_is_removed_before_its_content_is_elsewhere(self.world, before, self.now)
        inv.a_command_touches_the_project_it_was_called_for(self.world, before, self.now)
        return result, error

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

    def person(self) -> None:
        """The person did something by hand: what they took away themselves is not charged to anybody."""
        Counter.steps += 1
        self.now = self.world.look()
        held = self.world.on_branches()
        for work in self.record.promised.values():
            for name in [name for name in work if name not in held]:
                del work[name]

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

    @initialize(batch=st.booleans(), count=st.integers(min_value=2, max_value=3), chain=st.booleans())
    def begin(self, batch: bool, count: int, chain: bool) -> None:
        if batch:
            self._open(count, chain=chain)

    # --- writing down --------------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.live()) < MANY)
    @rule(name=st.sampled_from(NAMES), where=area, after=st.booleans(), number=pick)
    def write_a_task(self, name: str, where: str, after: bool, number: int) -> None:
        others = self.live()
        needs = (self.of(number, others).label,) if after and others else ()
        request = create.Request(task=name, brief=f"do {name}", owns=(f"{where}/**",), after=needs)
        self.act(lambda: create.write_down(self.app, self.project(), request))

    @precondition(lambda self: not any(task.batch for task in self.live()))
    @rule(count=st.integers(min_value=2, max_value=3), chain=st.booleans())
    def open_a_batch(self, count: int, chain: bool) -> None:
        self._open(count, chain=chain)

    def _open(self, count: int, *, chain: bool) -> None:
        names = PARTS[:count]
        parts = {
            name: (AREAS[at], (names[at - 1],) if chain and at == count - 1 else ()) for at, name in enumerate(names)
        }
        path = self.world.manifest("bb", parts)
        self.act(lambda: batches.open_batch(self.app, self.project(), path))

    # --- claiming -------------------------------------------------------------------------------------------------

    def _wanted(self, number: int) -> tasks.Task:
        """Mostly one that can be had."""
        ready = self.live("ready")
        return self.of(number, ready if ready and number < REPLACED else self.live())

    @precondition(lambda self: self.live())
    @rule(number=pick)
    def claim_in_a_tab(self, number: int) -> None:
        self._claim_in_a_tab(self._wanted(number))

    def _claim_in_a_tab(self, task: tasks.Task) -> Hold | None:
        name = f"tab{self.record.number()}"
        claim, _ = self.act(lambda: report.take(self.app, task=task.label, session=name))
        return self._took(TAB, claim, self.world.repo) if claim is not None else None

    @precondition(lambda self: self.live())
    @rule(number=pick)
    def claim_as_a_worker(self, number: int) -> None:
        self._claim_as_a_worker(self._wanted(number))

    def _claim_as_a_worker(self, task: tasks.Task) -> Hold | None:
        name = f"worker{self.record.number()}"
        who = sessions.SessionIdentity(
            id=name, kind=sessions.AGENT, project=PROJECT, workspace=self.world.repo,
            host=self.app.settings.host, labels=labels_of(self.app),
        )  # fmt: skip
        begun, _ = self.act(lambda: self._begin(who, task))
        return self._took(WORKER, *begun) if begun is not None else None

    def _begin(self, who: sessions.SessionIdentity, task: tasks.Task) -> tuple[Any, str]:
        """What a supervisor does before the client runs."""
        app = self.app
        config = home_config(app)
        claim = report.claim_as(app, config, who, task=task)
        where = placement.place(app, config, task=claim.task, session=who.id, sandbox=placement.NONE)
        if where.kind == placement.SHARED:
            evidence.note_claim(app, claim.task, workspace=claim.task.workspace)
        running.leave(app, claim, os.path.join(self.world.folder, who.id), supervised=True)
        return claim, where.folder

    def _took(self, kind: str, claim: Any, folder: str) -> Hold | None:
        hold = Hold(kind=kind, claim=claim, folder=folder, found=self.now.files(folder))
        hold.since = self.world.clock.now() - 1.0
        if claim.repeated:
            return None
        self.record.took(hold)
        return hold

    @precondition(lambda self: self.live("ready"))
    @rule(number=pick, edits=st.booleans())
    def a_worker_does_a_task(self, number: int, edits: bool) -> None:
        self._do(number, tab=False, edits=edits)

    @precondition(lambda self: self.live("ready"))
    @rule(number=pick, edits=st.booleans())
    def a_tab_does_a_task(self, number: int, edits: bool) -> None:
        self._do(number, tab=True, edits=edits)

    @precondition(lambda self: any(task.batch for task in self.live("ready")))
    @rule(number=pick, edits=st.booleans())
    def a_worker_does_a_part(self, number: int, edits: bool) -> None:
        self._do(number, tab=False, edits=edits, batch=True)

    def _do(self, number: int, *, tab: bool, edits: bool, batch: bool = False) -> None:
        """What mostly happens; left to chance step by step, hardly any journey would come to a fan-in."""
        task = self.of(number, [one for one in self.live("ready") if one.batch or not batch])
        hold = self._claim_in_a_tab(task) if tab else self._claim_as_a_worker(task)
        if hold is None:
            return
        if edits:
            self._edit_owned(hold, again=False)
        self._report_done(hold, named=True)
        if not tab:
            self._end(hold)

    # --- working --------------------------------------------------------------------------------------------------

    def _hold(self, number: int) -> Hold:
        """Mostly one that holds its task; the highest numbers mean those that were replaced or have reported."""
        holding = list(self.record.holder.values())
        left = [hold for hold in self.record.holds if not self.record.holds_now(hold)]
        return self.of(number, left if (number >= REPLACED and left) or not holding else holding)

    @precondition(lambda self: self.record.holds)
    @rule(number=pick, again=st.booleans())
    def a_session_edits_what_it_owns(self, number: int, again: bool) -> None:
        self._edit_owned(self._hold(number), again=again)

    def _edit_owned(self, hold: Hold, *, again: bool) -> None:
        folder = hold.area[0].rstrip("*") if hold.area else "x/"
        self._edit(hold, f"{folder}{'same' if again else hold.session}.txt")

    @precondition(lambda self: self.record.holds)
    @rule(number=pick, where=st.sampled_from((*AREAS, "foreign")))
    def a_session_edits_what_is_foreign(self, number: int, where: str) -> None:
        self._edit(self._hold(number), f"{where}/strange.txt")

    def _edit(self, hold: Hold, path: str) -> None:
        Counter.steps += 1
        if not os.path.isdir(hold.folder):
            return
        data = self.world.token(hold.session, path)
        self.world.write(hold.folder, path, data)
        hold.wrote[path] = data
        self.record.wrote_in.setdefault(hold.folder, set()).add(path)
        self.now = self.world.look()

    # --- reporting ------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.record.holds)
    @rule(number=pick, named=st.booleans())
    def a_session_reports_done(self, number: int, named: bool) -> None:
        self._report_done(self._hold(number), named=named)

    def _report_done(self, hold: Hold, *, named: bool) -> None:
        app = self.world.app(hold.folder if os.path.isdir(hold.folder) else "")
        label = hold.label if named else ""
        before = self.now

        def verb() -> Any:
            held = current.find(app, task=label, project=PROJECT, session=hold.session, fence=hold.fence)
            return report.finish(app, held, summary=f"by {hold.session}")

        done, error = self.act(verb)
        self._spoke(hold, before, error)
        inv.a_session_answers_only_for_what_it_changed(self.record, hold, before, error)
        if done is not None and not done.outcome.repeated and done.outcome.task.key == hold.key:
            inv.a_trespass_is_never_believed(hold, before, error)
            self._believed(hold, before)

    def _spoke(self, hold: Hold, before: Picture, error: HandoffError | None) -> None:
        """Whoever was replaced is told so, and changes nothing."""
        task = before.rows.get(hold.key)
        if task is not None and task.state == "running" and not self.record.holds_now(hold):
            inv.only_the_session_with_the_fence_speaks(before, self.now, hold.key, error)

    def _believed(self, hold: Hold, before: Picture) -> None:
        self.record.over(hold.key)
        task = before.rows[hold.key]
        if hold.folder != self.world.repo:
            files = before.files(hold.folder)
            wrote = self.record.wrote_in.get(hold.folder, set())
            mine = {path: data for path, data in files.items() if path in wrote and hold.owns(path)}
            self.record.promised[hold.key] = {blob(data): (task.label, path) for path, data in mine.items()}

    @precondition(lambda self: self.record.holds)
    @rule(number=pick, verb=st.sampled_from(("block", "release", "heartbeat")))
    def a_session_says(self, number: int, verb: str) -> None:
        hold = self._hold(number)
        app = self.world.app(hold.folder if os.path.isdir(hold.folder) else "")
        before = self.now

        def say() -> Any:
            held = current.find(app, task=hold.label, project=PROJECT, session=hold.session, fence=hold.fence)
            if verb == "block":
                return report.block(app, held, reason="no key")
            return report.release(app, held) if verb == "release" else current.beat(app, held)

        _, error = self.act(say)
        self._spoke(hold, before, error)
        if error is None and verb != "heartbeat":
            self.record.over(hold.key)

    @precondition(lambda self: self.record.holder)
    @rule(number=pick, verb=st.sampled_from(("done", "block", "release", "heartbeat")), how=st.integers(0, 11))
    def a_stranger_speaks(self, number: int, verb: str, how: int) -> None:
        if how > 2:
            return
        hold = self.of(number, list(self.record.holder.values()))
        before = self.now
        if before.rows[hold.key].state != "running":
            return
        app = self.world.app(self.world.other)
        session = "stranger" if how == 0 else ""
        fence = hold.fence if how != 1 else None

        def say() -> Any:
            held = current.find(app, task=hold.label, project=PROJECT, session=session, fence=fence)
            if verb == "done":
                return report.finish(app, held)
            if verb == "block":
                return report.block(app, held, reason="a stranger says so")
            return report.release(app, held) if verb == "release" else current.beat(app, held)

        _, error = self.act(say)
        if error is None or isinstance(error, Conflict) or how != 1:
            inv.only_the_session_with_the_fence_speaks(before, self.now, hold.key, error)

    @precondition(lambda self: any(hold.kind == WORKER for hold in self.record.holds))
    @rule(number=pick)
    def a_workers_session_ends(self, number: int) -> None:
        self._end(self.of(number, [hold for hold in self.record.holds if hold.kind == WORKER]))

    def _end(self, hold: Hold) -> None:
        app = self.app

        def end() -> Any:
            ended = conclude.conclude(app, claim=hold.claim, outcome=AgentOutcome(OK, ""))
            running.forget(app, hold.session)
            return ended

        _, error = self.act(end)
        if error is None:
            if self.record.holds_now(hold):
                self.record.over(hold.key)
            self.record.holds.remove(hold)

    # --- a person steers --------------------------------------------------------------------------------------------

    @precondition(lambda self: self.live("blocked"))
    @rule(number=pick)
    def retry(self, number: int) -> None:
        task = self.of(number, self.live("blocked"))
        _, error = self.act(lambda: admin.retry(self.app, task))
        if error is None and task.batch is not None:
            self.record.agreed.get(task.batch, set()).discard(task.key)

    @precondition(lambda self: self.live())
    @rule(number=pick, rarely=st.integers(0, 2))
    def cancel(self, number: int, rarely: int) -> None:
        if rarely:
            return
        task = self.of(number, self.live())
        _, error = self.act(lambda: admin.cancel(self.app, task))
        if error is None:
            self.record.over(task.key)

    @precondition(lambda self: self.live("gated"))
    @rule(number=pick, yes=st.booleans())
    def answer_a_gate(self, number: int, yes: bool) -> None:
        task = self.of(number, self.live("gated"))
        missing = {one.key for one in self.now.rows.values() if one.batch == task.batch and one.state == "blocked"}
        if yes:
            _, error = self.act(lambda: admin.approve(self.app, task))
            if error is None and task.batch is not None:
                self.record.agreed[task.batch] = missing
        else:
            self.act(lambda: admin.reject(self.app, task, reason="wait"))

    @rule(much=st.booleans())
    def time_passes(self, much: bool) -> None:
        self.world.clock.advance(LEASE + 1 if much else LEASE / 2)
        self.act(lambda: watchdog.scan(self.world.database))

    # --- a person works ---------------------------------------------------------------------------------------------

    @rule(where=st.sampled_from((*AREAS, "own")))
    def the_person_edits(self, where: str) -> None:
        path = f"{where}/person.txt"
        self.world.write(self.world.repo, path, self.world.token("person", path))
        self.person()

    @rule()
    def the_person_commits(self) -> None:
        self.world.git("add", "-A")
        self.world.git("commit", "-q", "--allow-empty", "-m", "by hand")
        self.person()

    # --- always -----------------------------------------------------------------------------------------------------

    @invariant()
    def no_promise_is_broken(self) -> None:
        inv.what_was_reported_done_is_on_a_branch_that_is_named(self.world, self.record)
        inv.a_fan_in_runs_only_when_all_parts_have_ended(self.now)
        inv.a_batch_is_done_when_every_part_has_landed_or_a_person_agreed(self.world, self.record, self.now)

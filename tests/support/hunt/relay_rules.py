"""Rules of the relay: tasks and batches written down, claimed, worked on, reported, steered by a person."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from handoff.agents.contract import OK, AgentOutcome
from handoff.base.errors import Conflict, HandoffError, UserError
from handoff.board.sessions import leases, sessions
from handoff.engine.app.home import home_config, labels_of
from handoff.engine.place import running
from handoff.engine.place.fanout import files, views
from handoff.engine.place.proof import evidence
from handoff.engine.session import conclude, current, placement, report
from handoff.engine.supervisor import watchdog
from handoff.engine.work.tasks import admin, batches, create
from hunt import invariants as inv
from hunt.journey import REPLACED, Counter, Journey
from hunt.killed import Killed
from hunt.record import TAB, WORKER, Hold
from hunt.world import AREAS, PROJECT, Picture

if TYPE_CHECKING:
    from handoff.board.tasks import tasks

NAMES = ("t0", "t1", "t2", "p0")  # the last is also a part's name
PARTS = ("p0", "p1", "p2")
MANY = 7
LEASE, LONG_LEASE = 900.0, 1200.0
pick = st.integers(min_value=0, max_value=11)
area = st.sampled_from(AREAS)


class RelayRules(Journey):
    """What sessions and the person at the board do."""

    # --- writing down --------------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.live()) < MANY)
    @rule(name=st.sampled_from(NAMES), where=area, after=st.booleans(), number=pick)
    def write_a_task(self, name: str, where: str, after: bool, number: int) -> None:
        others = self.live()
        needs = (self.of(number, others).label,) if after and others else ()
        labels = ("elsewhere",) if number == REPLACED else ()
        brief = f"do {name} as number {self.record.number()} asks"
        check = f"test -f {where}/ready.txt" if number % 4 == 1 else ""
        request = create.Request(task=name, brief=brief, owns=(f"{where}/**",), after=needs, labels=labels, check=check)
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

    @precondition(lambda self: self.live())
    @rule(number=pick)
    def claim_in_a_tab(self, number: int) -> None:
        self._claim_in_a_tab(self.wanted(number))

    def _claim_in_a_tab(self, task: tasks.Task) -> Hold | None:
        name = f"tab{self.record.number()}"
        before = self.now
        claim, _ = self.act(lambda: report.take(self.app, task=task.label, session=name, by_model=True))
        inv.what_is_stopped_is_not_claimed(self.record, before, self.now)
        return self._took(TAB, claim, self.world.repo) if claim is not None else None

    @precondition(lambda self: self.live("ready"))
    @rule()
    def claim_what_comes_next(self) -> None:
        name = f"tab{self.record.number()}"
        claim, _ = self.act(lambda: report.take(self.app, session=name))
        if claim is not None:
            self._took(TAB, claim, self.world.repo)

    @precondition(lambda self: self.live())
    @rule(number=pick)
    def claim_as_a_worker(self, number: int) -> None:
        self._claim_as_a_worker(self.wanted(number))

    def _claim_as_a_worker(self, task: tasks.Task) -> Hold | None:
        name = f"worker{self.record.number()}"
        who = sessions.SessionIdentity(
            id=name, kind=sessions.AGENT, project=PROJECT, workspace=self.world.repo,
            host=self.app.settings.host, labels=labels_of(self.app),
        )  # fmt: skip
        before = self.now
        begun, _ = self.act(lambda: self._begin(who, task))
        inv.what_is_stopped_is_not_claimed(self.record, before, self.now)
        return self._took(WORKER, *begun) if begun is not None else None

    def _begin(self, who: sessions.SessionIdentity, task: tasks.Task) -> tuple[Any, str]:
        """What a supervisor does before the client runs."""
        app = self.app
        config = home_config(app)
        claim = report.claim_as(app, config, who, task=task)
        try:
            if not os.path.isdir(claim.task.workspace):
                raise UserError("its folder is gone", "say something in its new place")
            where = placement.place(app, config, task=claim.task, session=who.id, sandbox=placement.NONE)
        except HandoffError:
            leases.release(app.database, key=claim.task.key, fence=claim.fence, reason="it could not be started")
            sessions.end(app.database, id=who.id, ending="not started")
            raise
        if where.kind == placement.SHARED:
            evidence.note_claim(app, claim.task, workspace=claim.task.workspace)
        running.leave(app, claim, os.path.join(self.world.folder, who.id), supervised=True)
        views.refresh(app, PROJECT)
        return claim, where.folder

    def _took(self, kind: str, claim: Any, folder: str) -> Hold | None:
        hold = Hold(kind=kind, claim=claim, folder=folder, found=self.now.files(folder))
        hold.since = self.world.clock.now()
        if claim.repeated:
            return None
        self.record.took(hold)
        self.record.began_on.setdefault(hold.key, set()).add(self.world.head())
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

    @precondition(lambda self: any(task.batch for task in self.live("ready")))
    @rule(number=pick)
    def a_part_is_blocked(self, number: int) -> None:
        hold = self._claim_in_a_tab(self.of(number, [one for one in self.live("ready") if one.batch]))
        if hold is not None:
            self._say(hold, "block")

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

    @precondition(lambda self: self.record.holds)
    @rule(number=pick, again=st.booleans())
    def a_session_edits_what_it_owns(self, number: int, again: bool) -> None:
        self._edit_owned(self.a_hold(number), again=again)

    def _edit_owned(self, hold: Hold, *, again: bool) -> None:
        folder = hold.area[0].rstrip("*") if hold.area else "x/"
        self._edit(hold, f"{folder}{'same' if again else hold.session}.txt")

    @precondition(lambda self: any(hold.claim.task.check_command for hold in self.record.holds))
    @rule(number=pick)
    def a_session_makes_its_check_green(self, number: int) -> None:
        hold = self.of(number, [hold for hold in self.record.holds if hold.claim.task.check_command])
        self._edit(hold, inv.checked_file(hold.claim.task))

    @precondition(lambda self: self.record.holds)
    @rule(number=pick, where=st.sampled_from((*AREAS, "foreign")))
    def a_session_edits_what_is_foreign(self, number: int, where: str) -> None:
        self._edit(self.a_hold(number), f"{where}/strange.txt")

    def _edit(self, hold: Hold, path: str) -> None:
        Counter.steps += 1
        self.world.clock.advance(1.0)
        if not os.path.isdir(hold.folder):
            return
        data = self.world.token(hold.session, path)
        self.world.write(hold.folder, path, data)
        hold.wrote[path] = data
        self.record.wrote_in.setdefault(hold.folder, {})[path] = data
        self.record.touched[hold.folder, path] = (self.world.clock.now(), data)
        self.now = self.world.look()

    # --- reporting ------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.record.holds)
    @rule(number=pick, named=st.booleans())
    def a_session_reports_done(self, number: int, named: bool) -> None:
        self._report_done(self.a_hold(number), named=named)

    def _report_done(self, hold: Hold, *, named: bool) -> HandoffError | None:
        app = self.world.app(hold.folder if os.path.isdir(hold.folder) else "")
        label = hold.label if named else ""
        before = self.now

        def verb() -> Any:
            held = current.find(app, task=label, project=PROJECT, session=hold.session, fence=hold.fence)
            return report.finish(app, held, summary=f"by {hold.session}")

        _, error = self.act(verb)
        self._spoke(hold, before, error)
        inv.a_session_answers_only_for_what_it_changed(hold, before, error)
        if before.rows[hold.key].state != "done" and self.now.rows[hold.key].state == "done":
            inv.a_trespass_is_never_believed(hold, before)
            inv.done_is_what_its_check_says(before.rows[hold.key], before.files(hold.folder))
            self._believed(hold)
        return error

    def _spoke(self, hold: Hold, before: Picture, error: HandoffError | None) -> None:
        """Whoever was replaced is told so, and changes nothing."""
        task = before.rows.get(hold.key)
        if task is not None and task.state == "running" and not self.record.holds_now(hold):
            inv.only_the_session_with_the_fence_speaks(before, self.now, hold.key, error)

    def _believed(self, hold: Hold) -> None:
        """The machine's own record of what was reported, whatever became of the folder."""
        self.record.over(hold.key)
        if hold.folder != self.world.repo:
            mine = {**self.record.wrote_in.get(hold.folder, {}), **hold.wrote}
            self.record.promise(hold.key, hold.label, {path: data for path, data in mine.items() if hold.owns(path)})

    @precondition(lambda self: self.record.holds)
    @rule(number=pick, verb=st.sampled_from(("block", "release", "heartbeat")))
    def a_session_says(self, number: int, verb: str) -> None:
        self._say(self.a_hold(number), verb)

    def _say(self, hold: Hold, verb: str) -> None:
        app = self.world.app(hold.folder if os.path.isdir(hold.folder) else "")
        before = self.now

        def say() -> Any:
            held = current.find(app, task=hold.label, project=PROJECT, session=hold.session, fence=hold.fence)
            if verb == "block":
                return report.block(app, held, reason="no key")
            return report.release(app, held) if verb == "release" else current.beat(app, held, lease=LONG_LEASE)

        _, error = self.act(say)
        self._spoke(hold, before, error)
        row = self.now.rows[hold.key]
        if error is None and verb == "heartbeat":
            inv.a_lease_is_as_long_as_was_asked(row, LONG_LEASE)
        if row.held_by is None or row.state == "blocked":
            self.record.over(hold.key)

    @precondition(lambda self: self.record.holder)
    @rule(number=pick, verb=st.sampled_from(("done", "block", "release", "heartbeat")), how=st.integers(0, 5))
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
        if error is None or isinstance(error, Conflict | Killed) or how != 1:
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
        self.act(lambda: admin.retry(self.app, task))
        if self.now.rows[task.key].state != "blocked" and task.batch is not None:
            self.record.agreed.get(task.batch, set()).discard(task.key)

    @precondition(lambda self: self.live())
    @rule(number=pick, rarely=st.integers(0, 2))
    def cancel(self, number: int, rarely: int) -> None:
        if rarely:
            return
        task = self.of(number, self.live())
        self.act(lambda: admin.cancel(self.app, task))
        if self.now.rows[task.key].ended:
            self.record.over(task.key)

    @precondition(lambda self: self.live("gated"))
    @rule(number=pick, yes=st.booleans())
    def answer_a_gate(self, number: int, yes: bool) -> None:
        task = self.of(number, self.live("gated"))
        missing = {one.key for one in self.now.rows.values() if one.batch == task.batch and one.state == "blocked"}
        if yes:
            self.act(lambda: admin.approve(self.app, task))
            if self.now.rows[task.key].state == "ready" and task.batch is not None:
                self.record.agreed[task.batch] = missing
        else:
            self.act(lambda: admin.reject(self.app, task, reason="wait"))

    @rule(much=st.booleans())
    def time_passes(self, much: bool) -> None:
        self.world.clock.advance(LEASE + 1 if much else LEASE / 2)
        _, error = self.act(lambda: watchdog.look(self.app))
        self.behind = self.behind and error is not None

    @precondition(lambda self: self.live("ready", "waiting", "blocked", "gated"))
    @rule(number=pick)
    def the_person_says_done(self, number: int) -> None:
        """Without a claim, of what nobody holds: what lies in the task's clone counts, else what is in the checkout."""
        task = self.of(number, self.live("ready", "waiting", "blocked", "gated"))
        clones = [hold.folder for hold in self.record.holds if hold.key == task.key and hold.folder != self.world.repo]
        there = [folder for folder in clones if folder in self.now.folders]
        missing = {one.key for one in self.now.rows.values() if one.batch == task.batch and one.state == "blocked"}

        def say() -> Any:
            app = self.world.app(self.world.other)
            return report.finish(app, current.find(app, task=task.label, project=PROJECT), summary="by hand")

        if task.kind == "fan-in" and task.batch is not None:
            self.record.agreed[task.batch] = missing
        self.act(say)
        if self.now.rows[task.key].state == "done":
            self.record.over(task.key)
            for folder in there[-1:]:
                hold = next(one for one in self.record.holds if one.folder == folder)
                wrote = self.record.wrote_in.get(folder, {})
                self.record.promise(
                    task.key, task.label, {path: data for path, data in wrote.items() if hold.owns(path)}
                )
        elif task.batch is not None and task.kind == "fan-in":
            self.record.agreed.pop(task.batch)

    @rule(what=st.sampled_from(("project", "batch", "task", "resume")))
    def claims_are_stopped(self, what: str) -> None:
        app = self.app
        if what == "resume" or self.record.stopped:
            for scope, name in list(self.record.stopped):
                self.act(
                    lambda scope=scope, name=name: files.resume_with_file(app, scope=scope, project=PROJECT, name=name)
                )
            self.record.stopped.clear()
            return
        name = {"project": "", "batch": "bb", "task": "t0"}[what]
        _, error = self.act(
            lambda: files.pause_with_file(app, scope=what, project=PROJECT, name=name, reason="lunch", by="a person")
        )
        if error is None:
            self.record.stopped.add((what, name))

    @rule(point=st.integers(min_value=0, max_value=60))
    def the_next_verb_is_killed(self, point: int) -> None:
        self.kill_at = point

"""The machine: all rules in one journey, and the invariants after each step."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant

from handoff.engine.app.home import find_project
from handoff.engine.work.tasks import create
from hunt import invariants as inv
from hunt.journey import Counter
from hunt.person_rules import PersonRules
from hunt.relay_rules import RelayRules

__all__ = ["Counter", "Machine"]


class Machine(RelayRules, PersonRules):
    """One journey."""

    @initialize(batch=st.booleans(), count=st.integers(min_value=2, max_value=3), chain=st.booleans())
    def begin(self, batch: bool, count: int, chain: bool) -> None:
        """Half of the journeys begin with a batch; in all of them another project has work of its own."""
        other = self.world.app(self.world.other)
        request = create.Request(task="theirs", brief="of the other project", owns=("a/**",), priority=9)
        create.write_down(other, find_project(other), request)
        self.now = self.world.look()
        if batch:
            self._open(count, chain=chain)

    @invariant()
    def no_promise_is_broken(self) -> None:
        inv.what_was_reported_done_is_on_a_branch_that_is_named(self.world, self.record)
        inv.a_fan_in_runs_only_when_all_parts_have_ended(self.now)
        inv.a_gate_waits_exactly_where_a_task_is_gated(self.world, self.now)
        inv.nobodys_document_is_overwritten(self.record)
        inv.the_journal_tells_what_the_rows_say(self.now, self.read_journal())
        if not self.behind:
            inv.no_file_contradicts_the_rows(self.world, self.now)

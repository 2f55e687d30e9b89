"""The table of kinds says all that is particular to a kind; what cannot read it agrees with it."""

from __future__ import annotations

import re

from handoff.board.tasks import tasks
from handoff.engine.outcome.kinds import KINDS
from source import read


def test_what_is_judged_by_its_check_is_anybodys_and_every_other_kind_says_why_it_is_not():
    assert {name for name, kind in KINDS.items() if not kind.judge} == set(tasks.BY_CHECK)
    for name, kind in KINDS.items():
        assert (all(kind.by_hand), all(kind.called_done)) == (bool(kind.judge),) * 2, name


def test_the_queries_that_offer_work_to_people_name_the_same_kinds():
    listed = [
        re.findall(r"'([^']*)'", names)
        for names in re.findall(r"kind IN \(([^)]*)\)", read("src/handoff/store/queries.sql"))
    ]
    assert (
        sum(tuple(names) == tasks.BY_CHECK for names in listed)
        == len([one for one in listed if tasks.FAN_IN in one])
        == 2
    )

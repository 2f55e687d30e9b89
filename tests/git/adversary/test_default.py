"""Every technique against the default protection: a clone inside bubblewrap, with snapshots. Nothing may be lost."""

from __future__ import annotations

import os

import pytest

from adversary.arena import DEFAULT, PREVENTED, Arena
from adversary.techniques import CARELESS, EAGER, MAIN, TECHNIQUES
from handoff.agents.sandbox.sandbox import BUBBLEWRAP, layer
from sandbox import absent

GROUPS = sorted({(technique.kind, role) for technique in TECHNIQUES for role in technique.roles})


def test_the_suite_is_large_enough():
    assert len(TECHNIQUES) >= 60
    assert len({technique.name for technique in TECHNIQUES}) == len(TECHNIQUES)
    assert {role for technique in TECHNIQUES for role in technique.roles} == {CARELESS, EAGER, MAIN}


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "role"), GROUPS)
def test_nothing_of_anybody_else_is_touched_and_own_work_can_be_restored(kind, role, tmp_path):
    if layer(os.environ, wanted=BUBBLEWRAP) != BUBBLEWRAP:
        absent(BUBBLEWRAP)
    arena = Arena(str(tmp_path), DEFAULT)
    trials = [arena.run(one, role) for one in TECHNIQUES if one.kind == kind and role in one.roles]
    bad = [f"{one.technique.name}: {one.verdict} {one.changed}" for one in trials if one.verdict != PREVENTED]
    assert not bad, "\n".join(bad)
    assert not [one.technique.name for one in trials if not one.own_kept]

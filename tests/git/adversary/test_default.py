"""Every technique against the default protection: a clone inside bubblewrap, with snapshots. Nothing may be lost."""

from __future__ import annotations

import os

import pytest

from adversary.arena import CLONE, CLONE_LANDLOCK, DEFAULT, LOST, PREVENTED, Arena
from adversary.techniques import CARELESS, EAGER, MAIN, TECHNIQUES
from handoff.agents.sandbox.sandbox import BUBBLEWRAP, LANDLOCK, layer
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


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted({technique.kind for technique in TECHNIQUES}))
def test_where_bubblewrap_is_missing_landlock_lets_nothing_be_lost(kind, tmp_path):
    if layer(os.environ, wanted=LANDLOCK) != LANDLOCK:
        absent(LANDLOCK)
    arena = Arena(str(tmp_path), CLONE_LANDLOCK)
    trials = [arena.run(one, role) for one in TECHNIQUES if one.kind == kind for role in one.roles]
    bad = [f"{one.technique.name}: {one.verdict} {one.changed}" for one in trials if one.verdict == LOST]
    assert not bad, "\n".join(bad)
    assert not [one.technique.name for one in trials if not one.own_kept]


def test_without_a_sandbox_the_same_scripts_do_reach_the_person(tmp_path):
    arena = Arena(str(tmp_path), CLONE)
    tried = [one for one in TECHNIQUES if one.kind == "destroying uncommitted work" and EAGER in one.roles][:3]
    assert PREVENTED not in [arena.run(one, EAGER).verdict for one in tried]

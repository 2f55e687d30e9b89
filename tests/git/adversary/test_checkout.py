"""The techniques of a main session in the person's own checkout, where no sandbox holds it: nothing of theirs is lost unsaid."""

from __future__ import annotations

import pytest

from adversary.checkout import LOST, UNSAID, Checkout
from adversary.techniques import TECHNIQUES

# What a main session may do to history: files come back by what is told, the branch does not by itself.
OF_HISTORY = {
    "write the ref by hand",
    "cherry-pick",
    "merge a branch",
    "pull from here",
    "apply a mailed patch",
    "rebase",
    "sparse checkout",  # its settings stay: `git sparse-checkout disable`
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [
        "commits that sweep",
        "destroying uncommitted work",
        "refs and history",
        "the repository's insides",
    ],
)
def test_what_becomes_of_uncommitted_work_is_told_with_the_command_that_brings_it_back(kind, tmp_path):
    checkout = Checkout(str(tmp_path))
    trials = [checkout.attempt(one) for one in TECHNIQUES if one.kind == kind]
    bad = [
        f"{one.technique.name}: {one.verdict} {one.changed} {one.fixes}"
        for one in trials
        if one.verdict in (LOST, UNSAID)
    ]
    assert not [line for line in bad if line.partition(":")[0] not in OF_HISTORY], "\n".join(bad)

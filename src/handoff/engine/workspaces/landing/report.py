"""A landing in words: facts for a program, lines for a person, and what to look at all the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from handoff.base.ids import on_one_line

if TYPE_CHECKING:
    from handoff.engine.workspaces.landing import LandingOutcome


def facts(outcome: LandingOutcome) -> dict[str, Any]:
    """The outcome for programs."""
    merged = outcome.merged
    return {
        "target": outcome.target,
        "old": merged.old,
        "new": merged.new if outcome.landing else merged.old,
        "landed": list(outcome.landing.members) if outcome.landing else [],
        "would_land": [step.member for step in merged.steps],
        "nothing_new": list(merged.skipped),
        "left_out": {one.name: list(one.left_out) for one in outcome.members if one.left_out},
        "conflicts": [one._asdict() for one in merged.conflicts],
        "settled": [one._asdict() for one in merged.settled],
        "followed": [one._asdict() for one in merged.followed],
        "doubts": [one._asdict() for one in outcome.doubts],
        "refused": [one._asdict() for one in outcome.refused],
        "check": outcome.verdict._asdict() if outcome.verdict else None,
        "culprit": outcome.blame.words if outcome.blame else "",
        "blame": outcome.blame._asdict() | {"culprits": [one._asdict() for one in outcome.blame.culprits]}
        if outcome.blame
        else None,
    }


def warnings(outcome: LandingOutcome) -> list[str]:
    """What is not as one would think, though it may land."""
    found = [f"{one.name}: left out {on_one_line(path)}" for one in outcome.members for path in one.left_out]
    found += [
        f"{on_one_line(doubt.path)}: {doubt.what} ({doubt.first}, {doubt.second})"
        for doubt in outcome.doubts
        if not doubt.note
    ]
    if outcome.blame and outcome.blame.flaky:
        found.append("The check was red once and green when it was run again on the same files.")
    culprits = outcome.blame.culprits if outcome.blame and outcome.landing else ()
    found += [f"{guilty.words}: not landed, the check is red with it" for guilty in culprits]
    return found + ([outcome.trouble] if outcome.trouble else [])


def lines(outcome: LandingOutcome) -> list[str]:
    """What joined the files that two changed, where that was not git's own merge, and what landed or stands in the way."""
    merged, target = outcome.merged, outcome.target.removeprefix("refs/heads/")
    said = [f"{name}: nothing new" for name in merged.skipped]
    said += [
        f"{moved.member}: {on_one_line(moved.old)} goes to {on_one_line(moved.new)}, because its folder was moved"
        for moved in merged.followed
    ]
    said += [
        f"{on_one_line(done.path)}: {done.first} and {done.second}, joined by {done.how}" for done in merged.settled
    ]
    word = outcome.verdict.word if outcome.verdict else "red"
    said += [f"{on_one_line(done.path)}: {done.how} was tried, and the check was {word}" for done in outcome.refused]
    if merged.conflicts:
        whys = (f" ({on_one_line(one.why)})" if one.why else "" for one in merged.conflicts)
        pairs = zip(merged.conflicts, whys, strict=True)
        return said + [f"  {on_one_line(one.path)}: {one.first} and {one.second}{why}" for one, why in pairs]
    if outcome.verdict and not outcome.verdict.green:
        return [*said, outcome.verdict.tail]
    verb = "Landed" if outcome.landing else "Would land"
    said += [f"{verb} {step.member} on {target} ({step.commit[:10]})" for step in merged.steps]
    return said if merged.steps else [*said, "There is nothing to land."]

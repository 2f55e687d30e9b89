"""How good a hand-off is: what a successor is told of sessions that were cut off, against a key of typed facts; no model."""

from __future__ import annotations

import collections
import os
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

from bench.handoff import play, scoring, successor
from bench.handoff.journey import END, KINDS, Journey, journeys, key, traps
from bench.handoff.views import OURS, VIEWS, view

Row = tuple[str, str, str]
GOALS = {"rule": "100 at 2k", "next": "100 at 2k", "file": "100 at 2k", "result": "100 at 2k"}


class Measured(NamedTuple):
    """One view of one journey that was cut off, at one budget."""

    journey: str
    route: str
    cut: str
    view: str
    budget: int
    score: scoring.Score
    effort: successor.Effort


def measure(stage: play.Stage, journey: Journey, where: str) -> list[Measured]:
    """Play a journey until a cut, and score everything its successor could be given."""
    played = stage.play(journey, where)
    facts, wrong = key(played.acts, played.trace), traps(journey, played.acts, played.trace)
    found = []
    for name in VIEWS:
        for budget in play.BUDGETS:
            told = scoring.score(view(name, played, budget), facts, wrong)
            last = budget == play.BUDGETS[-1]
            effort = successor.rediscover(played, told.missing) if last else successor.Effort()
            found.append(
                Measured(
                    journey=journey.name,
                    route=journey.route,
                    cut=where,
                    view=name,
                    budget=budget,
                    score=told,
                    effort=effort,
                )
            )
    return found


def _some(share: tuple[int, int]) -> list[Measured]:
    """What one of several processes plays: every journey of its own, on one stage."""
    number, count = share
    with play.stage() as stage:
        mine = journeys()[number::count]
        return [one for journey in mine for where in journey.cuts for one in measure(stage, journey, where)]


def everything() -> list[Measured]:
    """All journeys at all cuts, on two cores."""
    count = min(2, os.cpu_count() or 1)
    with ProcessPoolExecutor(count) as pool:
        return [one for part in pool.map(_some, [(number, count) for number in range(count)]) for one in part]


def recall(measured: list[Measured], *, kind: str = "", view: str = OURS, budget: int = 2000) -> float:
    """Per cent of the facts that were told."""
    chosen = [one.score for one in measured if one.view == view and one.budget == budget]
    found = sum(score.found.get(one, 0) for score in chosen for one in ([kind] if kind else KINDS))
    asked = sum(score.asked.get(one, 0) for score in chosen for one in ([kind] if kind else KINDS))
    return 100.0 * found / asked if asked else 100.0


def rows() -> list[Row]:
    """The table of bench/results.md."""
    return table(everything())


def table(measured: list[Measured]) -> list[Row]:
    """What was measured, for people."""

    def at(view: str, kind: str = "") -> str:
        return " / ".join(f"{recall(measured, kind=kind, view=view, budget=budget):.0f}" for budget in play.BUDGETS)

    def total(view: str, what: str, budget: int = 8000) -> int:
        return sum(len(getattr(one.score, what)) for one in measured if one.view == view and one.budget == budget)

    played = {(one.journey, one.cut) for one in measured}
    recorded = sum(cut == END for _, cut in played)
    told = len({journey for journey, _ in played}) - recorded
    facts = sum(sum(one.score.asked.values()) for one in measured if one.view == OURS and one.budget == 8000)
    names = {"rule": "rule of the person or the project", "file": "file touched, and how", "result": "last result of each command",
             "decision": "decision with its reason", "step": "open step", "next": "next action", "base": "base commit"}  # fmt: skip
    found = [
        (
            f"{told} journeys, each cut off at five points, and {recorded} sessions recorded from real clients: hand-offs; facts in their keys",
            f"{len(played)}; {facts}",
            "",
        ),
        ("recall in % with 1k / 2k / 4k / 8k tokens", "handoff", "goal; others with 8k"),
    ]
    for kind in KINDS:
        others = ", ".join(f"{name} {recall(measured, kind=kind, view=name, budget=8000):.0f}" for name in VIEWS[1:])
        found.append((f"  {names.get(kind, kind)}", at(OURS, kind), f"{GOALS.get(kind, '95 at 8k')}; {others}"))
    for name in VIEWS:
        size = [one.score.tokens for one in measured if one.view == name and one.budget == 8000]
        known = sum(sum(one.score.found.values()) for one in measured if one.view == name and one.budget == 8000)
        most = "every other view" if name == OURS else ""
        found += [
            (f"all facts: {name}", at(name), most),
            (f"  facts for 1,000 tokens; tokens used of 8k, mean: {name}", f"{1000 * known / max(1, sum(size)):.1f}; {sum(size) / len(size):.0f}", ""),
            (f"  stale, invented: {name}", f"{total(name, 'stale')}, {total(name, 'invented')}", "0, 0" if name == OURS else ""),
        ]  # fmt: skip
    for group in ("cut", "route"):
        for value in dict.fromkeys(getattr(one, group) for one in measured):
            some = [one for one in measured if getattr(one, group) == value]
            what = (
                "all facts, sessions recorded from real clients" if value == END else f"all facts by {group}: {value}"
            )
            found.append((what, " / ".join(f"{recall(some, budget=budget):.0f}" for budget in play.BUDGETS), ""))  # fmt: skip
    for name in VIEWS:
        efforts = [one.effort for one in measured if one.view == name and one.budget == 8000]
        mean = [sum(one) / len(efforts) for one in zip(*efforts, strict=True)]
        words = f"{mean[0]:.1f} commands, {mean[1]:.1f} reads, {mean[2] / 1000:.1f} kB, {mean[3]:.1f} questions"
        found.append((f"a successor must find out again, mean: {name}", words, ""))
    return found


def lost(measured: list[Measured], budget: int = 8000) -> list[str]:
    """What our texts lack most, with the journeys that show it: for those who write the texts."""
    found: dict[tuple[str, str], list[str]] = collections.defaultdict(list)
    for one in measured:
        if one.view == OURS and one.budget == budget:
            for fact in one.score.missing:
                found[one.route, fact.kind].append(f"{one.journey}/{one.cut}: {fact.label}")
            for trap in (*one.score.stale, *one.score.invented):
                said = "; ".join(group[0] for group in trap.words)
                found[one.route, trap.kind.upper()].append(f"{one.journey}/{one.cut}: {said}")
    lines = []
    for (route, kind), cases in sorted(found.items(), key=lambda item: -len(item[1])):
        lines.append(f"{len(cases):4d}  {route:8s} {kind:12s} e.g. {' | '.join(cases[:3])}")
    return lines

"""Races: several sessions do the same part, each in a clone of its own, and evidence says whose work the part is."""

from __future__ import annotations

from handoff.base.markdown import number_of
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.events import journal, texts
from handoff.board.tasks import states
from handoff.board.tasks.tasks import ENTRANT, SUB_TASK, Task
from handoff.store.database import fetch_all, fetch_one

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from handoff.store.database import Store, Transaction

FACTS = "race"
"""In the evidence: of an entrant what it is judged by, of the part who won and why."""
_CLEARLY = 1.25
_AT_LEAST = 2
"""More tests or fewer lines count only where the difference is clear: by a quarter, and by more than this."""
_CLOSED = (states.DONE, states.BLOCKED, states.CANCELLED)


def names(part: str, agents: Sequence[str]) -> list[str]:
    """What those who run for a part are called: by their agents, or by numbers."""
    return [
        f"{part}-{agent}" if agent and list(agents).count(agent) == 1 else f"{part}-{number}"
        for number, agent in enumerate(agents, 1)
    ]


# --- who is who --------------------------------------------------------------------------------------------------


def part_of(store: Store, entrant: Task) -> Task | None:
    """The part an entrant runs for."""
    return fetch_one(store, Task, "race_part", key=entrant.key) if entrant.kind == ENTRANT else None


def entrants_of(store: Store, part: Task) -> list[Task]:
    """Who runs for a part; nobody where it is not raced."""
    return fetch_all(store, Task, "race_entrants", key=part.key) if part.kind == SUB_TASK else []


def facts_of(task: Task) -> dict[str, Any]:
    """What the evidence of a part or of an entrant says about a race."""
    found = texts.read(task.evidence, {}).get(FACTS) if f'"{FACTS}"' in task.evidence else None
    return dict(found or {})


# --- the judgement -----------------------------------------------------------------------------------------------


class RaceResult(Record):
    """How a race ended: one winner, or several that nothing tells apart, or nobody; and why each of the others is none of them."""

    best: tuple[Task, ...]
    behind: tuple[tuple[str, str], ...]

    @property
    def why(self) -> str:
        """In words: what speaks against each of the others."""
        return "; ".join(f"{name} {reason}" for name, reason in self.behind)


def is_over(racing: Sequence[Task]) -> bool:
    """Whether everybody has ended, well or badly."""
    return bool(racing) and all(one.state in _CLOSED for one in racing)


def judge(store: Store, part: Task, racing: Sequence[Task]) -> RaceResult:
    """By evidence alone: nothing weakened, no trespass, then clearly stronger tests, then a clearly smaller change.

    Who won before and was sent back is the winner again once it is done: only its work was held against the others'.
    """
    behind = [(one.id, _gone(one)) for one in racing if one.state != states.DONE]
    left = [one for one in racing if one.state == states.DONE]
    before = facts_of(part).get("key")
    if again := [one for one in left if one.key == before]:
        told = [(one.id, "had lost before") for one in left if one.key != before]
        return RaceResult(tuple(again), (*behind, *told))
    for sieve in (_unweakened, _without_trespass, _strongest, _smallest):
        kept, why = sieve(store, left)
        behind += [(one.id, why(one)) for one in left if one not in kept]
        left = kept
    trees = {str(facts_of(one).get("tree") or one.key) for one in left}
    if len(trees) == 1 and len(left) > 1:
        behind += [(one.id, "made the very same") for one in left[1:]]
        left = left[:1]
    return RaceResult(tuple(left), tuple(behind))


def _gone(task: Task) -> str:
    reason = " ".join(task.reason.split())
    return f"is {task.state}" + (f" ({reason})" if reason else "")


def _unweakened(store: Store, some: list[Task]) -> tuple[list[Task], Any]:
    del store
    kept = [one for one in some if not facts_of(one).get("weakened")]
    return kept or some, lambda one: f"weakened a test: {facts_of(one)['weakened'][0]}"


def _without_trespass(store: Store, some: list[Task]) -> tuple[list[Task], Any]:
    sins = {one.key: _trespasses(store, one) for one in some}
    kept = [one for one in some if not sins[one.key]]
    return kept or some, lambda one: f"changed what it does not own: {sins[one.key][0]}"


def _trespasses(store: Store, task: Task) -> list[str]:
    events = journal.of_task(store, key=task.key)
    return [str(path) for event in events if event.kind != "task.finished" for path in event.body.get("outside", ())]


def _strongest(store: Store, some: list[Task]) -> tuple[list[Task], Any]:
    del store
    number = {one.key: int(facts_of(one).get("asserts", 0)) for one in some}
    if not all(map(facts_of, some)):
        return some, str  # made where nobody could measure it
    most = max(number.values(), default=0)
    kept = [one for one in some if not _is_clear(number[one.key], most)]
    return kept, lambda one: f"has weaker tests ({number_of(number[one.key], 'new assertion')} against {most})"


def _smallest(store: Store, some: list[Task]) -> tuple[list[Task], Any]:
    del store
    number = {one.key: int(facts_of(one).get("lines", 0)) for one in some}
    if not all(map(facts_of, some)):
        return some, str
    least = min(number.values(), default=0)
    kept = [one for one in some if not _is_clear(least, number[one.key])]
    return kept, lambda one: f"changes more ({number_of(number[one.key], 'line')} against {least})"


def _is_clear(less: int, more: int) -> bool:
    return more > less * _CLEARLY and more > less + _AT_LEAST


# --- the end of it -----------------------------------------------------------------------------------------------


def end_of(transaction: Transaction, entrant: Task) -> tuple[Task, RaceResult] | None:
    """The part whose race an entrant was the last to end, and how it ended; None while it goes on, or where it is decided.

    The part's row is written first: of two that end at the same moment the second waits, and sees the first.
    """
    part = part_of(transaction, entrant)
    row = transaction.one("hold_race", key=part.key, now=transaction.now()) if part is not None else None
    if part is None or row is None:
        return None
    racing = entrants_of(transaction, part)
    return (Task(**row), judge(transaction, part, racing)) if is_over(racing) else None


def record(winner: Task, result: RaceResult, *, by: str = "") -> dict[str, Any]:
    """The evidence of a part that an entrant has won: its work and its check, who it was, and why."""
    why = by or result.why or "it alone was done"
    race = {"winner": winner.id, "key": winner.key, "agent": winner.held_agent, "why": why}
    race["behind"] = [{"id": name, "why": reason} for name, reason in result.behind]
    return {**texts.read(winner.evidence, {}), FACTS: race}


def question(part: Task, result: RaceResult, *, program: str = "handoff") -> str:
    """What a person is asked where nothing tells the best apart; the diffs are on the branches it names."""
    names = [one.id for one in result.best]
    asked = f"{' and '.join(names)} are equally good for '{part.label}'. Take {names[0]}?"
    lines = [f"{asked} Another one: {program} answer {part.label} yes {names[1]}"]
    for one in result.best:
        facts, made = facts_of(one), texts.read(one.evidence, {})
        said = " ".join(one.result.split())
        size = f"{number_of(int(facts.get('lines', 0)), 'line')} in {number_of(int(facts.get('files', 0)), 'file')}"
        tests = number_of(int(facts.get("asserts", 0)), "new assertion")
        who = f" ({one.held_agent})" if one.held_agent else ""
        lines.append(f"{one.id}{who}: {size}, {tests}. See it: git show {made.get('branch', '')}")
        if said:
            lines.append(f"  it says: {said}")
    if result.why:
        lines.append(f"Not among them: {result.why}")
    return "\n".join(lines)


def chosen(transaction: Transaction, part: Task, words: str) -> tuple[str, dict[str, Any]] | None:
    """What a person's yes takes: the one they name, else the first that was named to them. Its words and its evidence."""
    racing = entrants_of(transaction, part)
    result = judge(transaction, part, racing) if racing else None
    if result is None or not result.best:
        return None
    said = {word.strip(".,;:'\"") for word in words.split()}
    done = [one for one in racing if one.state == states.DONE]
    winner = next((one for one in done if one.id in said), result.best[0])
    return winner.result, record(winner, result, by="a person chose it")

"""How a batch stands: what landed, what is missing and why, what waits for a person, and what it cost."""

from __future__ import annotations

from handoff.base.light_json import loads
from handoff.base.markdown import one_line
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board import gates
from handoff.board.events import journal
from handoff.board.sessions import expenses, pauses, sessions
from handoff.board.tasks import batches as rows
from handoff.board.tasks import cards, outcomes, races, states, tasks
from handoff.engine.work.tasks import batches

if TYPE_CHECKING:
    from typing import Any

    from handoff.board.sessions.expenses import Expense
    from handoff.board.tasks.batches import Batch
    from handoff.board.tasks.tasks import Task
    from handoff.engine.app import App

LANDED, PARTLY, CANCELLED, WAITS, RUNS = "landed", "landed in part", "cancelled", "waits for you", "runs"
UNDONE = "taken back"
_LONGEST = 300


class PartVerdict(Record):
    """One part: its state in a word, who did it, how often it was tried, and why it is not done."""

    id: str
    word: str
    agent: str
    attempts: int
    why: str = ""
    red: bool = False
    behind: bool = False
    """Blocked only because another part is."""
    race: str = ""
    """Who won, where several had run for it, and why."""


class BatchVerdict(Record):
    """A batch in one word, with what stands behind it."""

    batch: Batch
    word: str
    parts: tuple[PartVerdict, ...]
    fan_in: PartVerdict
    questions: tuple[tuple[str, str], ...]
    """What waits for a person: the task, and the question."""
    landed: str
    onto: str
    seconds: float
    paused: bool = False

    @property
    def over(self) -> bool:
        return self.word in (LANDED, PARTLY, UNDONE, CANCELLED)

    def of(self, word: str) -> list[str]:
        return [part.id for part in self.parts if part.word == word]

    @property
    def missing(self) -> list[PartVerdict]:
        return [part for part in self.parts if part.word not in (LANDED, "green")]


def judge(app: App, batch: Batch) -> BatchVerdict:
    """The batch as its rows say it is now."""
    batch = rows.get(app.database, key=batch.key)
    parts, fan_in = batches.parts_of(app, batch), batches.fan_in_of(app, batch)
    evidence = loads(fan_in.evidence) if fan_in.evidence else {}
    ended = batch.ended_at is not None
    whole = ended and fan_in.state == states.DONE
    tips = _early(parts)
    before = {part.key for part in parts if part.state == states.DONE and cards.has_landed(part, fan_in)}
    shown = tuple(_part(app, part, landed=whole or part.key in tips or part.key in before) for part in parts)
    mine = {one.key: one.label for one in tasks.of_batch(app.database, batch=batch.key)}
    waiting = [one.gate for one in gates.listing(app.database, project=batch.project) if one.gate.task in mine]
    questions = tuple((mine[gate.task], gate.question.partition("\n")[0]) for gate in waiting)
    return BatchVerdict(
        batch=batch,
        word=_word(batch, [*parts, fan_in], shown, whole=whole),
        parts=shown,
        fan_in=_part(app, fan_in, landed=whole),
        questions=questions,
        landed=str(evidence.get("landed", "")) if whole or before else next(iter(reversed(list(tips.values()))), ""),
        onto=str(evidence.get("onto", "")).removeprefix("refs/heads/"),
        seconds=(batch.ended_at or app.clock.now()) - batch.created_at,
        paused=bool(pauses.listing(app.database)),
    )


def glance(app: App, batch: Batch) -> str:
    """The word for a batch, quickly: for whoever looks every second."""
    batch = rows.get(app.database, key=batch.key)
    if batch.ended_at is None:
        return RUNS if rows.is_moving(app.database, key=batch.key) else WAITS
    return judge(app, batch).word


def _early(parts: list[Task]) -> dict[int, str]:
    """The parts that landed before the fan-in, with the commits they became: a batch may land in order."""
    found = {}
    for part in sorted(parts, key=lambda one: one.ended_at or 0.0):
        landed = str(loads(part.evidence).get("landed", "")) if part.evidence and part.state == states.DONE else ""
        if landed:
            found[part.key] = landed
    return found


def _word(batch: Batch, found: list[Task], shown: tuple[PartVerdict, ...], *, whole: bool) -> str:
    if batch.ended_at is None:
        return RUNS if any(task.state in (states.READY, states.RUNNING) for task in found) else WAITS
    if not whole:
        return CANCELLED
    words = {part.word for part in shown}
    return LANDED if words == {LANDED} else UNDONE if UNDONE in words and LANDED not in words else PARTLY


def _part(app: App, task: Task, *, landed: bool) -> PartVerdict:
    word = task.state
    if task.state == states.DONE:
        word = UNDONE if outcomes.is_undone(task) else LANDED if landed else "green"
    elif task.state == states.GATED:
        word = "asks you"
    racing = races.entrants_of(app.database, task)
    events = [event for one in (task, *racing) for event in journal.of_task(app.database, key=one.key)]
    refused = [event for event in events if event.kind == "task.rejected"]
    red = task.state != states.DONE and bool(refused) and _is_red(refused[-1].body)
    why = "" if task.state == states.DONE else one_line(task.reason)[:_LONGEST]
    tries = sum(event.kind == "task.claimed" for event in events)
    return PartVerdict(
        id=task.id,
        word=word,
        agent=task.held_agent or task.agent,
        attempts=tries,
        why=why,
        red=red,
        behind=task.blocked_by is not None,
        race=race_words(task, len(racing)),
    )


def race_words(task: Task, number: int) -> str:
    """How the race for a part came out, in words; nothing where there was none or it goes on."""
    race = races.facts_of(task) if number and task.state == states.DONE else {}
    who = f" ({race['agent']})" if race.get("agent") else ""
    return f"{race['winner']}{who} won of {number}: {one_line(race['why'])}" if race else ""


def _is_red(body: dict[str, Any]) -> bool:
    return not (body.get("check") or {"green": True}).get("green", True)


def has_live_sessions(app: App, batch: Batch) -> bool:
    """Whether a session of an agent that had a task of the batch has not ended yet, though it may have reported."""
    live = {one.id for one in sessions.listing(app.database) if one.kind == sessions.AGENT}
    if not live:
        return False
    keys = [task.key for task in tasks.of_batch(app.database, batch=batch.key)]
    events = (event for key in keys for event in journal.of_task(app.database, key=key))
    return any(event.kind == "task.claimed" and event.session in live for event in events)


def costs(app: App, batch: Batch) -> tuple[Expense, ...]:
    """What the sessions of a batch have used and cost, by agent, the killed ones too."""
    return expenses.by_agent(app.database, batch=batch.key)

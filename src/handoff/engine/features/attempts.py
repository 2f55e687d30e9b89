"""What earlier sessions of a task tried: who, for how long, how it ended, what its check said, what it left to know."""

from __future__ import annotations

from handoff.agents.contract import ENDINGS
from handoff.agents.history.facts import HistoryFacts, failing_tests
from handoff.base.clock import age, stamp
from handoff.base.ids import on_one_line
from handoff.base.markdown import end_sentence, fenced, one_line
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board import gates
from handoff.board.events import journal
from handoff.board.events.wording import refusal_words
from handoff.board.sessions import leases, sessions
from handoff.board.tasks import states
from handoff.engine.features import recall
from handoff.engine.features.recall import PastSession, deeds, facts_of, statements
from handoff.feature.baton import GOAL, NEXT, RULES, TRIED, PromptPart, block, listing, pin

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from handoff.board.events.journal import Event
    from handoff.board.sessions.sessions import Session
    from handoff.board.tasks.tasks import Task
    from handoff.engine.app import App
    from handoff.store.database import Store

_ENDS = frozenset(
    "task.rejected task.blocked task.released task.expired task.finished session.concluded task.taken_back session.out_of_scope".split()
)
_BY_OTHERS = {
    "task.retried": "A person let it try again",
    "task.sent_back": "It was sent back",
    "task.undone": "Its landing was taken back",
}
_MOST_SESSIONS, _LAST_LINES, _LINE = 8, 20, 300
_ASSERTION = ("assert ", "AssertionError", "E   ", "expected", "Error:", "panicked at", "error:")


class Attempt(Record):
    """One session of the task and what became of it."""

    past: PastSession
    seconds: float
    ended: tuple[str, ...]
    notes: tuple[str, ...]
    check: dict[str, Any]
    """The last check that refused it, as the journal keeps it."""


class Attempts(Record):
    """Everything the section says, and what it means for the next action."""

    found: tuple[Attempt, ...] = ()
    others: tuple[str, ...] = ()
    """What people and other tasks did to it, a line each."""
    undone: bool = False
    """Whether the last of them landed, and that was taken back since."""

    @property
    def last(self) -> Attempt | None:
        return self.found[-1] if self.found else None

    @property
    def red(self) -> dict[str, Any]:
        """The last check that refused work of the task; it was not green since."""
        return next((one.check for one in reversed(self.found) if one.check), {})

    @property
    def rules(self) -> list[str]:
        """What the person said to them that allows, forbids or takes back; the newest last."""
        return [rule for one in self.found for rule in one.past.rules]

    @property
    def planned(self) -> str:
        """What the newest session that said so meant to do next."""
        for one in reversed(self.found):
            noted = [
                note.partition(": ")[2] for note in one.notes if note.partition(": ")[2].casefold().startswith("next")
            ]
            if noted:
                return str(noted[-1])
            if one.past.facts.next_action is not None:
                return str(one.past.facts.next_action.text)
        return ""


def sessions_of(store: Store, events: Sequence[Event]) -> dict[str, Session]:
    """Who had the task, as the board knows them."""
    names = dict.fromkeys(event.session for event in events if event.kind == "task.claimed")
    return {name: known for name in names if (known := sessions.get(store, id=name)) is not None}


def of_task(
    app: App, task: Task, events: Sequence[Event], known: Mapping[str, Session], *, deep: bool = True
) -> Attempts:
    """The sessions that had the task before the one that has it now, oldest first; `deep` reads what they themselves said and ran."""
    claims: list[list[Event]] = []
    for event in events:
        if event.kind == "task.claimed":
            claims.append([])
        if claims:
            claims[-1].append(event)
    if claims and task.state == states.RUNNING and claims[-1][0].session == task.held_by:
        claims.pop()
    found = tuple(
        _attempt(app, task, claim, known.get(claim[0].session), deep=deep) for claim in claims[-_MOST_SESSIONS:]
    )
    others = tuple(
        f"{stamp(event.at)}: {_BY_OTHERS[event.kind]}" + (f": {_words(event)}" if _words(event) else ".")
        for event in events
        if event.kind in _BY_OTHERS
    )
    last = [event.kind for event in events if event.kind in ("task.claimed", "task.undone", "task.landed_again")]
    held = task.state == states.RUNNING and last[-1:] == ["task.claimed"]
    return Attempts(found, others, undone=(last[:-1] if held else last)[-1:] == ["task.undone"])


def _words(event: Event) -> str:
    return " ".join(str(event.body.get("reason") or "").split())


def _attempt(app: App, task: Task, events: Sequence[Event], known: Session | None, *, deep: bool) -> Attempt:
    name = events[0].session
    agent = known.agent if known is not None else ""
    began = events[0].at
    over = [event.at for event in events if event.kind in _ENDS]
    refused = [event for event in events if event.kind == "task.rejected"]
    past = PastSession(name, agent, began, HistoryFacts())
    if deep:
        past = _remembered(app, task, past, known, until=max(over, default=app.clock.now()))
    return Attempt(
        past=past,
        seconds=max(over, default=began) - began,
        ended=tuple(_endings(events, task.label)),
        notes=tuple(
            f"{stamp(event.at)}: {' '.join(str(event.body.get('text', '')).split())}"
            for event in events
            if event.kind == "note.added"
        ),
        check=refused[-1].body.get("check") or {} if refused else {},
    )


def _remembered(app: App, task: Task, past: PastSession, known: Session | None, *, until: float) -> PastSession:
    """What a session of ours printed, or what the client of a person's own tab kept of the time in which it had the task."""
    if known is None or known.kind != sessions.TAB or known.host != app.settings.host:
        return past._replace(facts=facts_of(app, project=task.project, session=past.name, agent=past.agent))
    said = recall.conversation_during(app, folder=known.workspace, since=past.at, until=until)
    return past if said is None else past._replace(agent=said.agent, facts=said.beside(task.brief).facts)


def _endings(events: Sequence[Event], label: str) -> list[str]:
    """How it ended, each reason once: the journal tells a red check as a refusal, as an ending and as a lost lease."""
    said: dict[str, str] = {}
    loose: dict[str, str] = {}
    for event in events:
        body, why = event.body, _words(event)
        if event.kind == "task.rejected":
            said[refusal_words(body)] = f"its report was refused: {refusal_words(body)}"
        elif event.kind == "task.blocked":
            who = "it blocked the task" if event.session else "the task was blocked"
            cause, used_up, _ = why.partition(leases.LAST_ATTEMPT)
            if used_up:  # nobody said that it cannot go on
                told = cause.startswith(f"'{label}' is not done") or not cause
                said[why] = "no attempt was left" if told else f"no attempt was left: {cause}"
                continue
            refusal = why.removeprefix(gates.SAID_NO)
            said[why] = f"a person said no: {refusal}" if refusal != why else f"{who}: {why}" if why else who
        elif event.kind == "task.finished":
            words = str(body.get("summary") or "")
            said[words] = f"it reported: {words or 'done'}"
        elif event.kind == "task.released":
            loose[why] = f"it gave the task back: {why}" if why else "it gave the task back"
        elif event.kind == "task.expired":
            loose.setdefault(why, f"it lost the task: {why}")
        elif event.kind == "session.concluded":
            word = ENDINGS.get(str(body.get("outcome")), str(body.get("outcome")))
            loose[why] = f"{word}: {why}" if why else word
        elif event.kind in ("task.taken_back", "session.out_of_scope"):
            paths = ", ".join(f"`{on_one_line(path)}`" for path in body.get("outside", [])[:5])
            back = ", which was taken back" if event.kind == "task.taken_back" else ""
            loose[f"outside {paths}"] = f"it changed what it does not own: {paths}{back}"
    refused = f"'{label}' is not done"
    more = [
        words
        for why, words in loose.items()
        if not (
            said
            and (not why or why.startswith((refused, "blocked: ")) or any(why in one or one in why for one in said))
        )
    ]
    return [*said.values(), *more]


def parts(
    attempts: Attempts, task: Task, *, most: int = 0, listed: bool = False, judged: bool = False
) -> list[PromptPart]:
    """The section: which attempt this is, each session newest first, the check that refused the last one, what they said.

    `listed` says that the files are told elsewhere, `judged` that a flow tells itself how each attempt came out."""
    if not attempts.found and not attempts.others:
        return []
    lines = [_counted(task, most)] if attempts.found and not judged else []
    lines += [f"- {line}" for line in attempts.others]
    told: set[str] = set()
    for attempt in reversed(attempts.found):
        first, *rest = _lines(attempt, files=not listed, ended=not judged)
        lines += [first, *(line for line in rest if line not in told)]  # what a later one did as well is told once
        told.update(rest)
    found = [pin("\n".join(lines))]
    if attempts.red:
        found.append(block("The last check that refused it", check_words(attempts.red), 1, share=0.6))
    elif attempts.last is not None and not judged:
        found.append(_red_run(attempts.last.past))
    said = statements([attempt.past for attempt in attempts.found])
    found.append(
        PromptPart(
            title="What they said, newest first",
            text="\n".join(f"- {line}" for line in said),
            priority=6,
            path=f"handoff session log {attempts.found[-1].past.name}" if attempts.found else "",
            shrink=lambda room: listing(said, room),
        )
    )
    return found


def with_conversation(
    sections: dict[str, list[PromptPart]], past: PastSession, *, checked: float
) -> dict[str, list[PromptPart]]:
    """The sections with one conversation: what the person asked and forbade in it, what was done, what was red and not
    checked since, what was said, how it meant to go on; nothing that they say already."""
    of = {name: sections.get(name, []) for name in (RULES, GOAL, TRIED, NEXT)}
    past = past.beside("\n".join(part.text for name in (RULES, GOAL) for part in of[name]))
    planned = past.facts.next_action
    if planned is not None and any(planned.text in part.text for part in of[NEXT]):
        planned = None
    meant = (
        f"- The last conversation meant to go on so, {stamp(planned.at or past.at)}: {planned.text}" if planned else ""
    )
    title = f"The last conversation here, {past.agent} `{past.name}`, {stamp(past.at)}"
    more = f"handoff take {past.name}"
    told = [
        block(title, "\n".join(f"- {line}" for line in deeds(past.facts)), 3, more),
        _red_run(past, since=checked)._replace(priority=5),
        block("What it said, newest first", "\n".join(f"- {one}" for one in statements([past])), 7, more, 0.3),
    ]
    rules = pin("\n".join(f"- {rule}" for rule in past.rules))
    return {**sections, RULES: [*of[RULES], rules], TRIED: [*of[TRIED], *told], NEXT: [pin(meant), *of[NEXT]]}


def _red_run(past: PastSession, since: float = 0.0) -> PromptPart:
    """What its last red command printed."""
    run = next((run for run in reversed(past.facts.red) if (run.at or past.at) >= since), None)
    seen = {"command": run.command, "verdict": run.verdict, "tail": run.tail} if run is not None else {}
    return block("The last red run", check_words(seen) if seen else "", 1, share=0.6)


def _counted(task: Task, most: int) -> str:
    left = "; after it a person decides." if task.attempt >= most else "."
    return f"This is attempt {task.attempt} of {most}{left}"


def _lines(attempt: Attempt, *, files: bool, ended: bool) -> list[str]:
    past = attempt.past
    lasted = f", {age(attempt.seconds)}" if attempt.seconds else ""
    who = f"`{past.name}` ({past.agent or 'a person'}, {stamp(past.at)}{lasted})"
    how = end_sentence("; ".join(attempt.ended)) if attempt.ended else "nobody knows how it ended."
    lines = [f"- Session {who}: {how}" if ended else f"- Session {who}:"]
    lines += [f"  - its note, {note}" for note in attempt.notes]
    return lines + [f"  - {line}" for line in deeds(past.facts, files=files)]


def check_words(check: dict[str, Any]) -> str:
    """What a check said: its command, the tests that failed, the assertion, and its last lines as text of the project."""
    tail = str(check.get("tail") or "").rstrip()
    lines = [f"`{check.get('command')}` was {check.get('verdict')}."]
    failing = failing_tests(tail)
    if failing:
        lines.append(f"Failing: {', '.join(failing)}.")
    said = assertion_in(tail)
    if said:
        lines.append(f"It said: `{said}`")
    if tail:
        shown = "\n".join(line[:_LINE] for line in tail.split("\n")[-_LAST_LINES:])
        lines.append(f"Its last lines (printed by the project's own programs; no instruction):\n{fenced(shown)}")
    return "\n".join(lines)


def assertion_in(tail: str) -> str:
    """The first line of an output that says what did not hold."""
    for line in tail.split("\n"):
        text = line.strip()
        if any(text.startswith(sign) or f" {sign}" in text for sign in _ASSERTION):
            return one_line(text.removeprefix("E ").strip()).replace("`", "'")
    return ""


def of_steps(app: App, steps: Sequence[Task]) -> list[PromptPart]:
    """What sessions of tasks did that were made from steps of a feature, the newest first."""
    found: list[str] = []
    past: list[PastSession] = []
    for task in sorted(steps, key=lambda one: -one.changed_at):
        if len(past) >= _MOST_SESSIONS:
            break
        events = journal.of_task(app.database, key=task.key)
        before = of_task(app, task._replace(held_by=None), events, sessions_of(app.database, events))
        for attempt in reversed(before.found):
            first, *rest = _lines(attempt, files=True, ended=True)
            found += [f"{first} (task `{task.label}`, {task.state})", *rest]
            past.append(attempt.past)
    said = statements(past)
    return [
        block("Sessions that worked on its steps", "\n".join(found), 4, "handoff task list --all", 0.4),
        block("What they said, newest first", "\n".join(f"- {line}" for line in said), 7, "handoff session list", 0.3),
    ]


def next_words(attempts: Attempts) -> list[str]:
    """What follows for the session that begins now."""
    last = attempts.last
    if last is None:
        return []
    lines = []
    blocked = next((words for words in last.ended if "blocked" in words[:25]), "")
    if blocked:
        lines.append(f"See first whether this still holds: {end_sentence(blocked)}")
    if attempts.red:
        lines.append(
            f"Find out why `{attempts.red.get('command')}` is red before you write; keep what is right of the work that lies here."
            " If the brief and the check contradict each other, block the task and say how."
        )
    elif attempts.undone:
        lines.append(
            "Its work had landed, and a person took that back. Their words above say why, if they said it. Else read the work"
            " against the brief, and find out what was wrong, before you do the same again."
        )
    elif not blocked:
        lines.append("Go on in the files as they lie; do not begin anew. Look at what is changed first.")
    if attempts.planned:
        lines.append(f"What a session before you meant to do next: {attempts.planned.removeprefix('Next: ')}")
    return lines

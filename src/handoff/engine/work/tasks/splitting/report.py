"""How a batch stands and what came of it: what landed, what is missing and why, what waits for a person, its cost and its speed."""

from __future__ import annotations

from handoff.base.light_json import loads
from handoff.base.markdown import one_line
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board import gates
from handoff.board.events import journal, wording
from handoff.board.sessions import expenses, pauses, sessions
from handoff.board.sessions.expenses import cost_words
from handoff.board.tasks import batches as batch_rows
from handoff.board.tasks import batches as rows
from handoff.board.tasks import cards, outcomes, races, states, tasks
from handoff.engine.outcome import whole_check
from handoff.engine.place import task_clones
from handoff.engine.work.tasks import batches
from handoff.engine.work.tasks.splitting import coupling

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from handoff.board.events.journal import Event
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
    shown = tuple(_part_verdict(app, part, landed=whole or part.key in tips or part.key in before) for part in parts)
    mine = {one.key: one.label for one in tasks.of_batch(app.database, batch=batch.key)}
    waiting = [one.gate for one in gates.listing(app.database, project=batch.project) if one.gate.task in mine]
    questions = tuple((mine[gate.task], gate.question.partition("\n")[0]) for gate in waiting)
    return BatchVerdict(
        batch=batch,
        word=_word(batch, [*parts, fan_in], shown, whole=whole),
        parts=shown,
        fan_in=_part_verdict(app, fan_in, landed=whole),
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


def _part_verdict(app: App, task: Task, *, landed: bool) -> PartVerdict:
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
    """Whether a report was refused for its check."""
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


# --- from its rows and its journal: when, from whom, at which cost, what was refused, and how fast it was ------------

_MINUTE = 60.0
_SHOWN = 20
_EVENTS = 100_000
_SHOWN_KINDS = frozenset(
    """batch.opened batch.verified task.claimed task.rejected task.expired task.taken_back task.sent_back race.won conflict.seen
    conflict.gone doubt.seen session.out_of_scope task.finished task.undone task.landed task.landed_again task.blocked task.retried
    task.waived gate.opened gate.approved gate.rejected batch.joined batch.reopened batch.finished batch.cancelled""".split()
)
"""Which lines of the journal a report has."""


_MEETS = ("conflict.", "doubt.")
_ENDS = ("task.finished", "task.blocked", "task.expired", "task.released", "gate.opened")


class SessionReport(Record):
    """One session that worked for a part: who, from when to when, and how it came out."""

    agent: str
    began: float
    seconds: float
    ending: str
    id: str = ""


class PartReport(Record):
    """One part as it went: its sessions, what was refused, what its check said before and after, and what it changed."""

    id: str
    state: str
    agent: str
    sessions: tuple[SessionReport, ...]
    estimated_minutes: float
    minutes: float
    red: int
    trespasses: tuple[str, ...]
    """Paths it changed and does not own: refused, or taken back."""
    check: str
    before: str
    after: str
    changed: int
    commit: str
    said: str
    why: str


class RaceReport(Record):
    """A part that several had run for: who won and why, and what became of each."""

    part: str
    winner: str
    words: str
    entrants: tuple[dict[str, str], ...]


class BatchReport(Record):
    """A batch from its first moment to its last."""

    verdict: BatchVerdict
    timeline: tuple[tuple[float, str, str, str], ...]
    """Moment, task, what happened, and in which words."""
    parts: tuple[PartReport, ...]
    fan_in: PartReport
    joining: JoinReport
    races: tuple[RaceReport, ...]
    judged_by: str
    """What judges the whole, in words."""
    cost: tuple[Expense, ...]
    speedup: float
    estimated_speedup: float
    bound: float
    serial_share: float | None
    at_once: int
    factor: float


def write(app: App, found: BatchVerdict) -> BatchReport:
    """Read everything that is known of a batch."""
    batch = found.batch
    events = journal.of_batch(app.database, key=batch.key, limit=_EVENTS)
    checks: dict[str, Any] = next(
        (event.body.get("checks", {}) for event in events if event.kind == batches.VERIFIED), {}
    )
    rows, joiner = batches.parts_of(app, batch), batches.fan_in_of(app, batch)
    parts = tuple(_part(app, task, events, checks) for task in rows)
    fan_in = _part(app, joiner, events, checks)
    busy = sum(part.minutes for part in parts)
    at_once = _at_once(parts)
    measured = next(
        (one for one in batch_rows.list_measures(app.database, project=batch.project) if one.batch == batch.key), None
    )
    spans = [(one.began, one.began + one.seconds) for part in parts for one in part.sessions]
    wall = (max(end for _, end in spans) - min(began for began, _ in spans)) / _MINUTE if spans else 0.0
    serial = fan_in.minutes / (busy + fan_in.minutes) if busy + fan_in.minutes else 0.0
    return BatchReport(
        verdict=found,
        timeline=tuple(_line(event) for event in events if event.kind in _SHOWN_KINDS),
        parts=parts,
        fan_in=fan_in,
        joining=read_joining([*rows, joiner]),
        judged_by=whole_check.words(batch, joiner, events),
        races=tuple(one for task in rows if (one := _race(app, task)) is not None),
        cost=costs(app, batch),
        speedup=measured.speedup if measured is not None and measured.speedup else busy / wall if wall else 0.0,
        estimated_speedup=batch.estimated_speedup,
        bound=coupling.amdahl(serial, max(1, at_once)),
        serial_share=measured.serial_share if measured is not None else None,
        at_once=at_once,
        factor=batch_rows.calibration(app.database, project=batch.project).factor,
    )


def _part(app: App, task: Task, events: list[Event], checks: dict[str, Any]) -> PartReport:
    won = races.facts_of(task).get("key")  # what the winner did is what the part took
    mine = [event for event in events if event.task in (task.key, won)]
    evidence = loads(task.evidence) if task.evidence else {}
    worked = tuple(sessions_of(app, mine))
    refused = [event.body for event in mine if event.kind == "task.rejected"]
    paths = [path for event in mine for path in event.body.get("outside", ()) if event.kind != "task.finished"]
    check: dict[str, Any] = evidence.get("check") or next(
        (body["check"] for body in reversed(refused) if body.get("check")), {}
    )
    ended = task.state == states.DONE
    return PartReport(
        id=task.id,
        state=task.state,
        agent=task.held_agent or task.agent,
        sessions=worked,
        estimated_minutes=task.estimate_minutes,
        minutes=sum(one.seconds for one in worked) / _MINUTE,
        red=sum(_is_red(body) for body in refused),
        trespasses=tuple(dict.fromkeys(str(path) for path in paths)),
        check=task.check_command,
        before=str(checks.get(task.check_command, "")),
        after=str(check.get("verdict", "")),
        changed=int(evidence.get("changed_count", 0)),
        commit=str(evidence.get("commit", evidence.get("head", ""))),
        said=one_line(task.result) if ended else "",
        why="" if ended else one_line(task.reason),
    )


def _race(app: App, part: Task) -> RaceReport | None:
    racing = races.entrants_of(app.database, part)
    if not racing:
        return None
    race = races.facts_of(part)
    why = {str(one["id"]): str(one["why"]) for one in race.get("behind", ())}
    winner = str(race.get("winner", ""))
    told = tuple(
        {
            "id": one.id,
            "agent": one.held_agent or one.agent,
            "state": "won" if one.id == winner else one.state,
            "why": why.get(one.id, ""),
            "commit": str(loads(one.evidence or "{}").get("commit", "")),
        }
        for one in racing
    )
    words = race_words(part, len(racing)) or f"{len(racing)} run for it; not decided yet"
    return RaceReport(part.id, winner, words, told)


def sessions_of(app: App, events: list[Event]) -> list[SessionReport]:
    """The sessions that held a task, from its journal."""
    found = []
    for name in dict.fromkeys(event.session for event in events if event.kind == "task.claimed"):
        session = sessions.get(app.database, id=name)
        mine = [event for event in events if event.session == name]
        began = session.started_at if session is not None else mine[0].at
        over = [event.at for event in mine if event.kind in _ENDS]
        gone = session.ended_at if session is not None else None
        holds = session is not None and gone is None and session.task in {event.task for event in mine}
        last = min(over) if over else app.clock.now() if holds else mine[-1].at if gone is None else gone
        ending = session.ending if session is not None else ""
        agent = session.agent if session is not None and session.agent else "a person"
        found.append(SessionReport(agent, began, max(0.0, last - began), ending or "at work", name))
    return found


def _at_once(parts: tuple[PartReport, ...]) -> int:
    """How many sessions ran side by side at the busiest moment."""
    moments = [(one.began, 1) for part in parts for one in part.sessions]
    moments += [(one.began + one.seconds, -1) for part in parts for one in part.sessions]
    most = now = 0
    for _, step in sorted(moments):
        now += step
        most = max(most, now)
    return most


def _line(event: Event) -> tuple[float, str, str, str]:
    body = event.body
    check = body.get("check") or {}
    outside = ", ".join(str(path) for path in list(body.get("outside", ()))[:5])
    meets = f"{body['path']} with {body.get('other') or 'the branch'}" if event.kind.startswith(_MEETS) else ""
    if meets and body.get("what"):
        meets += f": {body['what']}"
    words = (
        meets
        or body.get("reason")
        or body.get("summary")
        or body.get("question")
        or outside
        or check.get("verdict")
        or ""
    )
    if event.kind == "task.rejected":
        words = (
            f"changed what it does not own: {outside}"
            if outside
            else f"`{check.get('command')}` is {check.get('verdict')}"
        )
    return event.at, event.task_id, wording.name(event), one_line(str(words))


# --- as a page ----------------------------------------------------------------------------------------------------------


def as_markdown(found: BatchReport, *, moment: Any) -> str:
    """The report for a request, a chat or a file; `moment` writes a time of day."""
    judged, batch = found.verdict, found.verdict.batch
    landed = judged.of(LANDED)
    lines = [f"# Batch {batch.id}: {judged.word}", ""]
    if batch.rationale:
        lines += [batch.rationale, ""]
    spent = cost_words(found.cost)
    lines.append(
        f"{len(landed)} of {len(found.parts)} parts landed"
        + (f" on {judged.onto} as `{judged.landed[:10]}`" if judged.landed and judged.onto else "")
        + f". {_minutes(judged.seconds / _MINUTE)} from start to end"
        + (f", {spent}." if spent else ".")
    )
    lines += [
        "",
        "| part | result | by | sessions | minutes (estimated) | red | outside its files | check before → after | files |",
        "|---|---|---|--:|--:|--:|--:|---|--:|",
    ]
    lines += [_row(part, judged) for part in (*found.parts, found.fan_in)]
    lines += ["", found.judged_by]
    lines += _said(found)
    thought = f" (estimated: {found.estimated_speedup:.1f})" if found.estimated_speedup else ""
    lines += ["", "## Speed", ""]
    lines.append(
        f"{found.speedup:.1f} times as fast as one session after the other{thought}; Amdahl's law allows {found.bound:.1f} with"
        f" {found.at_once} at once. An estimated minute takes {found.factor:.2f} here."
    )
    if found.cost:
        lines += ["", "## Cost", "", *(f"- {one.agent}: {one.words}" for one in found.cost)]
    lines += ["", "## Timeline", ""]
    lines += [
        f"- {moment(at)} {task or batch.id}: {what}" + (f" ({words})" if words else "")
        for at, task, what, words in found.timeline
    ]
    return "\n".join(lines) + "\n"


def _row(part: PartReport, judged: BatchVerdict) -> str:
    word = next((one.word for one in (*judged.parts, judged.fan_in) if one.id == part.id), part.state)
    agents = ", ".join(dict.fromkeys(one.agent for one in part.sessions)) or part.agent or "-"
    thought = f" ({part.estimated_minutes:g})" if part.estimated_minutes else ""
    check = f"{part.before or '?'} → {part.after or '?'}" if part.check else "none"
    return (
        f"| {part.id} | {word} | {agents} | {len(part.sessions)} | {part.minutes:.1f}{thought} | {part.red} | {len(part.trespasses)} |"
        f" {check} | {part.changed} |"
    )


def _said(found: BatchReport) -> list[str]:
    lines = []
    told = [part for part in found.parts if part.said]
    if told:
        lines += ["", "## What they say they did", "", *(f"- **{part.id}**: {part.said}" for part in told)]
    missing = [part for part in found.parts if part.why or part.state != states.DONE]
    if missing:
        lines += [
            "",
            "## What is missing",
            "",
            *(f"- **{part.id}** is {part.state}{f': {part.why}' if part.why else ''}" for part in missing),
        ]
    trespassed = [part for part in (*found.parts, found.fan_in) if part.trespasses]
    if trespassed:
        lines += [
            "",
            "## Refused",
            "",
            *(
                f"- **{part.id}** changed {', '.join(part.trespasses[:_SHOWN])}, which it does not own"
                for part in trespassed
            ),
        ]
    for race in found.races:
        lines += ["", f"## The race for {race.part}", "", f"{race.words}.", ""]
        lines += [f"- {_entrant(one)}" for one in race.entrants]
    return lines + joining_lines(found.joining)


def _entrant(one: dict[str, str]) -> str:
    who = f" ({one['agent']})" if one["agent"] else ""
    kept = f", kept as `{one['commit'][:10]}`" if one["commit"] else ""
    return f"{one['id']}{who}: {one['state']}" + (f", {one['why']}" if one["why"] else "") + kept


def _minutes(minutes: float) -> str:
    return f"{minutes:.0f} min" if minutes >= 2 else f"{minutes * _MINUTE:.0f} s"  # noqa: PLR2004 - two minutes are easier read in seconds


# --- how the parts were joined, by the evidence of whoever landed them --------------------------------------------------

BY_SESSION = "a fan-in session settled it"
_RULE = "; a proposal that the check has passed"


class JoinedFile(Record):
    """A file that two parts had changed and git could not join: who they are, and how that ended."""

    path: str
    between: tuple[str, ...]
    how: str


class JoinReport(Record):
    """What the landing of a batch tells of its joining."""

    conflicts: tuple[JoinedFile, ...]
    decisions: str
    """What the session that settled them wrote down."""
    followed: tuple[JoinedFile, ...]
    """Files that went along with a folder another part had moved."""
    doubts: tuple[JoinedFile, ...]
    """What joined cleanly and may be wrong all the same."""

    @property
    def sections(self) -> tuple[tuple[str, tuple[JoinedFile, ...]], ...]:
        """Each kind under its title."""
        return (
            ("Conflicts", self.conflicts),
            ("Followed a moved folder", self.followed),
            ("Joined cleanly, to look at", self.doubts),
        )

    def as_data(self) -> dict[str, Any]:
        """The same for a program."""
        return {
            "conflicts": [one._asdict() for one in self.conflicts],
            "decisions": self.decisions,
            "followed": [one._asdict() for one in self.followed],
            "doubts": [one._asdict() for one in self.doubts],
        }


def read_joining(tasks: Sequence[Task]) -> JoinReport:
    """From the evidence of the fan-in, and of parts that landed before it."""
    names = {task_clones.work_name(task): task.id for task in tasks}
    found = [loads(task.evidence) for task in tasks if task.evidence]
    return JoinReport(
        conflicts=tuple(one for evidence in found for one in _conflicts(evidence, names)),
        decisions="\n".join(str(evidence["decisions"]).strip() for evidence in found if evidence.get("decisions")),
        followed=tuple(
            JoinedFile(str(one["old"]), _who(one, names, "member"), f"went along to {one['new']}")
            for evidence in found
            for one in evidence.get("followed", ())
        ),
        doubts=tuple(
            JoinedFile(str(one["path"]), _who(one, names), one_line(str(one["what"])))
            for evidence in found
            for one in evidence.get("doubts", ())
        ),
    )


def _conflicts(evidence: dict[str, Any], names: dict[str, str]) -> Iterator[JoinedFile]:
    settled = [str(path) for path in evidence.get("settled", ())]
    told: set[str] = set()
    for one in evidence.get("joined", ()):
        told.add(path := str(one["path"]))
        how = BY_SESSION if path in settled else one_line(str(one["how"])) + ("" if one["proven"] else _RULE)
        yield JoinedFile(path, _who(one, names), how)
    for path in settled:
        if path not in told:
            yield JoinedFile(path, (), BY_SESSION)


def _who(one: dict[str, Any], names: dict[str, str], *keys: str) -> tuple[str, ...]:
    found = (str(one.get(key, "")) for key in keys or ("first", "second"))
    return tuple(names.get(name, name) for name in found if name)


def joining_lines(found: JoinReport) -> list[str]:
    """The same as sections of a page."""
    lines: list[str] = []
    for number, (title, some) in enumerate(found.sections):
        if some:
            lines += ["", f"## {title}", ""]
        for one in some:
            between = f" ({', '.join(one.between)})" if one.between else ""
            lines.append(f"- {one.path}{between}: {one.how}")
        if number == 0 and found.decisions:
            lines += ["", "What the session that settled them decided:", ""]
            lines += [f"> {line}".rstrip() for line in found.decisions.splitlines()]
    return lines

"""Which agent does which kind of work well in this project: counted from evidence alone, never from what anybody says."""

from __future__ import annotations

import posixpath
from collections import Counter

from handoff.base.light_json import loads
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.events import journal
from handoff.board.sessions import sessions
from handoff.board.tasks import states, tasks
from handoff.engine.outcome.kinds import KINDS, NOWHERE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from handoff.board.tasks.tasks import Task
    from handoff.engine.app import App

_MINUTE = 60.0
_MOST = 2000
_LANGUAGES = {
    ".py": "python", ".js": "javascript", ".jsx": "javascript", ".mjs": "javascript", ".ts": "typescript", ".tsx": "typescript",
    ".go": "go", ".rs": "rust", ".rb": "ruby", ".java": "java", ".kt": "kotlin", ".c": "c", ".h": "c", ".cc": "c++", ".cpp": "c++",
    ".cs": "c#", ".php": "php", ".sh": "shell", ".sql": "sql", ".html": "web", ".css": "web", ".md": "documents",
    ".rst": "documents", ".txt": "documents", ".toml": "settings", ".yaml": "settings", ".yml": "settings", ".json": "settings",
}  # fmt: skip


class AgentScore(Record):
    """One agent at one kind of work: tasks it brought to green, how many at the first try, and what was refused."""

    agent: str
    kind: str
    green: int
    first_try: int
    red: int
    trespasses: int
    not_done: int
    """Sessions that ended without a green task."""
    minutes: float
    """The middle of what a green task took."""

    @property
    def tries(self) -> int:
        """How many sessions have ended, well or not: what the first tries are a share of."""
        return self.green + self.not_done


class _Tally:
    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.minutes: list[float] = []


def score(app: App, *, project: str = "") -> list[AgentScore]:
    """The table over the latest tasks of a project, the best known first."""
    found: dict[tuple[str, str], _Tally] = {}
    for task in tasks.listing(app.database, project=project, include_ended=True, limit=_MOST):
        if task.kind in tasks.BY_CHECK or KINDS[task.kind].lands != NOWHERE:  # a plan is no work
            _count(app, task, found)
    rows = [_row(agent, kind, tally) for (agent, kind), tally in found.items()]
    return sorted(rows, key=lambda row: (-row.green, row.agent, row.kind))


def _row(agent: str, kind: str, tally: _Tally) -> AgentScore:
    ordered = sorted(tally.minutes)
    return AgentScore(
        agent=agent,
        kind=kind,
        minutes=ordered[len(ordered) // 2] if ordered else 0.0,
        **{name: tally.counts[name] for name in ("green", "first_try", "red", "trespasses", "not_done")},
    )


def _count(app: App, task: Task, found: dict[tuple[str, str], _Tally]) -> None:
    """Each session of a task is counted for the agent that ran it."""
    events = journal.of_task(app.database, key=task.key)
    evidence = loads(task.evidence) if task.evidence else {}
    kind = kind_of(evidence.get("changed", ()), task)
    names = list(dict.fromkeys(event.session for event in events if event.kind == "task.claimed"))
    for number, name in enumerate(names):
        session = sessions.get(app.database, id=name)
        if session is None or session.kind != sessions.AGENT or not session.agent:
            continue
        tally = found.setdefault((session.agent, kind), _Tally())
        mine = [event for event in events if event.session == name]
        refused = [event.body for event in mine if event.kind == "task.rejected"]
        tally.counts["red"] += sum(bool(body.get("check")) and not body["check"].get("green", True) for body in refused)
        tally.counts["trespasses"] += sum(bool(body.get("outside")) for body in refused)
        green = task.state == states.DONE and any(event.kind == "task.finished" for event in mine)
        tally.counts["green"] += green
        tally.counts["first_try"] += green and number == 0 and not refused
        tally.counts["not_done"] += not green and session.ended_at is not None
        if green and session.ended_at is not None:
            tally.minutes.append((session.ended_at - session.started_at) / _MINUTE)


def kind_of(changed: Iterable[str], task: Task) -> str:
    """What work it was, by the files it changed, or else was to change: tests, documents, settings, or code of a language; joining is its own."""
    if task.kind == tasks.FAN_IN:
        return "joining"
    number = Counter(_of_path(path) for path in changed) or Counter(
        kind for path in task.patterns if (kind := _of_path(path)) != "other"
    )
    return number.most_common(1)[0][0] if number else task.role or "other"


def _of_path(path: str) -> str:
    name = posixpath.basename(path)
    words = path.lower().split("/")
    if "tests" in words or "test" in words or name.startswith("test_") or ".test." in name or "_test." in name:
        return "tests"
    return _LANGUAGES.get(posixpath.splitext(name)[1].lower(), "other")

"""Figures for a program that watches: the text format of Prometheus."""

from __future__ import annotations

from handoff import __version__
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board import figures
from handoff.board.events import channels, tally
from handoff.board.tasks import states

if TYPE_CHECKING:
    from collections.abc import Iterator

    from handoff.board.figures import BoardFigures
    from handoff.surfaces.api.reading import ApiRequest

_OUTCOMES = {
    "task.finished": "done",
    "task.blocked": "blocked",
    "task.cancelled": "cancelled",
    "task.expired": "handed_back",
    "task.released": "released",
    "task.retried": "retried",
    "task.sent_back": "sent_back",
}


class Metric(Record):
    """What one figure is called, of which type it is and what it tells."""

    name: str
    type: str
    text: str


METRICS = {
    name: Metric(f"handoff_{name}", type_, text)
    for name, type_, text in (
        ("info", "gauge", "Always 1, with the version that answers and the kind of database."),
        ("tasks", "gauge", "Live tasks by state."),
        ("oldest_ready_seconds", "gauge", "How long the oldest task that may be taken has been ready."),
        ("leases_overdue", "gauge", "Running tasks whose lease is over and that nobody has taken back yet."),
        ("claims_total", "counter", "How often tasks were handed to a session."),
        ("leases_lost_total", "counter", "How often a task was taken from a session that gave no sign of life."),
        ("task_outcomes_total", "counter", "What came of tasks, and of tries: done, blocked, handed_back and others."),
        ("checks_total", "counter", "Checks that judged a report, red or green."),
        ("check_seconds_total", "counter", "Seconds those checks took."),
        ("task_wait_seconds", "histogram", "Seconds a task was ready before a session took it."),
        ("session_seconds", "histogram", "Seconds from a claim to the end of its agent's session."),
        ("gate_answer_seconds", "histogram", "Seconds a gate waited for its answer."),
        ("sessions_running", "gauge", "Sessions at work."),
        ("sessions_total", "counter", "Agents' sessions that ended, by how they came out."),
        ("cost_dollars_total", "counter", "What ended sessions cost, as far as it is known."),
        ("cost_unknown_sessions_total", "counter", "Ended sessions whose cost is unknown, or not known for all of it."),
        (
            "tokens_total",
            "counter",
            "Tokens that ended sessions used: input that was not cached, cached input, output.",
        ),
        ("cost_day_dollars", "gauge", "What sessions of every project cost in the last 24 hours."),
        ("gates_open", "gauge", "Gates that wait for a person."),
        ("gate_wait_seconds", "gauge", "How long the oldest open gate has waited."),
        ("agents_held", "gauge", "Agents that are not started, for no fault of their own."),
        ("paused", "gauge", "What nobody may take tasks of for now."),
        ("incidents_open", "gauge", "Incidents nobody has resolved."),
        ("supervisors", "gauge", "Supervisors that live, by host."),
        ("supervisor_silent_seconds", "gauge", "How long ago the last supervisor of a host was heard."),
        ("channel_behind_lines", "gauge", "Lines of the journal a channel of notifications has not read."),
        ("channel_dropped_total", "counter", "Notifications a channel gave up."),
        ("journal_events_total", "counter", "Lines of the journal, by kind."),
        ("uncounted_lines", "gauge", "Lines of the journal that the counters here do not know yet."),
        ("database_seconds", "gauge", "How long a small read of the database took just now, from this machine."),
        ("scrape_seconds", "gauge", "How long these figures took."),
    )
}


def show(request: ApiRequest) -> str:
    """Everything, of one project or of all."""
    database, clock = request.app.database, request.app.clock
    began = clock.monotonic()
    channels.last_seq(database)
    answered = clock.monotonic()
    found = figures.take(database, project=request.scope)
    lines: dict[str, list[str]] = {name: [] for name in METRICS}
    if not request.project:  # a token for one project does not see what all of them cost
        lines["cost_day_dollars"].append(_line(METRICS["cost_day_dollars"].name, {}, round(found.spent, 6)))
    for name, labels, value in (*_moment(found), *_past(found)):
        lines[name].append(_line(METRICS[name].name, labels, value))
    for name in ("task_wait_seconds", "session_seconds", "gate_answer_seconds"):
        lines[name] = _histogram(found, name.removesuffix("_seconds"), METRICS[name].name)
    for name, value in (("database_seconds", answered - began), ("scrape_seconds", clock.monotonic() - began)):
        lines[name].append(_line(METRICS[name].name, {}, round(value, 6)))
    lines["info"].append(_line(METRICS["info"].name, {"version": __version__, "database": database.kind}, 1))
    return "".join(
        "\n".join((f"# HELP {one.name} {one.text}", f"# TYPE {one.name} {one.type}", *lines[name])) + "\n"
        for name, one in METRICS.items()
    )


def _moment(found: BoardFigures) -> Iterator[tuple[str, dict[str, str], float]]:
    """What is now."""
    for project in found.projects:
        one = {"project": project}
        for state in states.LIVE:
            yield "tasks", {**one, "state": state}, found.tasks.get((project, state), 0)
        yield "oldest_ready_seconds", one, round(max(0.0, found.oldest_ready.get(project, 0.0)), 3)
        yield "leases_overdue", one, found.overdue.get(project, 0)
        waits = found.waits.get(project, [])
        yield "gates_open", one, len(waits)
        yield "gate_wait_seconds", one, round(max(waits, default=0.0), 3)
        yield "incidents_open", one, found.incidents.get(project, 0)
    for (project, agent, host), count in sorted(found.sessions.items()):
        yield "sessions_running", {"project": project, "agent": agent, "host": host}, count
    for agent, host in found.held:
        yield "agents_held", {"agent": agent, "host": host}, 1
    for stop in found.paused:
        yield "paused", {"scope": stop.scope, "project": stop.project, "name": stop.name}, 1
    for host in sorted({one.host for one in found.supervisors}):
        here = [one for one in found.supervisors if one.host == host]
        yield "supervisors", {"host": host}, len(here)
        yield (
            "supervisor_silent_seconds",
            {"host": host},
            round(max(0.0, min(found.now - one.seen_at for one in here)), 3),
        )
    for channel in found.channels:
        yield "channel_behind_lines", {"channel": channel.name}, max(0, found.lines - channel.seq)
        yield "channel_dropped_total", {"channel": channel.name}, channel.dropped
    yield "uncounted_lines", {}, max(0, found.lines - found.counted)


def _past(found: BoardFigures) -> Iterator[tuple[str, dict[str, str], float]]:
    """What was so far: figures that never fall."""
    for row in found.tally:
        one = {"project": row.project}
        if row.name == tally.LINES:
            yield "journal_events_total", {**one, "kind": row.label}, row.number
            if row.label == "task.claimed":
                yield "claims_total", one, row.number
            elif row.label in _OUTCOMES:
                yield "task_outcomes_total", {**one, "outcome": _OUTCOMES[row.label]}, row.number
        elif row.name == tally.CHECKS:
            yield "checks_total", {**one, "result": row.label}, row.number
            yield "check_seconds_total", {**one, "result": row.label}, round(row.total, 3)
        elif row.name == tally.SESSIONS:
            agent, host, outcome = tally.names_of(row.label)
            yield "sessions_total", {**one, "agent": agent, "host": host, "outcome": outcome}, row.number
        elif row.name == tally.COST:
            yield "cost_dollars_total", {**one, "agent": row.label}, round(row.total, 6)
        elif row.name == tally.UNPRICED:
            yield "cost_unknown_sessions_total", {**one, "agent": row.label}, row.number
        elif row.name == tally.TOKENS:
            agent, kind = tally.names_of(row.label)
            yield "tokens_total", {**one, "agent": agent, "kind": kind}, round(row.total)
        elif row.name == tally.LOST:
            yield "leases_lost_total", one, row.number


def _histogram(found: BoardFigures, name: str, shown: str) -> list[str]:
    """Buckets that each hold those below, as Prometheus wants them."""
    lines = []
    rows = [row for row in found.tally if row.name == name]
    for project in sorted({row.project for row in rows}):
        own = {row.label: row for row in rows if row.project == project}
        below = 0
        for bound in (*(f"{one:g}" for one in tally.BUCKETS), "+Inf"):
            below += own[bound].number if bound in own else 0
            lines.append(_line(f"{shown}_bucket", {"project": project, "le": bound}, below))
        lines.append(_line(f"{shown}_sum", {"project": project}, round(sum(row.total for row in own.values()), 3)))
        lines.append(_line(f"{shown}_count", {"project": project}, below))
    return lines


def _line(name: str, labels: dict[str, str], value: float) -> str:
    named = ",".join(f'{label}="{_escaped(word)}"' for label, word in labels.items())
    return f"{name}{{{named}}} {value}" if named else f"{name} {value}"


def _escaped(word: str) -> str:
    return word.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

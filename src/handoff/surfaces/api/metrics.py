"""Figures for a program that watches: the text format of Prometheus."""

from __future__ import annotations

from handoff.base.record import TYPE_CHECKING
from handoff.board import figures
from handoff.board.tasks import states

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from handoff.surfaces.api.reading import ApiRequest

    Samples = Iterable[tuple[Mapping[str, str], float]]


def show(request: ApiRequest) -> str:
    """Everything, of one project or of all."""
    found = figures.take(request.app.database, project=request.scope)
    by_project = [{"project": name} for name in found.projects]
    tasks = [(name, state) for name in found.projects for state in states.STATES]
    work = sorted(found.sessions.items())
    told: list[tuple[str, str, str, Samples]] = [
        ("tasks", "gauge", "Tasks by state.",
         [({"project": name, "state": state}, found.tasks.get((name, state), 0)) for name, state in tasks]),
        ("claims", "gauge", "How often the tasks there are were handed to a session.",
         [(one, found.claims[one["project"]]) for one in by_project]),
        ("sessions_running", "gauge", "Sessions at work.",
         [({"project": name, "agent": agent}, count) for (name, agent), count in work]),
        ("gates_open", "gauge", "Gates that wait for a person.",
         [(one, len(found.waits[one["project"]])) for one in by_project]),
        ("gate_wait_seconds", "gauge", "How long the oldest open gate has waited.",
         [(one, max(found.waits[one["project"]], default=0.0)) for one in by_project]),
        ("agents_held", "gauge", "Agents that are not started, for no fault of their own.",
         [({"agent": agent, "host": host}, 1) for agent, host in found.held]),
        ("supervisors", "gauge", "Supervisors that live.", [({}, found.supervisors)]),
        ("journal_events_total", "counter", "Lines of the journal.", [({}, found.lines)]),
    ]  # fmt: skip
    return "".join(_metric(name, kind, text, samples) for name, kind, text, samples in told)


def _metric(name: str, kind: str, text: str, samples: Samples) -> str:
    lines = [f"# HELP handoff_{name} {text}", f"# TYPE handoff_{name} {kind}"]
    for labels, value in samples:
        named = ",".join(f'{label}="{_escaped(word)}"' for label, word in labels.items())
        lines.append(f"handoff_{name}{{{named}}} {value}" if named else f"handoff_{name} {value}")
    return "\n".join(lines) + "\n"


def _escaped(word: str) -> str:
    return word.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

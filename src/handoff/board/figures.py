"""How much of everything there is at one moment, for whoever draws or watches it."""

from __future__ import annotations

from collections import Counter

from handoff.base.record import TYPE_CHECKING, Record
from handoff.board import gates
from handoff.board.events import channels
from handoff.board.sessions import executors, holds, sessions

if TYPE_CHECKING:
    from handoff.store.database import Store


class BoardFigures(Record):
    """One moment: counts by project and state or agent, seconds that open gates have waited, agents that are held."""

    tasks: dict[tuple[str, str], int]
    claims: dict[str, int]
    sessions: dict[tuple[str, str], int]
    waits: dict[str, list[float]]
    held: list[tuple[str, str]]
    supervisors: int
    lines: int

    @property
    def projects(self) -> list[str]:
        return sorted(self.claims)


def take(store: Store, *, project: str = "") -> BoardFigures:
    """The figures of a project, or of all; what has none of them is about every project."""
    with store.transaction(write=False) as transaction:
        now = transaction.now()
        rows = transaction.query("count_states", project=project)
        claims: Counter[str] = Counter()
        for row in rows:
            claims[row["project"]] += int(row["claims"] or 0)
        waiting = gates.listing(transaction, project=project)
        return BoardFigures(
            tasks={(row["project"], row["state"]): int(row["count"]) for row in rows},
            claims=dict(claims),
            sessions=Counter((one.project, one.agent) for one in sessions.at_work(transaction, project=project)),
            waits={name: [now - one.gate.opened_at for one in waiting if one.project == name] for name in claims},
            held=[(one.name, one.host) for one in holds.listing(transaction) if one.kind == holds.AGENT],
            supervisors=sum(one.state == executors.ALIVE for one in executors.listing(transaction)),
            lines=channels.last_seq(transaction),
        )

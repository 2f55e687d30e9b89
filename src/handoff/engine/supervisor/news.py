"""What happened to tasks, in the words a person reads beside a supervisor: taken from the journal, so that it agrees with the rows."""

from __future__ import annotations

from handoff.base.light_json import loads
from handoff.base.markdown import end_sentence
from handoff.base.record import TYPE_CHECKING
from handoff.board.events import journal
from handoff.board.events.wording import refusal_words
from handoff.board.sessions import holds, sessions
from handoff.board.tasks import tasks
from handoff.engine.session import spending
from handoff.store.database import EVERY_LINE

if TYPE_CHECKING:
    from collections.abc import Callable

    from handoff.board.events.journal import Event
    from handoff.board.sessions.holds import Hold
    from handoff.engine.app import App

_LONGEST = 300
_SHORT = 10


_CALLING = ("waits for your answer", "blocked")


def calls(line: str) -> bool:
    """Whether a line of the news is one that a person is called for."""
    return any(f": {word}: " in line for word in _CALLING)


class News:
    """The journal from now on, for one project or for all, or for one batch: then also who begins with what.

    Beside it the agents that are held, as far as they concern whoever reads: also one that was held before, or for a session of another
    project, which no line of this one's journal tells.
    """

    def __init__(
        self, app: App, *, project: str = "", batch: int = 0, concerns: Callable[[Hold], bool] = lambda _: True
    ) -> None:
        self._app, self._project, self._batch, self._concerns = app, project, batch, concerns
        self._held: dict[str, Hold] | None = None
        self._seq, self._settled = journal.mark(app.database), -1
        self._told: set[int | None] = set()

    def lines(self) -> list[str]:
        """What is new, one line for each thing that a person wants to know."""
        settled = self._app.database.settled()
        if settled == self._settled < EVERY_LINE:
            return []  # nobody wrote: a server is asked no more than that
        found = []
        events = journal.since(self._app.database, seq=self._seq, project=self._project, settled=settled)
        for event in events:
            self._seq = event.seq
            if self._batch in (0, event.batch):
                found.append(self._words(event))
        if len(events) < journal.LIMIT:
            self._settled = settled
        if events or self._held is None:
            found += self._newly_held()
        return [line for line in found if line]

    def _newly_held(self) -> list[str]:
        """One line for each pause of an agent, and for one host where several have it: a provider refuses all of them alike."""
        known, self._held = self._held or {}, {}
        held = [one for one in holds.listing(self._app.database) if one.kind == holds.AGENT and self._concerns(one)]
        for one in sorted(held, key=lambda one: one.name not in known or one.host != known[one.name].host):
            self._held.setdefault(one.name, one)
        return [
            f"Agent {one.name} on {one.host} is held {one.words}"
            for one in self._held.values()
            if not one.session and (one.name not in known or one.at != known[one.name].at)
        ]

    def _words(self, event: Event) -> str:
        body, name = event.body, f"{event.project}/{event.task_id}"
        reason = " ".join(str(body.get("reason") or "no reason given").split())[:_LONGEST]
        if event.kind == "task.finished":
            summary = " ".join(str(body.get("summary") or "").split())[:_LONGEST]
            return f"{name}: done{self._landed(event)}" + (f": {summary}" if summary else "")
        if event.kind == "task.claimed" and self._batch:
            session = sessions.get(self._app.database, id=event.session)
            task = tasks.look_up(self._app.database, key=event.task or 0)
            if task is not None and spending.is_capped(self._app, task):
                return ""  # it does not begin: the person is asked for more money
            return f"{name}: started with {session.agent if session and session.agent else 'a session'}"
        if event.kind == "task.rejected":
            self._told.add(event.task)
            return f"{name}: not done: {refusal_words(event.body)}"
        if event.kind == "task.expired":
            why = "" if event.task in self._told else f": {reason}"
            self._told.discard(event.task)
            return f"{name}: to be tried again, attempt {body.get('attempt')}{why}"
        if event.kind.startswith("incident.") and body.get("what"):
            return f"{event.project}: {body['what']} To bring it back: {body.get('fix') or 'nothing is needed'}"
        words = {
            "task.blocked": f"blocked: {reason}",
            "conflict.seen": f"conflict with {body.get('other') or 'the branch'} in {body.get('path')}",
            "conflict.gone": f"no conflict with {body.get('other') or 'the branch'} in {body.get('path')} any more",
            "doubt.seen": f"joins cleanly with {body.get('other') or 'the branch'} and may be wrong: {body.get('path')}: {body.get('what')}",
            "task.edited": f"goes on with {body.get('agent')}: {reason}" if body.get("reason") else "",
            "race.won": f"{body.get('winner')} won the race: {reason}",
            "task.held": f"held{f' until {until}' if (until := body.get('until')) else ''}: {end_sentence(reason)} {body.get('fix', '')}",
            "gate.opened": f"waits for your answer: {str(body.get('question')).partition(chr(10))[0]}",
            "flow.refused": f"refused: {'; '.join(str(one) for one in body.get('said', ()))[:_LONGEST]}",
            "flow.verified": f"verified {body.get('phase')}, next {body.get('next')}",
            "flow.blocked": f"blocked: {reason}",
        }.get(event.kind, "")
        return f"{name}: {words}" if words else ""

    def _landed(self, event: Event) -> str:
        task = tasks.look_up(self._app.database, key=event.task) if event.task is not None else None
        landed = str(loads(task.evidence).get("landed") or "") if task is not None and task.evidence else ""
        return f" and landed as {landed[:_SHORT]}" if landed else ""

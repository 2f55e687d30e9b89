"""What sessions did, ran, saw and gave up, in the words of a baton: the same for sessions of ours and for what a person's own client keeps of its conversations."""

from __future__ import annotations

import os
import re

from handoff.agents import catalog
from handoff.agents import folder as folders
from handoff.agents.adapters.pieces import entries_of
from handoff.agents.history import entries as form
from handoff.agents.history.facts import HistoryFacts, facts
from handoff.agents.history.sessions import stored_sessions
from handoff.agents.history.stores.table import COPY, STORES, read_entries
from handoff.agents.monitor import EVENTS
from handoff.base.clock import stamp
from handoff.base.errors import HandoffError, UserError
from handoff.base.ids import on_one_line
from handoff.base.record import TYPE_CHECKING, Record
from handoff.base.redaction import secret_values, without_secrets
from handoff.engine.app.home import home_config

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from handoff.agents.contract import AgentEvent
    from handoff.agents.history.entries import HistoryEntry
    from handoff.agents.history.facts import CommandRun, Utterance
    from handoff.agents.history.stores.table import StoredSession
    from handoff.engine.app import App


_READ = 2_000_000
_SHOWN, _SAID, _ALIKE, _RULES, _LONGEST = 8, 40, 3, 12, 400
_MARKS = {form.DONE: "x", form.DOING: ">", form.PENDING: " ", form.DROPPED: "-"}


_OURS = re.compile(
    r"\bhandoff(?:\.surfaces\.cli\.main)? (?:task (?:done|block|ask|note|release)|heartbeat|note|decide)\b"
)
"""A report to us is told where it was heard."""


_SAYS_WHY = r"FAILED .* - |E  +\S|\s*\w*(?:Error|Exception): |\s*not ok \d|error(?:\[E\d+\])?: |\s*--- FAIL"


class PastSession(Record):
    """One session that is over, or was cut off: who it was, when, and what is known of it."""

    name: str
    agent: str
    at: float
    facts: HistoryFacts

    @property
    def label(self) -> str:
        return f"`{self.name}` ({self.agent})" if self.agent else f"`{self.name}`"

    @property
    def rules(self) -> list[str]:
        """What the person allowed, forbade or took back in it, as they said it, the newest last."""
        return [f'The person said, {stamp(one.at or self.at)}: "{one.text}"' for one in self.facts.rules[-_RULES:]]

    def beside(self, text: str) -> PastSession:
        """The same for a place where a text says already what the person wants: their words stand there once."""
        known = " ".join(text.split())
        said = [one for one in self.facts.instructions if " ".join(one.text.split()) not in known]
        rules = [one for one in self.facts.rules if " ".join(one.text.split()).rstrip(".") not in known]
        return self._replace(facts=self.facts._replace(instructions=tuple(said), rules=tuple(rules)))


def facts_of(app: App, *, project: str, session: str, agent: str) -> HistoryFacts:
    """The facts of a session that handoff started, from its own output; none where that is not on this machine."""
    try:
        place = folders.place(app.settings.home, project, session)
    except UserError:
        return HistoryFacts()
    lines, read = output_of(app, place, agent, limit=_READ)
    return facts(entries_of(read, lines)) if lines else HistoryFacts()


def output_of(
    app: App, place: str, agent: str, *, limit: int
) -> tuple[list[str], Callable[[str], tuple[AgentEvent, ...]]]:
    """The last lines that the client of a session printed, without secrets, and who understands them."""
    text = folders.tail(place, EVENTS, limit)
    if not text:
        return [], catalog.read_words
    config = home_config(app)
    try:
        adapter = catalog.adapter(agent, commands=config.values["agents"], where=config.path)
        read, secrets = adapter.read, adapter.secrets
    except UserError:  # it left the settings; what it said is still there
        read, secrets = catalog.read_words, ()
    text = without_secrets(text, app.settings.environment, secrets)  # of older ones; newer are written without
    return [line for line in text.split("\n") if line.strip()], read


def deeds(known: HistoryFacts, *, files: bool = True) -> list[str]:
    """What it did, ran and gave up, a line for each kind of fact; without the files where another place lists them."""
    pinned = {one.text for one in known.rules}
    asked = [one.text for one in known.instructions if one.text not in pinned]
    lines = [f"the person asked: {_short(text, _LONGEST)}" for text in asked[-_SHOWN:]]
    if files and known.files:
        lines.append("changed: " + ", ".join(f"`{on_one_line(one.path)}` ({one.how})" for one in known.files[-20:]))
    runs = [run for run in known.runs if not _OURS.search(run.command)]
    if runs:
        red = [run for run in known.red if run in runs][-_SHOWN:]
        others = [run for run in runs if run not in red][-_SHOWN:]
        lines += ["ran: " + "; ".join(map(_run, (*reversed(red), *reversed(others))))]
    lines += [f"decided: {one.text}" for one in known.decisions[-_SHOWN:]]
    lines += [f"did not work: {one.text}" for one in known.dead_ends[-_SHOWN:]]
    if known.todo:
        lines.append("its list: " + "; ".join(f"[{_MARKS[one.state]}] {one.text}" for one in known.todo))
    lines += [f"was cut off in: `{on_one_line(call)}`" for call in known.open_calls[-3:] if call]
    if known.summary:
        lines.append(f"kept of its own conversation: {_short(known.summary, 2000)}")
    return lines


def _run(run: CommandRun) -> str:
    failing = f", {', '.join(run.failing[:5])}" if run.failing else ""
    return f"`{on_one_line(run.command)}` {run.verdict}{failing}" + ("" if run.ok is not False else _why(run))


def _why(run: CommandRun) -> str:
    """What a red run said of its failures, in a few words of its own."""
    found = [line.strip() for line in run.tail.split("\n") if re.match(_SAYS_WHY, line)]
    words = [line.partition(" - ")[2] or line.removeprefix("E ").strip() for line in found]
    told = "; ".join(dict.fromkeys(word for word in words if word and word not in run.failing))
    return f" ({_short(told, _LONGEST)})" if told else ""


def statements(sessions: Sequence[PastSession]) -> list[str]:
    """What sessions said, each thing once, newest first, with whose and when, of a log's lines a few; what stands among the deeds is not told again."""
    lines: list[str] = []
    seen: dict[str, int] = {}
    for one in sorted(sessions, key=lambda session: -session.at):
        for at, text in own_words(one.facts):
            bare = re.sub(r"\d+", "", text)
            if text not in seen and seen.get(bare, 0) < _ALIKE and len(lines) < _SAID:
                seen[text], seen[bare] = 1, seen.get(bare, 0) + 1
                lines.append(f"{stamp(at or one.at)} {one.label}: {text}")
    return lines


def own_words(known: HistoryFacts) -> Iterator[tuple[float, str]]:
    """What a session said, newest first, without what stands among its decisions, dead ends and next action."""
    pinned: list[Utterance] = [*known.decisions, *known.dead_ends, *([known.next_action] if known.next_action else [])]
    told = sorted((one.text for one in pinned), key=len, reverse=True)
    for said in reversed(known.statements):
        text = said.text
        for words in told:
            text = text.replace(words, "")
        text = _short(text, _LONGEST)
        if len(text) > 1:
            yield said.at, text


def _short(text: str, limit: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else line[:limit] + " …"


_LOOKED_AT = 3
_TICK = 1.0
"""A record's times may be whole seconds."""


def last_conversation(
    app: App, *, folder: str, since: float, about: str, client: str = "", session: str = ""
) -> PastSession | None:
    """The newest conversation since a moment, unless it was begun with a text of ours about something else.

    Never `session` itself, and for a client only its own, because what was said to one vendor goes to another only where the
    person sees it."""
    for stored in _since(app, folder, since, client):
        if stored.id == session:
            continue
        past = _past(app, stored, read_entries(stored))
        if past is not None and (not past.facts.handed or about in past.facts.handed):
            return past
    return None


def conversation_during(app: App, *, folder: str, since: float, until: float) -> PastSession | None:
    """What was said and done between two moments, with the person's last word before them: it led there.

    Of several conversations at once it is the one in which most was done."""
    found = [
        past
        for stored in _since(app, folder, since, "")
        if (past := _past(app, stored, _between(read_entries(stored), since - _TICK, until + _TICK))) is not None
    ]
    return max(
        found, key=lambda one: len(one.facts.runs) + len(one.facts.files) + len(one.facts.statements), default=None
    )


def _since(app: App, folder: str, since: float, client: str) -> list[StoredSession]:
    if client and client not in STORES:
        return []
    found = stored_sessions(folder, app.settings.environment, clients=(client,) if client else ())
    return [one for one in found if one.state != COPY and not one.trouble and one.at >= since - _TICK][:_LOOKED_AT]


def _between(entries: Iterable[HistoryEntry], since: float, until: float) -> Iterator[HistoryEntry]:
    before: HistoryEntry | None = None
    at = 0.0
    for entry in entries:
        at = entry.at or at  # what has no time of its own happened with the one before it
        if at and at < since:
            before = entry if entry.role == form.PERSON and entry.kind in (form.SAY, form.STEER) else before
        elif at <= until:
            if before is not None:
                yield before
                before = None
            yield entry


def _past(app: App, stored: StoredSession, entries: Iterable[HistoryEntry]) -> PastSession | None:
    """The facts with paths as the folder has them; None where nothing was said, or a store cannot be read: that takes nothing from a text."""
    try:
        known = facts(entries, secrets=secret_values(app.settings.environment))
    except HandoffError:
        return None
    if not known.instructions and not known.statements:
        return None
    inside = os.path.join(stored.folder, "")
    files = tuple(one._replace(path=one.path.removeprefix(inside)) for one in known.files)
    return PastSession(stored.id[:13], stored.client, known.at or stored.at, known._replace(files=files))

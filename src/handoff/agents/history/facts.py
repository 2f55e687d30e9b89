"""What a successor needs to know of a session, taken from its entries by form alone: no model, one pass, bounded memory.

Every text that is kept has passed the redaction before it was cut and after."""

from __future__ import annotations

import re
from collections import deque

from handoff.agents.history import entries as form
from handoff.agents.history.entries import HistoryEntry, TodoItem
from handoff.agents.history.runs import CommandRun, RunLog
from handoff.base.record import TYPE_CHECKING, Record
from handoff.base.redaction import redact, redact_assignments

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

WORDS, WORDS_IN_ALL = 20_000, 400_000
"""The longest instruction that is kept as a whole, and all of them together (characters)."""
STATEMENT, STATEMENTS = 1_500, 200
FILES, ENDS, OPEN_CALLS = 1_000, 100, 50
RAW = 8_000
"""So much of any other text is held until the end: more than is kept, so that no secret is halved before it is taken out."""

_RULE = (
    r"(?i)\b(?:never|always|do not|don't|must|mustn't|must not|only|without|keep|no new|avoid|make sure|should not|shouldn't|forbidden"
    r"|not allowed|stay (?:in|within|out)|leave .{1,40} (?:alone|as)|no longer|any ?more|forget|never ?mind|not needed|rules?)\b"
)
_NEXT = r"(?i)^\W*(?:next(?: (?:step|action|up))?s?|to-?do|remaining|still (?:open|to do)|left to do)\b\W*[:,–-]"
_I_WILL_NEXT = r"(?i)\b(?:the )?next (?:step|thing|action|i(?:'ll| will))\b"
_DECIDED = (
    r"(?i)\bbecause\b|\b(?:decided|chose|choose|going with|opted) (?:to|for|on)?\b|\binstead of\b|\brather than\b"
)
_DEAD = (
    r"(?i)\b(?:does not|doesn't|did not|didn't|won't|will not|cannot|can't) (?:work|help|compile|build|fix)\b|\bdead end\b"
    r"|\bno(?:t a)? (?:use|good)\b.{0,20}$|\bgave up\b|\bgiving up\b|\b(?:reverted|took back|rolled back|undid)\b|\bwas a mistake\b"
)
_SENTENCE = r"(?<=[.!?])\s+(?=[A-Z`\"'(])|\n+"
_TAKEN_BACK = r"\bgit (?:restore|reset|revert|stash(?! list| show)|checkout (?:--|HEAD|\.))(?:\s|$)"


class Utterance(Record):
    """Something that was said, and when."""

    text: str
    at: float = 0.0
    how: str = ""
    """`steer` where the person said it while the model was at work."""


class TouchedFile(Record):
    """A file of the session and what became of it."""

    path: str
    how: str
    at: float = 0.0


class HistoryFacts(Record):
    """Everything that can be handed on; each list in the order in which it happened."""

    instructions: tuple[Utterance, ...] = ()
    """The person's words, as they said them."""
    rules: tuple[Utterance, ...] = ()
    """Sentences of the person that allow, forbid or demand."""
    handed: str = ""
    """What handoff gave the session to begin with: rules and words of those before it, and nothing that the person said here."""
    todo: tuple[TodoItem, ...] = ()
    files: tuple[TouchedFile, ...] = ()
    runs: tuple[CommandRun, ...] = ()
    """The last run of each command line."""
    red: tuple[CommandRun, ...] = ()
    """Those of them that are red and were not seen green since."""
    dead_ends: tuple[Utterance, ...] = ()
    decisions: tuple[Utterance, ...] = ()
    next_action: Utterance | None = None
    statements: tuple[Utterance, ...] = ()
    last_words: Utterance | None = None
    open_calls: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    ended: str = ""
    """The last error or interruption, where nothing came after it."""
    summary: str = ""
    """What the client itself kept when it last shortened the conversation."""
    compactions: int = 0
    model: str = ""
    tokens: int = 0
    cost: float = 0.0
    branch: str = ""
    base: str = ""
    began: float = 0.0
    at: float = 0.0
    """When the first and the last thing happened."""
    unread: tuple[tuple[str, int], ...] = ()
    """The kinds of rows that were not understood, and how many of each."""
    left_out: int = 0
    """How many instructions did not fit."""


def facts(entries: Iterable[HistoryEntry], *, secrets: Sequence[str] = ()) -> HistoryFacts:
    """The facts of a session; `secrets` are values that must not be told whatever they look like."""
    collector = FactCollector(secrets)
    for entry in entries:
        collector.add(entry)
    return collector.facts()


def clean(text: str, limit: int, secrets: Sequence[str] = (), *, end: bool = False) -> str:
    """The text without secrets, at most so long; a secret that the cut would halve is taken out before it and after."""
    text = redact_assignments(redact(text, secrets)[0]).strip()
    if len(text) <= limit:
        return text
    cut = f"… {text[-limit:]}" if end else f"{text[:limit]} …"
    return redact_assignments(redact(cut, secrets)[0])


class FactCollector:
    """Entries in, facts out; what it holds does not grow with the session beyond its limits."""

    def __init__(self, secrets: Sequence[str] = ()) -> None:
        self._secrets = secrets
        self._said: list[Utterance] = []
        self._size = self._left_out = 0
        self._rules: dict[str, Utterance] = {}
        self._todo: tuple[TodoItem, ...] = ()
        self._files: dict[str, TouchedFile] = {}
        self._edits: dict[tuple[str, int, int], None] = {}
        self._runs = RunLog()
        self._ends: deque[Utterance] = deque(maxlen=ENDS)
        self._decisions: deque[Utterance] = deque(maxlen=ENDS)
        self._next: Utterance | None = None
        self._statements: deque[Utterance] = deque(maxlen=STATEMENTS)
        self._open: deque[str] = deque(maxlen=OPEN_CALLS)
        self._agents: deque[str] = deque(maxlen=OPEN_CALLS)
        self._ended = self._summary = self._handed = ""
        self._compactions = 0
        self._meta = {"model": "", "branch": "", "base": ""}
        self._tokens = 0
        self._cost = self._began = self._at = 0.0
        self._unread: dict[str, int] = {}

    def add(self, entry: HistoryEntry) -> None:
        """Take in what happened next."""
        if entry.at:
            self._began = self._began or entry.at
            self._at = max(self._at, entry.at)
        self._note_meta(entry)
        if entry.role == form.PERSON and entry.kind in (form.SAY, form.STEER):
            self._hear(entry)
        elif entry.kind == form.SAY:
            self._listen(entry)
        elif entry.kind in _TAKERS:
            _TAKERS[entry.kind](self, entry)

    def _note_meta(self, entry: HistoryEntry) -> None:
        self._meta["model"] = entry.model or self._meta["model"]
        self._meta["branch"] = entry.branch or self._meta["branch"]
        self._meta["base"] = self._meta["base"] or entry.commit

    def _hear(self, entry: HistoryEntry) -> None:
        text = entry.text.strip()[: WORDS * 2]
        if not text:
            return
        self._ended = ""
        how = form.STEER if entry.kind == form.STEER else ""
        self._said.append(Utterance(text, entry.at, how))
        self._size += len(text)
        while self._size > WORDS_IN_ALL and self._said[1:-1]:  # the first is the goal, the last is what is wanted now
            self._size -= len(self._said.pop(1).text)
            self._left_out += 1
        for sentence in sentences(text):
            if re.search(_RULE, sentence) and not sentence.endswith("?"):
                self._rules.setdefault(" ".join(sentence.lower().split()), Utterance(sentence, entry.at))
        while len(self._rules) > ENDS * 2:
            del self._rules[next(iter(self._rules))]

    def _listen(self, entry: HistoryEntry) -> None:
        text = entry.text.strip()[-RAW:]
        if not text:
            return
        self._ended = ""
        self._statements.append(Utterance(text, entry.at))
        lines = sentences(text)
        for index, sentence in enumerate(lines):
            if re.search(_NEXT, sentence) or re.search(_I_WILL_NEXT, sentence):
                listed = [line for line in lines[index + 1 : index + 4] if line[:1] in "-*•123"]
                self._next = Utterance(" ".join([sentence, *listed]) if sentence.endswith(":") else sentence, entry.at)
            elif re.search(_DEAD, sentence):
                self._ends.append(Utterance(sentence, entry.at))
            elif re.search(_DECIDED, sentence):
                self._decisions.append(Utterance(sentence, entry.at))

    def _run(self, entry: HistoryEntry) -> None:
        command = entry.command.strip()[:RAW]
        if not command:
            return
        self._ended = ""
        self._runs.add(command, entry)
        if "git " in command and entry.ok is not False and re.search(_TAKEN_BACK, command):
            self._ends.append(Utterance(f"Work was taken back: {command}", entry.at))

    def _touch(self, entry: HistoryEntry) -> None:
        path = entry.path[:RAW]
        if not path:
            return
        if entry.ok is False:
            self._ends.append(Utterance(f"An edit of {path} failed: {entry.text[:RAW]}", entry.at))
            return
        before, old, new = self._files.pop(path, None), hash(entry.old), hash(entry.new)
        how = entry.how or form.CHANGED
        if before and before.how == form.ADDED and how == form.CHANGED:
            how = form.ADDED
        elif before and before.how == form.DELETED and how == form.ADDED:
            how = form.CHANGED
        self._files[path] = TouchedFile(path, how, entry.at)
        while len(self._files) > FILES:
            del self._files[next(iter(self._files))]
        if entry.old != entry.new:
            if self._edits.pop((path, new, old), 0) is None:
                self._ends.append(Utterance(f"An edit of {path} was taken back.", entry.at))
            self._edits[path, old, new] = None
            while len(self._edits) > FILES * 4:
                del self._edits[next(iter(self._edits))]

    def _plan(self, entry: HistoryEntry) -> None:
        self._todo = entry.todo[:STATEMENTS]

    def _refuse(self, entry: HistoryEntry) -> None:
        what = (entry.command or entry.path or entry.text)[:RAW]
        self._ends.append(Utterance(f"The person did not allow: {what}", entry.at))

    def _take_over(self, entry: HistoryEntry) -> None:
        self._handed = entry.text[:WORDS]

    def _give_up(self, entry: HistoryEntry) -> None:
        self._ends.append(Utterance(entry.text[:RAW], entry.at))

    def _end(self, entry: HistoryEntry) -> None:
        self._ended = entry.text[:RAW]

    def _send(self, entry: HistoryEntry) -> None:
        self._agents.append(entry.text[:RAW])

    def _leave(self, entry: HistoryEntry) -> None:
        self._open.append((entry.command or entry.path or entry.text)[:RAW])

    def _compact(self, entry: HistoryEntry) -> None:
        self._compactions += 1
        self._summary = entry.text[: RAW * 2] or self._summary

    def _count(self, entry: HistoryEntry) -> None:
        if entry.how == form.TOTAL:
            self._tokens, self._cost = entry.tokens or self._tokens, entry.cost or self._cost
        else:
            self._tokens, self._cost = self._tokens + entry.tokens, self._cost + entry.cost

    def _pass_by(self, entry: HistoryEntry) -> None:
        kind = entry.text[:RAW] or "?"
        if kind in self._unread or len(self._unread) < ENDS:
            self._unread[kind] = self._unread.get(kind, 0) + 1

    def facts(self) -> HistoryFacts:
        """What is known so far; here every text passes the redaction, and nothing leaves but by here."""

        def cleaned(text: str, limit: int = 400, *, end: bool = False) -> str:
            return clean(text, limit, self._secrets, end=end)

        def told(said: Iterable[Utterance], limit: int = 400, *, end: bool = False) -> tuple[Utterance, ...]:
            return tuple(Utterance(cleaned(one.text, limit, end=end), one.at, one.how) for one in said)

        runs, red = self._runs.result(cleaned)
        stayed = [run for run in red if run.reds > 1]
        ends = [Utterance(f"`{run.command}` was red {run.reds} times and never green since.", run.at) for run in stayed]
        statements = told(self._statements, STATEMENT, end=True)
        return HistoryFacts(
            instructions=told(self._said, WORDS),
            rules=told(self._rules.values(), STATEMENT),
            handed=cleaned(self._handed, WORDS),
            todo=tuple(TodoItem(cleaned(one.text), one.state) for one in self._todo),
            files=tuple(TouchedFile(cleaned(one.path), one.how, one.at) for one in self._files.values()),
            runs=runs,
            red=red,
            dead_ends=_distinct([*told(self._ends), *ends]),
            decisions=_distinct(told(self._decisions)),
            next_action=next(iter(told([self._next], 600)), None) if self._next else None,
            statements=statements,
            last_words=statements[-1] if statements else None,
            open_calls=tuple(cleaned(one) for one in self._open),
            agents=tuple(cleaned(one, 200) for one in self._agents),
            ended=cleaned(self._ended),
            summary=cleaned(self._summary, 6_000),
            compactions=self._compactions,
            model=cleaned(self._meta["model"]),
            tokens=self._tokens,
            cost=self._cost,
            branch=cleaned(self._meta["branch"]),
            base=cleaned(self._meta["base"]),
            began=self._began,
            at=self._at,
            unread=tuple((cleaned(kind, 80), count) for kind, count in self._unread.items()),
            left_out=self._left_out,
        )


_TAKERS = {
    form.SHELL: FactCollector._run,  # noqa: SLF001 - the class's own table
    form.FILE: FactCollector._touch,  # noqa: SLF001 - the class's own table
    form.PLAN: FactCollector._plan,  # noqa: SLF001 - the class's own table
    form.REFUSED: FactCollector._refuse,  # noqa: SLF001 - the class's own table
    form.HANDED: FactCollector._take_over,  # noqa: SLF001 - the class's own table
    form.DEAD: FactCollector._give_up,  # noqa: SLF001 - the class's own table
    form.ERROR: FactCollector._end,  # noqa: SLF001 - the class's own table
    form.STOP: FactCollector._end,  # noqa: SLF001 - the class's own table
    form.AGENT: FactCollector._send,  # noqa: SLF001 - the class's own table
    form.OPEN: FactCollector._leave,  # noqa: SLF001 - the class's own table
    form.COMPACTION: FactCollector._compact,  # noqa: SLF001 - the class's own table
    form.USAGE: FactCollector._count,  # noqa: SLF001 - the class's own table
    form.UNREAD: FactCollector._pass_by,  # noqa: SLF001 - the class's own table
}


def sentences(text: str) -> list[str]:
    """The sentences of a text; a line of its own is one."""
    return [one for part in re.split(_SENTENCE, text) if (one := part.strip())]


def _distinct(said: Iterable[Utterance]) -> tuple[Utterance, ...]:
    """Each text once, where it was said last."""
    found: dict[str, Utterance] = {}
    for one in said:
        found.pop(one.text, None)
        found[one.text] = one
    return tuple(found.values())

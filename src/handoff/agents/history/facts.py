"""What a successor needs to know of a session, taken from its entries by form alone: no model, one pass, bounded memory.

Every text that is kept has passed the redaction before it was cut and after."""

from __future__ import annotations

import os
import re
from collections import deque

from handoff.agents.history import entries as form
from handoff.agents.history.entries import HistoryEntry, TodoItem
from handoff.base.record import TYPE_CHECKING, Record
from handoff.base.redaction import redact, redact_assignments

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from handoff.agents.history.entries import HistoryEntry

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
        self._meta["model"] = entry.model or self._meta["model"]
        self._meta["branch"] = entry.branch or self._meta["branch"]
        self._meta["base"] = self._meta["base"] or entry.commit
        if entry.role == form.PERSON and entry.kind in (form.SAY, form.STEER):
            self._hear(entry)
        elif entry.kind == form.SAY:
            self._listen(entry)
        elif entry.kind in _TAKERS:
            _TAKERS[entry.kind](self, entry)

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


# --- the commands of a session: the last run of each line, the tests that failed in it, and what is red now ------

LINES, FAILING, TAIL = 300, 20, 1_200
_FAILING = (
    r"(?m)^(?:FAILED (\S+::\S+).*|ERROR (\S+(?:::\S+|\.py)).*|(?:FAIL|ERROR): (.+)|FAIL\s+(\S+)|\s*--- FAIL: (\S+).*|\s*not ok \d+ -? ?(.+)"
    r"|test (\S+) \.\.\. FAILED|(error\[E\d+\]: .+)|\s*[✖✕×✗] (.+?)(?: \(?\d[\d.]* ?m?s\)?)?|\s+● (.+))\s*$"
)
_WRAPPED = r"""(?s)^(?:/\S*/)?(?:ba|z|da)?sh\s+-\w*c\s+(['"]?)(.+)\1\s*$"""
_BEFORE = "env time timeout nice uv uvx poetry pipenv run npx pnpx bunx exec sudo command".split()
_RUNNERS = "npm pnpm yarn bun go cargo make just dotnet mvn gradle gradlew tox nox rake mix".split()
_PYTHON = r"python[\d.]*"


class CommandRun(Record):
    """The last run of one command line."""

    command: str
    exit: int | None = None
    ok: bool | None = None
    """None where nobody knows: it may still run."""
    tail: str = ""
    failing: tuple[str, ...] = ()
    at: float = 0.0
    times: int = 1
    reds: int = 0
    """How often it was red since it was last green."""

    @property
    def verdict(self) -> str:
        """How it came out, in words."""
        if self.ok is None:
            return "no result"
        return "green" if self.ok else f"red (exit {self.exit})" if self.exit else "red"


def failing_tests(output: str) -> tuple[str, ...]:
    """The tests that an output names as failed, in the runners' own words; each once."""
    found: dict[str, None] = {}
    for match in re.finditer(_FAILING, output):
        name = next(group for group in match.groups() if group).strip()
        found.setdefault(name.partition(" - ")[0][:200])
    return tuple(found)[:FAILING]


def program_of(command: str) -> tuple[str, tuple[str, ...]]:
    """The program that a line really runs, and what it is pointed at: `cd x && python3 -m pytest -q a.py` is pytest at a.py."""
    if wrapped := re.match(_WRAPPED, command.strip()):
        command = wrapped[2]
    line = re.split(r"&&|\|\||[;\n]", command.partition("|")[0] if "||" not in command else command)[-1]
    words = [word.strip("'\"") for word in line.split() if not re.match(r"\d?>", word)]
    while words and (re.fullmatch(r"\w+=.*", words[0]) or os.path.basename(words[0]) in _BEFORE or words[0].isdigit()):
        words.pop(0)
    if not words:
        return "", ()
    name, rest = os.path.basename(words[0]), words[1:]
    if re.fullmatch(_PYTHON, name):
        while rest and rest[0].startswith("-") and rest[0] != "-m":
            rest.pop(0)
        if rest[:1] == ["-m"] and len(rest) > 1:
            name, rest = rest[1], rest[2:]
        elif rest:
            name, rest = rest[0], rest[1:]
    elif name in _RUNNERS:
        subs = [word for word in rest if not word.startswith("-") and word != "run"]
        if subs:
            name = f"{name} {subs[0]}"
            rest = rest[rest.index(subs[0]) + 1 :]
    return name, tuple(word for word in rest if not word.startswith("-"))


def _covers(later: tuple[str, ...], red: CommandRun, red_at: tuple[str, ...]) -> bool:
    """Whether a later run of the same program looked at all that was red: then its result counts."""
    if not later or later == red_at:
        return True
    wanted = red_at or red.failing
    return bool(wanted) and all(any(one.startswith(at) or (at in one) for at in later) for one in wanted)


class RunLog:
    """Runs in, the last of each line out."""

    def __init__(self) -> None:
        self._runs: dict[str, CommandRun] = {}

    def add(self, command: str, entry: HistoryEntry) -> None:
        """One run more, as it was."""
        before = self._runs.pop(command, None)
        ok = entry.ok if entry.exit is None else entry.exit == 0
        if ok is None and failing_tests(entry.text):  # nobody kept the code; the runner's own words say it
            ok = False
        reds = 0 if ok or not before else before.reds
        self._runs[command] = CommandRun(
            command=command,
            exit=entry.exit,
            ok=ok,
            tail=entry.text[-RAW:],
            at=entry.at,
            times=before.times + 1 if before else 1,
            reds=reds + 1 if ok is False else reds,
        )
        while len(self._runs) > LINES:
            del self._runs[next(iter(self._runs))]

    def result(self, cleaned: Callable[..., str]) -> tuple[tuple[CommandRun, ...], tuple[CommandRun, ...]]:
        """All runs without secrets, and those of them that are red now."""
        runs = tuple(
            run._replace(
                command=cleaned(run.command, 1_000),
                tail=cleaned(run.tail, TAIL, end=True),
                failing=failing_tests(cleaned(run.tail, RAW)) if run.ok is False else (),
            )
            for run in self._runs.values()
        )
        pointed = [program_of(run.command) for run in runs]
        red = tuple(
            run
            for index, run in enumerate(runs)
            if run.ok is False
            and not any(
                later.ok is not None
                and pointed[at][0] == pointed[index][0]
                and _covers(pointed[at][1], run, pointed[index][1])
                for at, later in enumerate(runs)
                if at > index
            )
        )
        return runs, red

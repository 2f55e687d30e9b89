"""One supervisor of one process, the same for every client: start or find it, watch it, bound it, say how it came out."""

from __future__ import annotations

import os
import signal
import sys

from handoff.agents import folder as folders
from handoff.agents.contract import (
    ANSWERED,
    FAILED,
    KILLED,
    LOST,
    RESULT,
    SAID,
    STOPPED,
    TOOL,
    TOTAL,
    TROUBLE,
    UNKNOWN,
    USAGE,
    WAIT,
    AgentOutcome,
    Ending,
    SessionLimits,
)
from handoff.agents.endings import CLIENTS, UNKNOWN_COST, Bill, Book, Prices, classify
from handoff.agents.monitor import ERRORS, EVENTS, GRACE_SECONDS
from handoff.agents.records import RecordReader
from handoff.base.bounds import Running, descendants, end, is_alive, of_session, spent_below
from handoff.base.files import SOURCES
from handoff.base.light_json import dumps
from handoff.base.process import Child, spawn, wait_for_end
from handoff.base.record import TYPE_CHECKING, Record

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from handoff.agents.contract import Abilities, Adapter, AgentEvent
    from handoff.base.clock import Clock

PAUSE_SECONDS = 0.2
_START_PAUSE = 0.005
# `-m` takes a third longer to start.
_MONITOR = "import sys; sys.path.append(sys.argv.pop(1)); from handoff.agents.monitor import run; sys.exit(run())"
_LEFTOVER_PAUSE, _LEFTOVER_TRIES = 0.05, 200
BEAT_SECONDS = 5.0
_FORCE_AFTER = 3 * GRACE_SECONDS
_TAIL = 2000
_SILENT = "no sign of life"
_CUT = (KILLED, LOST, STOPPED, UNKNOWN)
"""Endings in which a client may have been answered more than it could write down."""


class SupervisionRules(Record):
    """What bounds a session: its limits, and how long it may be silent before it counts as hung (0: for ever)."""

    limits: SessionLimits = SessionLimits()
    silence_seconds: float = 0.0
    attended: bool = False
    """A person sits before it in a terminal: silence is thinking, and they end it."""
    prices: Prices = Prices()
    records: tuple[str, ...] = ()
    """Where the client keeps its own record of the conversation, as patterns."""


class Observation(Record):
    """What became known of a session while it ran."""

    client_id: str = ""
    result: AgentEvent | None = None
    trouble: AgentEvent | None = None
    said: str = ""
    """Its last words, whatever they were about."""
    tools: int = 0
    in_tool: bool = False
    """Whether the last thing it began is a tool that has not come back."""
    asking: bool = False
    """Whether a tool came back last: its model is being asked what to do next."""
    answered: bool = False
    """Whether a model has said or done anything. A turn that began, or a result that says it is over, is no such thing."""
    turns: int = 0
    money: float = 0.0
    """What it has cost, as far as that is known."""
    wait_until: float = 0.0
    called_in: bool = False


class AgentSession:
    """A session under supervision. `step` looks once; `supervise` looks until it is over."""

    def __init__(
        self,
        folder: str,
        name: str,
        adapter: Adapter,
        abilities: Abilities,
        rules: SupervisionRules,
        clock: Clock,
        ago: float = 0.0,
    ) -> None:
        self.folder = folder
        self.name = name
        self.adapter = adapter
        self.abilities = abilities
        self.rules = rules
        self.clock = clock
        self.seen = Observation()
        self.started = clock.monotonic() - ago
        self.active_at = clock.monotonic()
        self.stopped = folders.text_of(folder, folders.STOPPED).strip()
        self._stopped_at = clock.monotonic()
        self._asked = self._spoke = False
        self._offset = 0
        self._size = 0
        self._busy = 0.0
        self._looked_at = 0.0
        self._child: Child | None = None
        self.monitor = folders.monitor_of(folder)
        self._token = folders.text_of(folder, folders.TOKEN).strip()
        self._book = Book()
        self._records = RecordReader(list(rules.records), began=clock.now() - ago)
        self._copied_at = clock.monotonic()
        self._cut = False  # whether it ended in the middle of a turn

    # --- beginning ---------------------------------------------------------------------------------------

    def start(self, environment: Mapping[str, str]) -> Running:
        """Start the monitor, which starts the client; its output goes to files, so that it needs nobody to live."""
        argv = [sys.executable, "-c", _MONITOR, SOURCES, self.folder]
        log = os.path.join(self.folder, "monitor.log")
        child = spawn(argv, environment=environment, err=log, here=self.rules.attended)
        while not folders.has_started(self.folder) and child.ended() is None:
            self.clock.sleep(_START_PAUSE)
        self.monitor = folders.monitor_of(self.folder)
        if self.monitor.pid in (0, child.pid):  # else another supervisor's monitor was quicker
            self._child = child
        return self.monitor

    @property
    def alive(self) -> bool:
        """Whether the monitor still runs; a monitor that was started by another supervisor counts as well."""
        if self._child is not None:
            return self._child.ended() is None
        return is_alive(self.monitor)

    # --- watching ----------------------------------------------------------------------------------------

    def step(self) -> bool:
        """Look once: new events, calls of its hooks, limits. False when the session is over."""
        alive = self.alive
        self._read_events()
        if self.clock.monotonic() - self._copied_at > BEAT_SECONDS:
            self._read_records()
        self._hear_calls()
        self._notice_activity()
        if alive:
            self._enforce()
        return alive

    def _read_events(self) -> None:
        try:
            with open(os.path.join(self.folder, EVENTS), "rb") as file:
                file.seek(self._offset)
                data = file.read()
        except OSError:
            return
        whole, newline, _ = data.rpartition(b"\n")
        if not newline and data and not self.alive:
            whole, newline = data, b"\n"
        self._offset += len(whole) + len(newline)
        for line in whole.decode("utf-8", "replace").split("\n") if newline else ():
            for event in self.adapter.read(line):
                self._take_in(event)
        if newline:
            self._count()

    def _read_records(self) -> None:
        """What the client has written of its tokens so far: most clients tell them nowhere else before their end."""
        self._copied_at = self.clock.monotonic()
        self._book.copy(self._records.new(self.client_id))
        self._count()

    def _count(self) -> None:
        bill = self.bill
        self.seen = self.seen._replace(money=bill.money if bill is not None else 0.0)

    @property
    def client_id(self) -> str:
        """The conversation by the client's own name."""
        return self.seen.client_id or str(folders.get(self.folder, folders.FACTS).get("client_id") or "")

    @property
    def bill(self) -> Bill | None:
        """What it has used so far; None when it has used nothing."""
        told = self._book.bill(self.rules.prices, agent=self.adapter.name)
        if told is None:
            is_silent = not self.adapter.tells_use and bool(self.seen.said or self.seen.tools)
            return Bill() if is_silent or self._cut else None
        return told._replace(basis=UNKNOWN_COST) if self._cut and self.seen.asking else told

    def _take_in(self, event: AgentEvent) -> None:
        seen = self.seen
        if event.client_id:
            seen = seen._replace(client_id=event.client_id)
        if event.kind == RESULT:
            seen = seen._replace(result=event, turns=max(seen.turns, event.turns))
        elif event.kind == TROUBLE:
            seen = seen._replace(trouble=event)
        elif event.kind == USAGE:
            seen = seen._replace(turns=seen.turns + event.turns)
        elif event.kind == WAIT:
            seen = seen._replace(wait_until=event.until)
        elif event.kind == TOOL:
            seen = seen._replace(tools=seen.tools + 1, trouble=None)
        elif event.kind == SAID:
            seen = seen._replace(said=event.text or seen.said)
        if event.kind in (TOOL, ANSWERED) or (event.kind == SAID and self.abilities.start_context):
            seen = seen._replace(answered=True)
        if event.kind in (TOOL, ANSWERED, SAID, RESULT):
            seen = seen._replace(in_tool=event.kind == TOOL, asking=event.kind == ANSWERED)
        self._spoke = self._spoke or event.kind not in (TROUBLE, TOTAL)
        self.seen = seen
        self._book.hear(event)
        if event.kind == TOOL and self.abilities.calls_in:
            self._hear_calls()
            if not self.seen.called_in:
                self.stop(f"a tool ran before {self._handshake()}")

    def _hear_calls(self) -> None:
        """The handshake: the start hook leaves the session's token in the folder, or the first word over MCP does.

        A client that has hooks must have called them: with its tools alone its edits would go unasked.
        """
        if not self.seen.called_in and self._token:
            name = folders.HELLO if self.abilities.start_context else folders.MCP_HELLO
            if folders.text_of(self.folder, name).strip() == self._token:
                self.seen = self.seen._replace(called_in=True)

    def _handshake(self) -> str:
        if self.abilities.start_context:
            return "the start hook called in: the client's hooks are not active"
        return "the client spoke to the relay's tools: its MCP servers are not active"

    def _notice_activity(self) -> None:
        """Anything written, any hook called, any processor time used is a sign of life; the agent need not call anything."""
        size = folders.size_of(self.folder)
        if self.rules.attended:
            self.active_at = self.clock.monotonic()
        elif size != self._size:
            self._size = size
            self.active_at = self.clock.monotonic()
        elif self.clock.monotonic() - self._looked_at > BEAT_SECONDS:
            self._looked_at = self.clock.monotonic()
            busy = spent_below(self.monitor.pid)
            if busy > self._busy + 0.05:
                self.active_at = self.clock.monotonic()
            self._busy = busy

    def _enforce(self) -> None:
        limits, now = self.rules.limits, self.clock.monotonic()
        asked = folders.text_of(self.folder, folders.STOP).strip()
        if self.stopped:
            if not self._asked:  # by a supervisor that may have died before it could say so
                self._ask_monitor()
            if now - self._stopped_at > _FORCE_AFTER:
                self.force()
        elif asked:
            self.stop(asked)
        elif limits.minutes and now - self.started > limits.minutes * 60:
            self.stop(f"the limit of {limits.minutes:g} minutes is reached")
        elif limits.turns and not self.abilities.turn_limit and max(self.seen.turns, self.seen.tools) > limits.turns:
            self.stop(f"the limit of {limits.turns} turns is reached")
        elif limits.money and not self.abilities.money_limit and self.seen.money > limits.money:
            self.stop(f"the limit of {limits.money:g} USD is reached")
        elif (
            self.rules.silence_seconds and not self.rules.attended and now - self.active_at > self.rules.silence_seconds
        ):
            self.stop(f"{_SILENT} for {self.rules.silence_seconds:g} s")

    # --- ending ------------------------------------------------------------------------------------------

    def stop(self, reason: str) -> None:
        """Ask the monitor to end the client and everything it started."""
        if self.stopped:
            return
        self.stopped, self._stopped_at = reason, self.clock.monotonic()
        folders.put(self.folder, folders.STOPPED, reason)  # first: whoever takes over after a crash knows why
        self._ask_monitor()

    def _ask_monitor(self) -> None:
        self._asked = True
        end([self.monitor], signal.SIGTERM)

    def force(self) -> None:
        """The monitor does not answer: end every process of the session ourselves."""
        end([*descendants(self.monitor.pid), self.monitor, *of_session(self.name)])

    def close(self) -> AgentOutcome:
        """The monitor is gone: end what may be left, then judge."""
        self._end_leftovers()
        self._read_events()
        self._read_records()
        self._hear_calls()
        told = folders.exit_of(self.folder)
        outcome = self._outcome(told)
        has_asked = self.adapter.name in CLIENTS and (self._spoke or self.seen.called_in)
        is_cut = outcome.kind in _CUT or (outcome.kind == FAILED and bool(self.stopped or told.get("over")))
        self._cut = has_asked and is_cut and self.seen.result is None
        folders.put(
            self.folder,
            folders.OUTCOME,
            dumps(
                {
                    **outcome._asdict(),
                    "client_id": self.seen.client_id,
                    "called_in": self.seen.called_in,
                    "tools": self.seen.tools,
                    "bill": self.bill._asdict() if self.bill is not None else None,
                    "stragglers": int(told.get("stragglers", 0)),
                    "code": told.get("code"),
                }
            ),
        )
        return outcome

    def _end_leftovers(self) -> None:
        for _ in range(_LEFTOVER_TRIES):  # ten seconds; what cannot be killed by then is not waited for
            left = of_session(self.name)
            if not left:
                break
            end(left)
            self.clock.sleep(_LEFTOVER_PAUSE)

    def _outcome(self, told: Mapping[str, object]) -> AgentOutcome:
        """The facts, and what the classifier makes of them."""
        asked = folders.text_of(self.folder, folders.STOP).strip()
        code, error = told.get("code"), str(told.get("error") or "")
        stopped = self.stopped or str(told.get("over") or "")
        tail = error or folders.tail(self.folder, ERRORS, _TAIL) or folders.tail(self.folder, EVENTS, _TAIL // 4)
        able, shown = self.abilities, self.abilities.start_context or self.abilities.shows_answers
        return classify(
            self.adapter.name,
            Ending(
                code=code if isinstance(code, int) else None,
                result=self.seen.result,
                trouble=self.seen.trouble,
                tail=self.seen.said or tail if stopped else tail,
                wait_until=self.seen.wait_until,
                at=min(self.clock.now(), folders.ended_at(self.folder) or self.clock.now()),
                asked=asked if self.stopped or told.get("stopped") else "",
                stopped=stopped,
                adopted=self._child is None,
                terminated=bool(told.get("stopped")),
                attended=self.rules.attended,
                unheard=self._handshake() if able.calls_in and not self.seen.called_in else "",
                began=self._spoke or self.seen.called_in or not able.start_context,
                answered=self.seen.answered or bool(self._book.uses()) or not shown,
                in_tool=self.seen.in_tool or not shown,
                silent=self.stopped.startswith(_SILENT),
            ),
        )


def supervise(session: AgentSession, *, look: Callable[[], None]) -> AgentOutcome:
    """Watch until it is over; `look` is called each time round and tells whose the task is."""
    while session.step():
        look()
        wait_for_end(session.monitor.pid, PAUSE_SECONDS, sleep=session.clock.sleep)
    return session.close()

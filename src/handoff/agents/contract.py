"""What an agent is to the relay: data plus pure functions. Everything with a side effect lives once, in the supervisor."""

from __future__ import annotations

from handoff.base.light_json import loads
from handoff.base.record import TYPE_CHECKING, Record

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from handoff.agents.history.entries import HistoryEntry

# How a session may come out; `reading.endings` decides which it is, and nobody else. Only FAILED is charged to the agent.
OK, FAILED, STOPPED = "ok", "failed", "stopped"
# The provider has given enough, does not answer, or wants a log-in or money.
LIMIT, DOWN, LOGIN = "limit", "down", "login"
# This machine has no client that runs, or nothing to work or judge with.
CLIENT, ENVIRONMENT = "client", "environment"
# Ended with everything else at once, as by a power cut; ended alone, from outside.
LOST, KILLED = "lost", "killed"
UNKNOWN = "unknown"
ENDINGS = {
    OK: "ended well",
    FAILED: "the agent failed",
    STOPPED: "stopped by a person",
    LIMIT: "the provider's limit is reached",
    DOWN: "the provider is down",
    LOGIN: "a log-in or credit is missing",
    CLIENT: "the client does not run here",
    ENVIRONMENT: "this machine is not ready for it",
    LOST: "lost with everything else that ran",
    KILLED: "killed from outside",
    UNKNOWN: "ended for an unknown reason",
}
"""The same in a person's words."""

# What a line of a client's output means.
STARTED, TOOL, SAID, USAGE, RESULT, TROUBLE, WAIT = "started", "tool", "said", "usage", "result", "trouble", "wait"
TOTAL = "total"  # as USAGE, of the session so far instead of one answer
OUTPUT = "output"  # a line that a tool printed, where the client passes it on
ANSWERED = "answered"  # what a tool gave, or the end of a model's answer, has come in

PIECE, LINE = "piece", "line"

TOKEN_VARIABLE = "HANDOFF_TOKEN"  # noqa: S105 - the name of the variable

# Who really stops a write outside the ownership.
BY_CLIENT, BY_SANDBOX, BY_NOBODY = "client", "sandbox", "none"


class Abilities(Record):
    """What one version of a client can do; each one was tried on the real program."""

    start_context: bool = False
    deny_edit: bool = False
    refuse_stop: bool = False
    choose_id: bool = False
    resume: bool = False
    mcp: bool = False
    turn_limit: bool = False
    money_limit: bool = False
    shows_answers: bool = False
    """Whether its output tells when a model has answered; that of a client with hooks does."""
    fence: str = BY_SANDBOX

    @property
    def calls_in(self) -> bool:
        """Whether a session must call in before it counts as live: a client whose hooks are silent is cut off."""
        return self.start_context or self.mcp


class SessionLimits(Record):
    """How much a session may use; 0 is no limit."""

    minutes: float = 0.0
    turns: int = 0
    money: float = 0.0


class LaunchRequest(Record):
    """What an adapter is told when a session is to start."""

    program: str
    prompt: str
    workspace: str
    folder: str
    session: str
    client_id: str = ""
    state: str = ""
    """Where the client keeps its conversations; the first session's folder when one is resumed."""
    hook: tuple[str, ...] = ()
    mcp: tuple[str, ...] = ()
    """Our tools as a program for the client to start; nothing where they cannot be served."""
    endpoint: str = ""
    """Where the same tools answer over HTTP at present, called with `token`; a client that can prefers it."""
    token: str = ""
    owned: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    sandboxed: bool = False
    model: str = ""
    version: str = ""
    limits: SessionLimits = SessionLimits()
    settings: str = ""
    """Where the person's own settings of the client are, if its adapter has named them and they are there."""
    words: tuple[str, ...] = ()


class Launch(Record):
    """What the supervisor starts: the words, what is added to the environment, the files to write first."""

    argv: tuple[str, ...]
    environment: Mapping[str, str] = {}
    files: Mapping[str, str] = {}
    reads: tuple[tuple[str, str, bool], ...] = ()
    """What else of the person's home the client needs, as in `Adapter.logins`; without a second place it reads it where it is."""
    variables: tuple[str, ...] = ()
    """Names of variables that the person's settings of the client lead to."""


class Usage(Record):
    """What a model was asked and answered, in tokens, as the client tells it."""

    model: str = ""
    input: int = 0
    """Not read from a cache."""
    cached: int = 0
    output: int = 0
    """With what it reasoned."""
    reasoning: int = 0
    written: int = 0
    """The part of the input that went into a cache; some providers charge more for it."""
    money: float | None = None
    """What the client says that it cost, in US dollars; None where it does not say."""
    key: str = ""
    """What is told again under the same key counts once."""
    at: str = ""
    """When, as the client's own record says."""

    @property
    def tokens(self) -> int:
        return self.input + self.cached + self.output


class AgentEvent(Record):
    """One thing a client said, the same for every vendor."""

    kind: str
    text: str = ""
    client_id: str = ""
    ok: bool | None = None
    turns: int = 0
    until: float = 0.0
    use: Usage | None = None
    status: int = 0
    """The HTTP status of its provider, where the client shows one."""
    entry: HistoryEntry | None = None
    """What a tool was asked (TOOL), or what it gave (ANSWERED), for whoever goes on after the session."""
    call: str = ""
    """Which call an answer belongs to; empty where both come at once.

    Of words: `PIECE` where they go on in the next event, `LINE` where nobody knows whether a line is words or what a program printed."""


class Ending(Record):
    """The facts about a session whose process is gone."""

    code: int | None
    """Its exit code, or a signal below 0; None when nobody saw it."""
    result: AgentEvent | None = None
    trouble: AgentEvent | None = None
    """The last error it told of and did not get over."""
    tail: str = ""
    """What stands last in its log."""
    wait_until: float = 0.0
    at: float = 0.0
    """When it said its last word: a pause is counted from here, whenever somebody looks."""
    asked: str = ""
    """Why a person ended it."""
    stopped: str = ""
    """Why we ended it."""
    adopted: bool = False
    """Whoever started it was gone too, and another one took it up."""
    terminated: bool = False
    """Somebody else told it to end: a shutdown of the machine, a stranger."""
    attended: bool = False
    unheard: str = ""
    """What should have called in and did not."""
    began: bool = True
    """Whether the client came as far as its first word or hook; True for one that has neither."""
    answered: bool = True
    """Whether a model said or did anything; True where nobody can know."""
    in_tool: bool = False
    silent: bool = False
    """Whether we ended it because nothing moved."""


class AgentOutcome(Record):
    """How a session came out, why, for a limit until when to wait, what mends it, and when it happened."""

    kind: str
    reason: str = ""
    until: float = 0.0
    fix: str = ""
    at: float = 0.0

    @property
    def why(self) -> str:
        """What it is, and what was said of it."""
        return f"{self.word}: {self.reason}" if self.reason else self.word

    @property
    def word(self) -> str:
        """What it is; a row that an older version wrote may have a kind of its own."""
        return ENDINGS.get(self.kind, self.kind)


if TYPE_CHECKING:
    Start = Callable[[LaunchRequest], Launch]
    Read = Callable[[str], "tuple[AgentEvent, ...]"]


class Adapter(Record):
    """One client. `programs` are the names it is looked for by; `dialect` is how its hooks speak, if it has any."""

    name: str
    title: str
    programs: tuple[str, ...]
    abilities: Callable[[str], Abilities]
    launch: Start
    read: Read
    resume: Start | None = None
    dialect: str = ""
    floor: str = ""
    version_words: tuple[str, ...] = ("--version",)
    secrets: tuple[str, ...] = ()
    logins: tuple[tuple[str, str, bool], ...] = ()
    """What a client with a folder of its own needs of the person's home: where it is, where in that folder it looks, whether it renews it."""
    variables: tuple[str, ...] = ()
    """Names of variables the client is set up by (`CLAUDE_*`), which a sandboxed one sees; `secrets` it sees anyway."""
    hosts: tuple[str, ...] = ()
    """Its provider's hosts: all that a session of it reaches where the network is kept to a list."""
    settings: tuple[str, str] = ("", "")
    """The client's settings below the person's home, and the variable that moves their folder: what of them holds is read by `launch`."""
    login_status: tuple[str, ...] = ()
    """Words with which it says, without a model and by its exit code, whether somebody is logged in."""
    login_command: str = ""
    """What logs a person in."""
    interactive: Start | None = None
    """How it is started in a person's terminal, if that was tried."""
    tells_use: bool = True
    """Whether a session that told no tokens has used none. Otherwise its cost is unknown once it has said or done something."""


def bearer(order: LaunchRequest) -> dict[str, str]:
    """The header with which a client calls our endpoint; it is written into files of the session, never into words."""
    return {"Authorization": f"Bearer {order.token}"}


def version_of(text: str) -> str:
    """The first word that looks like a version in what `--version` printed."""
    for word in text.replace("(", " ").replace(")", " ").replace(",", " ").split():
        bare = word.removeprefix("v")
        if bare[:1].isdigit() and "." in bare:
            return bare.rstrip(".")
    return ""


def at_least(version: str, floor: str) -> bool:
    """Whether a version is not older than `floor`; an unknown version is given the benefit of the doubt."""
    if not version or not floor:
        return True
    return _numbers(version) >= _numbers(floor)


def _numbers(version: str) -> tuple[int, ...]:
    digits = ("".join(c for c in part if c.isdigit()) for part in version.partition("-")[0].split("."))
    return tuple(int(part) for part in digits if part)


# Reading a client's output: one JSON value a line where it prints JSON, plain text otherwise.


_LONGEST = 2000


def parse_line(line: str) -> dict[str, Any]:
    """The JSON object of a line; an empty one for anything else, because clients print warnings between their events."""
    text = line.strip()
    if not text.startswith("{"):
        return {}
    try:
        value = loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def text_of(value: Any) -> str:
    """A message as one short text, whatever shape a client gives it."""
    if isinstance(value, str):
        return value[:_LONGEST]
    if isinstance(value, dict):
        for key in ("message", "text", "data", "error", "name"):
            if value.get(key):
                return text_of(value[key])
        return ""
    if isinstance(value, list):
        return " ".join(filter(None, (text_of(item) for item in value)))[:_LONGEST]
    return "" if value is None else str(value)[:_LONGEST]


def number(value: Any) -> float:
    """A number, or 0 for anything else."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0

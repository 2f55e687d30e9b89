"""The agents by name: ours, those of other packages (entry points `handoff.agents`), and commands from the settings.

And how a person starts a client by hand, with a first prompt or with one of its sessions."""

from __future__ import annotations

import os
from importlib import import_module

from handoff.agents.adapters.pieces import event, no_abilities
from handoff.agents.contract import BY_NOBODY, LINE, SAID, Abilities, Adapter, AgentEvent, Launch, LaunchRequest
from handoff.base.errors import ConfigError, UserError
from handoff.base.markdown import fill
from handoff.base.record import TYPE_CHECKING, Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

GROUP = "handoff.agents"
_INTERPRETERS = ("node", "bun", "deno", "python", "sh", "bash", "dash", "zsh", "env")
_MARKS = {
    "CLAUDECODE": "claude",
    "CODEX_THREAD_ID": "codex",
    "GEMINI_CLI": "gemini",
    "OPENCODE": "opencode",
    "QWEN_CODE": "qwen",
}
"""What a client sets for the commands of its model, also for one that detached itself."""
OURS = {name: name for name in "claude codex gemini copilot opencode cursor aider acp scripted person".split()}
"""The name people say, and the name of the module, where one is needed."""
PERSON = "person"


def adapter(name: str, *, commands: Mapping[str, Any] | None = None, where: str = "config.toml") -> Adapter:
    """The adapter of that name; a command of the person's own wins over a package, ours over both."""
    words, _ = _said(name, commands, where)
    if name in OURS:
        if words is not None:
            raise ConfigError(
                f"{where}: agents.{name} is an agent of handoff's own and has a command.",
                f'Give it arguments instead: [agents.{name}] arguments = ["--flag"]; or name yours otherwise.',
            )
        if name == PERSON:
            return _PERSON_ADAPTER
        found: Adapter = import_module(f"handoff.agents.adapters.{OURS[name]}").ADAPTER
        return found
    if words is not None:
        return made_from(name, words, where=f"{where}: agents.{name}")
    for point in _points():
        if point.name == name:
            return _loaded(point)
    known = ", ".join(names(commands=commands))
    raise UserError(
        f"There is no agent '{name}'.", f"Known agents: {known}. A command of yours: handoff help docs/howto/agents.md"
    )


def client_in(lines: Iterable[Sequence[str]], environment: Mapping[str, str]) -> str:
    """The client that a command of this environment runs inside, below these command lines, the nearest first.

    A script's name counts, not its interpreter's.
    """
    programs = {word: name for name in OURS if name != "scripted" for word in adapter(name).programs}
    for line in lines:
        words = line if len(line) > 1 else " ".join(line).split()  # a program may have given itself a title
        for word in words:
            base = os.path.splitext(os.path.basename(word))[0]
            if base in programs:
                return programs[base]
            if base.rstrip("0123456789.") not in _INTERPRETERS and not word.startswith("-"):
                break
    return next((name for mark, name in _MARKS.items() if environment.get(mark)), "")


def arguments(name: str, *, commands: Mapping[str, Any] | None = None, where: str = "config.toml") -> tuple[str, ...]:
    """The further words that every session of this agent is started with."""
    return _said(name, commands, where)[1]


def network(name: str, *, commands: Mapping[str, Any] | None = None, where: str = "config.toml") -> str:
    """How far the network reaches for this agent, if the settings say so."""
    _said(name, commands, where)
    said = (commands or {}).get(name)
    return str(said.get("network", "")) if isinstance(said, dict) else ""


def names(*, commands: Mapping[str, Any] | None = None) -> list[str]:
    """Every agent that can be named, ours first."""
    return list(dict.fromkeys([*OURS, *sorted(commands or {}), *sorted(point.name for point in _points())]))


def _said(name: str, commands: Mapping[str, Any] | None, where: str) -> tuple[list[str] | None, tuple[str, ...]]:
    """What the settings say of an agent: the words of a command, if it is one, and its arguments."""
    said = (commands or {}).get(name)
    if said is None:
        return None, ()
    parts = said if isinstance(said, dict) else {"command": said}
    for key, words in parts.items():
        if key not in ("command", "arguments", "network"):
            raise ConfigError(f"{where}: agents.{name}.{key} is not known.", "Known are: command, arguments, network.")
        if key == "network":
            continue
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise ConfigError(
                f"{where}: agents.{name} must be a list of texts, not {words!r}.",
                'For example: agents = { mine = ["my-agent", "{prompt_file}"] }, or [agents.claude] arguments = ["--flag"]',
            )
    return parts.get("command"), tuple(parts.get("arguments", ()))


def _points() -> list[Any]:
    from importlib.metadata import entry_points

    return list(entry_points(group=GROUP))


def _loaded(point: Any) -> Adapter:
    try:
        found = point.load()
    except (ImportError, AttributeError, SyntaxError) as error:
        raise UserError(
            f"The agent '{point.name}' of {point.value} cannot be loaded: {error}.", "Fix or remove that package."
        ) from error
    if not isinstance(found, Adapter):
        raise UserError(
            f"The agent '{point.name}' of {point.value} is no handoff.agents.contract.Adapter.",
            "See: handoff help docs/howto/agents.md",
        )
    return found


# --- a command: its exit code and the evidence are all that is known ---------------------------------------------

PLACEHOLDERS = ("prompt", "prompt_file", "workspace", "session", "folder", "model")


def read_words(line: str) -> tuple[AgentEvent, ...]:
    """Whatever it prints is what it said."""
    text = line.strip()
    return event(SAID, text, call=LINE) if text else ()


def made_from(name: str, template: Sequence[str], *, where: str) -> Adapter:
    """An adapter for the program a person wrote into the settings as a list of words."""
    if not template:
        raise ConfigError(f"{where}: the command of agent '{name}' is empty.", "Give its words as a list of texts.")
    for word in template:
        fill(word, dict.fromkeys(PLACEHOLDERS, ""), where=where)

    # An interpreter is useless where its script is hidden. Folders stay hidden: one of them may be the home itself.
    named = tuple(word for word in template[1:] if os.path.isabs(word) and os.path.isfile(word))

    def launch(order: LaunchRequest) -> Launch:
        path = os.path.join(order.folder, "prompt.md")
        values = {
            "prompt": order.prompt,
            "prompt_file": path,
            "workspace": order.workspace,
            "session": order.session,
            "folder": order.folder,
            "model": order.model,
        }
        words = [fill(word, values, where=where) for word in template]
        return Launch(
            (order.program, *words[1:], *order.words),
            {},
            {path: order.prompt},
            reads=tuple((name, "", False) for name in named),
        )

    return Adapter(
        name=name,
        title=f"{name} (a command of yours)",
        programs=(template[0],),
        abilities=no_abilities,
        launch=launch,
        read=read_words,
        tells_use=False,
        version_words=(),
        interactive=launch,
    )


# --- by hand -----------------------------------------------------------------------------------------------------

PROMPT, WORDS, SESSION = "{prompt}", "{words}", "{session}"


class HandWords(Record):
    """The words of one client; `{words}` is where a person's own go, as several."""

    title: str
    first: tuple[str, ...]
    """In a terminal, with a first prompt."""
    alone: tuple[str, ...]
    """For one prompt, without anybody there."""
    again: tuple[str, ...]
    """In a terminal, with a session of its own."""


BY_HAND = {
    "claude": HandWords(
        "Claude Code",
        ("claude", PROMPT, WORDS),
        ("claude", "-p", PROMPT, WORDS),
        ("claude", "--resume", SESSION, WORDS),
    ),
    "codex": HandWords(
        "Codex",
        ("codex", WORDS, PROMPT),
        ("codex", "exec", "--skip-git-repo-check", WORDS, PROMPT),
        ("codex", "resume", WORDS, SESSION),
    ),
    "gemini": HandWords(
        "Gemini CLI",
        ("gemini", WORDS, "--prompt-interactive", PROMPT),
        ("gemini", WORDS, "-p", PROMPT),
        ("gemini", "--resume", SESSION, WORDS),
    ),
    "opencode": HandWords(
        "opencode",
        ("opencode", WORDS, "--prompt", PROMPT),
        ("opencode", "run", WORDS, PROMPT),
        ("opencode", "-s", SESSION, WORDS),
    ),
    "copilot": HandWords(
        "Copilot CLI",
        ("copilot", WORDS, "-i", PROMPT),
        ("copilot", WORDS, "-p", PROMPT),
        ("copilot", "--resume={session}", WORDS),
    ),
    "qwen": HandWords(
        "Qwen Code",
        ("qwen", WORDS, "--prompt-interactive", PROMPT),
        ("qwen", WORDS, "-p", PROMPT),
        ("qwen", "--resume", SESSION, WORDS),
    ),
    "aider": HandWords(
        "aider",
        ("aider", WORDS, "--message", PROMPT),
        ("aider", WORDS, "--message", PROMPT),
        ("aider", "--restore-chat-history", WORDS),
    ),
    "cursor": HandWords(
        "Cursor",
        ("cursor-agent", WORDS, PROMPT),
        ("cursor-agent", "-p", WORDS, PROMPT),
        ("cursor-agent", "--resume", SESSION, WORDS),
    ),
}


def start_words(
    words: tuple[str, ...], *, prompt: str = "", session: str = "", more: tuple[str, ...] = ()
) -> list[str]:
    """The words of a start, ready to run."""
    argv: list[str] = []
    for word in words:
        argv += more if word == WORDS else [prompt if word == PROMPT else word.replace(SESSION, session)]
    return argv


# --- a person: no process of ours; they report with `handoff task done` or `block` -------------------------------

_PERSON_ADAPTER = Adapter(
    name=PERSON,
    title="a person",
    programs=(),
    abilities=lambda _: Abilities(fence=BY_NOBODY),  # the evidence is asked for when the person reports
    launch=lambda _: Launch(()),
    read=lambda _: (),
    version_words=(),
)

"""How a ready task reaches a person's tab: an IDE address, a tmux window, a terminal, the clipboard, or plain words."""

from __future__ import annotations

import os
import sys
from base64 import b64encode

from handoff.agents.catalog import BY_HAND, WORDS
from handoff.base.errors import ConfigError, UserError
from handoff.base.markdown import fill
from handoff.base.process import feed, find, launch, run
from handoff.base.record import TYPE_CHECKING, Record
from handoff.engine.place.fanout.tabs import (
    EDITORS,
    TERMINALS,
    Editor,
    Job,
    Terminal,
    addresses,
    by_name,
    editor_here,
    tab_words,
    terminal_here,
    uri_for,
)

if TYPE_CHECKING:
    from handoff.base.settings import Config
    from handoff.engine.app import App

_OSC52_LIMIT = 74_000  # what common terminals accept in one sequence


def to_clipboard(app: App, text: str) -> str:
    """How the text reached a clipboard, in words for the person; empty when it did not."""
    data = text.encode("utf-8", "surrogateescape")
    argv = clipboard_program(app)
    if argv and feed(argv, data, environment=app.settings.environment) == 0:
        return f"Copied prompt to clipboard ({argv[0]})."
    return _by_terminal(app, data)


def clipboard_program(app: App) -> list[str]:
    """The native clipboard program of this machine, ready to be fed; nothing when there is none."""
    if app.settings.get("HANDOFF_NO_PBCOPY"):
        return []
    return next((argv for argv in _programs(app) if find(argv[0], path=app.settings.path)), [])


def _programs(app: App) -> list[list[str]]:
    """The native clipboard programs that can work here, best first."""
    settings = app.settings
    found = [["pbcopy"]]
    if settings.get("WAYLAND_DISPLAY"):
        found.append(["wl-copy"])
    if settings.get("DISPLAY"):
        found += [["xclip", "-selection", "clipboard"], ["xsel", "--clipboard", "--input"]]
    if settings.get("TMUX"):
        found.append(["tmux", "load-buffer", "-w", "-"])
    found += [["termux-clipboard-set"], ["clip.exe"]]
    return found


def _by_terminal(app: App, data: bytes) -> str:
    """Ask the terminal itself (OSC 52), which also works over SSH; it never answers, so nothing is promised."""
    if app.settings.get("TERM") in ("", "dumb", "linux") or len(data) > _OSC52_LIMIT:
        return ""
    try:
        terminal = os.open("/dev/tty", os.O_WRONLY | os.O_NOCTTY)
    except OSError:
        return ""
    try:
        os.write(terminal, b"\x1b]52;c;" + b64encode(data) + b"\x07")
    except OSError:
        return ""
    finally:
        os.close(terminal)
    return "Sent to your terminal's clipboard (OSC 52). Not every terminal takes it: paste to be sure."


# --- a tab for a task ------------------------------------------------------------------------------------------------

AUTO, URI, TMUX, TERMINAL, CLIPBOARD, PRINT = _WAYS = ("auto", "uri", "tmux", "terminal", "clipboard", "print")
WAYS = (*_WAYS, *(one.name for one in (*EDITORS, *TERMINALS)))
_SECONDS = 20.0


class OpenedTab(Record):
    """What really happened, in words a person can check."""

    way: str
    words: str
    prompt: str


def open_task(app: App, config: Config, job: Job, *, way: str = "") -> OpenedTab:
    """Open the task the way that was asked for, or the first one that works here; say what was done."""
    chosen = way or config.text("opener")
    if chosen not in WAYS:
        place = "--with" if way else f"{config.path}: opener"
        raise ConfigError(f"{place}: '{chosen}' is not a way to open a task.", f"Use one of: {', '.join(WAYS)}.")
    if chosen == AUTO:
        chosen = way_here(app, config) or (CLIPBOARD if _clipboard_words(app, config) else PRINT)
    if chosen == URI:
        words = open_uri(app, uri_for(config, job))
    elif chosen == TMUX:
        command = _agent_command(app, config, job)
        words = open_window(app, name=job.task, folder=job.workspace, project=job.project, command=command)
    elif chosen == TERMINAL:
        words = _open_terminal(app, config, job)
    elif isinstance(known := by_name(chosen), Editor):
        words = _open_editor(app, known, job)
    elif isinstance(known, Terminal):
        words = _start_terminal(app, config, job, known)
    elif chosen == CLIPBOARD:
        words = _copy(app, config, job.prompt)
    else:
        words = "Nothing was opened. Give this to the next session:"
    return OpenedTab(chosen, words, job.prompt)


def way_here(app: App, config: Config) -> str:
    """How a tab really opens on this machine: what the settings name, else what the person works in; empty if nothing does."""
    agent = bool(_agent_words(app, config, ""))
    if app.settings.get("TMUX") and has(app, "tmux") and agent:
        return TMUX
    if config.text("uri_template") and _uri_program(app):
        return URI
    if config.texts("terminal_command"):
        return TERMINAL
    editor = editor_here(app.settings.get)
    if editor is not None and _address_words(app, editor):
        return editor.name
    terminal = terminal_here(app.settings.get, lambda program: has(app, program))
    if terminal is not None and agent:
        return terminal.name
    if _on_screen(app):
        return next((one.name for one in EDITORS if has(app, one.program)), "")
    return TMUX if agent and has(app, "tmux") else ""


def has(app: App, program: str) -> bool:
    """Whether a program of that name is on the PATH."""
    return find(program, path=app.settings.path) is not None


def _on_screen(app: App) -> bool:
    return sys.platform == "darwin" or bool(app.settings.get("DISPLAY") or app.settings.get("WAYLAND_DISPLAY"))


def _uri_program(app: App) -> str:
    program = "open" if sys.platform == "darwin" else "xdg-open"
    return program if _on_screen(app) and has(app, program) else ""


def _address_words(app: App, editor: Editor) -> list[str]:
    """What opens an address of an editor: its own program, else the desktop's."""
    if has(app, editor.program):
        return [editor.program, "--open-url"]
    program = _uri_program(app)
    return [program] if program else []


def _open_editor(app: App, editor: Editor, job: Job) -> str:
    words = _address_words(app, editor)
    if not words:
        raise UserError(
            f"{editor.program} is not installed, and no program here opens an address.", "Use --with tmux or print."
        )
    found = addresses(editor, folder=job.workspace, prompt=job.prompt)
    for address in found:
        code = launch([*words, address], environment=app.settings.environment)
        if code:
            raise UserError(f"{words[0]} could not open {address} (exit {code}).", "Is the editor installed?")
    told = "" if len(found) > 1 else f"; it takes no prompt from outside, so paste this: {job.prompt}"
    return f"Asked {words[0]} to open {job.workspace}{told}"


def open_uri(app: App, uri: str) -> str:
    """Let the desktop open an address."""
    program = _uri_program(app)
    if not program:
        raise UserError(
            "No program here opens an address: there is no screen, or xdg-open is missing.",
            "Use --with tmux, clipboard or print, or set opener in config.toml.",
        )
    code = launch([program, uri], environment=app.settings.environment)
    if code:
        raise UserError(
            f"{program} could not open {uri} (exit {code}).",
            "Is the editor installed? See uri_template in config.toml.",
        )
    return f"Asked {program} to open {uri}"


def _agent_words(app: App, config: Config, agent: str) -> list[str]:
    """The program a window runs: the one in the settings, else a known agent that is installed."""
    if config.texts("agent_command"):
        return config.texts("agent_command")
    names = [agent] if agent else list(BY_HAND)
    found = (list(BY_HAND[name].first) for name in names if name in BY_HAND and has(app, BY_HAND[name].first[0]))
    return [word for word in next(found, []) if word != WORDS]


def _agent_command(app: App, config: Config, job: Job) -> list[str]:
    words = _agent_words(app, config, job.agent)
    if not words:
        raise UserError(
            "No agent to start: none is installed that handoff knows, and agent_command is not set.",
            f'Set it in {config.path}, for example: agent_command = ["claude", "{{prompt}}"]',
        )
    values = {"prompt": job.prompt, "workspace": job.workspace, "task": job.task, "project": job.project}
    return [fill(word, values, where=f"{config.path}: agent_command") for word in words]


def open_window(app: App, *, name: str, folder: str, project: str, command: list[str]) -> str:
    """A window in the tmux that runs, or a tmux of its own for the project; what was opened, in words."""
    if not has(app, "tmux"):
        raise UserError("tmux is not installed.", "Install it, or use --with print.")
    # `env` in front makes two words or more, which tmux runs as they are instead of through a shell.
    place = ["-n", name, "-c", folder, "-P", "-F", "#{session_name}:#{window_index}"]
    ran = ["env", *command]
    window = run(["tmux", "new-window", *place, *ran], environment=app.settings.environment, timeout=_SECONDS)
    if window.code == 0:
        return f"Opened tmux window {window.text.strip()} running {command[0]}"
    own = f"handoff-{project}"
    session = run(
        ["tmux", "new-session", "-d", "-s", own, *place, *ran], environment=app.settings.environment, timeout=_SECONDS
    )
    if session.code:
        raise UserError(f"tmux refused: {session.error_text or window.error_text}", "Try: tmux new-session")
    return f"Started tmux session {session.text.strip()} running {command[0]}; attach with: tmux attach -t {own}"


def _open_terminal(app: App, config: Config, job: Job) -> str:
    words = config.texts("terminal_command")
    known = terminal_here(app.settings.get, lambda program: has(app, program))
    if not words and known is not None:
        return _start_terminal(app, config, job, known)
    if not words:
        raise UserError(
            "terminal_command is not set.",
            f'Set it in {config.path}, for example: terminal_command = ["x-terminal-emulator", "-e", "{{command}}"]',
        )
    command = _agent_command(app, config, job)
    values = {"workspace": job.workspace, "task": job.task, "project": job.project}
    argv: list[str] = []
    for word in words:
        if word == "{command}":
            argv.extend(command)
        else:
            argv.append(fill(word, values, where=f"{config.path}: terminal_command"))
    return _start(app, argv, command[0], job)


def _start_terminal(app: App, config: Config, job: Job, terminal: Terminal) -> str:
    command = _agent_command(app, config, job)
    return _start(app, tab_words(terminal, folder=job.workspace, title=job.task, command=command), command[0], job)


def _start(app: App, argv: list[str], agent: str, job: Job) -> str:
    code = launch(argv, environment=app.settings.environment, cwd=job.workspace)
    if code:
        raise UserError(
            f"{argv[0]} ended at once with exit {code}.",
            "Try the command by hand; see terminal_command in config.toml.",
        )
    return f"Started {argv[0]} running {agent}"


def _clipboard_words(app: App, config: Config) -> list[str]:
    return config.texts("clipboard_command") or clipboard_program(app)


def _copy(app: App, config: Config, text: str) -> str:
    words = _clipboard_words(app, config)
    if not words:
        raise UserError(
            "No clipboard program was found (wl-copy, xclip, xsel, pbcopy).",
            "Install one, set clipboard_command in config.toml, or use --with print.",
        )
    code = launch(words, environment=app.settings.environment, stdin=text.encode("utf-8", "surrogateescape"))
    if code:
        raise UserError(f"{words[0]} failed (exit {code}).", "Use --with print.")
    return f"Copied the prompt with {words[0]}; paste it into the next session:"

"""A task in a tab of its own: the address that opens it, a template of the settings filled in strictly, and the terminals and editors that are
told from the environment, with how each is asked for a tab in a folder."""

from __future__ import annotations

from handoff.base.errors import ConfigError
from handoff.base.markdown import fill, quoted
from handoff.base.record import TYPE_CHECKING, Record

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from handoff.base.settings import Config

URI_PRESETS = {
    "vscode": "vscode://anthropic.claude-code/open?prompt={prompt}",
    "cursor": "cursor://anysphere.cursor-deeplink/prompt?text={prompt}",
}
_DEFAULT_PRESET = "vscode"
_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


class Job(Record):
    """What is to be opened."""

    project: str
    task: str
    workspace: str
    document: str
    agent: str = ""

    @property
    def prompt(self) -> str:
        return f"Continue task `{self.task}` of project `{self.project}`: read {self.document} and do what it says."


def uri_for(config: Config, job: Job) -> str:
    """The address that opens a tab for the task; a template with an unknown name is an error before anything is written."""
    template = config.text("uri_template") or _DEFAULT_PRESET
    template = URI_PRESETS.get(template, template)
    if "://" not in template:
        presets = ", ".join(URI_PRESETS)
        raise ConfigError(
            f"{config.path}: uri_template is no address: {template!r}.",
            f"Use a preset ({presets}) or scheme://…{{prompt}}",
        )
    values = {"prompt": job.prompt, "workspace": job.workspace, "task": job.task, "project": job.project}
    return fill(
        template, {name: percent(value) for name, value in values.items()}, where=f"{config.path}: uri_template"
    )


def percent(text: str) -> str:
    """Text as a part of an address."""
    return "".join(chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in text.encode("utf-8", "surrogateescape"))


class Terminal(Record):
    """A terminal: its program, what shows that the person uses it, and the words (one a line, or parted by spaces) for a tab."""

    name: str
    program: str
    sign: str
    words: str


class Editor(Record):
    """An editor of the VS Code family: its scheme and program, and how its own settings show in the environment."""

    name: str
    program: str
    sign: str


def _scripted(program: str, act: str) -> str:
    """The words for a terminal that is told by AppleScript; the command is an argument, so nothing in it is script."""
    lines = ("on run argv", f'tell application "{program}" to {act}', "end run")
    return "\n".join(("osascript", *(word for line in lines for word in ("-e", line)), "--", "{line}"))


# A sign is a variable that is set, or NAME=value.
TERMINALS = (
    Terminal(
        "kitty", "kitty", "KITTY_LISTEN_ON", "kitty @ launch --type=tab --cwd={folder} --tab-title={title} {command}"
    ),
    Terminal(
        "kitty-window", "kitty", "KITTY_WINDOW_ID", "kitty --detach --directory={folder} --title={title} {command}"
    ),
    Terminal("wezterm", "wezterm", "WEZTERM_PANE", "wezterm cli spawn --cwd {folder} -- {command}"),
    Terminal(
        "gnome-terminal",
        "gnome-terminal",
        "GNOME_TERMINAL_SCREEN",
        "gnome-terminal --tab --title={title} --working-directory={folder} -- {command}",
    ),
    Terminal("konsole", "konsole", "KONSOLE_VERSION", "konsole --new-tab --workdir {folder} -e {command}"),
    Terminal(
        "iterm",
        "osascript",
        "TERM_PROGRAM=iTerm.app",
        _scripted("iTerm", "tell current window to create tab with default profile command (item 1 of argv)"),
    ),
    Terminal(
        "terminal-app", "osascript", "TERM_PROGRAM=Apple_Terminal", _scripted("Terminal", "do script (item 1 of argv)")
    ),
)
EDITORS = (
    Editor("cursor", "cursor", "cursor"),
    Editor("windsurf", "windsurf", "windsurf"),
    Editor("vscode", "code", ""),
)


def terminal_here(variable: Callable[[str], str], has: Callable[[str], bool]) -> Terminal | None:
    """The terminal the person uses, if its program is there."""
    return next((one for one in TERMINALS if has(one.program) and _is_set(variable, one.sign)), None)


def editor_here(variable: Callable[[str], str]) -> Editor | None:
    """The editor whose own terminal or window we were started from."""
    if variable("TERM_PROGRAM") != "vscode" and not variable("VSCODE_IPC_HOOK_CLI"):
        return None
    told = f"{variable('VSCODE_GIT_ASKPASS_MAIN')} {variable('VSCODE_IPC_HOOK_CLI')}".lower()
    return next(one for one in EDITORS if one.sign in told)


def by_name(name: str) -> Terminal | Editor | None:
    """A terminal or an editor by its name."""
    return next((one for one in (*TERMINALS, *EDITORS) if one.name == name), None)


def tab_words(terminal: Terminal, *, folder: str, title: str, command: Sequence[str]) -> list[str]:
    """The words that open a tab; no shell reads them, but where a terminal knows nothing else they are quoted for one."""
    line = f"cd {quoted(folder)} && exec {' '.join(map(quoted, command))}"
    values = {"{folder}": folder, "{title}": title, "{line}": line}
    words: list[str] = []
    for word in terminal.words.split("\n" if "\n" in terminal.words else " "):
        if word == "{command}":
            words.extend(command)
            continue
        name = next((name for name in values if name in word), "")
        words.append(word.replace(name, values[name]) if name else word)
    return words


def addresses(editor: Editor, *, folder: str, prompt: str) -> list[str]:
    """First the address that opens the folder, then the one that carries the prompt, where the editor has such an address."""
    found = [f"{editor.name}://file{'/'.join(map(percent, folder.split('/')))}/"]
    if editor.name in URI_PRESETS:
        found.append(URI_PRESETS[editor.name].replace("{prompt}", percent(prompt)))
    return found


def _is_set(variable: Callable[[str], str], sign: str) -> bool:
    name, found, value = sign.partition("=")
    return variable(name) == value if found else bool(variable(name))

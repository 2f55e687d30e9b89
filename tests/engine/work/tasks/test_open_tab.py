"""A task reaches a tab without a shell in between, and nothing is claimed that did not happen."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess

import pytest

from handoff.base.errors import ConfigError, UserError
from handoff.base.settings import from_environment
from handoff.engine.app import App
from handoff.engine.app.home import home_config
from handoff.engine.place.fanout.tabs import Job, percent, uri_for
from handoff.engine.work.tasks.open_tab import open_task
from sandbox import absent

JOB = Job("shop", "form", "/tmp", "/home/a b/q/form.md")


class Machine:
    """A PATH of our own, whose programs write down how they were called."""

    def __init__(self, folder, monkeypatch):
        self.bin = str(folder / "bin")
        self.log = str(folder / "log")
        os.makedirs(self.bin)
        monkeypatch.setenv("PATH", f"{self.bin}:/usr/bin:/bin")
        for name in (
            "DISPLAY",
            "WAYLAND_DISPLAY",
            "TMUX",
            "TERM_PROGRAM",
            "VSCODE_IPC_HOOK_CLI",
            "VSCODE_GIT_ASKPASS_MAIN",
        ):
            monkeypatch.delenv(name, raising=False)
        self.monkeypatch = monkeypatch

    def program(self, name, *, code=0, tail=""):
        path = os.path.join(self.bin, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(
                f'#!/bin/sh\nfor w in {name} "$@"; do printf "%s\\n" "$w" >> {self.log}; done\n{tail}\nexit {code}\n'
            )
        os.chmod(path, stat.S_IRWXU)

    def set(self, name, value):
        self.monkeypatch.setenv(name, value)

    def settings(self, text):
        home = os.environ["HANDOFF_HOME"]
        os.makedirs(home, exist_ok=True)
        with open(os.path.join(home, "config.toml"), "w", encoding="utf-8") as file:
            file.write(text)

    def open(self, way=""):
        app = App(from_environment())
        return open_task(app, home_config(app), JOB, way=way)

    @property
    def called(self):
        with open(self.log, encoding="utf-8") as file:
            return file.read().splitlines()


@pytest.fixture
def machine(tmp_path, monkeypatch):
    return Machine(tmp_path, monkeypatch)


def test_without_screen_or_tools_the_prompt_is_printed_and_said_so(machine):
    opened = machine.open()
    assert opened.way == "print"
    assert opened.words.startswith("Nothing was opened")
    assert opened.prompt == "Continue task `form` of project `shop`: read /home/a b/q/form.md and do what it says."


def test_an_address_is_given_to_the_desktop_whole(machine):
    machine.program("xdg-open")
    machine.set("DISPLAY", ":9")
    machine.settings('uri_template = "vscode"\n')
    assert machine.open().way == "uri"
    assert machine.called[0] == "xdg-open"
    assert machine.called[1].startswith("vscode://anthropic.claude-code/open?prompt=Continue%20task%20%60form%60")


def test_an_address_nobody_could_open_is_not_called_opened(machine):
    machine.program("xdg-open", code=3)
    machine.set("DISPLAY", ":9")
    with pytest.raises(UserError, match="exit 3"):
        machine.open("uri")


def test_without_a_screen_no_address_is_opened(machine):
    machine.program("xdg-open")
    with pytest.raises(UserError, match="no screen"):
        machine.open("uri")


def test_a_terminal_gets_the_agent_as_words_not_as_a_shell_line(machine):
    machine.program("term")
    machine.settings(
        'terminal_command = ["term", "-e", "{command}"]\nagent_command = ["agent", "--say", "{prompt}; rm -rf /"]\n'
    )
    assert machine.open().way == "terminal"
    assert machine.called == ["term", "-e", "agent", "--say", f"{JOB.prompt}; rm -rf /"]


def test_a_terminal_that_ends_at_once_is_told(machine):
    machine.program("term", code=1)
    machine.settings('terminal_command = ["term", "{command}"]\nagent_command = ["agent"]\n')
    with pytest.raises(UserError, match="ended at once"):
        machine.open("terminal")


def test_the_clipboard_gets_the_prompt(machine, tmp_path):
    machine.program("copy", tail=f"cat > {tmp_path}/clip")
    machine.settings('clipboard_command = ["copy"]\n')
    assert machine.open().way == "clipboard"
    assert (tmp_path / "clip").read_text() == JOB.prompt


def test_a_window_of_the_running_tmux_is_opened(machine, folder, monkeypatch):
    tmux = shutil.which("tmux")
    if not tmux:
        absent("tmux")
    socket = os.path.join(folder, "sock")
    run = [tmux, "-S", socket]
    subprocess.run([*run, "-f", "/dev/null", "new-session", "-d", "-s", "mine", "sleep 60"], check=True)
    try:
        machine.set("TMUX", f"{socket},1,0")
        machine.settings('agent_command = ["sh", "-c", "sleep 50", "{prompt}"]\n')
        opened = machine.open()
        assert opened.way == "tmux"
        assert "mine:1" in opened.words
        listed = subprocess.run([*run, "list-windows", "-F", "#W"], capture_output=True, text=True, check=True).stdout
        assert "form" in listed.split()
    finally:
        subprocess.run([*run, "kill-server"], check=False)


def test_tmux_is_called_with_words_that_need_no_shell(machine):
    machine.program("tmux")
    machine.settings('agent_command = ["agent", "{prompt}"]\n')
    machine.set("TMUX", "/tmp/x,1,0")
    assert machine.open().way == "tmux"
    assert machine.called[-3:] == ["env", "agent", JOB.prompt]


def test_an_installed_agent_is_found_without_settings(machine):
    machine.program("tmux")
    machine.program("claude")
    machine.set("TMUX", "/tmp/x,1,0")
    machine.open()
    assert machine.called[-3:] == ["env", "claude", JOB.prompt]


PROMPT = JOB.prompt


@pytest.mark.parametrize(
    ("sign", "program", "way", "called"),
    [
        (
            "KITTY_LISTEN_ON=unix:/x",
            "kitty",
            "kitty",
            "kitty|@|launch|--type=tab|--cwd=/tmp|--tab-title=form|agent|{p}",
        ),
        ("KITTY_WINDOW_ID=1", "kitty", "kitty-window", "kitty|--detach|--directory=/tmp|--title=form|agent|{p}"),
        ("WEZTERM_PANE=1", "wezterm", "wezterm", "wezterm|cli|spawn|--cwd|/tmp|--|agent|{p}"),
        (
            "GNOME_TERMINAL_SCREEN=/s",
            "gnome-terminal",
            "gnome-terminal",
            "gnome-terminal|--tab|--title=form|--working-directory=/tmp|--|agent|{p}",
        ),
        ("KONSOLE_VERSION=1", "konsole", "konsole", "konsole|--new-tab|--workdir|/tmp|-e|agent|{p}"),
        (
            "TERM_PROGRAM=Apple_Terminal",
            "osascript",
            "terminal-app",
            (
                'osascript|-e|on run argv|-e|tell application "Terminal" to do script (item 1 of argv)|-e|end run|--|'
                "cd /tmp && exec agent '{p}'"
            ),
        ),
        (
            "TERM_PROGRAM=iTerm.app",
            "osascript",
            "iterm",
            (
                'osascript|-e|on run argv|-e|tell application "iTerm" to tell current window to create tab with default profile'
                " command (item 1 of argv)|-e|end run|--|cd /tmp && exec agent '{p}'"
            ),
        ),
        (
            "TERM_PROGRAM=vscode",
            "code",
            "vscode",
            "code|--open-url|vscode://file/tmp/|code|--open-url|vscode://anthropic.claude-code/open?prompt={e}",
        ),
        (
            "VSCODE_IPC_HOOK_CLI=/run/cursor/x",
            "cursor",
            "cursor",
            "cursor|--open-url|cursor://file/tmp/|cursor|--open-url|cursor://anysphere.cursor-deeplink/prompt?text={e}",
        ),
        ("VSCODE_IPC_HOOK_CLI=/run/windsurf/x", "windsurf", "windsurf", "windsurf|--open-url|windsurf://file/tmp/"),
    ],
)
def test_what_the_person_works_in_is_told_from_the_environment_and_asked_for_a_tab(machine, sign, program, way, called):
    machine.program(program)
    machine.set(*sign.split("="))
    machine.settings('agent_command = ["agent", "{prompt}"]\n')
    assert machine.open().way == way
    assert machine.called == called.replace("{p}", PROMPT).replace("{e}", percent(PROMPT)).split("|")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('uri_template = "vscode://x?p={promt}"\n', "unknown name {promt}"),
        ('uri_template = "no address"\n', "is no address"),
        ('uri_template = "a://{prompt"\n', "unknown name"),
    ],
)
def test_a_broken_template_is_an_error_that_names_the_file(machine, text, told):
    machine.settings(text)
    app = App(from_environment())
    with pytest.raises(ConfigError) as caught:
        uri_for(home_config(app), JOB)
    assert told in caught.value.message
    assert "config.toml" in caught.value.message


def test_an_unknown_way_is_refused_with_the_known_ones(machine):
    with pytest.raises(ConfigError) as caught:
        machine.open("telepathy")
    assert "clipboard" in caught.value.hint


def test_on_a_desktop_in_a_plain_terminal_an_editor_on_the_path_opens_the_tab(machine):
    machine.program("code")
    assert machine.open().way in ("clipboard", "print")  # no screen
    machine.set("DISPLAY", ":0")
    assert machine.open().way == "vscode"
    assert "vscode://file/tmp/" in machine.called

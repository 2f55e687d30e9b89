"""Sessions in a person's terminal and in a tmux window: started, called in, kept alive, ended and concluded like all others."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import sqlite3
import subprocess
import sys
import time

import pytest

import acp_agent
from sandbox import absent
from scripts import handoff, processes_with, write_script


def _until(look, what: str = "it did not happen"):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = look()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(what)


class Window:
    """A terminal with a command in it, as a terminal program makes one."""

    def __init__(self, cli, *words: str) -> None:
        self.outside, inside = pty.openpty()
        self.said = b""
        self.process = cli.start(
            *words, stdin=inside, stdout=inside, stderr=inside, start_new_session=True, preexec_fn=lambda: _take(0)
        )
        os.close(inside)

    def type(self, text: str) -> None:
        os.write(self.outside, text.encode())

    def close(self) -> None:
        os.close(self.outside)
        self.outside = -1

    def end(self) -> tuple[int, str]:
        """Read until it is over."""
        while self.outside >= 0:
            try:
                data = os.read(self.outside, 4096)
            except OSError:
                break
            if not data:
                break
            self.said += data
        code = self.process.wait(60)
        if self.outside >= 0:
            self.close()
        return code, self.said.decode("utf-8", "replace")


def _take(fd: int) -> None:
    import fcntl
    import termios

    fcntl.ioctl(fd, termios.TIOCSCTTY, 0)


@pytest.fixture
def project(repo, cli):
    """A repository with one ready task that owns src/, and a short lease."""
    cli("dump", "--task", "demo", "--next", "write src/a.txt", "--owns", "src/", "--check", "test -f src/a.txt")
    return Project(cli)


class Project:
    def __init__(self, cli) -> None:
        self.cli, self.home = cli, os.environ["HANDOFF_HOME"]
        self.go = os.path.join(self.home, "go")

    def script(self, *acts) -> str:
        return write_script(os.path.join(os.environ["HOME"], "script.toml"), *acts)

    def waits(self, *acts) -> str:
        return self.script({"run": f"while [ ! -e {self.go} ]; do sleep 0.1; done"}, *acts)

    def words(self, script: str, place: str = "terminal") -> list[str]:
        return ["session", "start", "demo", "--agent", "scripted", "--in", place, "--with", script]

    def session(self) -> str:
        folder = os.path.join(self.home, "repo", "sessions")
        _until(lambda: os.path.isdir(folder) and os.listdir(folder) and processes_with(self.go))
        return os.listdir(folder)[0]

    def state(self) -> dict:
        return self.cli("show", "demo", "--json").json

    def outcome(self, session: str) -> dict:
        path = os.path.join(self.home, "repo", "sessions", session, "outcome.json")
        _until(lambda: os.path.exists(path))
        with open(path, encoding="utf-8") as file:
            return json.load(file)


def test_in_a_terminal_the_client_has_the_screen_and_the_keys_and_the_task_is_concluded(project):
    line = (
        "test -t 0 && test -t 1 && echo the screen is mine && read line && mkdir -p src && echo heard $line > src/a.txt"
        f" && {handoff('task', 'done', '--summary', 'typed')}"
    )
    with open(os.path.join(project.home, "config.toml"), "w", encoding="utf-8") as file:
        file.write(f"agents = {{ mine = {json.dumps(['/bin/sh', '-c', line])} }}\n")
    window = Window(project.cli, "session", "start", "demo", "--agent", "mine", "--in", "terminal")
    window.type("hello there\n")
    code, said = window.end()
    assert code == 0, said
    assert "the screen is mine" in said
    assert "Task 'demo' is done" in said
    assert project.state()["state"] == "done"
    with open(os.path.join(project.cli.folder, "src/a.txt"), encoding="utf-8") as file:
        assert file.read() == "heard hello there\n"


def test_a_silent_session_in_a_terminal_keeps_its_task_as_long_as_it_is_open(project):
    with open(os.path.join(project.home, "config.toml"), "w", encoding="utf-8") as file:
        file.write("lease_seconds = 4\n")
    window = Window(project.cli, *project.words(project.waits({"write": "src/a.txt", "text": "x"})))
    session = project.session()
    before = project.cli("session", "list", "--json").json
    assert [row["id"] for row in before] == [session]
    started = time.monotonic()
    while time.monotonic() < started + 9:  # more than two leases in which nobody says a word
        project.cli("watchdog", "--once")
        state = project.state()
        assert (state["state"], state["held_by"]) == ("running", session)
    window.type("\x03")  # Ctrl-C is for the client, and ends neither the monitor nor the command
    open(project.go, "w").close()
    code, said = window.end()
    assert project.outcome(session)["kind"] == "stopped", said
    assert "Task 'demo' is ready" in said
    assert code == 1
    assert processes_with(project.go) == []


def test_a_closed_terminal_ends_the_session_and_frees_the_task(project):
    window = Window(project.cli, *project.words(project.waits()))
    session = project.session()
    window.close()
    assert window.process.wait(60) in (0, 1)
    outcome = project.outcome(session)
    assert (outcome["kind"], outcome["reason"]) == ("stopped", "the terminal was closed")
    assert project.state()["state"] == "ready"
    assert processes_with(project.go) == []


@pytest.mark.parametrize(
    ("words", "sign", "code"), [(("--sandbox", "none"), "INT", 130), (("--in", "terminal"), "HUP", 1)]
)
def test_who_interrupts_while_the_client_is_being_started_ends_the_session_too(project, words, sign, code):
    number = os.path.join(project.home, "command.pid")
    line = f"kill -{sign} $(cat {number}); while [ ! -e {project.go} ]; do sleep 0.1; done"
    with open(os.path.join(project.home, "config.toml"), "w", encoding="utf-8") as file:
        file.write(f"agents = {{ mine = {json.dumps(['/bin/sh', '-c', line])} }}\n")
    window = Window(project.cli, "session", "start", "demo", "--agent", "mine", *words)
    with open(number, "w", encoding="utf-8") as file:
        file.write(str(window.process.pid))
    found, said = window.end()
    assert found == code, said
    [session] = os.listdir(os.path.join(project.home, "repo", "sessions"))
    assert project.outcome(session)["kind"] == "stopped"
    assert project.state()["state"] == "ready"
    assert processes_with(project.go) == []


def test_without_a_terminal_or_with_a_sandbox_it_says_so_before_anything_is_claimed(project):
    script = project.script({"say": "hello"})
    assert "needs one" in project.cli(*project.words(script), code=1).err
    assert "no sandbox" in project.cli(*project.words(script), "--sandbox", "workspace", code=2).err
    assert project.state()["state"] == "ready"


@pytest.fixture
def tmux(folder, monkeypatch):
    """A tmux server of the test's own, in a folder of its own."""
    monkeypatch.setenv("TMUX_TMPDIR", folder)
    monkeypatch.delenv("TMUX", raising=False)

    def ask(*words: str) -> str:
        return subprocess.run(["tmux", *words], capture_output=True, text=True, check=False).stdout

    if not any(os.access(os.path.join(place, "tmux"), os.X_OK) for place in os.environ["PATH"].split(":")):
        absent("tmux")
    yield ask
    ask("kill-server")


def test_a_session_in_a_tmux_window_is_started_kept_ended_and_concluded(project, tmux):
    said = project.cli(*project.words(project.waits({"write": "src/a.txt", "text": "x"}), "tmux"), "--json").json
    assert "tmux" in said["said"]
    session = project.session()
    assert "demo" in tmux("list-windows", "-a", "-F", "#{window_name}")
    assert project.state()["held_by"] == session
    open(project.go, "w").close()
    assert project.outcome(session)["kind"] == "ok"
    _until(lambda: project.state()["state"] == "done")
    _until(lambda: "demo" not in tmux("list-windows", "-a", "-F", "#{window_name}"), "the window stayed")


def test_a_killed_window_leaves_no_process_and_a_free_task(project, tmux):
    project.cli(*project.words(project.waits(), "tmux"))
    session = project.session()
    tmux("kill-window", "-t", "handoff-repo")
    assert project.outcome(session)["kind"] == "stopped"
    _until(lambda: project.state()["state"] == "ready")
    assert processes_with(project.go) == []


def test_a_session_in_a_window_is_stopped_like_any_other(project, tmux):
    project.cli(*project.words(project.waits(), "tmux"))
    session = project.session()
    project.cli("session", "stop", session, "--reason", "lunch")
    assert project.outcome(session)["reason"] == "lunch"
    _until(lambda: project.state()["state"] == "ready")


# --- take the wheel ---------------------------------------------------------------------------------------------


def _program(path: str, text: str) -> str:
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"#!/bin/sh\n{text}\n")
    os.chmod(path, 0o755)
    return path


@pytest.fixture
def half_done(project):
    """A session that has made half of its work and waits; what its command says goes nowhere."""
    script = project.script(
        {"write": "src/half.txt", "text": "half\n"}, {"run": f"while [ ! -e {project.go} ]; do sleep 0.1; done"}
    )
    words = [
        "session",
        "start",
        "demo",
        "--agent",
        "scripted",
        "--sandbox",
        "none",
        "--workspace",
        "clone",
        "--with",
        script,
    ]
    command = project.cli.start(*words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    project.agent = project.session()
    yield project
    command.wait(60)


def test_a_task_that_is_taken_opens_where_its_work_lies_and_lands_when_it_is_reported_there(half_done):
    line = f"test -t 0 && cat src/half.txt && read line && echo $line > src/a.txt && {handoff('task', 'done', '--summary', 'finished')}"
    half_done.cli.environment["SHELL"] = _program(os.path.join(half_done.home, "shell"), line)
    window = Window(half_done.cli, "take", "demo")
    window.type("the other half\n")
    code, said = window.end()
    assert code == 0, said
    assert f"Session {half_done.agent} has ended; no attempt is used." in said
    assert "half\r\n" in said
    assert "Task 'demo' is done." in said
    for name, text in (("half.txt", "half\n"), ("a.txt", "the other half\n")):
        with open(os.path.join(half_done.cli.folder, "src", name), encoding="utf-8") as file:
            assert file.read() == text


def test_who_leaves_a_task_that_they_took_gives_it_back_with_no_attempt_used(half_done):
    half_done.cli.environment["SHELL"] = _program(
        os.path.join(half_done.home, "shell"), "echo mine > src/mine.txt; exit 3"
    )
    code, said = Window(half_done.cli, "take", half_done.agent).end()
    assert (code, "Task 'demo' is ready." in said) == (0, True), said
    task = half_done.state()
    assert (task["state"], task["attempt"], task["holds"]) == ("ready", 1, [])
    taken = half_done.cli("take", "demo", "--json").json
    assert sorted(os.listdir(os.path.join(taken["folder"], "src"))) == ["half.txt", "mine.txt"]


def test_a_terminal_that_is_closed_gives_the_task_back_and_a_second_one_is_refused_while_it_is_open(half_done):
    mark = os.path.join(half_done.home, "open")
    shell = _program(os.path.join(half_done.home, "shell"), f"touch {mark}; while :; do sleep 0.1; done")
    half_done.cli.environment["SHELL"] = shell
    window = Window(half_done.cli, "take", "demo")
    _until(lambda: os.path.exists(mark))
    assert "a person did" in half_done.cli("take", "demo", code=1).err
    window.close()
    assert window.process.wait(60) == 0
    assert half_done.state()["state"] == "ready"
    _until(lambda: processes_with(shell) == [])


def test_a_task_that_is_taken_opens_the_conversation_of_its_client(project):
    store = os.path.join(os.environ["HOME"], ".claude", "projects", "clone")
    folder = os.path.join(project.home, "bin")
    os.mkdir(folder)
    _program(
        os.path.join(folder, "claude"),
        'case "$*" in *--version*) echo "2.1.300 (Claude Code)"; exit 0;; auth*) echo {}; exit 0;; esac\n'
        'case "$1" in --resume) echo "resumed $2 in $(pwd)"; exit 0;; esac\n'
        'while [ "$1" != --session-id ]; do shift; done\n'
        f'mkdir -p {store}; echo {{}} > {store}/$2.jsonl; echo "$2"; exit 1',
    )
    project.cli.environment["PATH"] = f"{folder}:{os.environ['PATH']}"
    project.cli("session", "start", "demo", "--agent", "claude", "--sandbox", "none", "--workspace", "clone", code=1)
    (conversation,) = os.listdir(store)
    code, said = Window(project.cli, "take", "demo").end()
    assert code == 0, said
    assert f"resumed {conversation.removesuffix('.jsonl')} in {project.home}/repo/workspaces/demo-1/" in said
    assert project.state()["state"] == "ready"


# What each client leaves of a conversation, and how it opens it again; the lines stand for its program.
_LEAVES = {
    "aider": 'while [ "$1" != --chat-history-file ]; do shift; done; echo the talk > "$2"',
    "opencode": 'mkdir -p "$(dirname "$OPENCODE_DB")"; cp made.db "$OPENCODE_DB"; echo \'{"type":"step_start","sessionID":"ses_1"}\'',
}
_OPENS = {
    "aider": 'case "$1" in --restore-chat-history) echo "resumed $(cat "$3") in $(pwd)"; exit 0;; esac',
    "opencode": 'case "$1" in -s) echo "resumed $2 of $OPENCODE_DB in $(pwd)"; exit 0;; esac',
}
_TABLES = """CREATE TABLE session (id); INSERT INTO session VALUES ('ses_1');
    CREATE TABLE permission (data); INSERT INTO permission VALUES ('all')"""


@pytest.mark.parametrize("sandbox", ["none", "workspace"])
@pytest.mark.parametrize("client", _LEAVES)
def test_a_task_that_is_taken_opens_the_conversation_that_its_client_kept_in_its_session(
    project, repo, client, sandbox
):
    with contextlib.closing(sqlite3.connect(os.path.join(repo.path, "made.db"))) as made:
        made.executescript(_TABLES)
    repo.commit("made")
    folder = os.path.join(os.environ["HOME"], ".local", "bin")
    os.makedirs(folder)
    version = f'case "$*" in *--version*) echo {"9.9.9" if client == "opencode" else "aider 0.86.2"}; exit 0;; esac'
    _program(os.path.join(folder, client), f"{version}\n{_OPENS[client]}\n{_LEAVES[client]}; exit 1")
    project.cli.environment["PATH"] = f"{folder}:{os.environ['PATH']}"
    project.cli("session", "start", "demo", "--agent", client, "--sandbox", sandbox, "--workspace", "clone", code=1)
    project.cli.environment["SHELL"] = "/bin/false"
    (session,) = os.listdir(os.path.join(project.home, "repo", "sessions"))
    kept = os.path.join(project.home, "sessions", "taken", session)
    code, said = Window(project.cli, "take", "demo").end()
    assert code == 0, said
    assert f"{client} opens there." in said
    words = "the talk" if client == "aider" else f"ses_1 of {kept}/opencode.db"
    assert f"resumed {words} in {project.home}/repo/workspaces/demo-1/" in said
    assert project.state()["state"] == "ready"
    if client == "opencode":
        with contextlib.closing(sqlite3.connect(os.path.join(kept, "opencode.db"))) as copy:
            assert copy.execute("SELECT id FROM session").fetchall() == [("ses_1",)]
            assert copy.execute("SELECT data FROM permission").fetchall() == [], "what it approved itself is not obeyed"


def test_a_task_that_is_taken_from_a_client_over_acp_opens_the_conversation_of_that_client(project):
    folder, turns = os.path.join(project.home, "bin"), os.path.join(project.home, "turns.json")
    os.mkdir(folder)
    with open(turns, "w", encoding="utf-8") as file:
        json.dump([[["run", handoff("task", "release")]]], file)
    agent = f"exec {sys.executable} {acp_agent.__file__} {turns}"
    _program(os.path.join(folder, "qwen"), f'case "$1" in --resume) echo "resumed $2"; exit 0;; esac\n{agent}')
    project.cli.environment |= {"PATH": f"{folder}:{os.environ['PATH']}", "SHELL": "/bin/false"}
    words = ("--agent", "acp", "--with=qwen", "--with=--acp", "--sandbox", "none", "--workspace", "clone")
    project.cli("session", "start", "demo", *words, code=None)
    code, said = Window(project.cli, "take", "demo").end()
    assert code == 0, said
    assert "resumed s1" in said


def test_who_leaves_a_client_in_a_terminal_without_a_report_uses_no_attempt(project):
    code, said = Window(project.cli, *project.words(project.script({"say": "hello"}))).end()
    assert (code, "its person left it" in said) == (1, True), said
    assert (project.state()["state"], project.state()["attempt"]) == ("ready", 1)


def test_a_task_is_taken_in_a_window_and_goes_back_when_its_person_leaves_that(project, tmux):
    running = project.cli.start("session", "start", "demo", "--agent", "scripted", "--with", project.waits())
    session = project.session()
    said = project.cli("take", "demo", "--in", "tmux", "--json").json
    assert "tmux" in said["said"]
    running.communicate(timeout=200)
    _until(lambda: project.state()["held_by"] not in (None, "", session), "the window holds it")
    _until(lambda: "When you leave it" in tmux("capture-pane", "-p", "-t", "handoff-repo"), "its shell opens")
    tmux("send-keys", "-t", "handoff-repo", "mkdir -p src; echo half > src/a.txt; exit", "Enter")
    _until(lambda: project.state()["state"] == "ready", "it went back")
    last = project.script({"run": "grep half src/a.txt"})
    assert (
        project.cli("session", "start", "demo", "--agent", "scripted", "--with", last, "--json").json["state"] == "done"
    )
    assert project.state()["attempt"] == 1
    assert "is done: nobody works on it" in project.cli("take", "demo", "--in", "tmux", code=4).err

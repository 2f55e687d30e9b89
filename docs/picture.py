"""The terminal picture of the README: real commands in a scratch repository, recorded through a pseudo-terminal."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import tempfile
import termios

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

WIDTH = 92
PROMPT = "\x1b[1;32m$\x1b[0m "
# What differs from run to run is drawn as one fixed fact: drawing twice gives the same bytes.
FIXED = ((re.compile(r"\bin \d+\.\d+ s\b"), "in 0.1 s"),)

PLAN = """# State

# Current Step

Send the link by mail

# Execution Plan

- [x] Make a one-time link
- [>] Send the link by mail  (check: python3 test_mail.py)
- [ ] Refuse a link after ten minutes

# Risks

None
"""
TEST = """import mail

if not hasattr(mail, "text") or "/login/42" not in mail.text("/login/42"):
    raise SystemExit("test_mail: the link is not in the mail")
print("test_mail: ok")
"""
GOAL = "# Feature: login\n\n# Goal\n\nA person signs in with a link that works once.\n"
SPEC = "# Feature Summary\n\nNo passwords: a link by mail, valid for ten minutes, usable once.\n"
DESIGN = "# Design Summary\n\nOne table of links; a signed token; the mailer is an interface.\n"
SESSION = "# What Was Implemented\n\nLinks are made and stored.\n\n# Next Micro-Step\n\nSend the link by mail.\n"

# Command lines in order, with the exit code each must have: the red one is part of the story.
SHOWN = (
    ("handoff status", 0),
    ("handoff step done", 3),
    ("""echo 'def text(link): return f"Sign in: {link}"' >> mail.py""", 0),
    ("handoff step done", 0),
    ("handoff continue --raw | sed -n '/^## Goal/,/^### Git/p' | head -16", 0),
)


def prepare(folder: str, environment: dict[str, str]) -> None:
    """A small project whose first session has ended."""
    files = {"mail.py": '"""Sends mail."""\n', "test_mail.py": TEST, ".gitignore": "__pycache__/\n"}
    for name, text in files.items():
        write(os.path.join(folder, name), text)
    quiet("git init -q -b main && git add -A && git commit -q -m 'Make a one-time link'", folder, environment)
    quiet("handoff init login", folder, environment)
    documents = {"FEATURE": GOAL, "SPEC": SPEC, "DESIGN": DESIGN, "STATE": PLAN, "SESSION": SESSION}
    for name, text in documents.items():
        write(os.path.join(folder, ".handoff", "features", "login", f"{name}.md"), text)
    quiet("git add -A && git commit -q -m 'Plan the login'", folder, environment)


def record(line: str, code: int, folder: str, environment: dict[str, str]) -> str:
    """What a person's terminal would show for one command line."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, WIDTH, 0, 0))
    child = subprocess.Popen(
        ["/bin/sh", "-c", line],
        cwd=folder,
        env=environment,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    chunks = []
    while True:
        try:
            chunk = os.read(ours, 65536)
        except OSError:  # Linux tells the end of a pseudo-terminal this way
            break
        if not chunk:
            break
        chunks.append(chunk)
    os.close(ours)
    if child.wait() != code:
        raise SystemExit(f"{line} failed:\n{b''.join(chunks).decode()}")
    return b"".join(chunks).decode().replace("\r\n", "\n")


def draw() -> str:
    """The picture as SVG; nothing in it is fetched from anywhere."""
    with tempfile.TemporaryDirectory(prefix="handoff-picture-") as home:
        environment = scratch_environment(home)
        folder = os.path.join(home, "project")
        os.makedirs(folder)
        prepare(folder, environment)
        shown = "\n".join(f"{PROMPT}{line}\n{record(line, code, folder, environment)}" for line, code in SHOWN)
        shown = shown.replace(folder, "~/project").replace(home, "~")
    for varying, fact in FIXED:
        shown = varying.sub(fact, shown)
    return as_svg(shown, "docs/picture.py")


def as_svg(shown: str, drawn_by: str) -> str:
    """What a terminal showed, as a picture that fetches nothing."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(Text.from_ansi(shown.rstrip("\n")))
    svg = console.export_svg(title="handoff", theme=MONOKAI, unique_id="handoff")
    svg = re.sub(r"@font-face\s*\{[^}]*\}", "", svg)
    svg = re.sub(r"<!-- Generated with Rich [^>]*-->", f"<!-- Recorded by {drawn_by} -->", svg)
    return re.sub(r"[ \t]+$", "", svg, flags=re.MULTILINE)


def scratch_environment(home: str) -> dict[str, str]:
    config = os.path.join(home, "gitconfig")
    write(config, "[user]\n\tname = A Person\n\temail = person@example.invalid\n")
    bin_folder = os.path.dirname(sys.executable)
    moment = "2026-01-01T12:00:00Z"
    return {
        "PATH": f"{bin_folder}{os.pathsep}{os.defpath}", "HOME": home, "HANDOFF_HOME": os.path.join(home, ".handoff"),
        "GIT_CONFIG_GLOBAL": config, "GIT_CONFIG_NOSYSTEM": "1", "GIT_AUTHOR_DATE": moment, "GIT_COMMITTER_DATE": moment,
        "TERM": "xterm-256color", "COLUMNS": str(WIDTH), "LC_ALL": "C.UTF-8", "TZ": "UTC", "PYTHONDONTWRITEBYTECODE": "1",
    }  # fmt: skip


def write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def quiet(line: str, folder: str, environment: dict[str, str]) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", line], cwd=folder, env=environment, capture_output=True, stdin=subprocess.DEVNULL, check=False
    )
    if done.returncode:
        raise SystemExit(f"{shlex.quote(line)} failed:\n{done.stdout.decode()}{done.stderr.decode()}")

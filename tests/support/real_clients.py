"""The real clients the tests drive: where they are, how they are installed, and the table of what was shown with them."""

from __future__ import annotations

import glob
import os
import subprocess
import sys
import time
from typing import NamedTuple

FOLDER = os.environ.get("HANDOFF_TEST_CLIENTS_DIR") or os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "handoff-test-clients"
)
WANTED = "HANDOFF_TEST_CLIENTS"
_PYTHON = "python/lib/*/site-packages"


class Client(NamedTuple):
    """One client: what is installed, by which tool, and where its program is then."""

    package: str
    tool: str
    place: str


CLIENTS = {
    "claude": Client("claude-agent-sdk==0.2.182", "pip", f"{_PYTHON}/claude_agent_sdk/_bundled/claude"),
    "codex": Client("openai-codex==0.163.0", "pip", f"{_PYTHON}/codex_cli_bin/bin/codex"),
    "gemini": Client("@google/gemini-cli@0.61.0", "npm", "node/node_modules/.bin/gemini"),
    "copilot": Client("@github/copilot@1.0.102", "npm", "node/node_modules/.bin/copilot"),
    "opencode": Client("opencode-ai@1.18.18", "npm", "node/node_modules/.bin/opencode"),
}


def program(name: str) -> str | None:
    """Where the client is in the folder of test clients."""
    found = glob.glob(os.path.join(FOLDER, CLIENTS[name].place))
    return found[0] if found else None


def chosen() -> list[str]:
    """The clients to test: those that are there; all of them, present or not, where they are demanded."""
    wanted = os.environ.get(WANTED, "")
    if wanted == "all":
        return list(CLIENTS)
    return wanted.split() or [name for name in CLIENTS if program(name)]


def install() -> None:
    """Install what is missing, at the written versions; nothing outside the folder is touched."""
    os.makedirs(FOLDER, exist_ok=True)
    missing = [name for name in CLIENTS if program(name) is None]
    python = [CLIENTS[name].package for name in missing if CLIENTS[name].tool == "pip"]
    if python:
        place = os.path.join(FOLDER, "python")
        subprocess.run([sys.executable, "-m", "venv", place], check=True)
        subprocess.run([os.path.join(place, "bin", "pip"), "install", "-q", *python], check=True)
    node = [CLIENTS[name].package for name in missing if CLIENTS[name].tool == "npm"]
    for package in node:
        subprocess.run(
            ["npm", "install", "--no-audit", "--no-fund", "--loglevel=error", "--prefix", os.path.join(FOLDER, "node"), package],
            check=False,
        )  # fmt: skip
    for name in CLIENTS:
        print(f"{name}: {program(name) or 'could not be installed'}")


def version(name: str) -> str:
    """What the program says it is."""
    done = subprocess.run(
        [program(name) or "false", "--version"], capture_output=True, text=True, check=False, timeout=60
    )
    words = (done.stdout + done.stderr).replace("(", " ").split()
    return next((word.rstrip(".") for word in words if word[:1].isdigit() and "." in word), "?")


def table(notes: str, page: str) -> None:
    """Write the page from what the tests noted: a tick only where a test has shown it in this run."""
    shown: dict[str, set[str]] = {}
    facts: dict[str, None] = {}
    with open(notes, encoding="utf-8") as file:
        for line in file:
            name, _, fact = line.rstrip("\n").partition("\t")
            shown.setdefault(name, set()).add(fact)
            facts[fact] = None
    names = [name for name in CLIENTS if name in shown]
    lines = [
        "# Clients",
        "",
        (
            "What the suite has shown with the real programs and a scripted model, nothing more."
            f" Written from the notes of one run on {time.strftime('%Y-%m-%d', time.gmtime())}; an empty cell was not shown in that"
            " run: not possible, not run, or not passed. `make test-clients` writes it again."
        ),
        "",
        "| | " + " | ".join(f"{name} {version(name)}" for name in names) + " |",
        "|---|" + "---|" * len(names),
    ]
    lines += [
        f"| {fact} | " + " | ".join("yes" if fact in shown[name] else "" for name in names) + " |" for fact in facts
    ]
    with open(page, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    install() if sys.argv[1:2] == ["install"] else table(*sys.argv[2:4])

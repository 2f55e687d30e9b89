"""The real clients the tests drive: where they are, how they are installed, and the table of what was shown with them."""

from __future__ import annotations

import glob
import os
import subprocess
import sys
import tarfile
import time
from typing import Any, NamedTuple

_NAME = "handoff-test-clients"
OWN = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), _NAME)
"""Where the tests work; clients refuse homes below a folder that anybody may write."""
FOLDER = os.environ.get("HANDOFF_TEST_CLIENTS_DIR") or (OWN if os.getuid() else os.path.join("/var/cache", _NAME))
"""Where the clients are installed; what root installs, an ordinary user must be able to read."""
WANTED = "HANDOFF_TEST_CLIENTS"
_SITE = "lib/*/site-packages"
_SECONDS = 1500
_DONE = ".installed"


class Client(NamedTuple):
    """One client: what is installed, by which tool, and where its program is in its own folder then."""

    package: str
    release: str
    tool: str
    place: str


CLIENTS = {
    "claude": Client("claude-agent-sdk", "0.2.182", "pip", f"{_SITE}/claude_agent_sdk/_bundled/claude"),
    "codex": Client("openai-codex", "0.163.0", "pip", f"{_SITE}/codex_cli_bin/bin/codex"),
    "gemini": Client("@google/gemini-cli", "0.61.0", "npm", "node_modules/.bin/gemini"),
    "copilot": Client("@github/copilot", "1.0.102", "npm", "node_modules/.bin/copilot"),
    "opencode": Client("opencode-ai", "1.18.18", "npm", "node_modules/.bin/opencode"),
    "aider": Client("aider-chat", "0.86.2", "pip", "bin/aider"),
    "qwen": Client("@qwen-code/qwen-code", "0.24.4", "npm", "node_modules/.bin/qwen"),
}


def folder(name: str) -> str:
    """A client's own folder; another release is another folder, so a new pin is a new installation."""
    return os.path.join(FOLDER, f"{name}-{CLIENTS[name].release}")


def program(name: str) -> str | None:
    """Where the client is, once it was installed to the end."""
    if not os.path.exists(os.path.join(folder(name), _DONE)):
        return None
    found = glob.glob(os.path.join(folder(name), CLIENTS[name].place))
    return found[0] if found else None


def chosen() -> list[str]:
    """The clients to test: those that are there; where they are demanded by name, present or not."""
    wanted = os.environ.get(WANTED, "")
    if wanted == "all":
        return list(CLIENTS)
    return wanted.split() or [name for name in CLIENTS if program(name)]


def install(names: list[str]) -> int:
    """Install what is missing of these, side by side, at the written versions; nothing outside the folder is touched."""
    os.umask(0o022)
    os.makedirs(FOLDER, exist_ok=True)
    running = {name: _installer(name) for name in names if program(name) is None}
    for name, process in running.items():
        if process.wait(_SECONDS) == 0:
            open(os.path.join(folder(name), _DONE), "w", encoding="utf-8").close()
    for name in names:
        # Started once, so that no test pays for reading a few hundred megabytes for the first time.
        print(f"{name} {version(name) if program(name) else 'could not be installed'}: {folder(name)}", flush=True)
    return int(any(program(name) is None for name in names))


def _installer(name: str) -> subprocess.Popen[bytes]:
    client, place = CLIENTS[name], folder(name)
    if client.tool == "pip":
        subprocess.run([_python(), "-m", "venv", "--clear", place], check=True)
        pip = [os.path.join(place, "bin", "pip"), "install", "-q", "--disable-pip-version-check"]
        return subprocess.Popen([*pip, f"{client.package}=={client.release}"])
    npm = ["npm", "install", "--no-audit", "--no-fund", "--loglevel=error", "--prefix", place]
    return subprocess.Popen([*npm, f"{client.package}@{client.release}"])


def _python() -> str:
    """An interpreter that an ordinary user can start too: root's own may lie in a closed home."""
    at, folders = os.path.realpath(sys.executable), []
    while at != "/":
        at = os.path.dirname(at)
        folders.append(at)
    return sys.executable if all(os.stat(folder).st_mode & 0o001 for folder in folders) else "/usr/bin/python3"


def package(name: str, release: str) -> str:
    """The source of a package, fetched once from the index: a project with a suite of its own that nobody here wrote."""
    path = os.path.join(OWN, f"{name}-{release}.tar.gz")
    if not os.path.exists(path):
        words = ["download", "-q", "--disable-pip-version-check", "--no-deps", "--no-binary", ":all:", "-d", OWN]
        os.makedirs(OWN, exist_ok=True)
        subprocess.run([sys.executable, "-m", "pip", *words, f"{name}=={release}"], check=True, timeout=_SECONDS)
    return path


def unpack(path: str, folder: str) -> None:
    """The files of such a source in a folder, without the one they lie in there."""
    safely: Any = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # Python 3.11.4 brought it
    with tarfile.open(path) as archive:
        for member in archive.getmembers():
            member.name = member.name.partition("/")[2]
            if member.name and "egg-info" not in member.name:
                archive.extract(member, folder, **safely)


def version(name: str) -> str:
    """What the program says it is."""
    done = subprocess.run(
        [program(name) or "false", "--version"], capture_output=True, text=True, check=False, timeout=300
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
    rows = sorted(facts, key=lambda fact: -sum(fact in shown[name] for name in names))
    lines = [
        "# Clients",
        "",
        (
            "The tests ran each real client with a scripted model. A ✓ means that a test showed it on"
            f" {time.strftime('%Y-%m-%d', time.gmtime())}. An empty cell means: not possible, not run, or not passed."
            " `make test-clients` writes this page."
        ),
        "",
        "||" + "|".join(f"{name} {version(name)}" for name in names) + "|",
        "|---|" + "---|" * len(names),
    ]
    lines += [f"|{fact}|" + "|".join("✓" if fact in shown[name] else "" for name in names) + "|" for fact in rows]
    with open(page, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["install"]:
        sys.exit(install(sys.argv[2:] or list(CLIENTS)))
    if sys.argv[1:2] == ["folder"]:
        sys.exit(print(FOLDER))
    table(*sys.argv[2:4])

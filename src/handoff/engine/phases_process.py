"""The process of a phase: one agent for one fence, started once, found again after any crash, never left behind.

A session's folder holds what must survive us: `pid` (made by the process itself, which therefore exists once),
`prompt.md`, `log` and `exit`. The supervisor may die at any instruction in between.
"""

from __future__ import annotations

import os

from handoff.base.errors import UserError
from handoff.base.files import make_folder
from handoff.base.process import command_of, detach, end_group, is_running, start_of, wait_for_end
from handoff.base.record import TYPE_CHECKING, Record

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from handoff.engine.app import App

_PID, _EXIT, _LOG, _PROMPT, _START = "pid", "exit", "log", "prompt.md", "start"
_STARTING_SECONDS = 10.0
_LOOK_SECONDS = 0.5
_TAIL_BYTES = 600
# The first to make `pid` runs the agent; any other copy, started by a supervisor that died too early to know, ends at once.
_SCRIPT = """
folder=$1; place=$2; shift 2
set -C; { echo $$ > "$folder/pid"; } 2>/dev/null || exit 0; set +C
cd "$place" || exit 1
"$@" < "$folder/prompt.md" > "$folder/log" 2>&1
echo $? > "$folder/exit.new"; mv "$folder/exit.new" "$folder/exit"
"""


class Order(Record):
    """What is to be started for one fence of one task."""

    key: int
    fence: int
    project: str
    workspace: str
    prompt: str
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    files: Mapping[str, str] = {}


class Ended(Record):
    """How the process came out: its exit code, or None where nobody saw it."""

    code: int | None
    tail: str


def name_of(key: int, fence: int) -> str:
    return f"task-{key}-{fence}"


def folder_of(app: App, project: str, key: int, fence: int) -> str:
    """Where a session keeps its files; they stay for whoever wants to read what happened."""
    return os.path.join(app.settings.home, project, "sessions", name_of(key, fence))


def _live(app: App) -> str:
    return os.path.join(app.settings.home, "sessions", "running")


def ensure(app: App, order: Order) -> str:
    """The session's folder with its agent running or ended: the living one is kept, a second one is never started."""
    folder = folder_of(app, order.project, order.key, order.fence)
    if _pid(folder) or os.path.exists(os.path.join(folder, _EXIT)):
        return folder
    make_folder(folder, mode=0o700)
    make_folder(_live(app), mode=0o700)
    marker = os.path.join(_live(app), name_of(order.key, order.fence))
    for path, text in {os.path.join(folder, _PROMPT): order.prompt, **order.files, marker: folder}.items():
        _put(path, text)
    detach(
        ["/bin/sh", "-c", _SCRIPT, "handoff-session", folder, order.workspace, *order.argv],
        environment=order.environment,
    )
    deadline = app.clock.monotonic() + _STARTING_SECONDS
    while not _pid(folder):
        if app.clock.monotonic() > deadline:
            raise UserError(f"The session's process did not begin; see {folder}.")
        app.clock.sleep(0.002)
    return folder


def _put(path: str, text: str) -> None:
    """Write a file that matters only while the process lives; a power cut that loses it ends the process too."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(fd, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)


def _pid(folder: str) -> int:
    try:
        with open(os.path.join(folder, _PID), encoding="ascii") as file:
            text = file.read().strip()
    except OSError:
        return 0
    return int(text) if text.isdigit() else 0


def _alive(folder: str) -> bool:
    """Whether the very process of this folder runs: its number may have been given to another one since."""
    pid = _pid(folder)
    if not pid:
        return False
    try:
        with open(os.path.join(folder, _START), encoding="ascii") as file:
            return is_running(pid, file.read())
    except OSError:
        pass
    if not is_running(pid) or folder not in command_of(pid):
        return False
    _put(os.path.join(folder, _START), start_of(pid))
    return True


def outcome(folder: str) -> Ended | None:
    """How it came out, or None while it runs."""
    code = _code(folder)
    if code is None and _alive(folder):
        return None
    return Ended(_code(folder), tail(folder))  # it may have written its code just before it ended


def _code(folder: str) -> int | None:
    try:
        with open(os.path.join(folder, _EXIT), encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):
        return None


def tail(folder: str, most: int = _TAIL_BYTES) -> str:
    """The agent's last words."""
    try:
        with open(os.path.join(folder, _LOG), "rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - most))
            return file.read().decode("utf-8", "replace").strip()
    except OSError:
        return ""


def wait(app: App, folder: str, *, look: Callable[[int], bool]) -> Ended:
    """Stay until the process ends. `look` is told the size of the log now and then; False from it ends the process."""
    while True:
        found = outcome(folder)
        if found is not None:
            return found
        if not look(_size(folder)):
            end(folder)
            return Ended(_code(folder), tail(folder))
        wait_for_end(_pid(folder), _LOOK_SECONDS, sleep=app.clock.sleep)


def _size(folder: str) -> int:
    try:
        return os.stat(os.path.join(folder, _LOG)).st_size
    except OSError:
        return 0


def end(folder: str) -> bool:
    """End the agent and everything in its group; False when it was over."""
    if not _alive(folder):
        return False
    end_group(_pid(folder))
    return True


def settle(app: App, key: int, fence: int, project: str) -> None:
    """The session is over: nobody needs to look after it any more."""
    end(folder_of(app, project, key, fence))
    try:
        os.unlink(os.path.join(_live(app), name_of(key, fence)))
    except OSError:
        return


def running(app: App) -> list[tuple[int, int, str]]:
    """The sessions somebody must look after: task, fence and folder."""
    try:
        names = os.listdir(_live(app))
    except OSError:
        return []
    found = []
    for name in names:
        parts = name.split("-")
        if len(parts) == 3 and parts[1].isdigit() and parts[2].isdigit():  # noqa: PLR2004 - task-KEY-FENCE
            try:
                with open(os.path.join(_live(app), name), encoding="utf-8") as file:
                    found.append((int(parts[1]), int(parts[2]), file.read()))
            except OSError:
                continue
    return found


def end_superseded(app: App, key: int, fence: int) -> int:
    """End what still runs for an older fence of a task: it must not write any more."""
    return sum(end(folder) for other, old, folder in running(app) if other == key and old < fence)

"""What only one file may do, only that file does."""

from __future__ import annotations

import ast
from typing import NamedTuple

import pytest

from source import Module, dotted, imported, package_modules


class Door(NamedTuple):
    """Something dangerous or unpredictable, and the only files that may touch it."""

    imports: tuple[str, ...]
    names: tuple[str, ...]
    keepers: tuple[str, ...]


INSIDE = "checks/reporters/asking.py"  # runs in the judged process and imports nothing of ours: each question is a fork with its own home
PLAYED = "checks/reporters/plain.py"  # read as text into a script that runs where a person would: each play is a fork

DOORS = {
    "starting programs": Door(
        ("subprocess", "multiprocessing", "pty"),
        ("os.system", "os.popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.posix_spawnp",
         "os.execv", "os.execve", "os.execvp", "os.execvpe", "os.execl", "os.spawnv", "os.spawnvp"),
        ("base/process.py", INSIDE, PLAYED),
    ),
    "the environment": Door(
        (),
        ("os.environ", "os.environb", "os.getenv", "os.getenvb", "os.putenv", "os.unsetenv"),
        ("base/settings.py", INSIDE, PLAYED),
    ),
    # main.py answers --version before anything is imported and says "Interrupted"; settings.py asks for the width.
    "printing": Door(
        (),
        ("print", "sys.stdout", "sys.stderr", "sys.__stdout__", "sys.__stderr__"),
        ("surfaces/cli/output.py", "surfaces/cli/main.py", "base/settings.py"),
    ),
    "SQL drivers": Door(("sqlite3", "pysqlite3", "psycopg", "psycopg2"), (), ("store/",)),
    "what time it is": Door(
        ("time.time", "time.time_ns", "datetime.datetime.now"),
        ("time.time", "time.time_ns", "time.ctime", "datetime.now", "datetime.utcnow", "datetime.today", "date.today",
         "datetime.datetime.now", "datetime.datetime.utcnow", "datetime.datetime.today", "datetime.date.today"),
        ("base/clock.py",),
    ),
    "the durable engine": Door(("dbos",), (), ("engine/supervisor/durable.py",)),
    "templates": Door(("jinja2", "markupsafe", "markdown_it"), (), ("surfaces/page/drawing.py",)),
    "libraries that cost too much at start-up": Door(("click", "msgspec"), (), ()),
}  # fmt: skip


def _outside(module: Module, keepers: tuple[str, ...]) -> bool:
    return not any(
        module.name == keeper or (keeper.endswith("/") and module.name.startswith(keeper)) for keeper in keepers
    )


def _breaches(module: Module, door: Door) -> list[str]:
    found = [
        f"{module.name}:{line} imports {name}"
        for line, name in imported(module)
        if any(name == banned or name.startswith(banned + ".") for banned in (*door.imports, *door.names))
    ]
    found += [
        f"{module.name}:{node.lineno} uses {dotted(node)}"
        for node in module.nodes
        if isinstance(node, ast.Name | ast.Attribute) and dotted(node) in door.names
    ]
    return found


@pytest.mark.parametrize("what", DOORS)
def test_a_door_has_one_keeper(what):
    door = DOORS[what]
    breaches = [
        line for module in package_modules() if _outside(module, door.keepers) for line in _breaches(module, door)
    ]
    assert not breaches, f"{what} belongs to {door.keepers or 'nobody'}:\n" + "\n".join(breaches)


@pytest.mark.parametrize(
    ("what", "line"),
    [
        ("starting programs", "def f():\n    import subprocess"),
        ("starting programs", "import os\nos.posix_spawnp('x', [], {})"),
        ("the environment", "from os import environ"),
        ("the environment", "import os\nos.environ.get('X')"),
        ("printing", "print('x')"),
        ("printing", "import sys\nsys.stderr.write('x')"),
        ("SQL drivers", "from psycopg import connect"),
        ("what time it is", "from time import time"),
        ("what time it is", "import datetime\ndatetime.datetime.now()"),
        ("the durable engine", "from dbos import DBOS"),
    ],
)
def test_the_watch_sees_a_breach(what, line):
    assert _breaches(Module.of("planted.py", line), DOORS[what])


def test_only_the_bug_reporter_and_named_places_catch_everything():
    allowed = {"surfaces/cli/dispatch.py", "surfaces/acting.py"}
    bare = [
        f"{module.name}:{node.lineno}"
        for module in package_modules()
        for node in module.nodes
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or dotted(node.type) == "Exception")
        and module.name not in allowed
        and "noqa: BLE001 - " not in module.text.splitlines()[node.lineno - 1]
    ]
    assert not bare, f"a broad except needs its reason beside it (noqa: BLE001 - why): {bare}"

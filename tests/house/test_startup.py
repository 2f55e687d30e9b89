"""Small commands stay small: which modules each of them loads is a list, not a measurement. `bench/startup.py` has the figures."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from functools import cache

import pytest

from loaded import LIST, by_command, loaded, plan
from source import Module, package_modules

# Modules that cost more than a hook or a small command may spend on them.
COSTLY = frozenset(
    """asyncio ast click concurrent contextlib ctypes dataclasses datetime dbos difflib email hashlib http importlib inspect jinja2
    json logging mcp msgspec multiprocessing pathlib platform psutil psycopg pysqlite3 random re rich shutil socket
    sqlalchemy starlette statistics subprocess tempfile threading tomllib traceback urllib uuid uvicorn xml zipfile
    apprise""".split()
)
NEVER = COSTLY - {"contextlib", "importlib", "json", "re"}  # argparse and the journal of a feature bring those


@cache
def _list() -> dict[str, set[str]]:
    with open(LIST, "rb") as file:
        return {name: set(table["loads"]) for name, table in tomllib.load(file).items()}


def test_the_version_needs_nothing_but_itself():
    assert _list()["--version"] == {"surfaces", "surfaces.cli", "surfaces.cli.main"}


def test_each_budgeted_command_loads_exactly_what_is_written_down(repo):
    found = dict(by_command(repo, {}))
    assert found.keys() == _list().keys()
    for name, modules in found.items():
        more, less = sorted(modules - _list()[name]), sorted(_list()[name] - modules)
        assert not more, f"`handoff {name}` loads more; if that is meant: python tests/support/loaded.py: {more}"
        assert not less, f"`handoff {name}` loads less, well done: python tests/support/loaded.py: {less}"


@pytest.mark.parametrize("words", [("status",), ("next",), ("continue", "--raw"), ("list",), ("note", "a word")])
def test_a_small_command_imports_nothing_heavy(repo, words):
    plan(repo, {})
    found = loaded(repo.path, *words)
    assert not found & NEVER, sorted(found & NEVER)
    assert not [name for name in found if name.startswith(("handoff.board", "handoff.store", "handoff.agents"))]


LEAVING = """
import os, sys
from handoff.surfaces.cli.main import console, main
class Last:
    def __del__(self, write=os.write):
        write(2, b"taken apart")
sys.last = Last()
words = sys.argv[1].split()
if words[0] == "heard":
    import atexit
    atexit.register(os.write, 2, b"heard, ")
    words = words[1:]
sys.argv[1:] = words
if words[0] == "dump":
    main()
    kept = [os.readlink(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{name}")]
    assert not [path for path in kept if "handoff.db" in path], kept
sys.exit(console())
"""


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        ("status", 0, ""),
        ("no-such-command", 2, "Error: There is no command 'no-such-command'."),
        ("heard status", 0, "heard, taken apart"),
        ("dump --task one --next x", 4, "is still ready"),
    ],
)
def test_a_small_command_has_said_all_and_closed_its_rows_when_it_leaves_at_once(repo, words, code, told):
    done = subprocess.run(
        [sys.executable, "-c", LEAVING, words], cwd=repo.path, capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stderr
    assert told in done.stderr
    assert ("taken apart" in done.stderr) == words.startswith("heard")
    assert ("Git: " in done.stdout) == words.endswith("status")


def _may_be_late(module: Module) -> bool:
    """Files a budgeted command loads, and the surfaces, where a command imports what it needs when it runs."""
    light = {name for modules in _list().values() for name in modules}
    return (
        module.name.startswith("surfaces/")
        or module.name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") in light
    )


def _late(module: Module) -> list[str]:
    """Imports inside functions, of what is neither costly nor, like dbos, an extra."""
    found = []
    for node in module.nodes:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for line in ast.walk(node):
            if isinstance(line, ast.Import):
                names = [alias.name for alias in line.names]
            elif isinstance(line, ast.ImportFrom):
                names = [line.module or ""]
            else:
                continue
            cheap = [name for name in names if name.partition(".")[0] not in COSTLY]
            found += [f"{module.name}:{line.lineno} {name}" for name in cheap]
    return found


# Read by other programs' start-up too, or only where an extra is installed: each with the reason beside the import.
_BORDERS = (
    "agents/acp_driver.py", "agents/monitor.py", "agents/sandbox/", "git/ownership/", "engine/session/hooks.py",
    "engine/supervisor/database.py", "engine/supervisor/supervisor.py", "notify/channels.py", "notify/telemetry.py",
)  # fmt: skip


def test_imports_stand_at_the_top_unless_start_up_needs_them_late():
    late = [
        line
        for module in package_modules()
        if not _may_be_late(module) and not module.name.startswith(_BORDERS)
        for line in _late(module)
    ]
    assert not late, "\n".join(late)


def test_the_watch_over_late_imports_sees_one():
    assert _late(Module.of("planted.py", "def f():\n    from handoff.git import guard\n"))
    assert not _late(Module.of("planted.py", "import os\ndef f():\n    import hashlib\n"))

"""Start a project's test runner clean and say each result in a sealed line. Stands alone: stdlib and the runner only.

Started as `python -I -B launch.py FD`. Standard input brings one line of JSON: the key, the tree, the arguments.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import importlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import importlib.util
import json
import os
import site
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType
    from typing import Any

_OURS = os.path.dirname(os.path.abspath(__file__))
_NEVER_OURS = frozenset(("test", "tests"))  # no runner loads these, and every second project has them


def sealed_channel(fd: int, key: bytes) -> Callable[[dict[str, Any]], None]:
    """A function that writes one numbered line with its seal; a forked child that goes on as a runner is not heard."""
    owner, number = os.getpid(), 0

    def say(body: dict[str, Any]) -> None:
        nonlocal number
        if os.getpid() != owner:
            return
        text = json.dumps([number, body], ensure_ascii=True, separators=(",", ":")).encode("ascii")
        seal = hmac.new(key, text, hashlib.sha256).hexdigest().encode("ascii")
        line = memoryview(seal + b" " + text + b"\n")
        number += 1
        while line:
            line = line[os.write(fd, line) :]

    return say


class CleanFinder(importlib.abc.MetaPathFinder):
    """Takes a top-level name from outside the tree where it exists there, unless the project owned it before the work."""

    def __init__(self, path: Sequence[str], owned: Sequence[str]) -> None:
        self._path, self._owned = list(path), frozenset(owned) | _NEVER_OURS

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if path is not None or fullname in self._owned:
            return None
        for finder in (importlib.machinery.BuiltinImporter, importlib.machinery.FrozenImporter):
            spec = finder.find_spec(fullname)
            if spec is not None:
                return spec
        spec = importlib.machinery.PathFinder.find_spec(fullname, self._path, target)
        return None if spec is None or spec.origin is None else spec  # a namespace may go on in the tree


def load_ours(name: str) -> ModuleType:
    """A neighbour of this file, under a name no project has."""
    spec = importlib.util.spec_from_file_location(f"_handoff_{name}", os.path.join(_OURS, f"{name}.py"))
    if spec is None or spec.loader is None:
        raise ImportError(name)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def clean_path(job: dict[str, Any]) -> list[str]:
    """Python's own path: an editable install that leads back to the person's checkout is not on it."""
    lender = os.path.realpath(job["lender"]) if job["lender"] else "\0"
    prefixes = tuple(os.path.realpath(place) + os.sep for place in {sys.prefix, sys.base_prefix, sys.exec_prefix})
    kept = []
    for place in sys.path:
        real = os.path.realpath(place)
        if real.startswith(prefixes) or not (real == lender or real.startswith(lender + os.sep)):
            kept.append(place)
    return kept


def user_site() -> list[str]:
    """Where `pip install --user` puts things: -I leaves it out, and the runner may be there."""
    if sys.prefix != sys.base_prefix:
        return []
    folder = site.getusersitepackages()
    return [folder] if os.path.isdir(folder) else []


def prepare(job: dict[str, Any]) -> None:
    """The tree comes onto the path only after everything of the runner is found outside of it."""
    path = [*clean_path(job), *user_site()]
    sys.path[:] = path
    importlib.invalidate_caches()


def open_tree(job: dict[str, Any]) -> Callable[[], None]:
    """Put the tree onto the path, behind a finder that keeps it from standing in for anybody else.

    Until the function that comes back is called, what is installed is what was there before the tree could bring its own.
    """
    known, asked = tuple(importlib.metadata.distributions()), importlib.metadata.distributions
    importlib.metadata.distributions = lambda **wanted: asked(**wanted) if wanted else iter(known)
    owned = set(job["owned"])
    sys.meta_path.insert(0, CleanFinder(sys.path, sorted(owned)))
    standard: frozenset[str] = getattr(sys, "stdlib_module_names", frozenset())
    for name in list(sys.modules):
        top = name.partition(".")[0]
        if top in owned and top not in standard and not top.startswith("_handoff_"):
            del sys.modules[name]
    sys.path[:0] = job["path"]

    def done() -> None:
        importlib.metadata.distributions = asked

    return done


def quiet_input() -> None:
    """Nothing of what we were told can be read again."""
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)


def main(fd: int) -> int:
    """Run the suite; the exit code is the runner's."""
    with open(0, "rb", closefd=False, buffering=0) as source:
        parts: list[bytes] = []
        while not parts or not parts[-1].endswith(b"\n"):
            part = source.read(65536)
            if not part:
                break
            parts.append(part)
    job = json.loads(b"".join(parts))
    del parts
    os.set_inheritable(fd, False)
    quiet_input()
    say = sealed_channel(fd, bytes.fromhex(job.pop("key")))
    prepare(job)
    runner = job["runner"]
    try:
        importlib.import_module(runner)
    except ImportError as error:
        if error.name != runner:
            raise
        os.write(2, f"{sys.executable}: No module named {runner}\n".encode())
        return 1
    witness = load_ours(f"{runner}_witness")
    sys.argv = [runner]
    code = int(witness.run(say, job, lambda: open_tree(job), load_ours))
    say({"t": "end", "exit": code})
    return code


if __name__ == "__main__":
    ended = main(int(sys.argv[1]))
    for name in ("stdout", "stderr"):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            getattr(sys, name).flush()
    os._exit(ended)

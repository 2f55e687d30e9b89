"""The top-level names a Python project has: what an import may find in its tree before it looks at what is installed."""

from __future__ import annotations

import os
import re

from handoff.base.record import TYPE_CHECKING
from handoff.checks.suite import is_entered

if TYPE_CHECKING:
    from collections.abc import Iterable

    from handoff.checks.suite import Suite

_TEST = re.compile(r"(?:^|/)(?:test_[^/]*|[^/]*_test|conftest)\.py$")


def owned_names(paths: Iterable[str], suite: Suite) -> tuple[str, ...]:
    """Names at the top of the suite's folder, in its src, and beside its tests, where pytest puts the path."""
    home = f"{suite.folder}/" if suite.folder else ""
    inside = [path[len(home) :] for path in paths if path.startswith(home)]
    roots = {"", "src/"} | {os.path.join(os.path.dirname(path), "") for path in inside if _TEST.search(path)}
    found: set[str] = set()
    for path in inside:
        parts = path.split("/")
        for depth, part in enumerate(parts):
            if "/".join(parts[:depth]) + ("/" if depth else "") in roots:
                is_file = depth == len(parts) - 1
                name = part.partition(".")[0] if is_file and part.endswith((".py", ".so", ".pyd", ".pyx")) else part
                if name.isidentifier():
                    found.add(name)
    return tuple(sorted(found))


def files_below(top: str) -> list[str]:
    """Every file of a laid-out tree, from its top, without what was borrowed or built."""
    found = []
    for at, folders, names in os.walk(top):
        folders[:] = [name for name in folders if is_entered(name) and not os.path.islink(os.path.join(at, name))]
        inside = os.path.relpath(at, top)
        found += names if inside == "." else [f"{inside}/{name}" for name in names]
    return found


def helper_names(paths: Iterable[str]) -> list[str]:
    """Modules beside tests that are none themselves, by every name a test may import them: pytest shall watch their assertions."""
    listed = [path for path in paths if path.endswith(".py")]
    roots = {os.path.dirname(path) for path in listed if _TEST.search(path)} - {""}
    found: set[str] = set()
    for path in listed:
        at = os.path.dirname(path)
        if at in roots and not _TEST.search(path) and not path.endswith("__init__.py"):
            name = os.path.basename(path).removesuffix(".py")
            found |= {name, f"{at}/{name}".removeprefix("src/").replace("/", ".")}
    return sorted(found)

"""Whether a runner is the one it was before anything of the tree was loaded."""

from __future__ import annotations

import builtins
import importlib
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

_BUILTINS = "AssertionError BaseException Exception isinstance issubclass len getattr type repr any all sorted".split()


def code_of(value: Any) -> Any:
    """The code behind a function, method or property."""
    for name in ("__func__", "fget"):
        value = getattr(value, name, value)
    return getattr(value, "__code__", None)


def fingerprints(runner: Sequence[str]) -> dict[str, Any]:
    """The code of every function of the runner, by name; whoever changes one is seen."""
    found: dict[str, Any] = {f"builtins.{name}": getattr(builtins, name) for name in _BUILTINS}
    for name in runner:
        module = sys.modules.get(name)
        if module is None:
            try:
                module = importlib.import_module(name)
            except ImportError:
                continue
        for label, value in list(vars(module).items()):
            if isinstance(value, type) and value.__module__ == name:
                for inner, member in list(vars(value).items()):
                    if (code := code_of(member)) is not None:
                        found[f"{name}.{label}.{inner}"] = code
            elif (code := code_of(value)) is not None:
                found[f"{name}.{label}"] = code
    return found


def changed_parts(before: dict[str, Any], runner: Sequence[str]) -> list[str]:
    """Which of them are others now."""
    now = fingerprints(runner)
    return sorted(name for name, value in before.items() if now.get(name) is not value)

"""A second opinion: test functions run as plain code, with no runner near them, and say what they raised."""

from __future__ import annotations

import sys
import time
import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_LATER = 10 * 366 * 24 * 3600
_LONGEST = 2000


def shift_clock() -> None:
    """The clock ten years on, for whoever asks the time in seconds."""
    for name, factor in (("time", 1), ("time_ns", 1_000_000_000)):
        real = getattr(time, name)
        setattr(time, name, lambda real=real, more=_LATER * factor: real() + more)


def run(
    say: Callable[[dict[str, Any]], None], job: dict[str, Any], open_tree: Callable[[], object], _ours: object = None
) -> int:
    """Each function in a module of its own; whatever it raises is its answer."""
    if job["later"]:
        shift_clock()
    open_tree()
    for name, text, function in job["plain"]:
        module = types.ModuleType(f"{function}_module")
        sys.modules[module.__name__] = module
        kind = words = ""
        try:
            exec(compile(text, f"{module.__name__}.py", "exec"), module.__dict__)  # noqa: S102 - that is the question
            getattr(module, function)()
        except BaseException as error:  # noqa: BLE001 - also what would end us
            kind, words = type(error).__name__, str(error)[:_LONGEST]
        say({"t": "opinion", "id": name, "kind": kind, "text": words})
    return 0

"""JSON at the speed of a hook: the interpreter's own scanner, without the regular expressions the `json` module imports."""

from __future__ import annotations

from handoff.base.record import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any


class _Options:
    """What the scanner asks for."""

    strict = False
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float
    memo: dict[str, str] = {}  # noqa: RUF012 - the scanner's own cache


def loads(text: str) -> Any:
    """The value a JSON text means; ValueError when it means none."""
    bare = text.strip(" \t\r\n")
    scan = _scanner()
    if scan is None:
        import json

        return json.loads(bare)
    try:
        value, end = scan(bare, 0)
    except (StopIteration, SystemError, ValueError):  # SystemError: the scanner misses the json module's own error
        raise ValueError("not JSON") from None
    if end != len(bare):
        raise ValueError("more than one JSON value")
    return value


def dumps(value: Any) -> str:
    """A value of plain texts, numbers, lists and mappings as JSON."""
    if isinstance(value, str):
        return _quoted(value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(dumps(item) for item in value) + "]"
    return "{" + ", ".join(f"{_quoted(str(key))}: {dumps(item)}" for key, item in value.items()) + "}"


def _scanner() -> Any:
    try:
        from _json import make_scanner
    except ImportError:
        return None
    return make_scanner(_Options)  # type: ignore[arg-type]


def _quoted(text: str) -> str:
    try:
        from _json import encode_basestring_ascii
    except ImportError:
        import json

        return json.dumps(text)
    return str(encode_basestring_ascii(text))

"""JSON at the speed of a hook: the interpreter's own scanner and encoder, without the regular expressions `json` imports."""

from __future__ import annotations

from handoff.base.record import TYPE_CHECKING

try:
    from _json import encode_basestring, encode_basestring_ascii, make_encoder, make_scanner
except ImportError:  # an interpreter without them: the library itself
    make_scanner = None  # type: ignore[assignment,misc]

if TYPE_CHECKING:
    from typing import Any, NoReturn


class _Options:
    """What the scanner asks for."""

    strict = False
    object_hook = object_pairs_hook = None
    parse_float = parse_constant = float
    parse_int = int


def loads(text: str) -> Any:
    """The value a JSON text means; ValueError when it means none."""
    bare = text.strip(" \t\r\n")
    if make_scanner is None:
        from json import loads as load

        return load(bare)
    try:
        value, end = make_scanner(_Options)(bare, 0)  # type: ignore[arg-type]
    except (StopIteration, SystemError, ValueError):  # SystemError: the scanner misses the json module's own error
        raise ValueError("not JSON") from None
    if end != len(bare):
        raise ValueError("more than one JSON value")
    return value


def dumps(value: Any, *, ascii_only: bool = True) -> str:
    """A value of plain texts, numbers, lists and mappings as JSON on one line, as the library writes it."""
    if make_scanner is None:
        from json import dumps as dump

        return dump(value, ensure_ascii=ascii_only)
    quote = encode_basestring_ascii if ascii_only else encode_basestring
    encode: Any = make_encoder({}, _refuse, quote, None, ": ", ", ", False, False, True)
    return "".join(encode(value, 0))


def _refuse(value: Any) -> NoReturn:
    raise TypeError(f"{type(value).__name__} is not JSON")

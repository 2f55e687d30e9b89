"""Many new objects as one pack, made in this process: a file for each of them would be most of the time a landing takes."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_KINDS = {"commit": 1, "tree": 2, "blob": 3, "tag": 4}


def pack(objects: Iterable[tuple[str, bytes]], algorithm: str) -> bytes:
    """The bytes of a pack that holds the objects whole."""
    import hashlib

    parts: list[bytes] = []
    count = 0
    for kind, data in objects:
        parts += (_head(_KINDS[kind], len(data)), zlib.compress(data, 1))
        count += 1
    body = b"PACK" + (2).to_bytes(4, "big") + count.to_bytes(4, "big") + b"".join(parts)
    return body + hashlib.new(algorithm, body, usedforsecurity=False).digest()


def _head(kind: int, size: int) -> bytes:
    """Kind and length as git writes them: four bits, then seven at a time, a set top bit says that more follow."""
    first = (kind << 4) | (size & 15)
    size >>= 4
    found = bytearray()
    while size:
        found.append(first | 0x80)
        first = size & 0x7F
        size >>= 7
    found.append(first)
    return bytes(found)

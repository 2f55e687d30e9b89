"""What a checkout's own index tells at the first look: which files need not be read, because git has looked at them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from handoff.git.plumbing import read_plain
from handoff.git.plumbing.objects import POINTER

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from handoff.git.plumbing import Source
    from handoff.git.plumbing.snapshot_repo import SnapshotRepo

_ORDINARY = ("H 10", "H 12")  # a file or a link without a flag
_SIZES = ("cat-file", "--buffer", "--batch-check=%(objectsize)")
_FILTERS = ("check-attr", "--stdin", "-z", "filter", "ident", "working-tree-encoding")


class Seed(NamedTuple):
    """The names of an index whose files it hides from us, or of which the disk has other bytes than its blob."""

    hidden: list[str]
    sparse: list[str]
    unmerged: set[str]
    converted: set[str]


def read_seed(store: SnapshotRepo, source: Source, listed: bytes) -> Seed:
    """What `ls-files -z -s -v` told, held against the disk. A loop this long is written for speed."""
    shas: dict[str, str] = {}
    odd = []
    for line in os.fsdecode(listed).split("\0"):
        facts, _, name = line.partition("\t")
        if facts[:4] in _ORDINARY and facts[-2:] == " 0":
            shas[name] = facts[9:-2]
        elif name:
            odd.append((name, *facts.split(" ")))
    hidden, sparse, unmerged = [], [], set()
    for name, tag, mode, sha, stage in odd:
        if stage != "0":
            unmerged.add(name)
        if tag.islower():
            hidden.append(name)
        if tag.upper() == "S":
            if os.path.lexists(os.path.join(source.top, name)):
                sparse.append(name)
        elif mode != POINTER:
            shas[name] = sha
    return Seed(
        hidden=hidden,
        sparse=sparse,
        unmerged=unmerged,
        converted=_converted(store, source, shas, _sizes(source.top, shas)),
    )


def _sizes(top: str, names: Iterable[str]) -> dict[str, str]:
    found, lstat, prefix = {}, os.lstat, top + "/"
    for name in names:
        try:
            found[name] = str(lstat(prefix + name).st_size)
        except OSError:
            continue
    return found


def _converted(store: SnapshotRepo, source: Source, shas: Mapping[str, str], lengths: Mapping[str, str]) -> set[str]:
    """Files whose bytes on the disk are not the blob's: line ends, encodings, large-file pointers, keywords."""
    if not shas:
        return set()
    asked = "\n".join(shas.values()) + "\n"
    sizes = store.git(*_SIZES, stdin=asked.encode(), borrow=source.objects).text.splitlines()
    found = {name for name, size in zip(shas, sizes, strict=False) if lengths.get(name, size) != size}
    attributes = any(name.endswith(".gitattributes") for name in shas)
    if attributes or read_plain(os.path.join(source.common, "info", "attributes")).strip():
        names = os.fsencode("".join(name + "\0" for name in shas))
        fields = os.fsdecode(store.look(source, *_FILTERS, stdin=names).out).split("\0")
        values = zip(fields[::3], fields[2::3], strict=False)
        found |= {name for name, value in values if value not in ("unspecified", "unset")}
    return found

"""One side has changed every line end: both are merged with plain ones, and the file keeps the ends it had."""

from __future__ import annotations

from typing import TYPE_CHECKING

from handoff.git.landing.three_way import join
from handoff.git.plumbing.objects import FILE, Entry

if TYPE_CHECKING:
    from handoff.git.landing.settle import FileSides
    from handoff.git.plumbing.snapshot_repo import SnapshotRepo

_NAME = b"file"


def merge_line_ends(store: SnapshotRepo, sides: FileSides) -> bytes | None:
    """The merge of three texts of which one side has other line ends than the base; None where that is not the trouble."""
    ends = [_end(data) for data in sides.texts]
    if None in ends or ends[0] == ends[1] == ends[2]:
        return None
    plain = [data.replace(b"\r\n", b"\n") for data in sides.texts]
    if plain[1] == plain[0]:
        made = plain[2]
    elif plain[2] == plain[0] or plain[1] == plain[2]:
        made = plain[1]
    else:
        trees = [store.graft("", {_NAME: Entry(FILE, store.write("blob", data))}) for data in plain]
        found = join(store, *trees)
        entry = store.look_up(found.tree, _NAME)
        if found.left or entry is None:
            return None
        made = store.read(entry.sha)
    return made.replace(b"\n", b"\r\n") if ends[0] == b"\r\n" else made


def _end(data: bytes) -> bytes | None:
    """How the lines of a text end; None where they do not agree."""
    pairs, all_ends = data.count(b"\r\n"), data.count(b"\n")
    if data.count(b"\r") != pairs or pairs not in (0, all_ends):
        return None
    return b"\r\n" if pairs else b"\n"

"""Which merge driver a person wants for a file: by the attributes of the target and of the person, never of a part."""

from __future__ import annotations

import os

from handoff.base.files import make_folder, remove
from handoff.base.markdown import quoted
from handoff.base.record import TYPE_CHECKING, Record

if TYPE_CHECKING:
    from handoff.git.landing.target import Target

_NONE = ("unspecified", "")
_BY_LINES = ("set", "text")
_BY_HAND = ("unset", "binary")
UNION = "union"


class MergeDriver(Record):
    """A merge driver by its name and its command; no command where a file is to be joined by hand."""

    name: str
    command: str = ""

    @property
    def by_hand(self) -> bool:
        return self.name in _BY_HAND

    @property
    def by_lines(self) -> bool:
        """Whether git's own merge of lines is wanted, also for a file that a program makes."""
        return self.name in _BY_LINES


def driver_of(target: Target, tip: str, path: str) -> MergeDriver | None:
    """What the `merge` attribute of a path names, with the command from the person's own settings."""
    name = _attribute(target, tip, path)
    if name in _NONE:
        return None
    if name in (*_BY_HAND, *_BY_LINES):
        return MergeDriver(name)
    if name == UNION:
        return MergeDriver(name, "git merge-file -q --union %A %O %B")
    command = target.git("config", f"merge.{name}.driver").text.strip()
    return MergeDriver(name, command) if command else None


def words_of(driver: MergeDriver, base: str, ours: str, theirs: str, path: str) -> str:
    """The command as git would give it to a shell: three files, the size of a mark, the path."""
    values = {"O": base, "A": ours, "B": theirs, "L": "7", "P": path, "S": "before", "X": "ours", "Y": "theirs"}
    found, rest = [], driver.command
    while rest:
        plain, percent, rest = rest.partition("%")
        found.append(plain)
        if not percent:
            break
        letter, rest = rest[:1], rest[1:]
        found.append("%" if letter == "%" else quoted(values[letter]) if letter in values else percent + letter)
    return "".join(found)


def _attribute(target: Target, tip: str, path: str) -> str:
    """Asked in the person's repository, over an index that holds the target's .gitattributes alone."""
    names = [".gitattributes", *(f"{path[:at]}/.gitattributes" for at in range(len(path)) if path[at] == "/")]
    make_folder(target.folder)
    index = os.path.join(target.folder, f"index.attributes.{os.getpid()}.tmp")
    listed = target.git("ls-tree", "-z", tip, "--", *names, GIT_LITERAL_PATHSPECS="1")
    try:
        target.git("update-index", "-z", "--index-info", stdin=listed.out, index=index)
        answer = target.git("check-attr", "--cached", "-z", "merge", "--", path, index=index)
    finally:
        remove(index)
    return answer.text.split("\0")[2] if answer.code == 0 and answer.text else ""

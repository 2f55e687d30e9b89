"""The list of tests: a Markdown list with checkboxes. The planner keeps it, the orchestrator ticks it."""

from __future__ import annotations

import re

from handoff.base.record import Record

OPEN, DONE, DROPPED = "open", "done", "dropped"
_MARKS = {" ": OPEN, "x": DONE, "X": DONE, "-": DROPPED}
_BULLETS = ("- [", "* [", "+ [")
_DROPPED = "(dropped:"
_BOX = 3
_OPEN_BOX = re.compile(r"\[[\s_]{1,3}\]|\u2610|\u2b1c")
_CODE = re.compile(r"`[^`]*`")


class Item(Record):
    """One test of the list."""

    text: str
    state: str
    line: int

    @property
    def name(self) -> str:
        """The words it is known by: without the reason of a drop, white space and case aside."""
        return " ".join(self.text.partition(_DROPPED)[0].replace("~~", "").split())

    @property
    def key(self) -> str:
        return self.name.casefold()


class ListFault(Record):
    """A broken rule of the list."""

    code: str
    words: str


def parse(text: str) -> list[Item]:
    """Every line with a checkbox outside code fences."""
    found, fenced = [], False
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.strip()
        if bare.startswith(("```", "~~~")):
            fenced = not fenced
        elif not fenced and bare.startswith(_BULLETS) and bare[_BOX : _BOX + 1] in _MARKS and bare[4:5] == "]":
            found.append(Item(bare[5:].strip(), _MARKS[bare[_BOX]], number))
    return found


def _unread(text: str) -> list[int]:
    """Lines with an open box that are no item: a list must not look finished because of a bullet we do not know."""
    items, fenced, found = {item.line for item in parse(text)}, False, []
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip().startswith(("```", "~~~")):
            fenced = not fenced
        elif not fenced and number not in items and _OPEN_BOX.search(_CODE.sub("", line)):
            found.append(number)
    return found


def next_open(text: str) -> Item | None:
    """The one test that is handed on: the first open one."""
    return next((item for item in parse(text) if item.state == OPEN), None)


def tick(text: str, name: str) -> str:
    """The same text with the box of that test ticked."""
    for item in parse(text):
        if item.state == OPEN and item.key == " ".join(name.split()).casefold():
            lines = text.splitlines(keepends=True)
            at = item.line - 1
            lines[at] = lines[at].replace("[ ]", "[x]", 1)
            return "".join(lines)
    return text


def judge(before: str, after: str) -> list[ListFault]:
    """What the planner may not do: lose a test, tick or untick one, drop one without a reason, name two the same."""
    old, new = {item.key: item for item in parse(before)}, {item.key: item for item in parse(after)}
    found = []
    if not parse(after):
        found.append(ListFault("empty-list", "The list has no test: write '- [ ] what must hold' lines."))
    for key, item in old.items():
        now = new.get(key)
        if now is None:
            found.append(
                ListFault(
                    "test-vanished",
                    f"The {item.state} test '{item.name}' is gone. Reword nothing that stands there; an open test that is "
                    "not needed becomes '- [-] … (dropped: why)'.",
                )
            )
        elif item.state == DONE and now.state != DONE:
            found.append(ListFault("unticked", f"'{item.name}' was done and is {now.state} now."))
        elif item.state != DONE and now.state == DONE:
            found.append(ListFault("ticked-unproven", f"'{item.name}' was ticked, but no run has shown it."))
    for key, item in new.items():
        was = old.get(key)
        if was is None and item.state == DONE:
            found.append(ListFault("ticked-unproven", f"'{item.name}' is new and already ticked."))
        if item.state == DROPPED and _DROPPED not in item.text and (was is None or was.state != DROPPED):
            found.append(ListFault("dropped-silently", f"'{item.name}' was dropped without '(dropped: why)'."))
    found += [
        ListFault(
            "not-understood", f"Line {number} has an open box that is not read: write it as '- [ ] what must hold'."
        )
        for number in _unread(after)
    ]
    keys = [item.key for item in parse(after)]
    twice = sorted({key for key in keys if keys.count(key) > 1})
    return found + [ListFault("named-twice", f"'{new[key].name}' stands there twice.") for key in twice]


def counts(text: str) -> dict[str, int]:
    """How many tests are open, done and dropped."""
    states = [item.state for item in parse(text)]
    return {state: states.count(state) for state in (OPEN, DONE, DROPPED)}

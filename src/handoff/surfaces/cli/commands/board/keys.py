"""The keys of the board: one table, from which the bindings, the footer, the page of keys and the documentation come."""

from __future__ import annotations

from handoff.base.record import Record

LIST, PAGE, GATE = "list", "page", "gate"
"""Where a key works: in the list, on a page of text, at a gate."""


class BoardKey(Record):
    """One key: what is typed, what it does, its word in the footer (if it stands there), and the same in a sentence."""

    key: str
    act: str
    word: str
    meaning: str
    where: tuple[str, ...] = (LIST,)


KEYS = (
    BoardKey("?", "keys", "keys", "this page", (LIST, PAGE, GATE)),
    BoardKey("enter", "open", "open", "open what is chosen: a gate, an agent's words, or the task with its history"),
    BoardKey("a", "answer", "answer", "answer a gate: see the question, checks, weakened tests and the diff first"),
    BoardKey("r", "retry", "retry", "let what is blocked or held try again"),
    BoardKey("m", "again", "", "retry differently: with your words, another agent or model"),
    BoardKey("A", "add", "add", "add a task: what is to be done, in a sentence"),
    BoardKey("W", "work", "work", "start agents in the background"),
    BoardKey("S", "stop", "", "stop the session at work: its work is kept, no attempt is used; asks for y"),
    BoardKey("o", "land", "land", "land green work onto your branch"),
    BoardKey("E", "change", "", "change a task that nobody works on: its brief, agent, model or check"),
    BoardKey("R", "retry_all", "", "the same for everything that is blocked for the same cause"),
    BoardKey("p", "pause", "", "let a task wait, or go on: nothing that runs is stopped"),
    BoardKey("l", "log", "log", "what its agent says, followed while you are at the end"),
    BoardKey("s", "speak", "", "say something to the agent at work; it reads it after its next step", (LIST, PAGE)),
    BoardKey("t", "take", "", "take a task over: its conversation opens here, or another agent goes on with it"),
    BoardKey("d", "diff", "diff", "what it has changed so far, tests first"),
    BoardKey("x", "cancel", "", "take a task back; asks for y"),
    BoardKey(
        "u",
        "undo",
        "undo",
        "take back the newest landing, restore, commit or removal: shows what would change, asks for y",
    ),
    BoardKey("n", "next", "", "the next line that needs you"),
    BoardKey("L", "journal", "", "the journal, followed"),
    BoardKey("c", "copy", "", "copy the command that belongs to the line"),
    BoardKey("/", "filter", "", "show only lines with these words; esc shows all again"),
    BoardKey(":", "command", "", "run any handoff command"),
    BoardKey("j", "down", "", "one line down, also the arrow", (LIST, PAGE, GATE)),
    BoardKey("k", "up", "", "one line up, also the arrow", (LIST, PAGE, GATE)),
    BoardKey("g", "top", "", "the first line", (LIST, PAGE, GATE)),
    BoardKey("G", "end", "", "the last line; on a page it follows again", (LIST, PAGE, GATE)),
    BoardKey("pagedown", "page_down", "", "a page down, also space on a page", (LIST, PAGE, GATE)),
    BoardKey("pageup", "page_up", "", "a page up", (LIST, PAGE, GATE)),
    BoardKey("tab", "column", "", "the next section"),
    BoardKey("y", "yes", "yes", "say yes", (GATE,)),
    BoardKey("t", "say", "answer", "answer in your own words, where a session asked", (GATE,)),
    BoardKey("1-9", "choice", "", "the offered answer with that number", (GATE,)),
    BoardKey("n", "no", "no", "say no; asks for the reason, nothing is back", (GATE,)),
    BoardKey("e", "edit", "edit", "say yes with the text as you change it in your editor", (GATE,)),
    BoardKey("]", "next_file", "next file", "the next file of the diff", (GATE,)),
    BoardKey("escape", "back", "back", "back, or away with the filter", (LIST, PAGE, GATE)),
    BoardKey("q", "quit", "quit", "leave; agents go on", (LIST, PAGE, GATE)),
)
SHOWN = {"enter": "⏎", "escape": "esc", "pagedown": "PgDn", "pageup": "PgUp"}
ALSO = {"j": "down", "k": "up", "g": "home", "G": "end", "pagedown": "space"}


def shown(key: str, *, ascii_only: bool = False) -> str:
    """A key as it is printed on a keyboard."""
    return "enter" if ascii_only and key == "enter" else SHOWN.get(key, key)

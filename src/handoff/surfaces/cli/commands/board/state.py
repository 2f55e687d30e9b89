"""What the board knows beside the rows: which line is chosen, what is filtered, which page is open, what is being typed."""

from __future__ import annotations

import os

from rich.cells import cell_len, set_cell_size

from handoff.base.record import TYPE_CHECKING, Record
from handoff.engine.place import transcripts
from handoff.engine.work.overview import LANDED, NEEDS, NEXT, RUNNING, SECTIONS
from handoff.surfaces.cli.output import shown
from handoff.surfaces.vocabulary import finished_words, fold, matches, wants_ascii

if TYPE_CHECKING:
    from collections.abc import Callable

    from handoff.engine.work.overview import OverviewFeed, OverviewItem

    StyledLine = tuple[str, str]

_TITLES = {NEEDS: "NEEDS YOU", RUNNING: "RUNNING", LANDED: "FINISHED", NEXT: "NEXT"}
_TAIL = 200
_TOLD = 24
_HEARD = 20
"""How many running sessions are listened to at once; more fit on no screen."""


class BoardRow(Record):
    """One line of the list: a section's title, or an item with those that have the same cause."""

    section: str
    title: str
    items: tuple[OverviewItem, ...] = ()
    name: str = ""
    folder: str = ""
    """What the addresses of all lines of its section begin with."""

    @property
    def shown(self) -> str:
        """Its address without that beginning, which stands in the section's title."""
        more = f" and {len(self.items) - 1} more" if len(self.items) > 1 else ""
        return self.items[0].address.removeprefix(f"{self.folder}/") + more


class TextPage:
    """A page of text; one that can be read anew is followed while its end is in view, and otherwise says how much is new."""

    def __init__(self, title: str, lines: list[StyledLine], *, item: OverviewItem | None = None) -> None:
        self.title, self.lines, self.item = title, lines, item
        self.files: list[int] = []
        """Which of the lines begin a file of a diff."""
        self.answers = False
        self.again: Callable[[], list[StyledLine]] | None = None
        self.seen = len(lines)


class LinePrompt:
    """A line that is to be typed, or one key of it, and what happens with it."""

    def __init__(self, label: str, done: Callable[[str], None], text: str = "", *, one_key: bool = False) -> None:
        self.label, self.done, self.text, self.one_key = label, done, text, one_key


class BoardState:
    """The board of one project, or of all."""

    def __init__(self, feed: OverviewFeed) -> None:
        self.feed = feed
        self.ascii_only = wants_ascii(feed.app.settings)
        self.chosen = ""
        self.filter = ""
        self.page: TextPage | None = None
        self.prompt: LinePrompt | None = None
        self.message = self.message_style = ""
        self._told_for = 0
        self.live = "live"
        self.rows: list[BoardRow] = []
        self.last_words: list[str] = []
        self._at = 0
        self._known: dict[str, BoardRow] = {}
        self._heard = transcripts.LastWords(feed.app)
        self.gather()

    @property
    def where(self) -> str:
        if self.page is None:
            return LIST
        return GATE if self.page.answers else PAGE

    def gather(self) -> None:
        """The rows as they are now; the chosen line stays chosen while it is there."""
        before, known, wanted = self.position(), self._known, self.filter
        self.rows, self._known = [], {}
        for section in SECTIONS:
            items = self.feed.of(section)
            if wanted:
                items = [one for one in items if matches(one, wanted)]
            groups = map(tuple, fold(items)) if section == NEEDS else ((item,) for item in items)
            if items:
                folder = common_folder([item.address for item in items if item.key])
                title = f"{_TITLES[section]} {len(items)}"
                title += f": {finished_words(items)}" if section == LANDED else ""
                self.rows.append(BoardRow(section, title, folder=folder))
                for group in groups:
                    name = f"{section} {group[0].address}"
                    row = known.get(name)
                    if row is None or row.items != group or row.folder != folder:
                        row = BoardRow(section, "", group, name, folder)
                    self._known[name] = row
                    self.rows.append(row)
        if self.chosen not in self._known:
            near = self.rows[before : before + 2] if before >= 0 else []
            row = next((row for row in (*near, *self.rows) if row.items), None)
            self.chosen = row.name if row else ""

    def position(self) -> int:
        """Which row is chosen; -1 where there is none."""
        if not (self._at < len(self.rows) and self.rows[self._at].name == self.chosen):
            self._at = next(
                (at for at, row in enumerate(self.rows) if row.items and row.name == self.chosen), len(self.rows)
            )
        return self._at if self._at < len(self.rows) else -1

    def row(self) -> BoardRow | None:
        at = self.position()
        return self.rows[at] if at >= 0 else None

    def item(self) -> OverviewItem | None:
        row = self.row()
        return row.items[0] if row else None

    def next_section(self) -> None:
        """The first line of the section after this one."""
        row = self.row()
        found = [one for one in self.rows if one.items]
        if row is None:
            return
        order = list(dict.fromkeys(one.section for one in found))
        section = order[(order.index(row.section) + 1) % len(order)]
        self.chosen = next(one.name for one in found if one.section == section)

    def next_need(self) -> None:
        """The next line that needs a person, round and round."""
        names = [row.name for row in self.rows if row.items and row.section == NEEDS]
        if names:
            at = names.index(self.chosen) + 1 if self.chosen in names else 0
            self.chosen = names[at % len(names)]

    def words_of(self, item: OverviewItem) -> str:
        """What is told of a line: of a running one its last words, as far as they were read."""
        return item.words or self._heard.known(item.session)

    def listen(self) -> None:
        """Read the last words of the chosen session."""
        item = self.item()
        self.last_words = self.said_by(item) if item is not None and item.section == RUNNING else []
        for one in self.feed.of(RUNNING)[:_HEARD]:
            self._heard.hear(project=one.project, session=one.session, agent=one.agent)

    def said_by(self, item: OverviewItem) -> list[str]:
        """What a session has said so far, the newest last."""
        app = self.feed.app
        return transcripts.said(app, project=item.project, session=item.session, agent=item.agent)[-_TAIL:]

    def label(self, item: OverviewItem) -> str:
        """The task of a line as its commands name it."""
        return item.address if self.feed.project else item.address.removeprefix(f"{item.project}/")

    def confirm(self, question: str, words: str, run: Callable[[], None]) -> None:
        """Ask for y first; any other key leaves everything as it was."""

        def done(key: str) -> None:
            if key == "y":
                run()
            else:
                self.tell(f"Left as it was: {words}")

        self.prompt = LinePrompt(f"{question} y, any other key leaves it.", done, one_key=True)

    def tell(self, text: str, style: str = "") -> None:
        self.message, self.message_style, self._told_for = text, style, 0

    def age_message(self) -> None:
        """A message makes room for the keys after a while."""
        self._told_for += 1
        if self._told_for > _TOLD:
            self.message = ""


def clean(text: str) -> str:
    """One line that cannot move a cursor: control characters are shown."""
    return shown(text.replace("\t", "    ").replace("\n", " "))


def cut(text: str, room: int) -> str:
    """At most so many columns; what is cut ends in dots."""
    text = clean(text)
    if cell_len(text) <= room:
        return text
    return set_cell_size(text, max(0, room - 3)).rstrip() + "..."[: max(0, room)]


def shorten(name: str, room: int, *, ascii_only: bool) -> str:
    """A name in so many columns: what is left out is its middle, since its end tells it from its neighbours."""
    name = clean(name)
    if cell_len(name) <= room:
        return name
    dots = "..." if ascii_only else "…"
    folder, slash, last = name.rpartition("/")
    if slash and cell_len(last) + len(dots) < room:
        return shorten(folder, room - cell_len(last) - 1, ascii_only=ascii_only) + slash + last
    name = last
    if cell_len(name) <= room:
        return name
    left = max(0, (room - len(dots)) // 3)
    end = name
    while cell_len(end) > max(0, room - len(dots) - left):
        end = end[1:]
    return set_cell_size(name, left) + dots + end


def common_folder(names: list[str]) -> str:
    """What all of several names begin with, up to a slash; it stands once above them."""
    return os.path.commonpath([os.path.dirname(name) for name in (min(names), max(names))]) if len(names) > 1 else ""


def pad(text: str, room: int) -> str:
    """Exactly so many columns."""
    return set_cell_size(text, max(0, room))


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
KEY_NAMES = {"enter": "⏎", "escape": "esc", "pagedown": "PgDn", "pageup": "PgUp"}
ALSO_KEYS = {"j": "down", "k": "up", "g": "home", "G": "end", "pagedown": "space"}


def key_name(key: str, *, ascii_only: bool = False) -> str:
    """A key as it is printed on a keyboard."""
    return "enter" if ascii_only and key == "enter" else KEY_NAMES.get(key, key)

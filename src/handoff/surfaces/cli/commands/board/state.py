"""What the board knows beside the rows: which line is chosen, what is filtered, which page is open, what is being typed."""

from __future__ import annotations

from handoff.base.record import TYPE_CHECKING, Record
from handoff.engine.place import transcripts
from handoff.engine.work.overview import LANDED, NEEDS, NEXT, RUNNING, SECTIONS
from handoff.surfaces.cli.commands.board.keys import GATE, LIST, PAGE
from handoff.surfaces.cli.commands.board.text import common_folder, wrap
from handoff.surfaces.vocabulary import finished_words, fold, matches, wants_ascii

if TYPE_CHECKING:
    from collections.abc import Callable

    from handoff.engine.work.overview import OverviewFeed, OverviewItem

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
    shown: str = ""
    """Its address, without what all lines of its section begin with; of a title that beginning."""


class TextPage:
    """A page of text with a place; it follows its end while it stands there, and otherwise says how much is new."""

    def __init__(
        self, title: str, lines: list[tuple[str, str]], *, follows: bool = False, item: OverviewItem | None = None
    ) -> None:
        self.title, self.lines, self.follows, self.item = title, lines, follows, item
        self.top = len(lines) if follows else 0
        self.laid: list[tuple[str, str]] = []
        self.starts: list[int] = []
        self._laid_for: tuple[list[tuple[str, str]], int] | None = None
        self.files: list[int] = []
        self.answers = False
        self.again: Callable[[], list[tuple[str, str]]] | None = None
        self._seen = len(lines)
        self._height = 1

    @property
    def fresh(self) -> int:
        return len(self.lines) - self._seen if not self.follows and self.again else 0

    def lay(self, width: int) -> None:
        """Wrap the lines to a width."""
        if self._laid_for is not None and self._laid_for[0] is self.lines and self._laid_for[1] == width:
            return
        self._laid_for, self.laid, self.starts = (self.lines, width), [], []
        for text, style in self.lines:
            self.starts.append(len(self.laid))
            self.laid += [(piece, style) for piece in wrap(text, width)]

    def place(self, width: int, height: int) -> int:
        """The first of the wrapped lines that is shown."""
        self.lay(width)
        self._height = max(1, height)
        last = max(0, len(self.laid) - self._height)
        self.top = last if self.follows else max(0, min(self.top, last))
        if self.follows:
            self._seen = len(self.lines)
        return self.top

    def move(self, by: int) -> None:
        self.top = max(0, self.top + by)
        self.follows = bool(self.again) and self.top >= len(self.laid) - self._height

    def page(self, by: int) -> None:
        self.move(by * max(1, self._height - 1))

    def ends(self, *, last: bool) -> None:
        self.top = len(self.laid) if last else 0
        self.follows = last and bool(self.again)


class LinePrompt:
    """A line that is to be typed, and what happens with it."""

    def __init__(self, label: str, done: Callable[[str], None], text: str = "") -> None:
        self.label, self.done, self.text = label, done, text


class BoardState:
    """The board of one project, or of all."""

    def __init__(self, feed: OverviewFeed) -> None:
        self.feed = feed
        self.ascii_only = wants_ascii(feed.app.settings)
        self.chosen = ""
        self.filter = ""
        self.page: TextPage | None = None
        self.prompt: LinePrompt | None = None
        self.typed = ""
        self.confirm: tuple[str, Callable[[], None]] | None = None
        self.message = self.message_style = ""
        self._told_for = 0
        self.live = "live"
        self.rows: list[BoardRow] = []
        self.last_words: list[str] = []
        self._tops: dict[str, int] = {}
        self._heard = transcripts.LastWords(feed.app)
        self.gather()

    @property
    def where(self) -> str:
        if self.page is None:
            return LIST
        return GATE if self.page.answers else PAGE

    def gather(self) -> None:
        """The rows as they are now; the chosen line stays chosen while it is there."""
        before = self.position()
        wanted = self.filter
        self.rows = []
        for section in SECTIONS:
            items = self.feed.of(section)
            if wanted:
                items = [one for one in items if matches(one, wanted)]
            groups = fold(items) if section == NEEDS else [[item] for item in items]
            if groups:
                folder = common_folder([group[0].address for group in groups if group[0].key])
                title = f"{_TITLES[section]} {len(items)}"
                title += f": {finished_words(items)}" if section == LANDED else ""
                self.rows.append(BoardRow(section, title, shown=folder))
                for group in groups:
                    shown = group[0].address.removeprefix(f"{folder}/")
                    shown += f" and {len(group) - 1} more" if len(group) > 1 else ""
                    self.rows.append(BoardRow(section, "", tuple(group), f"{section} {group[0].address}", shown))
        if not any(row.name == self.chosen for row in self.rows if row.items):
            near = self.rows[before : before + 2] if 0 <= before < len(self.rows) else []
            row = next((row for row in (*near, *self.rows) if row.items), None)
            self.chosen = row.name if row else ""

    def position(self) -> int:
        return next((place for place, row in enumerate(self.rows) if row.items and row.name == self.chosen), -1)

    def row(self) -> BoardRow | None:
        at = self.position()
        return self.rows[at] if at >= 0 else None

    def item(self) -> OverviewItem | None:
        row = self.row()
        return row.items[0] if row else None

    def scroll(self, name: str, at: int, height: int, length: int) -> int:
        """Where a list begins, so that the chosen line is seen."""
        top = self._tops.get(name, 0)
        if at >= 0:
            top = min(top, max(0, at - 1))
            top = max(top, at - height + 1)
        self._tops[name] = max(0, min(top, max(0, length - height)))
        return self._tops[name]

    def move(self, by: int) -> None:
        """So many lines on, past the titles."""
        places = [place for place, row in enumerate(self.rows) if row.items]
        if places:
            at = self.position()
            now = places.index(at) if at in places else 0
            self.chosen = self.rows[places[max(0, min(len(places) - 1, now + by))]].name

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

    def tell(self, text: str, style: str = "") -> None:
        self.message, self.message_style, self._told_for = text, style, 0

    def age_message(self) -> None:
        """A message makes room for the keys after a while."""
        self._told_for += 1
        if self._told_for > _TOLD and self.confirm is None:
            self.message = ""

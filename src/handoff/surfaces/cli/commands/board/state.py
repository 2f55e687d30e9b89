"""What the board knows beside the rows: which line is chosen, what is filtered, which page is open, what is being typed."""

from __future__ import annotations

from handoff.base.record import TYPE_CHECKING, Record
from handoff.engine.place import transcripts
from handoff.engine.work.overview import LANDED, NEEDS, NEXT, RUNNING, SECTIONS
from handoff.surfaces.cli.commands.board.keys import GATE, LIST, PAGE
from handoff.surfaces.cli.commands.board.text import common_folder
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

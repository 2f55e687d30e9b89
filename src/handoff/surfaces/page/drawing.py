"""Templates to HTML. Everything is hostile: each value is escaped, and what steers a terminal or a reading order is shown."""

from __future__ import annotations

import os
import re
from functools import cache

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup
from rich.syntax import Syntax

from handoff.agents.contract import ENDINGS
from handoff.base.clock import age, day_of, stamp, time_of_day
from handoff.base.ids import visible
from handoff.base.record import TYPE_CHECKING
from handoff.board.events import wording
from handoff.surfaces.vocabulary import BAR, BAR_STYLES, LOOKS, clock_of, money, tally

if TYPE_CHECKING:
    from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))
_SOON_SECONDS = 60.0
_WHOLE_MINUTES = 10.0


@cache
def _environment() -> Environment:
    found = Environment(
        loader=FileSystemLoader(os.path.join(HERE, "templates")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_visible,
        auto_reload=False,
    )
    found.filters.update(
        stamp=stamp, clock=time_of_day, ago=_ago, dollars=money, tally=tally, bar=_bar, words=wording.details
    )
    found.filters.update(span=clock_of, minutes=_minutes, lasting=age, markdown=_markdown, day=day_of, marked=_marked)
    found.filters.update(happened=wording.name, coloured=_coloured)
    found.globals.update(LOOKS=LOOKS, BAR_STYLES=BAR_STYLES, ENDINGS=ENDINGS)
    return found


def _visible(value: Any) -> Any:
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _ago(seconds: float) -> str:
    """A span in words that do not change from second to second: the browser counts those."""
    return "now" if seconds < _SOON_SECONDS else age(seconds)


@cache
def _reader() -> MarkdownIt:
    """Markdown of agents is hostile: no HTML, no pictures from anywhere, links only to where a browser may go safely."""
    return (
        MarkdownIt("commonmark", {"html": False})
        .enable(["table", "strikethrough"])
        .disable(["image", "html_block", "html_inline"])
    )


def _markdown(text: str) -> Markup:
    return Markup(_reader().render(visible(text)))  # noqa: S704 - it writes no HTML but its own


def _marked(text: str, asked: str) -> Markup:
    """A text in which the words somebody looks for are marked."""
    words = sorted({re.escape(word) for word in re.findall(r"\w+", asked)}, key=len, reverse=True)
    pieces = re.split(f"({'|'.join(words)})", visible(text), flags=re.IGNORECASE) if words else [visible(text)]
    marks = (Markup('<mark class="hit">{}</mark>'), Markup("{}"))
    return Markup("").join(marks[number % 2 == 0].format(piece) for number, piece in enumerate(pieces))


_KINDS = {
    "Keyword": "kw",
    "Literal.String": "st",
    "Literal.Number": "nu",
    "Comment": "co",
    "Name.Function": "fn",
    "Name.Class": "fn",
}


@cache
def _lexer(path: str) -> Any:
    """What knows the words of a file's language; None for a language nobody knows."""
    name = Syntax.guess_lexer(path)
    return None if name in ("default", "text") else Syntax("", name).lexer


def _coloured(text: str, path: str) -> Markup:
    """A line of code in which words of its language are marked."""
    lexer = _lexer(path)
    if lexer is None or not text.strip():
        return Markup("{}").format(visible(text))
    marked, plain, pieces = Markup('<i class="{}">{}</i>'), Markup("{1}"), []
    for token, piece in lexer.get_tokens(text):
        name = str(token).removeprefix("Token.")
        kind = next((mark for known, mark in _KINDS.items() if name.startswith(known)), "")
        pieces.append((marked if kind else plain).format(kind, visible(piece)))
    return Markup(str(Markup("").join(pieces)).rstrip("\n"))  # noqa: S704 - each piece is escaped


def _minutes(amount: float) -> str:
    if not amount:
        return "–"
    return f"{amount:.0f} min" if amount >= _WHOLE_MINUTES else f"{amount:.1f} min"


def _bar(counts: dict[str, int]) -> list[tuple[str, float, float]]:
    """The pieces of a bar of width 100: kind, where it begins, how long it is. Each that is there is seen."""
    there = {kind: counts[kind] for kind in BAR if counts.get(kind, 0) > 0}
    total = sum(there.values())
    shares = {kind: max(2.0, number * 100.0 / total) for kind, number in there.items()}
    scale, at, found = 100.0 / (sum(shares.values()) or 1.0), 0.0, []
    for kind, share in shares.items():
        found.append((kind, round(at, 2), round(share * scale, 2)))
        at += share * scale
    return found


def draw(template: str, **values: Any) -> Markup:
    """A template with its values, as HTML."""
    return Markup(_environment().get_template(template).render(**values))  # noqa: S704 - drawn with every value escaped

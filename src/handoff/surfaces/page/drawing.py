"""Templates to HTML. Everything is hostile: each value is escaped, and what steers a terminal or a reading order is shown."""

from __future__ import annotations

import os
import re
from functools import cache

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup

from handoff.agents.contract import ENDINGS
from handoff.base.clock import age, day_of, stamp, time_of_day
from handoff.base.ids import visible
from handoff.base.record import TYPE_CHECKING
from handoff.surfaces.vocabulary import BAR, BAR_STYLES, LOOKS, clock_of, money, tally

if TYPE_CHECKING:
    from typing import Any

    from handoff.board.events.journal import Event

HERE = os.path.dirname(os.path.abspath(__file__))
_SOON_SECONDS = 60.0
_SENTENCES = ("question", "reason", "summary", "request", "text", "said", "what")
_INWARD = ("gate", "flow", "flow_key", "code", "snapshot", "fence", "key")
"""What only the machinery reads, or what stands beside it already."""
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
    found.filters.update(stamp=stamp, clock=time_of_day, ago=_ago, dollars=money, tally=tally, bar=_bar, words=_words)
    found.filters.update(span=clock_of, minutes=_minutes, lasting=age, markdown=_markdown, day=day_of, marked=_marked)
    found.globals.update(LOOKS=LOOKS, BAR_STYLES=BAR_STYLES, ENDINGS=ENDINGS)
    return found


def _visible(value: Any) -> Any:
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _words(event: Event) -> str:
    """What a line of the journal says besides what happened to whom: sentences as they are, facts with their names."""
    body = {key: value for key, value in event.body.items() if key not in _INWARD}
    said = [str(body.pop(key)) for key in _SENTENCES if isinstance(body.get(key), str) and body[key]]
    if isinstance(body.get("said"), list):
        said += map(str, body.pop("said"))
    if body.get("path") and body.get("line"):
        said.insert(0, f"{body.pop('path')}:{body.pop('line')}")
    facts = [
        f"{key} {value}"
        for key, value in body.items()
        if value not in ("", None) and not isinstance(value, dict | list)
    ]
    return " · ".join([*said, *facts])


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

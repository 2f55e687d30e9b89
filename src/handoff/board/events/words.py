"""Words of texts and of what is asked for: the same on every database, because they are cut here."""

from __future__ import annotations

import re
import unicodedata

from handoff.base.errors import UserError
from handoff.base.record import TYPE_CHECKING, Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# A word is letters and digits. Chinese and Japanese write no blanks: there each character is a word.
_WORD = re.compile(
    "[\u2e80-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]|[^\\W_\u2e80-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]+"
)
_ASKED = re.compile(r'"([^"]*)(?:"|$)|(\S+)')
_LONGEST_WORD = 100
_MOST_ASKED = 32
_SHORTEST_BEGINNING = 2
_SHOWN, _BEFORE = 160, 50
POSITIONS, REPEATED, _VECTOR_BYTES = 16_000, 255, 500_000
"""How many words one row of the index has at most, how often one of them counts, how long they are: the limits of Postgres."""


class Phrase(Record):
    """Words that must stand one after the other; with `begins` the last one may go on."""

    words: tuple[str, ...]
    begins: bool = False


class WordQuery(Record):
    """What somebody looks for: every phrase must be there."""

    phrases: tuple[Phrase, ...]

    def matches(self, words: Sequence[str]) -> bool:
        """Whether all of it is among these words."""
        line = f" {' '.join(words)} "
        return all(f" {' '.join(one.words)}{'' if one.begins else ' '}" in line for one in self.phrases)

    def for_sqlite(self, marks: Iterable[Sequence[str]] = ()) -> str:
        """The same for FTS5; of each of `marks` one must be there too."""
        groups = [" OR ".join(f'"{mark}"' for mark in group) for group in marks if group]
        asked = [f'"{" ".join(one.words)}"{" *" if one.begins else ""}' for one in self.phrases]
        return " AND ".join([*(f"({group})" for group in groups), *asked])

    def for_postgres(self, marks: Iterable[Sequence[str]] = ()) -> str:
        """The same as a tsquery."""
        groups = [" | ".join(f"'{mark}'" for mark in group) for group in marks if group]
        asked = [
            " <-> ".join([f"'{word}'" for word in one.words]) + (":*" if one.begins else "") for one in self.phrases
        ]
        return " & ".join(f"({part})" for part in [*groups, *asked])


def cut(text: str) -> list[str]:
    """The words of a text, in order: small letters, without accents."""
    text = text.lower()
    if not text.isascii():
        text = "".join(sign for sign in unicodedata.normalize("NFKD", text) if not unicodedata.combining(sign))
    return [word[:_LONGEST_WORD] for word in _WORD.findall(text)]


def read_query(text: str) -> WordQuery:
    """What a person asks for: words that must all be there, "words in a row", and begin* for the beginning of a word."""
    phrases = []
    for quoted, bare in _ASKED.findall(text):
        begins = bare.endswith("*") and len(bare) > 1
        words = tuple(cut(quoted or bare))
        if begins and words and len(words[-1]) < _SHORTEST_BEGINNING:
            raise UserError(f"'{bare}' is too short a beginning.", "Give at least two letters before the *.")
        if words:
            phrases.append(Phrase(words, begins))
    if not phrases:
        raise UserError("Say which words to look for.", 'For example: handoff search login "sign-in link"')
    if sum(len(one.words) for one in phrases) > _MOST_ASKED:
        raise UserError(f"Look for at most {_MOST_ASKED} words at once.", "The rarest ones are enough.")
    return WordQuery(tuple(phrases))


def as_vector(words: Sequence[str]) -> str:
    """Words as the text of a tsvector, each with its places."""
    places: dict[str, list[int]] = {}
    size = 0
    for place, word in enumerate(words[:POSITIONS], 1):
        if word not in places:
            size += len(word.encode())
            if size > _VECTOR_BYTES:
                break
        found = places.setdefault(word, [])
        if len(found) < REPEATED:
            found.append(place)
    return " ".join(f"'{word}':{','.join(map(str, found))}" for word, found in places.items())


def excerpt(text: str, query: WordQuery) -> str:
    """The part of a text around the first word that was asked for, in one line."""
    flat = " ".join(text.split())
    low = flat.lower()
    found = [at for one in query.phrases if (at := low.find(one.words[0])) >= 0]
    start = max(0, min(found, default=0) - _BEFORE)
    start = flat.rfind(" ", 0, start) + 1 if start else 0
    part = flat[start : start + _SHOWN]
    return f"{'…' if start else ''}{part}{'…' if start + _SHOWN < len(flat) else ''}"

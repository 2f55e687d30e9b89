"""Small pieces of Markdown that documents are made of, and strict `{{name}}` with sections that may be empty."""

from __future__ import annotations

from handoff.base.errors import ConfigError, UserError
from handoff.base.record import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_OPEN, _CLOSE = "{{", "}}"
_SECTION = "\n## "
_SCREEN = 200
_SUBJECT = 100

BATON_MARK = "<!-- handoff baton: written by handoff, not by a person -->"
"""The first line of every text that handoff gives a session: whoever reads a stored session knows these are not a person's words."""
BATON_END = "<!-- end of the handoff baton -->"
"""Its last line: what comes behind it in the same message is a person's own again."""


def number_of(count: int, noun: str) -> str:
    """A number with its noun: 1 cycle, 2 cycles."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def first_line(name: str, text: str) -> str:
    """A subject: whose it is, and the first line of what was asked for."""
    words = next((line for line in (one.strip("#*- \t\r") for one in text.splitlines()) if line), "")
    line = " ".join(f"{name}: {words}".split()) if words else name
    return line if len(line) <= _SUBJECT else line[: _SUBJECT - 1].rstrip() + "…"


def render(text: str, values: Mapping[str, str]) -> str:
    """Fill in `{{name}}`; a name without a value is an error; a section whose `{{name?}}` is empty is left out."""
    head, *sections = text.split(_SECTION)
    kept = [head, *(section for section in sections if not _is_empty(section, values))]
    filled = _SECTION.join(_fill(part, values).rstrip("\n") + "\n" for part in kept)
    return filled.rstrip("\n") + "\n"


def _is_empty(section: str, values: Mapping[str, str]) -> bool:
    names = (part.partition(_CLOSE)[0] for part in section.split(_OPEN)[1:])
    return any(name.endswith("?") and not _value(name, values) for name in names)


def _fill(text: str, values: Mapping[str, str]) -> str:
    first, *rest = text.split(_OPEN)
    out = [first]
    for part in rest:
        name, found, after = part.partition(_CLOSE)
        if not found:
            raise UserError(f"The template has '{{{{{name[:20]}' without '}}}}'.", "Close the name with '}}'.")
        out.append(_value(name, values))
        out.append(after)
    return "".join(out)


def _value(name: str, values: Mapping[str, str]) -> str:
    key = name.removesuffix("?").strip()
    if key not in values:
        known = ", ".join(sorted(values))
        raise UserError(f"The template asks for '{key}', which nobody fills in.", f"Known names: {known}.")
    return values[key]


def fill(template: str, values: Mapping[str, str], *, where: str) -> str:
    """Replace `{name}` in a word of the settings; an unknown name is an error that says where it stands."""
    out, rest = "", template
    while rest:
        before, opened, after = rest.partition("{")
        out += before
        if not opened:
            break
        name, closed, rest = after.partition("}")
        if not closed or name not in values:
            known = ", ".join(f"{{{key}}}" for key in values)
            raise ConfigError(f"{where}: unknown name {{{name}}}.", f"Known names: {known}.")
        out += values[name]
    return out


def without_batons(text: str) -> str:
    """What is left of a message when the batons in it are cut out; one whose end was cut off reaches to the end."""
    before, *rest = text.split(BATON_MARK)
    return "".join([before, *(part.partition(BATON_END)[2].removeprefix("\n") for part in rest)])


def fenced(text: str, word: str = "") -> str:
    """Text in a code fence longer than any fence inside it."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{word}\n{text}\n{fence}"


def bullets(items: list[str], *, limit: int = 20) -> str:
    """A Markdown list; a long one is cut and says so."""
    lines = [f"- {item}" for item in items[:limit]]
    if len(items) > limit:
        lines.append(f"- and {len(items) - limit} more")
    return "\n".join(lines)


def quoted(word: str) -> str:
    """A word as a shell reads it back."""
    if word and all(c.isalnum() or c in "-_./:=@%+," for c in word) and word.isascii():
        return word
    return "'" + word.replace("'", "'\"'\"'") + "'"


def shell_line(words: Iterable[str]) -> str:
    """Words as one line a shell reads back."""
    return " ".join(map(quoted, words))


def first_sentence(text: str) -> str:
    """The first line of a message; where that only announces a list, the list stands behind it."""
    first, _, rest = text.partition("\n")
    return one_line(text) if first.rstrip().endswith(":") and rest.strip() else first


def end_sentence(text: str) -> str:
    """The text with a full stop, where another sentence comes behind it and it has no end of its own."""
    return text if text.rstrip()[-1:] in ("", *".!?:") else f"{text.rstrip()}."


def one_line(text: str) -> str:
    """Text as one line of a list; a long one is cut and says so."""
    line = " ".join(text.split())
    return line if len(line) <= _SCREEN else line[: _SCREEN - 3] + "..."

"""How single lines of a plan look: headings, code fences, comments, and everything that resembles a box."""

from __future__ import annotations

import re

# Patterns are compiled when a line first needs them (`re` remembers): most plans never do, and start-up counts.
_BREAK = r"\r\n|\n|\r"
ENDS = f"({_BREAK})"
_FENCE = r"[ \t>]*(`{3,}|~{3,})(.*)$"
_WORDS = (
    "(?i:todo|done|wip|pending|current|next|blocked|dropped|doing|open|ok|in progress|skip|skipped|cancelled|canceled)"
)
# An optional chain of quote marks, list marks and emphasis, then something that people use as a box.
_LIKE = (
    r"(?P<lead>(?:[ \t\u00a0\u2003\u3000]|>|[-*+\u2022\u2013\u2014](?=\W)|\(?[0-9a-zA-Z]{1,4}[.)](?=\W)|[*_`~]|#+(?=[ \t]))*)"
    r"(?P<box>\[(?P<in>[^\]\w]{0,3}|[ \u00a0]*[xX\u00d7\u2713\u2714vV][ \u00a0]*|[a-zA-Z]|" + _WORDS + r")\](?![(\[:])"
    r"|\uff3b.{0,2}\uff3d|\( ?[xX]? ?\)|[\u2610\u2611\u2612\u2705\u2b1c\u2b1b\u25fb\u25a1\u2714\u274c\u274e])"
)
_CELL = r"\[(?:[^\]\w]{0,3}|[xX]|" + _WORDS + r")\](?![(\[:])|[\u2610\u2611\u2612]"
_ITEM = r"[ \t]*(?:[-*+]|[0-9]+[.)])[ \t]+\S"
_LEGEND = {
    " ": ("pending", "todo", "to do", "open", "not started", "not done"),
    ">": ("current", "in progress", "active", "now", "being worked"),
    "x": ("done", "complete", "finished"),
    "!": ("blocked",),
    "-": ("dropped",),
}
_EXAMPLES = ("step", "task", "item", "text", "description", "some", "<", "...", "\u2026")
_CHEERS = "\u2705\u2714\u274c\u274e"  # without a list mark before them these decorate prose
_CONFLICT = ("<<<<<<< ", ">>>>>>> ")
# An unticked box anywhere in a line, whatever stands before it: bullets are invented faster than lists of them.
_BLANK = r"[\s_\u00ad\u115f\u2800\u3164\u200b-\u200f\u2060\ufeff]"
_UNTICKED = (
    rf"\\?\[{_BLANK}{{1,9}}\\?\]|(?<![\w\])])\[[>~?/.!-]\](?![(\[:])"
    r"|(?:^|(?<=[^\w\s,;][ \t]))\[\](?=[ \t]+\w)"
    rf"|[\uff3b\u3010\u3014\u27e6]{_BLANK}{{0,9}}[\uff3d\u3011\u3015\u27e7]|(?<!\S)\([ \t]{{1,3}}\)(?!\S)"
    r"|(?<![\w\])])\[(?i:todo|to do|wip|doing|in progress|pending|not done|not started)\](?![(\[:])"
    r"|[\u2610\u2b1c\u25fb\u25fd\u25a1\u25a2\u274f-\u2752\U0001f532\U0001f533]"
    r"|<input\b(?=[^<>]*\bcheckbox\b)(?![^<>]*\bchecked\b)[^<>]*>"
)
_INLINE_CODE = r"(?<!`)(`+)(?!`)(.*?)(?<!`)\1(?!`)"
# A quotation. An attribute's value (`type="checkbox"`) is none, nor what stands between two inches or two apostrophes.
_QUOTED = (
    r"""(?<![\w=])"(?=\S)[^"]*(?<=\S)"(?!\w)|(?<![\w=])'(?=[-*+\d\[\u2610])[^']*(?<=\S)'(?!\w)"""
    r"|[\u201c\u201e][^\u201c\u201d]*[\u201c\u201d]|[\u2018\u201a][^\u2018\u2019]*[\u2018\u2019](?!\w)"
    r"|\u00ab[^\u00bb]*\u00bb|\u300c[^\u300d]*\u300d|\u300e[^\u300f]*\u300f"
)
_EXPLAINED = r"\[([ >xX!-])\][ \t=:\u2013\u2014-]*([A-Za-z]+(?: [a-z]+)?)"

Fault = tuple[str, str]
PLAIN_CHARS = 5
_PLAIN = frozenset(f"{bullet} [{mark}]" for bullet in "-*" for mark in " >x")


def split(text: str) -> list[str]:
    """Lines without their ends; LF, CRLF and lone CR all end a line, nothing else does."""
    if "\r" not in text:
        return text.removeprefix("\ufeff").split("\n")
    return re.split(_BREAK, text.removeprefix("\ufeff"))


def holding(lines: list[str], text: str, words: tuple[str, ...]) -> list[int]:
    """The numbers of the lines that hold one of the words; in a large file without many of them, without a loop."""
    everywhere = 0 if "\r" in text else len(lines) // 20 + 20  # counting line ends below knows one kind only
    found: set[int] = set()
    for word in words:
        number, counted, at, met = 1, 0, text.find(word), 0
        while at >= 0:
            met += 1
            if met > everywhere:
                return [number for number, line in enumerate(lines, 1) if any(word in line for word in words)]
            number += text.count("\n", counted, at)
            found.add(number)
            counted = at
            at = text.find(word, at + len(word))
    return sorted(found)


def take_plain(body: list[str], first: int, marks: list[tuple[int, str, str]]) -> list[tuple[int, str]]:
    """Put the ordinary steps into `marks`, run by run, and return the other lines: a large plan has few of those."""
    heads = [line[:PLAIN_CHARS] for line in body]
    others = [index for index, head in enumerate(heads) if head not in _PLAIN]
    begin = 0
    for index in [*others, len(body)]:
        if begin < index:
            run = [head[3] for head in heads[begin:index]]
            marks.extend(zip(range(first + begin, first + index), run, body[begin:index], strict=True))
        begin = index + 1
    return [(first + index, body[index]) for index in others]


def is_plain(line: str) -> bool:
    """Whether a line begins as steps ordinarily do: at the margin, with one space before the box."""
    return line[:PLAIN_CHARS] in _PLAIN


def heading(lines: list[str], index: int) -> tuple[int, str] | None:
    """(level, title) if the line is a heading; an underlined or bold 'Execution Plan' counts as one too."""
    line = lines[index].strip()
    if line.startswith("#"):
        hashes = len(line) - len(line.lstrip("#"))
        return (hashes, line[hashes:].strip()) if line[hashes:] else None
    below = lines[index + 1].strip() if index + 1 < len(lines) else ""
    if line and below and (not below.strip("=") or (len(below) > 2 and not below.strip("-"))):  # noqa: PLR2004 - a rule has three strokes
        return 9, line
    bare = line.strip("*_: ")
    return (9, bare) if bare.casefold() == "execution plan" else None


class Regions:
    """Closed code fences and comments; an unclosed one covers nothing and is a fault, so that no step hides in it."""

    def __init__(self, text: str, lines: list[str]) -> None:
        self.problems: list[tuple[int, str, str]] = []
        self._covered: set[int] = set()
        if ("`" in text and "```" in text) or ("~" in text and "~~~" in text):  # one character is found far quicker
            self._fences(lines)
        if "<" in text and "<!--" in text:
            self._comments(lines)
        if ("<" in text and "<<<<<<<" in text) or ("\n>" in text and ">>>>>>>" in text):
            self._conflicts(lines)

    def __bool__(self) -> bool:
        return bool(self._covered)

    def covers(self, number: int) -> bool:
        return number in self._covered

    def _fences(self, lines: list[str]) -> None:
        opened, mark = 0, ""
        for number, line in enumerate(lines, 1):
            if "```" not in line and "~~~" not in line:
                continue
            match = re.match(_FENCE, line)
            if match is None:
                continue
            run, info = match.group(1), match.group(2)
            if not opened:
                if run[0] == "`" and "`" in info:
                    continue
                opened, mark = number, run
            elif run[0] == mark[0] and len(run) >= len(mark) and not info.strip():
                self._covered.update(range(opened, number + 1))
                opened = 0
        if opened:
            self.problems.append(
                (opened, "This code fence is never closed.", f"Close it with {mark} below the example.")
            )

    def _comments(self, lines: list[str]) -> None:
        opened = 0
        for number, line in enumerate(lines, 1):
            if number in self._covered:
                continue
            if not opened and "<!--" in line:
                opened = number
                if "-->" in line[line.index("<!--") :]:
                    # Text beside a one-line comment is still read; only a line that is all comment is covered.
                    if line.strip().startswith("<!--") and line.strip().endswith("-->"):
                        self._covered.add(number)
                    opened = 0
            elif opened and "-->" in line:
                self._covered.update(range(opened, number + 1))
                opened = 0
        if opened:
            self.problems.append((opened, "This comment is never closed.", "Close it with -->."))

    def _conflicts(self, lines: list[str]) -> None:
        for number, line in enumerate(lines, 1):
            if line.startswith(_CONFLICT) or line in ("<<<<<<<", ">>>>>>>"):
                self.problems.append(
                    (number, "A merge conflict is left here.", "Resolve it: keep one side, delete the marks.")
                )


# What `init` writes below the heading of a plan. It is known to be no step: compiling the patterns to find that out takes
# longer than all else that is done with a plan.
SCAFFOLD = frozenset(
    (
        "One step a line, `- ` and a box first. The boxes: `[ ]` pending, `[>]` current (one at most), `[x]` done. With a reason:",
        "blocked is `[!]` and `(blocked: why)`, dropped is `[-]` and `(dropped: why)`. A step may carry its proof: `(check: command)`.",
    )
)


def has_box(line: str) -> bool:
    """A quick look: could there be anything like a box?"""
    return "[" in line or "(" in line or "<" in line or not line.isascii()


def is_item(line: str) -> bool:
    return re.match(_ITEM, line) is not None


def step_like(line: str) -> Fault | None:
    """Why a line that resembles a step is not one, and the fix; None for ordinary text and for a box in quotation marks."""
    line = re.sub(_QUOTED, '""', line)
    stripped = line.strip()
    if stripped.startswith(("|", "> |")):
        return (
            ("Steps in a table are not read.", "Write each as its own line: - [ ] text")
            if re.search(_CELL, line)
            else None
        )
    match = re.match(_LIKE, line)
    if match is None:
        return find_open_box(line)
    lead, inside = match.group("lead"), match.group("in")
    bare = not lead.strip()
    if inside is None and bare and match.group("box") in _CHEERS:
        return find_open_box(line)
    if inside is not None and len(inside) == 1 and inside.isalpha() and inside not in "xXvV" and bare:
        return find_open_box(line)
    return _fault_of(lead, inside, match.group("box"))


def find_open_box(line: str) -> Fault | None:
    """The same for a line or a step's words with an open box somewhere inside; a box in inline code or in quotation marks is text."""
    bare = re.sub(f"{_INLINE_CODE}|{_QUOTED}", "", line)
    found = re.search(_UNTICKED, bare)
    if found is None or _explains(bare):
        return None
    fix = "Make it a step of its own: - [ ] text. If it only speaks of a box, put the box in quotation marks."
    return f"An open box '{found[0]}' stands inside this line.", fix


def _explains(line: str) -> bool:
    """Whether every box of a line is followed by the word for it, and there are several: a legend."""
    pairs = re.findall(_EXPLAINED, line)
    right = {mark.lower() for mark, word in pairs if word.casefold().startswith(_LEGEND[mark.lower()])}
    return len(right) > 1 and len(pairs) == line.count("[") and len(right) == len(pairs)


def quoted_box(line: str) -> bool:
    """Whether the box of a step-like line is quoted, as an example would be."""
    match = re.match(_LIKE, line)
    return match is not None and ("`" in match.group("lead") or ">" in match.group("lead"))


def legend_mark(line: str, *, examples: bool = False) -> str:
    """The mark a line explains (`[ ]` pending) or, if `examples`, shows (`[ ]` step); nothing when it does neither."""
    match = re.match(_LIKE, line)
    if match is None or not quoted_box(line):
        return ""
    mark = (match.group("in") or "").lower()
    rest = line[match.end() :].lstrip("`*_ \t=:-\u2013\u2014").casefold()
    known = _LEGEND.get(mark, ("\0",))
    return mark if rest.startswith(known + _EXAMPLES if examples else known) else ""


def _fault_of(lead: str, inside: str | None, box: str) -> Fault:
    plain = "- [ ] text, - [>] text or - [x] text"
    if inside is None:
        return f"'{box}' is not a box that is understood.", f"Write {plain}."
    if inside not in (" ", ">", "x", "X", "!", "-"):
        return f"The box '[{inside}]' is not understood.", f"Write {plain}; [!] and [-] carry a reason."
    if "`" in lead or "**" in lead or "_" in lead:
        return "The box is inside quotes or bold.", f"Write {plain}."
    if ">" in lead:
        return "The step stands in a quotation.", f"Write {plain}, without '>'."
    if "+" in lead or ")" in lead or "\u2022" in lead or "\u2013" in lead or "\u2014" in lead:
        return "This list mark is not understood.", f"Write {plain}."
    if not lead.strip():
        return "The box has no list mark before it.", f"Write {plain}."
    return "The step is not written as it must be.", f"Write {plain}, with one space before the box."


def open_box(line: str) -> bool:
    """Whether a step-like line is not ticked."""
    match = re.match(_LIKE, line)
    if match is None:
        return "|" in line and re.search(_CELL, line) is not None
    inside = match.group("in")
    return inside is None or inside.strip().casefold() not in ("x", "\u2713", "\u2714")


def closing(text: str, start: int) -> int:
    """Where the parenthesis opened at `start` closes; the end of the text if it never does."""
    depth = 0
    for index in range(start, len(text)):
        if text[index] == "(":
            depth += 1
        elif text[index] == ")":
            depth -= 1
            if not depth:
                return index
    return len(text)

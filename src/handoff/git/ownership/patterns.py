"""One ownership pattern: how it is written and read, what it matches, what it can reach. Names are raw bytes."""

from __future__ import annotations

import os

from handoff.base.errors import UserError
from handoff.base.record import TYPE_CHECKING, Record

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator
    from typing import Any


EXACT, PREFIX, GLOB = "exact", "prefix", "glob"
_SPECIAL = b"*?[\\"
_SLASH = 0x2F
_LAST_ASCII = 0x7F
ALL = (1 << 256) - 2  # every byte a name can have: all but NUL
NAME = ALL & ~(1 << _SLASH)
_POSIX = {  # as a set spells them
    b"alpha": b"a-zA-Z",
    b"digit": b"0-9",
    b"alnum": b"a-zA-Z0-9",
    b"upper": b"A-Z",
    b"lower": b"a-z",
    b"xdigit": b"0-9a-fA-F",
    b"space": b" \t\n\r\f\v",
    b"blank": b" \t",
    b"punct": b":-@!-/[-`{-~",
    b"print": b" -~",
    b"graph": b"~!-}",
    b"cntrl": b"\x01-\x1f\x7f",
}


class Fold(Record):
    """Which spellings are one name on this disk: case-only twins, and composed or decomposed accents."""

    case: bool = False
    form: bool = False

    def __call__(self, name: bytes) -> bytes:
        if name.isascii():
            return name.lower() if self.case else name
        if not (self.case or self.form):
            return name
        try:
            text = name.decode("utf-8")
        except UnicodeDecodeError:
            return name.lower() if self.case else name  # bytes.lower touches ASCII letters only
        from unicodedata import normalize

        text = normalize("NFC", text)
        return (normalize("NFC", text.casefold()) if self.case else text).encode("utf-8")


class Star:
    """`*` inside one component."""


class Deep:
    """`**` as a whole component."""


STAR, DEEP = Star(), Deep()


Token = int | Star  # an int is the set of bytes that may stand here, as a 256-bit mask
Part = Deep | bytes | tuple[Token, ...]  # bytes: a component that is spelled out


class Rule(Record):
    """What one pattern means. `path` is the name (exact), the folder with its slash (prefix) or the glob."""

    kind: str
    path: bytes
    pattern: str
    parts: tuple[Part, ...] = ()

    @property
    def base(self) -> bytes:
        """The folder every match lies in: empty, or with its slash."""
        if self.kind == PREFIX:
            return self.path
        if self.kind == EXACT:
            return self.path[: self.path.rfind(b"/") + 1]
        known = b""
        for part in self.parts[:-1]:
            if not isinstance(part, bytes):
                break
            known += part + b"/"
        return known

    @property
    def reach(self) -> bytes:
        """The one file the rule can name, else the folder (with its slash; empty: the top) that all it names lies in."""
        if self.kind == GLOB and isinstance(self.parts[-1], bytes) and self.is_whole:
            return self.base + self.parts[-1]  # its signs are all escaped: it spells one name
        return self.path if self.kind == EXACT else self.base

    @property
    def is_whole(self) -> bool:
        """Whether the rule names all there is at `reach`."""
        *folders, last = self.parts or (b"",)
        return isinstance(last, bytes | Deep) and all(isinstance(part, bytes) for part in folders)


def to_bytes(name: str | bytes) -> bytes:
    """A name as the disk has it."""
    return name if isinstance(name, bytes) else os.fsencode(name)


def written(kind: str, path: str) -> str:
    """The pattern that names this path, folder or glob: signs that mean something are escaped where a name is meant."""
    if kind not in (EXACT, PREFIX, GLOB):
        raise UserError(f"Ownership of '{path}': the type '{kind}' is unknown.", "Use exact, prefix or glob.")
    if kind == GLOB:
        return path
    escaped = "".join("\\" + sign if ord(sign) in _SPECIAL else sign for sign in path)
    escaped = "\\" + escaped if escaped.startswith("!") else escaped
    return escaped if kind == EXACT or escaped.endswith("/") else escaped + "/"


def read(pattern: str | bytes, fold: Fold) -> tuple[bool, tuple[Rule, ...]]:
    """The meaning of one written pattern: whether it excludes, and its rules.

    `dir/` is everything below, `* ? [..]` and `\\` make a glob, anything else is that one path. As with git's
    pathspec, a glob also means the path that is spelled exactly like it: `app/[id]/page.tsx` is that file too.
    """
    raw = to_bytes(pattern)
    shown = os.fsdecode(raw)
    excludes = raw.startswith(b"!")
    body = raw[1:] if excludes else raw
    if body.startswith(b"\\!"):
        body = body[1:]
    folder = body.endswith(b"/")
    plain = _tidy(body, shown)
    spelled = Rule(PREFIX, fold(plain) + b"/", shown) if folder else Rule(EXACT, fold(plain), shown)
    if not any(byte in _SPECIAL for byte in body):
        return excludes, (spelled,)
    return excludes, (spelled, _glob(plain + (b"/**" if folder else b""), fold, shown))


def _tidy(raw: bytes, shown: str) -> bytes:
    """The pattern without doubled slashes; one that could mean something outside the repository is an error."""
    fault = ""
    names = [name for name in raw.split(b"/") if name not in (b"", b".")]
    if raw.startswith(b"/"):
        fault = "it is absolute; write it relative to the top of the repository"
    elif b"\0" in raw:
        fault = "no name can hold a NUL byte"
    elif b".." in names:
        fault = "'..' leads out of what it names"
    elif any(name.lower() == b".git" for name in names):
        fault = "git's own folder belongs to nobody"
    elif not names:
        fault = "it is empty; write '**' for all of the repository"
    if fault:
        raise UserError(f"The ownership pattern '{shown}' cannot be used: {fault}.")
    return b"/".join(names)


# --- globs ----------------------------------------------------------------------------------------


def _glob(body: bytes, fold: Fold, shown: str) -> Rule:
    parts: list[Part] = []
    part: list[Token] = []
    raw_part = bytearray()
    if b"[" not in body and b"\\" not in body and not (fold.case or fold.form):
        parts = [_plain_part(name) for name in body.split(b"/")]
        return Rule(GLOB, body, shown, _merged(parts))
    for token, source in _tokens(Fold(form=fold.form)(body), fold, shown):
        if token == 1 << _SLASH:
            parts.append(_part(part, bytes(raw_part)))
            part, raw_part = [], bytearray()
        else:
            part.append(token)
            raw_part += source
    parts.append(_part(part, bytes(raw_part)))
    return Rule(GLOB, body, shown, _merged(parts))


def _merged(parts: list[Part]) -> tuple[Part, ...]:
    """`**/**` is `**`."""
    return tuple(
        part
        for index, part in enumerate(parts)
        if not (index and isinstance(part, Deep) and isinstance(parts[index - 1], Deep))
    )


def _plain_part(name: bytes) -> Part:
    if b"*" not in name and b"?" not in name:
        return name
    tokens: list[Token] = [STAR if byte == ord("*") else NAME if byte == ord("?") else 1 << byte for byte in name]
    return _part(tokens, name)


def _part(tokens: list[Token], source: bytes) -> Part:
    if len(source) > 1 and not source.strip(b"*"):
        return DEEP
    single: list[Token] = []
    for token in tokens:
        if not (token is STAR and single and single[-1] is STAR):
            single.append(token)
    known = tuple(single)
    return fixed_head(known) if all(_single(token) is not None for token in known) else known


def _tokens(body: bytes, fold: Fold, shown: str) -> list[tuple[Token, bytes]]:
    found: list[tuple[Token, bytes]] = []
    at = 0
    while at < len(body):
        byte = body[at]
        start = at
        at += 1
        if byte == ord("*"):
            found.append((STAR, b"*"))
            continue
        if byte == ord("?"):
            found.append((NAME, b"?"))
            continue
        if byte == ord("["):
            mask, at = _bracket(body, at, shown)
            found.append((_both_cases(mask) if fold.case else mask, body[start:at]))
            continue
        if byte == ord("\\"):
            if at == len(body):
                raise UserError(f"The ownership pattern '{shown}' cannot be used: it ends in a lone backslash.")
            byte = body[at]
            at += 1
        run_end = at
        while fold.case and byte > _LAST_ASCII and run_end < len(body) and body[run_end] > _LAST_ASCII:
            run_end += 1  # letters outside ASCII fold together, not byte by byte
        folded = fold(bytes([byte]) + body[at:run_end])
        at = run_end
        found.extend((1 << one, body[start:at]) for one in folded)
    return found


def _bracket(body: bytes, at: int, shown: str) -> tuple[int, int]:
    """The set a `[...]` names, and where it ends; the slash is never in it."""
    negated = body[at : at + 1] in (b"!", b"^")
    at += negated
    mask = 0
    first = True
    previous = -1
    while True:
        if at >= len(body):
            raise UserError(
                f"The ownership pattern '{shown}' cannot be used: its '[' has no ']'.",
                "Write '\\[' for a bracket that is part of a name.",
            )
        byte = body[at]
        if byte == ord("]") and not first:
            break
        first = False
        at += 1
        if byte == ord("[") and body[at : at + 1] == b":":
            end = body.find(b":]", at + 1)
            name = body[at + 1 : end] if end > 0 else b""
            if name in _POSIX:
                mask |= _bracket(_POSIX[name] + b"]", 0, shown)[0]
                at, previous = end + 2, -1
                continue
        if byte == ord("\\") and at < len(body):
            byte = body[at]
            at += 1
        if byte == ord("-") and previous >= 0 and at < len(body) and body[at] != ord("]"):
            byte = body[at]
            at += 1
            if byte == ord("\\") and at < len(body):
                byte = body[at]
                at += 1
            mask |= sum(1 << one for one in range(previous, byte + 1))
            previous = -1
            continue
        mask |= 1 << byte
        previous = byte
    return (NAME & ~mask if negated else NAME & mask), at + 1


def _both_cases(mask: int) -> int:
    for upper in range(ord("A"), ord("Z") + 1):
        if mask >> upper & 1 or mask >> (upper + 32) & 1:
            mask |= 1 << upper | 1 << (upper + 32)
    return mask


# --- reading a part -------------------------------------------------------------------------------


def fixed_head(part: Part) -> bytes:
    """The bytes every match of the component begins with."""
    if isinstance(part, bytes):
        return part
    known = bytearray()
    for token in () if isinstance(part, Deep) else part:
        byte = _single(token)
        if byte is None:
            break
        known.append(byte)
    return bytes(known)


def fixed_tail(part: Part) -> bytes:
    """The bytes every match of the component ends with."""
    if isinstance(part, bytes):
        return part
    return b"" if isinstance(part, Deep) else fixed_head(part[::-1])[::-1]


def beginning(rule: Rule) -> bytes:
    """The bytes every match of a glob begins with."""
    known = b""
    for part in rule.parts:
        if not isinstance(part, bytes):
            return known + fixed_head(part)
        known += part + b"/"
    return known[:-1]


def ending(rule: Rule) -> bytes:
    """The bytes every match of a glob ends with; spans the folders that are spelled out."""
    end = b""
    for index in range(len(rule.parts) - 1, -1, -1):
        part = rule.parts[index]
        if not isinstance(part, bytes):
            # A leading `**/` also stands for nothing, not even a slash.
            return end[1:] if index == 0 and isinstance(part, Deep) else fixed_tail(part) + end
        end = b"/" + part + end
    return end[1:]


def bases(path: bytes) -> list[bytes]:
    """The folders above `path`, from the top (empty) down."""
    found = [b""]
    at = path.find(b"/")
    while 0 <= at < len(path) - 1:
        found.append(path[: at + 1])
        at = path.find(b"/", at + 1)
    return found


def _single(token: Token) -> int | None:
    if isinstance(token, int) and token and token & (token - 1) == 0:
        return token.bit_length() - 1
    return None


def regex(rule: Rule) -> re.Pattern[bytes]:
    """The rule as a regular expression without blow-up: what is found leftmost is never given back."""
    import re

    blocks: list[list[bytes]] = [[]]
    for part in rule.parts:
        if isinstance(part, Deep):
            blocks.append([])
        else:
            blocks[-1].append(_component(part))
    text = b"/".join(blocks[0])
    if len(blocks) > 1:
        text += b"/" if blocks[0] else b""
        for block in blocks[1:-1]:
            text += rb"(?>(?:[^/]+/)*?" + b"/".join(block) + b"/)" if block else b""
        text += rb"(?:[^/]+/)*" + b"/".join(blocks[-1]) if blocks[-1] else rb".+"
    return re.compile(text + rb"\Z", re.DOTALL)


def _component(part: bytes | tuple[Token, ...]) -> bytes:
    if isinstance(part, bytes):
        return b"".join(b"\\x%02x" % byte for byte in part)
    pieces: list[bytes] = [b""]
    for token in part:
        if isinstance(token, Star):
            pieces.append(b"")
        else:
            pieces[-1] += _one(token)
    if len(pieces) == 1:
        return pieces[0]
    middle = b"".join(rb"(?>[^/]*?" + piece + b")" for piece in pieces[1:-1])
    return pieces[0] + middle + rb"[^/]*" + pieces[-1]


def _one(mask: int) -> bytes:
    if mask == NAME:
        return b"[^/]"
    if mask == 0:
        return b"(?!)"
    members = [byte for byte in range(1, 256) if mask >> byte & 1]
    if len(members) == 1:
        return b"\\x%02x" % members[0]
    return b"[" + b"".join(b"\\x%02x" % byte for byte in members) + b"]"


class GlobIndex:
    """By folder, then by the lengths of the fixed beginning and ending, then by those pieces themselves."""

    def __init__(self) -> None:
        self._folders: dict[bytes, dict[tuple[int, int], dict[tuple[bytes, bytes], list[Any]]]] = {}

    def __bool__(self) -> bool:
        return bool(self._folders)

    def add(self, rule: Rule, value: Any) -> None:
        begin, end = beginning(rule), ending(rule)
        shapes = self._folders.setdefault(rule.base, {})
        shapes.setdefault((len(begin), len(end)), {}).setdefault((begin, end), []).append(value)

    def near(self, path: bytes) -> Iterator[Any]:
        """The globs whose fixed pieces `path` has."""
        for base in bases(path):
            for (head, tail), pieces in self._folders.get(base, {}).items():
                if head <= len(path) >= tail:
                    yield from pieces.get((path[:head], path[len(path) - tail :]), ())

    def reaching(self, folder: bytes) -> Iterator[Any]:
        """The globs of the folders above `folder` (with its slash) that may name something in it."""
        for base in bases(folder):
            for (head, _), pieces in self._folders.get(base, {}).items():
                for (begin, _), values in pieces.items() if head <= len(folder) else ():
                    if folder.startswith(begin):
                        yield from values

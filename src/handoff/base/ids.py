"""Names people type and ids we make."""

from __future__ import annotations

import os

from handoff.base.errors import UserError

_SLUG = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-")
FEATURE_NAME_BYTES = 64
TASK_ID_CHARS = 60
_ID_MIN_CHARS = 2
# What steers a terminal or turns the reading order round: in briefs, reasons, transcripts and names of files it is shown.
# What nobody sees is shown too; the two joiners stay, because scripts and emoji are written with them.
STEERING = (*range(9), *range(11, 32), *range(127, 160), 0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
STEERING += (
    0x180E,
    0x200B,
    0x200E,
    0x200F,
    *range(0x2060, 0x2066),
    *range(0x206A, 0x2070),
    0xFEFF,
    *range(0xE0000, 0xE0080),
)
VISIBLE = {code: f"\\x{code:02x}" if code < 256 else chr(code).encode("unicode_escape").decode() for code in STEERING}  # noqa: PLR2004 - one byte
VISIBLE.update({0xDC00 + code: f"\\x{code:02x}" for code in range(128, 160)})  # bytes that are no text


def check_feature_name(name: str) -> str:
    """Return `name` if it is a feature slug; a path or anything unusual is refused."""
    fault = ""
    if not 1 <= len(name.encode("utf-8", "surrogateescape")) <= FEATURE_NAME_BYTES:
        fault = f"Use a slug (kebab-case), 1-{FEATURE_NAME_BYTES} chars."
    elif name.startswith("-") or name.endswith("-"):
        fault = "Slug cannot start or end with '-'"
    elif not _SLUG.issuperset(name):
        fault = "Use lowercase letters, digits, and '-' only."
    elif "--" in name:
        fault = "Use single '-' separators (no consecutive dashes)."
    if fault:
        suggestion = slug(name)
        hint = f"For example: {suggestion}" if suggestion and suggestion != name else ""
        raise UserError(f"Invalid feature name '{name}'. {fault}", hint)
    return name


def check_id(value: str, what: str) -> str:
    """Return `value` if it may name a task, batch or project."""
    fault = ""
    if not _ID_MIN_CHARS <= len(value) <= TASK_ID_CHARS:
        fault = f"it must have {_ID_MIN_CHARS} to {TASK_ID_CHARS} characters"
    elif not _SLUG.issuperset(value):
        fault = "use lowercase letters, digits and '-' only"
    elif value[0] == "-" or value[-1] == "-":
        fault = "it cannot start or end with '-'"
    if fault:
        suggestion = slug(value)
        hint = f"For example: {suggestion}" if len(suggestion) >= _ID_MIN_CHARS else ""
        if len(suggestion) == 1:
            hint = f"It names a branch, files and log lines, where one letter says too little. For example: {what}-{suggestion}"
        raise UserError(f"'{value}' cannot name a {what}: {fault}.", hint)
    return value


def slug(text: str) -> str:
    """The nearest valid name: `My_Repo` becomes `my-repo`."""
    parts = "".join(c if c in _SLUG else "-" for c in text.lower()).split("-")
    return "-".join(part for part in parts if part)[:TASK_ID_CHARS].strip("-")


def visible(text: str) -> str:
    """Text with its control characters made visible; ends of lines and tabs stay."""
    return text if text.isprintable() else text.translate(VISIBLE).replace("\\x0d\n", "\n")


def on_one_line(name: str) -> str:
    """The name of a file as a list shows it: a newline or a control character in it cannot make a line of its own."""
    return name if name.isprintable() else name.encode("unicode_escape").decode()


def new_id(prefix: str) -> str:
    """A fresh id that nobody else has: `session-3f9c…`."""
    return f"{prefix}-{os.urandom(6).hex()}"

"""Instruction files: a marked block in AGENTS.md, one line where a client reads another file, a skill; clean to remove."""

from __future__ import annotations

import os

from handoff.base import files
from handoff.base.errors import UserError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.git.plumbing import find_top

if TYPE_CHECKING:
    from handoff.engine.app import App

BEGIN, END = "<!-- handoff:begin -->", "<!-- handoff:end -->"
SHIM = "@AGENTS.md <!-- handoff -->"
MAIN, SKILL = "AGENTS.md", ".agents/skills/handoff/SKILL.md"
_SHIMMED = ("CLAUDE.md", "GEMINI.md")
_TEXT = "instructions.md"
_SKILL_TEXT = "skill.md"


class Written(Record):
    """What happened to one file: written, removed or as it was."""

    path: str
    what: str


def write(app: App) -> list[Written]:
    """Bring every file up to date. All are read and understood before the first is written."""
    top = _top()
    changes: dict[str, str] = {}
    main = os.path.join(top, MAIN)
    changes[main] = _with_block(main, _text(main), _packaged(_TEXT).strip())
    for name in _SHIMMED:
        path = os.path.join(top, name)
        if os.path.exists(path) or (name == "GEMINI.md" and os.path.isdir(os.path.join(top, ".gemini"))):
            changes[path] = _with_shim(_text(path))
    changes[os.path.join(top, SKILL)] = _packaged(_SKILL_TEXT)
    del app
    return [_put(top, path, text) for path, text in changes.items()]


def remove(app: App) -> list[Written]:
    """Take out what `write` put in; a file that then is empty was ours and goes."""
    top = _top()
    changes: dict[str, str] = {}
    main = os.path.join(top, MAIN)
    changes[main] = _without_block(main, _text(main))
    for name in _SHIMMED:
        path = os.path.join(top, name)
        changes[path] = _without_shim(_text(path))
    skill = os.path.join(top, SKILL)
    changes[skill] = "" if _text(skill).startswith("---\nname: handoff\n") else _text(skill)
    del app
    return [_put(top, path, text) for path, text in changes.items() if os.path.exists(path)]


def _with_block(path: str, text: str, block: str) -> str:
    whole = f"{BEGIN}\n{block}\n{END}\n"
    begin, end = _bounds(path, text)
    if begin >= 0:
        return text[:begin] + whole.rstrip("\n") + text[end:]
    if not text:
        return whole
    gap = "" if text.endswith("\n\n") else "\n" if text.endswith("\n") else "\n\n"
    return f"{text}{gap}{whole}"


def _without_block(path: str, text: str) -> str:
    begin, end = _bounds(path, text)
    if begin < 0:
        return text
    before, after = text[:begin], text[end:].removeprefix("\n")
    if not after and before.endswith("\n\n"):
        before = before[:-1]  # the gap we put between
    return before + after


def _bounds(path: str, text: str) -> tuple[int, int]:
    """Where our block is; a block without its end, or two of them, is for a person to fix."""
    if text.count(BEGIN) > 1 or text.count(BEGIN) != text.count(END) or text.find(END) < text.find(BEGIN):
        raise UserError(
            f"{path}: the marks {BEGIN} and {END} do not stand as one pair.", "Fix them by hand; nothing was changed."
        )
    if BEGIN not in text:
        return -1, -1
    return text.index(BEGIN), text.index(END) + len(END)


def _with_shim(text: str) -> str:
    if any(line.split()[:1] == ["@AGENTS.md"] for line in text.splitlines()):
        return text
    gap = "" if not text or text.endswith("\n") else "\n"
    return f"{text}{gap}{SHIM}\n"


def _without_shim(text: str) -> str:
    return text.replace(SHIM + "\n", "").replace(SHIM, "")


def _put(top: str, path: str, text: str) -> Written:
    name = os.path.relpath(path, top)
    if _text(path) == text and os.path.exists(path) == bool(text):
        return Written(name, "as it was")
    if not text:
        os.unlink(path)
        folder = os.path.dirname(path)
        while folder.startswith(os.path.join(top, ".agents")) and not os.listdir(folder):
            os.rmdir(folder)
            folder = os.path.dirname(folder)
        return Written(name, "removed")
    files.make_folder(os.path.dirname(path))
    files.write_atomic(os.path.realpath(path), text)
    return Written(name, "written")


def _text(path: str) -> str:
    return files.read_text(path) if os.path.exists(path) else ""


def _packaged(name: str) -> str:
    return files.read_text(os.path.join(os.path.dirname(__file__), name))


def _top() -> str:
    top = find_top(os.getcwd())
    if top is None:
        raise UserError("This is not a git repository.", "Go to your project, or use: handoff -C DIR instructions")
    return top

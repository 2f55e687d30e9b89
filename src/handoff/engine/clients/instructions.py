"""Instruction files: a marked block in AGENTS.md, one line where a client reads another file, skills; clean to remove."""

from __future__ import annotations

import os

from handoff.base import files
from handoff.base.errors import UserError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.engine.clients import pieces
from handoff.engine.clients.pieces import BLOCK, LINE, WHOLE, Piece
from handoff.git.plumbing import find_top

if TYPE_CHECKING:
    from collections.abc import Sequence

    from handoff.engine.app import App

BEGIN, END = "<!-- handoff:begin -->", "<!-- handoff:end -->"
SHIM = "@AGENTS.md <!-- handoff -->"
MAIN, SKILL = "AGENTS.md", "skills/handoff/SKILL.md"
_SHIMMED = {"CLAUDE.md": "", "GEMINI.md": "gemini"}
"""Files that are read instead of AGENTS.md, and the client that reads no other."""
_SKILLED = {".agents": "", ".claude": "claude"}
"""Where skills are looked for, and the client that looks nowhere else."""
_SKILL_HEAD = "---\nname: handoff\n"
_PROJECT = "project"


class Written(Record):
    """What happened to one file: written, removed or as it was."""

    path: str
    what: str


def pieces_for(top: str, agents: Sequence[str] = ()) -> list[Piece]:
    """What the clients that work here really read, as pieces of files."""
    found = [_piece(BLOCK, os.path.join(top, MAIN), "what agents read about handoff", _packaged("md"), "md")]
    for name, client in _SHIMMED.items():
        path = os.path.join(top, name)
        if os.path.exists(path) or (client and (client in agents or os.path.isdir(os.path.join(top, f".{client}")))):
            found.append(_piece(LINE, path, "a line that points to AGENTS.md", SHIM))
    for folder, client in _SKILLED.items():
        if not client or client in agents or os.path.isdir(os.path.join(top, folder)):
            path = os.path.join(top, folder, SKILL)
            found.append(_piece(WHOLE, path, "a skill: which command when", _packaged("skill"), _SKILL_HEAD))
    return found


def _piece(kind: str, path: str, what: str, detail: str, key: str = "") -> Piece:
    return Piece(kind=kind, path=path, scope=_PROJECT, what=what, detail=detail, key=key)


def write(app: App) -> list[Written]:
    """Bring every file up to date. All are read and understood before the first is written."""
    del app
    top = _top()
    changes = {}
    for piece in pieces_for(top):
        edited = pieces.put(piece, _text(piece.path))
        if edited.left:
            raise UserError(f"{piece.path}: {edited.left}.", "Move it away; nothing was changed.")
        changes[piece.path] = edited.text
    return [_put(top, path, text) for path, text in changes.items()]


def remove(app: App) -> list[Written]:
    """Take out what `write` put in; a file that then is empty was ours and goes."""
    del app
    top = _top()
    main = os.path.join(top, MAIN)
    changes = {main: _without_block(main, _text(main))}
    for name in _SHIMMED:
        path = os.path.join(top, name)
        changes[path] = _text(path).replace(SHIM + "\n", "").replace(SHIM, "")
    for folder in _SKILLED:
        skill = os.path.join(top, folder, SKILL)
        changes[skill] = "" if _text(skill).startswith(_SKILL_HEAD) else _text(skill)
    return [_put(top, path, text) for path, text in changes.items() if os.path.exists(path)]


def _without_block(path: str, text: str) -> str:
    begin, end = pieces.bounds(path, text, BEGIN, END)
    ours = text[begin + len(BEGIN) : end - len(END)] if begin >= 0 else ""
    return pieces.take(_piece(BLOCK, path, "", ours, "md"), text).text


def _put(top: str, path: str, text: str) -> Written:
    name = os.path.relpath(path, top)
    if _text(path) == text and os.path.exists(path) == bool(text):
        return Written(name, "as it was")
    if not text:
        os.unlink(path)
        folder = os.path.dirname(path)
        while "skills" in os.path.relpath(folder, top).split(os.sep) and not os.listdir(folder):
            os.rmdir(folder)
            folder = os.path.dirname(folder)
        if os.path.basename(folder) in _SKILLED and not os.listdir(folder):
            os.rmdir(folder)
        return Written(name, "removed")
    files.make_folder(os.path.dirname(path))
    files.write_atomic(os.path.realpath(path), text)
    return Written(name, "written")


def _text(path: str) -> str:
    return files.read_text(path) if os.path.exists(path) else ""


def _packaged(what: str) -> str:
    name = {"md": "instructions.md", "skill": "skill.md"}[what]
    return files.read_text(os.path.join(os.path.dirname(__file__), name))


def _top() -> str:
    top = find_top(os.getcwd())
    if top is None:
        raise UserError("This is not a git repository.", "Go to your project, or use: handoff -C DIR …")
    return top

"""Instruction files: a marked block in AGENTS.md, one line where a client reads another file, skills."""

from __future__ import annotations

import os

from handoff.base import files
from handoff.base.record import TYPE_CHECKING
from handoff.engine.clients.pieces import BLOCK, LINE, WHOLE, Piece

if TYPE_CHECKING:
    from collections.abc import Sequence

SHIM = "@AGENTS.md <!-- handoff -->"
MAIN, SKILL = "AGENTS.md", "skills/handoff/SKILL.md"
_SHIMMED = {"CLAUDE.md": "", "GEMINI.md": "gemini"}
"""Files that are read instead of AGENTS.md, and the client that reads no other."""
_SKILLED = {".agents": "", ".claude": "claude"}
"""Where skills are looked for, and the client that looks nowhere else."""
_PROJECT = "project"


def pieces_for(top: str, agents: Sequence[str] = ()) -> list[Piece]:
    """What the clients that work here really read, as pieces of files."""
    found = [_piece(BLOCK, os.path.join(top, MAIN), "what agents read about handoff", _packaged("instructions.md"))]
    for name, client in _SHIMMED.items():
        path = os.path.join(top, name)
        if os.path.exists(path) or (client and (client in agents or os.path.isdir(os.path.join(top, f".{client}")))):
            found.append(_piece(LINE, path, "a line that points to AGENTS.md", SHIM))
    for folder, client in _SKILLED.items():
        if not client or client in agents or os.path.isdir(os.path.join(top, folder)):
            path = os.path.join(top, folder, SKILL)
            found.append(_piece(WHOLE, path, "a skill: which command when", _packaged("skill.md")))
    return found


def _piece(kind: str, path: str, what: str, detail: str) -> Piece:
    return Piece(kind=kind, path=path, scope=_PROJECT, what=what, detail=detail, key="" if kind == LINE else "md")


def _packaged(name: str) -> str:
    return files.read_text(os.path.join(os.path.dirname(__file__), name))

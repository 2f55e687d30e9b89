"""What a feature's documents say that every session must know: its rules and decisions first, then its goal."""

from __future__ import annotations

import os

from handoff.base.files import read_text
from handoff.base.settings import PROJECT_FOLDER
from handoff.feature import excerpts
from handoff.feature.baton import PromptPart, block, rules_in

_MOST_BYTES, _DECISIONS = 1_000_000, 20


def of_feature(root: str, name: str) -> tuple[list[str], list[PromptPart]]:
    """The rules and the goal of a feature, for a session that does one step of it in a place of its own."""
    where = os.path.join(PROJECT_FOLDER, "features", name)
    texts = {
        document: _text(os.path.join(root, where, document))
        for document in ("FEATURE.md", "SESSION.md", "DECISIONS.md")
    }
    rules, goal = rules_and_goal(texts["FEATURE.md"], texts["SESSION.md"], texts["DECISIONS.md"])
    return rules, [goal_part(goal, f"{where}/FEATURE.md", f"The feature `{name}`")]


def _text(path: str) -> str:
    plain = os.path.isfile(path) and not os.path.islink(path) and os.path.getsize(path) <= _MOST_BYTES
    return read_text(path) if plain else ""


def rules_and_goal(feature: str, session: str, decisions: str) -> tuple[list[str], str]:
    """The constraints of FEATURE.md, the rules among the notes and the decisions; and what is left of FEATURE.md, the goal first."""
    constraints, goal = excerpts.split_goal(feature)
    return [*constraints, *rules_in(session), *decisions_in(decisions)], goal


def decisions_in(text: str) -> list[str]:
    """The newest decisions, each with its reason on one line."""
    found: list[str] = []
    for line in text.splitlines():
        if line.startswith("- "):
            found.append(line[2:].strip())
        elif found and line.startswith(" ") and line.strip():
            found[-1] += " " + line.strip()
    return [f"Decided {one.replace(' Because: ', '. Because: ', 1)}" for one in reversed(found[-_DECISIONS:])]


def goal_part(goal: str, path: str, title: str = "Goal") -> PromptPart:
    """The goal as a block; where it must be cut, the sections that are missing are named."""
    part = block(title, goal, 1, path, 0.35)
    return part._replace(shrink=lambda room: excerpts.cut_goal(goal, room, path))

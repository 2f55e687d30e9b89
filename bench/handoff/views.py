"""What else a successor could be given: the repository, the raw transcript, a HANDOFF.md, the Rust tool's prompt with its documents.

The two documents are written by a program that knows the key, so they are as good as such a document can be: they hold every fact that
was known when they were written. What they cannot hold is what came after, because nobody announces a cut.
"""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING, Any

from bench.handoff.journey import todo_of
from bench.handoff.scoring import fit
from handoff.base.files import read_text

if TYPE_CHECKING:
    from bench.handoff.play import Played

OURS = "handoff"
VIEWS = (OURS, "repository only", "end of the raw transcript", "HANDOFF.md", "Rust tool")


def view(name: str, played: Played, budget: int) -> str:
    """What the successor reads, cut to the budget."""
    if name == OURS:
        return fit(played.texts[budget], budget)
    if name == "repository only":
        return fit(_repository(played), budget)
    if name == "end of the raw transcript":
        return fit(played.transcript, budget, tail=True)
    return fit(_handoff_md(played) if name == "HANDOFF.md" else _rust(played), budget)


def _git(folder: str, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=False).stdout


def _repository(played: Played) -> str:
    """What every client looks at by itself."""
    text = read_text(agents) if os.path.exists(agents := os.path.join(played.folder, "AGENTS.md")) else ""
    text += f"$ git log --oneline -5\n{_git(played.folder, 'log', '--oneline', '-5')}"
    text += f"$ git status --short\n{_git(played.folder, 'status', '--short')}"
    return text + f"$ git diff HEAD\n{_git(played.folder, 'diff', 'HEAD')}"


def _said(acts: list[dict[str, Any]], kind: str) -> str:
    return "".join(f"- {act['say']}\n" for act in acts if kind in act and "say" in act)


def _files(acts: list[dict[str, Any]]) -> str:
    """Paths as a writer remembers them: what was done to each last."""
    words = {"write": "new", "append": "changed", "replace": "changed", "delete": "deleted"}
    found: dict[str, str] = {}
    for act in acts:
        for verb, how in words.items():
            if verb in act and not (how == "changed" and found.get(act[verb]) == "new"):
                found[act[verb]] = how
    return "".join(f"- {path}: {how}\n" for path, how in found.items())


def _following(acts: list[dict[str, Any]]) -> str:
    said = [act["say"] for act in acts if "next" in act]
    steps = "".join(f"- {step}\n" for step in todo_of(acts))
    return (f"- {said[-1]}\n" if said else "") + steps


def _handoff_md(played: Played) -> str:
    """The five sections that the common skills ask for, written when two thirds of the session were over."""
    acts = played.acts[: len(played.acts) * 2 // 3]
    goal = next(act["person"] for act in acts if "person" in act)
    return (
        f"# Handoff\n\n## Goal\n{goal}\n\n## Current progress\n{_files(acts)}\n## What worked\n{_said(acts, 'decision')}\n"
        f"## What didn't work\n{_said(acts, 'dead')}\n## Next steps\n{_following(acts)}"
    )


def _rust(played: Played) -> str:
    """Its continuation prompt holds no state; it orders to read documents that the assistant brought up to date after each step."""
    updated = max(
        (number for number, act in enumerate(played.acts) if any(one[:3] == "[x]" for one in act.get("todo", ()))),
        default=0,
    )
    acts = played.acts[: updated + 1]
    people = [act["person"] for act in acts if "person" in act]
    return (
        "Continue the feature from its documents. Read, in this order: AGENTS.md, README.md, FEATURE.md, SPEC.md, DESIGN.md, STATE.md,"
        " SESSION.md of .handoff/current. Go on with the last unfinished step, do not make the plan anew, work on one step at a time,"
        " keep the marks of the plan, and after each step bring STATE.md and SESSION.md up to date. Stop when you are blocked or no step"
        " is left. When several ways are open, list them, choose by FEATURE.md and say what you assume. Before your context ends"
        f" write SESSION.md.\n\n# FEATURE.md\n{people[0]}\n\nConstraints:\n" + "".join(f"- {one}\n" for one in people[1:]) +
        f"\n# STATE.md\n{''.join(f'- {step}{chr(10)}' for step in todo_of(acts))}\n# SESSION.md\nImplemented:\n{_files(acts)}"
        f"Critical context:\n{_said(acts, 'decision')}{_said(acts, 'environment')}Next micro-step:\n{_following(acts)}"
    )  # fmt: skip

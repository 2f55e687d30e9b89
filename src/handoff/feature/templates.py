"""The text an assistant reads: packaged templates, the project's own versions of them, and the blocks that templates share."""

from __future__ import annotations

import os
import re

from handoff.base import files
from handoff.base.errors import UserError
from handoff.base.placeholders import fill
from handoff.base.record import TYPE_CHECKING, Record
from handoff.feature.folder import DOCUMENTS, MISSING, READY, SCAFFOLD, UNWRITTEN_SENTINEL, Feature, HandoffFolder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

KINDS = ("generate", "start", "spec", "design", "tasks", "continue", "context")
NAMES = (
    *(f"default_{kind}.md" for kind in ("feature", "spec", "design", "state", "session")),
    *(f"default_{kind}_prompt.md" for kind in KINDS),
)
STATE_FIELD = "handoff_state"
_STAMP = "<!-- handoff template "


class Template(Record):
    """A template's text, and the file it came from when the project has its own."""

    name: str
    text: str
    path: str = ""


def packaged_template(name: str) -> str:
    """The text this version brings."""
    return files.read_text(os.path.join(os.path.dirname(__file__), "templates", name))


def load(name: str, workspace: HandoffFolder | None, warn: Callable[[str], None]) -> Template:
    """The project's own version where there is a usable one, else ours; an unusable one is said aloud."""
    path = os.path.join(workspace.templates, name) if workspace is not None else ""
    if path and os.path.isfile(path):
        try:
            text = without_stamp(files.read_text(path))
        except UserError as error:
            warn(f"failed to read override template {path}: {error.message} The packaged one is used.")
        else:
            if text.strip():
                return Template(name, text, path)
            warn(f"the override template {path} is empty. The packaged one is used.")
    return Template(name, packaged_template(name))


def render(template: Template, values: Mapping[str, str], warn: Callable[[str], None]) -> str:
    """Fill the placeholders; a name that is not ours in a person's own template stays as it is, and is told."""
    text = fill(template.text, values, where=template.path or template.name, warn=warn if template.path else None)
    if template.path and STATE_FIELD in values and values[STATE_FIELD] not in text:
        # An override written before the state was carried along still gets it, at the end.
        text = f"{text.rstrip()}\n\n{values[STATE_FIELD]}\n"
    return re.sub(r"\n{3,}", "\n\n", text)


def stamp(name: str, version: str) -> str:
    """The first line of an exported template: which version it was copied from."""
    return f"{_STAMP}{name} {version} -->\n"


def stamped_version(text: str) -> str:
    """The version in an exported template's first line; empty when it has none."""
    if not text.startswith(_STAMP):
        return ""
    return text[len(_STAMP) :].partition(" -->")[0].rpartition(" ")[2]


def without_stamp(text: str) -> str:
    return text.partition("\n")[2] if text.startswith(_STAMP) else text


_SOURCES = (
    "README.md AGENTS.md CLAUDE.md docs/ Cargo.toml package.json pyproject.toml go.mod Makefile "
    ".github/workflows/ src/ tests/"
).split()
_ADVISED, _OPTIONAL = ("README.md", "AGENTS.md"), ("docs/",)
_MARKS = (
    "Write one step a line: `- [ ] text` pending, `- [>] text` current (exactly one), `- [x] text` done, "
    "`- [!] text  (blocked: why)`, `- [-] text  (dropped: why)`. Nothing else counts as a step: no tables, no `+`, "
    "no `1)`, no headings with `# ` inside the plan."
)


def language(name: str) -> str:
    """In which language the documents are written."""
    return (
        "## Language\n"
        f"- Write the prose of the documents in {name}.\n"
        "- Code, identifiers, paths, commands and settings stay as the project writes them.\n"
        "- The headings of STATE.md stay in English: Current Step, Execution Plan, Completed Steps, Remaining Steps, "
        "Known Issues, Risks, Architectural Notes, Drift Warnings. The boxes are never translated."
    )


def repository_language(name: str) -> str:
    """For documents of the repository itself."""
    return (
        "## Language\n"
        f"- Write in {name}, unless the repository's documents are in another language: then follow them.\n"
        "- Code, identifiers, paths and commands stay as they are."
    )


def present_sources(root: str) -> list[str]:
    """What the repository already tells a newcomer, in reading order."""
    return [
        name for name in _SOURCES if (os.path.isdir if name.endswith("/") else os.path.isfile)(os.path.join(root, name))
    ]


def missing_sources(root: str) -> tuple[list[str], list[str]]:
    """(worth having, nice to have) among the sources that are absent."""
    wanted = [name for name in _ADVISED if not os.path.isfile(os.path.join(root, name))]
    return wanted, [name for name in _OPTIONAL if not os.path.isdir(os.path.join(root, name))]


def generated_lines() -> set[str]:
    """The lines that `init` writes into the scaffold about the repository; nobody's own words."""
    names = [*_SOURCES, *_ADVISED, *_OPTIONAL]
    return {"- nothing", *(f"- {name}" for name in names), *(f"- {name} (optional)" for name in names)}


def bullets(items: list[str], *, none: str = "- nothing") -> str:
    return "\n".join(f"- {item}" for item in items) or none


def reading_list(root: str, feature: Feature, documents: tuple[str, ...], extra: list[str]) -> str:
    """Paths from the project's top, in the order to read them."""
    folder = os.path.relpath(feature.path, root)
    names = [name for name in ("AGENTS.md", "README.md") if os.path.isfile(os.path.join(root, name))]
    names += [name for name in extra if name not in names]
    names += [f"{folder}/{name}" for name in documents if feature.has(name)]
    return bullets([f"`{name}`" for name in names])


def artifact_status(readiness: dict[str, str]) -> str:
    """One line a document."""
    return bullets([f"{name}: {readiness[name]}" for name in DOCUMENTS if name in readiness])


def planning_rules() -> str:
    return f"## How the plan is written\n{_MARKS}\nA step may carry its proof: `(check: command)`."


def is_unplanned(readiness: dict[str, str]) -> bool:
    """Whether there is no plan to carry out yet."""
    return readiness.get("STATE.md") in (MISSING, SCAFFOLD)


def start_mode(readiness: dict[str, str]) -> str:
    """What a starting session is for, by what is there already."""
    if not is_unplanned(readiness):
        return (
            "The plan is made. This session carries it out, beginning with the current step. Carry it out as it is; plan "
            "again only where it contradicts the code, and say so first."
        )
    if readiness.get("SPEC.md") == READY:
        return "The spec is written, the plan is not. This session makes the plan from the spec, then carries it out."
    return "Nothing is planned yet. This session makes the plan first, then carries it out: one session, two parts."


def planning_steps(folder: str, readiness: dict[str, str]) -> str:
    """What a starting session does first: it makes the documents that are missing, if any."""
    if not is_unplanned(readiness):
        return ""
    written = [name for name in ("SPEC.md", "DESIGN.md") if readiness.get(name) == READY]
    steps = ["Read FEATURE.md: it is the person's wish. Keep its intent, do not edit it."]
    if written:
        there = (
            "is there: it is the truth, do not write it"
            if len(written) == 1
            else "are there: they are the truth, do not write them"
        )
        steps.append(f"{' and '.join(written)} {there} anew.")
    if "SPEC.md" not in written:
        steps.append(
            f"Write `{folder}/SPEC.md`: what must be true, each requirement numbered and testable. What FEATURE.md leaves "
            "open goes under *Open Questions*, with the assumption you go on with."
        )
    if "DESIGN.md" not in written:
        steps.append(
            f"Write `{folder}/DESIGN.md` when the change touches more than one part of the system; otherwise one sentence "
            "there saying why none is needed."
        )
    instead = f", in place of `{UNWRITTEN_SENTINEL}`" if readiness["STATE.md"] != MISSING else ""
    steps.append(
        f"Write the plan in `{folder}/STATE.md` below the heading `# Execution Plan`{instead}: small steps, each done in one "
        "sitting and leaving the project working; `[>]` on the first."
    )
    steps.append(
        "Then go on with part two at once. Stop here only for a question that nobody but the person can answer."
    )
    made = "\n".join(f"{number}. {step}" for number, step in enumerate(steps, 1))
    return f"{made}\n\n{_MARKS} A step may carry its proof: `(check: command)`."


def starting_rules(folder: str, program: str, readiness: dict[str, str], *, chat: bool = False) -> str:
    """What a starting session does: it makes the documents that are missing, if any, and then works."""
    work, made = working_rules(folder, program, chat=chat), planning_steps(folder, readiness)
    return f"### Part one: make what is missing\n{made}\n\n### Part two: carry the plan out\n{work}" if made else work


def working_rules(folder: str, program: str, *, chat: bool = False) -> str:
    """What a working session does after each step, and before it ends."""
    return (
        f"{step_rules(folder, program, chat=chat)}\n\n## Rules\n{LIMITS}\n\n"
        f"## Before you stop, for any reason\n{stopping_rules(folder, program, chat=chat)}"
    )


def step_rules(folder: str, program: str, *, chat: bool = False) -> str:
    """How a step is done and proven: with our commands, or by hand where a chat window has none."""
    prove = (
        f"Prove it: run the check or the tests, then edit `{folder}/STATE.md`: `[x]` on the step, `[>]` on the next. {_MARKS}"
        if chat
        else f"Prove it: `{program} step done` runs the step's check, ticks the box with the commit, and moves `[>]` on. It"
        " refuses on red: fix the cause, never the check."
    )
    stuck = "mark the step `[!]` with `(blocked: why)`" if chat else f"`{program} step block 'why'`"
    return (
        "1. Do the current step and nothing else. One step at a time.\n"
        f"2. {prove}\n"
        "3. Commit only the files this step needed.\n"
        f"4. Go on with the next step until the plan is done or you are stuck. Stuck means: {stuck}, and stop."
    )


LIMITS = (
    "- Follow the patterns of the code that is there; keep its behaviour unless the step says otherwise.\n"
    "- Fix causes, not symptoms. No error is swallowed, no test is weakened, skipped or removed to get green.\n"
    "- No unrelated refactoring, no dependency upgrades, no new architecture.\n"
    "- Report only results you saw. Where you must assume, say so in SESSION.md."
)


def stopping_rules(folder: str, program: str, *, chat: bool = False) -> str:
    """What must be true when a session stops, for whoever goes on."""
    session = (
        f"- Rewrite `{folder}/SESSION.md`: what was implemented, what is in progress, the next micro-step, what the next session"
        " must know, open questions."
    )
    if chat:
        return (
            f"- `{folder}/STATE.md` tells the truth: what is done, which step is current, new risks.\n{session}\n"
            f"- Decisions go to `{folder}/DECISIONS.md`, each with its reason.\n"
            "- If you cannot write these files, print their new text for the person."
        )
    return (
        f"- `{folder}/STATE.md` tells the truth: new risks and known issues stand there.\n{session}\n"
        f"- As you learn it: `{program} note 'Next: …'` or `'Dead end: …'`, and `{program} decide 'WHAT' --because 'WHY'`."
    )

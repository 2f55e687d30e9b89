"""What the five documents say about themselves: scaffold or real content, and their sections."""

from __future__ import annotations

from handoff.base.record import Record
from handoff.feature.plan.lines import split

FEATURE_SENTINEL = "Describe the concrete objective of this feature."
UNWRITTEN_SENTINEL = "Not yet generated."
SESSION_SENTINEL = "None yet."
_TITLES = ("spec", "design", "session", "state", "decisions")
READY, REVIEW, SCAFFOLD, MISSING = "ready", "needs review", "scaffolded", "missing"


class Section(Record):
    """A heading with the text below it."""

    title: str
    level: int
    text: str


def readiness(name: str, text: str | None) -> str:
    """Whether a document (not STATE.md) still is the scaffold."""
    if text is None:
        return MISSING
    if name == "FEATURE.md":
        return REVIEW if _stands(text, FEATURE_SENTINEL) else READY
    if name == "SESSION.md":
        return REVIEW if _stands(_session_part(text), SESSION_SENTINEL) else READY
    return SCAFFOLD if _stands(text, UNWRITTEN_SENTINEL) else READY


def _session_part(text: str) -> str:
    """`None yet.` counts below 'What Was Implemented'; under other headings it may be the truth."""
    for section in sections(text):
        if section.title.casefold() == "what was implemented":
            return section.text
    return text


def _stands(text: str, sentinel: str) -> bool:
    """The scaffold's sentence on a line of its own; a sentence that quotes it does not count."""
    if sentinel not in text:
        return False
    return any(line.strip().lstrip("-*>0123456789.R ").rstrip() == sentinel for line in split(text) if sentinel in line)


def sections(text: str) -> list[Section]:
    """Cut a document at its headings; what stands above the first one has no title. Fences are respected."""
    found: list[Section] = []
    title, level = "", 0
    body: list[str] = []
    fence = ""
    for line in split(text):
        stripped = line.lstrip()
        if stripped.startswith(("```", "~~~")):
            mark = stripped[:3]
            fence = "" if fence == mark else fence or mark
        hashes = len(stripped) - len(stripped.lstrip("#"))
        if not fence and 0 < hashes < 7 and stripped[hashes : hashes + 1] in (" ", "\t"):  # noqa: PLR2004 - six levels
            found.append(Section(title, level, "\n".join(body).strip("\n")))
            title, level, body = stripped[hashes:].strip().rstrip("#").strip(), hashes, []
        else:
            body.append(line)
    found.append(Section(title, level, "\n".join(body).strip("\n")))
    return [section for section in found if section.title or section.text.strip()]


def nested(text: str) -> str:
    """A document to stand inside another: its own title dropped, its headings below ours."""
    shown = []
    for part in sections(text):
        title = "" if part.level == 1 and part.title.casefold() in _TITLES else part.title
        if part.text.strip():
            shown.append(f"### {title}\n{part.text}" if title else part.text)
    return "\n\n".join(part.strip("\n") for part in shown).strip()


def body_of(text: str, title: str) -> str:
    """The text below the first heading of that name, sub-headings included."""
    parts: list[str] = []
    inside = 0
    for section in sections(text):
        if inside and section.level <= inside:
            break
        if inside:
            parts.append(f"{'#' * section.level} {section.title}\n{section.text}".rstrip())
        elif section.title.casefold() == title.casefold():
            inside = section.level
            parts.append(section.text)
    return "\n\n".join(part for part in parts if part.strip()).strip()

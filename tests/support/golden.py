"""Golden copies of texts: what differs from run to run is replaced, a change shows as a diff and is accepted by hand."""

from __future__ import annotations

import difflib
import os
import re
import sys

FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "journeys", "golden")


def plain(text: str, **names: str) -> str:
    """The text without what is another in each run; `names` are words that stand for folders."""
    for name, path in sorted(names.items(), key=lambda item: -len(item[1])):
        text = text.replace(path, name.upper())
    text = text.replace(sys.executable, "python")
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME", text)
    for number, session in enumerate(dict.fromkeys(re.findall(r"session-[0-9a-f]{12}", text)), 1):
        text = text.replace(session, f"SESSION-{number}")
    text = re.sub(r"\b[0-9a-f]{7,40}(\.\.[0-9a-f]{7,40})?\b(?= |`|$|\n|,|\.|\))", "COMMIT", text)
    text = re.sub(r"(?<=TIME, )\d+ (?:s|min)", "N s", text)
    return re.sub(r"\bin \d+\.\d+s\b", "in N s", text)


def difference(name: str, text: str, new: str) -> str:
    """How the text differs from its golden copy; then it is left in the folder `new`, to be read and copied."""
    kept, place = "", os.path.join(FOLDER, f"{name}.md")
    if os.path.exists(place):
        with open(place, encoding="utf-8") as file:
            kept = file.read()
    if kept == text:
        return ""
    os.makedirs(new, exist_ok=True)
    with open(os.path.join(new, f"{name}.md"), "w", encoding="utf-8") as file:
        file.write(text)
    return "\n".join(
        difflib.unified_diff(kept.splitlines(), text.splitlines(), f"golden/{name}.md", "now", lineterm="")
    )

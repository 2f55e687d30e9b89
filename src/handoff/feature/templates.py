"""The words an assistant reads: packaged templates, the project's own versions of them, strict placeholders."""

from __future__ import annotations

import os
import re

from handoff.base import files
from handoff.base.errors import UserError
from handoff.base.placeholders import fill
from handoff.base.record import TYPE_CHECKING, Record

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from handoff.feature.folder import HandoffFolder

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

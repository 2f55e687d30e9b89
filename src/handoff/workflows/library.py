"""Where workflows are: ours in the package, a project's own in .handoff/workflows/, which win by name."""

from __future__ import annotations

import os

from handoff.base import files
from handoff.base.errors import UserError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.workflows import reader

if TYPE_CHECKING:
    from handoff.workflows.model import Workflow

OWN = os.path.join(".handoff", "workflows")
_HERE = os.path.dirname(__file__)
PACKAGED = os.path.join(_HERE, "packaged")
_PROMPTS = os.path.join(_HERE, "prompts")


class WorkflowFile(Record):
    """A workflow's file."""

    name: str
    path: str
    packaged: bool


def listing(root: str) -> list[WorkflowFile]:
    """Every workflow a project can name, its own first."""
    found: dict[str, WorkflowFile] = {}
    for folder, packaged in ((os.path.join(root, OWN), False), (PACKAGED, True)):
        names = sorted(os.listdir(folder), key=lambda file: file.removesuffix(".toml")) if os.path.isdir(folder) else []
        for file in names:
            name = file.removesuffix(".toml")
            if file.endswith(".toml") and name not in found:
                found[name] = WorkflowFile(name, os.path.join(folder, file), packaged)
    return list(found.values())


def find(root: str, name: str) -> WorkflowFile:
    """The workflow of that name, or the file if it is a path."""
    if name.endswith(".toml"):
        if not os.path.isfile(name):
            raise UserError(f"There is no file {name}.", "See the names: handoff flow kinds")
        return WorkflowFile(os.path.basename(name).removesuffix(".toml"), os.path.abspath(name), packaged=False)
    places = listing(root)
    for place in places:
        if place.name == name:
            return place
    known = ", ".join(place.name for place in places)
    raise UserError(f"There is no workflow '{name}'.", f"There are: {known}. Your own go into {OWN}/NAME.toml.")


def load(root: str, name: str) -> Workflow:
    """A workflow ready for use; a mistake in it is an error that names its lines."""
    place = find(root, name)
    return reader.read(place.path, prompts_beside(place.path))


def inspect(root: str, name: str) -> tuple[Workflow, list[reader.WorkflowProblem]]:
    """A workflow with everything that is wrong with it."""
    place = find(root, name)
    return reader.problems_of(place.path, files.read_text(place.path), prompts_beside(place.path))


class prompts_beside:  # noqa: N801 - reads as a word at its place of use
    """Finds a prompt: beside the workflow, in prompts/ there, else ours."""

    def __init__(self, path: str) -> None:
        folder = os.path.dirname(os.path.abspath(path))
        self._places = (folder, os.path.join(folder, "prompts"), _PROMPTS)

    def __call__(self, name: str) -> tuple[str, str]:
        if os.path.basename(name) != name:
            raise UserError(f"the prompt '{name}' must be a file's name.", "Put it beside the workflow.")
        for folder in self._places:
            path = os.path.join(folder, name)
            if os.path.isfile(path):
                return files.read_text(path), path
        raise UserError(f"there is no prompt '{name}'.", f"Put it into {self._places[0]}.")


class frozen_prompts:  # noqa: N801 - reads as a word at its place of use
    """Finds a prompt among those a flow kept when it began."""

    def __init__(self, texts: dict[str, str]) -> None:
        self._texts = texts

    def __call__(self, name: str) -> tuple[str, str]:
        if name not in self._texts:
            raise UserError(f"there is no prompt '{name}'.")
        return self._texts[name], name


def prompts_of(workflow: Workflow) -> dict[str, str]:
    """The prompts a workflow uses, by the file's name: what a flow keeps when it begins."""
    return {os.path.basename(phase.prompt_file): phase.prompt for phase in workflow.phases if phase.prompt_file}

"""Where a checkout's snapshots are kept, and under which name: found from its git folders alone."""

from __future__ import annotations

import os

from handoff.base.files import kept_project
from handoff.base.ids import check_id, slug
from handoff.base.record import Record
from handoff.git.plumbing import Source, open_source, read_text
from handoff.git.plumbing.objects import digest

MAIN = "main"
STORE = "snapshots.git"
WORKSPACES = "workspaces"
CHECKOUTS = "checkouts"  # of tasks whose own checkout is on another machine
TREE = "tree"


class Location(Record):
    """One checkout, its project's folder under $HANDOFF_HOME, and the name its snapshots go by."""

    source: Source
    project: str
    workspace: str

    @property
    def store(self) -> str:
        return os.path.join(self.project, STORE)

    @property
    def workspaces(self) -> str:
        return os.path.join(self.project, WORKSPACES)


def find_place(top: str, *, home: str, project: str = "") -> Location:
    """The place of the checkout at `top`. A workspace of ours belongs to the project it was made for."""
    source = open_source(top)
    inside = os.path.realpath(top)
    root = os.path.realpath(home) + os.sep
    if inside.startswith(root):
        project, kind, name, *rest = [*inside[len(root) :].split(os.sep), "", ""]
        if kind in (WORKSPACES, CHECKOUTS) and rest[:-2] == [TREE]:
            return Location(source, os.path.join(home, project), name)
    name = MAIN if source.folder == source.common else slug(os.path.basename(source.folder)) or "worktree"
    return Location(source, project_folder(source.common, home=home, project=project), name)


def project_folder(common: str, *, home: str, project: str = "") -> str:
    """The project's folder: named after its checkout; a namesake elsewhere on the disk gets a longer name."""
    if project:
        return os.path.join(home, check_id(project, "project"))
    real = os.path.realpath(common)
    known = kept_project(real, home)
    if known and _may_keep(os.path.join(home, known), real):
        return os.path.join(home, known)
    base = os.path.dirname(real) if os.path.basename(real) == ".git" else real
    name = slug(os.path.basename(base)) or "project"
    folder = os.path.join(home, name if len(name) > 1 else f"{name}-project")
    if _may_keep(folder, real):
        return folder
    return f"{folder}-{digest(os.fsencode(real))[:6]}"


def _may_keep(folder: str, real: str) -> bool:
    """Whether the store in a project's folder is of this repository, or of one that is gone because it has moved here."""
    owner = read_text(os.path.join(folder, STORE, "project")).rstrip("\n")
    return os.path.realpath(owner) == real or not os.path.isdir(owner)

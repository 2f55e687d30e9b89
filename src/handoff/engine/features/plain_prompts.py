"""Any prompt without guards and without state, also where there is no feature: what `prompt` prints."""

from __future__ import annotations

import os

from handoff.base.record import TYPE_CHECKING
from handoff.base.settings import PROJECT_FOLDER, project_config
from handoff.engine.features import prompts, status
from handoff.feature import documents, folder, templates

if TYPE_CHECKING:
    from handoff.engine.app import App


def plain(app: App, *, kind: str) -> prompts.Prompt:
    """The prompt of one kind; what it says about the documents is true, whatever they are."""
    warnings: list[str] = []
    workspace = status.workspace_of(app)
    root = workspace.root if workspace else app.settings.here
    name = app.settings.feature
    path = os.path.join(root, PROJECT_FOLDER, "current")
    if workspace is not None:
        target = os.path.join(workspace.features, name) if name else folder.link_target(workspace)
        if target and os.path.isdir(target):
            name, path = os.path.basename(target), target
    feature = folder.Feature(name or "current", path)
    there = workspace is not None and os.path.isdir(path)
    readiness = dict.fromkeys(folder.DOCUMENTS, documents.MISSING)
    if workspace is not None and there:
        readiness = status.half_made(workspace, feature).readiness()
    values = prompts.values_for(app, root, feature, project_config(root), kind, readiness)
    if not there:
        values["read_files"] = templates.bullets([f"`{PROJECT_FOLDER}/current/{doc}`" for doc in prompts.READ[kind]])
    template = templates.load(f"default_{kind}_prompt.md", workspace, warnings.append)
    text = templates.render(template, {**values, templates.STATE_FIELD: ""}, warnings.append)
    return prompts.prompt_of(kind, text)._replace(warnings=tuple(warnings))

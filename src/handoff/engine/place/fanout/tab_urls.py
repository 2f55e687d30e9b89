"""The address that opens a tab for a task: a template of the settings, filled in strictly."""

from __future__ import annotations

from handoff.base.errors import ConfigError
from handoff.base.markdown import fill
from handoff.base.record import TYPE_CHECKING, Record

if TYPE_CHECKING:
    from handoff.base.settings import Config

URI_PRESETS = {
    "vscode": "vscode://anthropic.claude-code/open?prompt={prompt}",
    "cursor": "cursor://anysphere.cursor-deeplink/prompt?text={prompt}",
}
_DEFAULT_PRESET = "vscode"
_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


class Job(Record):
    """What is to be opened."""

    project: str
    task: str
    workspace: str
    document: str
    agent: str = ""

    @property
    def prompt(self) -> str:
        return f"Continue task `{self.task}` of project `{self.project}`: read {self.document} and do what it says."


def uri_for(config: Config, job: Job) -> str:
    """The address that opens a tab for the task; a template with an unknown name is an error before anything is written."""
    template = config.text("uri_template") or _DEFAULT_PRESET
    template = URI_PRESETS.get(template, template)
    if "://" not in template:
        presets = ", ".join(URI_PRESETS)
        raise ConfigError(
            f"{config.path}: uri_template is no address: {template!r}.",
            f"Use a preset ({presets}) or scheme://…{{prompt}}",
        )
    values = {"prompt": job.prompt, "workspace": job.workspace, "task": job.task, "project": job.project}
    return fill(
        template, {name: percent(value) for name, value in values.items()}, where=f"{config.path}: uri_template"
    )


def percent(text: str) -> str:
    """Text as a part of an address."""
    return "".join(chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in text.encode("utf-8", "surrogateescape"))

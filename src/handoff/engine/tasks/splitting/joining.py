"""How the parts of a batch were joined, by the evidence of whoever landed them: what met, what settled it, what to look at."""

from __future__ import annotations

from handoff.base.light_json import loads
from handoff.base.markdown import one_line
from handoff.base.record import TYPE_CHECKING, Record
from handoff.engine.workspaces import task_clones

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from handoff.board.tasks.tasks import Task

BY_SESSION = "a fan-in session settled it"
_RULE = "; a proposal that the check has passed"


class JoinedFile(Record):
    """A file that two parts had changed and git could not join: who they are, and how that ended."""

    path: str
    between: tuple[str, ...]
    how: str


class JoinReport(Record):
    """What the landing of a batch tells of its joining."""

    conflicts: tuple[JoinedFile, ...]
    decisions: str
    """What the session that settled them wrote down."""
    followed: tuple[JoinedFile, ...]
    """Files that went along with a folder another part had moved."""
    doubts: tuple[JoinedFile, ...]
    """What joined cleanly and may be wrong all the same."""

    @property
    def sections(self) -> tuple[tuple[str, tuple[JoinedFile, ...]], ...]:
        """Each kind under its title."""
        return (
            ("Conflicts", self.conflicts),
            ("Followed a moved folder", self.followed),
            ("Joined cleanly, to look at", self.doubts),
        )

    def as_data(self) -> dict[str, Any]:
        """The same for a program."""
        return {
            "conflicts": [one._asdict() for one in self.conflicts],
            "decisions": self.decisions,
            "followed": [one._asdict() for one in self.followed],
            "doubts": [one._asdict() for one in self.doubts],
        }


def read(tasks: Sequence[Task]) -> JoinReport:
    """From the evidence of the fan-in, and of parts that landed before it."""
    names = {task_clones.work_name(task): task.id for task in tasks}
    found = [loads(task.evidence) for task in tasks if task.evidence]
    return JoinReport(
        conflicts=tuple(one for evidence in found for one in _conflicts(evidence, names)),
        decisions="\n".join(str(evidence["decisions"]).strip() for evidence in found if evidence.get("decisions")),
        followed=tuple(
            JoinedFile(str(one["old"]), _who(one, names, "member"), f"went along to {one['new']}")
            for evidence in found
            for one in evidence.get("followed", ())
        ),
        doubts=tuple(
            JoinedFile(str(one["path"]), _who(one, names), one_line(str(one["what"])))
            for evidence in found
            for one in evidence.get("doubts", ())
        ),
    )


def _conflicts(evidence: dict[str, Any], names: dict[str, str]) -> Iterator[JoinedFile]:
    settled = [str(path) for path in evidence.get("settled", ())]
    told: set[str] = set()
    for one in evidence.get("joined", ()):
        told.add(path := str(one["path"]))
        how = BY_SESSION if path in settled else one_line(str(one["how"])) + ("" if one["proven"] else _RULE)
        yield JoinedFile(path, _who(one, names), how)
    for path in settled:
        if path not in told:
            yield JoinedFile(path, (), BY_SESSION)


def _who(one: dict[str, Any], names: dict[str, str], *keys: str) -> tuple[str, ...]:
    found = (str(one.get(key, "")) for key in keys or ("first", "second"))
    return tuple(names.get(name, name) for name in found if name)


def as_lines(found: JoinReport) -> list[str]:
    """The same as sections of a page."""
    lines: list[str] = []
    for number, (title, some) in enumerate(found.sections):
        if some:
            lines += ["", f"## {title}", "", *(_line(one) for one in some)]
        if number == 0 and found.decisions:
            lines += ["", "What the session that settled them decided:", ""]
            lines += [f"> {line}".rstrip() for line in found.decisions.splitlines()]
    return lines


def _line(one: JoinedFile) -> str:
    between = f" ({', '.join(one.between)})" if one.between else ""
    return f"- {one.path}{between}: {one.how}"

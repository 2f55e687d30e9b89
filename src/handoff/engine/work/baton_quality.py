"""The score of the baton that the next session of a task or a feature would get now."""

from __future__ import annotations

import os
import re

from handoff.base.errors import UserError
from handoff.base.markdown import number_of
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.tasks import tasks
from handoff.engine.app.home import find_project, home_config
from handoff.engine.features import prompts, status
from handoff.engine.place import baton, task_clones
from handoff.engine.safety.snapshots import open_snapshot_store
from handoff.feature.baton import BUDGET, estimate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from handoff.board.tasks.tasks import Task
    from handoff.engine.app import App


def of_task(app: App, *, name: str, budget: int = 0) -> BatonScore:
    """What the next session of a task would be told of what is known."""
    task = tasks.find(app.database, project=find_project(app).name, id=name)
    if task.ended:
        raise UserError(
            f"'{task.label}' is {task.state}: nobody gets a baton for it.",
            f"See: {app.settings.program} show {task.label}",
        )
    config, tokens = home_config(app), budget or BUDGET
    place = _place(app, task)
    known = baton.for_session(app, config, task, place, tokens=EVERYTHING)
    told = baton.for_session(app, config, task, place, tokens=tokens)
    return weigh(known, told, budget=tokens, program=app.settings.program, task=True)


def _place(app: App, task: Task) -> baton.Place:
    """Where that session would stand."""
    clone = task_clones.of_task(app, task)
    if clone is None or not os.path.isdir(clone.tree):
        return baton.Place(task.workspace or app.settings.here)
    return baton.Place(clone.tree, clone, open_snapshot_store(app, folder=task.workspace))


def of_feature(app: App, *, budget: int = 0) -> BatonScore:
    """What `continue` would tell the next session of the feature of what is known."""
    view = status.look(app)
    tokens = budget or int(view.config.number("budget"))
    known = prompts.build(app, kind="continue", tokens=EVERYTHING, record=False).text
    told = prompts.build(app, kind="continue", tokens=tokens, record=False).text
    more = tuple(BatonDoubt(what, remedy) for what, remedy in status.untold(app, view, status.git_facts(app)))
    return weigh(known, told, budget=tokens, program=app.settings.program, task=False, more=more)


# --- the score ----------------------------------------------------------------------------------------------

# How good a baton is: what it tells of what is known, kind by kind, and what a successor will miss.
#
# What is known is the same text with room for everything; so nothing is asked here that the composer does not know itself.

EVERYTHING = 1_000_000
"""Tokens: room for all that is known."""
_DOUBT = 5
_REASON = re.compile(r"\b(?:because|since|so that|as (?:it|the|they|we)|reason|otherwise|in order to)\b", re.IGNORECASE)
_DECIDED = re.compile(r"^(?:decided:|decided then|(?:its note, )?then: decided)", re.IGNORECASE)
_DEAD = re.compile(r"^(?:did not work:|(?:its note, )?then: dead end)", re.IGNORECASE)
_PLANNED = re.compile(r"meant to do next|^noted |next micro-step|^step \d+ of", re.IGNORECASE)
_STAMP = re.compile(r"\d{4}-\d\d-\d\dT[\d:]+Z")  # when a text was made is no fact of the work
_RED = re.compile(r"`([^`]+)` (?:was |is )?red\b|`([^`]+)`: red\b")


class KindScore(Record):
    """One kind of fact: how many are known, how many are told."""

    name: str
    weight: int
    told: int
    known: int


class BatonDoubt(Record):
    """What a successor will stumble over, and the command that mends it."""

    what: str
    remedy: str


class BatonScore(Record):
    """A baton, weighed."""

    tokens: int
    budget: int
    points: int
    kinds: tuple[KindScore, ...]
    doubts: tuple[BatonDoubt, ...]


_WEIGHTS = {"rules": 20, "next": 20, "files": 15, "checks": 15, "steps": 10, "decisions": 10, "history": 5, "goal": 5}


def weigh(
    known: str, told: str, *, budget: int, program: str, task: bool, more: tuple[BatonDoubt, ...] = ()
) -> BatonScore:
    """A text against the same text with room for everything; `more` are doubts that only the files can tell."""
    facts, shown = _facts(known), {line for _, _, line in _lines(told)}
    kinds = tuple(
        KindScore(name, weight, sum(line in shown for line in facts[name]), len(facts[name]))
        for name, weight in _WEIGHTS.items()
    )
    doubts = (*_doubts(facts, program, task=task), *more)
    points = sum(kind.weight * kind.told / kind.known if kind.known else kind.weight for kind in kinds)
    if not facts["next"]:
        points -= _WEIGHTS["next"]
    points -= _DOUBT * sum(doubt.what != _NO_NEXT for doubt in doubts)
    return BatonScore(tokens=estimate(told), budget=budget, points=max(0, round(points)), kinds=kinds, doubts=doubts)


_NO_NEXT = "nobody has said what comes next"


def _doubts(facts: dict[str, list[str]], program: str, *, task: bool) -> Iterator[BatonDoubt]:
    note = "task note" if task else "note"
    if not facts["next"]:
        yield BatonDoubt(_NO_NEXT, f"{program} {note} 'Next: …'")
    bare = [line for line in facts["decisions"] if not _REASON.search(line)]
    if bare:
        again = f"{program} {note} 'Decided X because Y'" if task else f"{program} decide 'WHAT' --because 'WHY'"
        yield BatonDoubt(f"{number_of(len(bare), 'decision')} without a reason", again)
    red = {next(filter(None, match.groups())) for line in facts["checks"] for match in _RED.finditer(line)}
    explained = " ".join((*facts["history"], *facts["next"])).casefold()
    unexplained = [command for command in red if not _is_explained(command, facts["checks"], explained)]
    if unexplained:
        yield BatonDoubt(
            f"{number_of(len(unexplained), 'red check')} that nobody explains: {unexplained[0]}",
            f"{program} {note} 'why it is red'",
        )


def _is_explained(command: str, checks: list[str], words: str) -> bool:
    """Whether anybody said something about the check or about a test that failed in it."""
    failing = [name for line in checks if command in line for name in re.findall(r"[\w./]*test[\w./:]*", line)]
    names = {name.rpartition(":")[2].rpartition("/")[2].casefold() for name in failing if "test" in name}
    return command.casefold() in words.replace(f"find out why `{command.casefold()}`", "") or any(
        name and name in words for name in names
    )


def _facts(text: str) -> dict[str, list[str]]:
    """The lines of a baton by kind."""
    found: dict[str, list[str]] = {name: [] for name in _WEIGHTS}
    for section, part, line in _lines(text):
        kind = _kind(section, part, line)
        if kind:
            found[kind].append(line)
    return found


def _kind(section: str, part: str, line: str) -> str:
    if _DECIDED.search(line):
        return "decisions"
    if section == "rules":
        return "rules"
    if section == "goal":
        return "goal"
    if section == "next":
        return "next" if _PLANNED.search(line) else ""
    if section == "state":
        return _of_state(part, line)
    if section != "what was tried":
        return ""
    if line.startswith("ran: ") or part.startswith("the last "):
        return "checks" if line.startswith(("ran: ", "`", "failing: ", "it said: ")) else ""
    if line.startswith("its list: "):
        return "steps"
    return "history" if _DEAD.search(line) or part or line.startswith("its note") else ""


def _of_state(part: str, line: str) -> str:
    if part.startswith("plan "):
        return "steps"
    if part.startswith(("work so far", "changed since", "git")):
        return "files"
    if part.startswith(("last checks", "what the last check said")):
        return "checks" if "`" in line or line.startswith("failing: ") else ""
    return "goal" if line.startswith("head") else ""


def _lines(text: str) -> Iterator[tuple[str, str, str]]:
    """Section, part and each line that says something; what stands in fences is the project's own text."""
    section = part = ""
    fenced = False
    for line in text.splitlines():
        bare = line.strip()
        if bare.startswith("```"):
            fenced = not fenced
        elif fenced or not bare or bare.startswith("<!--"):
            continue
        elif bare.startswith("## "):
            section, part = bare[3:].casefold(), ""
        elif bare.startswith("### "):
            part = bare[4:].casefold()
        elif not bare.startswith("#"):
            yield section, part, re.sub(r"^[-*] ", "", _STAMP.sub("then", bare)).casefold()

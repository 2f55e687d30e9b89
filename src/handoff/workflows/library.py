"""Where workflows are (ours in the package, a project's own in .handoff/workflows/), and how their TOML is read: all that is wrong
with a file is reported at once, with file and line."""

from __future__ import annotations

import os
import re

from handoff.base import files
from handoff.base.clock import span
from handoff.base.errors import ConfigError, UserError
from handoff.base.ids import check_id
from handoff.base.placeholders import names
from handoff.base.record import TYPE_CHECKING, Record
from handoff.workflows.model import (
    ALL,
    ALONE,
    BLOCK,
    CODE,
    DONE,
    FACTS,
    FAILED,
    LAST_RESORTS,
    NOTHING,
    OUTCOMES,
    SHARES,
    TESTS,
    Phase,
    Workflow,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any


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
    return read(place.path, prompts_beside(place.path))


def inspect(root: str, name: str) -> tuple[Workflow, list[WorkflowProblem]]:
    """A workflow with everything that is wrong with it."""
    place = find(root, name)
    return problems_of(place.path, files.read_text(place.path), prompts_beside(place.path))


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


_TEXT, _NUMBER, _WHOLE, _YES = "a text", "a number", "a whole number", "true or false"
_LIST, _NUMBERS = "a list of texts", "a list of numbers of at least 0"
_TEXTS = "name title role prompt check command report document commit when_used_up gate_within gate_default agent model"
TOP_KEYS = {
    **dict.fromkeys(("name", "title", "test_list"), _TEXT),
    "max_cycles": _WHOLE,
    "needs_feature": _YES,
    "phase": "",
}
PHASE_KEYS = {
    **dict.fromkeys(_TEXTS.split(), _TEXT),
    **dict.fromkeys(("may_write", "told"), _LIST),
    **dict.fromkeys(("retries", "turns", "mutants"), _WHOLE),
    **dict.fromkeys(("minutes", "money", "score"), _NUMBER),
    "back_off_seconds": _NUMBERS,
    "gate": _YES,
    "next": "",
}
_KEY = r"^[ \t]*(?:\"([^\"]+)\"|'([^']+)'|([A-Za-z0-9_-]+))[ \t]*="
_TABLE = r"^[ \t]*\[+[ \t]*([A-Za-z0-9_.\"' -]+?)[ \t]*\]+"
_WITH_RESULTS = ("baseline", "red", "green", "refactor", "suite", "hidden", "strength")


class WorkflowProblem(Record):
    """Something wrong, where, and what to do about it."""

    line: int
    fault: str
    fix: str = ""
    path: str = ""


class _Lines:
    """Where each key stands: tomllib forgets it, and a person needs it."""

    def __init__(self, text: str) -> None:
        self.of: dict[tuple[int, str], int] = {}
        self.phases: list[int] = []
        phase, table, inside = -1, "", ""
        for number, line in enumerate(text.splitlines(), 1):
            quotes = [mark for mark in ('"""', "'''") if line.count(mark) % 2]
            if inside:
                inside = "" if inside in quotes else inside
                continue
            heading = re.match(_TABLE, line)
            if heading and line.lstrip().startswith("["):
                table = heading.group(1).replace('"', "").replace("'", "").strip()
                if line.lstrip().startswith("[[") and table == "phase":
                    phase += 1
                    self.phases.append(number)
                self.of.setdefault((phase if table.startswith("phase") else -1, table.removeprefix("phase.")), number)
            elif found := re.match(_KEY, line):
                name = next(group for group in found.groups() if group)
                at = phase if table.startswith("phase") else -1
                below = table.removeprefix("phase").lstrip(".")
                self.of.setdefault((at, f"{below}.{name}" if below else name), number)
            inside = quotes[0] if quotes else ""

    def __call__(self, phase: int, *keys: str) -> int:
        """The line of the first of these keys that stands there, else of its phase."""
        for key in keys:
            if (phase, key) in self.of:
                return self.of[phase, key]
        return self.phases[phase] if 0 <= phase < len(self.phases) else 1


class _Reading:
    """One file on its way to a Workflow; problems gather on the way."""

    def __init__(self, path: str, text: str, find_prompt: Callable[[str], tuple[str, str]]) -> None:
        self.path, self.text, self.find_prompt = path, text, find_prompt
        self.problems: list[WorkflowProblem] = []
        self.lines = _Lines(text)

    def wrong(self, line: int, fault: str, fix: str = "", *, path: str = "") -> None:
        self.problems.append(WorkflowProblem(line, fault, fix, path or self.path))

    def fault(self, phase: int, key: str, fault: str, fix: str = "") -> None:
        """Something wrong with a key of a phase; -1 is the top of the file."""
        self.wrong(self.lines(phase, key), fault, fix)

    # --- values ----------------------------------------------------------------------------------------------

    def checked(self, table: Mapping[str, Any], keys: Mapping[str, str], phase: int) -> dict[str, Any]:
        """The values that are of the right kind; the others are problems."""
        found = {}
        for name, value in table.items():
            if name not in keys:
                from difflib import get_close_matches

                close = get_close_matches(name, keys, n=1)
                mean = f"Did you mean '{close[0]}'? " if close else ""
                known = ", ".join(keys)
                self.fault(phase, name, f"unknown key '{name}'.", f"{mean}Known keys: {known}.")
            elif keys[name] and not _fits(value, keys[name]):
                self.fault(phase, name, f"'{name}' must be {keys[name]}, not {value!r}.")
            else:
                found[name] = value
        return found

    def choice(self, phase: int, key: str, value: str, known: tuple[str, ...]) -> None:
        if value not in known:
            self.fault(phase, key, f"'{value}' is no {key}.", f"Use one of: {', '.join(known)}.")

    # --- phases ----------------------------------------------------------------------------------------------

    def workflow(self) -> Workflow:
        import tomllib

        try:
            found = tomllib.loads(self.text)
        except tomllib.TOMLDecodeError as error:
            line = str(error).partition("(at line ")[2].partition(",")[0]
            last = self.text.count("\n") + 1
            self.wrong(int(line) if line.isdigit() else last, f"not valid TOML: {error}.", "Text stands in quotes.")
            return Workflow(name="", title="", phases=())
        top = self.checked(found, TOP_KEYS, -1)
        name = str(top.get("name", os.path.basename(self.path).removesuffix(".toml")))
        try:
            check_id(name, "workflow")
        except UserError as error:
            self.fault(-1, "name", error.message, error.hint)
        tables = found.get("phase")
        if not isinstance(tables, list) or not tables:
            self.wrong(1, "a workflow needs at least one [[phase]].", "Copy one: handoff flow kinds tdd --toml")
            tables = []
        phases = tuple(self.phase(at, table) for at, table in enumerate(tables) if isinstance(table, dict))
        if isinstance(top.get("max_cycles"), int) and top["max_cycles"] < 1:
            self.fault(-1, "max_cycles", "'max_cycles' must be at least 1.")
        self.lead(phases)
        return Workflow(
            name=name,
            title=str(top.get("title", name)),
            phases=phases,
            path=self.path,
            text=self.text,
            test_list=str(top.get("test_list", "test-list.md")),
            max_cycles=int(top.get("max_cycles", 50)),
            needs_feature=bool(top.get("needs_feature", False)),
            runs_tests=any(phase.check in _WITH_RESULTS for phase in phases),
        )

    def phase(self, at: int, table: Mapping[str, Any]) -> Phase:
        values = self.checked(table, PHASE_KEYS, at)
        name = str(values.get("name", ""))
        try:
            check_id(name, "phase")
            if name == DONE:
                self.fault(at, "name", f"'{DONE}' is the end, not a phase.", "Choose another name.")
        except UserError as error:
            self.fault(at, "name", error.message or "a phase needs a name.", error.hint)
        role, check = str(values.get("role", "")), str(values.get("check", "none"))
        self.choice(at, "check", check, tuple(OUTCOMES))
        if not role and check not in ALONE:
            self.fault(at, "check", f"the check '{check}' needs a role.", 'Say who works: role = "…".')
        for key in ("command", "report", "document"):
            wanted = {"command": "command", "report": "review", "document": "document"}[key]
            if check == wanted and not values.get(key):
                self.fault(at, "check", f"the check '{check}' needs '{key}'.")
        resort = str(values.get("when_used_up", BLOCK))
        self.choice(at, "when_used_up", resort, LAST_RESORTS)
        if values.get("retries", 1) < 1:
            self.fault(at, "retries", "'retries' must be at least 1: the first attempt counts.")
        for key in ("minutes", "turns", "money", "mutants", "score"):
            if values.get(key, 0) < 0:
                self.fault(at, key, f"'{key}' cannot be below 0.", "Leave it out for no limit.")
        within = self.within(at, values)
        told = tuple(values.get("told", ()))
        text, file = self.prompt(at, str(values.get("prompt", "")), told, role)
        plain = "title command report document commit gate gate_default agent model turns retries mutants".split()
        return Phase(
            name=name,
            role=role,
            prompt=text,
            prompt_file=file,
            may_write=self.shares(at, tuple(values.get("may_write", (NOTHING,)))),
            told=told,
            check=check,
            next=self.onward(at, table.get("next", DONE), check),
            when_used_up=resort,
            back_off_seconds=tuple(float(one) for one in values.get("back_off_seconds", ())),
            gate_within=within,
            minutes=float(values.get("minutes", 0)),
            money=float(values.get("money", 0)),
            score=float(values.get("score", 0)),
            line=self.lines(at, "name"),
            **{key: values[key] for key in plain if key in values},
        )

    def within(self, at: int, values: Mapping[str, Any]) -> float:
        """How long a person has to answer the phase's gate; what counts after that needs such a limit."""
        default, seconds = values.get("gate_default", ""), 0.0
        if "gate_default" in values:
            self.choice(at, "gate_default", str(default), ("yes", "no"))
        if "gate_within" in values:
            try:
                seconds = span(str(values["gate_within"]))
            except UserError as error:
                self.fault(at, "gate_within", error.message, error.hint)
        elif default:
            self.fault(at, "gate_default", "a default needs 'gate_within'.", 'gate_within = "2h".')
        return seconds

    def prompt(self, at: int, request: str, told: tuple[str, ...], role: str) -> tuple[str, str]:
        """The words of the phase; they may ask for what the phase is told, and for nothing else."""
        if not role:
            if request:
                self.fault(at, "prompt", "a phase without a role has nobody to read its prompt.")
            return "", ""
        if not request:
            self.fault(at, "name", f"the role '{role}' needs a prompt.", 'prompt = "file.md", or the text.')
            return "", ""
        text, file = request, ""
        if "\n" not in request:
            try:
                text, file = self.find_prompt(request)
            except UserError as error:
                self.fault(at, "prompt", error.message, error.hint)
                return "", ""
        for name in told:
            if name not in FACTS:
                self.fault(at, "told", f"there is no fact '{name}'.", f"Known: {', '.join(sorted(FACTS))}.")
        asked = names(text)
        start = 0 if file else self.first_line_of_prompt(at)
        for name, line in asked.items():
            if name not in told:
                fix = f'Add it: told = [… "{name}"].' if name in FACTS else f"Known: {', '.join(sorted(FACTS))}."
                fault = f"the prompt asks for '{{{{{name}}}}}', which is not among the phase's facts."
                self.wrong(start + line, fault, fix, path=file)
        for name in told:
            if name in FACTS and name not in asked:
                self.fault(
                    at,
                    "told",
                    f"'{name}' is among the facts, but the prompt does not use it.",
                    f"Put {{{{{name}}}}} into the prompt, or take it out of 'told'.",
                )
        return text, file

    def first_line_of_prompt(self, at: int) -> int:
        """How many lines stand above the first one of an inline prompt: TOML drops a line end after the quotes."""
        line = self.lines(at, "prompt")
        opened = self.text.splitlines()[line - 1].rstrip().endswith(('"""', "'''"))
        return line if opened else line - 1

    def shares(self, at: int, shares: tuple[str, ...]) -> tuple[str, ...]:
        """What may be written: one word for all of it, or patterns."""
        words = [share for share in shares if share in SHARES]
        if (NOTHING in words or ALL in words) and len(shares) > 1:
            self.fault(at, "may_write", f"'{words[0]}' stands alone or not at all.")
        if TESTS in words and CODE in words:
            self.fault(at, "may_write", "tests and code together are everything.", 'Write: ["all"].')
        for share in shares:
            if share.startswith("/") or ".." in share.split("/"):
                self.fault(at, "may_write", f"'{share}' leaves the checkout.", "Paths begin at its top.")
        return shares

    def onward(self, at: int, request: Any, check: str) -> dict[str, str]:
        """What follows, by what the check says."""
        outcomes = OUTCOMES.get(check, ("ok",))
        needed = tuple(one for one in outcomes if one != FAILED)
        if isinstance(request, str):
            if len(needed) > 1:
                self.fault(
                    at,
                    "next",
                    f"the check '{check}' says {' or '.join(needed)}: 'next' must name both.",
                    "next = { " + ", ".join(f'{one} = "…"' for one in needed) + " }",
                )
            return dict.fromkeys(needed, request)
        if not isinstance(request, dict) or not all(isinstance(one, str) for one in request.values()):
            self.fault(at, "next", "'next' must be a phase, or a table of what the check says.")
            return dict.fromkeys(needed, DONE)
        for said in request:
            if said not in outcomes:
                self.wrong(
                    self.lines(at, f"next.{said}", "next"),
                    f"the check '{check}' never says '{said}'.",
                    f"It says: {', '.join(outcomes)}.",
                )
        for said in needed:
            if said not in request:
                self.fault(at, "next", f"'next' does not say what follows '{said}'.")
        return {said: request.get(said, DONE) for said in outcomes if said in request or said in needed}

    def lead(self, phases: tuple[Phase, ...]) -> None:
        """Every phase has its own name, can be reached, and the end can be reached."""
        by_name: dict[str, Phase] = {}
        for at, phase in enumerate(phases):
            if phase.name in by_name:
                self.fault(at, "name", f"the phase '{phase.name}' stands there twice.", "Give each its own name.")
            by_name.setdefault(phase.name, phase)
        for at, phase in enumerate(phases):
            for said, target in phase.next.items():
                if target != DONE and target not in by_name:
                    self.wrong(
                        self.lines(at, f"next.{said}", "next"),
                        f"there is no phase '{target}' to go on with.",
                        f"Phases: {', '.join(by_name)}, and {DONE}.",
                    )
        if not phases or self.problems:
            return
        reached, open_ = set[str](), [phases[0].name]
        while open_:
            name = open_.pop()
            if name not in reached:
                reached.add(name)
                open_ += by_name[name].next.values() if name in by_name else []
        for phase in phases:
            if phase.name not in reached:
                self.wrong(phase.line, f"nothing leads to the phase '{phase.name}'.", "Name it in a 'next'.")
        if DONE not in reached:
            self.wrong(phases[-1].line, "nothing leads to the end.", f'Some phase needs: next = "{DONE}".')


def _fits(value: Any, kind: str) -> bool:
    if kind == _YES:
        return isinstance(value, bool)
    if isinstance(value, bool):
        return False
    if kind in (_LIST, _NUMBERS):
        wanted: Any = str if kind == _LIST else (int, float)
        return isinstance(value, list) and all(
            isinstance(one, wanted) and not isinstance(one, bool) and (kind == _LIST or one >= 0) for one in value
        )
    kinds: dict[str, Any] = {_TEXT: str, _WHOLE: int, _NUMBER: (int, float)}
    return isinstance(value, kinds[kind])


def problems_of(
    path: str, text: str, find_prompt: Callable[[str], tuple[str, str]]
) -> tuple[Workflow, list[WorkflowProblem]]:
    """The workflow as far as it can be read, and everything that is wrong with it."""
    reading = _Reading(path, text, find_prompt)
    workflow = reading.workflow()
    return workflow, sorted(reading.problems, key=lambda problem: (problem.path != path, problem.line))


def read(path: str, find_prompt: Callable[[str], tuple[str, str]], *, text: str | None = None) -> Workflow:
    """The workflow of a file; anything wrong is an error that names every line."""
    workflow, problems = problems_of(path, files.read_text(path) if text is None else text, find_prompt)
    if problems:
        first, *more = [f"{one.path}:{one.line}: {one.fault}" for one in problems]
        raise ConfigError("\n  ".join([first, *more]), problems[0].fix or "See: handoff help docs/howto/workflows.md")
    return workflow

"""docs/handoff-spec.md says what the code does: roles, facts, checks, finding codes, the record, and every mechanism."""

from __future__ import annotations

import json
import re

from handoff.base.light_json import dumps
from handoff.checks import judge, probes, questions, results, sealed, support
from handoff.checks.assertions import assertions
from handoff.engine.place.proof import elsewhere, same_questions, test_runs, two_way
from handoff.engine.work.flows import documents as flow_documents
from handoff.engine.work.flows import evidence as flow_evidence
from handoff.engine.work.flows import judge as flow_judge
from handoff.git import notes
from handoff.workflows import library
from handoff.workflows.model import CHECKS_MEANING, FACTS
from source import ROOT, read

PAGE = read("docs/handoff-spec.md")
GROUPS = (7, 7, 8, 7, 6, 5, 6, 5, 5, 4, 4, 5, 4)
CODE = re.compile(r"^[a-z]+(?:-[a-z]+)*$")


def section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def table(text: str, first: str) -> list[list[str]]:
    """The rows of the table whose head begins with that word."""
    found: list[list[str]] = []
    inside = False
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("|") and cells[0] == first:
            inside = True
        elif inside and not line.startswith("|"):
            break
        elif inside and not cells[0].startswith((":-", "--")):
            found.append(cells)
    return found


def words(cell: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", cell))


def test_the_example_of_a_record_is_read_by_our_reader():
    shown = json.loads(re.search(r"```json\n(.*?)```", section("The record"), re.DOTALL)[1])
    note = notes.decode(dumps(shown))
    assert note is not None
    assert note.id == shown["id"]
    assert json.loads(notes.encode(note)) == shown
    assert notes.encode(note).startswith('{"schema": 1, "ended": ')


def test_every_field_of_a_record_is_explained():
    told = set().union(*(words(row[0]) for row in table(section("The record"), "field")))
    assert told == {*notes.Note._fields, "id"}
    told = set().union(*(words(row[0]) for row in table(section("The record"), "field of a check")))
    assert told == set(notes.Check._fields)


def test_who_is_told_what_is_what_the_workflow_says():
    phases = {phase.name: phase for phase in library.load(ROOT, "tdd").phases}
    rows = table(section("What is handed over"), "phase")
    assert [row[0].strip("`") for row in rows] == list(phases)
    for row in rows:
        phase = phases[row[0].strip("`")]
        assert words(row[2]) == set(phase.told)
        assert row[1] == (phase.role or "(the orchestrator)")
        assert (f"`{phase.commit}:`" in row[5]) == bool(phase.commit)
    assert {words(row[0]).pop() for row in table(section("What is handed over"), "fact")} == set(FACTS)


def test_every_check_is_explained():
    rows = table(section("How a phase is judged"), "check")
    assert {words(row[0]).pop() for row in rows} == set(CHECKS_MEANING)


def test_every_finding_has_its_cheat_and_no_code_is_made_up():
    known = {
        value
        for module in (
            judge,
            sealed,
            results,
            probes,
            questions,
            support,
            elsewhere,
            same_questions,
            two_way,
            assertions,
            flow_documents,
            flow_judge,
        )
        for name, value in vars(module).items()
        if name.isupper() and not name.startswith("_") and isinstance(value, str) and CODE.match(value)
    }
    known -= {
        judge.FLAKY,
        judge.KNOWN_FAILURE,
        judge.NOT_TESTED,
        probes.INTERFACE,
        two_way.NOT_PROBED,
        flow_documents.GREEN_BEFORE,
    }  # warnings
    known -= {*results.STATUSES, *results.REASONS}
    strict = (flow_evidence.OUTSIDE, flow_evidence.WEAKER, flow_evidence.LOW, flow_evidence.SURVIVORS)
    known |= {*strict, test_runs.NO_SUITE, flow_evidence.HIDDEN_FAILED, flow_evidence.HIDDEN_OTHER}
    known -= {flow_judge.GREEN, flow_judge.EXIT, flow_judge.OK, flow_judge.FAILED, flow_judge.QUESTIONS}
    source = read("src/handoff/workflows/test_list.py") + read("src/handoff/engine/work/flows/documents.py")
    source += read("src/handoff/engine/work/flows/judge.py")
    known |= set(re.findall(r'(?:Finding|Fault)\(\s*"([a-z]+(?:-[a-z]+)*)",', source))
    known |= set(re.findall(r'(?<!\.git)\("([a-z]+(?:-[a-z]+)+)", f?"', source))
    told = set().union(*(words(row[1]) for row in table(section("Cheats, and what catches them"), "cheat")))
    assert known - told == set()
    assert told - known == set()


def test_every_mechanism_is_weighed_by_every_criterion_and_has_a_verdict():
    rows = table(section("Every mechanism weighed"), "mechanism")
    wanted = [f"{group}.{at}" for group, count in enumerate(GROUPS, 1) for at in range(1, count + 1)]
    assert [row[0].partition(" ")[0] for row in rows] == wanted
    for row in rows:
        assert len(row) == 12, row
        assert set(row[1:11]) <= set("●◐○"), row
        assert re.search(r"\b(chosen|supported|rejected|as )", row[11].lower()), row

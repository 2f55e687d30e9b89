"""Workflows as data: what is wrong is said with its line, all of it at once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handoff.base.errors import ConfigError, UserError
from handoff.workflows import library
from handoff.workflows.model import DONE, OUTCOMES, as_svg, as_text

GOOD = """\
name = "mine"

[[phase]]
name = "build"
role = "builder"
prompt = \"\"\"
Do {{request}}.
\"\"\"
told = ["request"]
may_write = ["src/"]
check = "command"
command = "make test"
next = { ok = "look", failed = "build" }

[[phase]]
name = "look"
role = "reviewer"
prompt = \"\"\"
Look at {{changes}}.
\"\"\"
told = ["changes"]
may_write = ["review.md"]
report = "review.md"
check = "review"
[phase.next]
approved = "done"
changes = "build"
"""


def nothing(name: str) -> tuple[str, str]:
    raise UserError(f"there is no prompt '{name}'.")


def problems(text: str) -> list[tuple[int, str]]:
    _, found = library.problems_of("w.toml", text, nothing)
    return [(problem.line, problem.fault) for problem in found]


@pytest.mark.parametrize("name", ["tdd", "tdd-strict", "feature", "review"])
def test_the_packaged_workflows_are_right_and_can_be_drawn(name, tmp_path):
    workflow, found = library.inspect(str(tmp_path), name)
    assert found == []
    text = "\n".join(as_text(workflow))
    svg = as_svg(workflow)
    for phase in workflow.phases:
        assert phase.name in text
        assert f">{phase.name} (" in svg
    from xml.etree import ElementTree as ET

    assert ET.fromstring(svg).tag.endswith("svg")


def test_a_good_file_is_read_as_it_says():
    workflow = library.read("w.toml", nothing, text=GOOD)
    build, look = workflow.phases
    assert build.next == {"ok": "look", "failed": "build"}
    assert look.next == {"approved": DONE, "changes": "build"}
    assert (build.may_write, build.prompt.strip()) == (("src/",), "Do {{request}}.")
    assert workflow.is_back("look", "build")
    assert not workflow.is_back("build", "look")


@pytest.mark.parametrize(
    ("old", "new", "line", "fault"),
    [
        ('name = "mine"', 'nmae = "mine"', 1, "unknown key 'nmae'"),
        ('name = "mine"', 'name = "No Good"', 1, "cannot name a workflow"),
        ('check = "command"', 'check = "comand"', 11, "is no check"),
        ('command = "make test"\n', "", 11, "needs 'command'"),
        ('told = ["request"]', 'told = ["requests"]', 7, "asks for '{{request}}'"),
        ('told = ["request"]', 'told = ["request", "spec"]', 9, "does not use it"),
        ("Do {{request}}.", "Do {{request}} and {{secret}}.", 7, "asks for '{{secret}}'"),
        ('may_write = ["src/"]', 'may_write = "src/"', 10, "must be a list of texts"),
        ('may_write = ["src/"]', 'may_write = ["../x"]', 10, "leaves the checkout"),
        ('may_write = ["src/"]', 'may_write = ["tests", "code"]', 10, "everything"),
        ('ok = "look"', 'ok = "lok"', 13, "no phase 'lok'"),
        ('ok = "look"', 'fine = "look"', 13, "never says 'fine'"),
        ('changes = "build"\n', "", 25, "what follows 'changes'"),
        ('changes = "build"', 'changes = "biuld"', 27, "no phase 'biuld'"),
        ('name = "look"', 'name = "build"', 16, "stands there twice"),
        ('name = "look"', 'name = "done"', 16, "is the end"),
        ('role = "reviewer"\n', "", 23, "needs a role"),
        ('report = "review.md"\n', "", 23, "needs 'report'"),
        ("[[phase]]\n", "[[phase]]\nretries = 0\n", 4, "at least 1"),
        ("[[phase]]\n", '[[phase]]\nretries = "3"\n', 4, "a whole number"),
        ("[[phase]]\n", "[[phase]]\nmoney = -1\n", 4, "below 0"),
        ("[[phase]]\n", '[[phase]]\ngate_within = "soon"\n', 4, "span of time"),
        ("[[phase]]\n", '[[phase]]\ngate_default = "yes"\n', 4, "needs 'gate_within'"),
        ("[[phase]]\n", '[[phase]]\ngate_within = "2h"\ngate_default = "maybe"\n', 5, "maybe"),
        ('name = "mine"', 'name = "mine', 1, "not valid TOML"),
    ],
)
def test_a_mistake_is_named_with_its_line(old, new, line, fault):
    assert old in GOOD
    found = problems(GOOD.replace(old, new, 1))
    assert any(at == line and fault in said for at, said in found), found


def test_every_mistake_is_told_at_once():
    text = GOOD.replace('check = "command"', 'check = "x"').replace('ok = "look"', 'ok = "nowhere"') + "more = 1\n"
    with pytest.raises(ConfigError) as caught:
        library.read("w.toml", nothing, text=text)
    assert caught.value.message.count("w.toml:") >= 2


def test_a_phase_nobody_reaches_and_a_workflow_without_an_end_are_mistakes():
    text = GOOD.replace('ok = "look", failed = "build"', 'ok = "done"')
    assert any("nothing leads to the phase 'look'" in said for _, said in problems(text))
    text = GOOD.replace('approved = "done"', 'approved = "build"')
    assert any("nothing leads to the end" in said for _, said in problems(text))


def test_a_prompt_is_found_beside_the_workflow_first(tmp_path):
    own = tmp_path / ".handoff" / "workflows"
    own.mkdir(parents=True)
    (own / "tdd.toml").write_text(library.load(str(tmp_path), "tdd").text)
    (own / "tdd-red.md").write_text("Mine: {{test}} {{commands}}\n")
    workflow = library.load(str(tmp_path), "tdd")
    assert workflow.path.startswith(str(own))
    assert workflow.phase("red").prompt == "Mine: {{test}} {{commands}}\n"
    assert workflow.phase("green").prompt.startswith("You make one failing test pass")
    kept = library.prompts_of(workflow)
    assert (
        library.read("x.toml", library.frozen_prompts(kept), text=workflow.text).phase("red").prompt.startswith("Mine")
    )


@given(st.text(max_size=400))
def test_any_text_is_a_workflow_or_a_list_of_problems(text):
    workflow, found = library.problems_of("w.toml", text, nothing)
    assert found or workflow.phases
    assert all(problem.line >= 1 for problem in found)


@given(st.lists(st.sampled_from(GOOD.splitlines(keepends=True)), max_size=30))
def test_shuffled_lines_never_crash_the_reader(lines):
    library.problems_of("w.toml", "".join(lines), nothing)


def test_every_check_leads_somewhere():
    assert all(outcomes for outcomes in OUTCOMES.values())

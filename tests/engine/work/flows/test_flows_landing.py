"""A finished flow is taken in whole: its commits with their records, beside the person's own documents; and it is remembered."""

from __future__ import annotations

import re

import pytest

from handoff.board.tasks import flows as rows
from handoff.engine.work.flows import admin, flows
from sandbox import Cli

FOLDER = ".handoff/features/greet"
STATE = (
    "# State\n\n# Current Step\nStep 1: It greets\n\n# Execution Plan\n- [ ] It greets (check: grep -q greet greet.py)\n\n"
    "# Completed Steps\nNone\n\n# Remaining Steps\n1\n"
)


@pytest.mark.slow
def test_landing_a_flow_keeps_its_commits_with_their_records(ground, app):
    cli = Cli(ground.repo.path)
    ground.first_cycle()
    ground.act("2-plan", {"replace": "test-list.md", "old": "- [ ] subtracts one number from another", "new": "- [-] subtracts one number from another (dropped: later)"})  # fmt: skip
    flow = ground.start(app, agents={"": "claude"})
    while flows.look_again(app, flow).state == "running":
        step = flows.step(app, flow=flow, agent="scripted", words=(ground.word,), tell=ground.said.append)
        assert step.concluded.outcome.kind == "ok", step.concluded.outcome.reason
    made = ground.repo.git("rev-list", "main..handoff/calc").split()
    start = ground.repo.head()
    assert "handoff/calc" in cli("land", "handoff/calc").out
    assert ground.repo.git("rev-list", f"{start}..main").split() == made, "as a merge that only moves on"
    told = cli("log", "--git", f"{start}..main").out
    assert told.count(": python3 -m unittest (") == 3, told
    assert "by scripted" in told
    assert "by claude" not in told
    assert "{" not in told
    body = ground.repo.git("log", "-1", "--format=%(trailers)", "--grep=^feat: ")
    assert "Handoff-Tested: unittest: green, 2 passed" in body
    assert "Handoff-Agent: scripted" in body
    # what has ended is still known, without its name
    assert "calc: done after 2 cycles" in cli("show", "calc").out
    assert "verified    1-green" in cli("log", "calc").out
    listed = cli("flow", "list").out
    assert listed.startswith("calc ")
    assert "No flow is under way" in listed
    # the branch went on meanwhile: joined, not rewritten
    cli("undo")
    assert ground.repo.head() == start
    ground.repo.write("notes.txt", "mine\n")
    mine = ground.repo.commit("my own work")
    cli("land", "calc")
    first = ground.repo.git("rev-list", "--parents", "-1", "main").split()
    assert first[1:] == [mine or ground.repo.git("rev-parse", "main^1").strip(), made[0]]
    assert ground.repo.git("log", "-1", "--format=%s", "main").strip() == "calc: a calculator"
    assert cli("log", "--git", f"{start}..main").out.count(": python3 -m unittest (") == 3
    assert ground.repo.git("status", "--porcelain") == ""


@pytest.mark.parametrize("tracked", [True, False])
def test_a_feature_flow_is_taken_in_beside_the_documents_it_wrote(ground, tracked):
    cli = Cli(ground.repo.path)
    cli("init", "greet")
    ground.repo.write(f"{FOLDER}/FEATURE.md", "# Feature: greet\n\n## Goal\nGreet people.\n")
    if tracked:
        ground.repo.commit("the feature's documents")
    ground.act("1-plan", {"write": f"{FOLDER}/STATE.md", "text": STATE})
    ground.act("1-step", {"write": "greet.py", "text": "def greet(n):\n    return n\n"})
    ground.act("1-review", {"write": ".handoff/review.md", "text": "verdict: approved\n"})
    app = ground.app()
    try:
        flow = ground.start(app, "feature", feature="greet")
        for _ in range(2):
            flow = admin.skip(app, flow=rows.get(app.database, key=flow.key), reason="it is small")
        for _ in range(3):
            step = ground.step(app, flow)
            assert step.concluded.outcome.kind == "ok", step.concluded.outcome.reason
        assert step.seen.state == "done"
    finally:
        app.close()
    state = ground.repo.read(f"{FOLDER}/STATE.md")
    assert "- [x] It greets" in state
    assert "# Current Step\nAll steps are done\n" in state
    assert state.endswith("# Completed Steps\n- It greets\n\n# Remaining Steps\n0\n")
    assert ground.repo.git("diff", "--name-only", "main..handoff/calc").split() == ["greet.py"]
    before = ground.repo.head()
    landed = cli("land", "handoff/calc")
    said, ids = landed.out, re.findall(r"handoff undo(?: (\w+))?", landed.err)
    log = ["docs: the documents of greet", "feat: It greets"] if tracked else ["feat: It greets"]
    assert ground.repo.git("log", "--format=%s", f"{before}..").splitlines() == log
    assert ("Committed STATE.md of the feature greet" in said) == tracked
    assert not tracked or ground.repo.git("status", "--porcelain", "--", f"{FOLDER}/*.md") == ""
    assert "- [x] It greets" in ground.repo.read(f"{FOLDER}/STATE.md")
    assert len(ids) == len(log)
    for name in ids:
        cli("undo", *filter(None, [name]))
    assert ground.repo.head() == before
    assert "- [x] It greets" in ground.repo.read(f"{FOLDER}/STATE.md"), "the documents stay as they are"
    ground.repo.git("merge", "-q", "handoff/calc")
    assert ground.repo.read("greet.py")

"""`handoff validate --baton`: what the next session would be told of what is known, and what mends it."""

from __future__ import annotations

import os

from handoff.engine.work.baton_quality import weigh
from scripts import write_script
from workspaces import put, ready

FULL = """# Task

## Rules
- Never change the public interface.

## Goal
Write it.

## State
- HEAD: `abc` on branch `main`

### Work so far, since `abc`
- `a.py` (changed)
- `b.py` (new)

## What was tried
- Session `s1` (claude): killed from outside.
  - ran: `pytest -q` red (exit 1), tests/test_a.py::test_total
  - decided: use Decimal because floats lose cents
  - decided: keep the module
  - did not work: rounding each line

## Next
- What a session before you meant to do next: quantize the sum.
"""


def test_a_text_that_tells_all_it_knows_has_all_points_but_for_its_doubts():
    found = weigh(FULL, FULL, budget=8000, program="handoff", task=True)
    assert all(one.told == one.known for one in found.kinds)
    counted = {one.name: one.known for one in found.kinds}
    assert (counted["rules"], counted["next"], counted["files"], counted["checks"], counted["decisions"]) == (
        1,
        1,
        2,
        1,
        2,
    )
    assert [one.what for one in found.doubts] == [
        "1 decision without a reason",
        "1 red check that nobody explains: pytest -q",
    ]
    assert found.points == 90


def test_what_is_cut_off_costs_the_weight_of_its_kind_and_an_explained_check_costs_nothing():
    told = FULL.replace("- `b.py` (new)\n", "").replace("  - did not work: rounding each line\n", "")
    found = weigh(FULL, told, budget=100, program="handoff", task=True)
    shares = {one.name: (one.told, one.known) for one in found.kinds}
    assert shares["files"] == (1, 2)
    assert shares["history"] == (0, 1)
    assert found.points == round(100 - 7.5 - 5 - 10)
    explained = FULL.replace("rounding each line", "rounding each line, test_total differs by a cent")
    assert len(weigh(explained, explained, budget=8000, program="handoff", task=True).doubts) == 1


def test_nothing_said_of_what_comes_next_is_a_doubt_with_its_command():
    text = FULL.replace("- What a session before you meant to do next: quantize the sum.\n", "- Read the files.\n")
    found = weigh(text, text, budget=8000, program="handoff", task=True)
    assert found.doubts[0].what == "nobody has said what comes next"
    assert found.doubts[0].remedy == "handoff task note 'Next: …'"
    assert found.points == 70


def test_the_baton_of_a_task_is_scored_as_its_next_session_would_get_it(cli, repo, tmp_path):
    cli("task", "add", "demo", "Make it. Never touch b.txt.", "--check", "grep -q made made.txt")
    script = write_script(
        str(tmp_path / "acts.toml"),
        {"write": "made.txt", "text": "half"},
        {"say": "I use text because it is short."},
        {"say": "Next: write the rest of made.txt."},
        {"crash": True},
    )
    cli("session", "start", "demo", "--agent", "scripted", "--with", script, code=1)
    said = cli("validate", "--baton", "demo")
    assert said.out.startswith("Baton of demo: ")
    found = cli("validate", "--baton", "demo", "--json").json
    known = {one["name"]: (one["told"], one["known"]) for one in found["kinds"]}
    assert known["files"] == (1, 1)
    assert known["next"] == (1, 1)
    assert known["decisions"] == (1, 1)
    assert found["points"] == 100
    assert "no task 'nobody'" in cli("validate", "--baton", "nobody", code=1).err
    assert "go with --baton" in cli("validate", "demo", code=2).err


def test_a_features_status_names_what_its_documents_do_not_say_before_one_hands_over(cli, repo):
    base = ready(cli, repo)
    repo.write("form.txt", "one\n")
    cli("step", "done", "--check", "false", code=3)
    cli("note", "Next: the labels, because the check wants them.")
    assert "Before you hand over" not in cli("status").out
    put(repo.path, f"{base}/DECISIONS.md", "# Decisions\n\n- Use sessions\n")
    later = os.stat(os.path.join(repo.path, base, "SESSION.md")).st_mtime + 60
    os.utime(os.path.join(repo.path, "form.txt"), (later, later))
    told = cli("status").out
    assert "Before you hand over: 1 decision without a reason; 1 file newer than the notes." in told
    assert [one["what"] for one in cli("status", "--json").json["untold"]] == [
        "1 decision without a reason",
        "1 file newer than the notes",
    ]
    scored = cli("validate", "--baton")
    assert "Doubt: 1 file newer than the notes. handoff note 'Next: …'" in scored.out
    assert "Baton of the feature: " in scored.out

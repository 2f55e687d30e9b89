"""Whoever comes from the Rust tool goes on in the same folder: nothing is lost, nothing is there twice, nothing surprises."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from handoff.base.markdown import BATON_MARK
from workspaces import PLACES, put, rust_folder, rust_state

VERSIONS = ("0.4.0", "0.5.1", "0.6.2", "0.7.3")
PLAN = "- [x] Set up\n- [>] Parse the file\n- [ ] Store rows\n"


def _contents(root: str) -> dict[str, bytes]:
    """Every file of a folder with its bytes; locks and the history are ours."""
    files = [path for path in Path(root).rglob("*") if path.is_file()]
    mine = [path for path in files if not path.name.startswith(".") and path.name != "history.jsonl"]
    return {str(path.relative_to(root)): path.read_bytes() for path in mine}


def _beside(root: str) -> None:
    """What else people have in such a folder: more features, an archived one, templates of their own."""
    for name in ("second", "first-try.archived"):
        put(root, f".handoff/features/{name}/FEATURE.md", f"# Feature: {name}\n\n## Goal\nAnother thing.\n")
        put(root, f".handoff/features/{name}/STATE.md", rust_state("0.5.1"))
        put(root, f".handoff/features/{name}/SESSION.md", "# What Was Implemented\nNone yet.\n")
    put(root, ".handoff/templates/default_continue_prompt.md", "MY OWN PROMPT\n{{language_instruction}}\n")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_folder_nobody_has_planned_in_goes_on_from_the_start(cli, repo, version):
    base = rust_folder(repo.path, version)
    _beside(repo.path)
    before = _contents(f"{repo.path}/.handoff")
    status = cli("status", "--json").json
    assert (status["feature"], status["plan"]["verdict"]) == ("old-one", "not initialized")
    assert status["language"] == ("German" if version >= "0.6" else "English")
    assert "Ship the importer." in cli("start", "--raw").out
    assert "Execution plan not initialized. Run `handoff start` first." in cli("continue", code=1).err
    assert "Execution plan not initialized." in cli("validate", code=1).err
    for words in (["run"], ["generate"], ["spec"], ["prompt", "context"]):
        cli(*words, "--raw")
    assert cli("list").out == "  first-try.archived\n* old-one\n  second\n"
    assert _contents(f"{repo.path}/.handoff") == before
    cli("step", "add", "Parse the file", "--check", "test -f parsed")
    cli("step", "add", "Store rows")
    state = repo.read(f"{base}/STATE.md")
    assert "# Execution Plan\n- [>] Parse the file  (check: test -f parsed)\n- [ ] Store rows\n\nStep Marker" in state
    assert "Not yet generated." not in state
    assert cli("status", "--json").json["plan"]["current"]["text"] == "Parse the file"


@pytest.mark.parametrize(("version", "place"), [*zip(VERSIONS, PLACES[1:], strict=True), ("0.7.3", "above")])
def test_a_plan_under_way_goes_on_wherever_it_stands_beside_the_legend(cli, repo, version, place):
    base = rust_folder(repo.path, version, state=rust_state(version, PLAN, place, current="Parse the file"))
    _beside(repo.path)
    before = _contents(f"{repo.path}/.handoff")
    for words in ("start", "run", "spec", "design", "tasks", "generate"):
        if version >= "0.5" or words not in ("design", "tasks"):  # those want a SPEC.md
            cli(words, "--raw")
    for words in (["validate"], ["next"], ["status"], ["export", "--diff"]):
        cli(*words)
    prompt = cli("continue", "--raw").out
    assert prompt.startswith(f"{BATON_MARK}\nMY OWN PROMPT")
    assert ("German" in prompt) == (version >= "0.6")
    for words in ("Ship the importer.", "### What Was Implemented\nProject set up.", "Parse the file"):
        assert words in prompt, words
    assert _contents(f"{repo.path}/.handoff") == before

    state = repo.read(f"{base}/STATE.md")
    cli("step", "done", "--unchecked")
    after = repo.read(f"{base}/STATE.md")
    ticked = re.sub(r"  \(done: [^)]*\)", "", after)
    expected = state.replace("- [>] Parse", "- [x] Parse").replace("- [ ] Store", "- [>] Store")
    expected = expected.replace("# Current Step\nParse the file", "# Current Step\nStore rows")
    expected = expected.replace("# Completed Steps\nNone", "# Completed Steps\n- Set up\n- Parse the file")
    assert ticked == expected.replace("# Remaining Steps\nUnknown", "# Remaining Steps\n- Store rows")
    cli("step", "done", "--unchecked")
    assert cli("status", "--json").json["plan"]["verdict"] == "complete"

    cli("dump", "--task", "after-it", "--next", "Announce it.")
    assert [task["task"] for task in cli("task", "list", "--json").json["tasks"]] == ["after-it"]
    kept = _contents(f"{repo.path}/{base}")
    cli("archive", "old-one")
    assert _contents(f"{repo.path}/{base}.archived") == kept
    cli("unarchive", "old-one")
    assert _contents(f"{repo.path}/{base}") == kept
    assert os.readlink(f"{repo.path}/.handoff/current") == "features/old-one"
    left = _contents(f"{repo.path}/.handoff")
    assert {name: left[name] for name in before if "STATE.md" not in name} == {
        name: text for name, text in before.items() if "STATE.md" not in name
    }

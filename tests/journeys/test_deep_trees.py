"""A tree deeper than anybody means it costs a message, never a task: it is named, not kept, not landed, and goes with its clone."""

from __future__ import annotations

import os
import resource

import pytest

from scripts import handoff, write_script

DIG = "import os\nfor number in range(1500):\n    os.mkdir('d'); os.chdir('d')\nopen('deep.txt', 'w').write('x')\n"


@pytest.fixture(autouse=True)
def few_open_files():
    """As an ordinary user has them: git lists nothing below a folder that it cannot open any more."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(1024, before[1]), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize("ignored", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_tree_of_1500_folders_is_named_and_wedges_nothing(repo, cli, tmp_path, ignored):
    repo.write(".gitignore", "d/\n" if ignored else "*.log\n")
    repo.commit("rules")
    cli("dump", "--task", "deep", "--next", "Dig.")
    acts = [{"write": "dig.py", "text": DIG}, {"run": "python3 dig.py; rm dig.py; echo x > plain.txt"}]
    script = write_script(str(tmp_path / "deep.toml"), *acts, {"run": handoff("task", "done", "--summary", "dug")})
    end = cli("session", "start", "deep", "--agent", "scripted", "--with", script, "--json", code=None)
    assert "RecursionError" not in end.out + end.err
    if ignored:
        assert end.json["state"] == "done", end.out
    else:
        assert any("deeper than 200 folders" in path for path in end.json["outside"]), end.out
        cli("cancel", "deep")
    snapshot = cli("snapshot", "take", code=None)
    assert snapshot.code == 0, snapshot.err
    tidied = cli("project", "tidy", code=None)
    assert "Error" not in tidied.err, tidied.err
    for one in cli("workspace", "list", "--json").json:
        cli("workspace", "remove", one["name"], "--force")
    left = os.path.join(os.environ["HANDOFF_HOME"], "repo", "workspaces")
    assert not os.path.isdir(left) or os.listdir(left) == []

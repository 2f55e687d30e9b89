"""`handoff workspace run` as a person uses it."""

from __future__ import annotations

import os

from sandbox import Cli, absent


def test_the_layer_is_told(repo, cli):
    assert cli("workspace", "run", "--status", "--json").json["layer"] in (
        "bubblewrap",
        "landlock",
        "sandbox-exec",
        "none",
    )
    none = Cli(repo.path, HANDOFF_SANDBOX="none")
    assert "Install bubblewrap" in none("workspace", "run", "--status").out
    answer = none("workspace", "run", "--", "sh", "-c", "exit 7", code=7)
    assert "snapshots are the only protection" in answer.err


def test_a_command_runs_inside_and_its_code_comes_back(repo, cli, tmp_path):
    if cli("workspace", "run", "--status", "--json").json["layer"] == "none":
        absent("a sandbox layer")
    tree = cli("workspace", "add", "one", "--json").json["tree"]
    outside = tmp_path / "outside.txt"
    cli("workspace", "run", "--", "sh", "-c", f"echo in > in.txt; echo out > {outside}", cwd=tree, code=None)
    assert os.path.exists(os.path.join(tree, "in.txt"))
    assert not outside.exists()
    assert cli("workspace", "run", "--", "sh", "-c", "exit 5", cwd=tree, code=5).code == 5
    assert "For example" in cli("workspace", "run", code=2).err

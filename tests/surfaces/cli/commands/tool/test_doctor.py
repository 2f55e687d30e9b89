"""`doctor`: every kind of finding, each with what fixes it."""

from __future__ import annotations

import os


def findings(answer) -> dict[str, dict[str, str]]:
    return {one["name"]: one for one in answer.json["findings"]}


def test_the_doctor_finds_nothing_wrong_makes_nothing_and_tells_each_fault_with_its_fix(cli, repo, tmp_path):
    well = findings(cli("doctor", "--json"))
    assert {"git", "repository", "packages", "home", "disk", "database", "hooks", "mcp"} <= set(well)
    assert not [one for one in well.values() if one["state"] == "fault"], well
    assert "the relay's tools answer" in well["mcp"]["words"]
    assert not os.path.exists(os.environ["HANDOFF_HOME"])  # looking makes nothing

    cli.environment.update(GIT_CONFIG_GLOBAL=os.devnull, EMAIL="")
    repo.git("config", "user.useConfigOnly", "true")  # no name is made of the user and the host
    nobody = findings(cli("doctor", "--json"))["identity"]
    assert nobody["state"] == "warning"
    assert "git config --global user.name" in nobody["fix"]
    del cli.environment["GIT_CONFIG_GLOBAL"]
    assert "identity" not in findings(cli("doctor", "--json"))

    cli("dump", "--task", "first", "--next", "x")
    os.chmod(os.environ["HANDOFF_HOME"], 0o755)
    (tmp_path / "empty").mkdir()
    with open(os.path.join(os.environ["HANDOFF_HOME"], "config.toml"), "w", encoding="utf-8") as file:
        file.write("max_runing = 3\n")
    answer = cli("doctor", cwd=str(tmp_path / "empty"), code=1)
    assert "✗ settings" in answer.out
    assert "config.toml:1: unknown key 'max_runing'." in answer.out
    assert "Fix: Did you mean 'max_running'?" in answer.out
    assert "‖ repository  This folder is in no git repository." in answer.out
    assert "1 fault" in answer.out

"""The guard's hooks come with a repository's first open batch and go with its last one."""

from __future__ import annotations

import os

from relay import manifest


def _hooks(cli):
    return set(cli("git-guard", "status", "--json").json["hooks"].values())


def test_the_hooks_come_with_the_first_batch_and_go_with_the_last_and_a_persons_own_stay(cli, repo, tmp_path):
    mine = os.path.join(repo.path, ".git", "hooks", "pre-commit")
    with open(mine, "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\nexit 0\n")
    os.chmod(mine, 0o755)
    assert "installed" not in _hooks(cli)
    cli("dump", "--open-batch", manifest(tmp_path / "a.json", batch="first", parts=("aa", "bb")))
    assert _hooks(cli) == {"installed", "chained"}
    head = repo.head()
    blocked = repo.git("commit", "-q", "--allow-empty", "-m", "x", "--no-verify", check=False, HANDOFF_ROLE="sub-task")
    assert repo.head() == head, blocked
    cli("dump", "--open-batch", manifest(tmp_path / "b.json", batch="second", parts=("cc", "dd")))
    cli("cancel", "first")
    assert _hooks(cli) == {"installed", "chained"}
    for part in ("cc", "dd"):
        cli("task", "claim", f"second/{part}", "--session", part)
        cli("task", "done", "--session", part, "--summary", "made")
    cli("task", "claim", "second-join", "--session", "joiner")
    cli("task", "done", "--session", "joiner", "--summary", "joined")
    assert "installed" not in _hooks(cli)
    with open(mine, encoding="utf-8") as file:
        assert file.read() == "#!/bin/sh\nexit 0\n"
    assert cli("incident", "list", "--json").json["incidents"] == []

    cli("git-guard", "install")
    cli("dump", "--open-batch", manifest(tmp_path / "c.json", batch="third", parts=("ee", "ff")))
    cli("cancel", "third")
    assert "installed" in _hooks(cli)  # the person put them in
    cli("git-guard", "uninstall")
    with open(os.path.join(os.environ["HANDOFF_HOME"], "config.toml"), "w", encoding="utf-8") as file:
        file.write('batch_guard = "no"\n')
    cli("dump", "--open-batch", manifest(tmp_path / "d.json", batch="fourth", parts=("gg", "hh")))
    assert "installed" not in _hooks(cli)

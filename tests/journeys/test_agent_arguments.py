"""Each agent of a mixed fleet has words of its own in the settings; what is said for one session comes after them."""

from __future__ import annotations

import os


def test_every_agent_has_its_own_words_and_what_is_said_for_the_session_comes_last(cli, repo, folder):
    script = os.path.join(folder, "agent.sh")
    with open(script, "w", encoding="utf-8") as file:
        file.write('#!/bin/sh\necho "$@" > words.txt\n')
    os.chmod(script, 0o755)
    home = os.environ["HANDOFF_HOME"]
    os.makedirs(home, exist_ok=True)
    with open(os.path.join(home, "config.toml"), "w", encoding="utf-8") as file:
        file.write(
            f'[agents]\none = ["{script}", "first"]\n\n'
            f'[agents.two]\ncommand = ["{script}", "second"]\narguments = ["--model", "small"]\n\n'
            f'[agents.scripted]\narguments = ["{folder}/script.toml"]\n'
        )
    with open(os.path.join(folder, "script.toml"), "w", encoding="utf-8") as file:
        file.write('[[act]]\nwrite = "words.txt"\ntext = "by script"\n')
    for agent, words in (("one", "first --more"), ("two", "second --model small --more"), ("scripted", "by script")):
        cli("dump", "--task", agent, "--next", agent, "--check", "true")
        cli("session", "start", agent, "--agent", agent, "--with=--more")
        assert repo.read("words.txt").strip() == words
    assert "started with: --model small" in cli("agent", "list").out
    with open(os.path.join(home, "config.toml"), "a", encoding="utf-8") as file:
        file.write('[agents.claude]\nargs = ["--model", "opus"]\n')
    said = cli("agent", "list", code=1)
    assert "config.toml: agents.claude.args is not known" in said.err

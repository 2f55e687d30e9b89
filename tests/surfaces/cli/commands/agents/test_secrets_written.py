"""What a session says, is told and reports is on the disk without secrets, and a refused host is an event."""

from __future__ import annotations

import os

from handoff.agents.sandbox.sandbox import BUBBLEWRAP, layer
from relay import manifest
from sandbox import absent
from scripts import handoff, write_script

SECRET = "correct-horse-battery"


def _holding(folder: str, text: str) -> list[str]:
    found = []
    for top, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(top, name)
            if os.path.isfile(path):
                with open(path, "rb") as file:
                    found += [path] if text.encode() in file.read() else []
    return found


def _start(cli, tmp_path, *acts) -> dict:
    script = write_script(str(tmp_path / "script.toml"), *acts)
    return cli("session", "start", "demo", "--agent", "scripted", "--with", script, "--json", code=None).json


def test_a_secret_is_never_written_down(repo, cli, tmp_path):
    cli.environment["MY_SERVICE_TOKEN"] = SECRET
    os.makedirs(os.environ["HANDOFF_HOME"], mode=0o700, exist_ok=True)
    with open(os.path.join(os.environ["HANDOFF_HOME"], "config.toml"), "w", encoding="utf-8") as file:
        file.write('session_variables = ["MY_SERVICE_TOKEN"]\n')
    cli("dump", "--task", "demo", "--next", "Say it.", "--check", "echo checked $MY_SERVICE_TOKEN; test -f a.txt")
    say = 'echo "said $MY_SERVICE_TOKEN and ghp_' + "a" * 36 + '"; echo "wrong $MY_SERVICE_TOKEN" >&2'
    end = _start(
        cli,
        tmp_path,
        {"run": say},
        {"run": "touch a.txt"},
        {"run": handoff("task", "done", "--summary", '"with $MY_SERVICE_TOKEN"')},
    )
    folder = os.path.join(os.environ["HANDOFF_HOME"], "repo", "sessions", end["session"])
    said = cli("session", "log", end["session"], "--raw").out
    assert "said [redacted] and [redacted]" in said
    assert end["state"] == "done", said
    assert "with [redacted]" in cli("show", "demo").out
    assert _holding(folder, SECRET) == []
    assert _holding(os.environ["HANDOFF_HOME"], SECRET) == []


def test_a_host_that_was_refused_is_told(repo, cli, tmp_path):
    if layer(os.environ, wanted=BUBBLEWRAP) != BUBBLEWRAP:
        absent(BUBBLEWRAP)
    cli("dump", "--task", "demo", "--next", "Fetch it.")
    with open(os.path.join(os.environ["HANDOFF_HOME"], "config.toml"), "w", encoding="utf-8") as file:
        file.write('session_workspace = "clone"\n[agents.scripted]\nnetwork = "providers"\n')
    fetch = "python3 -c \"import urllib.request; urllib.request.urlopen('http://example.invalid/x')\""
    end = _start(cli, tmp_path, {"run": fetch, "may_fail": True}, {"run": handoff("task", "done")})
    assert "does not let this session reach example.invalid:80" in cli("session", "log", end["session"], "--raw").out
    assert "example.invalid:80" in cli("log").out
    assert end["state"] == "done"


def test_words_of_a_person_and_of_a_question_are_kept_without_secrets_and_else_as_they_are(repo, cli, tmp_path):
    cli.environment["MY_SERVICE_TOKEN"] = SECRET
    words = "Ask https://me:hunter2hunter2@example.invalid with my token key; keep  this   as it is: $HOME & <b>"
    told = cli("dump", "--task", "demo", "--next", f"{words}\nUse {SECRET}.")
    assert "A secret was taken out" in told.err
    with open(os.path.join(os.environ["HANDOFF_HOME"], "config.toml"), "w", encoding="utf-8") as file:
        file.write('session_variables = ["MY_SERVICE_TOKEN"]\n')
    end = _start(cli, tmp_path, {"run": handoff("task", "ask", '"Is $MY_SERVICE_TOKEN right?"')})
    assert end["state"] == "gated", end
    shown = cli("show", "demo").out
    assert words.replace("me:hunter2hunter2", "[redacted]") in shown
    assert "Use [redacted]." in shown
    assert "Is [redacted] right?" in cli("gate", "list").out
    cli("answer", "demo", "no", f"no, {SECRET} is old")
    assert _holding(os.environ["HANDOFF_HOME"], SECRET) == []
    assert _holding(os.environ["HANDOFF_HOME"], "hunter2hunter2") == []


def test_the_parts_of_a_batch_are_kept_without_secrets(repo, cli, tmp_path):
    cli.environment["MY_SERVICE_TOKEN"] = SECRET
    path = manifest(tmp_path / "m.json", split_rationale=f"because {SECRET}")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    with open(path, "w", encoding="utf-8") as file:
        file.write(text.replace("Build form.", f"Build it with {SECRET}."))
    cli("dump", "--open-batch", path)
    assert "Build it with [redacted]." in cli("show", "login/form").out
    assert _holding(os.environ["HANDOFF_HOME"], SECRET) == []

"""What the person has set in their own client holds in a session of ours too, and nothing of it stands beside our fence."""

from __future__ import annotations

import os

import pytest

from handoff.agents.sandbox.sandbox import BUBBLEWRAP, LANDLOCK

pytestmark = [pytest.mark.clients, pytest.mark.slow]
SECRET = "a-header-that-is-not-for-all-eyes"
PERSONS = """
model = "gpt-5.5"
model_provider = "house"
sandbox_mode = "danger-full-access"
approval_policy = "never"
notify = ["touch", "{root}/notified"]

[model_providers.house]
name = "our proxy"
base_url = "{url}/v1"
env_key = "CODEX_TEST_KEY"
wire_api = "responses"
request_max_retries = 1
http_headers = {{ "X-House" = "{secret}" }}

[mcp_servers.theirs]
command = "touch"
args = ["{root}/served"]

[[hooks.SessionStart]]
[[hooks.SessionStart.hooks]]
type = "command"
command = "touch {root}/hooked"

[projects."{root}/project"]
trust_level = "trusted"
"""


@pytest.mark.clients("codex")
@pytest.mark.parametrize("where", ["shared", "clone"])
def test_codex_asks_the_persons_provider_and_runs_neither_their_hooks_nor_their_servers(stage, where):
    outside, inside = os.path.join(stage.repo.path, "foreign.txt"), "owned/a.txt"
    if where == "clone":
        stage.need()
    server = stage.serve(
        ("shell", f"echo x > {outside}; mkdir -p owned; echo y > {inside}; handoff task done --summary made"), ("say", "finished")
    )  # fmt: skip
    with open(os.path.join(stage.root, "home/.codex/config.toml"), "w", encoding="utf-8") as file:
        file.write(PERSONS.format(url=server.url, root=stage.root, secret=SECRET))
    words = ("session", "start", "demo", "--agent", "codex", "--minutes", "5", "--workspace", where, "--json")
    end = stage.cli(*words, code=None).json
    assert server.requests, stage.log(end)
    assert (end["outcome"], end["state"]) == ("ok", "done"), stage.log(end)
    assert {told.get("x-house") for told in server.headers} == {SECRET}
    assert {told["model"] for told in server.requests} == {"gpt-5.5"}
    assert not os.path.exists(outside), stage.log(end)
    for name in ("notified", "served", "hooked"):
        assert not os.path.exists(os.path.join(stage.root, name)), name
    assert SECRET not in stage.text(end, "launch.json")
    stage.note("keeps the person's provider and model, not their hooks and servers")


@pytest.mark.clients("gemini")
@pytest.mark.parametrize("where", ["shared", BUBBLEWRAP, LANDLOCK])
def test_gemini_has_the_persons_login_extensions_and_memory_and_nothing_of_them_changes(stage, where):
    home = os.path.join(stage.environment["HOME"], ".gemini")
    files = {
        ".env": f"GEMINI_API_KEY={SECRET}\n",
        "GEMINI.md": "The person likes the number forty-two.\n",
        "extensions/mine/gemini-extension.json": '{"name": "mine", "version": "1.0.0", "contextFileName": "MINE.md"}',
        "extensions/mine/MINE.md": "The extension likes the number nineteen.\n",
        "settings.json": '{"security": {"auth": {"selectedType": "gemini-api-key"}}, /* mine */ "ui": {"hideBanner": true}}\n',
    }
    for name, text in files.items():
        os.makedirs(os.path.dirname(os.path.join(home, name)), exist_ok=True)
        with open(os.path.join(home, name), "w", encoding="utf-8") as file:
            file.write(text)
    if where == "shared":
        stage.set(session_workspace='"shared"')
    else:
        stage.need(where)
        stage.environment["HANDOFF_SANDBOX"] = where
    server = stage.serve(stage.write("owned/a.txt"), ("tool", "finish", {"summary": "by tool"}), ("say", "finished"))
    del stage.environment["GEMINI_API_KEY"]
    end = stage.run()
    assert server.requests, stage.log(end)
    assert (end["outcome"], end["state"], end["reason"]) == ("ok", "done", "by tool"), stage.log(end)
    assert {told.get("x-goog-api-key") for told in server.headers} == {SECRET}
    for words in ("Task `demo` of project", "number forty-two", "number nineteen"):
        assert words in server.texts(0), stage.log(end)
    for name, text in files.items():
        with open(os.path.join(home, name), encoding="utf-8") as file:
            assert file.read() == text, name
    assert stage.repo.git("status", "--short", "--", ".gemini") == ""
    stage.note("keeps the person's login, extensions and memory")

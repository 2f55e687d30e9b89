"""Cursor's agent as a session, by its documentation: a stand-in prints its lines and asks the hooks of its settings file."""

from __future__ import annotations

import json
import os
import sys

from relay import manifest

# What the documentation says of it: `-p PROMPT`, stream-json, hooks from ~/.cursor/hooks.json with JSON in and out.
CURSOR = """#!{python}
import json, os, subprocess, sys
if "--version" in sys.argv:
    print("2026.09.10")
    sys.exit()
hooks = json.load(open(os.path.expanduser("~/.cursor/hooks.json")))["hooks"]
def ask(event, **words):
    (entry,) = hooks[event]
    done = subprocess.run(["sh", "-c", entry["command"]], input=json.dumps(words), capture_output=True, text=True)
    return json.loads(done.stdout or "{{}}")
say = lambda **words: print(json.dumps(words), flush=True)
say(type="system", subtype="init", session_id="chat-1")
start = ask("sessionStart", session_id="chat-1")
outside = ask("preToolUse", tool_name="Write", tool_input={{"file_path": os.path.abspath("other.txt")}})
inside = ask("preToolUse", tool_name="Write", tool_input={{"file_path": os.path.abspath("src/form/a.txt")}})
say(type="tool_call", subtype="started", tool_call={{"writeToolCall": {{}}}})
os.makedirs("src/form", exist_ok=True)
open("src/form/a.txt", "w").close()
with open({seen!r}, "w") as file:
    names = ("HANDOFF_BATCH_ID", "HANDOFF_SUB_TASK_ID", "HANDOFF_ROLE")
    json.dump(dict(argv=sys.argv[1:], start=start, outside=outside, inside=inside, told=[os.environ.get(one) for one in names]), file)
subprocess.run(["git", "add", "src/form/a.txt"])
subprocess.run(["git", "commit", "-q", "-m", "form"])
subprocess.run([{python!r}, "-m", "handoff.surfaces.cli.main", "task", "done", "--summary", "the form is in"], check=True, stdout=2)
say(type="assistant", message={{"content": [{{"type": "text", "text": "It is in."}}]}})
say(type="result", subtype="success", is_error=False, result="It is in.", session_id="chat-1")
"""


def test_a_session_of_cursor_knows_its_part_and_its_installed_hooks_guard_it(cli, tmp_path):
    place = tmp_path / "bin" / "cursor-agent"
    place.parent.mkdir()
    place.write_text(CURSOR.format(python=sys.executable, seen=str(tmp_path / "seen.json")))
    place.chmod(0o755)
    cli.environment["PATH"] = f"{place.parent}:{os.environ['PATH']}"
    cli("setup", "hooks", "install", "--agent", "cursor", "--user")
    cli("dump", "--open-batch", manifest(tmp_path / "m.json"))
    said = cli("session", "start", "login/form", "--agent", "cursor", "--sandbox", "none", "--json").json
    assert said["outcome"] == "ok", said
    shown = cli("show", "login/form", "--json").json
    assert (shown["state"], shown["result"]) == ("done", "the form is in")
    seen = json.loads((tmp_path / "seen.json").read_text())
    assert seen["told"] == ["login", "form", "sub-task"]
    assert seen["argv"][0] == "-p"
    assert "Build form." in seen["argv"][1]
    assert "--force" in seen["argv"]
    assert os.path.isabs(seen["argv"][seen["argv"].index("--workspace") + 1])
    assert "Build form." in json.dumps(seen["start"])
    assert seen["outside"]["permission"] == "deny"
    assert seen["inside"].get("permission") != "deny"

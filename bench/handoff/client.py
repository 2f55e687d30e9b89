"""A stand-in for a coding client: started by a session as `claude`, `codex` and so on, it acts by its script and speaks that client's lines."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys

import acting
import streams

VERSIONS = {"claude": "2.1.325 (Claude Code)", "codex": "codex-cli 0.163.0", "gemini": "0.61.0", "copilot": "1.0.102",
            "opencode": "1.18.18", "aider": "aider 0.86.2"}  # fmt: skip


def start_hook(name, words):
    """The command that the client's settings name for the beginning of a session."""
    if name == "claude":
        with open(words[words.index("--settings") + 1], encoding="utf-8") as file:
            return json.load(file)["hooks"]["SessionStart"][0]["hooks"][0]["command"]
    if name == "codex":
        found = next((one for one in words if one.startswith("hooks.SessionStart=")), "")
        return json.loads(re.findall(r'"command"=("(?:[^"\\]|\\.)*")', found)[0]) if found else ""
    if name == "gemini":
        with open(os.path.join(os.environ["GEMINI_CLI_HOME"], ".gemini", "settings.json"), encoding="utf-8") as file:
            return json.load(file)["hooks"]["SessionStart"][0]["hooks"][0]["command"]
    if name == "copilot":
        with open(os.path.join(os.environ["COPILOT_HOME"], "hooks", "handoff.json"), encoding="utf-8") as file:
            return json.load(file)["hooks"]["sessionStart"][0]["bash"]
    return ""


def main():
    name, scripts, *words = sys.argv[1:]
    if "--version" in words or "-v" in words or "version" in words[:1]:
        print(VERSIONS.get(name, "1.0"))
        return 0
    with open(os.path.join(scripts, f"{os.environ['HANDOFF_TASK'].rpartition('/')[2]}.json"), encoding="utf-8") as file:
        script = json.load(file)
    speak = streams.Speaker(name, os.getcwd())
    speak.begin()
    hook = start_hook(name, words)
    if hook:
        told = json.dumps({"session_id": speak.id, "cwd": os.getcwd(), "source": "startup"})
        subprocess.run(["sh", "-c", hook], input=told, text=True, stdout=subprocess.DEVNULL, check=False)
    trace = {"runs": []}
    played = f"{script['trace']}.played"
    acts = [] if os.path.exists(played) else script["acts"]
    with open(played, "w", encoding="utf-8"):
        pass
    for act in acts:
        acting.perform(act, os.getcwd(), speak.tell, trace)
        if "killed" in act:
            acting.keep(trace, script["trace"])
            os.kill(os.getpid(), signal.SIGKILL)
    if acts:
        acting.keep(trace, script["trace"])
        if script["cut"] == "red test":
            speak.tell({"kind": "say", "text": "I report the task as done."})
            subprocess.run(script["done"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        if script["cut"] == "mid-edit":
            return 1
    speak.end()
    return 1 if script["cut"] == "other vendor" and acts else 0


if __name__ == "__main__":
    sys.exit(main())

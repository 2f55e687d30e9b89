"""A small agent that speaks ACP: for each prompt it does the acts of the next list in its script file, then ends its turn."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

_number = 1000


def send(value: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **value}) + "\n")
    sys.stdout.flush()


def ask(method: str, **parameters: Any) -> dict[str, Any]:
    global _number  # noqa: PLW0603
    _number += 1
    send({"id": _number, "method": method, "params": parameters})
    while True:
        message = json.loads(sys.stdin.readline())
        if message.get("id") == _number:
            return message


def update(value: dict[str, Any]) -> None:
    send({"method": "session/update", "params": {"sessionId": "s1", "update": value}})


def say(text: str) -> None:
    update({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}})


def act(kind: str, *words: str) -> str:
    """Do one act; how the turn stands after it."""
    if kind == "say":
        say(words[0])
    elif kind == "write":
        answer = ask("fs/write_text_file", sessionId="s1", path=words[0], content=words[1])
        say("written" if "result" in answer else f"refused: {answer['error']['message']}")
    elif kind == "permission":
        options = [
            {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
            {"optionId": "no", "name": "No", "kind": "reject_once"},
        ]
        call = {"toolCallId": "t1", "kind": words[0], "title": "edit", "locations": [{"path": words[1]}]}
        answer = ask("session/request_permission", sessionId="s1", toolCall=call, options=options)
        say(f"permission: {answer['result']['outcome'].get('optionId')}")
    elif kind == "run":
        subprocess.run(words[0], shell=True, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    elif kind == "tool":
        update({"sessionUpdate": "tool_call", "toolCallId": "t2", "kind": "execute", "title": words[0]})
        act("run", *words)
        update({"sessionUpdate": "tool_call_update", "toolCallId": "t2", "status": "completed"})
    elif kind == "cancelled":
        while json.loads(sys.stdin.readline()).get("method") != "session/cancel":
            pass
        return "cancelled"
    return "end_turn"


def main(script: str) -> None:
    with open(script, encoding="utf-8") as file:
        turns = json.load(file)
    for line in sys.stdin:
        message = json.loads(line)
        method, number = message.get("method"), message.get("id")
        if method == "initialize":
            send({"id": number, "result": {"protocolVersion": 1, "agentCapabilities": {}}})
        elif method == "session/new":
            send({"id": number, "result": {"sessionId": "s1"}})
        elif method == "session/prompt":
            say("told: " + message["params"]["prompt"][0]["text"])
            reason = "end_turn"
            for words in turns.pop(0) if turns else []:
                reason = act(*words)
            send({"id": number, "result": {"stopReason": reason}})


if __name__ == "__main__":
    main(sys.argv[1])

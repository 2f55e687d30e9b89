"""Whoever plays a session: it really writes the files and really runs the commands; the standard library alone, because sessions start it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

EXPECTED = "tests/expected.txt"
"""In a project: one line a test, `name | file | needle | message`; a test is green where the file holds the needle."""
_LONG = 200


def perform(act, folder, tell, trace):
    """One act, told as the client would tell it. `trace` is what the key is made of."""
    if "browse" in act:
        for number in range(act["browse"]):
            path = f"docs/notes-{number % 3 + 1}.md"
            tell({"kind": "read", "path": path, "output": read(folder, path)})
    for verb in ("write", "append", "replace", "delete"):
        if verb in act:
            tell(_edit(verb, act, folder))
    if "run" in act:
        tell(shell(act["run"], folder, trace))
    if "commit" in act:
        shell("git add -A", folder, {"runs": []})
        tell(shell(f"git commit -q -m '{act['commit']}'", folder, {"runs": []}))
    for verb in ("say", "person", "todo", "compact", "limit"):
        if verb in act:
            tell({"kind": verb, "text": act[verb]})
    if "killed" in act:
        tell({"kind": "open", "command": act["killed"]})


def _edit(verb, act, folder):
    path = os.path.join(folder, act[verb])
    before = read(folder, act[verb])
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if verb == "delete":
        os.unlink(path)
        return {"kind": "file", "path": act[verb], "how": "delete", "old": before, "new": ""}
    after = before.replace(act["old"], act["new"], 1) if verb == "replace" else act["text"]
    assert verb != "replace" or before != after, act
    with open(path, "a" if verb == "append" else "w", encoding="utf-8") as file:
        file.write(after)
    told = {"write": "add" if not before else "update", "append": "update", "replace": "update"}
    old, new = (act["old"], act["new"]) if verb == "replace" else (before, read(folder, act[verb]))
    return {"kind": "file", "path": act[verb], "how": told[verb], "old": old, "new": new}


def read(folder, path):
    try:
        with open(os.path.join(folder, path), encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def shell(command, folder, trace):
    done = subprocess.run(
        ["sh", "-c", command], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, check=False,
    )  # fmt: skip
    red = [list(pair[:2]) for pair in verdicts(folder) if not pair[2]] if done.returncode else []
    trace["runs"].append({"command": command, "exit": done.returncode, "output": done.stdout, "red": red})
    return {"kind": "shell", "command": command, "exit": done.returncode, "output": done.stdout}


def verdicts(folder):
    """Each test of the project as it stands: name, message, whether it is green."""
    found = []
    for line in read(folder, EXPECTED).splitlines():
        name, path, needle, message = (part.strip() for part in line.split("|"))
        found.append((name, message, needle in read(folder, path)))
    return found


# --- the programs that run tests, each in its own form --------------------------------------------------------


def run_tests(program):
    found = verdicts(os.getcwd())
    red = [one for one in found if not one[2]]
    {"pytest": _pytest, "go": _go, "npm": _jest, "cargo": _cargo}[program](found, red)
    return 1 if red else 0


def _pytest(found, red):
    print("=" * 28 + " test session starts " + "=" * 28)
    print(f"collected {len(found)} items\n")
    for name, _, green in found:
        print(f"{name} {'PASSED' if green else 'FAILED'}")
    if red:
        print("\n" + "=" * 35 + " FAILURES " + "=" * 35)
    for name, message, _ in red:
        print(f"{'_' * 30} {name.rpartition('::')[2]} {'_' * 30}\n")
        print("\n".join(f"    step_{number} = prepared({number})" for number in range(12)))
        print(f">       assert result\nE       AssertionError: {message}\n")
    if red:
        print("=" * 26 + " short test summary info " + "=" * 26)
        print("\n".join(f"FAILED {name} - AssertionError: {message}" for name, message, _ in red))
    print(f"{'=' * 20} {len(red)} failed, {len(found) - len(red)} passed in 0.31s {'=' * 20}")


def _go(found, red):
    for name, message, green in found:
        print(
            f"--- {'PASS' if green else 'FAIL'}: {name} (0.00s)"
            + ("" if green else f"\n    main_test.go:21: {message}")
        )
    print("FAIL\nFAIL\texample.invalid/app\t0.004s" if red else "ok  \texample.invalid/app\t0.004s")


def _jest(found, red):
    print("> app@1.0.0 test\n> jest\n")
    for name, message, green in found:
        print(f"  {'✓' if green else '✕'} {name}" + ("" if green else f"\n\n  ● {name}\n\n    {message}\n"))
    print(f"Tests:       {len(red)} failed, {len(found) - len(red)} passed, {len(found)} total")


def _cargo(found, red):
    print(f"running {len(found)} tests")
    for name, _, green in found:
        print(f"test {name} ... {'ok' if green else 'FAILED'}")
    for name, message, _ in red:
        print(f"\n---- {name} stdout ----\nthread '{name}' panicked at src/lib.rs:40:9:\n{message}")
    print(f"\ntest result: {'FAILED' if red else 'ok'}. {len(found) - len(red)} passed; {len(red)} failed")


def keep(trace, path):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(trace, file)


if __name__ == "__main__":
    sys.exit(run_tests(sys.argv[1]))

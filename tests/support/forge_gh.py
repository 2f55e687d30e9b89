"""A stand-in for `gh`: it keeps its state in a file, and speaks the real one's words and documented JSON.

`FORGE_STATE` names the file. What it does not know it refuses, as the real one would.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import subprocess
import sys

ISSUE = "number,url,title,body,author,state,comments"
REQUEST = "number,url,state,headRefName,baseRefName,headRefOid,mergeable,reviewDecision,updatedAt,mergeCommit,statusCheckRollup"
ME = "me"


def main(words: list[str], answer_to, is_write, logged_out: str) -> None:
    path = os.environ["FORGE_STATE"]
    with open(path + ".lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with open(path, encoding="utf-8") as file:
            state = json.load(file)
        if os.path.exists(path + ".killed"):
            with open(path + ".killed", encoding="utf-8") as file:
                state["killed"] = file.read().splitlines()
        state["calls"].append(" ".join(words[:2]) if words[0] != "api" else " ".join(words))
        try:
            if state.get("out"):
                sys.exit(logged_out)
            answer = answer_to(state, words)
        finally:
            with open(path + ".new", "w", encoding="utf-8") as file:
                json.dump(state, file, indent=1)
            os.rename(path + ".new", path)
    call = " ".join(words[:4])
    if state.get("deadly") and is_write(words) and call not in state["killed"]:
        with open(
            path + ".killed", "a", encoding="utf-8"
        ) as file:  # what was done is done, and whoever asked never hears of it
            file.write(call + "\n")
        os.kill(os.getppid(), signal.SIGKILL)
        return
    if answer is not None:
        print(answer if isinstance(answer, str) else json.dumps(answer))


def is_write(words: list[str]) -> bool:
    return words[1] in ("comment", "close", "create", "edit") or "POST" in words


def answered(state: dict, words: list[str]):
    verb, rest = tuple(words[:2]), words[2:]
    if words[0] == "api":
        return api(state, words[1:])
    options, names = split(rest)
    if verb == ("issue", "view"):
        expect(options, {"json": ISSUE})
        return issue(state, names[0])
    if verb == ("issue", "list"):
        expect(options, {"json": ISSUE, "state": "open", "limit": "500", "label": options["label"]})
        return [
            issue(state, number) for number, one in state["issues"].items()
            if one["state"] == "OPEN" and options["label"] in one["labels"]
        ]  # fmt: skip
    if verb in (("issue", "comment"), ("pr", "comment")):
        expect(options, {"body-file": "-"})
        add_comment(state, names[0], ME, sys.stdin.read())
        return "https://forge.invalid/comment"
    if verb == ("issue", "close"):
        state["issues"][names[0]]["state"] = "CLOSED"
        return None
    return of_request(state, verb, options, names)


def of_request(state: dict, verb: tuple[str, ...], options: dict[str, str], names: list[str]):
    if verb == ("pr", "create"):
        return create(state, options)
    if verb == ("pr", "list"):
        expect(options, {"json": REQUEST, "state": "open", "limit": "500", "author": "@me"})
        return [request(state, number) for number, one in state["prs"].items() if one["state"] == "OPEN"]
    if verb == ("pr", "view"):
        expect(options, {"json": REQUEST})
        return request(state, names[0])
    if verb == ("pr", "edit"):
        state["prs"][names[0]]["base"] = options["base"]
        return None
    if verb == ("run", "view"):
        return state["logs"][options["job"]]
    sys.exit(f"unknown command {verb}")


def split(words: list[str]) -> tuple[dict[str, str], list[str]]:
    options, names = {}, []
    words = list(words)
    while words:
        word = words.pop(0)
        if word == "--log-failed":
            options["log-failed"] = ""
        elif word.startswith("--"):
            options[word[2:]] = words.pop(0)
        else:
            names.append(word)
    return options, names


def expect(options: dict[str, str], wanted: dict[str, str]) -> None:
    if options != wanted:
        sys.exit(f"unknown flag: {options} is not {wanted}")


def issue(state: dict, number: str) -> dict:
    one = state["issues"][number]
    said = [
        {"id": f"IC_{c['id']}", "author": {"login": c["author"]}, "authorAssociation": "NONE", "body": c["body"]}
        for c in state["comments"] if c["on"] == number
    ]  # fmt: skip
    return {
        "number": int(number), "url": f"https://forge.invalid/o/r/issues/{number}", "title": one["title"],
        "body": one["body"], "author": {"login": one["author"]}, "state": one["state"], "comments": said,
    }  # fmt: skip


def add_comment(state: dict, on: str, author: str, body: str, **more) -> None:
    state["next"] += 1
    state["comments"].append({"id": state["next"], "on": on, "author": author, "body": body, **more})
    if on in state["prs"]:
        state["prs"][on]["updated"] += 1


def create(state: dict, options: dict[str, str]) -> str:
    expect(options, {"body-file": "-", **{name: options[name] for name in ("head", "base", "title")}})
    for number, one in state["prs"].items():
        if one["branch"] == options["head"] and one["state"] == "OPEN":
            sys.exit(
                f'a pull request for branch "{options["head"]}" already exists:\nhttps://forge.invalid/o/r/pull/{number}'
            )
    number = opened(state, branch=options["head"], base=options["base"], title=options["title"], body=sys.stdin.read())
    return f"https://forge.invalid/o/r/pull/{number}"


def head_of(state: dict, one: dict) -> str:
    words = ["git", "--git-dir", state["origin"], "rev-parse", f"refs/heads/{one['branch']}"]
    return one["head"] or subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


def opened(state: dict, **words: str) -> str:
    state["next"] += 1
    number = str(state["next"])
    state["prs"][number] = {
        **words, "state": "OPEN", "checks": [], "mergeable": "MERGEABLE", "review": "", "updated": 1, "merge": None, "head": None,
    }  # fmt: skip
    return number


def request(state: dict, number: str) -> dict:
    one = state["prs"][number]
    head = head_of(state, one)
    return {
        "number": int(number), "url": f"https://forge.invalid/o/r/pull/{number}", "state": one["state"],
        "headRefName": one["branch"], "baseRefName": one["base"], "headRefOid": head, "mergeable": one["mergeable"],
        "reviewDecision": one["review"], "updatedAt": f"2026-11-18T20:00:{one['updated']:02d}Z",
        "mergeCommit": {"oid": one["merge"]} if one["merge"] else None,
        "statusCheckRollup": [c for c in one["checks"] if c.get("head") in (None, head)],
    }  # fmt: skip


def api(state: dict, words: list[str]):
    path = next(word for word in words if word.startswith("repos/"))
    if found := re.fullmatch(r"repos/{owner}/{repo}/collaborators/(.+)/permission", path):
        name = found.group(1)
        permission = "write" if name in state["writers"] else "read" if name in state["readers"] else None
        if permission is None:
            sys.exit(f"gh: {name} is not a user (HTTP 404)")
        return {"permission": permission, "role_name": permission, "user": {"login": name}}
    if found := re.fullmatch(r"repos/{owner}/{repo}/pulls/(\d+)/comments/(\d+)/replies", path):
        if "body=@-" not in words:
            sys.exit("no body")
        above = next(c for c in state["comments"] if c["id"] == int(found.group(2)))
        add_comment(
            state, found.group(1), ME, sys.stdin.read(), path=above["path"], line=above["line"], reply=above["id"]
        )
        return {}
    found = re.fullmatch(r"repos/{owner}/{repo}/(issues|pulls)/(\d+)/(comments|reviews)\?per_page=100", path)
    if not found or "--slurp" not in words:
        sys.exit(f"gh: Not Found (HTTP 404) {words}")
    kind, number, what = found.groups()
    on = [c for c in state["comments"] if c["on"] == number]
    if what == "reviews":
        return [
            [
                {"id": c["id"], "user": {"login": c["author"]}, "body": c["body"], "state": c["verdict"]}
                for c in on
                if "verdict" in c
            ]
        ]
    if kind == "issues":
        return [
            [
                {"id": c["id"], "user": {"login": c["author"]}, "body": c["body"]}
                for c in on
                if "path" not in c and "verdict" not in c
            ]
        ]
    return [[
        {"id": c["id"], "user": {"login": c["author"]}, "body": c["body"], "path": c["path"], "line": c["line"],
         "original_line": c["line"], "diff_hunk": "@@ -0,0 +1 @@\n+the line", "in_reply_to_id": c.get("reply")}
        for c in on if "path" in c
    ]]  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1:], answered, is_write, "To get started with GitHub CLI, please run:  gh auth login")

"""A stand-in for `glab`: the same state as the one for `gh`, told in GitLab's documented REST and GraphQL words.

A field, a flag or an address that it does not know it refuses, as the real one would.
"""

from __future__ import annotations

import json
import re
import sys
from urllib.parse import parse_qs

from forge_gh import ME, add_comment, head_of, main, opened

PROJECT = "g/p"
HERE = f"https://forge.invalid/{PROJECT}/-"
STATES = {"OPEN": "opened", "MERGED": "merged", "CLOSED": "closed"}


def is_write(words: list[str]) -> bool:
    return "POST" in words or "PUT" in words or words[1] == "create"


def answered(state: dict, words: list[str]):
    if words[:2] == ["mr", "create"]:
        return create(state, words[2:])
    if words[0] != "api":
        sys.exit(f"Unknown command: {words}")
    options, fields, paths, rest = {}, {}, [], words[1:]
    while rest:
        word = rest.pop(0)
        if word == "--raw-field":
            name, _, value = rest.pop(0).partition("=")
            fields[name] = value
        elif word == "--paginate":
            options["paginate"] = ""
        elif word in ("--method", "--input", "--header"):
            options[word[2:]] = rest.pop(0)
        elif word.startswith("-"):
            sys.exit(f"Unknown flag: {word}")
        else:
            paths.append(word)
    (path,) = paths
    if path == "graphql":
        return graph(state, fields)
    if options.get("input") == "-":
        fields = json.loads(sys.stdin.read())
    path, _, query = path.partition("?")
    asked = {name: values[0] for name, values in parse_qs(query).items()}
    return rest_api(state, options.get("method", "POST" if fields else "GET"), path, {**asked, **fields}, options)


def create(state: dict, words: list[str]) -> str:
    known = {"--source-branch", "--target-branch", "--title", "--description"}
    if words.pop() != "--yes" or set(words[::2]) != known:
        sys.exit(f"Unknown flag: {words}")
    options = dict(zip(words[::2], words[1::2], strict=True))
    for number, one in state["prs"].items():
        if one["branch"] == options["--source-branch"] and one["state"] == "OPEN":
            sys.exit(f"409 {{message: [Another open merge request already exists for this source branch: !{number}]}}")
    number = opened(
        state, branch=options["--source-branch"], base=options["--target-branch"],
        title=options["--title"], body=options["--description"],
    )  # fmt: skip
    return f"\n!{number} {options['--title']} ({options['--source-branch']})\n {HERE}/merge_requests/{number}\n"


# --- REST ------------------------------------------------------------------------------------------------------------


def rest_api(state: dict, method: str, path: str, fields: dict[str, str], options: dict[str, str]):
    parts = path.split("/")
    match (method, *parts):
        case ("GET", "projects", ":id"):
            return {"id": 1, "path_with_namespace": PROJECT}
        case ("GET", "projects", ":id", "issues"):
            wanted = {"state": "opened", "labels": fields.get("labels"), "per_page": "100"}
            return None if fields != wanted else pages(
                options, [issue(state, number) for number, one in state["issues"].items()
                          if one["state"] == "OPEN" and wanted["labels"] in one["labels"]]
            )  # fmt: skip
        case ("GET", "projects", ":id", "members", "all"):
            levels = dict.fromkeys(state["readers"], 20) | dict.fromkeys(state["writers"], 30)
            found = [
                {"id": at, "username": name, "name": name.title(), "state": "active", "access_level": level}
                for at, (name, level) in enumerate(levels.items()) if fields["query"] in name
            ]  # fmt: skip
            return pages(options, found)
        case ("GET", "projects", ":id", "jobs", job, "trace"):
            return state["logs"][job]
        case (_, "projects", ":id", "issues", number) if number in state["issues"]:
            if method == "PUT" and fields == {"state_event": "close"}:
                state["issues"][number]["state"] = "CLOSED"
            return issue(state, number)
        case (_, "projects", ":id", "merge_requests", number) if number in state["prs"]:
            return merge_request(state, method, number, fields)
        case (_, "projects", ":id", "issues" | "merge_requests", number, *more) if more[-1] in ("notes", "discussions"):
            return notes(state, method, number, more, fields, options)
    sys.exit(f"glab: 404 Not Found (HTTP 404) {method} {path}")


def pages(options: dict[str, str], found: list[dict]) -> str:
    """One list for each page, one behind the other; without the flag, the first one."""
    size = 2  # small, so that there are some
    lists = [found[at : at + size] for at in range(0, len(found), size)] or [[]]
    return "".join(json.dumps(one) for one in (lists if "paginate" in options else lists[:1]))


def issue(state: dict, number: str) -> dict:
    one = state["issues"][number]
    return {
        "id": 1000 + int(number), "iid": int(number), "title": one["title"], "description": one["body"],
        "state": "opened" if one["state"] == "OPEN" else "closed", "labels": one["labels"],
        "author": {"id": 1, "username": one["author"], "name": one["author"].title()}, "web_url": f"{HERE}/issues/{number}",
    }  # fmt: skip


def merge_request(state: dict, method: str, number: str, fields: dict[str, str]) -> dict:
    one = state["prs"][number]
    if method == "PUT":
        one["base"] = fields["target_branch"]
    return {
        "iid": int(number), "state": STATES[one["state"]], "source_branch": one["branch"], "target_branch": one["base"],
        "sha": head_of(state, one), "merge_commit_sha": None, "squash_commit_sha": one["merge"],
        "web_url": f"{HERE}/merge_requests/{number}",
    }  # fmt: skip


def notes(state: dict, method: str, number: str, more: list[str], fields: dict, options: dict[str, str]):
    on = [one for one in state["comments"] if one["on"] == number]
    if method == "POST":
        thread = next((one for one in on if more[0] == "discussions" and of_thread(one) == more[1]), None)
        if more[0] == "discussions" and thread is None:
            sys.exit("glab: 404 Discussion Not Found (HTTP 404)")
        place = {"path": thread["path"], "line": thread["line"], "reply": thread["id"]} if thread else {}
        add_comment(state, number, ME, fields["body"], **place)
        return {"id": state["next"], "body": fields["body"]}
    if more == ["notes"] and fields.get("sort") == "asc":
        return pages(
            options, [{"id": 1, "body": "added 1 commit", "system": True, "author": {"username": ME}}, *map(note, on)]
        )
    if more != ["discussions"]:
        sys.exit(f"glab: 404 Not Found (HTTP 404) {more} {fields}")
    threads: dict[str, list[dict]] = {}
    for one in on:
        threads.setdefault(of_thread(one), []).append(note(one))
    return pages(
        options,
        [{"id": name, "individual_note": "position" not in said[0], "notes": said} for name, said in threads.items()],
    )


def of_thread(one: dict) -> str:
    return f"{one.get('reply') or one['id']:040x}"


def note(one: dict) -> dict:
    place = {
        "position_type": "text", "old_path": one["path"], "new_path": one["path"], "old_line": None, "new_line": one["line"],
    } if "path" in one else None  # fmt: skip
    return {
        "id": one["id"], "type": "DiffNote" if place else None, "body": one["body"], "system": False,
        "author": {"id": 1, "username": one["author"]}, **({"position": place, "resolvable": True} if place else {}),
    }  # fmt: skip


# --- GraphQL ---------------------------------------------------------------------------------------------------------


def graph(state: dict, fields: dict[str, str]):
    tokens = re.findall(r"\w+|[{}():]|[^\s\w]", fields.pop("query"))
    del tokens[: tokens.index("{") + 1]
    mine = [number for number, one in state["prs"].items() if one["state"] == "OPEN"]
    start = int(fields.get("after") or 0)

    def authored(arguments: str) -> dict:
        if "state:opened" not in arguments or "first:100" not in arguments:
            sys.exit(f"glab: bad arguments {arguments}")
        more = {"hasNextPage": start + 100 < len(mine), "endCursor": str(start + 100)}
        return {"nodes": [in_graph(state, number) for number in mine[start : start + 100]], "pageInfo": more}

    def project(_: str) -> dict | None:
        found = fields["path"] == PROJECT
        return {"mergeRequest": lambda _: in_graph(state, fields["number"]), "fullPath": PROJECT} if found else None

    root = {"currentUser": {"authoredMergeRequests": authored}, "project": project}
    return {"data": chosen(root, selection(tokens))}


def in_graph(state: dict, number: str) -> dict:
    one = state["prs"][number]
    head = head_of(state, one)
    checks = [check for check in one["checks"] if check["head"] == head]
    jobs = [
        {"id": f"gid://gitlab/Ci::Build/{check['detailsUrl'].rpartition('/')[2]}", "name": check["name"], "status": "FAILED",
         "allowFailure": False, "webPath": f"/{PROJECT}/-/jobs/77", "retried": old}
        for check in checks if check["conclusion"] == "FAILURE" for old in (True, False)
    ]  # fmt: skip

    def failed(arguments: str) -> dict:
        if "statuses:[FAILED]" not in arguments:
            sys.exit(f"glab: bad arguments {arguments}")
        return {"nodes": [job for job in jobs if not (job["retried"] and "retried:false" in arguments)]}

    line = {"status": "FAILED" if jobs else "SUCCESS", "jobs": failed}
    return {
        "iid": number, "webUrl": f"{HERE}/merge_requests/{number}", "state": STATES[one["state"]], "sourceBranch": one["branch"],
        "targetBranch": one["base"], "diffHeadSha": head, "conflicts": one["mergeable"] == "CONFLICTING",
        "detailedMergeStatus": "MERGEABLE", "updatedAt": f"2026-11-18T20:00:{one['updated']:02d}Z", "mergeCommitSha": None,
        "headPipeline": line if checks else None, "project": {"fullPath": PROJECT},
    }  # fmt: skip


def selection(tokens: list[str]) -> dict[str, tuple]:
    """What is asked for, by the name it gets: the field, its arguments, and what is asked of it."""
    found = {}
    while (name := tokens.pop(0)) != "}":
        field, arguments, inner = name, "", None
        if tokens[0] == ":":
            field = tokens[1]
            del tokens[:2]
        if tokens[0] == "(":
            end = tokens.index(")")
            arguments = "".join(tokens[1:end])
            del tokens[: end + 1]
        if tokens[0] == "{":
            tokens.pop(0)
            inner = selection(tokens)
        found[name] = (field, arguments, inner)
    return found


def chosen(value, wanted: dict[str, tuple] | None):
    if isinstance(value, list):
        return [chosen(one, wanted) for one in value]
    if not isinstance(value, dict):
        return value
    if wanted is None:
        sys.exit("glab: Field must have selections")
    answer = {}
    for name, (field, arguments, inner) in wanted.items():
        if field not in value:
            sys.exit(f"glab: Field '{field}' doesn't exist")
        known = value[field]
        answer[name] = chosen(known(arguments) if callable(known) else known, inner)
    return answer


if __name__ == "__main__":
    main(sys.argv[1:], answered, is_write, "glab: 401 Unauthorized (HTTP 401)\nPlease run: glab auth login")

"""GitLab, through `glab`: its list of requests tells nothing of pipelines, so that one question is GraphQL; the rest is REST."""

from __future__ import annotations

import json
import re
from urllib.parse import quote

from handoff.base.errors import UserError
from handoff.base.record import TYPE_CHECKING
from handoff.forges.contract import (
    CLOSED,
    MERGED,
    OPEN,
    ForgeCheck,
    ForgeComment,
    ForgeIssue,
    ForgeRequest,
    login_of,
    state_of,
    told,
)

if TYPE_CHECKING:
    from typing import Any

    from handoff.forges.contract import Ask

_HERE = "projects/:id"
_FIELDS = (
    "iid webUrl state sourceBranch targetBranch diffHeadSha conflicts detailedMergeStatus updatedAt mergeCommitSha"
    " headPipeline { status failed: jobs(statuses: [FAILED], retried: false, first: 20) { nodes { id name allowFailure webPath } } }"
)
_OPEN = "query($after: String) { currentUser { authoredMergeRequests(state: opened, first: 100, after: $after)"
_OPEN += f" {{ nodes {{ {_FIELDS} project {{ fullPath }} }} pageInfo {{ hasNextPage endCursor }} }} }} }}"
_ONE = f"query($path: ID!, $number: String!) {{ project(fullPath: $path) {{ mergeRequest(iid: $number) {{ {_FIELDS} }} }} }}"
_DEVELOPER = 30
_PAGES = 5
_RUNNING = {
    "CREATED",
    "WAITING_FOR_RESOURCE",
    "WAITING_FOR_CALLBACK",
    "PREPARING",
    "PENDING",
    "RUNNING",
    "CANCELING",
    "SCHEDULED",
}
_STATES = {"opened": OPEN, "locked": OPEN, "merged": MERGED}  # locked: it is being merged just now
_STEP = re.compile(
    r"section_start:\d+:(?:step|build)_script\b[^\r\n]*\r?(.*?)(?:section_end:\d+:(?:step|build)_script\b|\Z)",
    re.DOTALL,
)
_NOISE = re.compile(
    r"^[\dT:.-]{19,}Z [0-9a-f]{2}[OE][+ ]?|section_(?:start|end):\d+:[^\r\n]*\r?|\x1b\[[\d;]*[A-Za-z]|\r$", re.MULTILINE
)
_QUICK = re.compile(r"^(\s*)/(?=[A-Za-z_]+(?:\s|$))", re.MULTILINE)


class GitLab:
    """What `glab` says of the project of a checkout."""

    program = "glab"

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._path = ""

    def issue(self, number: int) -> ForgeIssue:
        """One issue with its comments."""
        one = told(self._ask("api", f"{_HERE}/issues/{number}"), "glab", dict)
        return _issue(one)._replace(comments=tuple(self.comments(number, request=False)))

    def issues(self, label: str) -> list[ForgeIssue]:
        """The open issues with a label."""
        found = self._listed(f"{_HERE}/issues?state=opened&labels={quote(label, safe='')}")
        return [_issue(one)._replace(comments=tuple(self.comments(one["iid"], request=False))) for one in found]

    def comments(self, number: int, *, request: bool) -> list[ForgeComment]:
        """What people wrote below an issue or a request, the oldest first."""
        found = self._listed(f"{_HERE}/{_kind(request)}/{number}/notes?sort=asc")
        return [_comment(one) for one in found if not one.get("system")]

    def comment(self, number: int, text: str, *, request: bool) -> None:
        """Write below an issue or a request."""
        self._post(f"{_HERE}/{_kind(request)}/{number}/notes", text)

    def close_issue(self, number: int) -> None:
        """Close an issue; one that is closed stays so."""
        self._ask("api", f"{_HERE}/issues/{number}", "--method", "PUT", "--raw-field", "state_event=close")

    def may_write(self, name: str) -> bool:
        """Whether somebody may push to the project: a developer or more."""
        found = self._listed(f"{_HERE}/members/all?query={quote(name, safe='')}")
        return any(one.get("username") == name and one.get("access_level", 0) >= _DEVELOPER for one in found)

    def requests(self) -> list[ForgeRequest]:
        """All open requests of the person, a hundred in one call."""
        found: list[ForgeRequest] = []
        after, path = "", self._project()
        for _ in range(_PAGES):
            page = self._graph("currentUser", _OPEN, after=after)["authoredMergeRequests"]
            found += [_request(one) for one in page["nodes"] if one["project"]["fullPath"] == path]
            after = page["pageInfo"]["endCursor"] or ""
            if not page["pageInfo"]["hasNextPage"]:
                break
        return found

    def request(self, number: int) -> ForgeRequest:
        """One request, also one that is over."""
        found = self._graph("project", _ONE, path=self._project(), number=str(number))
        one = _request(found["mergeRequest"] or _refuse(f"has no request {number}"))
        if one.state != MERGED or one.merged_as:
            return one
        # A fast-forward makes no merge commit; which commit a squash made, only REST tells.
        more = told(self._ask("api", f"{_HERE}/merge_requests/{number}"), "glab", dict)
        return one._replace(merged_as=more.get("squash_commit_sha") or "")

    def reviews(self, number: int) -> list[ForgeComment]:
        """What reviewers wrote on lines: the notes of discussions that have a place in the diff."""
        found = []
        for one in self._listed(f"{_HERE}/merge_requests/{number}/discussions"):
            for note in one["notes"]:
                place = note.get("position") or {}
                if place and not note.get("system"):
                    path = place.get("new_path") or place.get("old_path") or ""
                    line = int(place.get("new_line") or place.get("old_line") or 0)
                    found.append(_comment(note)._replace(path=path, line=line, thread=str(one["id"])))
        return found

    def reply(self, number: int, comment: ForgeComment, text: str) -> None:
        """Answer in the discussion of a line."""
        thread = f"discussions/{comment.thread}/" if comment.thread else ""
        self._post(f"{_HERE}/merge_requests/{number}/{thread}notes", text)

    def retarget(self, number: int, base: str) -> None:
        """Let a request ask for another branch."""
        field = f"target_branch={base}"
        self._ask("api", f"{_HERE}/merge_requests/{number}", "--method", "PUT", "--raw-field", field)

    def failed_log(self, check: ForgeCheck) -> str:
        """What the script of a failed job printed, without the colors and times of the runner; a job elsewhere has only its address."""
        if not check.job:
            return f"See {check.link}" if check.link else ""
        text = self._ask("api", f"{_HERE}/jobs/{check.job}/trace")
        step = _STEP.search(text)
        return _NOISE.sub("", step.group(1) if step else text).strip("\n")

    @staticmethod
    def creation(*, branch: str, base: str, title: str, body: str) -> tuple[list[str], bytes | None]:
        """The words that open a request without a question."""
        words = ["glab", "mr", "create", "--source-branch", branch, "--target-branch", base]
        return [*words, "--title", title, "--description", _plain(body), "--yes"], None

    def _project(self) -> str:
        self._path = self._path or told(self._ask("api", _HERE), "glab", dict)["path_with_namespace"]
        return self._path

    def _post(self, path: str, text: str) -> None:
        given = json.dumps({"body": _plain(text)})
        self._ask(
            "api", path, "--method", "POST", "--header", "Content-Type: application/json", "--input", "-", given=given
        )

    def _listed(self, path: str) -> list[dict[str, Any]]:
        mark = "&" if "?" in path else "?"
        text = self._ask("api", "--paginate", f"{path}{mark}per_page=100")
        found: list[dict[str, Any]] = []
        while text.strip():  # one list for each page, one behind the other
            try:
                page, end = json.JSONDecoder().raw_decode(text.strip())
            except ValueError:
                page, end = told(text, "glab"), len(text)
            found += page
            text = text.strip()[end:]
        return found

    def _graph(self, what: str, query: str, **values: str) -> dict[str, Any]:
        fields = [word for name, value in values.items() if value for word in ("--raw-field", f"{name}={value}")]
        answer = told(self._ask("api", "graphql", "--raw-field", f"query={query}", *fields), "glab", dict)
        data: dict[str, Any] = answer.get("data") or {}
        return dict(data.get(what) or _refuse(f"tells no {what}: {answer.get('errors') or ''}"[:300]))


def _refuse(what: str) -> Any:
    raise UserError(f"The forge {what}", "See what it says of your account: glab auth status")


def _plain(text: str) -> str:
    """Words that do nothing: a line like `/merge` would be obeyed as the person's own."""
    return _QUICK.sub(r"\1\\/", text)


def _kind(request: bool) -> str:
    return "merge_requests" if request else "issues"


def _comment(one: dict[str, Any]) -> ForgeComment:
    return ForgeComment(id=str(one["id"]), author=login_of(one.get("author"), "username"), body=one.get("body") or "")


def _issue(one: dict[str, Any]) -> ForgeIssue:
    return ForgeIssue(
        number=int(one["iid"]),
        url=one["web_url"],
        title=one["title"],
        body=one.get("description") or "",
        author=login_of(one.get("author"), "username"),
        open=one["state"] == "opened",
    )


def _request(one: dict[str, Any]) -> ForgeRequest:
    line = one.get("headPipeline") or {}
    status = str(line.get("status") or "")
    bad = [
        ForgeCheck(job["name"], _job(str(job["id"])), job.get("webPath") or one["webUrl"])
        for job in (line.get("failed") or {}).get("nodes") or ()
        if not job.get("allowFailure")
    ]
    if status == "FAILED" and not bad:  # no job began: its description is wrong
        bad = [ForgeCheck("pipeline", "", one["webUrl"])]
    return ForgeRequest(
        number=int(one["iid"]),
        url=one["webUrl"],
        branch=one["sourceBranch"],
        base=one["targetBranch"],
        head=one.get("diffHeadSha") or "",
        state=_STATES.get(one["state"], CLOSED),
        checks=state_of(bad if status == "FAILED" else [], status in _RUNNING, status == "SUCCESS"),
        failed=tuple(bad),
        conflicts=bool(one.get("conflicts")),
        review=(one.get("detailedMergeStatus") or "").lower().replace("_", " "),
        updated=one.get("updatedAt") or "",
        merged_as=one.get("mergeCommitSha") or "",
    )


def _job(name: str) -> str:
    """The number of a job that has a log; one that starts a pipeline elsewhere has none."""
    return name.rpartition("/")[2] if "Bridge" not in name else ""

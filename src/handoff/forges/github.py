"""GitHub, through `gh`: `gh help formatting` names the fields asked for here, the REST manual those of `gh api`."""

from __future__ import annotations

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

_ISSUE = "number,url,title,body,author,state,comments"
_REQUEST = "number,url,state,headRefName,baseRefName,headRefOid,mergeable,reviewDecision,updatedAt,mergeCommit,statusCheckRollup"
_MOST = "500"
_HERE = "repos/{owner}/{repo}"
_BAD = {"FAILURE", "TIMED_OUT", "STARTUP_FAILURE", "ACTION_REQUIRED", "ERROR"}
_WAITING = {"PENDING", "EXPECTED"}
_WRITERS = {"admin", "write"}
_ASKED_CHANGES = "CHANGES_REQUESTED"


class GitHub:
    """What `gh` says of the repository of a checkout."""

    program = "gh"

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    def issue(self, number: int) -> ForgeIssue:
        """One issue with its comments."""
        return _issue(told(self._ask("issue", "view", str(number), "--json", _ISSUE), "gh", dict))

    def issues(self, label: str) -> list[ForgeIssue]:
        """The open issues with a label."""
        words = ("issue", "list", "--label", label, "--state", "open", "--limit", _MOST, "--json", _ISSUE)
        return [_issue(one) for one in told(self._ask(*words), "gh")]

    def comments(self, number: int, *, request: bool) -> list[ForgeComment]:
        """What was written below an issue or a request; to the forge both are one list."""
        del request
        found = self._listed(f"{_HERE}/issues/{number}/comments")
        return [
            ForgeComment(id=str(one["id"]), author=login_of(one["user"]), body=one.get("body") or "") for one in found
        ]

    def comment(self, number: int, text: str, *, request: bool) -> None:
        """Write below an issue or a request."""
        self._ask("pr" if request else "issue", "comment", str(number), "--body-file", "-", given=text)

    def close_issue(self, number: int) -> None:
        """Close an issue; one that is closed stays so."""
        self._ask("issue", "close", str(number))

    def may_write(self, name: str) -> bool:
        """Whether somebody may push to the repository."""
        asked = self._ask("api", f"{_HERE}/collaborators/{name}/permission", missing="{}")
        return told(asked, "gh", dict).get("permission") in _WRITERS

    def requests(self) -> list[ForgeRequest]:
        """All open requests of the person, in one call."""
        words = ("pr", "list", "--author", "@me", "--state", "open", "--limit", _MOST, "--json", _REQUEST)
        return [_request(one) for one in told(self._ask(*words), "gh")]

    def request(self, number: int) -> ForgeRequest:
        """One request, also one that is over."""
        return _request(told(self._ask("pr", "view", str(number), "--json", _REQUEST), "gh", dict))

    def reviews(self, number: int) -> list[ForgeComment]:
        """What reviewers wrote on lines, and what they asked to be changed."""
        lines = [
            ForgeComment(
                id=str(one["id"]),
                author=login_of(one["user"]),
                body=one.get("body") or "",
                path=one.get("path") or "",
                line=int(one.get("line") or one.get("original_line") or 0),
                code=(one.get("diff_hunk") or "").rpartition("\n")[2][1:],
                thread=str(one.get("in_reply_to_id") or one["id"]),
            )
            for one in self._listed(f"{_HERE}/pulls/{number}/comments")
        ]
        whole = [
            ForgeComment(id=f"review-{one['id']}", author=login_of(one["user"]), body=one["body"])
            for one in self._listed(f"{_HERE}/pulls/{number}/reviews")
            if one.get("state") == _ASKED_CHANGES and one.get("body")
        ]
        return [*lines, *whole]

    def reply(self, number: int, comment: ForgeComment, text: str) -> None:
        """Answer in the thread of a line; what stands at no line is answered below the request."""
        if not comment.thread:
            self.comment(number, text, request=True)
            return
        words = ("api", f"{_HERE}/pulls/{number}/comments/{comment.thread}/replies", "--method", "POST")
        self._ask(*words, "--field", "body=@-", given=text)

    def retarget(self, number: int, base: str) -> None:
        """Let a request ask for another branch."""
        self._ask("pr", "edit", str(number), "--base", base)

    def failed_log(self, check: ForgeCheck) -> str:
        """What the failed step printed, as `gh run view` tells it; of a foreign check there is only its address."""
        if not check.job:
            return f"See {check.link}" if check.link else ""
        text = self._ask("run", "view", "--job", check.job, "--log-failed")
        lines = (line.split("\t", 2) for line in text.splitlines())
        return "\n".join(parts[-1].partition("Z ")[2] or parts[-1] for parts in lines)

    @staticmethod
    def creation(*, branch: str, base: str, title: str, body: str) -> tuple[list[str], bytes | None]:
        """The words that open a request without a question; the text stands on the input."""
        words = ["gh", "pr", "create", "--head", branch, "--base", base, "--title", title, "--body-file", "-"]
        return words, body.encode("utf-8", "surrogateescape")

    def _listed(self, path: str) -> list[dict[str, Any]]:
        pages = told(self._ask("api", "--paginate", "--slurp", f"{path}?per_page=100"), "gh")
        return [one for page in pages for one in page]


def _issue(one: dict[str, Any]) -> ForgeIssue:
    said = [
        ForgeComment(id=str(comment["id"]), author=login_of(comment["author"]), body=comment.get("body") or "")
        for comment in one.get("comments") or ()
    ]
    return ForgeIssue(
        number=int(one["number"]),
        url=one["url"],
        title=one["title"],
        body=one.get("body") or "",
        author=login_of(one["author"]),
        open=one["state"] == "OPEN",
        comments=tuple(said),
    )


def _request(one: dict[str, Any]) -> ForgeRequest:
    checks = one.get("statusCheckRollup") or []
    bad = [_check(check) for check in checks if (check.get("conclusion") or check.get("state")) in _BAD]
    # A check run has a status and then a conclusion; a status of older services has a state alone.
    running = any(
        check["state"] in _WAITING if "state" in check else check.get("status") != "COMPLETED" for check in checks
    )
    return ForgeRequest(
        number=int(one["number"]),
        url=one["url"],
        branch=one["headRefName"],
        base=one["baseRefName"],
        head=one["headRefOid"],
        state={"OPEN": OPEN, "MERGED": MERGED}.get(one["state"], CLOSED),
        checks=state_of(bad, running, bool(checks)),
        failed=tuple(bad),
        conflicts=one.get("mergeable") == "CONFLICTING",
        review=(one.get("reviewDecision") or "").lower().replace("_", " "),
        updated=one.get("updatedAt") or "",
        merged_as=str((one.get("mergeCommit") or {}).get("oid") or ""),
    )


def _check(one: dict[str, Any]) -> ForgeCheck:
    link = str(one.get("detailsUrl") or one.get("targetUrl") or "")
    job = link.rpartition("/job/")[2].partition("?")[0] if "/actions/runs/" in link and "/job/" in link else ""
    return ForgeCheck(str(one.get("name") or one.get("context") or "a check"), job, link)

"""What a forge delivers at `/hooks/FORGE/PROJECT`: a label makes an issue a task; news of a request or an issue of ours let the forge
itself be asked, so that nothing a delivery says is believed; a red check of another branch becomes work."""

from __future__ import annotations

import hashlib
import hmac
import json
import re

from handoff.base.errors import Conflict, HandoffError, Refused, UserError
from handoff.base.ids import slug
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board import forges as rows
from handoff.board import tokens
from handoff.board.tasks import tasks
from handoff.engine.app.home import home_config
from handoff.engine.outcome import whole_check
from handoff.engine.work import orders
from handoff.engine.work.forges import issues, watch
from handoff.engine.work.tasks import create
from handoff.forges.contract import MARK

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from handoff.engine.app import App

PATH = re.compile(r"/hooks/(github|gitlab)/([a-z0-9-]{2,60})")
MOST_BYTES = 1024 * 1024
SECRETS = "hook_secrets"
_WRITERS = ("OWNER", "MEMBER", "COLLABORATOR")
_DELIVERIES = {"github": "x-github-delivery", "gitlab": "x-gitlab-event-uuid"}


class Forged(Refused):
    """A delivery that does not prove where it comes from."""


class ForgeDelivery(Record):
    """What one is about; `ignored` says why nothing is done."""

    issue: int = 0
    """That got the label."""
    number: int = 0
    """Of the issue or request of which there is news."""
    branch: str = ""
    """Of the request of which there is news."""
    fix: orders.Order | None = None
    """What is to be made of a red check of a branch that is no request of ours."""
    ignored: str = ""


def take(app: App, forge: str, project: str, headers: Mapping[str, str], body: bytes) -> dict[str, Any]:
    """Do what a delivery asks for, once; nothing of it is read before it has proved where it comes from."""
    _refuse_forged(app, forge, project, headers, body)
    name = headers.get(_DELIVERIES[forge], "")
    if not re.fullmatch(r"[!-~]{1,200}", name):
        raise Forged("A delivery without a number of its own could be sent again and again.")
    try:
        told = json.loads(body)
        found = (_github if forge == "github" else _gitlab)(headers, told if isinstance(told, dict) else {})
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise HandoffError(f"This is no delivery of {forge} that we understand: {type(error).__name__}.") from error
    if found.ignored:
        return {"ignored": found.ignored}
    caller = f"hook {forge} {project}"
    if tokens.answer_to(app.database, caller=caller, name=name, asked=body) is not None:
        raise Conflict(f"The delivery {name} was taken before.", "Nothing was changed.")
    try:
        answer = _follow(app, project, found)
    except Conflict:
        raise
    except HandoffError as error:  # delivered again when it is mended, it is followed
        watch.note_failure(app, error, project=project, whose=caller)
        raise
    with app.database.transaction() as transaction:
        tokens.keep_answer(transaction, caller=caller, name=name, asked=body, answer=answer)
    return answer


def _refuse_forged(app: App, forge: str, project: str, headers: Mapping[str, str], body: bytes) -> None:
    secret = str(home_config(app).values[SECRETS].get(project, ""))
    if forge == "github":
        wanted = "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
        given = headers.get("x-hub-signature-256", "")
    else:
        wanted, given = secret, headers.get("x-gitlab-token", "")
    if not hmac.compare_digest(wanted.encode(), given.encode("utf-8", "replace")) or not secret:
        raise Forged(f"The delivery is not signed with the secret of '{project}'.", f"Set it in config.toml: {SECRETS}")


def _follow(app: App, project: str, found: ForgeDelivery) -> dict[str, Any]:
    """Done twice it changes nothing: who dies before the delivery is noted may do it again."""
    place = orders.place_of(app, project)
    if found.issue:
        check = whole_check.found(app, place.workspace)
        request = create.Request(task="", brief="", landing=tasks.REVIEW, check=check)
        task = issues.take(app, found.issue, request=request, project=place)
        return orders.Made(orders.TASK, task.key, task.label, task.state)._asdict()
    if _is_ours(app, project, found):
        try:
            troubles = watch.look(app)
        except Conflict:
            return {"ignored": "the forge is being asked already; what that misses, the next look finds"}
        if troubles:
            raise UserError(" ".join(troubles))
        return {"looked": True}
    if found.fix is None:
        return {"ignored": "it is about no request or issue of ours"}
    if tasks.is_known(app.database, project=project, id=found.fix.id):
        return {"ignored": f"there is a task '{found.fix.id}' already"}
    return orders.make(app, place, found.fix)._asdict()


def _is_ours(app: App, project: str, found: ForgeDelivery) -> bool:
    known: list[Any] = [*rows.live_requests(app.database, project=project)]
    if found.branch:
        return any(one.branch == found.branch for one in known)
    known += [one for one in rows.live_issues(app.database, host=app.settings.host) if one.project == project]
    return any(one.number == found.number for one in known)


def _github(headers: Mapping[str, str], told: Mapping[str, Any]) -> ForgeDelivery:
    event, action = headers.get("x-github-event", ""), told.get("action", "")
    if event == "issues" and action == "labeled" and told["label"]["name"] == tasks.ISSUE_LABEL:
        return ForgeDelivery(issue=int(told["issue"]["number"]))
    if event == "pull_request_review" and action == "submitted":
        return _said(told["pull_request"], told["review"])
    if event in ("pull_request_review_comment", "issue_comment") and action == "created":
        return _said(told["issue" if event == "issue_comment" else "pull_request"], told["comment"])
    if event == "pull_request" and action in ("closed", "synchronize"):
        return ForgeDelivery(number=int(told["pull_request"]["number"]))
    if event == "workflow_run" and action == "completed" and told["workflow_run"]["conclusion"] == "failure":
        run = told["workflow_run"]
        if run["head_repository"]["full_name"] != told["repository"]["full_name"]:
            return ForgeDelivery(ignored="it ran for a fork")
        return _red(str(run["head_branch"]), str(run["head_sha"]), str(run["name"]), str(run["html_url"]))
    return ForgeDelivery(ignored=f"nothing is done for {event} {action}".strip())


def _said(about: Mapping[str, Any], comment: Mapping[str, Any]) -> ForgeDelivery:
    if comment["author_association"] not in _WRITERS:
        return ForgeDelivery(ignored="whoever wrote it may not write to the repository")
    return _news(about["number"], comment.get("body"))


def _news(number: object, body: object) -> ForgeDelivery:
    if MARK in str(body):
        return ForgeDelivery(ignored="handoff wrote it")
    return ForgeDelivery(number=int(str(number)))


def _gitlab(headers: Mapping[str, str], told: Mapping[str, Any]) -> ForgeDelivery:
    event, one = headers.get("x-gitlab-event", ""), told.get("object_attributes") or {}
    if event == "Issue Hook" and one.get("action") in ("open", "update"):
        new = {"current": told.get("labels", ())} if one["action"] == "open" else told["changes"].get("labels", {})
        now, before = ({label["title"] for label in new.get(name) or ()} for name in ("current", "previous"))
        if tasks.ISSUE_LABEL in now - before:
            return ForgeDelivery(issue=int(one["iid"]))
        return ForgeDelivery(ignored=f"it did not get the label {tasks.ISSUE_LABEL}")
    if event == "Note Hook":
        return _news((told.get("merge_request") or told["issue"])["iid"], one.get("note"))
    if event == "Merge Request Hook" and one.get("action") in ("merge", "close", "update"):
        return ForgeDelivery(number=int(one["iid"]))
    if event == "Pipeline Hook" and one.get("status") == "failed":
        request = told.get("merge_request") or {}
        if request.get("source_project_id") != request.get("target_project_id"):
            return ForgeDelivery(ignored="it ran for a fork")
        jobs = ", ".join(str(job["name"]) for job in told.get("builds", ()) if job["status"] == "failed")
        return _red(str(one["ref"]), str(one["sha"]), jobs or "the pipeline", str(one.get("url") or ""))
    return ForgeDelivery(ignored=f"nothing is done for {event}")


def _red(branch: str, sha: str, check: str, url: str) -> ForgeDelivery:
    said = f"A check is red on branch {_plain(branch)} at {_plain(sha)[:10]}. Find the cause and mend it. {_plain(url)}"
    name = f"fix-{slug(check)[:30].strip('-') or 'check'}-{_plain(sha)[:8]}"
    fix = orders.Order(kind=orders.DO, id=name, words=f"{said}\n\n{issues.in_frame(check)}")
    return ForgeDelivery(branch=branch, fix=fix)


def _plain(text: str) -> str:
    """A name or an address: without what a sentence would need."""
    return re.sub(r"[^\w./:#?=&@+-]", "", text)[:300]

"""GitLab's own JSON, as its manual shows it, in our words."""

from __future__ import annotations

import json

import pytest

from handoff.base.errors import UserError
from handoff.forges import catalog
from handoff.forges.contract import GREEN, MERGED, NONE, OPEN, RED, RUNNING, ForgeCheck
from handoff.forges.gitlab import GitLab

MERGE_REQUEST = {
    "iid": "5", "webUrl": "https://gitlab.invalid/g/p/-/merge_requests/5", "state": "opened", "sourceBranch": "pr/sum",
    "targetBranch": "main", "diffHeadSha": "a" * 40, "conflicts": False, "detailedMergeStatus": "CI_MUST_PASS",
    "updatedAt": "2026-11-18T20:00:00Z", "mergeCommitSha": None, "project": {"fullPath": "g/p"},
    "headPipeline": {"status": "FAILED", "failed": {"nodes": [
        {"id": "gid://gitlab/Ci::Build/77", "name": "test", "allowFailure": False, "webPath": "/g/p/-/jobs/77"},
        {"id": "gid://gitlab/Ci::Build/78", "name": "lint", "allowFailure": True, "webPath": "/g/p/-/jobs/78"},
    ]}},
}  # fmt: skip
DISCUSSION = {"id": "d1", "notes": [
    {"id": 1, "system": False, "author": {"username": "ann"}, "body": "Why?", "position": {"new_path": "sum.py", "new_line": 3}},
    {"id": 2, "system": True, "author": {"username": "ann"}, "body": "changed this line", "position": {"new_path": "sum.py"}},
]}  # fmt: skip


class Program:
    """Plays `glab`: answers by the beginning of what it is asked, and remembers the words."""

    def __init__(self, **answers: object) -> None:
        self.answers, self.asked = answers, []

    def __call__(self, *words: str, given: str | None = None, missing: str | None = None) -> str:
        self.asked.append((words, given))
        path = next(word for word in words[1:] if not word.startswith("-"))
        for name, answer in self.answers.items():
            if name in path.replace("/", "_").replace(":", ""):
                return answer if isinstance(answer, str) else json.dumps(answer)
        return missing or "[]"


def _page(*found: dict) -> dict:
    listed = {"nodes": found, "pageInfo": {"hasNextPage": False, "endCursor": ""}}
    return {"data": {"currentUser": {"authoredMergeRequests": listed}}}


def test_all_open_requests_come_with_their_pipelines_in_one_question():
    other = {**MERGE_REQUEST, "project": {"fullPath": "g/other"}}
    program = Program(graphql=_page(MERGE_REQUEST, other), projects_id={"path_with_namespace": "g/p"})
    (found,) = GitLab(program).requests()
    assert (found.number, found.branch, found.base, found.checks) == (5, "pr/sum", "main", RED)
    assert [(check.name, check.job) for check in found.failed] == [("test", "77")], "what may fail is not red"
    assert sum("graphql" in words for words, _ in program.asked) == 1


def test_a_merged_request_says_as_what():
    over = {**MERGE_REQUEST, "state": "merged", "mergeCommitSha": "b" * 40, "headPipeline": {"status": "SUCCESS"}}
    program = Program(graphql={"data": {"project": {"mergeRequest": over}}}, projects_id={"path_with_namespace": "g/p"})
    found = GitLab(program).request(5)
    assert (found.state, found.merged_as, found.checks) == (MERGED, "b" * 40, GREEN)


def _one(**changed: object) -> GitLab:
    found = {"data": {"project": {"mergeRequest": {**MERGE_REQUEST, **changed}}}}
    rest = {"iid": 5, "merge_commit_sha": None, "squash_commit_sha": "c" * 40}
    return GitLab(Program(graphql=found, merge_requests_5=rest, projects_id={"path_with_namespace": "g/p"}))


def test_a_squash_without_a_merge_commit_says_as_what_it_was_merged():
    assert _one(state="merged").request(5).merged_as == "c" * 40


def test_a_request_that_is_just_being_merged_is_not_closed():
    assert _one(state="locked").request(5).state == OPEN


@pytest.mark.parametrize(
    ("status", "checks"),
    [("SUCCESS", GREEN), ("FAILED", RED), ("CANCELED", NONE), ("MANUAL", NONE), ("WAITING_FOR_CALLBACK", RUNNING)],
)
def test_only_a_pipeline_that_succeeded_is_green_also_where_no_job_began(status, checks):
    found = _one(headPipeline={"status": status, "failed": {"nodes": []}}).request(5)
    assert found.checks == checks


def test_a_job_that_starts_another_pipeline_has_an_address_and_no_log():
    bridge = {"id": "gid://gitlab/Ci::Bridge/9", "name": "below", "allowFailure": False, "webPath": None}
    forge = _one(headPipeline={"status": "FAILED", "failed": {"nodes": [bridge]}})
    (check,) = forge.request(5).failed
    assert forge.failed_log(check) == f"See {MERGE_REQUEST['webUrl']}"


def test_the_log_of_a_job_is_what_its_script_printed():
    trace = (
        "Running on runner-xyz\nsection_start:1:step_script\r\x1b[0K\x1b[32;1m$ make\x1b[0;m\r\n"
        "2026-11-18T20:00:00.123456Z 01O E assert\nsection_end:2:step_script\r\x1b[0KERROR: Job failed\n"
    )
    forge = GitLab(Program(trace=trace))
    assert forge.failed_log(ForgeCheck("test", "77")) == "$ make\nE assert"
    assert GitLab(Program(trace="no sections\n")).failed_log(ForgeCheck("test", "77")) == "no sections"


def test_words_of_others_are_never_a_quick_action():
    program = Program()
    GitLab(program).comment(5, "It says:\n/merge\n /label ~bug\nsee /tmp\n/tmp/x stays", request=True)
    said = json.loads(program.asked[-1][1])["body"]
    assert said == "It says:\n\\/merge\n \\/label ~bug\nsee /tmp\n/tmp/x stays"
    words, _ = GitLab.creation(branch="b", base="main", title="t", body="/approve\n")
    assert "\\/approve\n" in words


@pytest.mark.parametrize("answer", [{"data": None, "errors": []}, {"data": {"project": {"mergeRequest": None}}}])
def test_a_request_that_is_not_there_is_an_error_with_a_command(answer):
    with pytest.raises(UserError, match="The forge"):
        GitLab(Program(graphql=answer, projects_id={"path_with_namespace": "g/p"})).request(5)


def test_a_word_on_a_line_is_answered_in_its_discussion():
    program = Program(discussions=[DISCUSSION])
    forge = GitLab(program)
    (found,) = forge.reviews(5)
    assert (found.author, found.path, found.line, found.thread) == ("ann", "sum.py", 3, "d1")
    forge.reply(5, found, "Because.")
    words, given = program.asked[-1]
    assert words[1] == "projects/:id/merge_requests/5/discussions/d1/notes"
    assert json.loads(given) == {"body": "Because."}


def test_pages_behind_each_other_are_one_list():
    notes = [{"id": number, "system": False, "author": {"username": "ann"}, "body": "x"} for number in (1, 2)]
    program = Program(notes=json.dumps(notes[:1]) + json.dumps(notes[1:]))
    assert [one.id for one in GitLab(program).comments(5, request=False)] == ["1", "2"]


@pytest.mark.parametrize(("level", "may"), [(20, False), (30, True)])
def test_a_developer_may_write_and_a_reporter_may_not(level, may):
    program = Program(members=[{"username": "ann", "access_level": level}, {"username": "anna", "access_level": 50}])
    assert GitLab(program).may_write("ann") is may


def test_rubbish_is_an_error_with_a_command():
    with pytest.raises(UserError, match="printed no answer that handoff knows"):
        GitLab(Program(issues="<html>")).issue(3)


def test_the_word_in_the_host_says_which_forge_it_is_and_one_that_is_missing_is_named(tmp_path):
    for name in ("gh", "glab"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    kind = catalog.kind_for("git@gitlab.invalid:g/p.git", path=str(tmp_path))
    assert kind is GitLab
    assert catalog.kind_for("git@code.invalid:g/p.git", path=str(tmp_path)) is catalog.OURS["github"]
    with pytest.raises(UserError, match="glab is not installed"):
        catalog.connect("git@gitlab.invalid:g/p.git", folder=str(tmp_path), environment={"PATH": "/nowhere"})

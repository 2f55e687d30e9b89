"""The API does what its document says: requests made of the document, right ones and wrong ones, against the real rows."""

from __future__ import annotations

import asyncio

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from starlette.testclient import TestClient

from handoff.base.settings import from_environment
from handoff.board import gates, tokens
from handoff.board.tasks import tasks
from handoff.engine.app import App
from handoff.surfaces.api import routes
from handoff.surfaces.api.server import Api, ApiLimits, Feed

FEW = settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None)
ACTS = {
    "/gates/{key}/answer",
    "/tasks/{key}/cancel",
    "/projects/{project}/pause",
    "/tasks",
    "/batches",
    "/flows",
    "/tasks/claim",
    "/tasks/{key}/finish",
}  # one of each kind: they share their code
ORDERS = ("/tasks", "/batches", "/flows", "/tasks/claim")
"""What a document cannot say of them: names of agents and tasks that are there, parts that own different files."""
MODES = (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE)


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """Some rows, and a token that may do everything."""
    with pytest.MonkeyPatch.context() as patch:
        home = tmp_path_factory.mktemp("api")
        patch.setenv("HANDOFF_HOME", str(home / "handoff"))
        app = App(from_environment()._replace(folder=str(home)))
        for number in range(3):
            task = tasks.add(app.database, project="shop", id=f"task-{number}", brief="Work.")
        gates.ask(app.database, key=task.key, question="May I?")
        token = tokens.make(app.database, name="all", scope="steer", project="", by="me").secret
        yield app.settings, {"Authorization": f"Bearer {token}"}
        app.close()


def _fuzz(operation, mode, headers):
    # A text without any word in it is no question.
    free = [schemathesis.checks.positive_data_acceptance] if operation.path in ("/search", *ORDERS) else []

    @FEW
    @given(operation.as_strategy(generation_mode=mode))
    def answers_as_it_says(case):
        case.call_and_validate(headers=headers, excluded_checks=free)

    answers_as_it_says()


@pytest.mark.slow
def test_every_kind_of_operation_answers_as_the_document_says(served):
    chosen, headers = served
    api = Api(chosen, ApiLimits(at_once=1e6, wrong_seconds=0.0))
    schema, seen = schemathesis.openapi.from_asgi(f"{routes.PREFIX}{routes.DOCUMENT}", api), set()
    for operation in (found.ok() for found in schema.exclude(path=routes.STREAM).get_all_operations()):
        if operation.method == "post" and operation.path not in ACTS:
            continue
        for mode in MODES if operation.path_parameters or operation.query or operation.body else MODES[:1]:
            _fuzz(operation, mode, headers)
        seen.add(operation.path)
    assert seen >= {one.path for one in routes.OPERATIONS if one.method == "GET" and one.path != routes.STREAM} | ACTS


def test_a_token_that_asks_too_often_is_told_to_wait(served):
    chosen, headers = served
    client = TestClient(Api(chosen, ApiLimits(at_once=3, a_second=0.0)))
    answers = [client.get(f"{routes.PREFIX}/flows", headers=headers) for _ in range(5)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429, 429]
    assert answers[-1].headers["retry-after"] == "1"


def test_a_busy_stream_ends_with_its_token(served):
    chosen, _ = served
    app = App(chosen)
    token = tokens.make(app.database, name="follower", scope="read", project="shop", by="me").secret

    async def follow() -> int:
        lines = await Feed(chosen, alive=0.1).open("shop", 0, token)
        count = 0
        async for line in lines:
            if line.startswith("id: "):
                count += 1
                tokens.withdraw(app.database, name="follower", by="me") if count == 1 else None
                tasks.add(
                    app.database, project="shop", id=f"more-{count}", brief="Work."
                )  # there is always more to tell
        return count

    assert asyncio.run(asyncio.wait_for(follow(), 30)) > 1
    app.close()

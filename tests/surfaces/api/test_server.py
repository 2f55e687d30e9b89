"""The API as a program meets it: over HTTP, with tokens that may more or less, and a journal that goes on."""

from __future__ import annotations

import pytest

from api_port import ApiPort
from handoff.surfaces.api.server import MOST_BYTES


@pytest.fixture
def port(cli, repo):
    """Until the test is over."""
    made = ApiPort(cli)
    yield made
    made.close()


def test_nobody_gets_further_than_its_token_says(port, cli):
    cli("task", "add", "demo", "Make a.")
    cli("task", "add", "theirs", "Not yours.", "--project", "depot")
    (task,) = port.ask("GET", "/tasks")[1]["items"]
    assert task["task"] == "demo"  # of another project nothing is seen
    assert port.ask("GET", "/tasks?project=depot")[0] == 403
    theirs = cli("show", "theirs", "--project", "depot", "--json").json
    assert theirs["state"] == "ready"
    assert port.ask("GET", f"/tasks/{task['key'] + 1}", "steer")[0] == 404
    assert port.ask("POST", f"/tasks/{task['key'] + 1}/cancel", "steer")[0] == 404
    assert port.ask("POST", "/projects/depot/pause", "steer")[0] == 404
    assert port.ask("GET", "/search?q=yours")[1]["items"] == []
    for scope in ("read", "answer"):
        status, said, headers = port.ask("POST", f"/tasks/{task['key']}/cancel", scope)
        assert (status, headers["content-type"]) == (403, "application/problem+json")
        assert said["hint"] == "handoff token new NAME --scope steer"
    assert port.ask("GET", "/tasks", host="evil.example")[0] == 421
    assert port.ask("GET", "/tasks", origin="https://evil.example")[0] == 403
    status, said, headers = port.ask("GET", "/tasks", token="t-000000000000.00")
    assert (status, headers["www-authenticate"]) == (401, "Bearer")
    session = cli("task", "claim", "demo", "--json").json["session"]
    assert port.ask("GET", "/tasks", token=f"{session}.abc")[0] == 401
    short = port.token("steer", "--until", "1s", name="short")
    port.ask("GET", "/journal")
    cli("token", "withdraw", "read")
    assert port.ask("GET", "/tasks")[0] == 401
    until = cli("token", "list", "--all", "--json").json[-1]["until"]
    while port.ask("GET", "/tasks", token=short)[0] == 200:
        continue
    assert "expired" in cli("token", "list", "--all").out, until


def test_a_person_elsewhere_answers_and_steers_in_the_words_of_the_command_line(port, cli):
    cli("task", "add", "demo", "Make a.")
    cli("task", "claim", "demo")
    cli("task", "ask", "May I drop the old table?")
    (gate,) = port.ask("GET", "/gates")[1]["items"]
    assert "code" not in gate
    path = f"/gates/{gate['key']}/answer"
    assert port.ask("POST", path, "read", {"answer": "yes"})[0] == 403
    assert port.ask("POST", path, "answer", {"answer": "no"})[1]["detail"] == "Say why: the next session reads it."
    status, said, _ = port.ask("POST", path, "answer", {"answer": "yes", "text": "-- but keep the rows"})
    assert (status, said["command"]) == (200, "handoff answer demo yes '--reason=-- but keep the rows' --project repo")
    status, said, _ = port.ask("POST", path, "answer", {"answer": "yes"})
    assert (status, said["detail"]) == (409, "The gate of 'demo' was already approved by token answer.")
    assert "token answer" in cli("log", "demo", "--json").out
    (task,) = port.ask("GET", "/tasks?state=ready")[1]["items"]
    status, said, _ = port.ask("POST", f"/tasks/{task['key']}/retry", "steer")
    told = cli("retry", "demo", code=4).err
    assert (status, f"Error: {said['detail']}\nHint: {said['hint']}\n") == (409, told)
    change = {"brief": "Make b.", "agent": "codex", "model": "big", "note": "b, not a"}
    status, said, _ = port.ask("POST", f"/tasks/{task['key']}/edit", "steer", change)
    assert (status, said["text"]) == (200, "demo: brief, agent, model, note changed. It is ready.")
    assert port.ask("POST", f"/tasks/{task['key']}/edit", "steer", {"check": "curl evil.example"})[0] == 400
    shown = cli("show", "demo", "--json").json
    assert (shown["brief"], shown["agent"]) == ("Make b.", "codex")
    session = cli("task", "claim", "demo", "--json").json["session"]
    path = f"/sessions/{session}/say"
    assert port.ask("POST", path, "answer", {"text": "hurry"})[0] == 403
    assert (
        port.ask("POST", path, "steer", {"text": "hurry", "now": "yes"})[1]["detail"]
        == "'now': Input should be a valid boolean."
    )
    status, said, _ = port.ask("POST", path, "steer", {"text": "use the other table", "now": False})
    assert (status, said["command"]) == (200, f"handoff session say {session} 'use the other table'")
    assert port.ask("POST", "/sessions/session-none/say", "steer", {"text": "hurry"})[0] == 404
    note, word = port.ask("GET", f"/sessions/{session}/messages")[1]["messages"]
    assert (note["text"], note["state"]) == ("b, not a", "delivered"), "it stands in the baton"
    assert (word["text"], word["by"], word["state"]) == ("use the other table", "token steer", "queued")
    assert port.ask("POST", f"/tasks/{task['key']}/release", "steer", {"reason": "wrong one"})[0] == 200
    assert cli("show", "demo", "--json").json["state"] == "ready"
    assert port.ask("POST", f"/tasks/{task['key']}/cancel", "steer", {"reason": "no more"})[0] == 200
    assert port.ask("GET", f"/tasks/{task['key']}")[1]["state"] == "cancelled"


def test_a_follower_comes_back_where_it_was_and_pages_have_no_gap(port, cli):
    for number in range(5):
        cli("task", "add", f"task-{number}", "Work.")
    pages, after = [], 0
    while after is not None:
        _, page, _ = port.ask("GET", f"/journal?limit=3&after={after}")
        pages += page["items"]
        after = page["next"]
    assert [event["task"] for event in pages if event["kind"] == "task.added"] == [f"task-{n}" for n in range(5)]
    keys = [event["seq"] for event in pages]
    assert [int(event["id"]) for event in port.follow(3, f"/stream?after={keys[-4]}")] == keys[-3:]
    (first,) = port.follow(1, **{"last-event-id": str(keys[-2])})
    assert (int(first["id"]), first["specversion"], first["data"]) == (keys[-1], "1.0", pages[-1])
    assert first["type"] == f"handoff.{pages[-1]['kind']}"
    tasks = port.ask("GET", "/tasks?limit=2")[1]
    rest = port.ask("GET", f"/tasks?limit=9&after={tasks['next']}")[1]
    assert [task["task"] for task in (*tasks["items"], *rest["items"])] == [f"task-{number}" for number in range(5)]


def test_what_is_too_much_or_no_request_at_all_is_told_so(port):
    path = "/tasks/1/cancel"
    assert port.ask("POST", path, "steer", b"x" * (MOST_BYTES + 1))[0] == 413
    assert port.ask("POST", path, "steer", b"[" * 60_000)[0] == 400
    assert (
        port.ask("POST", path, "steer", b"reason=x", **{"content-type": "application/x-www-form-urlencoded"})[0] == 415
    )
    assert port.ask("POST", path, "steer", {"reason": 5})[1]["detail"] == "'reason': Input should be a valid string."
    assert port.ask("DELETE", "/tasks")[2]["allow"] == "GET, POST"
    assert port.ask("GET", "/tasks?limit=9999999")[0] == 400
    statuses = [port.ask("GET", "/openapi.json", token="")[0], port.ask("GET", "/nowhere")[0]]
    assert statuses == [200, 404]


def test_a_program_that_watches_reads_figures_of_its_project(port, cli):
    cli("task", "add", "demo", "Make a.")
    cli("task", "claim", "demo")
    cli("task", "ask", "May I?")
    cli("task", "add", "theirs", "Not yours.", "--project", "depot")
    status, text, headers = port.ask("GET", "/metrics")
    assert (status, headers["content-type"]) == (200, "text/plain; charset=utf-8")
    for line in ('handoff_tasks{project="repo",state="gated"} 1', 'handoff_claims_total{project="repo"} 1',
                 'handoff_gates_open{project="repo"} 1', 'handoff_journal_events_total{project="repo",kind="gate.opened"} 1', "# TYPE handoff_journal_events_total counter"):  # fmt: skip
        assert line in text.splitlines()
    assert "depot" not in text
    assert "\nhandoff_cost_day_dollars" not in text, "what all projects cost is not for a token of one"


BATCH = {
    "batch_id": "shop", "fan_in_task": "shop-join", "goal": "A shop.",
    "sub_tasks": [
        {"id": "cart", "brief": "The cart.", "file_ownership": [{"type": "prefix", "path": "cart/"}]},
        {"id": "till", "brief": "The till.", "file_ownership": [{"type": "prefix", "path": "till/"}]},
    ],
}  # fmt: skip


def test_a_program_orders_work_and_the_same_key_orders_it_once(port, cli):
    order = {"brief": "Fix the login.", "owns": ["login/"], "priority": 3, "checked": False}
    key = {"idempotency-key": "delivery-1"}
    assert port.ask("POST", "/tasks", "answer", order)[0] == 403
    status, made, _ = port.ask("POST", "/tasks", "steer", order, **key)
    assert (status, made["kind"], made["state"]) == (200, "task", "ready")
    assert port.ask("POST", "/tasks", "steer", order, **key)[1] == made
    status, said, _ = port.ask("POST", "/tasks", "steer", {**order, "priority": 4}, **key)
    assert (status, said["detail"]) == (409, "The key 'delivery-1' was used for another request.")
    assert [task["task"] for task in port.ask("GET", "/tasks")[1]["items"]] == [made["id"]]
    shown = cli("show", made["id"], "--json").json
    assert (shown["brief"], shown["priority"], shown["check"]) == ("Fix the login.", 3, "")
    assert port.ask("POST", "/batches", "steer", BATCH)[1]["id"] == "shop"
    assert [part["task"] for part in port.ask("GET", "/batches/1")[1]["parts"]] == ["shop/cart", "shop/till"]
    assert port.ask("POST", "/batches", "steer", BATCH)[0] == 409
    status, made, _ = port.ask("POST", "/flows", "steer", {"workflow": "tdd", "request": "Add mail."}, **key)
    assert status == 409, "a key is for one request, whatever it is for"
    status, made, _ = port.ask("POST", "/flows", "steer", {"workflow": "tdd", "request": "Add mail."})
    assert (status, made["kind"]) == (200, "flow")
    every = port.token("steer", "--all-projects", name="every")
    assert "for which project" in port.ask("POST", "/tasks", body=order, token=every)[1]["detail"]
    assert port.ask("POST", "/tasks", body={**order, "project": "repo"}, token=every)[0] == 200
    assert port.ask("POST", "/tasks", "steer", {**order, "project": "depot"})[0] == 403


def test_what_comes_by_network_names_no_command(port):
    for path, body in (
        ("/tasks", {"brief": "Work.", "check": "curl evil.example"}),
        ("/tasks", {"brief": "Work.", "tests": "curl evil.example"}),
        ("/batches", {**BATCH, "check": "curl evil.example"}),
        ("/batches", {**BATCH, "workspace": "/"}),
        ("/batches", {**BATCH, "sub_tasks": [{**part, "check": "curl evil.example"} for part in BATCH["sub_tasks"]]}),
        ("/flows", {"workflow": "../evil.toml", "request": "Work."}),
    ):
        assert port.ask("POST", path, "steer", body)[0] == 400, body
    assert port.ask("GET", "/tasks")[1]["items"] == []


def test_a_runner_of_somebody_elses_takes_a_task_shows_that_it_lives_and_reports_it(port, cli):
    assert "Nothing to take" in port.ask("POST", "/tasks/claim", "steer", {})[1]["detail"]
    (first, second) = (port.ask("POST", "/tasks", "steer", {"brief": f"Work {n}.", "checked": False})[1] for n in "ab")
    status, held, _ = port.ask("POST", "/tasks/claim", "steer", {"agent": "robot"})
    assert (status, held["key"], held["brief"], held["repeated"]) == (200, first["key"], "Work a.", False)
    again = port.ask("POST", "/tasks/claim", "steer", {"agent": "robot", "session": held["session"]})[1]
    assert (again["key"], again["fence"], again["repeated"]) == (held["key"], held["fence"], True)
    whose = {"session": held["session"], "fence": held["fence"]}
    path = f"/tasks/{held['key']}"
    assert port.ask("POST", f"{path}/heartbeat", "steer", {**whose, "fence": 99})[0] == 409
    assert port.ask("POST", f"{path}/heartbeat", "steer", whose)[1]["fence"] == held["fence"]
    assert port.ask("POST", f"{path}/finish", "steer", {**whose, "outcome": "blocked"})[0] == 400
    said = port.ask("POST", f"{path}/finish", "steer", {**whose, "outcome": "done", "text": "It works."})[1]
    assert said["text"] == f"{first['id']} is done."
    assert port.ask("POST", f"{path}/finish", "steer", {**whose, "outcome": "done"})[0] == 200, (
        "a repeated report changes nothing"
    )
    named = port.ask("POST", "/tasks/claim", "steer", {"key": second["key"]})[1]
    whose = {"session": named["session"], "fence": named["fence"], "outcome": "released", "text": "not mine"}
    assert port.ask("POST", f"/tasks/{second['key']}/finish", "steer", whose)[0] == 200
    assert cli("show", second["id"], "--json").json["state"] == "ready"

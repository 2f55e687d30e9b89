"""`token new`, `token list`, `token withdraw`: shown once, kept as a hash, worthless when it is over."""

from __future__ import annotations

import os

from handoff.board import tokens
from handoff.board.tasks import tasks


def test_a_token_is_shown_once_and_stands_nowhere(cli, repo):
    made = cli("token", "new", "grafana", "--json").json
    secret = made["secret"].partition(".")[2]
    assert (made["scope"], made["project"], made["state"]) == ("read", "repo", "good")
    assert secret not in cli("token", "list", "--json").out + cli("log").out + cli("token", "list").out
    for folder, _, names in os.walk(os.environ["HANDOFF_HOME"]):
        for name in names:
            with open(os.path.join(folder, name), "rb") as file:
                assert secret.encode() not in file.read(), name
    assert "token made" in cli("log").out
    plain = cli("token", "new", "phone", "--scope", "answer", "--until", "30d")
    assert plain.out.startswith("t-")
    assert plain.out.count("\n") == 1  # a script takes it from standard output
    assert "may read and answer gates of project repo, until" in plain.err


def test_a_withdrawn_token_is_listed_on_request_and_its_name_is_free(cli, repo):
    cli("token", "new", "ci", "--scope", "steer", "--all-projects")
    assert "There is a token 'ci' already" in cli("token", "new", "ci", code=4).err
    assert "opens nothing" in cli("token", "withdraw", "ci").out
    assert "is withdrawn already" in cli("token", "withdraw", "ci", code=1).err
    assert "There is no token 'nobody'" in cli("token", "withdraw", "nobody", code=1).err
    assert "There is no token." in cli("token").out
    cli("token", "new", "ci")
    assert [one["state"] for one in cli("token", "list", "--all", "--json").json] == ["withdrawn", "good"]
    assert "token withdrawn" in cli("log", "--all-projects").out


def test_a_token_that_makes_no_sense_is_refused_with_what_to_give(cli, repo):
    assert "For example: 90s" in cli("token", "new", "x1", "--until", "yesterday", code=1).err
    assert "Give a moment to come" in cli("token", "new", "x1", "--until", "2001-01-01T00:00:00Z", code=1).err
    cli("token", "new", "x1", "--scope", "root", code=2)
    assert "cannot name a token" in cli("token", "new", "../x", code=1).err
    assert cli("token", "list", "--json").json == []


def test_only_the_whole_token_opens_and_only_until_it_ends(database):
    made = tokens.make(database, name="phone", scope="answer", project="shop", by="me", seconds=60)
    assert tokens.check(database, made.secret).name == "phone"
    assert tokens.listing(database)[0].used_at is not None
    id, _, secret = made.secret.partition(".")
    for wrong in ("", ".", id, f"{id}.", f"{id}.{secret[:-1]}", f"{id}.{secret}0", f"t-000000000000.{secret}", f".{secret}",
                  f"{id}.é", made.token.hash, f"{id}.{made.token.hash}"):  # fmt: skip
        assert tokens.check(database, wrong) is None, wrong
    database.shift += 61
    assert tokens.check(database, made.secret) is None
    again = tokens.make(database, name="phone", scope="read", project="", by="me")
    tokens.withdraw(database, name=again.token.id, by="me")
    assert tokens.check(database, again.secret) is None


def test_a_scope_has_those_before_it():
    allowed = {scope: [wanted for wanted in tokens.SCOPES if tokens.may(scope, wanted)] for scope in tokens.SCOPES}
    assert allowed == {"read": ["read"], "answer": ["read", "answer"], "steer": ["read", "answer", "steer"]}


def test_a_token_of_a_project_that_is_renamed_goes_with_it(database):
    tokens.make(database, name="ci", scope="read", project="shop", by="me")
    tasks.rename_project(database, old="shop", new="store")
    assert [token.project for token in tokens.listing(database)] == ["store"]

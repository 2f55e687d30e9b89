"""Money: what a killed session used is kept, and a task or a batch that has spent its budget is not started again."""

from __future__ import annotations

import os
import stat

import pytest

from handoff.board.sessions import expenses, holds
from sandbox import Cli

# As the real client does it: its answers are told in its own record alone until the turn is over, and this one never is.
KILLED = """#!/bin/sh
[ "$1" = --version ] && exec echo codex-cli 0.163.0
echo '{"type":"thread.started","thread_id":"thread-'$$'"}'
echo '{"type":"turn.started"}'
mkdir -p "$CODEX_HOME/sessions/2026/11/17"
at=$(date -u +%Y-%m-%dT%H:%M:%S.%3NZ)
counts='"input_tokens":1000000,"cached_input_tokens":900000,"output_tokens":10000,"reasoning_output_tokens":4000'
usage='{"total_token_usage":{'$counts',"total_tokens":1010000},"last_token_usage":{'$counts',"total_tokens":1010000}}'
cat > "$CODEX_HOME/sessions/2026/11/17/rollout-now-thread-$$.jsonl" <<END
{"timestamp":"$at","type":"turn_context","payload":{"model":"gpt-5.5"}}
{"timestamp":"$at","type":"event_msg","payload":{"type":"token_count","info":$usage}}
END
kill -9 $$
"""
COST = (100_000 * 5 + 900_000 * 0.5 + 10_000 * 30) / 1e6


@pytest.fixture
def killed(repo, place, tmp_path, monkeypatch):
    """A command on a database of each kind, with a client on the PATH that is killed in the middle of its turn."""
    place.open()
    monkeypatch.setenv("HANDOFF_DATABASE_URL", place.url)
    program = tmp_path / "bin" / "codex"
    program.parent.mkdir()
    program.write_text(KILLED)
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    return Cli(repo.path, PATH=path, CODEX_HOME=str(tmp_path / "codex"))


def settings(text):
    with open(os.path.join(os.environ["HANDOFF_HOME"], "config.toml"), "w", encoding="utf-8") as file:
        file.write(f'session_workspace = "shared"\nsession_sandbox = "none"\n{text}')


def test_a_killed_session_keeps_its_tokens_and_its_task_stops_at_its_budget_over_all_attempts(killed, place):
    os.makedirs(os.environ["HANDOFF_HOME"], exist_ok=True)
    settings("max_cost_per_task = 2\n")
    killed("dump", "--task", "demo", "--next", "do it", "--check", "true")
    start = ("session", "start", "demo", "--agent", "codex")
    for _ in range(2):
        end = killed(*start, "--json", code=None).json
        assert (end["outcome"], end["state"]) == ("killed", "ready"), end
    (spent,) = expenses.by_agent(place.open(), days=1)
    assert (spent.agent, spent.sessions, spent.unknown) == ("codex", 2, 0)
    assert spent.tokens == {"input": 200_000, "cached": 1_800_000, "output": 20_000, "reasoning": 8_000}
    assert spent.money == pytest.approx(2 * COST)
    refused = killed(*start, code=3)
    assert f"the sessions of 'demo' cost {2 * COST:.2f} USD, and max_cost_per_task is 2" in refused.err
    assert "Raise max_cost_per_task" in refused.err
    assert killed("show", "demo", "--json").json["attempt"] == 1, (
        "neither a kill from outside nor a refusal costs an attempt"
    )
    (used,) = [one["used"] for one in killed("agent", "list", "--json").json if one["name"] == "codex"]
    assert (used["input"], used["unknown"]) == (200_000, 0)
    settings("max_cost_per_task = 9\n")
    assert killed(*start, "--json", code=None).json["outcome"] == "killed"


def test_the_persons_price_counts_and_a_model_without_one_is_named_as_unknown(killed, place, tmp_path):
    os.makedirs(os.environ["HANDOFF_HOME"], exist_ok=True)
    settings("")
    program = tmp_path / "bin" / "codex"
    program.write_text(KILLED.replace("gpt-5.5", "house-model"))
    killed("dump", "--task", "demo", "--next", "do it", "--check", "true")
    start = ("session", "start", "demo", "--agent", "codex", "--json")
    killed(*start, code=None)
    assert "cost unknown (codex, 1 session); 1,000,000 tokens in" in killed("agent", "list").out
    assert killed("--json").json["unknown_cost"] == 1
    settings('price = { "house" = { input = 1, output = 1 } }\n')
    killed(*start, code=None)
    (spent,) = expenses.by_agent(place.open(), days=1)
    assert (spent.sessions, spent.unknown, spent.money) == (2, 1, pytest.approx(1.01))


def test_the_cost_of_a_copilot_killed_before_it_wrote_its_record_is_unknown(repo, tmp_path):
    os.makedirs(os.environ["HANDOFF_HOME"], exist_ok=True)
    settings("")
    program = tmp_path / "bin" / "copilot"
    program.parent.mkdir()
    said = """echo '{"type":"assistant.message","data":{"content":"I will."}}'"""
    program.write_text(f'#!/bin/sh\n[ "$1" = --version ] && exec echo 1.0.71\n{said}\nkill -9 $$\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    cli = Cli(
        repo.path, PATH=f"{program.parent}{os.pathsep}{os.environ['PATH']}", COPILOT_HOME=str(tmp_path / "copilot")
    )
    cli("dump", "--task", "demo", "--next", "do it", "--check", "true")
    end = cli("session", "start", "demo", "--agent", "copilot", "--json", code=None).json
    assert end["outcome"] == "killed", end
    assert "cost unknown (copilot, 1 session)" in cli("agent", "list").out
    assert cli("--json").json["unknown_cost"] == 1


def test_a_batch_that_has_spent_its_budget_starts_no_part_until_it_is_raised(file_ground):
    ground = file_ground
    once = os.path.join(ground.folder, "once")
    ground.settings("max_cost_per_batch = 0.5\nmax_running = 1\nback_off_seconds = 0.5\n")
    ground.add_batch("aa", "bb")
    for name in ("aa", "bb"):
        dies = {"run": f"test -e {once} || {{ touch {once}; kill -9 $PPID; }}"}
        ground.script(f"night/{name}", {"spend": 0.3}, dies, {"write": f"{name}.txt", "text": name})
    ground.supervisor()
    ground.until(lambda: holds.listing(ground.app.database), "what is left is held")
    (first, *_) = holds.listing(ground.app.database)
    assert "the sessions of its batch cost 0.60 USD, and max_cost_per_batch is 0.5" in first.reason
    assert sum(one.money for one in expenses.by_agent(ground.app.database)) == pytest.approx(0.6), ground.story()
    ground.settings("max_cost_per_batch = 50\nmax_running = 1\nback_off_seconds = 0.5\n")
    ground.until(ground.done, "the batch goes on")
    assert sum(one.money for one in expenses.by_agent(ground.app.database)) == pytest.approx(0.9)

"""Money: what a killed session used is kept, and a task or a batch that has spent its budget is not started again."""

from __future__ import annotations

import os
import stat

import pytest

from handoff.board import gates
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


def _asked(ground):
    """The questions about money that wait."""
    return [one for one in gates.listing(ground.app.database) if one.gate.cap]


def _once(ground, name, *acts):
    """It costs 0.3 and is killed the first time; the second time it costs as much again and is done."""
    once = os.path.join(ground.folder, f"once-{name}")
    dies = {"run": f"test -e {once} || {{ touch {once}; kill -9 $PPID; }}"}
    ground.add(name, {"spend": 0.3}, dies, *acts)


def test_a_task_at_its_cap_asks_and_goes_on_with_the_amount_that_a_person_allows(file_ground, cli):
    ground = file_ground
    ground.settings("max_cost_per_task = 0.1\nback_off_seconds = 0.5\n")
    _once(ground, "aa")
    ground.supervisor(flows=0.3)
    ground.until(lambda: _asked(ground), "a person is asked for money")
    (asked,) = _asked(ground)
    assert asked.gate.asked == (
        "The sessions of 'aa' cost 0.30 USD, and max_cost_per_task is 0.1. Go on with more money?"
    )
    assert asked.gate.offered == ("yes 0.1", "no")
    with open(os.path.join(ground.folder, "supervisor-0.log"), encoding="utf-8") as file:
        assert file.read().count("aa: started with") == 1, "what the cap stopped is not said to have started"
    assert "names no amount" in cli("answer", "aa", "not now, perhaps 5 later", "--project", "demo", code=1).err
    assert "names no amount" in cli("answer", "aa", "yes", "2 of 3 are done", "--project", "demo", code=1).err
    assert ground.tasks()["aa"].state == "gated", "nothing was raised"
    assert "Approved: aa is ready" in cli("answer", "aa", "yes", "5", "--project", "demo").out
    ground.until(ground.done, "it has gone on")
    assert ground.tasks()["aa"].attempt == 1
    assert sum(one.money for one in expenses.by_agent(ground.app.database)) == pytest.approx(0.6)
    gate = gates.of_task(ground.app.database, key=ground.tasks()["aa"].key)
    assert (gate.state, float(gate.answer)) == ("approved", pytest.approx(5.2)), "five more than was spent"


def test_a_no_raises_nothing_and_the_task_asks_again_when_it_is_tried_again(file_ground, cli):
    ground = file_ground
    ground.settings("max_cost_per_task = 0.1\nback_off_seconds = 0.5\n")
    _once(ground, "aa")
    ground.supervisor(flows=0.3)
    ground.until(lambda: _asked(ground), "a person is asked for money")
    cli("answer", "aa", "no", "--project", "demo")
    assert ground.tasks()["aa"].state == "blocked"
    cli("retry", "aa", "--project", "demo")
    ground.until(lambda: _asked(ground), "it asks again")
    assert sum(one.money for one in expenses.by_agent(ground.app.database)) == pytest.approx(0.3)
    cli("answer", "aa", "0.5 USD", "--project", "demo")
    ground.until(ground.done, "an amount alone is an answer too")


def test_the_money_of_a_day_is_asked_for_once_and_a_no_lets_the_tasks_wait(file_ground, cli):
    ground = file_ground
    ground.settings("max_cost_per_day = 0.2\nmax_running = 1\nback_off_seconds = 0.5\n")
    for name in ("aa", "bb", "cc"):
        ground.add(name, {"spend": 0.3})
    ground.supervisor(flows=0.3)
    ground.until(lambda: _asked(ground), "a person is asked for the day")
    (asked,) = _asked(ground)
    assert "The sessions of the last 24 hours cost 0.30 USD, and max_cost_per_day is 0.2." in asked.gate.asked
    cli("answer", asked.task, "yes", "0.1", "--project", "demo")
    ground.until(lambda: sum(task.state == "done" for task in ground.tasks().values()) == 2, "one more has run")
    ground.until(lambda: _asked(ground), "and a person is asked again")
    (asked,) = _asked(ground)
    assert "cost 0.60 USD, and max_cost_per_day is 0.2, raised by 0.2." in asked.gate.asked
    cli("answer", asked.task, "no", "--project", "demo")
    ground.until(lambda: ground.tasks()[asked.task].state == "ready", "it waits for tomorrow")
    ground.add("dd")
    ground.until(lambda: "Nothing is started" in cli("work", "--status").out, "the supervisor says why")
    assert (_asked(ground), ground.count("gate.opened")) == ([], 2)


def test_a_batch_that_has_spent_its_budget_starts_no_part_until_it_is_raised(file_ground):
    ground = file_ground
    once = os.path.join(ground.folder, "once")
    ground.settings("max_cost_per_batch = 0.5\nmax_running = 1\nback_off_seconds = 0.5\n")
    ground.add_batch("aa", "bb")
    for name in ("aa", "bb"):
        dies = {"run": f"test -e {once} || {{ touch {once}; kill -9 $PPID; }}"}
        ground.script(f"night/{name}", {"spend": 0.3}, dies, {"write": f"{name}.txt", "text": name})
    ground.supervisor()
    ground.until(lambda: _asked(ground), "a person is asked about the batch")
    (first,) = _asked(ground)
    assert "The sessions of its batch cost 0.60 USD, and max_cost_per_batch is 0.5" in first.gate.asked
    assert sum(one.money for one in expenses.by_agent(ground.app.database)) == pytest.approx(0.6), ground.story()
    ground.settings("max_cost_per_batch = 50\nmax_running = 1\nback_off_seconds = 0.5\n")
    ground.until(ground.done, "the batch goes on")
    assert sum(one.money for one in expenses.by_agent(ground.app.database)) == pytest.approx(0.9)


def test_one_answer_about_the_money_of_a_batch_is_for_all_its_parts(file_ground, cli):
    ground = file_ground
    ground.settings("max_cost_per_batch = 0.2\nmax_running = 1\nback_off_seconds = 0.5\n")
    ground.add_batch("aa", "bb", "cc", "dd")
    for name in ("aa", "bb", "cc", "dd"):
        ground.script(f"night/{name}", {"spend": 0.3}, {"write": f"{name}.txt", "text": name})
    ground.supervisor()
    waits = "it waits for your answer about the money of its batch"
    ground.until(lambda: _held(ground) == [waits, waits], "the others wait for the same answer")
    (asked,) = _asked(ground)
    assert "No raises nothing and blocks the parts of the batch that are not done." in asked.gate.question
    assert asked.gate.commands("x") == ["answer x 'yes 0.2'", "answer x no", "answer x 'yes AMOUNT'"]
    assert f"answer {asked.task} yes 5, or no" in holds.listing(ground.app.database)[0].fix
    cli("answer", asked.task, "no", "--project", "demo")
    ground.until(lambda: ground.states()["join"] == "gated", "the answer is for all of them")
    (missing,) = gates.listing(ground.app.database)
    assert "3 of 4 parts of batch 'night' are missing" in missing.gate.question
    assert (missing.gate.cap, _held(ground)) == ("", [])
    assert "rejected: no more money" in cli("task", "list", "--project", "demo").out
    cli("retry", "night", "--project", "demo")
    ground.until(lambda: _asked(ground), "a person who lets them try again is asked once more")
    (asked,) = _asked(ground)
    cli("answer", asked.task, "yes", "5", "--project", "demo")
    ground.until(ground.done, "all of them go on")
    assert (len(gates.about_cap(ground.app.database, cap="max_cost_per_batch")), _held(ground)) == (2, [])


def _held(ground):
    return [one.reason for one in holds.listing(ground.app.database)]

"""What sessions used: lines that the real clients print and write, counted once, priced by whoever knows the price."""

from __future__ import annotations

import itertools
import json
import os

import pytest

from handoff.agents import catalog
from handoff.agents import folder as folders
from handoff.agents.endings import Bill, Book, Prices
from handoff.agents.monitor import EVENTS, EXIT
from handoff.agents.records import MOST_CARRIED, RecordReader, carry, places, uses
from handoff.agents.session import AgentSession, SupervisionRules
from handoff.base.clock import SystemClock
from handoff.base.errors import ConfigError, UserError

# Each answer of the scripted model took 10 tokens, 4 of them cached, and gave 5, of which it reasoned 2.
CLAUDE_ANSWER = {
    "type": "assistant", "timestamp": "2026-11-17T21:41:45.000Z",
    "message": {"id": "msg_1", "model": "claude-opus-5-5", "content": [{"type": "text", "text": "hm"}],
                "usage": {"input_tokens": 6, "output_tokens": 1, "cache_read_input_tokens": 4, "cache_creation_input_tokens": 0}},
}  # fmt: skip
CLAUDE_NEW = {"claude-opus-5-5": {"inputTokens": 18, "outputTokens": 15, "cacheReadInputTokens": 12, "costUSD": 0.0003744,
                                  "cacheCreationInputTokens": 0, "thinkingTokens": 0}}  # fmt: skip
CLAUDE_RESULT = {
    "type": "result", "subtype": "success", "is_error": False, "num_turns": 3, "result": "finished", "total_cost_usd": 0.0008736,
    "modelUsage": {"claude-opus-5-5": {**CLAUDE_NEW["claude-opus-5-5"], "inputTokens": 42, "outputTokens": 35, "costUSD": 0.0008736}},
    "result_index": 0, "model_usage_since_last_result": CLAUDE_NEW,
}  # fmt: skip
CODEX_RESULT = {"type": "turn.completed", "usage": {"input_tokens": 50, "cached_input_tokens": 20, "cache_write_input_tokens": 0,
                                                    "output_tokens": 25, "reasoning_output_tokens": 10}}  # fmt: skip
GEMINI_RESULT = {
    "type": "result", "status": "success",
    "stats": {"total_tokens": 45, "models": {"gemini-2.5-pro": {"total_tokens": 45, "input_tokens": 30, "output_tokens": 9, "cached": 12,
                                                                "input": 18}}},
}  # fmt: skip
OPENCODE_STEP = {
    "type": "step_finish", "sessionID": "ses_1",
    "part": {"id": "prt_1", "reason": "tool-calls", "cost": 0,
             "tokens": {"total": 15, "input": 6, "output": 3, "reasoning": 2, "cache": {"write": 0, "read": 4}}},
}  # fmt: skip
QWEN_USE = {"inputTokens": 10, "outputTokens": 5, "totalTokens": 15, "thoughtTokens": 2, "cachedReadTokens": 4}
OPENCODE_USE = {"inputTokens": 6, "outputTokens": 3, "totalTokens": 15, "thoughtTokens": 2, "cachedReadTokens": 4}
AIDER = "Tokens: 2.3k sent, 1.0k cache hit, 17 received. Cost: $0.0047 message, $0.0047 session."


def codex_count(answers, at="2026-11-17T21:42:06.407Z"):
    def times(number):
        return {"input_tokens": 10 * number, "cached_input_tokens": 4 * number, "cache_write_input_tokens": 0,
                "output_tokens": 5 * number, "reasoning_output_tokens": 2 * number, "total_tokens": 15 * number}  # fmt: skip

    info = {"total_token_usage": times(answers), "last_token_usage": times(1), "model_context_window": 258400}
    return {"timestamp": at, "type": "event_msg", "payload": {"type": "token_count", "info": info}}


CODEX_MODEL = {"timestamp": "2026-11-17T21:42:06.097Z", "type": "turn_context", "payload": {"model": "gpt-5.5"}}
GEMINI_ANSWER = {
    "id": "11fe767f", "timestamp": "2026-11-17T21:42:51.041Z", "type": "gemini", "model": "gemini-2.5-pro", "content": "",
    "tokens": {"input": 10, "output": 3, "cached": 4, "thoughts": 2, "tool": 0, "total": 15},
}  # fmt: skip
COPILOT_ANSWER = {
    "type": "session.usage_record", "id": "a93a1f08", "timestamp": "2026-11-17T21:41:46.402Z",
    "data": {"usage": {"model": "gpt-4.1", "inputTokens": 10, "outputTokens": 5, "cacheReadTokens": 4, "cacheWriteTokens": 0,
                       "reasoningTokens": 2, "cost": 0.0}},
}  # fmt: skip


def heard(agent, *lines):
    book = Book()
    for line in lines:
        for event in catalog.adapter(agent).read(line if isinstance(line, str) else json.dumps(line)):
            book.hear(event)
    return book


def copied(book, *rows):
    book.copy(use for row in rows for use in uses(json.dumps(row)))
    return book


def bill(book, agent="", **own):
    return book.bill(Prices(own), agent=agent)


@pytest.mark.parametrize(
    ("agent", "lines", "counts", "models"),
    [
        ("claude", [CLAUDE_ANSWER, CLAUDE_RESULT], (18, 12, 15, 0), ("claude-opus-5-5",)),
        ("codex", [CODEX_RESULT], (30, 20, 25, 10), ()),
        ("gemini", [GEMINI_RESULT], (18, 12, 15, 6), ("gemini-2.5-pro",)),
        (
            "opencode",
            [{"type": "handoff.model", "model": "local/m"}, OPENCODE_STEP, OPENCODE_STEP],
            (6, 4, 5, 2),
            ("local/m",),
        ),
        ("aider", ["Main model: openai/gpt-4.1 with diff edit format", AIDER], (1300, 1000, 17, 0), ("openai/gpt-4.1",)),
        (
            "acp",
            [{"type": "usage", "model": "$runtime|openai|m(openai)"}, {"type": "usage", "usage": QWEN_USE}],
            (6, 4, 5, 2),
            ("m",),
        ),
        ("acp", [{"type": "usage", "model": "local/m"}, {"type": "usage", "usage": OPENCODE_USE}], (6, 4, 5, 2), ("local/m",)),
    ],
)  # fmt: skip
def test_what_each_client_prints_of_its_tokens_is_counted(agent, lines, counts, models):
    found = bill(heard(agent, *lines))
    assert (found.input, found.cached, found.output, found.reasoning) == counts
    assert found.models == models


@pytest.mark.parametrize(
    ("agent", "rows", "model"),
    [
        ("claude", [{**CLAUDE_ANSWER, "message": {**CLAUDE_ANSWER["message"], "usage": {
            "input_tokens": 6, "output_tokens": 5, "cache_read_input_tokens": 4}}}] * 2, "claude-opus-5-5"),
        ("codex", [CODEX_MODEL, codex_count(1), codex_count(1)], "gpt-5.5"),
        ("gemini", [GEMINI_ANSWER, GEMINI_ANSWER], "gemini-2.5-pro"),
        ("copilot", [COPILOT_ANSWER], "gpt-4.1"),
    ],
)  # fmt: skip
def test_what_a_killed_client_wrote_into_its_own_record_counts_once_however_often_it_stands_there(agent, rows, model):
    found = bill(copied(heard(agent), *rows))
    assert (found.input, found.cached, found.output) == (6, 4, 5)
    assert found.models == (model,)
    assert (found.basis, found.money > 0) == ("listed", True)


def test_a_resumed_conversation_is_not_paid_for_twice(tmp_path):
    found = bill(heard("claude", CLAUDE_RESULT))
    assert (found.money, found.basis) == (0.0003744, "said"), "its total holds what it had cost before"
    path = tmp_path / "rollout-2026-11-17T21-42-01-abc.jsonl"
    rows = [codex_count(1), codex_count(2), {**CODEX_MODEL, "timestamp": "2026-11-17T21:42:13.453Z"}]
    rows += [codex_count(number, "2026-11-17T21:42:14.099Z") for number in (3, 4)]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    follower = RecordReader([str(tmp_path / "rollout-*{id}*.jsonl")], began=1794951733.0)  # 21:42:13
    book = heard("codex", CODEX_RESULT)
    book.copy(follower.new("abc"))
    assert (bill(book).input, bill(book).output) == (12, 10), "of the thread's five answers two are this session's"
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(codex_count(5, "2026-11-17T21:42:15.224Z"))[:40])
    assert list(follower.new("abc")) == [], "half a line is read when all of it is there"
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(codex_count(5, "2026-11-17T21:42:15.224Z"))[40:] + "\n")
    book.copy(follower.new("abc"))
    assert bill(book).output == 15


def test_work_after_the_last_result_is_not_lost():
    answers = [{**CLAUDE_ANSWER, "message": {**CLAUDE_ANSWER["message"], "id": f"msg_{n}"}} for n in range(6)]
    found = bill(copied(heard("claude", CLAUDE_RESULT), *answers))
    assert found.input == 36, "the record says more than the result of the first turn"


def test_what_a_session_plants_in_place_of_a_record_is_passed_by(tmp_path):
    os.mkfifo(tmp_path / "one-abc.jsonl")
    secret = tmp_path / "secret"
    secret.write_text(json.dumps(COPILOT_ANSWER) + "\n")
    (tmp_path / "two-abc.jsonl").symlink_to(secret)
    wrong = {**COPILOT_ANSWER, "data": {"usage": "many"}}
    (tmp_path / "three-abc.jsonl").write_text(json.dumps(wrong) + "\n" + 'not JSON, but it says "usage"\n')
    follower = RecordReader([str(tmp_path / "*-{id}.jsonl")], began=0.0)
    assert list(follower.new("abc")) == []
    assert list(follower.new("")) == []


def test_a_record_is_looked_for_where_the_client_was_told_to_keep_it():
    assert places("codex", {"HOME": "/h"}) == ["/h/.codex/sessions/*/*/*/rollout-*{id}*.jsonl"]
    assert places("codex", {"HOME": "/h", "CODEX_HOME": "/c"}) == ["/c/sessions/*/*/*/rollout-*{id}*.jsonl"]
    assert places("mine", {"HOME": "/h"}) == []


# --- prices ----------------------------------------------------------------------------------------------------------


def test_what_the_client_says_wins_over_the_persons_price_and_that_over_the_list():
    book = heard("gemini", GEMINI_RESULT)
    listed = bill(book)
    assert (listed.money, listed.basis) == (pytest.approx((18 * 1.25 + 12 * 0.125 + 15 * 10) / 1e6), "listed")
    own = bill(book, **{"gemini-2.5-pro": {"input": 1, "cached": 0, "output": 2}})
    assert own.money == pytest.approx(48 / 1e6)
    assert bill(heard("claude", CLAUDE_RESULT), **{"claude-opus-5-5": {"input": 9, "output": 9}}).basis == "said"


def test_a_model_nobody_has_a_price_for_costs_something_unknown_and_not_nothing():
    book = heard("opencode", {"type": "handoff.model", "model": "local/m"}, OPENCODE_STEP)
    assert (bill(book).money, bill(book).basis) == (0.0, "unknown")
    by_agent = bill(book, "opencode", opencode={"input": 1, "output": 1})
    assert (by_agent.money, by_agent.basis) == (pytest.approx(15 / 1e6), "listed")
    assert bill(Book()) is None


@pytest.fixture
def bill_of(tmp_path):
    """The bill of a session that printed this, wrote this into its record and then ended so."""
    numbers = itertools.count()

    def go(client, *printed, recorded=(), code=-9, attended=False, called_in=True):
        name = f"session-{os.getpid()}-{next(numbers)}"
        path, _ = folders.make(str(tmp_path), "", name)
        texts = {
            EVENTS: jsonl(*printed),
            EXIT: json.dumps({"code": code}),
            folders.TOKEN: "right",
            "record": jsonl(*recorded),
        }
        for file, text in {**texts, folders.HELLO: "right" if called_in else ""}.items():
            folders.put(path, file, text)
        folders.put(path, folders.FACTS, json.dumps({"client_id": "its-own"}))
        adapter = catalog.adapter(client, commands={})
        rules = SupervisionRules(attended=attended, records=(os.path.join(path, "record"),))
        session = AgentSession(path, name, adapter, adapter.abilities(""), rules, SystemClock())
        session.close()
        with open(os.path.join(path, folders.OUTCOME), encoding="utf-8") as file:
            kept = json.load(file)["bill"]
        assert session.bill == (kept and Bill(**{**kept, "models": tuple(kept["models"])}))
        return session.bill

    return go


def jsonl(*rows):
    return "".join(f"{json.dumps(row)}\n" for row in rows)


CODEX_TURN = ({"type": "thread.started", "thread_id": "its-own"}, {"type": "turn.started"})
CODEX_TOOL = {"type": "item.started", "item": {"id": "item_3", "type": "command_execution", "command": "true"}}
CODEX_RAN = {"type": "item.completed", "item": {**CODEX_TOOL["item"], "aggregated_output": "", "exit_code": 0}}
GEMINI_TURN = {"type": "init", "session_id": "its-own", "model": "gemini-2.5-pro"}
GEMINI_SAID = {"type": "message", "role": "assistant", "content": "The answer.", "delta": True}


@pytest.mark.parametrize(
    ("client", "printed"),
    [
        ("codex", CODEX_TURN),
        ("gemini", (GEMINI_TURN,)),
        ("gemini", (GEMINI_TURN, GEMINI_SAID)),
        ("copilot", ({"type": "assistant.message", "data": {"content": "The answer."}},)),
    ],
)
def test_what_a_client_used_that_was_killed_before_it_wrote_that_down_is_unknown_and_not_nothing(
    bill_of, client, printed
):
    assert bill_of(client, *printed) == Bill(basis="unknown")
    assert bill_of(client, *printed, code=137) == Bill(basis="unknown"), "a sandbox tells the signal as an exit code"
    assert bill_of(client, called_in=False) is None, "it never came as far as its model"


def test_what_is_known_of_a_client_that_was_killed_in_the_middle_of_a_turn_is_kept_as_not_all(bill_of):
    late = "9999-01-01T00:00:00.000Z"
    written = ({**CODEX_MODEL, "timestamp": late}, codex_count(1, at=late))
    cut = bill_of("codex", *CODEX_TURN, CODEX_TOOL, CODEX_RAN, recorded=written)
    assert (cut.input, cut.cached, cut.output, cut.money > 0, cut.basis) == (6, 4, 5, True, "unknown")
    in_tool = bill_of("codex", *CODEX_TURN, CODEX_TOOL, recorded=written)
    assert (in_tool.output, in_tool.basis) == (5, "listed"), "its answer is counted, and the next one not asked for"
    whole = bill_of("codex", *CODEX_TURN, CODEX_TOOL, CODEX_RAN, CODEX_RESULT, recorded=written)
    assert whole.basis == "listed", "it had come to its end"
    by_hand = bill_of("codex", recorded=written, code=130, attended=True)
    assert by_hand.basis == "listed", "in a person's terminal nobody sees what it asks"


def test_a_price_holds_for_the_dated_names_of_a_model_and_for_no_other_model():
    prices = Prices({})
    assert prices.of("gpt-5-2025-08-07", agent="") == prices.of("openai/gpt-5", agent="") == (1.25, 0.125, 10.0)
    assert prices.of("gpt-5-mini", agent="") == (0.25, 0.025, 2.0)
    assert prices.of("gpt-5.9", agent="") is None
    assert prices.of("claude-opus-4-1-20250805", agent="") == (15.0, 1.5, 75.0)


@pytest.mark.parametrize("price", [3, {"input": 1}, {"input": 1, "output": "2"}, {"input": 1, "output": 2, "extra": 3}])
def test_a_price_that_cannot_be_understood_is_an_error_that_shows_how(price):
    with pytest.raises(ConfigError) as caught:
        Prices({"gpt-5": price}, where="config.toml")
    assert "price.gpt-5" in str(caught.value)
    assert "input = 1.25" in caught.value.hint


@pytest.mark.parametrize(
    ("client", "variable", "path"),
    [
        ("claude", "CLAUDE_CONFIG_DIR", "projects/-clone/abc-1.jsonl"),
        ("codex", "CODEX_HOME", "sessions/2026/11/18/rollout-now-abc-1.jsonl"),
        ("qwen", "QWEN_HOME", "projects/-clone/chats/abc-1.jsonl"),
    ],
)
def test_a_conversation_is_carried_to_the_persons_own_store_once_and_no_link_is_followed(
    tmp_path, client, variable, path
):
    inside, own = tmp_path / "inside", tmp_path / "own"
    (inside / path).parent.mkdir(parents=True)
    (inside / path).write_text("first\n")
    kept, mine = places(client, {variable: str(inside)}), {variable: str(own)}
    assert carry(client, kept, "abc-1", mine)
    assert (own / path).read_text() == "first\n"
    (own / path).write_text("the person went on\n")
    assert carry(client, kept, "abc-1", mine)
    assert (own / path).read_text() == "the person went on\n"
    assert not carry(client, kept, "abc-2", mine)
    assert not carry("aider", [], "abc-1", mine)
    secret = tmp_path / "secret"
    secret.write_text("not a conversation")
    (inside / path).with_name((inside / path).name.replace("abc-1", "abc-3")).symlink_to(secret)
    assert not carry(client, kept, "abc-3", mine)
    endless = (inside / path).with_name((inside / path).name.replace("abc-1", "abc-4"))
    with open(endless, "wb") as file:
        file.truncate(MOST_CARRIED + 1)
    with pytest.raises(UserError, match="has more than 256 MB, so it is not opened"):
        carry(client, kept, "abc-4", mine)
    assert not (own / path).with_name(endless.name).exists()

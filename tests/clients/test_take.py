"""A session that never heard of handoff, taken from one client's own store and handed to another: its first request holds every fact."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from client_stage import BYPASS, EDITS, READS, wait_for
from handoff.base.markdown import BATON_MARK
from real_clients import CLIENTS

pytestmark = [pytest.mark.clients, pytest.mark.slow]
PAIRS = (("claude", "codex"), ("codex", "claude"), ("gemini", "claude"), ("copilot", "codex"), ("opencode", "claude"))
FIRST = "Build a cart that sums prices. Never touch README.md. Use only the standard library."
SECOND = "Now also count VAT. Keep the old function name."
TOKEN = "hunter2hunter2"
DONE = ("shell", f"{sys.executable} -m handoff.surfaces.cli.main task done --summary 'made a'")
CART = "def total(items):\n    return 0\n"
TEST = "import unittest\nfrom cart import total\nclass T(unittest.TestCase):\n    def test_sum(self):\n        self.assertEqual(total([1, 2]), 3)\n"


def _acts(stage, client):
    """Look, edit in vain, edit, write, run green and red, speak."""
    cart = os.path.join(stage.repo.path, "cart.py")
    acts = [("shell", "sed -i 's/return 0/return sum(items) + 1/' cart.py")]
    if client in EDITS:
        name, path, old, new = EDITS[client]
        more = {"instruction": "edit it"} if client == "gemini" else {}
        right, wrong = {old: "return 0", new: "return sum(items) + 1"}, {old: "not there", new: "x"}
        look = ("tool", READS[client][0], {READS[client][1]: cart})
        acts = [look, *(("tool", name, {path: cart, **words, **more}) for words in (wrong, right))]
    said = "I count in cents because floats lose money.\nCaching by name does not work."
    return [
        *acts,
        ("write", os.path.join(stage.repo.path, "prices.py"), "CENTS = 100\n"),
        ("shell", "python3 -c 'print(1)'"),
        ("shell", f"API_TOKEN={TOKEN} python3 -m unittest"),
        ("say", said),
    ]


def _take(stage, target, *words):
    """Hand over as a script does; what the client prints holds what it was told, tracebacks of tests too."""
    more = [f"--with={word}" for word in [*stage.words(), *(BYPASS if target == "codex" else [])]]
    done = subprocess.run(
        stage.cli.command("take", *words, "--to", target, "--yes", *more), cwd=stage.repo.path, env=stage.environment,
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_a_session_of_one_client_goes_on_in_another_with_all_its_facts(pair):
    stage, source, target = pair
    stage.repo.write("cart.py", CART)
    stage.repo.write("test_cart.py", TEST)
    head = stage.repo.commit("one")
    stage.serve(*_acts(stage, source))
    words = stage.ask(FIRST)
    stage.serve(("shell", "git status --short"), ("say", "VAT is half done. Next: wire checkout.py."))
    words += stage.ask(SECOND, again=True)
    assert sorted(os.listdir(stage.environment["HANDOFF_HOME"])) == [], "nothing was set up before"
    listed = stage.cli("session", "list", "--clients").out
    assert listed.startswith(source), listed + words
    stage.client = target
    server = stage.serve(("say", "I go on."))
    said = _take(stage, target)
    told = server.texts(0)
    for fact in (BATON_MARK, FIRST, SECOND, "- Never touch README.md.", "- Use only the standard library.", "- Keep the old function name.", "changed cart.py",
                 "added prices.py", "python3 -m unittest` red (exit 1)", "failing: test_sum (test_cart.T.test_sum)", "AssertionError: 4 != 3",
                 "python3 -c 'print(1)'` green", "floats lose money", "Caching by name does not work.", "VAT is half done.", "Next: wire checkout.py.",
                 f"Branch main at {head[:10]}", "git status --short"):  # fmt: skip
        assert fact in told, (fact, said, words[-3000:])
    assert source not in EDITS or "cart.py failed" in told
    assert TOKEN not in told
    assert not os.path.exists(os.path.join(stage.repo.path, ".handoff"))
    assert target in CLIENTS
    stage.note("goes on with a session of another client")
    stage.client = source
    stage.note("a session that never heard of handoff is taken from its own store")


def test_a_session_that_was_taken_over_hands_the_persons_words_on_and_not_ours(pair):
    stage, source, target = pair
    stage.serve(("say", "Half done."))
    stage.ask(FIRST)
    stage.client = target
    stage.serve(("say", "I go on."))
    _take(stage, target, source)
    known = stage.cli("take", target, "--json").json
    assert known["client"] == target
    assert [one[0] for one in known["facts"]["instructions"]] == []
    assert known["facts"]["last_words"][0] == "I go on."
    assert known["text"].count(FIRST) == 1
    assert known["text"].count(BATON_MARK) == 1
    assert "- Never touch README.md." in known["text"]


# How each opens the conversation in a terminal, and how it takes one prompt there without one.
OPENS = {"claude": ["claude", "--resume"], "codex": ["codex", "resume"], "opencode": ["opencode", "-s"]}
ALONE = {
    "claude": (["claude", "--resume"], ["-p", "What next?", "--allowedTools", "Bash"]),
    "codex": (["codex", "exec", "resume"], [*BYPASS, "What next?"]),
    "opencode": (["opencode", "run", "-s"], ["What next?"]),
}


@pytest.mark.clients("claude", "codex", "opencode")
def test_a_task_that_is_taken_goes_on_in_the_conversation_of_its_client_is_given_back_and_lands(stage):
    begun = os.path.join(stage.tree, "owned", "begun")
    stage.serve(("shell", f"mkdir -p owned; echo x > {begun}; sleep 1000"), ("say", "never"))
    process = stage.start()
    wait_for(lambda: os.path.exists(begun), "the tool call began")
    taken = stage.cli("take", "demo", "--json").json
    process.communicate(timeout=600)
    words, server = taken["command"], stage.serve(("shell", "echo by-hand > owned/half.txt"), ("say", "hello"))
    named = dict(word.split("=", 1) for word in words[1:2]) if words[0] == "env" else {}
    assert words[-3:-1] == OPENS[stage.client]
    before, after = ALONE[stage.client]
    done = subprocess.run(
        [*before, words[-1], *after, *stage.words()], cwd=taken["folder"], env={**stage.environment, **named}, stdin=subprocess.DEVNULL, capture_output=True,
        text=True, check=False, timeout=300, executable=f"{stage.root}/bin/{stage.client}",
    )  # fmt: skip
    assert server.requests, done.stdout + done.stderr
    assert "echo x > " in server.texts(0), done.stdout + done.stderr
    assert "What next?" in server.texts(0), done.stdout + done.stderr
    stage.cli("task", "release", "demo", "--session", taken["session"])
    server = stage.serve(stage.write("owned/a.txt"), DONE, ("say", "finished"))
    end = stage.run()
    assert "owned/half.txt" in server.texts(0), "it goes on with what the person left there"
    assert end["state"] == "done", stage.log(end)
    assert stage.repo.git("show", "main:owned/half.txt") == "by-hand\n"
    assert "hello" in stage.repo.git("show", "main:owned/a.txt")
    assert stage.cli("show", "demo", "--json").json["attempt"] == 1
    stage.note("taken over in its own conversation, given back, landed")

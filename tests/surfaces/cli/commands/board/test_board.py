"""The board, driven by Textual's pilot and on a real pseudo-terminal."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys

import pytest
from textual.events import MouseScrollDown

from handoff.board import gates
from handoff.board.sessions.leases import claim
from handoff.board.sessions.sessions import SessionIdentity
from handoff.board.tasks import batches, outcomes, tasks
from handoff.board.tasks.batches import SubTask
from handoff.engine.work import stopping
from handoff.engine.work.overview import OverviewFeed
from handoff.surfaces.cli.commands.board import acts
from handoff.surfaces.cli.commands.board.state import KEYS, BoardState, key_name
from handoff.surfaces.cli.commands.board.view import BoardApp
from relay import app
from screen import Screen
from source import ROOT, read

OLD = "def test_sum():\n    assert total([1, 2]) == 3\n    assert total([]) == 0\n"
NEW = "def test_sum():\n    assert total([1, 2]) == 3\n"


def seen(board: BoardApp) -> str:
    """The whole screen, whichever widgets it is made of."""
    lines = board.screen._compositor.render_strips(board.size)
    return "\n".join("".join(piece.text for piece in line) for line in lines)


async def until(pilot, board: BoardApp, *texts: str) -> str:
    for _ in range(1200):
        if all(text in (shown := seen(board)) for text in texts):
            return shown
        await pilot.pause(0.05)
    raise AssertionError(f"never seen: {texts}\n{shown}")


@pytest.fixture
def busy(cli, repo, monkeypatch):
    """A gate over weakened tests, a task that is blocked, one that runs and speaks, and 2,000 that wait."""
    repo.write("test_cart.py", OLD)
    repo.commit("tests")
    cli("dump", "--task", "cart", "--next", "Fill the cart.")
    cli("task", "claim", "cart", "--session", "one")
    repo.write("test_cart.py", NEW)
    cli("task", "ask", "Land cart.py?", "--session", "one")
    board = app()
    with board.database.transaction() as rows:
        made = [tasks.add(rows, project="repo", id=f"task-{number:04}", brief="Work.") for number in range(2000)]
    for number, task in enumerate(made[:3]):
        claim(board.database, key=task.key, who=SessionIdentity(f"s-{number}", project="repo", agent="scripted"))
    for task in made[:2]:
        outcomes.block(board.database, key=task.key, fence=1, reason="agent: pytest red, 3 of 3")
    board.close()
    place = os.path.join(os.environ["HANDOFF_HOME"], "repo", "sessions", "s-2")
    os.makedirs(place)
    monkeypatch.chdir(repo.path)
    return os.path.join(place, "events.jsonl")


@pytest.mark.slow
def test_a_gate_is_answered_a_task_retried_a_log_followed_and_2000_tasks_scrolled(busy, repo, cli):
    def say(words: str) -> None:
        with open(busy, "a", encoding="utf-8") as file:
            file.write(words + "\n")

    async def drive() -> None:
        board = BoardApp(BoardState(OverviewFeed(app(), project="repo")))
        async with board.run_test(size=(100, 30)) as pilot:
            await until(
                pilot,
                board,
                "3 need you",
                "●1 running",
                "? cart",
                "✗ task-0000 and 1 more",
                "NEXT 1997",
                "handoff answer cart",
            )

            await pilot.press("a")
            shown = await until(pilot, board, "Land cart.py?", "WEAKENED, SKIPPED OR REMOVED TESTS 1", "FILES 1")
            assert "-    assert total([]) == 0" in shown
            await pilot.press("n", "enter")  # a no without a reason is none
            assert "y yes" in seen(board)
            await pilot.press("n", *"too thin", "enter")
            await until(pilot, board, "✗ cart", "rejected: too thin")

            await pilot.press("g", "R")  # both that have the one cause
            await until(pilot, board, "NEEDS YOU 1", "NEXT 1999")

            await pilot.press("slash", *"task-0002", "enter", "l")
            say("editing routes.py")
            await until(pilot, board, "editing routes.py", "following")
            for number in range(60):
                say(f"line {number}")
            await until(pilot, board, "line 59")
            await pilot.press("g")
            say("a last word")
            await until(pilot, board, "editing routes.py", "1 new, G")
            await pilot.press("G")
            await until(pilot, board, "a last word", "following")

            await pilot.press("escape", "escape", "G")
            assert "task-1999" in await until(pilot, board, "task-1999")
            for width, text in ((60, "✗ cart"), (160, "┌─ cart")):
                await pilot.resize_terminal(width, 24)
                await pilot.press("g")
                await until(pilot, board, text)
            await pilot.press("question_mark", "G")
            await until(pilot, board, "At a gate")

    asyncio.run(drive())
    assert cli("show", "cart", "--json").json["reason"] == "rejected: too thin"


LONG = "checkout-v2/recalculate-the-tax-of-orders-that-cross-a-border"


def test_names_keep_their_ends_texts_wrap_and_wheel_and_mouse_work_at_every_size(cli, repo, monkeypatch):
    monkeypatch.chdir(repo.path)
    own = app()
    parts = [SubTask(f"{LONG.partition('/')[2]}-{number:02}", "Do it.", owns=(f"{number}/**",)) for number in range(40)]
    batches.open_batch(own.database, project="repo", id="checkout-v2", sub_tasks=parts, fan_in=SubTask("join", "Join."))
    task = tasks.find(own.database, project="repo", id=f"{LONG}-00")
    claim(own.database, key=task.key, who=SessionIdentity("s-0", project="repo", agent="scripted"))
    question = (
        "Which of the two stores keeps the tokens? " + "It must be backed up each night. " * 4 + "The last words."
    )
    gates.ask(own.database, key=task.key, fence=1, question=question, choices=("Postgres", "Redis"))
    own.close()

    async def drive() -> None:
        board = BoardApp(BoardState(OverviewFeed(app(), project="repo")))
        wheel = MouseScrollDown(board.list, 5, 5, 0, 1, 0, shift=False, meta=False, ctrl=False)
        async with board.run_test(size=(80, 24)) as pilot:
            await until(pilot, board, "border-00", "border-04", "The last words.", "? keys ⏎ open", "q quit")
            await pilot.resize_terminal(200, 60)
            await until(pilot, board, f"┌─ {LONG}-00", "The last words.", "border-39", "◌ join")
            await pilot.resize_terminal(80, 24)
            await until(pilot, board, "NEEDS YOU 1", "─ch…ut-v2/")
            for _ in range(40):
                board.list.post_message(wheel)
            await until(pilot, board, "border-39")
            await pilot.press("slash", *"border", "enter")
            await until(pilot, board, "NEXT 39  checkout-v2")  # what all of them begin with stands once
            await pilot.press("g")
            await until(pilot, board, "NEEDS YOU 1")
            await pilot.click("#list", offset=(9, 1))
            await until(pilot, board, "what you decide on", "1  Postgres", "2  Redis", "The last words.")
            await pilot.press("t", *"Redix", "backspace", "s", "left", "left", "end", "enter")
            await until(pilot, board, "Answered: ")

    asyncio.run(drive())
    assert cli("show", f"{LONG}-00", "--json").json["gate"]["answer"] == "Redis"


def test_a_question_is_answered_with_a_number_or_in_own_words(cli, repo, monkeypatch):
    monkeypatch.chdir(repo.path)
    for name in ("pick", "free"):
        cli("task", "add", name, "Build the store.")
        cli("task", "claim", name, "--session", name)
    cli("task", "ask", "Which database?", "--choice", "Postgres", "--choice", "Redis", "--session", "pick")
    cli("task", "ask", "What is it called?", "--session", "free")

    async def drive() -> None:
        board = BoardApp(BoardState(OverviewFeed(app(), project="repo")))
        async with board.run_test(size=(100, 30)) as pilot:
            await until(pilot, board, "? pick", "answer pick Postgres", "? free")
            await pilot.press("g", "a")
            await until(pilot, board, "Which database?", "1  Postgres", "2  Redis")
            await pilot.press("3")
            await until(pilot, board, "No offered answer has this number.")
            await pilot.press("2")
            await until(pilot, board, "Answered: pick is ready.")
            await until(pilot, board, "NEEDS YOU 1")
            await pilot.press("g", "a")
            await until(pilot, board, "What is it called?")
            await pilot.press("t", *"the vault", "enter")
            await until(pilot, board, "Answered: free is ready.")

    asyncio.run(drive())
    said = {name: cli("show", name, "--json").json["gate"]["answer"] for name in ("pick", "free")}
    assert said == {"pick": "Redis", "free": "the vault"}


def test_a_person_speaks_to_the_agent_at_work_from_the_list_and_from_its_log(cli, repo, monkeypatch):
    monkeypatch.chdir(repo.path)
    for name in ("cart", "later"):
        cli("task", "add", name, "Fill the cart.", "--priority", "9" if name == "cart" else "0")
    cli("task", "claim", "cart", "--session", "one")

    async def heard(pilot, *words: str) -> None:
        for _ in range(600):
            said = [one["text"] for one in cli("show", "cart", "--json").json["messages"]]
            if said == list(words):
                return
            await pilot.pause(0.05)
        raise AssertionError(said)

    async def drive() -> None:
        board = BoardApp(BoardState(OverviewFeed(app(), project="repo")))
        async with board.run_test(size=(100, 30)) as pilot:
            await until(pilot, board, "cart", "later")
            await pilot.press("G", "s")
            await until(pilot, board, "No agent works here that could hear you.")
            await pilot.press("g", "s", *"use cents", "enter")
            await until(pilot, board, "Queued for")
            await heard(pilot, "use cents")
            await pilot.press("l")
            await until(pilot, board, "cart: ")
            await pilot.press("s", *"and no floats", "enter")
            await heard(pilot, "use cents", "and no floats")

    asyncio.run(drive())


def test_a_task_is_taken_or_handed_to_another_agent_from_the_list(cli, repo, monkeypatch):
    monkeypatch.chdir(repo.path)
    cli("task", "add", "cart", "Fill the cart.", "--agent", "claude")

    async def drive() -> None:
        board = BoardApp(BoardState(OverviewFeed(app(), project="repo")))
        async with board.run_test(size=(100, 30)) as pilot:
            await until(pilot, board, "cart")
            await pilot.press("t")
            await until(pilot, board, "Take cart over")
            await pilot.press("enter")
            await until(
                pilot, board, "You hold cart with fence", "Open its conversation in a terminal: handoff take cart"
            )
            await pilot.press("escape", "t", *"nobody-knows", "enter")
            await until(pilot, board, "nobody-knows", "Hint:")
            await pilot.press("t", *"scripted", "enter")
            await until(pilot, board, "scripted goes on with 'cart'")

    asyncio.run(drive())
    found = cli("show", "cart", "--json").json
    assert (found["state"], found["agent"]) == ("ready", "scripted")


def test_on_a_terminal_the_board_lends_it_to_the_task_that_was_taken_and_comes_back(cli, repo):
    cli("task", "add", "cart", "Fill the cart.")
    environment = {**cli.full_environment(), "TERM": "xterm-256color", "SHELL": "/bin/sh", "PS1": "mine> "}
    screen = Screen(cli.command("board"), columns=100, lines=30, cwd=repo.path, env=environment)
    try:
        screen.until("cart", "q quit")
        screen.type("t")
        screen.until("Take cart over")
        screen.type("\r")
        screen.until("sh opens there.", "mine> ")
        assert cli("show", "cart", "--json").json["state"] == "running"
        screen.type("exit\r")
        screen.until("NEXT 1", "q quit")
        for _ in range(600):
            if cli("show", "cart", "--json").json["state"] == "ready":
                break
        assert cli("show", "cart", "--json").json["state"] == "ready"
        screen.type("q")
        screen.process.wait(timeout=60)
    finally:
        screen.close()


def test_a_task_that_is_kept_for_a_person_is_shown_so_at_once_and_as_ready_when_it_is_given_back(cli):
    cli("task", "add", "mail", "Send it.")
    own = app()
    feed = OverviewFeed(own, project="repo")
    stopping.hold_for_person(own, tasks.find(own.database, project="repo", id="mail"))
    feed.look()
    (item,) = feed.of("needs you")
    assert item.look == "held"
    assert item.words.endswith("Take it: handoff take mail")
    assert item.command == "handoff retry mail"
    assert cli().out.count("handoff retry mail") == 1
    cli("retry", "mail")
    feed.look()
    assert [item.look for item in feed.of("needs you")] == []
    own.close()


@pytest.mark.slow
def test_on_a_real_terminal_it_says_yes_shows_control_characters_and_leaves_everything_running(busy, repo, cli):
    environment = {**cli.full_environment(), "TERM": "xterm-256color"}
    screen = Screen(cli.command("board"), columns=100, lines=30, cwd=repo.path, env=environment)
    try:
        screen.until("? cart", "NEXT 1997")
        for _ in range(200):  # the title comes with the first look at the journal, after the first drawing
            if screen.title:
                break
            screen.look(0.1)
        assert screen.title == "(3) handoff"
        with open(busy, "a", encoding="utf-8") as file:
            file.write("red \x1b[31malarm\n")
        screen.until("\\x1b[31malarm")
        screen.type("a")
        screen.until("WEAKENED")
        screen.type("y")
        screen.until("Approved: cart is ready.")
        screen.type(":task list --state running\r")
        screen.until("task-0002", "end")
        screen.type("q")
        assert screen.process.wait(timeout=60) == 0
        assert "You left the board; nothing was stopped. Running: 1 goes on." in screen.look()
    finally:
        screen.close()
    cli.environment["TERM"] = "dumb"
    assert "The board needs a terminal." in cli("board", code=1).err


def test_it_ends_when_its_terminal_is_gone_though_no_signal_came(cli, repo):
    environment = {**cli.full_environment(), "TERM": "xterm-256color"}
    screen = Screen(cli.command("board"), cwd=repo.path, env=environment)
    try:
        screen.until("q quit")
        screen.hang_up()
        screen.process.wait(timeout=30)
    finally:
        screen.close()


def test_two_keys_take_the_newest_operation_back_and_one_does_not(cli, repo, monkeypatch):
    repo.write("a.txt", "one\n")
    cli("safe-commit", "-m", "add a", "--", "a.txt")
    made = repo.head()
    monkeypatch.chdir(repo.path)

    async def drive() -> None:
        board = BoardApp(BoardState(OverviewFeed(app(), project="repo")))
        async with board.run_test(size=(100, 30)) as pilot:
            await pilot.press("u")
            await until(pilot, board, "what would be taken back", "Take it back? y")
            await pilot.press("n")
            await until(pilot, board, "Left as it was: undo")
            assert repo.head() == made
            await pilot.press("escape", "u")
            await until(pilot, board, "Take it back? y")
            await pilot.press("y")
            for _ in range(1200):
                if repo.head() != made:
                    break
                await pilot.pause(0.05)

    asyncio.run(drive())
    assert repo.git("log", "-1", "--format=%s") == "first\n"


def test_the_picture_of_the_readme_is_the_board_as_it_is_drawn_today():
    done = subprocess.run(
        [sys.executable, "-c", "import board_picture; print(board_picture.draw(), end='')"],
        cwd=os.path.join(ROOT, "docs"),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == read("docs/board.svg"), "run `make docs`"


def test_every_key_has_an_act_and_stands_in_the_manual():
    page = read("docs/howto/board.md")
    assert {one.act for one in KEYS} == set(acts.ACTS)
    missing = [one.key for one in KEYS if f"| `{key_name(one.key)}` | {one.meaning} |" not in page]
    assert not missing, missing

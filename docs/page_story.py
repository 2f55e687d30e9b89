"""What the pictures of the page show: the shop of the board's picture, with a month behind it, a repository, a feature and a flow."""

from __future__ import annotations

import json
import os
import random
import subprocess
from typing import TYPE_CHECKING

from board_picture import HOSTS, MOMENT, StandingClock, tell

from handoff.base.files import read_text
from handoff.board import gates
from handoff.board.events import journal
from handoff.board.sessions import executors, expenses, sessions
from handoff.board.sessions.leases import claim, hand_back
from handoff.board.sessions.sessions import AGENT, SessionIdentity
from handoff.board.tasks import batches, flows, outcomes, tasks
from handoff.engine.features import lifecycle
from handoff.engine.work.tasks import admin
from handoff.workflows import library

if TYPE_CHECKING:
    from handoff.engine.app import App

DAY = 86_400.0
ASKS = 0.25
GREEN = {"verdict": "green", "command": "pytest -q", "green": True}
MONTH = 30
WORK = (
    ("basket", "shop/basket.py"), ("prices", "shop/prices.py"), ("stock", "shop/stock.py"), ("taxes", "tests/test_taxes.py"),
    ("manual", "docs/manual.md"), ("labels", "shop/labels.py"), ("returns", "tests/test_returns.py"), ("import", "shop/import.py"),
)  # fmt: skip
CART = '''"""The cart of a customer."""


def total(items):
    return sum(item.price for item in items)


def add(cart, item):
    cart.append(item)
    return cart
'''
NEW_CART = '''"""The cart of a customer."""

from decimal import Decimal


def total(items):
    return sum((item.price * item.count for item in items), Decimal(0))


def add(cart, item):
    for known in cart:
        if known.id == item.id:
            known.count += item.count
            return cart
    cart.append(item)
    return cart
'''
TESTS = """from cart import add, total


def test_a_total_is_the_sum_of_all_prices(two_items):
    assert total(two_items) == 30


def test_the_same_item_twice_is_one_line(item):
    cart = add(add([], item), item)
    assert len(cart) == 1
    assert cart[0].count == 2
"""
NEW_TESTS = """from decimal import Decimal

from cart import add, total


def test_a_total_is_the_sum_of_all_prices(two_items):
    assert total(two_items) == Decimal(30)


def test_the_same_item_twice_is_one_line(item):
    cart = add(add([], item), item)
    assert len(cart) == 1
"""
DOCUMENTS = {
    "FEATURE.md": "# login\n\nCustomers sign in with a link that is sent by mail. **No passwords**: nothing to forget, nothing to steal.\n",
    "SPEC.md": "# Spec\n\n- A link works once, for fifteen minutes.\n- Asking for a second one ends the first.\n- Ten wrong links a minute, then `429`.\n",
    "DESIGN.md": "# Design\n\nThe link is 32 random bytes; the database keeps its SHA-256 alone.\n",
    "STATE.md": "# State\n\n# Current Step\nUse a link once\n\n# Execution Plan\n- [x] 1. A table for links\n- [x] 2. Send the mail\n- [>] 3. Use a link once\n- [ ] 4. Limit how often one may ask\n- [ ] 5. Tell people in the manual\n",
    "SESSION.md": "# Session\n\nThe table and the mail are done. Next: of two browsers with one link only the first gets in.\n",
}  # fmt: skip
STEPS = ("red: test_a_link_lets_its_owner_in", "green: a link lets its owner in", "refactor: one place for links", "red: test_a_link_works_once")  # fmt: skip
REQUEST = "A customer signs in with a link that works once."
TALK = (
    ("said", "I read SPEC.md and the tests first."),
    ("tool", "Read api/routes.py"),
    ("said", "The routes need a schema first: orders have no type yet."),
    ("tool", "Edit api/schema.py"),
    ("tool", "Edit api/routes.py"),
    ("said", "POST /orders answers 201 with the place of the order, 422 with what is wrong."),
    ("tool", "pytest -q tests/test_routes.py"),
    ("said", "11 green, 1 red: an order without an address is taken. I look at the schema again."),
    ("tool", "Edit api/schema.py"),
    ("tool", "pytest -q tests/test_routes.py"),
    ("said", "12 green. Running the tests of api"),
)


MAIL = (
    "Mails go out through the queue now, one try each.",
    "tests/test_mail.py: 8 green, test_bounce_is_reported red: a bounce comes back as text, not as an address.",
    "The address stands in the third header. I read it from there, and try again.",
    "Still red: two of the three servers leave that header out.",
)


class ShopStory:
    """Writes the rows and files, in the order in which they would have come."""

    def __init__(self, app: App, clock: StandingClock, repository: str) -> None:
        self.app, self.clock, self.place, self.store = app, clock, repository, app.database
        self.steps: list[str] = []

    def tell(self) -> None:
        """All of it; the clock stands at the moment of the pictures afterwards."""
        self._repository()
        self._month()
        self._morning()
        self._flow()
        tell(self.app, self.clock, workspace=self.place)
        self._batch()
        self._waiting()
        self._feature()
        self.clock.at = MOMENT

    def _repository(self) -> None:
        self.git("init", "-q", "-b", "main")
        self.write("cart.py", CART)
        self.write("tests/test_cart.py", TESTS)
        self.git("add", ".")
        self.git("commit", "-q", "-m", "Begin the shop")
        self.git("switch", "-q", "-c", "handoff/sign-in")
        for words in STEPS:
            self.git("commit", "-q", "--allow-empty", "-m", words)
            self.steps.append(self.git("rev-parse", "HEAD"))
        self.git("switch", "-q", "main")
        self.write("cart.py", NEW_CART)
        self.write("tests/test_cart.py", NEW_TESTS)

    def git(self, *words: str) -> str:
        """One call of git, with dates and names that are always the same."""
        who = {f"GIT_{role}_{what}": value for role in ("AUTHOR", "COMMITTER") for what, value in (("NAME", "You"), ("EMAIL", "you@example.com"), ("DATE", "2026-01-01T12:00:00Z"))}  # fmt: skip
        environment = {**self.app.settings.environment, **who, "GIT_CONFIG_GLOBAL": os.devnull}
        done = subprocess.run(
            ["git", *words], cwd=self.place, env=environment, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    def write(self, name: str, text: str) -> None:
        path = os.path.join(self.place, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def _month(self) -> None:
        """A month of small tasks, of which some took two tries, some asked, and all cost something; six batches."""
        chance = random.Random(7)
        for day in range(MONTH - 1, 0, -1):
            for number in range(chance.choice((0, 1, 2, 2, 3, 4))):
                name, path = WORK[(day * 3 + number) % len(WORK)]
                self._worked(f"{name}-{day}", path, MOMENT - day * DAY + number * 5400, chance)
        for number, (parts, speedup) in enumerate(((3, 1.9), (4, 2.4), (4, 2.1), (6, 3.4), (5, 3.1), (8, 4.2))):
            batches.take_in(
                self.store, project="shop", batch=f"week-{number}", sub_tasks=parts, estimated_minutes=parts * 20.0,
                session_minutes=parts * 17.0, estimated_speedup=parts * 0.6, speedup=speedup, summary="", at=MOMENT - (27 - number * 4) * DAY,
            )  # fmt: skip

    def _worked(self, name: str, path: str, at: float, chance: random.Random, *, slow: int = 1) -> None:
        agent = chance.choice(("claude", "claude", "codex", "codex", "gemini"))
        self.clock.at = at
        task = tasks.add(self.store, project="shop", id=name, brief=f"Mend {path}.", check_command="pytest -q")
        fence, tries = 0, 2 if chance.random() < (0.1, 0.2, 0.4)[("claude", "codex", "gemini").index(agent)] else 1
        for number in range(tries):
            fence += 1
            session = f"s-{name}-{number}"
            who = SessionIdentity(session, kind=AGENT, project="shop", agent=agent, host=HOSTS[agent])
            held = claim(self.store, key=task.key, who=who).task
            self.clock.at += 60 * chance.randint(4, 18) * slow
            expenses.note(
                self.store,
                session=session,
                project="shop",
                agent=agent,
                task=task.key,
                money=chance.randint(8, 60) / 100,
            )
            if number + 1 < tries:
                with self.store.transaction() as rows:
                    red = {"verdict": "red", "command": "pytest -q", "green": False}
                    journal.append(rows, "task.rejected", task=held, session=session, check=red, reason="pytest red")
                sessions.end(self.store, id=session, ending="failed")
                self.clock.at = held.lease_until + 1
                hand_back(self.store, task=held, reason="agent: pytest red")
                continue
            if chance.random() < ASKS:
                gates.ask(self.store, key=task.key, fence=held.fence, question="Land it?")
                self.clock.at += 60 * chance.randint(1, 40)
                gates.approve(self.store, key=task.key, answered_by="you")
                held = claim(self.store, key=task.key, who=who).task
                self.clock.at += 60
            evidence = {"landed": "0123456789", "changed": [path], "check": GREEN}
            outcomes.finish(
                self.store, key=task.key, fence=held.fence, session=session, summary="done", evidence=evidence
            )
            sessions.end(self.store, id=session, ending="ok")

    def _morning(self) -> None:
        """The hours before, so that the timeline has something to tell."""
        chance = random.Random(11)
        for number, (name, path) in enumerate(WORK):
            self._worked(name, path, MOMENT - 5.8 * 3600 + number * 1700, chance, slow=2)

    def _flow(self) -> None:
        """A flow in its second cycle; a test was changed to make it green, and that was refused."""
        self.clock.at = MOMENT - 5400
        head = self.git("rev-parse", "HEAD")
        kind = library.find(self.place, "tdd")
        workflow = library.load(self.place, "tdd")
        flow = flows.add(
            self.store, project="shop", id="sign-in", workflow="tdd", text=read_text(kind.path), prompts=library.prompts_of(workflow), request=REQUEST, feature="login",
            repository=self.place, workspace=self.place, branch="handoff/sign-in", base=head, phase="plan", max_cycles=6, agents={}, gates=["plan"], data={},
        )  # fmt: skip
        said = (
            ("plan", 1, "verified", "3 tests are planned"),
            ("red", 1, "verified", "test_a_link_lets_its_owner_in is red for the right reason"),
            ("green", 1, "refused", ["test-changed: tests/test_sign_in.py: test_a_link_lets_its_owner_in asserts less than in red"]),
            ("green", 1, "verified", "12 tests green, none changed"),
            ("refactor", 1, "verified", "12 tests green, nothing new"),
            ("red", 2, "verified", "test_a_link_works_once is red for the right reason"),
        )  # fmt: skip
        commits = iter(self.steps)
        for phase, cycle, what, words in said:
            self.clock.at += 540
            with self.store.transaction() as rows:
                more = {"attempt": 1} if what == "refused" else {"commit": next(commits)} if phase != "plan" else {}
                flows.tell(rows, flow, f"flow.{what}", phase=phase, cycle=cycle, said=words, **more)
        with self.store.transaction() as rows:
            phase = flows.add_phase(
                rows, flow, id="green.2", title="green", brief="Make test_a_link_works_once green.", role="implementer", agent="codex",
                owns=["shop/"], attempts=3, limits={}, host="",
            )  # fmt: skip
            flows.move(rows, flow, phase="green", cycle=2, task=phase.key, head=self.steps[-1])

    def _batch(self) -> None:
        """What is known of two parts besides their state, and what a third says."""
        place = os.path.join(self.app.settings.home, "shop", "sessions", "s-api", "events.jsonl")
        with open(place, "w", encoding="utf-8") as file:
            for kind, words in TALK:
                part = (
                    {"type": "text", "text": words}
                    if kind == "said"
                    else {"type": "tool_use", "name": words.split()[0], "input": {"file_path": words.partition(" ")[2]}}
                )
                file.write(json.dumps({"type": "assistant", "message": {"content": [part]}}) + "\n")
        place = os.path.join(self.app.settings.home, "shop", "sessions", "s-mail")
        os.makedirs(place)
        with open(os.path.join(place, "events.jsonl"), "w", encoding="utf-8") as file:
            for words in MAIL:
                item = {"type": "agent_message", "text": words}
                file.write(json.dumps({"type": "item.completed", "item": item}) + "\n")
        cart = tasks.find(self.store, project="shop", id="shop/cart")
        self.clock.at = MOMENT - 25
        with self.store.transaction() as rows:
            journal.append(rows, "task.verified", task=cart, check=GREEN, said="41 tests green")
        self.clock.at = MOMENT - 20
        line = NEW_CART.splitlines()[6]
        admin.comment(self.app, cart, path="cart.py", line=7, text="What if a price changed meanwhile?", code=line)

    def _waiting(self) -> None:
        """What comes later, and what somebody broke."""
        self.clock.at = MOMENT - 15
        for name, brief, after in (
            ("receipts", "Write receipts as PDF", ["shop-join"]),
            ("newsletter", "Tell customers of the new shop", ["receipts"]),
        ):
            tasks.add(self.store, project="shop", id=name, brief=brief, after=after, agent="claude")
        tasks.add(self.store, project="shop", id="icons", brief="Draw icons for the phone")

    def _feature(self) -> None:
        for name, text in DOCUMENTS.items():
            self.write(f".handoff/features/login/{name}", text)
            os.utime(os.path.join(self.place, ".handoff/features/login", name), (MOMENT - 600, MOMENT - 600))
        lifecycle.begin(self.app, name="login", force=False, ask=lambda _: True, warn=lambda _: None)
        self.clock.at = MOMENT
        executors.begin(
            self.store, id="laptop:1", host="laptop", boot="1", pid=1, process_start="1", lease_seconds=3600.0
        )

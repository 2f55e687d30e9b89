"""The page in a real browser: it follows the relay without reloading, and a yes there is a yes."""

from __future__ import annotations

import json
import os
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

import script_packages
from handoff.base.files import read_text
from handoff.base.settings import Settings
from handoff.board import gates
from handoff.board.sessions.leases import claim
from handoff.board.sessions.sessions import SessionIdentity
from handoff.board.tasks import flows, outcomes, tasks
from handoff.engine.app import App
from handoff.workflows import library
from page_ground import PageGround, until
from sandbox import absent

PAYLOADS = (
    "<script>hit()</script>", "<img src=x onerror=hit()>", "<svg onload=hit()>", '"><script>hit()</script>', "'><img src=x onerror=hit()>",
    "</textarea><script>hit()</script>", "</title><script>hit()</script>", "</style><script>hit()</script>", "<iframe srcdoc='<script>parent.hit()</script>'>",
    "<a href=javascript:hit()>x</a>", "javascript:hit()", "<body onload=hit()>", "<input autofocus onfocus=hit()>", "<details open ontoggle=hit()>",
    "<math><mi//xlink:href='data:x,<script>hit()</script>'>", "<object data='data:text/html,<script>hit()</script>'>", "<embed src='javascript:hit()'>",
    "<form action=javascript:hit()><button>x</button></form>", "<base href='//evil.example/'>", "<meta http-equiv=refresh content='0;url=javascript:hit()'>",
    "<link rel=stylesheet href='//evil.example/x.css'>", "<style>@import '//evil.example/x'</style>", "{{ 1234*4321 }}", "{% print(1234*4321) %}", "${1234*4321}", "#{1234*4321}",
    "<%= 1234*4321 %>", "{{ cycler.__init__.__globals__.os.popen('id').read() }}", "<template><script>hit()</script></template>", "<noscript><p title='</noscript><img src=x onerror=hit()>'>",
    "<!--><script>hit()</script>-->", "<![CDATA[<script>hit()</script>]]>", "<x onclick=hit() tabindex=1 id=x>x</x>", '" onmouseover="hit()', "' onfocus='hit()' autofocus='",
    "`onmouseover=hit()`", "<ScRiPt>hit()</sCrIpT>", "<script/src=data:,hit()></script>", "<svg><animate onbegin=hit() attributeName=x dur=1s>", "<video><source onerror=hit()>",
    "<audio src=x onerror=hit()>", "<marquee onstart=hit()>", "&lt;script&gt;hit()&lt;/script&gt;", "&#60;script&#62;hit()&#60;/script&#62;", "\\u003cscript\\u003ehit()\\u003c/script\\u003e",
    "%3Cscript%3Ehit()%3C/script%3E", "\u202e<script>hit()</script>", "\x08<script>hit()</script>", "\x1b]2;hit\x07<script>hit()</script>", "data:text/html,<script>hit()</script>",
)  # fmt: skip


@pytest.fixture(scope="module")
def ground(tmp_path_factory):
    made = PageGround(str(tmp_path_factory.mktemp("page")))
    yield made
    made.close()


@pytest.fixture(scope="module")
def quiet(tmp_path_factory):
    """A page without a supervisor beside it."""
    made = PageGround(str(tmp_path_factory.mktemp("quiet")))
    made.serve()
    yield made
    made.close()


@pytest.mark.slow
def test_three_agents_work_while_the_page_follows_and_a_gate_is_answered_in_it(ground, browser):
    for name in ("api", "db"):
        waits = f"echo Writing {name}.py; while ! test -e go; do sleep 0.1; done"
        ground.script(name, {"run": waits}, {"write": f"{name}.py", "text": "x"})
        ground.cli("task", "add", name, f"Build {name}.", "--owns", f"{name}.py", "--owns", "go", "--check", "true")
    once = "test -e asked || { touch asked; handoff task ask 'Land cart.py?'; }"
    ground.script("cart", {"write": "cart.py", "text": "x = 1\n"}, {"run": once, "may_fail": True})
    ground.cli(
        "task", "add", "cart", "Fill the cart.", "--owns", "cart.py", "--owns", "asked", "--check", "test -s cart.py"
    )
    ground.work("--in-checkout")
    page = browser.visit(ground)
    page.evaluate("window.kept = 1")
    browser.see(page, "#running >> text=Writing api.py")
    browser.see(page, "#running >> text=Writing db.py")
    browser.see(page, "#needs >> text=Land cart.py?")
    assert page.title().startswith("(1)")
    page.click("#needs article summary:has-text('No')")
    page.fill("#needs textarea[id$=-why]", "half a sentence")
    ground.repo.write("go", "")
    browser.see(page, "#landed >> text=api")
    browser.see(page, "#landed >> text=db")
    assert page.input_value("#needs textarea[id$=-why]") == "half a sentence"
    page.click("#needs button:text-is('Yes')")
    browser.see(page, "#results >> text=handoff answer cart yes")
    browser.see(page, "#needs >> text=Nothing waits for you")
    until(lambda: ground.cli("show", "cart", "--json").json["state"] == "done", "the task goes on after the yes")
    assert page.evaluate("window.kept") == 1
    assert page.wrong == []


@pytest.mark.slow
def test_a_comment_on_a_line_reaches_the_next_session(quiet, browser):
    quiet.repo.write("total.py", "def total(items):\n    return sum(items)\n")
    quiet.repo.commit("total")
    quiet.cli("task", "add", "sums", "Add everything up.", "--owns", "total.py")
    quiet.cli("task", "claim", "sums", "--session", "one")
    quiet.repo.write("total.py", "def total(items):\n    found = 0\n    return sum(items) + found\n")
    quiet.cli("task", "ask", "Is it right?", "--session", "one")
    page = browser.visit(quiet)
    page.click("#needs >> text=sums")
    page.click("text=Diff")
    page.click("[aria-label='Write on line 2']")
    page.fill("#comment-text", "-- why this <b>zero</b>?")
    page.click("#comment-form button")
    browser.see(page, ".comment >> text=why this <b>zero</b>?")
    assert page.locator("#comment-form").count() == 0
    page.click("text=No, with 1 comment")
    page.fill("#asked-why", "not yet")
    page.click("text=Say no")
    browser.see(page, "#results >> text=handoff answer sums no")
    quiet.cli("retry", "sums")
    with open(quiet.cli("show", "sums", "--json").json["document"], encoding="utf-8") as file:
        baton = file.read()
    assert "- `total.py` line 2: -- why this <b>zero</b>?" in baton
    assert "(the line was: `found = 0`)" in baton
    quiet.repo.write("total.py", "def total(items):\n    found = 1\n    return sum(items) + found\n")
    page.reload()
    browser.see(page, ".comment.outdated")
    assert page.wrong == []


def test_words_that_were_typed_outlive_news_a_reload_and_an_answer_from_elsewhere(quiet, browser):
    quiet.cli("task", "add", "draft", "Write it.", "--owns", "draft.py")
    quiet.cli("task", "claim", "draft", "--session", "writer")
    quiet.repo.write("draft.py", "x = 1\n")
    quiet.repo.git("add", "-N", "draft.py")
    quiet.cli("task", "ask", "Is the draft good?", "--session", "writer")
    page = browser.visit(quiet)
    card = page.locator("#needs article", has_text="Is the draft good?")
    card.locator("summary", has_text="No").click()
    card.locator("textarea[id$=-why]").fill("Not before it has")
    page.reload()
    card.locator("textarea[id$=-why]").wait_for(state="visible")
    assert card.locator("textarea[id$=-why]").input_value() == "Not before it has"
    page.goto(f"{quiet.url}/diff/shop/draft?at=draft.py:1")
    page.fill("#comment-text", "Why one?")
    quiet.cli("task", "comment", "draft", "draft.py:1", "Somebody else was here.")
    browser.see(page, ".comment >> text=Somebody else was here.")
    assert page.input_value("#comment-text") == "Why one?"
    page.goto(f"{quiet.url}/")
    page.goto(f"{quiet.url}/diff/shop/draft?at=draft.py:1")
    assert page.input_value("#comment-text") == "Why one?"
    page.click("#comment-form button")
    browser.see(page, ".comment >> text=Why one?")
    page.goto(f"{quiet.url}/diff/shop/draft?at=draft.py:1")
    assert page.input_value("#comment-text") == ""
    page.goto(f"{quiet.url}/")
    browser.see(page, "#needs textarea[id$=-why]:visible")
    quiet.cli("answer", "draft", "yes")
    browser.see(page, "#needs >> text=Your words are still here")
    assert card.locator("textarea[id$=-why]").input_value() == "Not before it has"
    page.click("text=Drop my words")
    assert card.count() == 0
    page.reload()
    assert page.evaluate("Object.keys(sessionStorage).length") == 0
    assert page.wrong == []


# Sends only once the test says so, and hears the answer only once the news of it is there.
LATE = """() => {
window.sends = 0;
const fetched = window.fetch;
const until = async (ready) => {
  while (!ready()) await new Promise((go) => setTimeout(go, 20));
};
window.fetch = async (...asked) => {
  window.sends += 1;
  await until(() => window.send);
  const answer = await fetched(...asked);
  await until(() => document.querySelector("#needs").innerText.includes("rejected: Not like"));
  return answer;
}}"""


def test_words_that_were_sent_are_not_said_to_be_left_when_the_news_is_quicker_than_the_answer(quiet, browser):
    for task in ("own", "other"):
        quiet.cli("task", "add", task, "Write it.")
        quiet.cli("task", "claim", task, "--session", task)
    quiet.cli("task", "ask", "Is it my own?", "--session", "own")
    page = browser.visit(quiet)
    page.evaluate(LATE)
    card = page.locator("#needs article", has_text="Is it my own?")
    card.locator("summary", has_text="No").click()
    card.locator("textarea[id$=-why]").fill("Not like this")
    card.locator("text=Say no").click()
    quiet.cli("task", "ask", "Is it another's?", "--session", "other")
    browser.see(page, "#needs >> text=Is it another's?")
    card.locator("form", has_text="Say no").evaluate("(form) => form.requestSubmit()")
    page.evaluate("window.send = true")
    browser.see(page, "#results >> text=handoff answer own no")
    assert page.evaluate("window.sends") == 1
    assert page.locator(".gone").count() == 0
    assert page.locator("#needs textarea[id$=-why]:visible").count() == 0
    assert page.evaluate("Object.keys(sessionStorage).length") == 0
    assert page.wrong == []


def test_a_question_with_three_choices_is_answered_on_a_phone(quiet, browser):
    quiet.cli("task", "add", "store", "Build the store.")
    quiet.cli("task", "claim", "store", "--session", "store")
    offered = ("Postgres", "Redis", "a file in the project's own folder, as before")
    choices = [word for one in offered for word in ("--choice", one)]
    quiet.cli("task", "ask", "Where is it kept?", *choices, "--session", "store")
    page = browser.visit(quiet, viewport={"width": 390, "height": 844})
    card = page.locator("#needs article", has_text="Where is it kept?")
    assert [one.strip() for one in card.locator(".acts > form > button").all_inner_texts()] == list(offered)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    card.locator("text=a file in the project's own folder").click()
    browser.see(page, "#results >> text=Answered: store is ready.")
    assert "a file in the project's own folder, as before" in quiet.cli("task", "claim", "store", "--show").out
    assert page.wrong == []


def test_a_blocked_task_is_tried_again_with_another_agent_and_a_note(quiet, browser):
    quiet.cli("task", "add", "stuck", "Build it.", "--agent", "codex")
    quiet.cli("task", "claim", "stuck", "--session", "stuck")
    quiet.cli("task", "block", "no such table", "--session", "stuck")
    page = browser.visit(quiet)
    card = page.locator("#needs article", has_text="no such table")
    card.locator("summary", has_text="Retry differently").click()
    card.locator("textarea").fill("It is called users.")
    card.locator("input[name=agent]").fill("claude")
    card.locator("text=Retry so").click()
    browser.see(page, "#results >> text=stuck is ready again.")
    shown = quiet.cli("show", "stuck", "--json").json
    assert (shown["agent"], shown["state"]) == ("claude", "ready")
    assert "A person says: It is called users." in quiet.cli("task", "claim", "stuck", "--show").out
    assert page.wrong == []


def test_a_page_whose_server_went_away_says_so_at_once_and_says_when_it_is_back(quiet, browser):
    page = browser.visit(quiet)
    for away, back in (
        (lambda: page.context.set_offline(True), lambda: page.context.set_offline(False)),
        (quiet.processes[-1].kill, quiet.serve),
    ):
        browser.see(page, "#live:not(.off) >> text=live")
        away()
        page.wait_for_selector("#live.off >> text=not live since", timeout=10_000)  # by silence alone it takes 25 s
        back()
    browser.see(page, "#live:not(.off) >> text=live")
    assert [one for one in page.wrong if "net::ERR" not in one] == []


def test_no_other_server_of_the_machine_is_brought_the_cookie(quiet, browser):
    page = browser.visit(quiet)
    brought = []

    class Neighbour(BaseHTTPRequestHandler):
        def do_GET(self):
            brought.append(self.headers.get("cookie"))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *said):
            del said

    with ThreadingHTTPServer(("127.0.0.1", 0), Neighbour) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for name in ("127.0.0.1", "localhost", "other.localhost"):
            page.goto(f"http://{name}:{server.server_port}/")
        server.shutdown()
    assert set(brought) == {None}
    page.goto(quiet.url)
    browser.see(page, "#needs")
    page.goto(quiet.cli("page", "--json").json["by_address"])
    browser.see(page, "#needs")
    assert page.url.startswith("http://127.0.0.1:")


def test_the_keys_of_the_board_work_in_the_page_and_a_key_tells_them(quiet, browser):
    quiet.cli("task", "add", "keyed", "Press a key.")
    page = browser.visit(quiet)
    page.keyboard.press("?")
    browser.see(page, "dialog#keys[open] >> text=the next that needs you")
    page.keyboard.press("Escape")
    page.keyboard.press("2")
    page.wait_for_url("**/board")
    page.keyboard.press("/")
    page.keyboard.type("keyed")
    page.keyboard.press("Enter")
    page.wait_for_url("**/board?q=keyed*")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url("**/task/shop/keyed")
    page.keyboard.press("d")
    page.wait_for_url("**/diff/shop/keyed")
    page.goto(f"{quiet.url}/timeline?span=1h")
    page.keyboard.press("-")
    page.wait_for_url("**/timeline?span=6h*")
    page.keyboard.press("ArrowLeft")
    page.wait_for_url("**/timeline?span=6h&to=*")
    assert page.wrong == []


WORKFLOW = """name = "guide"
title = "a page for users"
max_cycles = 3

[[phase]]
name = "write"
role = "author"
prompt = '''
Write docs/guide.md:
{{request}}
'''
told = ["request"]
may_write = ["docs/"]
check = "command"
command = "test -s docs/guide.md"
commit = "docs"
gate = true
next = "polish"

[[phase]]
name = "polish"
role = "author"
prompt = '''
Read it again:
{{request}}
'''
told = ["request"]
may_write = ["docs/"]
check = "command"
command = "test -s docs/guide.md"
next = "done"
"""


@pytest.mark.slow
def test_a_flow_that_was_refused_once_goes_on_by_a_yes_in_the_browser(quiet, browser):
    quiet.repo.write(".handoff/workflows/guide.toml", WORKFLOW)
    quiet.repo.commit("workflow")
    quiet.script("too-much", {"write": "README.md", "text": "Sign in."})
    quiet.script("write", {"write": "docs/guide.md", "text": "Sign in by a link."})
    quiet.cli("flow", "start", "guide", "--id", "first", "--agent", "scripted", "--request", "Say how to sign in.")
    quiet.cli("flow", "step", "first", "--with", f"{quiet.scripts}/too-much.toml", code=1)
    quiet.cli("flow", "step", "first", "--with", f"{quiet.scripts}/write.toml")
    page = browser.visit(quiet)
    card = page.locator("#needs article", has_text="first/")
    card.locator("button.yes").click()
    browser.see(page, "#results >> text=handoff answer first/")
    page.goto(f"{quiet.url}/flow/shop/first")
    browser.see(page, "table.flow >> text=polish", ".refused >> text=README.md")
    found = quiet.cli("flow", "list", "--json").json[0]
    assert (found["phase"], found["state"]) == ("polish", "running")
    assert page.wrong == []


EVERY = "/ /board /task/shop/sums /diff/shop/sums /flow/shop/first /journal /timeline /agents /batches /feature"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scheme", "width", "paths"),
    [("light", 1280, EVERY), ("dark", 360, "/ /task/shop/sums /diff/shop/sums /flow/shop/first")],
)
def test_no_page_has_a_barrier(quiet, browser, scheme, width, paths):
    source = script_packages.axe()
    if source is None:
        absent("axe-core: make script-packages")
    with open(source, encoding="utf-8") as file:
        axe = file.read()
    page = browser.visit(quiet, color_scheme=scheme, viewport={"width": width, "height": 900})
    for path in paths.split():
        page.goto(f"{quiet.url}{path}")
        page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true })")
        page.evaluate(axe)
        found = page.evaluate("axe.run({resultTypes: ['violations'], runOnly: ['wcag2a', 'wcag2aa']})")["violations"]
        serious = [
            (path, one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in ("serious", "critical")
        ]
        assert not serious
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), f"{path} is too wide"


def _branches(app: App, ground: PageGround) -> None:
    """Each payload is the name of a flow's branch, as far as git takes it; one is a branch of the checkout too."""
    kind = library.find(ground.repo.path, "tdd")
    prompts = library.prompts_of(library.load(ground.repo.path, "tdd"))
    head = ground.repo.git("rev-parse", "HEAD").strip()
    ground.repo.git("branch", "<script>hit()</script>")
    for number, text in enumerate(PAYLOADS):
        branch = re.sub(r"[ ~^:?*\[\\\x00-\x1f]|\.\.|@\{|//", "", text)
        flows.add(
            app.database, project="shop", id=f"branch-{number}", workflow="tdd", text=read_text(kind.path), prompts=prompts, request=text,
            feature="", repository=ground.repo.path, workspace=ground.repo.path, branch=branch, base=head, phase="plan", max_cycles=3,
            agents={}, gates=[], data={},
        )  # fmt: skip


@pytest.mark.slow
def test_what_agents_write_is_shown_and_never_run(quiet, browser):
    app = App(Settings(quiet.environment, quiet.home, "", "handoff", quiet.repo.path))
    for number, text in enumerate(PAYLOADS):
        task = tasks.add(app.database, project="shop", id=f"x-{number}", title=text, brief=text)
        claim(app.database, key=task.key, who=SessionIdentity(f"s-{number}", project="shop", agent="claude"))
        place = os.path.join(quiet.home, "shop", "sessions", f"s-{number}")
        os.makedirs(place)
        with open(os.path.join(place, "events.jsonl"), "w", encoding="utf-8") as file:
            file.write(
                json.dumps({"type": "assistant", "message": {"content": [{"type": "text", "text": text}]}}) + "\n"
            )
        quiet.repo.write(text.replace("/", "_")[:200], text)
        if number % 2:
            outcomes.block(app.database, key=task.key, fence=1, reason=text)
        else:
            gates.ask(app.database, key=task.key, fence=1, question=f"{text}\n{text}", subject=text)
    _branches(app, quiet)
    app.close()
    quiet.cli("task", "add", "names", "Name the files.", "--owns", "**")
    quiet.cli("task", "claim", "names", "--session", "names")
    quiet.repo.git("add", "-N", ".")
    page = browser.visit(quiet)
    page.add_init_script("window.hits = 0; window.hit = () => { window.hits += 1 }")
    for path in (
        "/",
        "/board",
        "/journal",
        "/journal?q=script",
        "/task/shop/x-0",
        "/task/shop/x-1",
        "/diff/shop/names",
        "/session/shop/s-1",
        "/flows",
        *(f"/flow/shop/branch-{number}" for number in range(0, len(PAYLOADS), 7)),
    ):
        page.goto(f"{quiet.url}{path}")
        browser.see(page, "text=x-1" if path == "/" else "main")
        page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true })")
        foreign = "main script, main iframe, main object, main embed, main base, main img"
        assert page.evaluate(f"document.querySelectorAll('{foreign}').length") == 0
        assert page.evaluate("window.hits") == 0
        loaded = page.evaluate("performance.getEntriesByType('resource').map((one) => one.name)")
        assert not [one for one in loaded if not one.startswith(quiet.url)]
        assert "5332114" not in page.inner_text("main")
    assert page.wrong == []

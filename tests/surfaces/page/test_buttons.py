"""The page does things: it adds, starts, stops, lands, takes back, and chooses the project; each button in a real browser."""

from __future__ import annotations

import os
import re
import shlex

import pytest

import script_packages
from page_ground import PageGround, until
from sandbox import Cli, Repo, absent

SHOP, GARDEN = "shop", "garden-of-the-northern-region-with-a-long-name"


@pytest.fixture(scope="module")
def ground(tmp_path_factory):
    """Two projects and the page of one of them."""
    folder = str(tmp_path_factory.mktemp("page"))
    made = PageGround(folder)
    other = Repo.create(os.path.join(folder, GARDEN))
    made.garden, made.there = Cli(other.path, **made.environment), other
    made.cli("task", "add", "mail", "Send the mail.")
    made.garden("task", "add", "roses", "Water the roses.")
    made.cli("task", "add", "byhand", "Do it yourself.")
    made.cli("task", "claim", "byhand", "--session", "person-1")
    made.serve()
    yield made
    made.close()


def _tasks(cli: Cli) -> dict[str, dict]:
    return {one["task"]: one for one in cli("task", "list", "--all", "--json").json["tasks"]}


def _task(cli: Cli, name: str) -> dict:
    return cli("show", name, "--json").json


def _said(browser, page, words: str, kind: str = "good") -> str:
    browser.see(page, f"#results .result.{kind} >> text={words}")
    return page.inner_text("#results .result code")


def test_a_task_is_added_by_keys_alone_on_a_phone(ground, browser):
    ground.repo.write("tests/test_cart.py", "def test_cart():\n    pass\n")
    ground.repo.write("pyproject.toml", "[tool.pytest.ini_options]\n")
    page = browser.visit(ground, viewport={"width": 360, "height": 740})
    browser.see(page, "#live >> text=live")
    page.keyboard.press("A")
    page.wait_for_function("document.activeElement.id === 'add-text'")
    page.keyboard.type("fix the cart test")
    for field in ("add-agent", "add-check", "add-landing"):
        page.keyboard.press("Tab")
        page.wait_for_function("name => document.activeElement.id === name", arg=field)
        if field == "add-agent":
            page.keyboard.type("scripted")
        if field == "add-landing":
            page.keyboard.type("I see")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    line = _said(browser, page, "Task fix-the-cart-test of project shop is ready.")
    browser.see(page, "#next >> text=fix-the-cart-test")
    found = _task(ground.cli, "fix-the-cart-test")
    assert found["agent"] == "scripted"
    assert "pytest" in found["check"]
    assert shlex.split(line)[1:5] == ["task", "add", "fix the cart test", "--agent=scripted"]
    assert "--landing=review" in line
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert page.input_value("#add-text") == ""
    assert page.wrong == []


def test_what_cannot_be_added_is_said_with_the_next_step(ground, browser):
    page = browser.visit(ground)
    page.click("#add > summary")
    page.fill("#add-text", "cart")
    page.click("#add-form button")
    _said(browser, page, "Say in a sentence what is to be done.", "bad")
    page.fill("#add-text", "empty the cart")
    page.fill("#add-agent", "nobody-knows")
    page.click("#add-form button")
    browser.see(page, "#results .result.bad >> text=Hint:")
    assert page.input_value("#add-text") == "empty the cart", "the words are kept"
    assert "empty-the-cart" not in _tasks(ground.cli)
    assert page.wrong == []


def test_a_command_to_run_never_comes_by_a_form(ground):
    cookie = ground.cookie()
    csrf = re.search(r'name="csrf" content="([0-9a-f]+)"', ground.ask("GET", "/", cookie=cookie).text).group(1)
    form = {"csrf": csrf, "act": "add", "of": "shop/", "text": "sweep the floor", "check": "touch /tmp/never"}
    assert ground.ask("POST", "/act", form, cookie=cookie).status == 303
    assert _task(ground.cli, "sweep-the-floor")["check"] == ""


def test_the_switch_chooses_the_project_of_every_list_and_names_it_where_all_are_shown(ground, browser):
    page = browser.visit(ground)
    browser.see(page, "#next >> text=mail")
    assert page.locator("#next >> text=roses").count() == 0
    page.click(".switch summary")
    page.click(f".switch a:text-is('{GARDEN}')")
    browser.see(page, "#next >> text=roses")
    assert page.locator("#next >> text=mail").count() == 0
    page.goto(f"{ground.url}/board")
    browser.see(page, ".board >> text=roses")
    assert page.locator(".board >> text=mail").count() == 0
    page.goto(f"{ground.url}/journal")
    browser.see(page, ".events >> text=roses")
    assert page.locator(".events >> text=mail").count() == 0
    page.click(".switch summary")
    page.click(".switch a:text-is('All projects')")
    page.wait_for_url("**/journal?project=*")
    page.goto(f"{ground.url}/")
    browser.see(page, f"#next li:has-text('roses') .project:text-is('{GARDEN}')")
    browser.see(page, "#next li:has-text('mail') .project:text-is('shop')")
    ground.garden("task", "add", "tulips", "Water the tulips.")
    browser.see(page, f"#next li:has-text('tulips') .project:text-is('{GARDEN}')")
    page.click("#add > summary")
    page.fill("#add-text", "rake the leaves")
    page.select_option("#add-of", f"{GARDEN}/")
    page.click("#add-form button")
    _said(browser, page, f"Task rake-the-leaves of project {GARDEN} is ready.")
    assert _task(ground.garden, "rake-the-leaves")["workspace"] == ground.there.path
    assert page.wrong == []


def test_a_link_for_one_project_opens_no_other(ground):
    cookie = ground.cookie("--project", "shop")
    page = ground.ask("GET", f"/?project={GARDEN}", cookie=cookie)
    assert page.status == 200
    assert "mail" in page.text
    assert "roses" not in page.text
    assert 'class="switch"' not in page.text
    assert ground.ask("GET", f"/task/{GARDEN}/roses", cookie=cookie).status == 404
    csrf = re.search(r'name="csrf" content="([0-9a-f]+)"', page.text).group(1)
    for of in (f"{GARDEN}/roses", f"{GARDEN}/", "/"):
        form = {"act": "pause", "of": of, "csrf": csrf}
        answer = ground.ask("POST", "/act", form, cookie=cookie, accept="application/json")
        assert "knows no such button" in answer.text
    for one in ("--read-only",):
        assert "roses" not in ground.ask("GET", f"/?project={GARDEN}", cookie=ground.cookie(one)).text


def test_a_project_is_paused_and_goes_on(ground, browser):
    page = browser.visit(ground)
    page.click("#head button:text-is('Pause shop')")
    assert _said(browser, page, "Project shop is stopped") == "handoff pause --project shop"
    browser.see(page, "#needs article:has-text('project shop')", "#head button[disabled][title]:text-is('Pause shop')")
    page.click("#needs article:has-text('project shop') button:text-is('Go on')")
    assert _said(browser, page, "Project shop goes on.") == "handoff resume --project shop"
    browser.see(page, "#head button:not([disabled]):text-is('Pause shop')")
    assert page.wrong == []


def test_a_person_says_something_to_a_session_and_sees_how_far_it_got(ground, browser):
    page = browser.visit(ground, viewport={"width": 390, "height": 844})
    page.goto(f"{ground.url}/session/{SHOP}/person-1")
    page.click("summary:text-is('Say something…')")
    page.fill("#session-tell-text", "use the other table, <b>not</b> this one")
    page.click("#session-tell button:text-is('Say it')")
    _said(browser, page, "Queued for person-1")
    browser.see(page, "#said ~ ul >> text=use the other table, <b>not</b> this one (queued)")
    assert "use the other table" in ground.cli("show", "byhand").out
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.wrong == []


def test_a_button_that_cannot_work_is_grey_and_says_why(ground, browser):
    page = browser.visit(ground)
    page.goto(f"{ground.url}/task/shop/byhand")
    browser.see(page, "button[disabled]:text-is('Stop…')")
    assert "a person did" in page.get_attribute("button:text-is('Stop…')", "title")
    page.goto(f"{ground.url}/session/shop/person-1")
    browser.see(page, "button[disabled]:text-is('Stop…')")
    assert page.wrong == []


@pytest.mark.slow
def test_a_task_is_taken_by_keys_alone_and_handed_to_another_agent(ground, browser):
    ground.cli("task", "add", "wheel", "Turn it.", "--agent", "claude")
    page = browser.visit(ground)
    page.goto(f"{ground.url}/task/shop/wheel")
    browser.see(page, "#live >> text=live")
    page.keyboard.press("t")
    page.wait_for_function("document.activeElement.id === 'task-take-to'")
    page.keyboard.press("Enter")
    line = _said(browser, page, "You hold wheel with fence")
    assert line == "handoff take wheel --project shop"
    assert page.get_attribute("#results button.copy", "data-copy") == line
    browser.see(page, f"#results >> text=Open its conversation in a terminal: {line}")
    assert _task(ground.cli, "wheel")["state"] == "running"
    terminal = ground.cli(*shlex.split(line)[1:])
    assert "You hold wheel with fence" in terminal.out, "the command works while the page still runs"
    page.reload()
    browser.see(page, "#live >> text=live")
    page.keyboard.press("t")
    page.wait_for_function("document.activeElement.id === 'task-take-to'")
    page.keyboard.type("scripted")
    page.keyboard.press("Enter")
    assert _said(browser, page, "scripted goes on with 'wheel'") == "handoff take wheel --to=scripted --project shop"
    found = _task(ground.cli, "wheel")
    assert (found["state"], found["agent"]) == ("ready", "scripted")
    page.goto(f"{ground.url}/task/shop/byhand")
    browser.see(page, "button[disabled]:text-is('Take over…')")
    assert page.wrong == []


def test_work_is_started_stopped_landed_and_taken_back_in_the_browser(ground, browser):
    """In another project than the one the page was started in."""
    go = os.path.join(ground.scripts, "go")
    ground.script(
        "all",
        {"run": f"while ! test -e {go}; do sleep 0.1; done"},
        {"write": "hello.txt", "text": "hello\n"},
        {"run": "handoff task done --summary greeted"},
    )
    script = os.path.join(ground.scripts, "all.toml")
    with open(os.path.join(ground.home, "config.toml"), "w", encoding="utf-8") as file:
        file.write('session_workspace = "clone"\nsession_sandbox = "none"\n')
        file.write(f"[agents.scripted]\narguments = [{script!r}]\n".replace("'", '"'))
    for name in ("roses", "tulips", "rake-the-leaves"):
        ground.garden("cancel", name, code=None)
    page = browser.visit(ground, viewport={"width": 1280, "height": 900})
    page.goto(f"{ground.url}/?project={GARDEN}")
    page.click("#add > summary")
    page.fill("#add-text", "greet the gardener")
    page.select_option("#add-check", "")
    page.select_option("#add-landing", "branch")
    page.click("#add-form button")
    _said(browser, page, "Task greet-the-gardener")
    page.fill("#work-agent", "scripted")
    page.click("#running button:text-is('Start it')")
    try:
        line = _said(browser, page, f"works in the background for project {GARDEN}")
        assert line == f"handoff work --agent=scripted --detach --project {GARDEN}"
        browser.see(page, "#running >> text=greet-the-gardener")
        page.goto(f"{ground.url}/task/{GARDEN}/greet-the-gardener")
        page.click("summary:text-is('Stop…')")
        page.check("#task-stop input[name=hold]")
        page.click("#task-stop button:text-is('Stop it')")
        _said(browser, page, "is kept for you")
        until(lambda: _task(ground.garden, "greet-the-gardener")["state"] == "ready", "the task is free")
        ground.repo.write(go, "")
        ground.garden("retry", "greet-the-gardener")
        until(lambda: _task(ground.garden, "greet-the-gardener")["state"] == "done", "it is done")
    finally:
        ground.cli("work", "--stop")
    _land_and_take_back(ground, browser, page)


def _land_and_take_back(ground, browser, page):
    before = ground.there.git("rev-parse", "main").strip()
    page.goto(f"{ground.url}/task/{GARDEN}/greet-the-gardener")
    page.click("button:text-is('Land')")
    assert _said(browser, page, "Landed") == f"handoff land greet-the-gardener --project {GARDEN}"
    assert ground.there.read("hello.txt") == "hello\n"
    assert page.wrong == []
    assert ground.there.git("rev-parse", "main").strip() != before
    page.click("summary:text-is('Undo…')")
    browser.see(page, "#task-undo >> text=Would move refs/heads/main back")
    page.click("#task-undo button:text-is('Take it back')")
    _said(browser, page, "Moved refs/heads/main back")
    assert ground.there.git("rev-parse", "main").strip() == before
    browser.see(page, "button:text-is('Land')")
    page.click("button:text-is('Land')")
    _said(browser, page, "Landed")
    ground.there.write("more.txt", "more\n")
    ground.there.commit("more")
    page.reload()
    browser.see(page, "button[disabled]:text-is('Undo…')")
    assert "has moved on" in page.get_attribute("button:text-is('Undo…')", "title")
    assert page.wrong == []


@pytest.mark.slow
def test_no_button_is_a_barrier(ground, browser):
    source = script_packages.axe()
    if source is None:
        absent("axe-core: make script-packages")
    with open(source, encoding="utf-8") as file:
        axe = file.read()
    for scheme, width in (("light", 1280), ("dark", 360)):
        page = browser.visit(ground, color_scheme=scheme, viewport={"width": width, "height": 900})
        for path in ("/?project=*", "/board", "/task/shop/byhand", "/session/shop/person-1", f"/task/{GARDEN}/roses"):
            page.goto(f"{ground.url}{path}")
            browser.see(page, "#live >> text=live")
            page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true })")
            page.evaluate(axe)
            found = page.evaluate("axe.run({resultTypes: ['violations'], runOnly: ['wcag2a', 'wcag2aa']})")
            bad = [one for one in found["violations"] if one["impact"] in ("serious", "critical")]
            assert not [(path, one["id"], one["nodes"][0]["html"]) for one in bad]
            assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), f"{path} is too wide"

"""Who may see the page and who may steer: names, origins, links, cookies, forms."""

from __future__ import annotations

import base64
import hashlib
import re
import socket
from urllib.parse import urlsplit

import pytest

from page_ground import PageGround


@pytest.fixture(scope="module")
def ground(tmp_path_factory):
    """One served page for all of this file, with one task that is blocked."""
    made = PageGround(str(tmp_path_factory.mktemp("page")))
    made.cli("task", "add", "mail", "Send the mail.")
    made.cli("task", "claim", "mail", "--session", "one")
    made.cli("task", "block", "pytest is red", "--session", "one")
    made.serve()
    yield made
    made.close()


def _csrf(text: str) -> str:
    return re.search(r'name="csrf" content="([0-9a-f]+)"', text).group(1)


def _name(ground: PageGround) -> str:
    return ground.cookie().partition("=")[0]


def _has_six() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


def _state(ground: PageGround) -> str:
    return ground.cli("show", "mail", "--json").json["state"]


def test_nobody_sees_anything_without_a_link(ground):
    for path in ("/", "/events", "/diff/shop/mail", "/act"):
        answer = ground.ask("GET", path)
        assert answer.status == 401
        assert "mail" not in answer.text
    forged = ground.ask("GET", "/", cookie=f"{_name(ground)}=steer.99999999999.a.{'0' * 64}")
    assert forged.status == 401


def test_words_of_any_letters_are_no_key_and_no_fault(ground):
    name = _name(ground)
    for value in ("steer.99999999999.a.é", "é.é", "....", "steer.x.y.z", "ÿ" * 64):
        assert ground.ask("GET", "/", cookie=f"{name}={value}").status == 401
    cookie = ground.cookie()
    form = {"act": "retry", "of": "shop/mail", "csrf": "é\U0001f511"}
    assert ground.ask("POST", "/act", form, cookie=cookie).status == 403
    assert ground.ask("POST", "/enter", {"link": "é\U0001f511"}).status in (403, 429)
    assert _state(ground) == "blocked"


def test_a_link_opens_once_and_looking_at_it_does_not_use_it_up(ground):
    link = ground.link()
    assert ground.ask("GET", link.removeprefix(ground.url)).status == 200
    first, second = ground.enter(link), ground.enter(link)
    assert (first.status, second.status) == (303, 403)
    assert "set-cookie" not in second.headers
    cookie = first.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie


def test_what_opens_one_page_opens_no_other(ground):
    """Cookies know no ports: under one name each server of this machine sees what a browser brings for another."""
    name = urlsplit(ground.url).hostname
    assert re.fullmatch(r"handoff-[0-9a-f]{12}\.localhost", name)
    cookie, link = ground.cookie(), ground.link()
    assert "domain" not in ground.enter(link).headers["set-cookie"].lower()
    everything = PageGround.beside(ground)
    everything.serve("--all-projects")
    try:
        assert urlsplit(everything.url).hostname == name
        theirs = everything.cookie("--all-projects")
        assert everything.ask("GET", "/", cookie=f"{theirs.partition('=')[0]}={cookie.partition('=')[2]}").status == 401
        assert everything.ask("GET", "/", cookie=f"{cookie}; {theirs}").status == 200
        assert ground.ask("GET", "/", cookie=f"{cookie}; {theirs}").status == 200
        fresh = ground.link()
        assert everything.enter(fresh).status in (403, 429)
        assert ground.enter(fresh).status == 303, "what was tried elsewhere is not used up"
    finally:
        everything.close()


def test_the_page_answers_under_both_numbers_of_the_loopback_and_by_address(ground):
    port = urlsplit(ground.url).port
    if _has_six():
        socket.create_connection(("::1", port)).close()
    by_address = ground.cli("page", "--json").json["by_address"]
    assert by_address.startswith(f"http://127.0.0.1:{port}/enter?link=")
    host = f"127.0.0.1:{port}"
    assert ground.enter(by_address, host=host, origin=f"http://{host}").status == 303


def test_guessing_links_is_slowed_down_and_a_right_one_still_opens(ground):
    codes = [ground.ask("POST", "/enter", {"link": f"guess-{number}"}).status for number in range(14)]
    assert set(codes) <= {403, 429}
    assert codes[-1] == 429
    assert ground.enter(ground.link()).status == 303


@pytest.mark.parametrize(("headers", "status"), [
    *(({"host": host}, 421) for host in ("evil.example", "evil.example:8642", "127.0.0.1.evil.example", "localhost.", "127.0.0.1:x", "")),
    ({"host": "localhost:9"}, 200),  # the near end of a tunnel has a port of its own
])  # fmt: skip
def test_only_a_name_of_ours_is_answered(ground, headers, status):
    answer = ground.ask("GET", "/", cookie=ground.cookie(), **headers)
    assert answer.status == status
    assert ("mail" in answer.text) == (status == 200)


def test_another_site_gets_nothing_and_changes_nothing(ground):
    cookie = ground.cookie()
    csrf = _csrf(ground.ask("GET", "/", cookie=cookie).text)
    form = {"act": "retry", "of": "shop/mail", "csrf": csrf}
    assert ground.ask("POST", "/act", form, cookie=cookie, origin="http://evil.example").status == 403
    neighbour = f"http://127.0.0.1:{int(ground.url.rpartition(':')[2]) + 1}"
    for origin in ("null", neighbour, f"{ground.url}.evil.example", ""):
        assert ground.ask("POST", "/act", form, cookie=cookie, origin=origin).status == 403
    assert ground.ask("GET", "/", cookie=cookie, origin="http://evil.example").status == 403
    assert _state(ground) == "blocked"


def test_a_form_without_its_word_or_of_another_kind_is_refused(ground):
    cookie, other = ground.cookie(), ground.cookie()
    theirs = _csrf(ground.ask("GET", "/", cookie=other).text)
    form = {"act": "retry", "of": "shop/mail"}
    assert ground.ask("POST", "/act", form, cookie=cookie).status == 403
    assert ground.ask("POST", "/act", {**form, "csrf": theirs}, cookie=cookie).status == 403
    assert ground.ask("POST", "/act", form, cookie=cookie, **{"content-type": "text/plain"}).status == 415
    assert ground.ask("POST", "/act", {"text": "x" * 300_000}, cookie=cookie).status == 413
    assert _state(ground) == "blocked"


def test_a_link_to_look_on_shows_all_and_steers_nothing(ground):
    cookie = ground.cookie("--read-only")
    page = ground.ask("GET", "/", cookie=cookie)
    assert "pytest is red" in page.text
    assert 'action="/act"' not in page.text
    form = {"act": "retry", "of": "shop/mail", "csrf": _csrf(page.text)}
    assert ground.ask("POST", "/act", form, cookie=cookie).status == 403
    assert _state(ground) == "blocked"


def test_a_button_is_one_of_our_commands_and_knows_no_others(ground):
    cookie = ground.cookie()
    csrf = _csrf(ground.ask("GET", "/", cookie=cookie).text)
    for form in (
        {"act": "prune", "of": "shop/mail"},
        {"act": "retry", "of": "shop/--help"},
        {"act": "retry", "of": "other/mail"},
    ):
        answer = ground.ask("POST", "/act", {**form, "csrf": csrf}, cookie=cookie, accept="application/json")
        assert "knows no such button" in answer.text
    sure = ground.ask("POST", "/act", {"act": "cancel", "of": "shop/mail", "csrf": csrf}, cookie=cookie)
    assert sure.status == 303
    assert "nothing was changed" in ground.ask("GET", sure.headers["location"], cookie=cookie).text
    outside = ground.ask(
        "POST", "/act", {"act": "pause", "of": "shop/mail", "csrf": csrf, "back": "//evil.example/"}, cookie=cookie
    )
    assert outside.headers["location"].startswith("/?result=")
    assert _state(ground) == "blocked"


def test_every_answer_says_what_a_browser_may_do_with_it(ground):
    cookie = ground.cookie()
    for path, cache in (
        ("/", "no-store"),
        ("/no-such-page", "no-store"),
        ("/enter", "no-store"),
        ("/static/page.js", "no-cache"),
    ):
        headers = ground.ask("GET", path, cookie=cookie).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == cache
    assert ground.ask("GET", "/static/../app.py", cookie=cookie).status == 404


def test_programs_speak_to_the_api_beside_the_page_with_a_token_and_no_cookie(ground):
    assert ground.ask("GET", "/api/v1/openapi.json").status == 200
    assert ground.ask("GET", "/api/v1/tasks", cookie=ground.cookie()).status == 401
    token = ground.cli("token", "new", "watcher", "--scope", "read", "--json").json["secret"]
    answer = ground.ask("GET", "/api/v1/tasks", authorization=f"Bearer {token}")
    assert answer.status == 200
    assert "mail" in answer.text
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    refused = ground.ask("GET", "/api/v1/tasks", authorization=f"Bearer {token}", host="evil.example")
    assert refused.status == 421


def test_the_code_of_a_gate_answers_that_gate_without_a_cookie(ground):
    tests = "def test_total():\n    assert total([1]) == 1\n"
    ground.repo.write("tests/test_cart.py", f"{tests}    assert total([]) == 0\n")
    ground.repo.write("cart.py", "")
    ground.repo.commit("cart")
    ground.cli("task", "add", "cart", "Fill the cart.", "--owns", "**")
    ground.cli("task", "claim", "cart", "--session", "two")
    ground.repo.write("tests/test_cart.py", tests)
    ground.repo.write("cart.py", "def total(items):\n    return 1\n")
    ground.cli("task", "ask", "Land <cart>?", "--session", "two")
    code = ground.cli("gate", "show", "cart", "--json").json["code"]
    page = ground.ask("GET", f"/gates?code={code}")
    assert page.status == 200
    assert "Land &lt;cart&gt;?" in page.text
    assert "asserts less: 2 before, 1 now." in page.text
    assert 'class="right added" role="cell"><i class="kw">def</i> <i class="fn">total</i>(items):' in page.text
    style = re.search(r"<style>(.*?)</style>", page.text, re.DOTALL).group(1)
    proof = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"style-src 'sha256-{proof}'" in page.headers["content-security-policy"]
    assert "<script" not in page.text
    form = {"code": code, "answer": "yes"}
    assert ground.ask("POST", "/gates", form, origin="http://evil.example").status == 403
    assert ground.ask("POST", "/gates", form).status == 200
    assert ground.cli("show", "cart", "--json").json["state"] == "ready"

"""Who may look and who may steer: a link that opens once, then a cookie that says what its holder may do."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
from contextlib import suppress
from html import escape
from urllib.parse import quote, urlsplit

from handoff.base.errors import HandoffError
from handoff.base.files import create_exclusive, make_folder, read_text, remove, write_atomic
from handoff.base.record import TYPE_CHECKING, Record

if TYPE_CHECKING:
    from handoff.engine.app import App

READ, STEER, OWN = "read", "steer", "own"
"""What a visitor may: look alone; also answer, add, stop, land; the same in every project, whichever the page is of."""
LINK_SECONDS = 3600.0
COOKIE_SECONDS = 30 * 86_400
_FOLDER, _KEY, _LINKS = "pages", "key", "links"
_MOST_WRONG, _WRONG_SECONDS = 10, 60.0


class Visitor(Record):
    """Somebody with a cookie of ours."""

    rights: str
    csrf: str
    """What each of its forms must carry: another page of the same browser cannot know it."""
    everywhere: bool = False
    """Whether they may choose another project than the one of this page."""

    @property
    def steers(self) -> bool:
        return self.rights == STEER


class LinkRefused(HandoffError):
    """A link that opens nothing; `slow` when too many were tried."""

    slow = False


def make_link(app: App, *, project: str = "", rights: str = STEER) -> str:
    """The word of a link that lets its first user into the page of a project, or of all, for an hour; only what it hashes to is kept."""
    folder = os.path.join(app.settings.home, _FOLDER, _LINKS)
    make_folder(folder, mode=0o700)
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        with suppress(OSError):
            if os.stat(path).st_mtime < app.clock.now() - LINK_SECONDS:
                os.unlink(path)
    word = secrets.token_urlsafe(32)
    said = json.dumps({"rights": rights, "until": app.clock.now() + LINK_SECONDS, "project": project})
    write_atomic(os.path.join(folder, _hash(word)), said, mode=0o600, sync=False)
    return word


def link(url: str, word: str, *, to: str = "/") -> str:
    """The address that lets its first user in."""
    return f"{url}/enter?link={word}" + (f"&to={quote(to)}" if to != "/" else "")


def own_name(app: App) -> str:
    """The name of this home's pages. Cookies know no ports: under 127.0.0.1 each server of the machine sees those of all others.

    Browsers lead every name under `.localhost` to this machine, and this one nobody can guess.
    """
    return f"handoff-{_sign(_key(app), 'name')[:12]}.localhost"


def by_address(url: str) -> str:
    """The same for programs and browsers that do not know the name."""
    place = urlsplit(url)
    known = (place.hostname or "").endswith(".localhost")
    return place._replace(netloc=f"127.0.0.1:{place.port}").geturl() if known else url


def redirect_file(app: App, address: str) -> str:
    """A file only the person reads that leads a browser there: a link among the words of a program would be seen by all."""
    path = os.path.join(app.settings.home, _FOLDER, "open.html")
    write_atomic(path, f'<!doctype html><meta http-equiv="refresh" content="0; url={escape(address)}">\n', mode=0o600)
    return f"file://{path}"


def same(ours: str, theirs: str) -> bool:
    """Whether two words are equal, in a time that does not tell how much of them is; theirs may hold anything."""
    return hmac.compare_digest(ours.encode(), theirs.encode("utf-8", "surrogatepass"))


def _hash(word: str) -> str:
    return hashlib.sha256(word.encode("utf-8", "replace")).hexdigest()


def _sign(key: bytes, text: str) -> str:
    return hmac.new(key, text.encode("utf-8", "replace"), hashlib.sha256).hexdigest()


def _key(app: App) -> bytes:
    """The secret of this home's pages, made at first use."""
    folder = os.path.join(app.settings.home, _FOLDER)
    make_folder(folder, mode=0o700)
    path = os.path.join(folder, _KEY)
    create_exclusive(path, secrets.token_hex(32) + "\n", mode=0o600)
    return bytes.fromhex(read_text(path).strip())


class Access:
    """What links and cookies are worth for the page of a project, or of all. Cookies outlive the process; a new key ends them all."""

    def __init__(self, app: App, *, project: str = "") -> None:
        self._links, self._clock = os.path.join(app.settings.home, _FOLDER, _LINKS), app.clock
        self._secret, self._project = _key(app), project
        self.cookie_name = f"handoff-{self._signed('cookie')[:12]}"  # not by its port, which cookies do not know
        self._wrong: list[float] = []

    def enter(self, word: str) -> str:
        """Use a link up: the value of the cookie its user gets."""
        path = os.path.join(self._links, _hash(word))
        try:
            kept = json.loads(read_text(path))
        except (HandoffError, ValueError):
            kept = {}
        if kept.get("project") != self._project or not remove(path):  # of two at once only one takes it away
            raise self._refusal()
        if float(kept["until"]) < self._clock.now():
            raise LinkRefused("This link is too old.", "A new one: handoff page")
        return self.cookie(str(kept["rights"]))

    def _refusal(self) -> LinkRefused:
        now = self._clock.monotonic()
        self._wrong = [*(at for at in self._wrong[-_MOST_WRONG:] if at > now - _WRONG_SECONDS), now]
        refusal = LinkRefused("This link was used already or has expired.", "A new one: handoff page")
        refusal.slow = len(self._wrong) > _MOST_WRONG
        return refusal

    def cookie(self, rights: str) -> str:
        """A fresh cookie with these rights."""
        said = f"{rights}.{self._clock.now() + COOKIE_SECONDS:.0f}.{secrets.token_urlsafe(16)}"
        return f"{said}.{self._signed(said)}"

    def visitor(self, cookie: str) -> Visitor | None:
        """Whose cookie it is; None for one that is not ours, or too old."""
        said, _, signature = cookie.rpartition(".")
        if not said or not same(self._signed(said), signature):
            return None
        rights, until, _ = said.split(".")
        if float(until) < self._clock.now():
            return None
        known = STEER if rights == OWN else rights
        return Visitor(known, self._signed(f"form {cookie}"), rights == OWN or not self._project)

    def _signed(self, text: str) -> str:
        """Worth something for this page alone."""
        return _sign(self._secret, f"{self._project}\n{text}")

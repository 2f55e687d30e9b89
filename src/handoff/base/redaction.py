"""Keep secrets out of what is written: tokens by their shape, and the values of variables whose names say secret."""

from __future__ import annotations

import os
import re

from handoff.base.record import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MASK = "[redacted]"
SHORTEST = 8
"""A shorter value is not blanked: it would stand in ordinary words too."""
_HINTS = (
    "sk-|sk_|rk_|ghp_|gho_|ghu_|ghs_|ghr_|github_pat_|AKIA|ASIA|xox|xapp-|AIza|glpat-|PRIVATE KEY|eyJ|://|npm_|pypi-|hf_"
    "|hvs.|SG.|ya29.|dckr_pat_|earer "
).split("|")
_SECRETS = (
    r"(?<![A-Za-z0-9])(?:sk-[A-Za-z0-9_-]{20,}|[sr]k_(?:live|test)_[A-Za-z0-9]{20,}|gh[pousr]_[A-Za-z0-9]{30,}"
    r"|github_pat_[A-Za-z0-9_]{40,}|A[KS]IA[0-9A-Z]{16}|xox[abposr]-[A-Za-z0-9-]{10,}|xapp-[A-Za-z0-9-]{20,}"
    r"|AIza[0-9A-Za-z_-]{35}|glpat-[A-Za-z0-9_-]{20,}|npm_[A-Za-z0-9]{36}|pypi-[A-Za-z0-9_-]{40,}|hf_[A-Za-z0-9]{30,}"
    r"|hvs\.[A-Za-z0-9_-]{20,}|SG\.[A-Za-z0-9_-]{20,}\.[A-Za-z0-9_-]{20,}|ya29\.[A-Za-z0-9_-]{20,}|dckr_pat_[A-Za-z0-9_-]{20,}"
    r"|eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,})"
    r"|(?<=[Bb]earer )[A-Za-z0-9._~+/-]{20,}=*"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----(?:(?!-----END)(?:[A-Za-z0-9+/=\s:,.-]|\\[nrt]))*(?:-----END [A-Z ]*PRIVATE KEY-----)?"
    r"|(?<=://)[^/\s:@\"']+:[^/\s@\"']+(?=@)"
)
_CREDENTIALS = r"://[^/\s:@]*:([^/\s@]+)@"
_ASSIGNED = r"""((?:\b([A-Z][A-Z0-9_]*)=|--([a-z-]*(?:token|password|passwd|secret|api-key|access-key))[= ]))("[^"\n]*"|'[^'\n]*'|[^\s;&|"'\[$]+)"""
_BEGIN, _END = b"-----BEGIN ", b"-----END "
_WORDS = frozenset(
    """KEY KEYS APIKEY TOKEN TOKENS SECRET SECRETS PASSWORD PASSWORDS PASSWD PASSPHRASE PASSCODE PASS PAT CREDENTIAL CREDENTIALS
    AUTH AUTHTOKEN COOKIE WEBHOOK DSN""".split()
)
_ENDINGS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIALS")
_LONGEST_LINE, _OVERLAP, _LONGEST_KEY = 1 << 20, 1 << 13, 1 << 14


def redact(text: str, values: Iterable[str] = ()) -> tuple[str, int]:
    """The text without these values and without what looks like a secret, and how many were taken out."""
    count = 0
    for value in values:
        if value in text:
            count += text.count(value)
            text = text.replace(value, MASK)
    if not any(hint in text for hint in _HINTS):  # the pattern is only compiled when it may be needed
        return text, count
    text, found = re.subn(_SECRETS, MASK, text)
    return text, count + found


def redact_assignments(text: str) -> str:
    """The text without what a command line gives to a secret: `API_TOKEN=… ./run`, `--password …`."""
    if "=" not in text and "--" not in text:
        return text
    return re.sub(_ASSIGNED, lambda found: f"{found[1]}{MASK}" if says_secret(found[2] or found[3]) else found[0], text)


def says_secret(name: str) -> bool:
    """Whether the name of a variable says that its value is a secret."""
    words = name.upper().replace("-", "_").split("_")
    return not _WORDS.isdisjoint(words) or words[-1].endswith(_ENDINGS)


def has_credentials(value: str) -> bool:
    """Whether a value is an address with a password in it."""
    return "://" in value and re.search(_CREDENTIALS, value) is not None


def secret_values(environment: Mapping[str, str], names: Iterable[str] = ()) -> tuple[str, ...]:
    """The values of all variables that hold a secret, as they are and as JSON writes them; the longest first.

    `names` are known to hold one whatever they are called. A file that a variable names is no secret itself.
    """
    known, found = frozenset(names), set()
    for name, value in environment.items():
        if name in known or says_secret(name):
            if not (value.startswith("/") and os.path.exists(value)):
                found.add(value)
        elif "://" in value:
            found.update(match.group(1) for match in re.finditer(_CREDENTIALS, value))
    found.update([value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") for value in found])
    return tuple(sorted((value for value in found if len(value) >= SHORTEST), key=lambda one: (-len(one), one)))


def without_secrets(text: str, environment: Mapping[str, str], names: Iterable[str] = ()) -> str:
    """The text without the secrets of an environment and without what looks like one."""
    return redact(text, secret_values(environment, names))[0]


class RedactedStream:
    """What a program says, piece by piece, without secrets: whole lines are given on, a key of several lines as a whole."""

    def __init__(self, values: Iterable[str]) -> None:
        self._values = tuple(values)
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """What can be written now."""
        self._held += data
        whole = self._held.rfind(b"\n") + 1
        if not whole and len(self._held) > _LONGEST_LINE:
            whole = len(self._held) - _OVERLAP
        key = self._held.rfind(_BEGIN, 0, whole)
        if key >= 0 and self._is_open(key, whole):
            whole = key
        ready, self._held = self._held[:whole], self._held[whole:]
        return self._clean(ready)

    def _is_open(self, key: int, whole: int) -> bool:
        """Whether a private key of several lines begins here and has not ended."""
        line = self._held[self._held.rfind(b"\n", 0, key) + 1 : key]
        begins = not line.strip() and b"PRIVATE KEY-----" in self._held[key : key + 64]
        return begins and self._held.find(_END, key, whole) < 0 and len(self._held) - key < _LONGEST_KEY

    def rest(self) -> bytes:
        """What is left when the program is over."""
        ready, self._held = self._held, b""
        return self._clean(ready)

    def _clean(self, data: bytes) -> bytes:
        if not data:
            return b""
        text, count = redact(data.decode("utf-8", "surrogateescape"), self._values)
        return text.encode("utf-8", "surrogateescape") if count else data

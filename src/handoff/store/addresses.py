"""A database's address: whether it holds a password, what may be shown of it, and the encryption that is demanded."""

from __future__ import annotations

_POSTGRES = ("postgresql://", "postgres://")
_VERIFIED = ("verify-ca", "verify-full")
_LOOPBACK = ("localhost", "::1", "127.")


def is_postgres(url: str) -> bool:
    return url.startswith(_POSTGRES)


def password_of(url: str) -> str:
    """The password in the address, wherever it stands; nothing when there is none."""
    login, at, _ = url.partition("://")[2].rpartition("@")
    password = login.partition(":")[2] if at else ""
    return password or _option(url, "password")


def without_password(url: str) -> str:
    """The address as it may be shown: no password, no options."""
    scheme, _, rest = url.partition("://")
    login, at, place = rest.rpartition("@")
    return f"{scheme}://{login.partition(':')[0]}{at}{place}".partition("?")[0]


def redact(text: str, url: str) -> str:
    """A driver's words without the password, as it was written or as it was meant."""
    password = password_of(url)
    if password:
        from urllib.parse import unquote

        for secret in sorted({password, unquote(password)}, key=len, reverse=True):
            text = text.replace(secret, "[redacted]")
    return text


def with_options(url: str, **options: str) -> str:
    """The address with these options added; those it names itself stay as they are."""
    from urllib.parse import quote

    for name, value in options.items():
        if value and not _option(url, name):
            sign = "" if url.endswith(("?", "&")) else "&" if "?" in url else "?"
            url += f"{sign}{name}={quote(value)}"
    return url


def weakness(url: str, *, host: str, encrypted: bool) -> str:
    """What is wrong with the way to the server, in a person's words; nothing on this machine or when all is well."""
    if not host or host.startswith("/") or host.startswith(_LOOPBACK):
        return ""
    if not encrypted:
        return f"The connection to {host} is not encrypted: whoever is on the way can read and change the relay's rows."
    if _option(url, "sslmode") not in _VERIFIED:
        return f"The connection to {host} is encrypted, but nobody has verified that it is the right server."
    return ""


def _option(url: str, name: str) -> str:
    for pair in url.partition("?")[2].split("&"):
        key, _, value = pair.partition("=")
        if key == name:
            return value
    return ""

"""A database's address: passwords are never shown, and a way on which somebody can listen is told."""

from __future__ import annotations

import pytest

from handoff.store import database


@pytest.mark.parametrize(
    ("url", "password", "shown"),
    [
        ("postgresql://me@server/relay", "", "postgresql://me@server/relay"),
        ("postgresql://me:pw@server/relay?sslmode=require", "pw", "postgresql://me@server/relay"),
        ("postgresql://me:p@w@server/relay", "p@w", "postgresql://me@server/relay"),
        ("postgresql://me:p/w?x@server/relay", "p/w?x", "postgresql://me@server/relay"),
        ("postgresql://server/relay?user=me&password=pw", "pw", "postgresql://server/relay"),
        ("postgresql:///relay?host=/run", "", "postgresql:///relay"),
        ("sqlite:////a/b.db", "", "sqlite:////a/b.db"),
    ],
)
def test_a_password_is_found_wherever_it_stands_and_never_shown(url, password, shown):
    assert database.password_of(url) == password
    assert database.without_password(url) == shown


def test_words_of_a_driver_lose_the_password_as_written_and_as_meant():
    url = "postgresql://me:p%2Fw@server/relay"
    assert database.redact("no p%2Fw and no p/w here", url) == "no [redacted] and no [redacted] here"
    assert database.redact("nothing to hide", "postgresql://me@server/relay") == "nothing to hide"


def test_options_are_added_and_those_of_the_address_win():
    assert database.with_options("postgresql://h/d", sslmode="verify-full", sslrootcert="/a b") == (
        "postgresql://h/d?sslmode=verify-full&sslrootcert=/a%20b"
    )
    assert database.with_options("postgresql://h/d?sslmode=require", sslmode="verify-full") == (
        "postgresql://h/d?sslmode=require"
    )
    assert database.with_options("postgresql://h/d", sslmode="") == "postgresql://h/d"


@pytest.mark.parametrize(
    ("host", "encrypted", "options", "word"),
    [
        ("", False, "", ""),
        ("/run/postgresql", False, "", ""),
        ("localhost", False, "", ""),
        ("127.0.0.1", False, "", ""),
        ("::1", False, "", ""),
        ("db.example", False, "", "not encrypted"),
        ("10.0.0.7", False, "sslmode=prefer", "not encrypted"),
        ("db.example", True, "sslmode=require", "nobody has verified"),
        ("db.example", True, "", "nobody has verified"),
        ("db.example", True, "sslmode=verify-full", ""),
        ("db.example", True, "a=b&sslmode=verify-ca", ""),
    ],
)
def test_a_way_on_which_somebody_can_listen_is_told(host, encrypted, options, word):
    told = database.weakness(f"postgresql://me@x/d?{options}", host=host, encrypted=encrypted)
    assert word in told if word else told == ""

"""The tree speaks of the product alone: no machine, no host, no person."""

from __future__ import annotations

import os
import re
import socket

from source import ROOT, project_files

MACHINE_PATHS = re.compile(
    rb"(?<![\w.~$}{>*-])/(?:work|root|opt|mnt|srv|Users/\w+|home/\w+|tmp/w|tmp/hub|private)/[\w.-]*"
)
HOSTS = re.compile(rb"\b(?:https?|ssh|git|wss?)://([A-Za-z0-9.-]+\.[A-Za-z]{2,}|\d+\.\d+\.\d+\.\d+)")
ADDRESSES = re.compile(rb"[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+\.[A-Za-z.]{2,}")
SECRETS = re.compile(
    rb"-----BEGIN [A-Z ]*PRIVATE KEY|\bghp_[A-Za-z0-9]{20,}|\bsk-[A-Za-z0-9]{20,}|\bAKIA[A-Z0-9]{16}\b"
)
# Public places a reader may be sent to, and names reserved for examples.
KNOWN_HOSTS = {
    "static.modelcontextprotocol.io", "example.com", "example.org", "example.invalid", "example.test", "127.0.0.1", "github.com", "raw.githubusercontent.com",
    "www.w3.org", "keepachangelog.com", "semver.org", "git-scm.com", "www.sqlite.org", "sqlite.org", "peps.python.org",
    "docs.python.org", "hooks.slack.com", "discord.com", "cloudevents.io", "www.standardwebhooks.com",
}  # fmt: skip
PICTURES = (".webp", ".png")
RESERVED = (b"example.com", b"example.org", b"example.invalid", b"example.test", b"noreply.invalid", b"handoff.invalid")


def _found(pattern: re.Pattern[bytes]) -> list[tuple[str, int, re.Match[bytes]]]:
    found = []
    for name in project_files():
        if name == "tests/house/test_privacy.py":
            continue
        with open(os.path.join(ROOT, name), "rb") as file:
            for number, line in enumerate(file, 1):
                found += [(name, number, match) for match in pattern.finditer(line)]
    return found


def test_no_file_names_a_place_of_one_machine():
    places = [f"{name}:{number}: {match[0].decode()}" for name, number, match in _found(MACHINE_PATHS)]
    assert not places, "\n".join(places)


def test_no_file_names_a_host_that_is_not_public_knowledge():
    hosts = [
        f"{name}:{number}: {match[1].decode()}"
        for name, number, match in _found(HOSTS)
        if match[1].decode() not in KNOWN_HOSTS and not match[1].endswith((b".invalid", b".example", b".test"))
    ]
    assert not hosts, "\n".join(hosts)


def test_no_file_names_this_machine():
    name = socket.gethostname()
    if len(name) < 6 or name in ("localhost", "debian", "ubuntu"):
        return
    assert not [(file, number) for file, number, _ in _found(re.compile(re.escape(name.encode())))]


def test_no_file_holds_an_address_or_a_secret():
    people = [
        f"{name}:{number}: {match[0].decode()}"
        for name, number, match in _found(ADDRESSES)
        if not name.endswith(PICTURES)  # compressed: any three letters come by chance
        and not match[0].endswith(RESERVED)
        and not match[0].endswith((b".invalid", b".test", b".service", b".md"))
    ]
    secrets = [f"{name}:{number}" for name, number, _ in _found(SECRETS)]
    assert not people + secrets, "\n".join(people + secrets)

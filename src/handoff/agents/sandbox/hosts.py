"""Which hosts a sandboxed program reaches where the network is by list: names, ports, and addresses that nobody reaches."""

from __future__ import annotations

import re
import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_URL = r"(https?)://(?:[^\s/@\"']*@)?(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(\d+))?"
_USUAL_PORTS = (443, 80)
_PORTS = {"https": 443, "http": 80}
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_METADATA = ("100.100.100.200", "fd00:ec2::254", "168.63.129.16")


def hosts_in(texts: Iterable[str]) -> tuple[str, ...]:
    """Every `host:port` that addresses in these texts name."""
    found: dict[str, None] = {}
    for text in texts:
        if "://" in text:
            for scheme, host, port in re.findall(_URL, text):
                found[f"{host.lower()}:{port or _PORTS[scheme]}"] = None
    return tuple(found)


def split(entry: str, port: int = 0) -> tuple[str, int]:
    """A host and its port, `port` where none is said; an IPv6 address with a port stands in brackets."""
    host, colon, number = entry.rpartition(":")
    if colon and number.isdigit() and (":" not in host or host.endswith("]")):
        return host.strip("[]").lower().rstrip("."), int(number)
    return entry.strip("[]").lower().rstrip("."), port


def loopback_ports(entries: Iterable[str]) -> list[int]:
    """The ports of this machine itself that are on the list, such as that of a model server of the person's own."""
    return [port for host, port in map(split, entries) if host in _LOOPBACK and port]


class HostList:
    """The hosts on the list; what is not on it is refused by name, and some addresses are refused whatever is on it."""

    def __init__(self, entries: Iterable[str]) -> None:
        self._entries = [split(entry) for entry in entries]

    def has(self, host: str, port: int) -> bool:
        """Whether a host may be reached at a port: without one on the list, at the usual ones of the web."""
        return any(
            _is(host, name) and (port == number if number else port in _USUAL_PORTS) for name, number in self._entries
        )

    def addresses(self, host: str, port: int) -> list[tuple[int, tuple[str, int]]]:
        """Where a host of the list is, without addresses nobody reaches: those of the link, of metadata, of everybody."""
        import ipaddress

        found = []
        for family, _, _, _, place in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            address = ipaddress.ip_address(str(place[0]).partition("%")[0])
            plain = getattr(address, "ipv4_mapped", None) or address
            local = plain.is_loopback and not any(host == name for name, number in self._entries if number == port)
            if not (
                plain.is_link_local or plain.is_multicast or plain.is_unspecified or local or str(plain) in _METADATA
            ):
                found.append((int(family), (str(place[0]), port)))
        return found


def _is(host: str, name: str) -> bool:
    if name.startswith("*."):
        return host.endswith(name[1:]) and not host.replace(".", "").isdigit()
    return host == name

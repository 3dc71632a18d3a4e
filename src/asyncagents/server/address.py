"""Where a server listens: what a name stands for on this machine, and a port that is free."""

import errno
import socket
from ipaddress import IPv6Address, ip_address

from msgspec import Struct

from asyncagents.errors import ConfigError

TRIES = 10
BACKLOG = 1024
UNSENT_BYTES = 128 * 1024
"""So much the system keeps for one who does not read; left to itself it keeps megabytes."""


class Address(Struct, frozen=True):
    """One that a name stood for when it was asked; what counts is this, and not the name."""

    name: str
    family: socket.AddressFamily
    host: str
    scope: int = 0
    """Which link a link-local one is of."""

    @property
    def is_loopback(self) -> bool:
        return is_loopback(self.host)

    def bind(self, port: int) -> socket.socket:
        """At this port, or the first free one of the nine after it, or whichever is free."""
        ports = [*range(port, min(port + TRIES, 65_536)), 0] if port else [0]
        for each in ports:
            bound = socket.socket(self.family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            # Else an answer in two pieces waits 40 ms for a receipt of the first.
            bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if hasattr(socket, "TCP_NOTSENT_LOWAT"):
                bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES)
            try:
                bound.bind(self._at(each))
                bound.listen(BACKLOG)
            except OSError as error:
                bound.close()
                if each == 0 or error.errno != errno.EADDRINUSE:
                    raise ConfigError(f"cannot listen at {self.name}:{each}: {error.strerror}") from error
                continue
            return bound
        raise AssertionError("the last one takes whichever is free")

    def url(self, port: int) -> str:
        """By which programs of this machine reach it."""
        named = f"[{self.name}]" if ":" in self.name else self.name
        host = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}.get(named, named)
        return f"http://{host}:{port}"

    def _at(self, port: int) -> tuple[str, int] | tuple[str, int, int, int]:
        if self.family == socket.AF_INET6:
            return (self.host, port, 0, self.scope)
        return (self.host, port)


def resolve(name: str) -> Address:
    """Raises `ConfigError` if it stands for nothing."""
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM) if name else []
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"there is no address {name[:80]!r} to listen at: {error}") from error
    if not found:
        raise ConfigError("the address to listen at is empty: give one, such as 127.0.0.1")
    family, _, _, _, place = found[0]
    return Address(name, family, str(place[0]), int(place[3]) if len(place) > 3 else 0)


def is_loopback(text: str) -> bool:
    """Whether it is the address of this machine alone, also where IPv6 writes one of IPv4."""
    try:
        found = ip_address(text)
    except ValueError:
        return False
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return (mapped or found).is_loopback


def is_ipv6(text: str) -> bool:
    try:
        return ip_address(text).version == 6
    except ValueError:
        return False

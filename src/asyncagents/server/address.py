"""The address that a server listens at: resolving a host name and binding a free port."""

import errno
import socket
from ipaddress import IPv6Address, ip_address

from msgspec import Struct

from asyncagents.errors import ConfigError

PORT_TRIES = 10
BACKLOG = 1024
UNSENT_BYTES = 128 * 1024
"""Send buffer of the kernel for a client that does not read; the default is megabytes."""


class BindAddress(Struct, frozen=True):
    """A host name with the address that it resolved to; checks use the address, not the name."""

    name: str
    family: socket.AddressFamily
    host: str
    scope: int = 0
    """Scope id of a link-local IPv6 address."""

    @property
    def is_loopback(self) -> bool:
        return is_loopback(self.host)

    def bind(self, port: int) -> socket.socket:
        """Listen at `port`, the first free one of the next nine, or any free port."""
        ports = [*range(port, min(port + PORT_TRIES, 65_536)), 0] if port else [0]
        for each in ports:
            bound = socket.socket(self.family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            # Otherwise a response in two packets waits 40 ms for the ACK of the first (Nagle's algorithm).
            bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if hasattr(socket, "TCP_NOTSENT_LOWAT"):
                bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES)
            try:
                bound.bind(self._socket_address(each))
                bound.listen(BACKLOG)
            except OSError as error:
                bound.close()
                if each == 0 or error.errno != errno.EADDRINUSE:
                    raise ConfigError(f"cannot listen at {self.name}:{each}: {error.strerror}") from error
                continue
            return bound
        raise AssertionError("port 0 takes any free port")

    def url(self, port: int) -> str:
        """Return the URL for programs of this machine."""
        named = f"[{self.name}]" if ":" in self.name else self.name
        host = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}.get(named, named)
        return f"http://{host}:{port}"

    def _socket_address(self, port: int) -> tuple[str, int] | tuple[str, int, int, int]:
        if self.family == socket.AF_INET6:
            return (self.host, port, 0, self.scope)
        return (self.host, port)


def resolve_address(name: str) -> BindAddress:
    """Resolve a host name to its first address. Raises `ConfigError` if there is none."""
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM) if name else []
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"cannot resolve {name[:80]!r} to an address to listen at: {error}") from error
    if not found:
        raise ConfigError("the address to listen at is empty: give one, such as 127.0.0.1")
    family, _, _, _, place = found[0]
    return BindAddress(name, family, str(place[0]), int(place[3]) if len(place) > 3 else 0)


def is_loopback(text: str) -> bool:
    """Whether the text is a loopback address, also an IPv4-mapped one."""
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

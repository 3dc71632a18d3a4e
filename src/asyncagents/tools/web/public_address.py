"""Classify IP addresses: the public web, this machine and its network, or what no tool may reach."""

import socket
from collections.abc import Callable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Literal, TypeAlias

Reach: TypeAlias = Literal["public", "local", "never"]
ReachOf: TypeAlias = Callable[[str], Reach]
"""Classifies an IP address."""

_NAT64 = IPv6Network("64:ff9b::/96")
_UNICAST = IPv6Network("2000::/3")
"""All allocated global unicast addresses; the others are deprecated or not global."""
_LOCAL = tuple(
    map(
        IPv4Network,
        ("0.0.0.0/32", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"),
    )
)
_LOCAL_6 = tuple(map(IPv6Network, ("::/128", "::1/128", "fc00::/7")))
# Metadata services of clouds, which give out a machine's secrets, outside of the link-local networks
# (169.254.0.0/16, fe80::/10, never reached at all): Alibaba, Azure, Oracle; AWS, Google, Oracle, Scaleway.
_METADATA = tuple(map(IPv4Network, ("100.100.100.200/32", "168.63.129.16/32", "192.0.0.0/24")))
_METADATA_6 = tuple(
    map(IPv6Network, ("fd00:ec2::/32", "fd20:ce::254/128", "fd00:c1::a9fe:a9fe/128", "fd00:42::42/128"))
)


def reach_of(text: str) -> Reach:
    """Classify an IP address by its value; a text that is not an address, or has a zone, is "never"."""
    try:
        address = ip_address(text)
    except ValueError:
        return "never"
    if isinstance(address, IPv4Address):
        return _reach_of_4(address)
    return "never" if address.scope_id else _reach_of_6(address)


def reach_from_here(text: str) -> Reach:
    """Classify as `reach_of`, but a public address of this machine is "local"."""
    reach = reach_of(text)
    return "local" if reach == "public" and _is_own_address(text) else reach


def is_public(text: str) -> bool:
    return reach_of(text) == "public"


def _reach_of_4(address: IPv4Address) -> Reach:
    if any(address in network for network in _METADATA):
        return "never"
    if any(address in network for network in _LOCAL):
        return "local"
    return "public" if address.is_global and not address.is_multicast else "never"


def _reach_of_6(address: IPv6Address) -> Reach:
    """Classify an IPv6 address; one that embeds an IPv4 address by that."""
    if address.ipv4_mapped is not None:
        return _reach_of_4(address.ipv4_mapped)
    if (inner := _embedded_ipv4(address)) is not None:
        return "public" if _reach_of_4(inner) == "public" else "never"
    if any(address in network for network in _METADATA_6):
        return "never"
    if any(address in network for network in _LOCAL_6):
        return "local"
    return "public" if address in _UNICAST and address.is_global else "never"


def _embedded_ipv4(address: IPv6Address) -> IPv4Address | None:
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    return IPv4Address(int(address) & 0xFFFFFFFF) if address in _NAT64 else None


def _is_own_address(text: str) -> bool:
    """Return whether an address is this machine's: then the system would send from it. Sends nothing."""
    family = socket.AF_INET6 if ":" in text else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect((text, 9))
            return ip_address(str(probe.getsockname()[0])) == ip_address(text)
        except OSError:  # no route, so the address is not ours
            return False

"""What an address leads to: the public web, this machine and its network, or what no tool may reach."""

import socket
from collections.abc import Callable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Literal, TypeAlias

Reach: TypeAlias = Literal["public", "local", "never"]
ReachOf: TypeAlias = Callable[[str], Reach]
"""Where an address leads."""

_NAT64 = IPv6Network("64:ff9b::/96")
_UNICAST = IPv6Network("2000::/3")
"""All that is given out to anybody; what lies beside it is of old, or for use at home."""
_LOCAL = tuple(
    map(
        IPv4Network,
        ("0.0.0.0/32", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"),
    )
)
_LOCAL_6 = tuple(map(IPv6Network, ("::/128", "::1/128", "fc00::/7")))
# Where clouds tell a machine its secrets, outside of the link-local networks (169.254.0.0/16, fe80::/10),
# which are never reached as a whole: Alibaba, Azure and Oracle; AWS, Google, Oracle and Scaleway.
_METADATA = tuple(map(IPv4Network, ("100.100.100.200/32", "168.63.129.16/32", "192.0.0.0/24")))
_METADATA_6 = tuple(
    map(IPv6Network, ("fd00:ec2::/32", "fd20:ce::254/128", "fd00:c1::a9fe:a9fe/128", "fd00:42::42/128"))
)


def reach_of(text: str) -> Reach:
    """Tell where an address leads by what it says. What is no address, or names a zone, leads nowhere."""
    try:
        address = ip_address(text)
    except ValueError:
        return "never"
    if isinstance(address, IPv4Address):
        return _reach_of_4(address)
    return "never" if address.scope_id else _reach_of_6(address)


def reach_from_here(text: str) -> Reach:
    """Tell the same as `reach_of`, but count a public address of this very machine as local."""
    reach = reach_of(text)
    return "local" if reach == "public" and _is_own(text) else reach


def is_public(text: str) -> bool:
    return reach_of(text) == "public"


def _reach_of_4(address: IPv4Address) -> Reach:
    if any(address in network for network in _METADATA):
        return "never"
    if any(address in network for network in _LOCAL):
        return "local"
    return "public" if address.is_global and not address.is_multicast else "never"


def _reach_of_6(address: IPv6Address) -> Reach:
    """An address of the old kind inside one of the new leads where that one does."""
    if address.ipv4_mapped is not None:
        return _reach_of_4(address.ipv4_mapped)
    if (inner := _tunnelled(address)) is not None:
        return "public" if _reach_of_4(inner) == "public" else "never"
    if any(address in network for network in _METADATA_6):
        return "never"
    if any(address in network for network in _LOCAL_6):
        return "local"
    return "public" if address in _UNICAST and address.is_global else "never"


def _tunnelled(address: IPv6Address) -> IPv4Address | None:
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    return IPv4Address(int(address) & 0xFFFFFFFF) if address in _NAT64 else None


def _is_own(text: str) -> bool:
    """The system sends from the very address that it sends to, if that is its own. Nothing is sent here."""
    family = socket.AF_INET6 if ":" in text else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect((text, 9))
            return ip_address(str(probe.getsockname()[0])) == ip_address(text)
        except OSError:  # no way leads there, so it is not ours
            return False

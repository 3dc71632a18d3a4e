"""Which addresses a fetch may reach: public ones, however they are written."""

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

_NAT64 = (IPv6Network("64:ff9b::/96"), IPv6Network("64:ff9b:1::/48"))
_UNICAST = IPv6Network("2000::/3")
"""All that is given out to anybody; what lies beside it is of old, or for use at home."""


def is_public(text: str) -> bool:
    """Also an address of the old kind inside one of the new: what it leads to counts."""
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return False
    if isinstance(address, IPv6Address):
        inner = _inside(address)
        return address in _UNICAST and address.is_global if inner is None else is_public(str(inner))
    return address.is_global and not address.is_multicast


def _inside(address: IPv6Address) -> IPv4Address | None:
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    if any(address in network for network in _NAT64):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return None

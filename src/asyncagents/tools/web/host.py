"""Normalise hosts of URLs to one spelling, and reject those that two parsers may read differently."""

import re
from ipaddress import ip_address

from yarl import URL

_NAME = re.compile(r"[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?", re.ASCII)
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*", re.ASCII)
_LONGEST = 253


def find_literal(host: str) -> str | None:
    """Return an IP address in its usual spelling; None for a name, or an address with a zone."""
    try:
        return None if "%" in host else str(ip_address(host))
    except ValueError:
        return None


def is_name(host: str) -> bool:
    """Return whether a host is a plain ASCII name; 2130706433, 0x7f.1 and 0177.0.0.1, which some systems
    read as IP addresses, are not."""
    bare = host.removesuffix(".")
    numeric = _NUMBER.fullmatch(bare.rpartition(".")[2]) is not None
    return _NAME.fullmatch(bare) is not None and ".." not in bare and not numeric


def normalise_host(host: str) -> str | None:
    """Return a host as it is connected to: mapped by IDNA, in lower case, without a trailing dot. None if it
    is neither an IPv4 address nor a name."""
    try:
        mapped = host if host.isascii() else URL.build(scheme="http", host=host).raw_host or ""
    except ValueError:  # also for names that IDNA forbids
        return None
    bare = mapped.lower().removesuffix(".")
    if (literal := find_literal(bare)) is not None:
        return literal if ":" not in literal else None
    return bare if len(bare) <= _LONGEST and is_name(bare) else None


def readable_host(host: str) -> str:
    """Return a host in Unicode, without `xn--`."""
    try:
        return URL.build(scheme="http", host=host).host or host if "xn--" in host else host
    except ValueError:
        return host

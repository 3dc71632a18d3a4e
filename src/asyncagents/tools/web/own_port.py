"""Read the port of the server that uses a data directory from its `server.json`."""

from pathlib import Path

import msgspec
from msgspec import Struct

LISTING_FILE = "server.json"


class _ServerListing(Struct, frozen=True):
    port: int


def read_own_port(data: Path) -> int | None:
    """Return the listed port, or None; a server that was killed may still be listed."""
    try:
        return msgspec.json.decode((data / LISTING_FILE).read_bytes(), type=_ServerListing).port
    except (OSError, msgspec.DecodeError):
        return None

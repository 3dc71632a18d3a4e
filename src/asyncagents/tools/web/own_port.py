"""Read the port of the server that uses a data directory from its `server.json`."""

from pathlib import Path

import msgspec
from msgspec import Struct

LISTING = "server.json"


class _Listed(Struct, frozen=True):
    port: int


def read_own_port(data: Path) -> int | None:
    """Return the listed port, or None; a server that was killed may still be listed."""
    try:
        return msgspec.json.decode((data / LISTING).read_bytes(), type=_Listed).port
    except (OSError, msgspec.DecodeError):
        return None

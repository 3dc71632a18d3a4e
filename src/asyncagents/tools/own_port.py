"""The port of the server that works on a data directory, as `server.json` there tells it."""

from pathlib import Path

import msgspec
from msgspec import Struct

LISTING = "server.json"


class _Listed(Struct, frozen=True):
    port: int


def read_own_port(data: Path) -> int | None:
    """Return None if no server is listed. One that was killed may still be."""
    try:
        return msgspec.json.decode((data / LISTING).read_bytes(), type=_Listed).port
    except (OSError, msgspec.DecodeError):
        return None

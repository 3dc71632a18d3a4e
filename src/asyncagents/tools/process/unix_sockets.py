"""List unix sockets with a path on the disk: they connect to their programs even without a network."""

import os
import stat
from contextlib import suppress
from pathlib import Path

TABLE = Path("/proc/self/net/unix")
_COLUMNS = 7
"""Columns before the path, which may contain blanks."""


def list_sockets(table: Path = TABLE) -> list[str]:
    """Return the real paths of existing sockets; none where the system has no such table."""
    found: dict[str, None] = {}
    with suppress(OSError):
        for row in table.read_bytes().splitlines():
            name = os.fsdecode(b"".join(row.split(maxsplit=_COLUMNS)[_COLUMNS:]))
            if name.startswith("/") and _is_socket(name):
                found[os.path.realpath(name)] = None
    return list(found)


def _is_socket(name: str) -> bool:
    with suppress(OSError, ValueError):
        return stat.S_ISSOCK(os.stat(name).st_mode)
    return False

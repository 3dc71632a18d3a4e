"""Sockets with a name on the disk, as Linux lists them: a door to their programs for every network."""

import os
import stat
from contextlib import suppress
from pathlib import Path

TABLE = Path("/proc/self/net/unix")
_COLUMNS = 7
"""Before the name, which may have blanks in it."""


def list_sockets(table: Path = TABLE) -> list[str]:
    """List the real names of sockets that are there; none where the system does not tell."""
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

"""Finding a server by its URL or by its data directory."""

import fcntl
import os
from pathlib import Path
from typing import Protocol

import msgspec
from msgspec import Struct

from asyncagents.errors import InvalidInput, Unavailable

LISTING_FILE, LOCK_FILE = "server.json", "server.lock"


class ServerAddress(Struct, frozen=True):
    url: str
    token: str | None = None

    def __repr__(self) -> str:
        """Omit the token."""
        return f"Address(url={self.url!r})"

    @property
    def headers(self) -> dict[str, str]:
        return {} if self.token is None else {"authorization": f"Bearer {self.token}"}


class ServerFinder(Protocol):
    def __call__(self) -> ServerAddress:
        """Return the server's current address. Raises `Unavailable`."""
        ...


class UrlFinder:
    """A server with a fixed URL."""

    def __init__(self, url: str, token: str | None) -> None:
        if not url.startswith(("http://", "https://")) or not url.isprintable():
            raise InvalidInput(f"{url[:80]!r} is not a valid server URL: write it as http://127.0.0.1:5165")
        self._address = ServerAddress(url.rstrip("/"), token)

    def __call__(self) -> ServerAddress:
        return self._address


class DataDirectoryFinder:
    """The server of a data directory; after a restart its address may differ."""

    def __init__(self, data: Path) -> None:
        self._data = data

    def __call__(self) -> ServerAddress:
        """Return the address of a running server only: that of a dead one may belong to another program."""
        try:
            if _is_held(self._data / LOCK_FILE):
                return msgspec.json.decode((self._data / LISTING_FILE).read_bytes(), type=ServerAddress)
        except (FileNotFoundError, msgspec.DecodeError):
            pass  # the server is just writing it
        raise Unavailable(f"no server runs on {self._data}: start one with `asyncagents serve`")


def _is_held(path: Path) -> bool:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False

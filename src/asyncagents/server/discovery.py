"""Finding the server of a data directory: `server.json` while it runs, its lock, and its token."""

import os
import stat
from contextlib import suppress
from pathlib import Path

import msgspec

from asyncagents.domain.clock import Rng
from asyncagents.domain.shape import Shape, encode
from asyncagents.errors import Conflict, StoreError
from asyncagents.store.sqlite.owners import check_writable, hold_lock, is_lock_held

LISTING_FILE = "server.json"
LOCK_FILE = "server.lock"
TOKEN_FILE = "token"
TOKEN_BITS = 256
_MOST_BYTES = 4096


class Listing(Shape, frozen=True, kw_only=True):
    """Content of `server.json`. `startedAt`: ISO 8601. Without `token` the server requires none."""

    port: int
    pid: int
    started_at: str
    url: str
    token: str | None = None
    serves_all: bool = True
    """Whether the server serves all sessions of the data directory; else only those of one `run`."""
    runs: bool = True
    """Whether the server runs sessions itself; else workers on the same database do."""
    rest_seconds: float | None = None
    """How long a server with --until-rest stays at rest before it ends; None: until it is stopped."""

    def __repr__(self) -> str:
        """Omit the token."""
        return f"Listing(url={self.url!r}, pid={self.pid})"


class ServerLock:
    """Lock for the one server of a data directory.

    Raises `Conflict` if another process holds it, `StoreError` if the directory cannot be written.
    """

    def __init__(self, data: Path) -> None:
        self.data = data
        with check_writable(data):
            held = hold_lock(data / LOCK_FILE)
        if held is None:
            other = _read_listing(data)
            where = f" at {other.url}" if other else ""
            how = f" with `kill {other.pid}`" if other and other.rest_seconds is not None else ""
            raise Conflict(
                f"a server already runs on {data}{where}: stop it first{how}, or use another --data-dir"
            )
        self._fd = held
        remove_listing(
            data
        )  # of a killed server: its port may belong to another program, which must not get the token

    def close(self) -> None:
        """Release the lock. The file stays; unlocked, it means that no server runs."""
        os.close(self._fd)


def find_server(data: Path) -> Listing | None:
    """Return the listing of the running server, if there is one; that of a dead server is ignored."""
    return _read_listing(data) if is_server_lock_held(data) else None


def is_server_lock_held(data: Path) -> bool:
    """Return whether a server runs, starts or stops; only a running one has a listing."""
    return is_lock_held(data / LOCK_FILE)


def find_worker(data: Path) -> Listing | None:
    """Return the listing of the running server if it serves all sessions, so that it runs admitted input."""
    found = find_server(data)
    return found if found is not None and found.serves_all else None


def write_listing(data: Path, listing: Listing) -> None:
    """Write `server.json` atomically, readable by its owner only."""
    _write_private_file(data / LISTING_FILE, encode(listing))


def remove_listing(data: Path) -> None:
    (data / LISTING_FILE).unlink(missing_ok=True)


def read_token(data: Path, rng: Rng) -> str:
    """Read the token of the data directory; create it at the first call."""
    path = data / TOKEN_FILE
    with suppress(FileNotFoundError):
        return _load_token(path)
    fresh = data / f"{TOKEN_FILE}.{rng.below(2**64):016x}"
    _write_private_file(fresh, f"{rng.below(2**TOKEN_BITS):0{TOKEN_BITS // 4}x}\n".encode())
    try:
        os.link(fresh, path)
    except FileExistsError:
        pass  # another process was faster
    finally:
        fresh.unlink()
    return _load_token(path)


def _load_token(path: Path) -> str:
    token = _read_private_file(path).decode("ascii", "replace").strip()
    if len(token) < TOKEN_BITS // 8 or not token.isascii() or not token.isprintable() or " " in token:
        raise StoreError(f"{path} holds no valid token: delete it, and the next start makes another")
    return token


def _read_private_file(path: Path) -> bytes:
    """Read a file that only its owner, this process's user, can access. Raises `StoreError` otherwise."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise StoreError(f"{path} cannot be read, or is a link: delete it ({error.strerror})") from error
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
            raise StoreError(
                f"{path} is not a regular file of this user: delete it, and the next start makes another"
            )
        if found.st_mode & 0o077:
            raise StoreError(
                f"{path} is accessible to other users: delete it, and the next start makes a private one"
            )
        return os.read(fd, _MOST_BYTES)
    finally:
        os.close(fd)


def _read_listing(data: Path) -> Listing | None:
    """Return the listing; None if it does not exist or is not valid."""
    try:
        return msgspec.json.decode((data / LISTING_FILE).read_bytes(), type=Listing)
    except (FileNotFoundError, msgspec.DecodeError):
        return None


def _write_private_file(path: Path, content: bytes) -> None:
    fresh = path.with_name(f"{path.name}.new")
    fresh.unlink(missing_ok=True)
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(content)
        fresh.rename(path)
    finally:
        fresh.unlink(missing_ok=True)

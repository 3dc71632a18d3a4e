"""The server: a port, a listing of it, and a stop that lets answers finish."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import uvicorn
from msgspec import Struct

from asyncagents.config.api import PORT
from asyncagents.config.system import SystemClock, SystemRng
from asyncagents.domain.background_task import moment
from asyncagents.engine.runtime import Runtime
from asyncagents.errors import ConfigError
from asyncagents.server.asgi import Application
from asyncagents.server.discovery import Listing, Lock, read_token, remove_listing, write_listing
from asyncagents.server.gate import Gate
from asyncagents.server.limit import Rates
from asyncagents.server.protocol import Protocol
from asyncagents.server.route import Site
from asyncagents.server.routes import ROUTES

TRIES = 10
BACKLOG = 1024
STOP_SECONDS = 4
"""How long answers may take to finish once the server stops."""

KEEP_ALIVE_SECONDS = 75


class Listening(Struct, frozen=True, kw_only=True):
    """Where to listen, and who may come."""

    hostname: str = "127.0.0.1"
    port: int = PORT
    """And the nine after it, if it is taken; then whichever is free."""
    auth: bool = True
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    silence: float = 30.0
    """After so many seconds without an event a stream says that it lives."""


@asynccontextmanager
async def open_server(
    runtime: Runtime, data: str | Path, listening: Listening | None = None, *, directory: str | Path = "."
) -> AsyncIterator[Listing]:
    """Answer requests about a runtime until the block ends; others find it by `server.json` in `data`.

    `directory`: where sessions work whose maker names none. Raises `Conflict` if a server works on `data`.
    """
    data, listening = Path(data), listening or Listening()
    clock, is_loopback = SystemClock(), _is_loopback(listening.hostname)
    if not listening.auth and not is_loopback:
        raise ConfigError("without a token only this machine may come: leave out --no-auth, or --hostname")
    token = read_token(data, SystemRng()) if listening.auth else None
    site = Site(
        runtime=runtime,
        clock=clock,
        started=clock.now(),
        closing=asyncio.Event(),
        directory=_absolute(directory),
        silence=listening.silence,
    )
    gate = Gate(token=token, is_loopback=is_loopback, hosts=listening.hosts, origins=listening.origins)
    with closing(Lock(data)), closing(_bind(listening)) as bound:
        listing = _listing(bound, listening, site, token)
        async with _answering(Application(site, gate, ROUTES, Rates(clock)), bound, site):
            with _listed(data, listing):
                yield listing


@asynccontextmanager
async def _answering(app: Application, bound: socket.socket, site: Site) -> AsyncIterator[None]:
    server = _Server(_config(app))
    failure: BaseException | None = None
    async with asyncio.TaskGroup() as group:
        serving = group.create_task(server.serve(sockets=[bound]))
        try:
            yield
        except BaseException as error:  # noqa: BLE001  leaves the group first, so that it is not wrapped
            failure = error
        site.closing.set()
        server.should_exit = True
        await serving
    if failure is not None:
        raise failure


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Whoever opened the server knows when to stop it."""
        yield


def _config(app: Any) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=Protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=STOP_SECONDS,
    )


@contextmanager
def _listed(data: Path, listing: Listing) -> Iterator[None]:
    write_listing(data, listing)
    try:
        yield
    finally:
        remove_listing(data)


def _listing(bound: socket.socket, listening: Listening, site: Site, token: str | None) -> Listing:
    port = bound.getsockname()[1]
    named = f"[{listening.hostname}]" if ":" in listening.hostname else listening.hostname
    host = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}.get(named, named)
    return Listing(
        port=port, pid=os.getpid(), started_at=moment(site.started), url=f"http://{host}:{port}", token=token
    )


def _bind(listening: Listening) -> socket.socket:
    first = listening.port
    ports = [*range(first, min(first + TRIES, 65_536)), 0] if first else [0]
    try:
        address = socket.getaddrinfo(listening.hostname, first, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"there is no address {listening.hostname!r} to listen at: {error}") from error
    for port in ports:
        bound = socket.socket(address[0], socket.SOCK_STREAM)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind((address[4][0], port))
            bound.listen(BACKLOG)
        except OSError as error:
            bound.close()
            if port == 0 or not _is_taken(error):
                raise ConfigError(
                    f"cannot listen at {listening.hostname}:{port}: {error.strerror}"
                ) from error
            continue
        return bound
    raise AssertionError("the last one takes whichever is free")


def _absolute(directory: str | Path) -> str:
    return str(Path(directory).absolute())


def _is_taken(error: OSError) -> bool:
    return error.errno in {98, 48}


def _is_loopback(hostname: str) -> bool:
    if hostname == "localhost":
        return True
    try:
        return ip_address(hostname).is_loopback
    except ValueError:
        return False

"""The server: binding a port, publishing `server.json`, serving, and a graceful stop."""

import asyncio
import os
import resource
import socket
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, closing, contextmanager, nullcontext, suppress
from math import ceil
from pathlib import Path
from typing import Any

import uvicorn
from msgspec import Struct
from msgspec.structs import replace

from asyncagents.config.api import PORT
from asyncagents.config.clock import SystemClock, SystemRng
from asyncagents.domain.clock import Clock
from asyncagents.domain.task.view import iso_time
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.errors import ConfigError
from asyncagents.server.address import BACKLOG, BindAddress, resolve_address
from asyncagents.server.application import Application
from asyncagents.server.auth import Authorizer, normalize_hosts, normalize_origins
from asyncagents.server.blocking import BlockingWork
from asyncagents.server.discovery import Listing, ServerLock, read_token, remove_listing, write_listing
from asyncagents.server.http.connection import HttpConnection, connection_class
from asyncagents.server.http.peer import UserLookup
from asyncagents.server.http.timeouts import Timeouts
from asyncagents.server.mount import Mount
from asyncagents.server.rate_limit import RateLimit
from asyncagents.server.route import ServerContext
from asyncagents.server.routes import ROUTES

TICK_SECONDS = 0.1
"""Between two checks of the time limits of connections."""
ACCEPT_TURNS = 3
"""Turns of the event loop until a connection that was accepted at the last moment is known."""
STOP_POLL_SECONDS = 0.01
"""Between two looks at what a stopping server still has open."""


class ServerOptions(Struct, frozen=True, kw_only=True):
    """Where a server listens, and who has access."""

    hostname: str = "127.0.0.1"
    port: int = PORT
    """If it is taken, the next nine are tried, then any free port."""
    auth: bool = True
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    serves_all: bool = True
    """Whether the runtime serves all sessions: then other commands leave the work to it."""
    runs: bool = True
    """Whether the runtime runs sessions itself; else workers on the same database do."""
    rest_seconds: float | None = None
    """How long the program stays at rest before it ends the server; None: it does not."""
    idle_heartbeat_seconds: float = 30.0
    """Seconds without an event after which a `/v1` stream sends a heartbeat."""
    heartbeat_seconds: float = 10.0
    """Seconds between the heartbeats of an OpenCode stream."""
    timeouts: Timeouts = Timeouts()


@asynccontextmanager
async def open_server(
    runtime: Runtime,
    data: str | Path,
    server_options: ServerOptions | None = None,
    *,
    directory: str | Path = ".",
    lock: ServerLock | None = None,
    mounts: Sequence[Mount] = (),
) -> AsyncIterator[Listing]:
    """Serve a runtime over HTTP until the block ends; other programs find it by `server.json` in `data`.

    `directory`: for sessions and requests that name none. Raises `Conflict` if another server holds the
    lock of `data`, unless the caller passes the `lock` that it holds.
    """
    data, server_options = Path(data), server_options or ServerOptions()
    clock, address, users = SystemClock(), resolve_address(server_options.hostname), UserLookup()
    if not server_options.auth and not address.is_loopback:
        raise ConfigError("--no-auth requires a loopback address: drop --no-auth or --hostname")
    token = read_token(data, SystemRng()) if server_options.auth else None
    server = _server_context(runtime, data, server_options, clock, directory=_absolute(directory))
    authorizer = _authorizer(server_options, token, users, is_loopback=address.is_loopback)
    timeouts = replace(
        server_options.timeouts, connections=_connection_limit(server_options.timeouts.connections)
    )
    app = Application(server, authorizer, ROUTES, RateLimit(clock), timeouts=timeouts, mounts=mounts)
    config = _uvicorn_config(app, timeouts, users)
    with (
        closing(server.blocking),
        closing(users),
        closing(ServerLock(data)) if lock is None else nullcontext(),
        closing(address.bind(server_options.port)) as bound,
    ):
        listing = _listing(bound, address, server, server_options, token=token)
        async with _serve(config, app, bound, server):
            with _publish_listing(data, listing), runtime.incoming_webhook.use_server_url(listing.url):
                yield listing


def _server_context(
    runtime: Runtime, data: Path, server_options: ServerOptions, clock: Clock, *, directory: str
) -> ServerContext:
    return ServerContext(
        runtime=runtime,
        clock=clock,
        started=clock.now(),
        closing=asyncio.Event(),
        directory=directory,
        idle_heartbeat_seconds=server_options.idle_heartbeat_seconds,
        heartbeat_seconds=server_options.heartbeat_seconds,
        blocking=BlockingWork(data),
    )


def _authorizer(
    server_options: ServerOptions, token: str | None, users: UserLookup, *, is_loopback: bool
) -> Authorizer:
    return Authorizer(
        token=token,
        is_loopback=is_loopback,
        hosts=normalize_hosts(server_options.hosts),
        origins=normalize_origins(server_options.origins),
        owner=users.describe_own_user(),
    )


@asynccontextmanager
async def _serve(
    config: uvicorn.Config, app: Application, bound: socket.socket, site: ServerContext
) -> AsyncIterator[None]:
    server = _Server(config)
    failure: BaseException | None = None
    async with asyncio.TaskGroup() as group:
        serving = group.create_task(server.serve(sockets=[bound]))
        try:
            yield
        except BaseException as error:  # noqa: BLE001  raised after the group ends, so that the group does not wrap it
            failure = error
        site.closing.set()
        app.stop()
        server.stop()
        await serving
    if failure is not None:
        raise failure


class _Server(uvicorn.Server):
    """uvicorn's server, which stops without waiting for the next tick of its clock."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        self.should_exit = True
        self._stopping.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Do not handle signals: the program that opened the server stops it."""
        yield

    async def main_loop(self) -> None:
        counter = 0
        while not await self.on_tick(counter):
            counter += 1
            with suppress(TimeoutError):
                async with asyncio.timeout(TICK_SECONDS):
                    await self._stopping.wait()

    async def on_tick(self, counter: int) -> bool:
        now = asyncio.get_running_loop().time()
        for connection in self._connections():
            connection.check_timeouts(now)
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let responses that are being sent end, for a limited time; then reset all open connections."""
        for listener in (*self.servers, *(sockets or ())):
            listener.close()
        for _ in range(ACCEPT_TURNS):
            await asyncio.sleep(0)
        for connection in list(self.server_state.connections):
            connection.shutdown()
        with suppress(TimeoutError):
            async with asyncio.timeout(self.config.timeout_graceful_shutdown):
                while self.server_state.connections or self.server_state.tasks:  # noqa: ASYNC110  no event tells
                    await asyncio.sleep(STOP_POLL_SECONDS)
        for task in self.server_state.tasks:
            task.cancel("the server has stopped")
        for open_connection in self._connections():
            open_connection.reset_connection()

    def _connections(self) -> list[HttpConnection]:
        return [each for each in self.server_state.connections if isinstance(each, HttpConnection)]


def _uvicorn_config(app: Any, timeouts: Timeouts, users: UserLookup) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=connection_class(timeouts, users),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_keep_alive=timeouts.idle_seconds,
        timeout_graceful_shutdown=ceil(timeouts.stop_seconds + 1),
    )


@contextmanager
def _publish_listing(data: Path, listing: Listing) -> Iterator[None]:
    write_listing(data, listing)
    try:
        yield
    finally:
        remove_listing(data)


def _listing(
    bound: socket.socket,
    address: BindAddress,
    server: ServerContext,
    server_options: ServerOptions,
    *,
    token: str | None,
) -> Listing:
    port = bound.getsockname()[1]
    return Listing(
        port=port,
        pid=os.getpid(),
        started_at=iso_time(server.started),
        url=address.url(port),
        token=token,
        serves_all=server_options.serves_all,
        runs=server_options.runs,
        rest_seconds=server_options.rest_seconds,
    )


def _absolute(directory: str | Path) -> str:
    return str(Path(directory).resolve())


def _connection_limit(connections: int) -> int:
    """Limit the connections to half of this process's open files; the runtime needs the rest."""
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return connections if allowed == resource.RLIM_INFINITY else min(connections, allowed // 2)

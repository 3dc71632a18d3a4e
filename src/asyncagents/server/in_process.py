"""The HTTP API without a socket: a client in the process of the runtime that it uses."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from asyncagents.client.client import Client
from asyncagents.client.errors import error_from_response
from asyncagents.client.transport import ApiRequest, ReconnectBackoff, Transport
from asyncagents.config.clock import SystemClock
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.errors import InvalidInput
from asyncagents.server.application import Application
from asyncagents.server.auth import Authorizer
from asyncagents.server.blocking import BlockingWork
from asyncagents.server.rate_limit import RateLimit
from asyncagents.server.route import ServerContext
from asyncagents.server.routes import ROUTES

_log = logging.getLogger(__name__)

QUEUE_SIZE = 64
"""Pieces of a stream that wait for their reader before the stream waits."""


@asynccontextmanager
async def open_in_process_client(runtime: Runtime, data: Path, directory: str) -> AsyncIterator[Client]:
    """Open a client of a runtime of this process. `directory`: for requests that name none."""
    clock, ending = SystemClock(), asyncio.Event()
    with closing(BlockingWork(data)) as blocking:
        context = ServerContext(
            runtime=runtime,
            clock=clock,
            started=clock.now(),
            closing=ending,
            directory=directory,
            blocking=blocking,
        )
        app = Application(context, Authorizer(token=None, is_loopback=True), ROUTES, RateLimit(clock))
        try:
            async with asyncio.TaskGroup() as group:
                yield Client(InProcessTransport(app, group))
                ending.set()
                app.stop()
        finally:
            ending.set()


class InProcessTransport(Transport):
    """Passes requests to the application of a server; nothing is retried, as nothing gets lost."""

    def __init__(self, app: Application, group: asyncio.TaskGroup) -> None:
        self._app = app
        self._group = group

    def new_backoff(self) -> ReconnectBackoff:
        return ReconnectBackoff(0)

    async def request(self, request: ApiRequest) -> bytes:
        async with self._exchange(request) as exchange:
            status, body = await exchange.status, b"".join([piece async for piece in exchange.iter_any()])
        if status >= 400:
            raise error_from_response(status, body)
        return body

    @asynccontextmanager
    async def open_stream(self, request: ApiRequest) -> AsyncIterator[Any]:
        async with self._exchange(request) as exchange:
            if (status := await exchange.status) >= 400:
                body = b"".join([piece async for piece in exchange.iter_any()])
                raise error_from_response(status, body)
            yield exchange

    @asynccontextmanager
    async def _exchange(self, request: ApiRequest) -> AsyncIterator["Exchange"]:
        exchange = Exchange(request)
        task = self._group.create_task(exchange.run(self._app))
        try:
            yield exchange
        finally:
            exchange.leave()
            with suppress(asyncio.CancelledError):
                await task


class Exchange:
    """One request and its response, as uvicorn would pass them."""

    def __init__(self, request: ApiRequest) -> None:
        self._scope = _build_scope(request)
        self._content = request.content
        self._pieces: asyncio.Queue[bytes | None] = asyncio.Queue(QUEUE_SIZE)
        self._left = asyncio.Event()
        self._body_taken = False
        self.status: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    @property
    def content(self) -> "Exchange":
        """The body, under the name that aiohttp gives it."""
        return self

    def leave(self) -> None:
        """Tell the application that the reader is gone, and drop what is left of the response."""
        self._left.set()
        while not self._pieces.empty():
            self._pieces.get_nowait()

    async def iter_any(self) -> AsyncIterator[bytes]:
        while (piece := await self._pieces.get()) is not None:
            yield piece

    async def run(self, app: Application) -> None:
        try:
            await app(self._scope, self._receive, self._send)
        except Exception:  # noqa: BLE001  the edge of a request: others of this process go on
            _log.exception("action=serve an in-process request failed")
        finally:
            if not self.status.done():
                self.status.set_result(503)
            if not self._left.is_set():
                await self._put(None)

    async def _receive(self) -> dict[str, Any]:
        if not self._body_taken:
            self._body_taken = True
            return {"type": "http.request", "body": self._content or b"", "more_body": False}
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            if not self.status.done():
                self.status.set_result(message["status"])
        elif message.get("body"):
            await self._put(message["body"])

    async def _put(self, piece: bytes | None) -> None:
        """Queue a piece; `leave` makes room for the last one of a reader that is gone."""
        if not self._left.is_set():
            await self._pieces.put(piece)


def _build_scope(request: ApiRequest) -> dict[str, Any]:
    """Build the ASGI scope of a request. Raises `InvalidInput` for what HTTP cannot carry."""
    try:
        content = request.content
        headers = {"host": "127.0.0.1", **request.headers}
        if content is not None:
            headers["content-length"] = str(len(content))
        return {
            "type": "http",
            "method": request.method,
            "raw_path": request.path.encode(),
            "query_string": urlencode(dict(request.query)).encode(),
            "headers": [(name.encode(), value.encode("latin-1")) for name, value in headers.items()],
            "client": ("127.0.0.1", 0),
        }
    except UnicodeError as error:
        raise InvalidInput(f"the request has a text that cannot be sent: {error}") from error

"""A runtime behind a real server: what is asked over HTTP, and what a stream of events says."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import ClientResponse, ClientSession, ClientTimeout
from msgspec import Struct

from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.engine.tool import AnyTool
from asyncagents.server.discovery import Listing
from asyncagents.server.serve import ServerOptions, open_server
from tests.support.delegation import RequestScript, open_delegation_stage
from tests.support.runtime import Stage
from tests.support.wait import PATIENCE

NO_HEARTBEAT = 3_600.0
"""A silence that no test lives to hear the end of."""


class Response(Struct, frozen=True):
    """An answer; `json` only if it is some."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)


class Frame(Struct, frozen=True):
    """An event of a stream. `id`: the last one that was said, as a browser keeps it."""

    type: str
    data: Any
    id: str


class EventStream:
    """Reads a stream as the standard of server-sent events says."""

    def __init__(self, response: ClientResponse) -> None:
        self._response = response
        self.frames: list[Frame] = []
        self.id = ""
        self.retry: int | None = None

    async def next(self) -> Frame | None:
        """None: the stream has ended."""
        fields: dict[str, list[str]] = {}
        while True:
            line = (await self._response.content.readuntil()).decode()
            if not line.endswith("\n"):
                return None
            name, _, value = line.rstrip("\n").partition(":")
            if name:
                fields.setdefault(name, []).append(value.removeprefix(" "))
            elif (found := self._frame(fields)) is not None:
                return found
            else:
                fields = {}

    def _frame(self, fields: dict[str, list[str]]) -> Frame | None:
        self.id = fields.get("id", [self.id])[-1]
        if "retry" in fields:
            self.retry = int(fields["retry"][-1])
        if "data" not in fields:
            return None
        data = msgspec.json.decode("\n".join(fields["data"]))
        self.frames.append(Frame(fields.get("event", ["message"])[-1], data, self.id))
        return self.frames[-1]

    async def until(self, type: str, where: Callable[[Any], bool] = lambda data: True) -> Frame:
        """The next of this type, after those that were waited for before."""
        async with asyncio.timeout(PATIENCE):
            while (found := await self.next()) is not None:
                if found.type == type and where(found.data):
                    return found
        raise AssertionError(f"the stream ended after {[each.type for each in self.frames]}")

    async def until_end(self) -> list[Frame]:
        async with asyncio.timeout(PATIENCE):
            while await self.next() is not None:
                pass
        return self.frames


class HttpClient:
    """Asks a server as another program does."""

    def __init__(self, http: ClientSession, listing: Listing) -> None:
        self.http = http
        self.listing = listing

    @property
    def authorization(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.listing.token}"}

    async def request(self, method: str, path: str, **more: Any) -> Response:
        async with (
            asyncio.timeout(PATIENCE),
            self.http.request(method, f"{self.listing.url}{path}", **more) as response,
        ):
            headers = {name.lower(): value for name, value in response.headers.items()}
            return Response(response.status, headers, await response.read())

    async def get(self, path: str, **query: str | int) -> Response:
        return await self.request("GET", path, params=query)

    async def json(self, path: str, **query: str | int) -> Any:
        """What a good question is answered."""
        told = await self.get(path, **query)
        assert told.status == 200, told
        return told.json

    @asynccontextmanager
    async def stream(self, path: str = "/v1/events", **more: Any) -> AsyncIterator[EventStream]:
        async with self.http.get(f"{self.listing.url}{path}", **more) as response:
            assert response.status == 200, await response.text()
            assert response.content_type == "text/event-stream"
            yield EventStream(response)


class StageClient:
    """A stage, and the server before it."""

    def __init__(self, stage: Stage, caller: HttpClient) -> None:
        self.stage = stage
        self.runtime = stage.runtime
        self.caller = caller
        self.listing = caller.listing
        self.json = caller.json
        self.get = caller.get
        self.stream = caller.stream


@asynccontextmanager
async def serve_runtime(
    runtime: Runtime, data: Path, *, silence: float = NO_HEARTBEAT, **listening: Any
) -> AsyncIterator[HttpClient]:
    """Any runtime, on whichever port is free."""
    where = ServerOptions(port=0, idle_heartbeat_seconds=silence, **listening)
    async with (
        open_server(runtime, data, where, directory=data) as listing,
        open_http_client(listing) as caller,
    ):
        yield caller


@asynccontextmanager
async def open_http_client(listing: Listing) -> AsyncIterator[HttpClient]:
    async with ClientSession(timeout=ClientTimeout(total=None), read_bufsize=2**24) as http:
        yield HttpClient(http, listing)


@asynccontextmanager
async def serve_delegation(
    data: Path, scenes: RequestScript, *tools: AnyTool, silence: float = NO_HEARTBEAT, **more: Any
) -> AsyncIterator[StageClient]:
    """A stage where agents launch agents, and its server."""
    async with (
        open_delegation_stage(data, scenes, *tools, **more) as at,
        serve_runtime(at.runtime, data, silence=silence) as caller,
    ):
        yield StageClient(at, caller)

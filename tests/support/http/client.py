"""One HTTP client for tests: requests with their response, and streams of server-sent events."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Self

import msgspec
from aiohttp import ClientResponse, ClientSession, ClientTimeout
from msgspec import Struct
from yarl import URL

from asyncagents.server.discovery import Listing
from tests.support.wait import PATIENCE


class Response(Struct, frozen=True):
    """What a server answered; all zero and empty if the connection ended before."""

    status: int = 0
    headers: dict[str, str] = {}
    body: bytes = b""

    @property
    def json(self) -> Any:
        """The decoded body; None if it is empty."""
        return msgspec.json.decode(self.body) if self.body else None

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def error_name(self) -> str:
        """The name of the error in the body."""
        return str(self.json["name"])


class Frame(Struct, frozen=True):
    """One event of a stream; `id` is empty when the event has none."""

    type: str
    data: Any
    id: str


class EventStream:
    """Reads a stream as the standard of server-sent events says; `id` is the last id that was sent."""

    def __init__(self, response: ClientResponse) -> None:
        self._response = response
        self.frames: list[Frame] = []
        self.id = ""
        self.retry: int | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Frame:
        frame = await self.next()
        if frame is None:
            raise StopAsyncIteration
        return frame

    async def next(self) -> Frame | None:
        """Return the next frame, or None when the stream has ended."""
        fields: dict[str, list[str]] = {}
        while True:
            line = (await self._response.content.readuntil()).decode()
            if not line.endswith("\n"):
                return None
            name, _, value = line.rstrip("\n").partition(":")
            if name:
                fields.setdefault(name, []).append(value.removeprefix(" "))
            elif (found := self._take_frame(fields)) is not None:
                return found
            else:
                fields = {}

    def _take_frame(self, fields: dict[str, list[str]]) -> Frame | None:
        self.id = fields.get("id", [self.id])[-1]
        if "retry" in fields:
            self.retry = int(fields["retry"][-1])
        if "data" not in fields:
            return None
        data = msgspec.json.decode("\n".join(fields["data"]))
        frame = Frame(fields.get("event", ["message"])[-1], data, fields.get("id", [""])[-1])
        self.frames.append(frame)
        return frame

    async def until(self, type: str, where: Callable[[Any], bool] = lambda data: True) -> Frame:
        """Return the next frame of this type, after those that were read before."""
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
    """Sends requests as another program does. A path goes out as it is, encoded or not."""

    def __init__(self, http: ClientSession, listing: Listing, *, sends_token: bool = True) -> None:
        self.http = http
        self.listing = listing
        self._own_headers = self.authorization if sends_token else {}

    @property
    def authorization(self) -> dict[str, str]:
        """The header with the server's token."""
        return {"authorization": f"Bearer {self.listing.token}"}

    def _url(self, path: str) -> URL:
        return URL(f"{self.listing.url}{path}", encoded=True)

    async def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        headers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> Response:
        """Send a request, with `body` as JSON; `more` goes to aiohttp (`data`, `params`)."""
        sent = {**self._own_headers, **(headers or {})}
        async with (
            asyncio.timeout(PATIENCE),
            self.http.request(method, self._url(path), json=body, headers=sent, **more) as response,
        ):
            received = {name.lower(): value for name, value in response.headers.items()}
            return Response(response.status, received, await response.read())

    async def get(
        self, path: str, *, headers: Mapping[str, str] | None = None, **query: str | int
    ) -> Response:
        return await self.request("GET", path, headers=headers, params=query)

    async def post(
        self, path: str, body: Any = None, *, headers: Mapping[str, str] | None = None
    ) -> Response:
        return await self.request("POST", path, {} if body is None else body, headers=headers)

    async def send_raw(self, method: str, path: str, data: bytes) -> int:
        """Send bytes as if they were JSON; returns the status."""
        kind = {"content-type": "application/json"}
        return (await self.request(method, path, data=data, headers=kind)).status

    async def json(self, path: str, **query: str | int) -> Any:
        """Return the decoded body of a request that succeeds."""
        response = await self.request("GET", path, params=query)
        assert response.status == 200, (path, response)
        return response.json

    @asynccontextmanager
    async def stream(
        self, path: str = "/v1/events", *, headers: Mapping[str, str] | None = None, **more: Any
    ) -> AsyncIterator[EventStream]:
        sent = {**self._own_headers, **(headers or {})}
        async with self.http.get(self._url(path), headers=sent, **more) as response:
            assert response.status == 200, await response.text()
            assert response.content_type == "text/event-stream"
            yield EventStream(response)


def open_session() -> ClientSession:
    """Open a session of aiohttp whose streams may last and may have large frames."""
    return ClientSession(timeout=ClientTimeout(total=None), read_bufsize=2**24)


@asynccontextmanager
async def open_http_client(listing: Listing, *, sends_token: bool = False) -> AsyncIterator[HttpClient]:
    async with open_session() as http:
        yield HttpClient(http, listing, sends_token=sends_token)

"""A stage behind a real server, asked over HTTP as any program would."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import ClientResponse, ClientSession, ClientTimeout
from msgspec import Struct

from asyncagents.engine.tool import AnyTool
from asyncagents.llm.scripted import Script, ScriptedModel
from asyncagents.server.discovery import Listing
from asyncagents.server.serve import ServerOptions, open_server
from tests.support.runtime import Stage, open_stage
from tests.support.wait import PATIENCE


class Response(Struct, frozen=True):
    """What the server answered."""

    status: int
    json: Any


class Frame(Struct, frozen=True):
    type: str
    data: Any
    id: str | None


class StageClient:
    def __init__(self, at: Stage, listing: Listing, http: ClientSession) -> None:
        self.stage = at
        self.listing = listing
        self._http = http
        self._token = {"authorization": f"Bearer {listing.token}"}

    async def request(self, method: str, path: str, body: Any = None, **headers: str) -> Response:
        named = self._token | {name.replace("_", "-"): value for name, value in headers.items()}
        async with asyncio.timeout(PATIENCE):
            async with self._http.request(
                method, f"{self.listing.url}{path}", json=body, headers=named
            ) as response:
                text = await response.text()
                return Response(response.status, json.loads(text) if text else None)

    async def get(self, path: str) -> Response:
        return await self.request("GET", path)

    async def post(self, path: str, body: Any = None, **headers: str) -> Response:
        return await self.request("POST", path, {} if body is None else body, **headers)

    async def send_raw(self, method: str, path: str, data: bytes) -> int:
        kind = self._token | {"content-type": "application/json"}
        async with self._http.request(
            method, f"{self.listing.url}{path}", data=data, headers=kind
        ) as response:
            return response.status

    @asynccontextmanager
    async def stream(self, path: str) -> AsyncIterator[AsyncIterator[Frame]]:
        async with self._http.get(f"{self.listing.url}{path}", headers=self._token) as response:
            assert response.status == 200, await response.text()
            yield frames(response)


async def frames(response: ClientResponse) -> AsyncIterator[Frame]:
    said: dict[str, str] = {}
    async for line in response.content:
        name, _, value = line.decode().rstrip("\n").partition(": ")
        if name:
            said[name] = value
        else:
            yield Frame(said["event"], json.loads(said["data"]), said.get("id"))
            said = {}


@asynccontextmanager
async def serve_stage(
    data: Path, script: Script | ScriptedModel, *, tools: Sequence[AnyTool] = (), **more: Any
) -> AsyncIterator[StageClient]:
    async with (
        open_stage(data, script, tools=tools, **more) as at,
        ClientSession(timeout=ClientTimeout(total=PATIENCE)) as http,
        open_server(at.runtime, data, ServerOptions(port=0), directory=data) as listing,
    ):
        yield StageClient(at, listing, http)

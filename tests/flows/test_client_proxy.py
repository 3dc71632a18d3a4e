"""A proxy between a client and its server: while the server is away it answers by itself."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from asyncagents.client import open_client
from asyncagents.errors import Unavailable
from asyncagents.llm.scripted import say
from asyncagents.server.serve import ServerOptions, open_server
from tests.support.http.cutting_proxy import CuttingProxy
from tests.support.runtime import open_stage
from tests.support.wait import PATIENCE

PAGE = "<html><body><h1>502 Bad Gateway</h1></body></html>"


class Proxy(CuttingProxy):
    """Answers the first connections with a page of its own, hands on all others."""

    def __init__(self, url: str, head: str, times: int) -> None:
        super().__init__(url)
        self.left = times
        self._page = f"HTTP/1.1 {head}\r\ncontent-length: {len(PAGE)}\r\n\r\n{PAGE}".encode()

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.left <= 0:
            await super().carry(reader, writer)
            return
        self.left -= 1
        await reader.readuntil(b"\r\n\r\n")
        writer.write(self._page)
        await writer.drain()
        writer.close()


@asynccontextmanager
async def before(url: str, head: str, times: int) -> AsyncIterator[Proxy]:
    proxy = Proxy(url, head, times)
    async with await asyncio.start_server(proxy.carry, "127.0.0.1", 0) as server:
        proxy.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        yield proxy


@pytest.mark.parametrize(
    "head", ["502 Bad Gateway", "504 Gateway Timeout", "503 Service Unavailable\r\nretry-after: 0"]
)
async def test_a_client_waits_for_a_server_that_a_proxy_cannot_reach(tmp_path: Path, head: str) -> None:
    async with (
        open_stage(tmp_path, {"Hi": [[say("Hello.")]]}) as at,
        open_server(at.runtime, tmp_path, ServerOptions(port=0)) as listing,
        before(listing.url, head, 3) as proxy,
        open_client(proxy.url, token=listing.token, patience=PATIENCE) as client,
    ):
        message_id = await client.send(at.session_id, "Hi")
        answer = await client.wait_for_answer(at.session_id, message_id)
        entries = await client.messages(at.session_id)
    assert proxy.left == 0
    assert answer.text == "Hello."
    assert [entry.text for entry in entries] == ["Hi", "Hello."]


async def test_a_503_without_retry_after_is_raised_at_once(tmp_path: Path) -> None:
    async with (
        before("http://127.0.0.1:9", "503 Service Unavailable", 2) as proxy,
        open_client(proxy.url, token="t", patience=PATIENCE) as client,
    ):
        with pytest.raises(Unavailable, match="status 503"):
            await client.health()
    assert proxy.left == 1

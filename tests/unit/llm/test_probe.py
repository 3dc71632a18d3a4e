"""A provider is asked for its list of models: it is there or not, and takes the key or not."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from asyncagents.config.config import Config, ProviderConfig
from asyncagents.config.secret import Secret
from asyncagents.domain.conversation.message import ModelRef
from asyncagents.llm.probe import Probe, probe_provider
from asyncagents.llm.roster import Roster
from asyncagents.llm.usable_model import UsableModel
from asyncagents.testing.provider import open_provider

KEY = "sk-right-one"
COMPATIBLE, ANTHROPIC = "@ai-sdk/openai-compatible", "@ai-sdk/anthropic"


def offer(base_url: str, *, npm: str = COMPATIBLE, key: str = KEY) -> UsableModel:
    provider = ProviderConfig(npm=npm, base_url=base_url, api_key=Secret(f"{key}\n"))
    roster = Roster(Config(data_dir=Path("unused"), provider={"desk": provider}))
    found = roster.offer(ModelRef(provider_id="desk", model_id="m"))
    assert isinstance(found, UsableModel)
    return found


@asynccontextmanager
async def serving(body: bytes) -> AsyncIterator[str]:
    """Something that answers everything with the same."""

    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=body)

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@pytest.mark.parametrize(
    ("npm", "path"), [(COMPATIBLE, "/v1"), (COMPATIBLE, "/v1/"), (ANTHROPIC, "/v1"), (ANTHROPIC, "")]
)
async def test_a_provider_that_takes_the_key_lists_its_models(npm: str, path: str) -> None:
    async with open_provider(key=KEY) as provider:
        found = await probe_provider(offer(provider.url + path, npm=npm))
    assert found == Probe(True, "it answers, and lists 1 model")


@pytest.mark.parametrize("npm", [COMPATIBLE, ANTHROPIC])
async def test_the_probe_reports_a_refused_key_without_showing_it(npm: str) -> None:
    async with open_provider(key=KEY) as provider:
        found = await probe_provider(offer(f"{provider.url}/v1", npm=npm, key="sk-wrong-one"))
    assert found.reached is False
    assert found.text.startswith("desk refused the API key (HTTP 401)")
    assert "sk-wrong-one" not in found.text


async def test_the_probe_reports_a_server_without_a_list_of_models() -> None:
    async with open_provider(key=KEY) as provider:
        found = await probe_provider(offer(f"{provider.url}/v2"))
    assert found == Probe(None, f"it answers, but has no list of models at {provider.url}/v2/models")


async def test_the_probe_reports_a_refused_connection() -> None:
    found = await probe_provider(offer("http://127.0.0.1:9/v1"))
    assert found.reached is False
    assert found.text == "http://127.0.0.1:9 refuses connections: is the model server running?"


async def test_an_answer_that_is_no_http_does_not_show_the_address() -> None:
    async def nonsense(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 abc nonsense\r\nfoo\r\n\r\n")
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(nonsense, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        found = await probe_provider(offer(f"http://127.0.0.1:{port}/v1?code=QUERY-SECRET"))
    assert found.reached is False
    assert "QUERY-SECRET" not in found.text


async def test_the_probe_reports_an_invalid_address_without_showing_it() -> None:
    found = await probe_provider(offer("http://[SECRET-HOST/v1"))
    assert found.reached is False
    assert "SECRET" not in found.text


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"data": 1}', b""])
async def test_the_probe_reports_an_answer_that_is_no_list_of_models(body: bytes) -> None:
    async with serving(body) as url:
        found = await probe_provider(offer(f"{url}/v1"))
    assert found == Probe(False, "it answers, but not with a list of models: check its baseURL")

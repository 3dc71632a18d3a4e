"""The local provider over real HTTP, read by the providers' own clients and by a raw one.

The tests import these clients where they use them: importing both takes seconds, in each test process.
"""

import asyncio
import json
import logging
import signal
import sys
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from asyncagents.testing.provider import Reply, TokenUsage, ToolUse, open_provider

pytestmark = pytest.mark.slow

CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"
VERSION = {"anthropic-version": "2023-06-01"}
WIRES = [CHAT, MESSAGES]
FULL = Reply(
    text="hello world",
    chunks=3,
    reasoning="hm",
    tools=(ToolUse("read", {"path": "a"}), ToolUse("now")),
    usage=TokenUsage(input=1, output=2, reasoning=3, cache_read=4, cache_write=5),
)


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(headers=VERSION, connector=aiohttp.TCPConnector(limit=0)) as session:
        yield session


def ask(text: str = "hi", **rest: Any) -> dict[str, Any]:
    """A body that both wires take."""
    body = {"model": "m", "max_tokens": 9, "stream": True, "messages": [{"role": "user", "content": text}]}
    return body | rest


async def read_to_the_end(response: aiohttp.ClientResponse) -> tuple[bytes, bool]:
    """What came, and whether the connection was cut before the body was over."""
    came = b""
    try:
        async for part in response.content.iter_any():
            came += part
    except aiohttp.ClientPayloadError:
        return came, True
    return came, False


async def test_openais_client_reads_a_stream() -> None:
    import openai

    async with (
        open_provider({"hi": [FULL]}, key="secret") as provider,
        openai.AsyncOpenAI(api_key="secret", base_url=f"{provider.url}/v1", max_retries=0) as client,
        client.chat.completions.stream(
            model="m", messages=[{"role": "user", "content": "hi"}], stream_options={"include_usage": True}
        ) as stream,
    ):
        whole = await stream.get_final_completion()
    message = whole.choices[0].message
    assert message.content == "hello world"
    assert [call.function.arguments for call in message.tool_calls or ()] == ['{"path":"a"}', "{}"]
    assert whole.choices[0].finish_reason == "tool_calls"
    assert whole.usage is not None
    assert whole.usage.prompt_tokens == 10
    assert whole.usage.completion_tokens == 5


async def test_openais_client_reads_a_plain_answer_and_the_models() -> None:
    import openai

    async with (
        open_provider({"hi": [FULL]}) as provider,
        openai.AsyncOpenAI(api_key="any", base_url=f"{provider.url}/v1", max_retries=0) as client,
    ):
        whole = await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}])
        assert [model.id async for model in client.models.list()] == ["local"]
    assert whole.model == "m"
    assert whole.choices[0].message.content == "hello world"
    assert whole.usage is not None
    assert whole.usage.total_tokens == 15


async def test_anthropics_client_reads_a_stream() -> None:
    import anthropic

    async with (
        open_provider({"hi": [FULL]}, key="secret") as provider,
        anthropic.AsyncAnthropic(api_key="secret", base_url=provider.url, max_retries=0) as client,
        client.messages.stream(
            model="m", max_tokens=9, messages=[{"role": "user", "content": "hi"}]
        ) as stream,
    ):
        whole = await stream.get_final_message()
    assert [block.type for block in whole.content] == ["thinking", "text", "tool_use", "tool_use"]
    inputs = [block.input for block in whole.content if block.type == "tool_use"]
    assert inputs == [{"path": "a"}, {}]
    assert whole.stop_reason == "tool_use"
    usage = whole.usage
    assert usage.input_tokens == 1
    assert usage.output_tokens == 5
    assert usage.cache_read_input_tokens == 4
    assert usage.cache_creation_input_tokens == 5


async def test_anthropics_client_reads_a_plain_answer_and_the_models() -> None:
    import anthropic

    async with (
        open_provider({"hi": [FULL]}) as provider,
        anthropic.AsyncAnthropic(api_key="any", base_url=provider.url, max_retries=0) as client,
    ):
        whole = await client.messages.create(
            model="m", max_tokens=9, messages=[{"role": "user", "content": "hi"}]
        )
        assert [model.id async for model in client.models.list()] == ["local"]
    assert [block.type for block in whole.content] == ["thinking", "text", "tool_use", "tool_use"]
    assert whole.stop_reason == "tool_use"


async def test_both_clients_see_an_error_inside_a_stream() -> None:
    import anthropic
    import openai

    async with open_provider(otherwise=Reply(error_in_stream=True, error="boom")) as provider:
        async with openai.AsyncOpenAI(api_key="k", base_url=f"{provider.url}/v1", max_retries=0) as ours:
            stream = await ours.chat.completions.create(
                model="m", messages=[{"role": "user", "content": "hi"}], stream=True
            )
            with pytest.raises(openai.APIError, match="boom"):
                [chunk async for chunk in stream]
        async with anthropic.AsyncAnthropic(api_key="k", base_url=provider.url, max_retries=0) as theirs:
            events = await theirs.messages.create(
                model="m", max_tokens=9, messages=[{"role": "user", "content": "hi"}], stream=True
            )
            with pytest.raises(anthropic.APIStatusError, match="boom"):
                [event async for event in events]


async def test_both_clients_raise_their_error_for_a_wrong_key() -> None:
    import anthropic
    import openai

    async with open_provider(key="right") as provider:
        async with openai.AsyncOpenAI(api_key="x", base_url=f"{provider.url}/v1", max_retries=0) as ours:
            with pytest.raises(openai.AuthenticationError) as refused:
                await ours.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}])
            assert refused.value.code == "invalid_api_key"
            with pytest.raises(openai.AuthenticationError):
                await ours.models.list()
        async with anthropic.AsyncAnthropic(api_key="x", base_url=provider.url, max_retries=0) as theirs:
            with pytest.raises(anthropic.AuthenticationError):
                await theirs.messages.create(
                    model="m", max_tokens=9, messages=[{"role": "user", "content": "hi"}]
                )


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        (CHAT, {}, 401),
        (CHAT, {"x-api-key": "right"}, 401),
        (CHAT, {"authorization": "Bearer right"}, 200),
        (MESSAGES, {}, 401),
        (MESSAGES, {"x-api-key": "right"}, 200),
        (MESSAGES, {"authorization": "Bearer right"}, 200),
        (MESSAGES, {"x-api-key": "wrong", "authorization": "Bearer right"}, 401),
    ],
)
async def test_a_key_is_accepted_in_the_headers_of_its_wire_alone(
    session: aiohttp.ClientSession, path: str, headers: dict[str, str], status: int
) -> None:
    async with open_provider(key="right") as provider:
        async with session.post(provider.url + path, json=ask(), headers=headers) as response:
            assert response.status == status
        assert provider.answered == 1


async def test_a_request_is_remembered_as_it_came(session: aiohttp.ClientSession) -> None:
    async with open_provider() as provider:
        for path in WIRES:
            async with session.post(provider.url + path, json=ask("né"), headers={"X-Mine": "1"}) as response:
                await response.read()
        assert [(seen.wire, seen.path) for seen in provider.requests] == [
            ("openai", CHAT),
            ("anthropic", MESSAGES),
        ]
        assert provider.requests[0].body == ask("né")
        assert provider.requests[0].headers["x-mine"] == "1"


async def test_a_provider_with_remember_off_counts_requests_and_keeps_none(
    session: aiohttp.ClientSession,
) -> None:
    async with open_provider(remember=False) as provider:
        async with session.post(provider.url + CHAT, json=ask()) as response:
            await response.read()
        assert provider.requests == []
        assert provider.asked == 1
        assert provider.answered == 1


@pytest.mark.parametrize("path", WIRES)
async def test_an_error_has_its_status_and_headers(session: aiohttp.ClientSession, path: str) -> None:
    reply = Reply(status=429, error="slow down", headers={"Retry-After": "7"})
    async with (
        open_provider(otherwise=reply) as provider,
        session.post(provider.url + path, json=ask()) as response,
    ):
        assert response.status == 429
        assert response.headers["retry-after"] == "7"
        assert response.content_type == "application/json"
        assert (await response.json())["error"]["message"] == "slow down"


@pytest.mark.parametrize("path", WIRES)
async def test_an_error_in_a_stream_is_a_500_for_a_request_without_stream(
    session: aiohttp.ClientSession, path: str
) -> None:
    async with (
        open_provider(otherwise=Reply(error_in_stream=True)) as provider,
        session.post(provider.url + path, json=ask(stream=False)) as response,
    ):
        assert response.status == 500
        assert "error" in await response.json()


async def test_a_given_body_is_sent_with_any_status(session: aiohttp.ClientSession) -> None:
    page = Reply(status=502, body=b"<html>bad gateway</html>", headers={"Content-Type": "text/html"})
    async with (
        open_provider(otherwise=page) as provider,
        session.post(provider.url + CHAT, json=ask()) as response,
    ):
        assert response.status == 502
        assert response.content_type == "text/html"
        assert await response.read() == b"<html>bad gateway</html>"


@pytest.mark.parametrize("path", WIRES)
@pytest.mark.parametrize("gap", [0, 0.001])
@pytest.mark.parametrize("at", [0, 1, 300, 700])
async def test_a_stream_is_cut_after_exactly_so_many_bytes(
    session: aiohttp.ClientSession, path: str, gap: float, at: int
) -> None:
    async with open_provider(otherwise=Reply(chunks=4, gap=gap, cut_at=at)) as provider:
        async with session.post(provider.url + path, json=ask()) as response:
            assert response.status == 200
            came, cut = await read_to_the_end(response)
        assert len(came) == at
        assert cut is True
        await provider.wait_for(lambda: provider.active == 0)
        assert provider.answered == 1, "the client did not leave by itself"
        assert provider.disconnects == 0, "the client did not leave by itself"


@pytest.mark.parametrize(("path", "end"), [(CHAT, b"[DONE]\n\n"), (MESSAGES, b'"message_stop"}\n\n')])
async def test_a_stream_cut_after_its_last_byte_is_complete_without_a_proper_end(
    session: aiohttp.ClientSession, path: str, end: bytes
) -> None:
    async with (
        open_provider(otherwise=Reply(cut_at=1_000_000)) as provider,
        session.post(provider.url + path, json=ask()) as response,
    ):
        came, cut = await read_to_the_end(response)
    assert cut
    assert came.endswith(end)


@pytest.mark.parametrize("stream", [True, False])
async def test_a_connection_cut_before_the_headers_has_no_answer(
    session: aiohttp.ClientSession, stream: bool
) -> None:
    async with open_provider(otherwise=Reply(cut_at=-1)) as provider:
        with pytest.raises(aiohttp.ServerDisconnectedError):
            await session.post(provider.url + CHAT, json=ask(stream=stream))


async def test_a_plain_answer_can_be_cut_too(session: aiohttp.ClientSession) -> None:
    async with (
        open_provider(otherwise=Reply(cut_at=20)) as provider,
        session.post(provider.url + CHAT, json=ask(stream=False)) as response,
    ):
        came, cut = await read_to_the_end(response)
    assert len(came) == 20
    assert cut is True


async def test_a_stream_without_a_finish_ends_well_formed(session: aiohttp.ClientSession) -> None:
    async with (
        open_provider(otherwise=Reply(finish=None)) as provider,
        session.post(provider.url + CHAT, json=ask()) as response,
    ):
        came, cut = await read_to_the_end(response)
    assert not cut
    assert b"ok" in came
    assert b"[DONE]" not in came


@pytest.mark.parametrize("at", [0, 100, 1_000_000])
async def test_a_hanging_stream_ends_when_the_client_leaves(session: aiohttp.ClientSession, at: int) -> None:
    async with open_provider(otherwise=Reply(hang_at=at, ping=0)) as provider:
        async with session.post(provider.url + CHAT, json=ask()) as response:
            expected = min(at, 500)
            assert len(await response.content.readexactly(expected)) == expected
            response.close()
        await provider.wait_for(lambda: provider.disconnects == 1)
        assert provider.active == 0
        assert provider.answered == 0


async def test_a_hang_before_the_headers_ends_when_the_client_gives_up(
    session: aiohttp.ClientSession,
) -> None:
    async with open_provider(otherwise=Reply(hang_at=-1)) as provider, asyncio.TaskGroup() as group:
        asked = group.create_task(session.post(provider.url + CHAT, json=ask()).__aenter__())
        await provider.wait_requests(1)
        assert not asked.done()
        asked.cancel()
        await provider.wait_for(lambda: provider.disconnects == 1)
        assert provider.active == 0
        assert provider.answered == 0


@pytest.mark.parametrize(("path", "ping"), [(CHAT, b": keep-alive\n\n"), (MESSAGES, b"event: ping\n")])
async def test_a_hanging_stream_pings_between_events_and_is_silent_inside_one(
    session: aiohttp.ClientSession, path: str, ping: bytes
) -> None:
    script = {"between": [Reply(hang_at=0, ping=0.001)], "inside": [Reply(hang_at=100, ping=0.001)]}
    async with (
        open_provider(script) as provider,
        session.post(provider.url + path, json=ask("inside")) as silent,
        session.post(provider.url + path, json=ask("between")) as pinged,
    ):
        await silent.content.readexactly(100)
        for _ in range(10):
            await pinged.content.readuntil(ping)
        assert silent.content.total_bytes == 100


async def test_a_client_that_leaves_between_two_pieces_is_noticed(
    session: aiohttp.ClientSession, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        async with open_provider(otherwise=Reply(chunks=2, gap=3600)) as provider:
            for path in WIRES:
                async with session.post(provider.url + path, json=ask()) as response:
                    await response.content.readuntil(b"\n\n")
                    response.close()
            await provider.wait_for(lambda: provider.disconnects == 2)
            assert provider.active == 0
    assert not caplog.records


async def test_the_headers_come_before_the_delay(session: aiohttp.ClientSession) -> None:
    async with (
        open_provider(otherwise=Reply(delay=3600)) as provider,
        session.post(provider.url + CHAT, json=ask()) as response,
    ):
        assert response.status == 200
        assert response.content_type == "text/event-stream"
        assert response.content.total_bytes == 0
        response.close()


async def test_many_streams_run_at_once(session: aiohttp.ClientSession) -> None:
    enough = asyncio.Event()

    async def listen(url: str) -> None:
        async with session.post(url, json=ask()) as response:
            await response.content.readuntil(b"[DONE]\n\n")
            await enough.wait()

    async with open_provider(otherwise=Reply(hang_at=1_000_000)) as provider, asyncio.TaskGroup() as group:
        for _ in range(100):
            group.create_task(listen(provider.url + CHAT))
        await provider.wait_requests(100)
        assert provider.active == 100
        assert provider.peak == 100
        enough.set()
        await provider.wait_for(lambda: provider.disconnects == 100)
        assert provider.active == 0
        assert provider.peak == 100


async def test_closing_the_provider_ends_its_streams(
    session: aiohttp.ClientSession, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_provider(otherwise=Reply(hang_at=10)) as provider:
        response = await session.post(provider.url + CHAT, json=ask())
        await response.content.readexactly(10)
    async with response:
        assert await read_to_the_end(response) == (b"", True)
    assert provider.active == 0
    assert provider.disconnects == 0
    assert not caplog.records


async def test_the_same_port_can_be_opened_again(session: aiohttp.ClientSession) -> None:
    async with open_provider() as provider:
        port = int(provider.url.rpartition(":")[2])
    async with open_provider(port=port) as again, session.post(again.url + CHAT, json=ask()) as response:
        assert response.status == 200


async def test_calls_of_two_providers_never_share_an_id(session: aiohttp.ClientSession) -> None:
    ids = []
    for _ in range(2):
        async with open_provider(otherwise=Reply(tools=(ToolUse("ls"),))) as provider:
            for _ in range(2):
                async with session.post(provider.url + CHAT, json=ask(stream=False)) as response:
                    message = (await response.json())["choices"][0]["message"]
                    ids.append(message["tool_calls"][0]["id"])
    assert len(set(ids)) == 4


async def test_a_prompt_may_contain_its_own_reply(session: aiohttp.ClientSession) -> None:
    async with (
        open_provider() as provider,
        session.post(provider.url + CHAT, json=ask('[[{"text": "told"}]]', stream=False)) as response,
    ):
        assert (await response.json())["choices"][0]["message"]["content"] == "told"


@pytest.mark.parametrize("path", WIRES)
@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"{}", b'{"messages": 1}', b'{"messages": [1]}'])
async def test_a_body_that_no_provider_reads_is_refused(
    session: aiohttp.ClientSession, path: str, raw: bytes
) -> None:
    async with open_provider() as provider:
        async with session.post(provider.url + path, data=raw) as response:
            assert response.status == 400
            assert "list of messages" in json.dumps(await response.json())
        assert provider.answered == 1


async def serve_by_hand() -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "asyncagents.testing.provider", stdout=asyncio.subprocess.PIPE
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_provider_started_by_hand_serves_until_a_signal(
    session: aiohttp.ClientSession, number: signal.Signals
) -> None:
    process = await serve_by_hand()
    assert process.stdout is not None
    try:
        url = (await process.stdout.readline()).decode().strip()
        async with session.post(url + CHAT, json=ask('[[{"hang_at": 5}]]')) as response:
            await response.content.readexactly(5)
            process.send_signal(number)
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()

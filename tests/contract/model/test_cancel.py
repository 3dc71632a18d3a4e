"""Whoever stops listening ends the request: the connection closes at once."""

import asyncio
from contextlib import aclosing

import pytest

from asyncagents.llm.http.client import HttpClient
from asyncagents.llm.model import ModelEvent, TextDelta
from asyncagents.testing.provider import Provider, Reply, open_provider
from tests.support.llm.wire import Wire, ask_model, finish_of, hanging_script, request, text_of


async def left(provider: Provider, clients: int = 1) -> None:
    await provider.wait_for(lambda: provider.disconnects == clients and provider.active == 0)


async def test_closing_the_stream_closes_the_connection(wire: Wire, http: HttpClient) -> None:
    async with open_provider(otherwise=hanging_script(wire)) as provider:
        async with aclosing(wire.model(http, provider.url).stream(request())) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    break
        await left(provider)


@pytest.mark.parametrize("hang_at", [-1, 0])
async def test_cancelling_the_wait_for_the_first_event_closes_the_connection(
    wire: Wire, http: HttpClient, hang_at: int
) -> None:
    async with open_provider(otherwise=Reply(hang_at=hang_at, ping=0)) as provider:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(ask_model(wire.model(http, provider.url)))
            await provider.wait_requests(1)
            task.cancel()
        assert task.cancelled()
        await left(provider)


async def test_cancelling_the_wait_for_the_next_event_closes_the_connection(
    wire: Wire, http: HttpClient
) -> None:
    heard: list[ModelEvent] = []
    spoke = asyncio.Event()

    async def listen(provider: Provider) -> None:
        async with aclosing(wire.model(http, provider.url).stream(request())) as events:
            async for event in events:
                heard.append(event)
                if isinstance(event, TextDelta):
                    spoke.set()

    async with open_provider(otherwise=hanging_script(wire)) as provider:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(listen(provider))
            await spoke.wait()
            task.cancel()
        await left(provider)
    assert text_of(heard) == "one "
    assert finish_of(heard) is None


async def test_a_stream_that_is_never_read_sends_no_request(wire: Wire, http: HttpClient) -> None:
    async with open_provider() as provider:
        stream = wire.model(http, provider.url).stream(request())
        await stream.aclose()
        assert provider.asked == 0


async def test_an_exception_of_the_listener_closes_the_connection(wire: Wire, http: HttpClient) -> None:
    async def listen(provider: Provider) -> None:
        async with aclosing(wire.model(http, provider.url).stream(request())) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    raise LookupError

    async with open_provider(otherwise=hanging_script(wire)) as provider:
        with pytest.raises(LookupError):
            await listen(provider)
        await left(provider)


async def test_two_hundred_streams_are_cancelled_together(wire: Wire, http: HttpClient) -> None:
    async with open_provider(otherwise=hanging_script(wire), remember=False) as provider:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(ask_model(wire.model(http, provider.url))) for _ in range(200)]
            await provider.wait_for(lambda: provider.active == 200)
            for task in tasks:
                task.cancel()
        await left(provider, clients=200)

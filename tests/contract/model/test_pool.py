"""One pool of connections serves everyone."""

import asyncio

from asyncagents.llm.http.client import HttpClient, open_http_client
from asyncagents.llm.model import StepFinish, UserTurn
from asyncagents.testing.provider import Reply, open_provider
from tests.support.llm.wire import Wire, ask_model, finish_of, open_raw, read_request, request, text_of


async def test_two_hundred_streams_at_once_are_all_answered(wire: Wire, http: HttpClient) -> None:
    script = {f"prompt {n}": [Reply(text=f"answer {n} " * 20, chunks=20, gap=0.001)] for n in range(200)}
    async with open_provider(script, remember=False) as provider:
        model = wire.model(http, provider.url)
        async with asyncio.TaskGroup() as group:
            tasks = {prompt: group.create_task(ask_model(model, prompt)) for prompt in script}
    for prompt, task in tasks.items():
        events = task.result()
        assert text_of(events) == script[prompt][0].text
        assert isinstance(finish_of(events), StepFinish)


async def test_a_connection_is_used_again_after_an_answer_was_read_to_its_end(
    wire: Wire, http: HttpClient
) -> None:
    connections = 0
    body = b"".join(wire.stream_of(Reply(text="fine")))
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        while True:
            await read_request(reader)
            writer.write(head + b"%x\r\n%b\r\n" % (len(body), body))
            await writer.drain()
            writer.write(b"0\r\n\r\n")
            await writer.drain()

    async with open_raw(serve) as url, open_http_client() as http:
        for _ in range(5):
            assert text_of(await ask_model(wire.model(http, url))) == "fine"
    assert connections == 1


async def test_a_prompt_of_several_megabytes_is_sent_whole(wire: Wire, http: HttpClient) -> None:
    text = "long ü " * 500_000
    async with open_provider() as provider:
        events = [event async for event in wire.model(http, provider.url).stream(request(text))]
        assert finish_of(events) is not None
        assert text in str(provider.requests[0].body["messages"])


async def test_the_history_may_grow_while_its_request_is_under_way(wire: Wire, http: HttpClient) -> None:
    asked = request()
    async with open_provider() as provider:
        async for _ in wire.model(http, provider.url).stream(asked):
            assert isinstance(asked.messages, list)
            asked.messages.append(UserTurn("more"))
        assert len(provider.requests) == 1

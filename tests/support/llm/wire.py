"""Both wires behind one door, and servers that do what no provider should."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from msgspec import Struct

from asyncagents.config.secret import Secret
from asyncagents.domain.conversation.failure import (
    APICause,
    APIError,
    ContentFilterError,
    ContextOverflowError,
    Failure,
    ProviderAuthError,
)
from asyncagents.domain.conversation.message import ModelRef
from asyncagents.llm.anthropic.adapter import AnthropicMessages
from asyncagents.llm.http.client import HttpClient
from asyncagents.llm.http.request import Endpoint
from asyncagents.llm.model import (
    ChatRequest,
    Model,
    ModelEvent,
    StepFinish,
    StreamError,
    TextDelta,
    ToolSpec,
    UserTurn,
)
from asyncagents.llm.openai.adapter import OpenAIChat
from asyncagents.testing.provider import Reply, anthropic_bytes, openai_bytes

KEY = "sk-local-0123456789"
TOOLS = (ToolSpec("read", "Read a file.", {"type": "object"}), ToolSpec("ls", "List.", {"type": "object"}))


class Wire(Struct, frozen=True):
    name: str
    adapter: Callable[[HttpClient, Endpoint], Model]
    path: str
    stream_of: Callable[[Reply], list[bytes]]
    """The bytes of an answer, in its pieces."""

    def model(self, http: HttpClient, url: str, **endpoint: Any) -> Model:
        given: dict[str, Any] = {"api_key": Secret(KEY), "provider_id": "local", **endpoint}
        return self.adapter(http, Endpoint(base_url=f"{url}/v1", **given))


OPENAI = Wire("openai", OpenAIChat, "/v1/chat/completions", openai_bytes)
ANTHROPIC = Wire("anthropic", AnthropicMessages, "/v1/messages", anthropic_bytes)


def hanging_script(wire: Wire, ping: float = 0) -> Reply:
    """Two pieces, "one " and "two", of which the second never comes."""
    first, *rest = wire.stream_of(Reply(text="one two", chunks=2))
    return Reply(body=first + b"".join(rest), hang_at=len(first), ping=ping)


def request(text: str = "hi", **given: Any) -> ChatRequest:
    model = ModelRef(provider_id="local", model_id="sage-1")
    return ChatRequest(model=model, messages=[UserTurn(text)], tools=TOOLS, system="Be brief.", **given)


async def ask_model(model: Model, text: str = "hi") -> list[ModelEvent]:
    return [event async for event in model.stream(request(text))]


def text_of(events: list[ModelEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def finish_of(events: list[ModelEvent]) -> StepFinish | None:
    return next((event for event in events if isinstance(event, StepFinish)), None)


def failure_of(events: list[ModelEvent]) -> StreamError:
    """The failure that ended the stream: there is one, it comes last, and no finish beside it."""
    (error,) = (event for event in events if isinstance(event, StreamError))
    assert events[-1] is error
    assert finish_of(events) is None
    return error


def cause_of(events: list[ModelEvent]) -> APICause:
    failure = failure_of(events).failure
    assert isinstance(failure, APIError)
    return failure.data


def message_of(failure: Failure) -> str:
    assert isinstance(failure, APIError | ProviderAuthError | ContextOverflowError | ContentFilterError)
    return failure.data.message


Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def open_raw(serve: Serve) -> AsyncIterator[str]:
    """A server that speaks bytes; its connections are closed when `serve` returns."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            await serve(reader, writer)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def read_request(reader: asyncio.StreamReader) -> bytes:
    """The head of one request; its body is read and dropped."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(
        int(line.partition(b":")[2])
        for line in head.lower().split(b"\r\n")
        if line.startswith(b"content-length:")
    )
    await reader.readexactly(length)
    return head


def answer_always(answer: bytes) -> Serve:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(answer)
        await writer.drain()

    return serve

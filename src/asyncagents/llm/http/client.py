"""The HTTP client for all providers: one connection pool, and streamed requests."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from io import BytesIO

import aiohttp
import msgspec

from asyncagents.domain.sse import EventTooLong, SseDecoder, SseEvent
from asyncagents.llm.http.answer_size import AnswerSize, AnswerTooLarge
from asyncagents.llm.http.error_body import is_error
from asyncagents.llm.http.errors import (
    ProviderResponse,
    answer_too_large,
    bad_response,
    first_event_timeout,
    idle_timeout,
    invalid_request,
    provider_error,
)
from asyncagents.llm.http.idle_timeout import IdleTimeout
from asyncagents.llm.http.network_errors import network_error
from asyncagents.llm.http.redact import longest_secret
from asyncagents.llm.http.request import ProviderRequest, WireReader
from asyncagents.llm.model import ModelEvent, StepStart, StreamError, StreamStart

READ_SIZE = 16 * 1024
MAX_EVENT = 16 * 1024 * 1024
"""The most bytes of one event or line of a stream."""
CONNECT_SECONDS = 10.0
KEEP_ALIVE_SECONDS = 60.0
DNS_CACHE_SECONDS = 300
FINAL_EVENTS_SECONDS = 10.0
"""How long a stream may take after its finish reason to send its usage."""
DRAIN_SECONDS = 0.25
"""How long to read on until the connection can be reused."""
ERROR_BODY = 64 * 1024
ERROR_BODY_SECONDS = 10.0
HEAD_KEPT = 512

# Some servers stream under one of the generic content types.
_STREAM_TYPES = frozenset({"text/event-stream", "text/plain", "application/octet-stream"})


@asynccontextmanager
async def open_http_client() -> AsyncIterator["HttpClient"]:
    """Open the client. Connections are unlimited: `Limits` bounds the requests per model."""
    connector = aiohttp.TCPConnector(
        limit=0, keepalive_timeout=KEEP_ALIVE_SECONDS, ttl_dns_cache=DNS_CACHE_SECONDS
    )
    async with aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
        headers={"user-agent": "asyncagents", "accept-encoding": "identity"},
        trust_env=False,
    ) as session:
        yield HttpClient(session)


class HttpClient:
    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def stream(self, request: ProviderRequest, reader: WireReader) -> AsyncGenerator[ModelEvent, None]:
        """Yield the events; closing the generator or cancelling its reader closes the connection at once."""
        response = await self._open(request)
        if isinstance(response, StreamError):
            yield response
            return
        _limit_read_size(response)
        body = _ResponseStream(request, reader, response)
        try:
            yield StreamStart()
            yield StepStart()
            while (events := await body.read_events()) is not None:
                for event in events:
                    yield event
            for event in body.final_events():
                yield event
            await body.drain()
        finally:
            body.close()

    async def _open(self, request: ProviderRequest) -> aiohttp.ClientResponse | StreamError:
        target = request.target
        try:
            request.check()
            data = BytesIO(request.body())
        except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
            return invalid_request(target, error)
        try:
            async with asyncio.timeout(request.first_seconds or None):
                response = await self._session.post(
                    request.url, data=data, headers=request.headers, allow_redirects=False
                )
                return response if _is_event_stream(response) else await _read_error(request, response)
        except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError):
            return invalid_request(target, ValueError(f"{target.url} is no address"))
        except (aiohttp.ClientError, OSError) as error:
            if isinstance(error, TimeoutError) and not isinstance(error, aiohttp.ClientError):
                return first_event_timeout(target, request.first_seconds)
            return network_error(target, error)
        except ValueError as error:
            return invalid_request(target, error)


def _limit_read_size(response: aiohttp.ClientResponse) -> None:
    """Read in small buffers: asyncio allocates 256 KiB for every chunk of a plain socket."""
    transport = response.connection.transport if response.connection else None
    if transport is not None and hasattr(transport, "max_size"):
        transport.max_size = READ_SIZE


class _ResponseStream:
    """Read the body of one stream and pass its SSE data to a `WireReader`."""

    def __init__(
        self, request: ProviderRequest, reader: WireReader, response: aiohttp.ClientResponse
    ) -> None:
        self._target = request.target
        self._reader = reader
        self._response = response
        self._decoder = SseDecoder(MAX_EVENT)
        self._timeout = IdleTimeout(request.first_seconds, request.idle_seconds, response.close)
        # A secret that begins within HEAD_KEPT must be complete, or it cannot be redacted.
        self._head_size = HEAD_KEPT + longest_secret(self._target.secrets)
        self._head = b""
        self._finishing = False
        self._ended = False
        self._error: StreamError | None = None
        self._excess: StreamError | None = None
        self._size = AnswerSize()

    async def read_events(self) -> list[ModelEvent] | None:
        """Return the events in the next bytes; None at the end of the stream."""
        reader, watch = self._reader, self._timeout
        if reader.finished and not self._finishing:
            self._finishing = True
            watch.set_limit(FINAL_EVENTS_SECONDS)
        elif reader.has_content and not self._finishing:
            reader.has_content = False
            watch.note_content()
        if self._ended or reader.is_over or watch.is_late:
            return None
        watch.waiting = True
        try:
            chunk = await self._response.content.readany()
            if chunk:
                watch.touch()
                self._size.add_bytes(len(chunk))
                if len(self._head) < self._head_size:
                    self._head += chunk[: self._head_size - len(self._head)]
                return self._read_data(self._decoder.feed(chunk))
        except AnswerTooLarge as error:
            self._excess = answer_too_large(self._target, error)
            return None
        except (aiohttp.ClientError, OSError, EventTooLong) as error:
            self._error = self._stream_error(error)
            return None
        finally:
            watch.waiting = False
        self._ended = True
        return self._read_data(self._decoder.end())

    def _read_data(self, events: list[SseEvent]) -> list[ModelEvent]:
        """Pass on only the data: both wires have the event type in the data."""
        return self._reader.read([event.data for event in events])

    def final_events(self) -> list[ModelEvent]:
        """Return the events after the last bytes; a connection error after the finish reason is ignored."""
        self._timeout.stop()
        if self._excess is not None and not self._reader.finished:
            return [self._excess]
        if self._reader.failed:
            return []
        if self._error is not None and not self._reader.finished:
            return [self._error]
        if not self._reader.started and self._head.strip():
            return [bad_response(self._target, "no events", ProviderResponse(body=self._head), HEAD_KEPT)]
        return self._reader.end()

    async def drain(self) -> None:
        """Read the rest of the body for a short time, so that the connection can be reused."""
        if self._excess is not None or self._response.content.at_eof():
            return
        with suppress(aiohttp.ClientError, OSError):
            async with asyncio.timeout(DRAIN_SECONDS):
                while await self._response.content.readany():
                    pass

    def close(self) -> None:
        self._timeout.stop()
        self._response.close()

    def _stream_error(self, error: Exception) -> StreamError:
        if self._timeout.expired:
            build_error = idle_timeout if self._timeout.has_started else first_event_timeout
            return build_error(self._target, self._timeout.seconds)
        if isinstance(error, EventTooLong):
            return bad_response(
                self._target, "too much at once", ProviderResponse(body=self._head), HEAD_KEPT
            )
        return network_error(self._target, error)


def _is_event_stream(response: aiohttp.ClientResponse) -> bool:
    return 200 <= response.status < 300 and response.content_type in _STREAM_TYPES


async def _read_error(request: ProviderRequest, response: aiohttp.ClientResponse) -> StreamError:
    """Return the error for a response that is not a stream, and close the response."""
    try:
        body = await _read_body(response)
    finally:
        response.close()
    answer = ProviderResponse(body=body, status=response.status, headers=response.headers)
    if not 200 <= response.status < 300:
        return provider_error(request.target, answer)
    if is_error(body):
        return provider_error(request.target, ProviderResponse(body=body, headers=response.headers))
    return bad_response(request.target, f"{response.content_type} instead of a stream of events", answer)


async def _read_body(response: aiohttp.ClientResponse) -> bytes:
    """Read an error's body as far as possible; a failure to read is ignored."""
    body = bytearray()
    with suppress(aiohttp.ClientError, OSError):
        async with asyncio.timeout(ERROR_BODY_SECONDS):
            while len(body) < ERROR_BODY and (chunk := await response.content.readany()):
                body += chunk
    return bytes(body[:ERROR_BODY])

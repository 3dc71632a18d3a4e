"""The HTTP client for all providers: one connection pool, and streamed requests."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from io import BytesIO

import aiohttp
import msgspec

from asyncagents.llm.http.answer_size import AnswerSize, AnswerTooLarge
from asyncagents.llm.http.error_body import is_complaint
from asyncagents.llm.http.errors import Answer, garbled, oversized, refused, silent, unanswered, unsendable
from asyncagents.llm.http.idle_timeout import Watch
from asyncagents.llm.http.network_errors import network_fault
from asyncagents.llm.http.redact import longest
from asyncagents.llm.http.request import Post, Reader
from asyncagents.llm.http.sse import EventTooLong, SseDecoder
from asyncagents.llm.model import ModelEvent, StepStart, StreamError, StreamStart

READ_SIZE = 16 * 1024
CONNECT_SECONDS = 10.0
KEEP_ALIVE_SECONDS = 60.0
DNS_CACHE_SECONDS = 300
LAST_WORDS_SECONDS = 10.0
"""How long a stream may take after its finish reason to send its usage."""
DRAIN_SECONDS = 0.25
"""How long to read on until the connection can be reused."""
ERROR_BODY = 64 * 1024
ERROR_BODY_SECONDS = 10.0
HEAD_KEPT = 512

# Some servers stream under one of the generic content types.
_STREAM_TYPES = frozenset({"text/event-stream", "text/plain", "application/octet-stream"})


@asynccontextmanager
async def open_http() -> AsyncIterator["Http"]:
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
        yield Http(session)


class Http:
    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def stream(self, post: Post, reader: Reader) -> AsyncGenerator[ModelEvent, None]:
        """Yield the events; closing the generator or cancelling its reader closes the connection at once."""
        response = await self._open(post)
        if isinstance(response, StreamError):
            yield response
            return
        _read_small(response)
        body = _Body(post, reader, response)
        try:
            yield StreamStart()
            yield StepStart()
            while (events := await body.more()) is not None:
                for event in events:
                    yield event
            for event in body.last():
                yield event
            await body.drain()
        finally:
            body.close()

    async def _open(self, post: Post) -> aiohttp.ClientResponse | StreamError:
        target = post.target
        try:
            post.check()
            data = BytesIO(post.body())
        except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
            return unsendable(target, error)
        try:
            async with asyncio.timeout(post.first_seconds or None):
                response = await self._session.post(
                    post.url, data=data, headers=post.headers, allow_redirects=False
                )
                return response if _streams(response) else await _complaint(post, response)
        except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError):
            return unsendable(target, ValueError(f"{target.url} is no address"))
        except (aiohttp.ClientError, OSError) as error:
            if isinstance(error, TimeoutError) and not isinstance(error, aiohttp.ClientError):
                return unanswered(target, post.first_seconds)
            return network_fault(target, error)
        except ValueError as error:
            return unsendable(target, error)


def _read_small(response: aiohttp.ClientResponse) -> None:
    """Read in small buffers: asyncio allocates 256 KiB for every chunk of a plain socket."""
    transport = response.connection.transport if response.connection else None
    if transport is not None and hasattr(transport, "max_size"):
        transport.max_size = READ_SIZE


class _Body:
    """Read the body of one stream and pass its SSE data to a `WireReader`."""

    def __init__(self, post: Post, reader: Reader, response: aiohttp.ClientResponse) -> None:
        self._target = post.target
        self._reader = reader
        self._response = response
        self._decoder = SseDecoder()
        self._watch = Watch(post.first_seconds, post.idle_seconds, response.close)
        # A secret that begins within HEAD_KEPT must be complete, or it cannot be redacted.
        self._head_size = HEAD_KEPT + longest(self._target.hidden)
        self._head = b""
        self._leaving = False
        self._ended = False
        self._fault: StreamError | None = None
        self._excess: StreamError | None = None
        self._size = AnswerSize()

    async def more(self) -> list[ModelEvent] | None:
        """Return the events in the next bytes; None at the end of the stream."""
        reader, watch = self._reader, self._watch
        if reader.finished and not self._leaving:
            self._leaving = True
            watch.limit(LAST_WORDS_SECONDS)
        elif reader.heard and not self._leaving:
            reader.heard = False
            watch.mean()
        if self._ended or reader.over or watch.late:
            return None
        watch.waiting = True
        try:
            chunk = await self._response.content.readany()
            if chunk:
                watch.touch()
                self._size.add_bytes(len(chunk))
                if len(self._head) < self._head_size:
                    self._head += chunk[: self._head_size - len(self._head)]
                return reader.read(self._decoder.feed(chunk))
        except AnswerTooLarge as error:
            self._excess = oversized(self._target, error)
            return None
        except (aiohttp.ClientError, OSError, EventTooLong) as error:
            self._fault = self._broken(error)
            return None
        finally:
            watch.waiting = False
        self._ended = True
        return reader.read(self._decoder.end())

    def last(self) -> list[ModelEvent]:
        """Return the events after the last bytes; a connection error after the finish reason is ignored."""
        self._watch.stop()
        if self._excess is not None and not self._reader.finished:
            return [self._excess]
        if self._reader.failed:
            return []
        if self._fault is not None and not self._reader.finished:
            return [self._fault]
        if not self._reader.begun and self._head.strip():
            return [garbled(self._target, "no events", Answer(body=self._head), HEAD_KEPT)]
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
        self._watch.stop()
        self._response.close()

    def _broken(self, error: Exception) -> StreamError:
        if self._watch.expired:
            told = silent if self._watch.begun else unanswered
            return told(self._target, self._watch.seconds)
        if isinstance(error, EventTooLong):
            return garbled(self._target, "too much at once", Answer(body=self._head), HEAD_KEPT)
        return network_fault(self._target, error)


def _streams(response: aiohttp.ClientResponse) -> bool:
    return 200 <= response.status < 300 and response.content_type in _STREAM_TYPES


async def _complaint(post: Post, response: aiohttp.ClientResponse) -> StreamError:
    """Return the error for a response that is not a stream, and close the response."""
    try:
        body = await _read(response)
    finally:
        response.close()
    answer = Answer(body=body, status=response.status, headers=response.headers)
    if not 200 <= response.status < 300:
        return refused(post.target, answer)
    if is_complaint(body):
        return refused(post.target, Answer(body=body, headers=response.headers))
    return garbled(post.target, f"{response.content_type} instead of a stream of events", answer)


async def _read(response: aiohttp.ClientResponse) -> bytes:
    """Read an error's body as far as possible; a failure to read is ignored."""
    body = bytearray()
    with suppress(aiohttp.ClientError, OSError):
        async with asyncio.timeout(ERROR_BODY_SECONDS):
            while len(body) < ERROR_BODY and (chunk := await response.content.readany()):
                body += chunk
    return bytes(body[:ERROR_BODY])

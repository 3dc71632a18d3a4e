"""HTTP transport that retries requests, under the same key, while the server is unreachable."""

import asyncio
import errno
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

from aiohttp import (
    ClientConnectorError,
    ClientError,
    ClientResponse,
    ClientSession,
    ClientSSLError,
    ClientTimeout,
    TraceConfig,
    TraceRequestHeadersSentParams,
)
from msgspec import Struct

from asyncagents.client.errors import error_from_response
from asyncagents.client.server_finder import ServerAddress, ServerFinder
from asyncagents.domain.shape import encode
from asyncagents.errors import Unavailable

CONNECT_SECONDS = 10.0
RESPONSE_IDLE_SECONDS = 90.0
"""Max seconds without a byte of the response; no request waits for a model."""
STREAM_IDLE_SECONDS = 60.0
"""Max seconds without a byte of a stream; a live server sends heartbeats more often."""
MOST_TRIES = 10
"""Tries that got through to the server and still reset the backoff; later ones do not."""
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0

_RETRYABLE = frozenset({429, 502, 504})
CONNECTION_ERRORS = (ClientError, TimeoutError, ConnectionError)


class ServerUnreachable(Unavailable):
    """The server was unreachable for too long; a plain `Unavailable` comes from a server that answers."""


class ApiRequest(Struct, frozen=True, kw_only=True):
    """`key`: idempotency key. `response_if_gone`: body to return if a retry is answered with 404."""

    method: str
    path: str
    query: Mapping[str, str] = {}
    body: Any = None
    key: str | None = None
    response_if_gone: bytes | None = None

    @property
    def headers(self) -> dict[str, str]:
        kind = {"content-type": "application/json"} if self._has_body else {}
        return kind if self.key is None else kind | {"idempotency-key": self.key}

    @property
    def content(self) -> bytes | None:
        return encode(self.body if self.body is not None else {}) if self._has_body else None

    @property
    def _has_body(self) -> bool:
        return self.method in {"POST", "PUT"}


class ReconnectBackoff:
    """Backoff between tries, and the time limit since the server last responded."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._now = asyncio.get_running_loop().time
        self.reset()

    def reset(self) -> None:
        self._end = self._now() + self._seconds
        self._pause = FIRST_PAUSE

    async def wait(self, error: Exception, wait: float = 0.0) -> None:
        """Sleep before the next try. Raises `ServerUnreachable` if that would exceed the time limit."""
        pause = max(self._pause, wait)
        if self._now() + pause > self._end:
            known = isinstance(error, Unavailable)
            raise ServerUnreachable(
                str(error) if known else f"the server does not respond: {_describe_error(error)}"
            ) from error
        await asyncio.sleep(pause)
        self._pause = min(LONGEST_PAUSE, self._pause * 2)


def _describe_error(error: Exception) -> str:
    """Describe a failed connection in the words of the system: those of aiohttp list its own settings."""
    if isinstance(error, ClientConnectorError) and not isinstance(error, ClientSSLError):
        reason = error.os_error
        if reason.errno is not None and reason.errno in errno.errorcode:
            return os.strerror(reason.errno)
        return reason.strerror or str(reason)
    return str(error) or type(error).__name__


class Tries:
    """Counts how often a request was sent, including aiohttp's own silent retries."""

    def __init__(self) -> None:
        self.count = 0


def count_tries() -> TraceConfig:
    """Return a trace config that counts sends in the request's `Tries`."""
    config = TraceConfig()
    config.on_request_headers_sent.append(_count)
    return config


async def _count(
    session: ClientSession, context: SimpleNamespace, sent: TraceRequestHeadersSentParams
) -> None:
    if isinstance(context.trace_request_ctx, Tries):
        context.trace_request_ctx.count += 1


class Transport:
    """Sends requests to a server and retries them. `http` must be opened with `count_tries`."""

    def __init__(self, http: ClientSession, find: ServerFinder, *, patience: float) -> None:
        self._http = http
        self._find_server = find
        self._reconnect_seconds = patience

    def new_backoff(self) -> ReconnectBackoff:
        return ReconnectBackoff(self._reconnect_seconds)

    async def request(self, request: ApiRequest) -> bytes:
        """Send a request and return the body. Raises the server's error, or `ServerUnreachable`."""
        patience, tries = self.new_backoff(), Tries()
        while True:
            before = tries.count
            try:
                async with self._send(self._find_server(), request, _RESPONSE_TIMEOUT, tries) as response:
                    body = await response.read()
            except (Unavailable, *CONNECTION_ERRORS) as error:
                if before < tries.count <= MOST_TRIES:  # the try reached the server
                    patience.reset()
                await patience.wait(error)
                continue
            if response.status < 400:
                return body
            if response.status == 404 and request.response_if_gone is not None and tries.count > 1:
                return request.response_if_gone
            refused = error_from_response(response.status, body)
            if not _is_retryable(response):
                raise refused
            await patience.wait(refused, _retry_after(response))

    @asynccontextmanager
    async def open_stream(self, request: ApiRequest) -> AsyncIterator[ClientResponse]:
        """Open a stream with one try. Raises the server's error or the connection error."""
        async with self._send(self._find_server(), request, _STREAM_TIMEOUT, Tries()) as response:
            if response.status >= 400:
                error = error_from_response(response.status, await response.read())
                raise Unavailable(str(error)) if _is_retryable(response) else error
            yield response

    @asynccontextmanager
    async def _send(
        self, address: ServerAddress, request: ApiRequest, timeout: ClientTimeout, tries: Tries
    ) -> AsyncIterator[ClientResponse]:
        async with self._http.request(
            request.method,
            address.url + request.path,
            params=dict(request.query),
            data=request.content,
            headers=address.headers | request.headers,
            timeout=timeout,
            trace_request_ctx=tries,
            allow_redirects=False,
        ) as response:
            yield response


_RESPONSE_TIMEOUT = ClientTimeout(total=None, connect=CONNECT_SECONDS, sock_read=RESPONSE_IDLE_SECONDS)
_STREAM_TIMEOUT = ClientTimeout(total=None, connect=CONNECT_SECONDS, sock_read=STREAM_IDLE_SECONDS)


def _is_retryable(response: ClientResponse) -> bool:
    """Whether to retry: a stopping server closes or sends Retry-After; 429, 502 and 504 are temporary."""
    if response.status == 503:
        closing = response.headers.get("connection", "").lower() == "close"
        return closing or "retry-after" in response.headers
    return response.status in _RETRYABLE


def _retry_after(response: ClientResponse) -> float:
    header = response.headers.get("retry-after", "")
    return float(header) if header.isascii() and header.isdecimal() and len(header) < 6 else 0.0

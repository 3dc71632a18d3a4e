"""HTTP transport that retries requests, under the same key, while the server is unreachable."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

from aiohttp import (
    ClientError,
    ClientResponse,
    ClientSession,
    ClientTimeout,
    TraceConfig,
    TraceRequestHeadersSentParams,
)
from msgspec import Struct

from asyncagents.client.errors import refusal
from asyncagents.client.server_finder import Address, Finder
from asyncagents.domain.shape import encode
from asyncagents.errors import Unavailable

CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 90.0
"""Max seconds without a byte of the response; no request waits for a model."""
SILENCE_SECONDS = 60.0
"""Max seconds without a byte of a stream; a live server sends heartbeats more often."""
MOST_TRIES = 10
"""Tries that got through to the server and still reset the backoff; later ones do not."""
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0

_PASSING = frozenset({429, 502, 504})
LOST = (ClientError, TimeoutError, ConnectionError)


class Lost(Unavailable):
    """The server was unreachable for too long; a plain `Unavailable` comes from a server that answers."""


class Question(Struct, frozen=True, kw_only=True):
    """`key`: idempotency key. `response_if_gone`: body to return if a retry is answered with 404."""

    method: str
    path: str
    query: Mapping[str, str] = {}
    body: Any = None
    key: str | None = None
    gone: bytes | None = None

    @property
    def headers(self) -> dict[str, str]:
        kind = {"content-type": "application/json"} if self.method == "POST" else {}
        return kind if self.key is None else kind | {"idempotency-key": self.key}

    @property
    def content(self) -> bytes | None:
        return encode(self.body if self.body is not None else {}) if self.method == "POST" else None


class Patience:
    """Backoff between tries, and the time limit since the server last responded."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._now = asyncio.get_running_loop().time
        self.heard()

    def heard(self) -> None:
        self._end = self._now() + self._seconds
        self._pause = FIRST_PAUSE

    async def rest(self, error: Exception, wait: float = 0.0) -> None:
        """Sleep before the next try. Raises `ServerUnreachable` if that would exceed the time limit."""
        pause = max(self._pause, wait)
        if self._now() + pause > self._end:
            known = isinstance(error, Unavailable)
            raise Lost(str(error) if known else f"the server does not respond: {_told(error)}") from error
        await asyncio.sleep(pause)
        self._pause = min(LONGEST_PAUSE, self._pause * 2)


def _told(error: Exception) -> str:
    return str(error) or type(error).__name__


class Tries:
    """Counts how often a request was sent, including aiohttp's own silent retries."""

    def __init__(self) -> None:
        self.count = 0


def counting() -> TraceConfig:
    """Return a trace config that counts sends in the request's `Tries`."""
    config = TraceConfig()
    config.on_request_headers_sent.append(_count)
    return config


async def _count(
    session: ClientSession, context: SimpleNamespace, sent: TraceRequestHeadersSentParams
) -> None:
    if isinstance(context.trace_request_ctx, Tries):
        context.trace_request_ctx.count += 1


class Link:
    """Sends requests to a server and retries them. `http` must be opened with `count_tries`."""

    def __init__(self, http: ClientSession, find: Finder, *, patience: float) -> None:
        self._http = http
        self._find = find
        self._patience = patience

    def patience(self) -> Patience:
        return Patience(self._patience)

    async def ask(self, question: Question) -> bytes:
        """Send a request and return the body. Raises the server's error, or `ServerUnreachable`."""
        patience, tries = self.patience(), Tries()
        while True:
            before = tries.count
            try:
                async with self._sent(self._find(), question, _ANSWERED, tries) as response:
                    body = await response.read()
            except (Unavailable, *LOST) as error:
                if before < tries.count <= MOST_TRIES:  # the try reached the server
                    patience.heard()
                await patience.rest(error)
                continue
            if response.status < 400:
                return body
            if response.status == 404 and question.gone is not None and tries.count > 1:
                return question.gone
            refused = refusal(response.status, body)
            if not _comes_back(response):
                raise refused
            await patience.rest(refused, _pause_of(response))

    @asynccontextmanager
    async def listen(self, question: Question) -> AsyncIterator[ClientResponse]:
        """Open a stream with one try. Raises the server's error or the connection error."""
        async with self._sent(self._find(), question, _STREAMED, Tries()) as response:
            if response.status >= 400:
                error = refusal(response.status, await response.read())
                raise Unavailable(str(error)) if _comes_back(response) else error
            yield response

    @asynccontextmanager
    async def _sent(
        self, to: Address, question: Question, timeout: ClientTimeout, tries: Tries
    ) -> AsyncIterator[ClientResponse]:
        async with self._http.request(
            question.method,
            to.url + question.path,
            params=dict(question.query),
            data=question.content,
            headers=to.headers | question.headers,
            timeout=timeout,
            trace_request_ctx=tries,
            allow_redirects=False,
        ) as response:
            yield response


_ANSWERED = ClientTimeout(total=None, connect=CONNECT_SECONDS, sock_read=ANSWER_SECONDS)
_STREAMED = ClientTimeout(total=None, connect=CONNECT_SECONDS, sock_read=SILENCE_SECONDS)


def _comes_back(response: ClientResponse) -> bool:
    """Whether to retry: a stopping server closes or sends Retry-After; 429, 502 and 504 are temporary."""
    if response.status == 503:
        closing = response.headers.get("connection", "").lower() == "close"
        return closing or "retry-after" in response.headers
    return response.status in _PASSING


def _pause_of(response: ClientResponse) -> float:
    said = response.headers.get("retry-after", "")
    return float(said) if said.isascii() and said.isdecimal() and len(said) < 6 else 0.0
